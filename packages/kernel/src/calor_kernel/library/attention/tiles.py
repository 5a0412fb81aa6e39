"""Register tiles of attention: products of small matrices, of which one lies in private memory.

Requirements: sums stay in registers and each vector of the right operand serves all rows, as in the
products of the library; the left operand is read where a tile was just written, by rows or by
columns, so that the weights of a block serve as both.
"""

from __future__ import annotations

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
    """Return the numbers of a vector's elements, of which the first is ``start``."""
    return splat(start, lanes) + constant(tuple(range(lanes)), start.dtype)


@helper
def load_rows(
    tile: Any,
    stride: int,
    rows: int,
    source: Any,
    starts: list[Any],
    step: Any,
    count: Any,
    lanes: int,
    contiguous: bool,
    factor: Any,
) -> None:
    """Copy rows to a tile in private memory, converted and multiplied by a factor."""
    for p in loop_range(0, count, lanes):
        place = along(p, lanes)
        inside = place < count
        for r in range(rows):
            if contiguous:
                value = source.load(starts[r] + p, lanes, mask=inside)
            else:
                value = source.load(starts[r] + place * step, mask=inside)
            tile.store(r * stride + p, value.to(tile.dtype) * factor)
