"""Products in float32 by cubes of many units: each unit sums patches of four by four in registers.

Requirements: every access of memory is of four elements, also where an operand lies the other way;
the next step's tiles are on their way while this one's are multiplied; each sum is formed in the
order of the summed axis, by fused multiply-adds, as in every other way of computing products.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import float32
from calor_kernel.language import (
    Pipeline,
    cube_position,
    helper,
    kernel,
    launch_attributes,
    pack,
    registers,
    unit_index,
)
from calor_kernel.library.matmul.simt_plan import FOUR, Patches
from calor_kernel.library.matmul.simt_staging import add_early, add_loaded, add_step
from calor_kernel.library.panels import fill_ahead, work_through


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
    """Compute a tile of c. ``a_stride``, ``b_stride``: of the axis that is not dense."""
    launch_attributes(cubes_per_core=plan.together)
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    y, x = woven(plan)
    operands = (a, a_start, a_stride, first_row, m), (b, b_start, b_stride, first_column, n)
    # As they are numbered they are carried through loops, and compilers see them added to.
    sums = registers(len(plan.numbers), float32)
    if plan.stages:
        add_ahead(sums, operands, k, y, x, plan)
    elif plan.early:
        add_early(sums, operands, k, y, x, plan)
    else:
        add_loaded(sums, operands, k, y, x, plan)
    for i in range(FOUR * plan.high):
        row = first_row + y + i // FOUR * (FOUR * plan.down) + i % FOUR
        for j in range(plan.wide):
            column = first_column + x + j * (FOUR * plan.across)
            if (row < m) & (column < n):
                four = pack([sums[plan.numbers[i, FOUR * j + q]] for q in range(FOUR)])
                c.store((batch * m + row) * n + column, four)


@helper
def add_ahead(sums: Any, operands: Any, k: Any, y: Any, x: Any, plan: Any) -> None:
    """Add a tile's products, while later steps are copied to shared memory.

    No registers hold them, and no compiler puts off what hides the way to memory.
    """
    pipe = Pipeline(plan.stages, *plan.tiles, how="async")

    def take(begin: Any) -> None:
        for tile in range(2):
            copy_tile(pipe, tile, operands[tile], k, begin, plan)

    def work(begin: Any) -> None:
        add_step(sums, pipe.stage(0).at(y), pipe.stage(1).at(x), plan)

    fill_ahead(pipe, take, 0, plan.depth)
    work_through(pipe, take, work, 0, k, plan.depth)


@helper
def copy_tile(pipe: Any, tile: int, operand: Any, k: Any, begin: Any, plan: Any) -> None:
    """Copy an operand's part of a step, of which neighbours take what lies dense."""
    source, start, stride, first, count = operand
    size, along = (plan.rows, plan.a_along) if tile == 0 else (plan.columns, plan.b_along)
    # What is turned on its way is copied one by one.
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


def woven(plan: Patches) -> tuple[Any, Any]:
    """Return the row and column of a unit's first patch.

    Units that go together are four down by eight across, neighbours below each other, so that
    accesses of shared memory by all of them meet few banks twice (Gray, maxas, 2014).
    """
    unit = unit_index()
    if plan.down % 4 or plan.across % 8:
        return unit // plan.across * FOUR, unit % plan.across * FOUR
    group, place = unit // 32, unit % 32
    wide = plan.across // 8
    y = group // wide * 4 + (place % 2 + place // 16 * 2)
    x = group % wide * 8 + place // 2 % 8
    return y * FOUR, x * FOUR
