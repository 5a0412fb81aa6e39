"""Orders in which a unit adds to its sums in one step of the K axis.

Requirements: every order updates each sum once, so results do not depend on the order. The number
of register reads does. NVIDIA registers lie in two banks, and each bank delivers one register a
cycle; a multiply-add needs three. A register is reused only if the previous FMA read it in the same
slot with the reuse flag. (Zhang et al., "Understanding the GPU Microarchitecture", 2017; Huerta et
al., "Analyzing Modern NVIDIA GPU cores", 2025; serpentine orders are CUTLASS's.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

Place = tuple[int, int]


def _rows(high: int, wide: int) -> list[Place]:
    return [(i, j) for i in range(high) for j in range(wide)]


def _columns(high: int, wide: int) -> list[Place]:
    """Go down one column and up the next: the row stays the same at each turn."""
    return [(high - 1 - i if j % 2 else i, j) for j in range(wide) for i in range(high)]


def _row_pairs(high: int, wide: int) -> list[Place]:
    """Go along two rows together, and back along the next two."""
    found = []
    for top in range(0, high, 2):
        for number in range(wide):
            j = wide - 1 - number if top % 4 else number
            found += [(top + (number + q) % 2, j) for q in range(2)]
    return found


def _column_pairs(high: int, wide: int) -> list[Place]:
    return [(i, j) for j, i in _row_pairs(wide, high)]


ORDERS: Final[Mapping[str, Callable[[int, int], list[Place]]]] = MappingProxyType(
    {
        "rows": _rows,
        "columns": _columns,
        "row pairs": _row_pairs,
        "column pairs": _column_pairs,
    }
)


@cache
def numbers(order: str, high: int, wide: int) -> Mapping[Place, int]:
    """Return the index of each of ``high`` by ``wide`` sums, both even, in the order of updates.

    >>> dict(numbers("columns", 2, 2))
    {(0, 0): 0, (1, 0): 1, (1, 1): 2, (0, 1): 3}
    """
    return MappingProxyType({place: n for n, place in enumerate(ORDERS[order](high, wide))})
