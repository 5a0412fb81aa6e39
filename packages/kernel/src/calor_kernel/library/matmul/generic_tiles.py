"""Products by cubes of many units: tiles in shared memory, sums in registers.

Requirements: a cube reads each element of the operands from global memory once a step, with
neighbouring units along the contiguous axis. Any strides, sizes and types. Two tiles alternate: one
is loaded while the other is multiplied.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import cube_position, kernel, unit_index
from calor_kernel.library.gemm.generic import GenericPlan, fill_tile, generic_tile, multiply


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
    plan: GenericPlan,
    a_along: bool,
    b_along: bool,
) -> None:
    """Compute a tile of C, its rows from y and its columns from x.

    ``a_along``, ``b_along``: whether the operand is contiguous along the K axis.
    """
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    first_row, first_column = cube_position(1) * plan.height, cube_position(0) * plan.width
    unit = unit_index()
    tile = generic_tile(plan)

    def load_a(side: Any, begin: Any) -> None:
        fill_tile(
            tile.left, side * (plan.height * plan.depth), a, a_start, first_row, m, begin, k,
            a_row, a_depth, unit, plan.units, plan.height, plan.depth, a_along, plan.accumulate,
        )  # fmt: skip

    def load_b(side: Any, begin: Any) -> None:
        fill_tile(
            tile.right, side * (plan.depth * plan.width), b, b_start, first_column, n, begin, k,
            b_column, b_depth, unit, plan.units, plan.width, plan.depth, b_along, plan.accumulate,
        )  # fmt: skip

    multiply(tile, (load_a, load_b), 0, k)
    for i, row in tile.rows(first_row):
        for j, column in tile.columns(first_column):
            if (row < m) and (column < n):
                c[(batch * m + row) * n + column] = tile.sums[i, j].to(c.dtype)
