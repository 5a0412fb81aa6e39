"""Register tiles of attention: products of small matrices, one of them in private memory.

Requirements: sums stay in registers and each vector of the right operand serves all rows, as in the
library's matrix products. The left operand is a tile just written to private memory. It is read by
rows or by columns, so that a block's weights serve as both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor_kernel.language import constant, fma, helper, loop_range, splat

_UNROLL = 4


@helper
def multiply(
    acc: Any,
    left: Any,
    starts: list[Any],
    left_step: int,
    right: Any,
    at: Any,
    right_step: Any,
    count: Any,
    masks: list[Any],
) -> None:
    """Add ``count`` products to each sum: row r of the left operand begins at ``starts[r]``.

    The right operand's rows are ``right_step`` apart from ``at`` on; lanes without a mask are 0.
    """
    main = count // _UNROLL * _UNROLL
    for p in loop_range(0, main, _UNROLL):
        for u in range(_UNROLL):
            _add_products(
                acc, left, starts, (p + u) * left_step, right, at, p + u, right_step, masks
            )
    for p in loop_range(main, count):
        _add_products(acc, left, starts, p * left_step, right, at, p, right_step, masks)


def _add_products(
    acc: Any,
    left: Any,
    starts: list[Any],
    left_at: Any,
    right: Any,
    at: Any,
    p: Any,
    right_step: Any,
    masks: list[Any],
) -> None:
    rows, vectors = acc.shape
    lanes = acc.type.width
    first = at + p * right_step
    columns = [right.load(first + v * lanes, lanes, mask=masks[v]) for v in range(vectors)]
    for r in range(rows):
        value = splat(left[starts[r] + left_at], lanes)
        for v in range(vectors):
            acc[r, v] = fma(value, columns[v], acc[r, v])


def along(start: Any, lanes: int) -> Any:
    """Return the indices of a vector's elements from ``start`` on."""
    return splat(start, lanes) + constant(tuple(range(lanes)), start.dtype)


@dataclass(frozen=True, slots=True)
class Columns:
    """A right operand in global memory: rows of ``width`` elements, with vectors along them.

    Rows are ``row_step`` apart. Panels have a tile's width and are ``panel_step`` apart.
    ``ragged``: elements of the last panel beyond the width are masked; otherwise they exist.
    """

    memory: Any
    at: Any
    panel_step: Any
    row_step: Any
    width: Any
    ragged: bool

    def multiply(
        self, acc: Any, left: Any, starts: list[Any], step: int, column: Any, row: Any, count: Any
    ) -> None:
        """Add the products with ``count`` rows from ``row`` on, of the panel of a column."""
        _, vectors = acc.shape
        lanes = acc.type.width
        masks = [
            along(column + v * lanes, lanes) < self.width if self.ragged else None
            for v in range(vectors)
        ]
        at = self.at + column // (vectors * lanes) * self.panel_step + row * self.row_step
        multiply(acc, left, starts, step, self.memory, at, self.row_step, count, masks)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of ``width`` elements in global memory, by strides."""

    memory: Any
    at: Any
    row_step: Any
    step: Any
    width: Any
    contiguous: bool

    @helper
    def copy(
        self, tile: Any, room: int, places: list[Any], lanes: int, factor: Any, vectors: int = 1
    ) -> None:
        """Copy rows to a tile, converted and scaled, with zeros up to whole ``vectors``."""
        span = lanes * vectors
        for p in loop_range(0, (self.width + span - 1) // span * span, lanes):
            place = along(p, lanes)
            inside = place < self.width
            for r, row in enumerate(places):
                start = self.at + row * self.row_step
                if self.contiguous:
                    value = self.memory.load(start + p, lanes, mask=inside)
                else:
                    value = self.memory.load(start + place * self.step, mask=inside)
                tile.store(r * room + p, value.to(tile.dtype) * factor)
