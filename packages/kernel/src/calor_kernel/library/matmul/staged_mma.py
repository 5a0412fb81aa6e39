"""Products by matrix instructions: tiles in shared memory, fragments in registers.

Requirements: operands of half types with dense rows or columns, sums in float32. Copies run some
stages ahead of the products. A step waits for its own products, also for asynchronous ones, because
the compiler serialises products that outlast a step. Two cubes share a core, so one computes while
the other waits.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    Pipeline,
    cube_count,
    cube_position,
    helper,
    kernel,
    unit_index,
    way_of_units,
)
from calor_kernel.library.gemm.mma import Fragments, store

# Concurrent cubes of warp groups cover this many rows of tiles and share what they read.
BAND = 8


@kernel
def matmul_fragments(
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
    plan: Fragments,
) -> None:
    """Compute a tile of C. ``a_stride``, ``b_stride``: of the axis that is not dense."""
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    down, across = tile_of_cube(plan)
    first_row, first_column = down * plan.rows, across * plan.columns
    pipe = Pipeline(plan.stages, *plan.tiles, how=way_of_units())
    sums, row, column = plan.sums()
    operands = (a, a_start, a_stride, first_row, m), (b, b_start, b_stride, first_column, n)

    def load(pipe: Any, begin: Any) -> None:
        take_tiles(pipe, plan, operands, k, begin)

    plan.accumulate(sums, pipe, (load,), row, column, 0, k)
    top, start = first_row + row, first_column + column
    place = (batch * m + top) * n + start
    if (first_row + plan.rows <= m) & (first_column + plan.columns <= n):
        store(sums, c, place, n, None)
    else:
        store(sums, c, place, n, (m - top, n - start))


@helper
def tile_of_cube(plan: Fragments) -> tuple[Any, Any]:
    """Return the row and column of a cube's tile.

    Tiles of warp groups follow bands of rows, each from top to bottom.
    """
    if not plan.grouped:
        return cube_position(1), cube_position(0)
    number = cube_position(0) + cube_count(0) * cube_position(1)
    whole = cube_count(0) * BAND
    first = number // whole * BAND
    rows = min(cube_count(1) - first, BAND)
    place = number % whole
    return first + place % rows, place // rows


@helper
def take_tiles(pipe: Any, plan: Any, operands: Any, k: Any, begin: Any) -> None:
    """Start copying a step's tiles to the next stage, with 0 beyond the operands.

    ``operands``: of each the buffer, its start, the stride of the axis that is not dense, and the
    first and the number of its rows or columns.
    """
    for tile in range(2):
        source, start, stride, first, count = operands[tile]
        size, along = (plan.rows, plan.a_along) if tile == 0 else (plan.columns, plan.b_along)
        at = plan.layout(tile == 0)
        pieces = size * plan.depth // plan.access
        lines = (plan.depth if along else size) // plan.access
        for turn in range(-(-pieces // plan.units)):
            piece = unit_index() + turn * plan.units
            line, access = piece // lines, piece % lines * plan.access
            if along:
                place, p = line, access
            else:
                place, p = access, line
            to = at(place, p) if tile == 0 else at(p, place)
            across, deep = first + place, begin + p
            if along:
                of = start + across * stride + deep
            else:
                of = start + deep * stride + across
            inside = (across < count) & (deep < k)
            if (pieces % plan.units == 0) or (piece < pieces):
                pipe.copy(tile, to, source, of, plan.access, inside)
