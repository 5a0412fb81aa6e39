"""Products of few rows, where both operands are contiguous along the summed axis.

Requirements: b is read once, in order, at the speed of memory, and never packed; vectors run along
the summed axis and are reduced at the end, in an order that depends on the blueprint alone.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    cube_position,
    fma,
    helper,
    kernel,
    loop_range,
    registers,
    vreduce,
)
from calor_kernel.library.matmul.packing import iota


@kernel
def dot_rows(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_row: Any,
    b_column: Any,
    inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    *,
    rows: int,
    columns: int,
    lanes: int,
    block: int,
    accumulate: DType,
) -> None:
    """Compute ``block`` columns of c from x and ``rows`` rows from y on, of batch z."""
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    row = cube_position(1) * rows
    a_at = [a_start + min(row + r, m - 1) * a_row for r in range(rows)]
    first = cube_position(0) * block
    last = min(first + block, n)
    whole = k // lanes * lanes
    for column in range(first, last, columns):
        b_at = [b_start + min(column + j, last - 1) * b_column for j in range(columns)]
        acc = registers((rows, columns), accumulate, lanes)
        for p in loop_range(0, whole, lanes):
            add_products(acc, a, a_at, b, b_at, p, None)
        if whole < k:
            inside = whole + iota(lanes, k) < k
            add_products(acc, a, a_at, b, b_at, whole, inside)
        for r in range(rows):
            for j in range(columns):
                if (row + r < m) and (column + j < last):
                    c[(batch * m + row + r) * n + column + j] = vreduce("add", acc[r, j]).to(
                        c.dtype
                    )


@helper
def add_products(
    acc: Any, a: Any, a_at: list[Any], b: Any, b_at: list[Any], p: Any, inside: Any
) -> None:
    """Add products of one vector of the summed axis."""
    rows, columns = acc.shape
    wide, lanes = acc.type.dtype, acc.type.width
    left = [a.load(a_at[r] + p, lanes, mask=inside).to(wide) for r in range(rows)]
    for j in range(columns):
        right = b.load(b_at[j] + p, lanes, mask=inside).to(wide)
        for r in range(rows):
            if wide.kind == "float":
                acc[r, j] = fma(left[r], right, acc[r, j])
            else:
                acc[r, j] = acc[r, j] + left[r] * right
