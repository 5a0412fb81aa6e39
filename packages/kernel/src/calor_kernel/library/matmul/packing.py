"""Packing an operand of a matrix product into panels that the inner loop reads in order.

Requirements: panels of ``width`` columns are adjacent. A panel has its rows of the K axis in order,
with groups of ``group`` rows interleaved (pairs of bfloat16, fours of int8), so that one vector
load feeds one instruction (Goto and van de Geijn, 2008). Elements beyond the matrix are zero.
Operands contiguous along the K axis are transposed in registers.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    constant,
    cube_count,
    cube_position,
    helper,
    kernel,
    loop_range,
    select,
    shuffle,
    splat,
)
from calor_kernel.library.transposition import transpose


@kernel
def pack(
    source: Any,
    panels: Any,
    n: Any,
    k: Any,
    depth_stride: Any,
    column_stride: Any,
    batch_inner: Any,
    outer_stride: Any,
    inner_stride: Any,
    base: Any,
    *,
    width: int,
    lanes: int,
    group: int,
    order: str,
    rows: int,
) -> None:
    """Pack ``source[k, n]`` to panels: cube (x, y, z) packs ``rows`` groups of rows of batch z.

    ``order``: the axis with stride 1, "columns", "depth" or neither ("any"). A few rows at a time
    go through all panels of x's share, so that memory sees few long streams.
    """
    first = cube_position(1) * rows
    batch = cube_position(2)
    start = base + batch // batch_inner * outer_stride + batch % batch_inner * inner_stride
    groups = (k + group - 1) // group
    panel_count = (n + width - 1) // width
    share = (panel_count + cube_count(0) - 1) // cube_count(0)
    first_panel = cube_position(0) * share
    target = batch * panel_count * groups * (width * group)
    stop = min(first + rows, groups)
    strides = depth_stride, column_stride
    for panel in range(first_panel, min(first_panel + share, panel_count)):
        for g in range(first, stop):
            for v in range(width // lanes):
                column = panel * width + v * lanes
                at = target + ((panel * groups + g) * width + v * lanes) * group
                parts = [
                    load_row(source, start, g * group + i, column, n, k, strides, lanes, order)
                    for i in range(group)
                ]
                panels.store(at, interleave(parts).to(panels.dtype))


@helper
def load_row(
    source: Any,
    start: Any,
    row: Any,
    column: Any,
    n: Any,
    k: Any,
    strides: tuple[Any, Any],
    lanes: int,
    order: str,
) -> Any:
    """Return ``lanes`` elements of a row from a column on, with 0 beyond the matrix."""
    depth_stride, column_stride = strides
    index = column + iota(lanes, column)
    inside = (index < n) & splat(row < k, lanes)
    if order == "columns":
        return source.load(start + row * depth_stride + column, lanes, mask=inside)
    place = start + row * depth_stride + index * column_stride
    return source.load(place, mask=inside)


def iota(lanes: int, like: Any) -> Any:
    """Return the vector 0, 1, … with the dtype of an index."""
    return constant(tuple(range(lanes)), like.dtype)


def interleave(parts: list[Any]) -> Any:
    """Return the interleaved elements of vectors: a0 b0 a1 b1 …"""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [_pair(parts[i], parts[i + half], len(parts)) for i in range(half)]
    return parts[0]


def _pair(a: Any, b: Any, count: int) -> Any:
    # Of four parts, first 0 with 2 and 1 with 3, so that the next round gives the right order.
    lanes = [lane for i in range(a.width) for lane in (i, a.width + i)]
    return shuffle(a, lanes, b)


@kernel
def pack_transposed(
    source: Any,
    panels: Any,
    n: Any,
    k: Any,
    depth_stride: Any,
    column_stride: Any,
    batch_inner: Any,
    outer_stride: Any,
    inner_stride: Any,
    base: Any,
    *,
    width: int,
    lanes: int,
    group: int,
    order: str,
    rows: int,
) -> None:
    """Pack as ``pack`` does if the K axis has stride 1, by transposing squares.

    ``rows`` is a multiple of ``lanes``; with a group, its elements count as one.
    """
    panel = cube_position(0)
    first = cube_position(1) * rows
    batch = cube_position(2)
    start = base + batch // batch_inner * outer_stride + batch % batch_inner * inner_stride
    panel_count = (n + width - 1) // width
    target = (batch * panel_count + panel) * k * width
    stop = min(first + rows, k)
    for v in loop_range(0, width, lanes):
        column = panel * width + v
        for row in range(first, stop, lanes):
            left = min(stop - row, lanes)
            inside = iota(lanes, k) < splat(left, lanes)
            square = []
            for i in range(lanes):
                place = min(column + i, n - 1)
                taken = source.load(start + place * column_stride + row, lanes, mask=inside)
                square.append(select(column + i < n, taken, constant(0, taken.dtype, lanes)))
            square = transpose(square)
            for i in range(lanes):
                if row + i < stop:
                    panels.store(target + (row + i) * width + v, square[i].to(panels.dtype))
