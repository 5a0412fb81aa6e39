"""Results of which most places see no tap: each number is written with the zeros around it.

Requirements: where a gradient's stride is larger than the window, one place of each cell of strides
sees taps, and the others are zeros; so sums are computed for those places alone, and whole cells
are written side by side, so that lines of memory are written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor_kernel.language import assume_multiple, constant, helper, pack

# Elements of an access at most.
_WIDE = 4


@dataclass(frozen=True, slots=True)
class Cells:
    """The ``sizes`` of a cell, down and across; the place in it that has the number is ``at``.

    ``access``: the elements that are written together.
    """

    sizes: tuple[int, int]
    at: tuple[int, int]
    access: int

    def row(self, value: Any, down: int) -> list[Any]:
        """Return the elements of a row of cells, of which ``value`` has the numbers."""
        across, zero = self.sizes[1], constant(0, value.dtype)
        numbers = [value[k] for k in range(value.width)] if down == self.at[0] else []
        made = [zero] * (value.width * across)
        made[self.at[1] :: across] = numbers or made[self.at[1] :: across]
        return made


def access_of(across: int, wide: int, together: int) -> int:
    """Return the elements of an access: of ``together`` cells of a row of ``wide`` elements."""
    return next(n for n in (_WIDE, 2, 1) if across * together % n == wide % n == 0)


@helper
def store_cells(
    c: Any, cells: Cells, value: Any, start: Any, place: Any, sizes: Sequence[Any], there: Any
) -> None:
    """Write cells beside each other, from a row and column of cells on, where they are inside.

    ``start``: where a plane of the result begins; ``sizes``: its rows and columns.
    """
    high, wide = sizes
    top, left = place[0] * cells.sizes[0], place[1] * cells.sizes[1]
    for down in range(cells.sizes[0]):
        made = cells.row(value, down)
        y = top + down
        for far in range(0, len(made), cells.access):
            x = left + far
            if there & (y < high) & (x < wide):
                at = assume_multiple(start + (y * wide + x), cells.access)
                c.store(at, pack(made[far : far + cells.access]))
