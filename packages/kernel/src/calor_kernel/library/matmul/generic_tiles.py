"""Products by cubes of many units: tiles in shared memory, sums in registers.

Requirements: each element of the operands is read from global memory once per cube and step, by
units side by side along whichever axis is contiguous; any strides, sizes and types; two tiles in
turn, so that the next is loaded while this one is used.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    barrier,
    constant,
    cube_position,
    fma,
    helper,
    kernel,
    loop_range,
    registers,
    shared,
    unit_index,
    unit_position,
)


@kernel
def tiled_matmul(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_row: Any,
    a_depth: Any,
    b_depth: Any,
    b_column: Any,
    inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    *,
    across: int,
    down: int,
    rows: int,
    columns: int,
    depth: int,
    accumulate: DType,
    a_along: bool,
    b_along: bool,
) -> None:
    """Compute a tile of c: ``down * rows`` rows from y, ``across * columns`` columns from x.

    The cube has ``across`` by ``down`` units; each has ``rows`` by ``columns`` sums, ``down`` and
    ``across`` apart, so that units side by side read side by side. ``a_along``, ``b_along``:
    whether the operand is contiguous along the summed axis.
    """
    height, width, units = down * rows, across * columns, across * down
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    first_row, first_column = cube_position(1) * height, cube_position(0) * width
    unit, x, y = unit_index(), unit_position(0), unit_position(1)
    left = shared(2 * height * depth, accumulate)
    right = shared(2 * depth * width, accumulate)
    acc = registers((rows, columns), accumulate)
    side = 0
    for begin in range(0, k, depth):
        fill_tile(
            left,
            side * (height * depth),
            a,
            a_start,
            first_row,
            m,
            begin,
            k,
            a_row,
            a_depth,
            unit,
            units,
            height,
            depth,
            a_along,
            accumulate,
        )
        fill_tile(
            right,
            side * (depth * width),
            b,
            b_start,
            first_column,
            n,
            begin,
            k,
            b_column,
            b_depth,
            unit,
            units,
            width,
            depth,
            b_along,
            accumulate,
        )
        barrier()
        l_at, r_at = side * (height * depth) + y, side * (depth * width) + x
        multiply_tiles(acc, left, right, l_at, r_at, down, across, depth, accumulate)
        # The other tile is filled next; this one is not written before all have passed the barrier.
        side = 1 - side
    for i in range(rows):
        row = first_row + y + i * down
        for j in range(columns):
            column = first_column + x + j * across
            if (row < m) and (column < n):
                c[(batch * m + row) * n + column] = acc[i, j].to(c.dtype)


@helper
def multiply_tiles(
    acc: Any,
    left: Any,
    right: Any,
    left_at: Any,
    right_at: Any,
    down: int,
    across: int,
    depth: int,
    accumulate: DType,
) -> None:
    """Add the products of two tiles in shared memory to a unit's sums.

    ``left_at``, ``right_at``: where the unit's first element of each tile is. Rows are ``down``
    apart and columns ``across``; a step along ``depth`` passes as many as the cube has.
    """
    rows, columns = acc.shape
    for p in loop_range(depth):
        xs = [right[right_at + p * (across * columns) + j * across] for j in range(columns)]
        for i in range(rows):
            value = left[left_at + p * (down * rows) + i * down]
            for j in range(columns):
                if accumulate.kind == "float":
                    acc[i, j] = fma(value, xs[j], acc[i, j])
                else:
                    acc[i, j] = acc[i, j] + value * xs[j]


@helper
def fill_tile(
    tile: Any,
    at: Any,
    source: Any,
    start: Any,
    first: Any,
    count: Any,
    begin: Any,
    k: Any,
    stride: Any,
    depth_stride: Any,
    unit: Any,
    units: int,
    size: int,
    depth: int,
    along: bool,
    accumulate: DType,
) -> None:
    """Fill a tile [depth, size] from the operand, 0 beyond it."""
    for turn in range(-(-size * depth // units)):
        i = unit + turn * units
        if along:
            place, p = i // depth, i % depth
        else:
            place, p = i % size, i // size
        value = constant(0, accumulate)
        if (p < depth) and (place < size):
            if (first + place < count) and (begin + p < k):
                taken = source[start + (first + place) * stride + (begin + p) * depth_stride]
                value = taken.to(accumulate)
            tile[at + p * size + place] = value
