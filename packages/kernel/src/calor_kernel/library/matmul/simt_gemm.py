"""Float32 products by cubes of many units, with SIMT register tiles of 4 x 4.

Requirements: every access of memory has four elements, also for an operand that is dense along K.
The next step's tiles are loaded while this one's are multiplied. Each sum adds its terms in the
order of the K axis, by fused multiply-adds, as in all other ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    Pipeline,
    cube_position,
    helper,
    kernel,
    launch_attributes,
    unit_index,
)
from calor_kernel.library.gemm.simt import multiply, simt_tile
from calor_kernel.library.gemm.simt_plan import FOUR, Patches
from calor_kernel.library.gemm.simt_staging import add_early, add_loaded


@kernel
def matmul_patches(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_stride: Any,
    b_stride: Any,
    inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    *,
    plan: Patches,
) -> None:
    """Compute a tile of C. ``a_stride``, ``b_stride``: of the axis that is not dense."""
    launch_attributes(cubes_per_core=plan.together)
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    operands = (a, a_start, a_stride, first_row, m), (b, b_start, b_stride, first_column, n)
    tile = simt_tile(plan)
    if plan.stages:
        # Asynchronous copies need no registers, and compilers do not delay them.
        pipe = Pipeline(plan.stages, *plan.tiles, how="async")
        loaders = [StridedLoader(number, one, k, plan) for number, one in enumerate(operands)]
        multiply(tile, pipe, loaders, 0, k)
    elif plan.early:
        add_early(tile.sums, operands, k, tile.y, tile.x, plan)
    else:
        add_loaded(tile.sums, operands, k, tile.y, tile.x, plan)
    for i, row in tile.rows(first_row):
        for j, column in tile.columns(first_column, FOUR):
            if (row < m) & (column < n):
                c.store((batch * m + row) * n + column, tile.value(i, j, FOUR))


@dataclass(frozen=True, slots=True)
class StridedLoader:
    """Copies an operand's tile of a step: a buffer, its start, stride, first line and line count.

    ``number``: 0 for the left operand, 1 for the right operand.
    """

    number: int
    operand: tuple[Any, Any, Any, Any, Any]
    k: Any
    plan: Patches

    def __call__(self, pipe: Pipeline, begin: Any) -> None:
        """Start copying the step that begins at a term."""
        copy_tile(pipe, self.number, self.operand, self.k, begin, self.plan)


@helper
def copy_tile(pipe: Any, tile: int, operand: Any, k: Any, begin: Any, plan: Any) -> None:
    """Copy an operand's tile of a step; neighbouring units copy adjacent elements."""
    source, start, stride, first, count = operand
    size, along = (plan.rows, plan.a_along) if tile == 0 else (plan.columns, plan.b_along)
    # A transposing copy has single elements.
    wide = 1 if along else FOUR
    whole = size * plan.depth // wide
    for turn in range(-(-whole // plan.units)):
        piece = unit_index() + turn * plan.units
        if along:
            place, deep = piece // plan.depth, piece % plan.depth
            index = start + (first + place) * stride + (begin + deep)
        else:
            place, deep = piece % (size // FOUR) * FOUR, piece // (size // FOUR)
            index = start + (begin + deep) * stride + (first + place)
        inside = (first + place < count) & (begin + deep < k)
        if (whole % plan.units == 0) or (piece < whole):
            pipe.copy(tile, place + deep * (size + FOUR), source, index, wide, inside)
