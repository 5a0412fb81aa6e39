"""Float32 products by cubes of many units, with SIMT register tiles of 4 x 4.

Requirements: every access of memory has four elements, also for an operand that is dense along K.
The next step's tiles are loaded while this one's are multiplied. Each sum adds its terms in the
order of the K axis, by fused multiply-adds, as in all other ways.
"""

from __future__ import annotations

from collections.abc import Mapping

from calor.dtypes import float32, int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, end_runs, writer
from calor_kernel.library.gemm.joined_parts import (
    ALONE,
    add_parts,
    completes,
    joins,
    joint_bytes,
    joint_memory,
)
from calor_kernel.library.gemm.lines import Lines
from calor_kernel.library.gemm.simt import SimtTile, add_early, add_loaded, multiply, simt_tile
from calor_kernel.library.gemm.simt_plan import ACCESS, FOUR, SimtPlan
from calor_kernel.library.matmul.problem import narrow
from calor_kernel.library.matmul.split_sums import Parts, in_parts
from calor_kernel.library.matmul.task import Batches, Sizes, Task


@kl.kernel
def matmul_simt(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    a_stride: kl.Stride,
    b_stride: kl.Stride,
    batches: Batches[kl.Number],
    count: kl.Size | None,
    length: kl.Size | None,
    left_sums: kl.InOut | None,
    flags: kl.InOut | None,
    many: kl.Size | None,
    after: After | None,
    *,
    plan: SimtPlan,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of C. ``a_stride``, ``b_stride``: of the axis that is not dense.

    With a ``length``, of a part of so many terms, for each of ``count`` products. ``left_sums``:
    room for the sums of ``many`` parts, which the last cube of a tile adds.
    """
    kl.launch_attributes(cubes_per_core=plan.together)
    m, n, k = sizes.m, sizes.n, sizes.k
    number = kl.cube_position(2)
    batch = number
    if count is not None:
        batch = number % count
    a_start, b_start = batches.starts(batch)
    if count is not None and length is not None:
        begin = number // count * length
        a_start = a_start + (begin if plan.a_along else begin * a_stride)
        b_start = b_start + (begin if plan.b_along else begin * b_stride)
        k = kl.min(length, k - begin)
    first_row, first_column = kl.cube_position(1) * plan.rows, kl.cube_position(0) * plan.columns
    left = Lines(a, a_start, a_stride, first_row, m, plan.a_along)
    right = Lines(b, b_start, b_stride, first_column, n, plan.b_along)
    tile = simt_tile(plan)
    if plan.stages:
        # Asynchronous copies need no registers, and compilers do not delay them.
        pipe = kl.Pipeline(plan.stages, *plan.tiles, how="async")

        def load(pipe: kl.Pipeline, begin: kl.Index) -> None:
            copy_tile(pipe, 0, left, k, begin, plan)
            copy_tile(pipe, 1, right, k, begin, plan)

        multiply(tile, pipe, (load,), 0, k)
    elif plan.early:
        add_early(tile, left, right, k)
    else:
        add_loaded(tile, left, right, k)
    ends = writer(epilogue, after, c, batch)
    first = first_row, first_column
    if left_sums is None or flags is None or many is None or count is None:
        write_tile(ends, tile, c, (number, batch), first, (m, n))
        return
    if completes(tile, left_sums, flags, many, count):
        add_parts(tile, left_sums, many, count)
        write_tile(ends, tile, c, (batch, batch), first, (m, n))


@kl.helper
def write_tile(
    ends: Writer | None,
    tile: SimtTile,
    c: kl.Pointer,
    numbers: tuple[kl.Index, kl.Index],
    first: tuple[kl.Index, kl.Index],
    whole: tuple[kl.Number, kl.Number],
    run: int = FOUR,
) -> None:
    """Write a unit's sums, or what follows them.

    ``numbers``: of the matrix in memory and of the product; ``first``: the first row and column of
    the tile; ``run``: the columns of an access, which divide those of the result.
    """
    number, batch = numbers
    m, n = whole
    if ends is not None:
        end_tile(ends, tile, batch, first, whole, run)
        return
    for i, row in tile.rows(first[0]):
        for j, column in tile.columns(first[1], run):
            if (row < m) & (column < n):
                c.store((number * m + row) * n + column, tile.value(i, j, run))


@kl.helper
def end_tile(
    ends: Writer,
    tile: SimtTile,
    batch: kl.Index,
    first: tuple[kl.Index, kl.Index],
    whole: tuple[kl.Index, kl.Index],
    run: int = FOUR,
) -> None:
    """Write what follows a unit's sums; ``first``: the first row and column of the tile.

    ``run``: the columns of an access, which divide those of the result.
    """
    columns = [(j, kl.assume_multiple(column, run)) for j, column in tile.columns(first[1], run)]
    if not ends.heavy:
        for i, row in tile.rows(first[0]):
            runs = [(tile.value(i, j, run), row, column, None) for j, column in columns]
            end_runs(ends, runs, batch, whole)
        return
    # Sums have indices of the build alone, so a loop over rows reads them from memory.
    plan = tile.plan
    count = FOUR * plan.wide
    room = kl.private(len(plan.numbers), float32, align=ACCESS)
    for i in range(FOUR * plan.high):
        for j, _ in columns:
            room.store(i * count + j, tile.value(i, j, run))
    for i in kl.loop_range(FOUR * plan.high):
        row = first[0] + tile.y + i // FOUR * (FOUR * plan.down) + i % FOUR
        runs = [(room.load(i * count + j, run), row, column, None) for j, column in columns]
        end_runs(ends, runs, batch, whole)


@kl.helper
def copy_tile(
    pipe: kl.Pipeline, tile: int, lines: Lines, k: kl.Number, begin: kl.Index, plan: SimtPlan
) -> None:
    """Copy an operand's tile of a step; neighbouring units copy adjacent elements."""
    size = plan.columns if tile else plan.rows
    # A transposing copy has single elements.
    wide = 1 if lines.along else FOUR
    whole = size * plan.depth // wide
    for turn in range(-(-whole // plan.units)):
        piece = kl.unit_index() + turn * plan.units
        if lines.along:
            place, deep = piece // plan.depth, piece % plan.depth
        else:
            place, deep = piece % (size // FOUR) * FOUR, piece // (size // FOUR)
        index = lines.index(lines.first + place, begin + deep)
        inside = lines.inside(lines.first + place, begin + deep, k)
        if (whole % plan.units == 0) or (piece < whole):
            pipe.copy(tile, place + deep * (size + FOUR), lines.source, index, wide, inside)


def with_joint(task: Task, plan: SimtPlan, count: int) -> tuple[Task, dict[str, object]]:
    """Return the task with room for the sums of ``count`` parts, and the launch's arguments."""
    columns, rows, products = task.tiles(plan.rows, plan.columns)
    tiles = columns * rows * products
    place, task = task.room(joint_bytes(count, tiles, plan))
    return task, joint_memory(place, count, tiles)


def simt_in_parts(task: Task, plan: SimtPlan, parts: int) -> tuple[Task, list[Launch]]:
    """Return the launches of a plan with the K axis in parts."""
    split = Parts.of(task.product.k, parts, plan.depth)
    if joins(split.count, plan, task.info):
        task, joint = with_joint(task, plan, split.count)
        return task, [simt_launch(task, plan, split, task.result(), joint)]
    task, target, after = in_parts(task, split)
    return task, [simt_launch(task, plan, split, target), *after]


def simt_launch(
    task: Task,
    plan: SimtPlan,
    split: Parts | None = None,
    target: Bound | None = None,
    joint: Mapping[str, object] = ALONE,
) -> Launch:
    """Return the launch of a plan, for operands with a dense axis.

    ``target``: that of parts; ``joint``: the memory of parts that the launch adds.
    """
    product, c, parts = task.product, task.result(ACCESS), 1
    own: dict[str, object] = {"count": None, "length": None}
    if split is not None and target is not None and split.count > 1:
        c, parts = Bound(target.place, target.dtype, ACCESS), split.count
        own = {"count": product.batches, "length": Multiple(split.length, plan.depth)}
    strides = (o.free if o.depth == 1 else o.depth for o in (product.a, product.b))
    a_stride, b_stride = (Multiple(stride, FOUR) for stride in strides)
    a, b = task.operands(ACCESS, ACCESS)
    # 64-bit addresses double the instructions beside the multiplications.
    index = int32 if narrow(product) else int64
    columns, rows, batches = task.tiles(plan.rows, plan.columns)
    tiles, cube = (columns, rows, batches * parts), (plan.units, 1, 1)
    return launch(
        matmul_simt,
        Grid(tiles, cube, task.info.planes[0], index),
        task.effort(f"matmul patches {plan.rows}x{plan.columns}"),
        a=a, b=b, c=c, sizes=task.sizes(FOUR), a_stride=a_stride,
        b_stride=b_stride, batches=task.batches(FOUR, FOUR), plan=plan, **own, **joint,
        **task.following(FOUR),
    )  # fmt: skip
