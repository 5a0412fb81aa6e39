"""Products by matrix instructions: tiles in shared memory, fragments in registers.

Requirements: operands of half types with dense rows or columns, sums in float32. Copies run some
stages ahead of the products. A step waits for its own products, also for asynchronous ones, because
the compiler serialises products that outlast a step. Two cubes share a core, so one computes while
the other waits.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.contract.launching import Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, end_sums
from calor_kernel.library.gemm.lines import Lines
from calor_kernel.library.gemm.mma import ACCESS, MmaPlan, store
from calor_kernel.library.matmul.task import Batches, Sizes, Task

# Concurrent cubes of warp groups cover this many rows of tiles and share what they read.
BAND = 8


@kl.kernel
def matmul_mma(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    a_stride: kl.Stride,
    b_stride: kl.Stride,
    batches: Batches[kl.Number],
    after: After | None,
    *,
    plan: MmaPlan,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of C. ``a_stride``, ``b_stride``: of the axis that is not dense."""
    m, n, k = sizes.m, sizes.n, sizes.k
    batch = kl.cube_position(2)
    a_start, b_start = batches.starts(batch)
    down, across = tile_of_cube(plan)
    first_row, first_column = down * plan.rows, across * plan.columns
    pipe = kl.Pipeline(plan.stages, *plan.tiles, how=kl.way_of_units())
    sums, row, column = plan.sums()
    left = Lines(a, a_start, a_stride, first_row, m, plan.a_along)
    right = Lines(b, b_start, b_stride, first_column, n, plan.b_along)

    def load(pipe: kl.Pipeline, begin: kl.Index) -> None:
        take_tile(pipe, plan, left, True, k, begin)
        take_tile(pipe, plan, right, False, k, begin)

    plan.accumulate(sums, pipe, (load,), row, column, 0, k)
    top, start = first_row + row, first_column + column
    if epilogue is not None and after is not None:
        ends = Writer(epilogue, after, c, batch)
        end_sums(ends, sums, batch, (top, start), (m, n), even=True)
        return
    place = (batch * m + top) * n + start
    if (first_row + plan.rows <= m) & (first_column + plan.columns <= n):
        store(sums, c, place, n, None)
    else:
        store(sums, c, place, n, (m - top, n - start))


@kl.helper
def tile_of_cube(plan: MmaPlan) -> tuple[kl.Index, kl.Index]:
    """Return the row and column of a cube's tile.

    Tiles of warp groups follow bands of rows, each from top to bottom.
    """
    if not plan.grouped:
        return kl.cube_position(1), kl.cube_position(0)
    number = kl.cube_position(0) + kl.cube_count(0) * kl.cube_position(1)
    whole = kl.cube_count(0) * BAND
    first = number // whole * BAND
    rows = kl.min(kl.cube_count(1) - first, BAND)
    place = number % whole
    return first + place % rows, place // rows


@kl.helper
def take_tile(
    pipe: kl.Pipeline, plan: MmaPlan, lines: Lines, first: bool, k: kl.Index, begin: kl.Index
) -> None:
    """Start copying an operand's tile of a step to the next stage, with 0 beyond the operand."""
    size, at = plan.rows if first else plan.columns, plan.layout(first)
    pieces = size * plan.depth // plan.access
    for turn in range(-(-pieces // plan.units)):
        piece = kl.unit_index() + turn * plan.units
        place, p = lines.split(piece, size, plan.depth, plan.access)
        to = at(place, p) if first else at(p, place)
        across, deep = lines.first + place, begin + p
        of = lines.index(across, deep)
        inside = lines.inside(across, deep, k)
        if (pieces % plan.units == 0) or (piece < pieces):
            pipe.copy(0 if first else 1, to, lines.source, of, plan.access, inside)


def staged_launch(task: Task, plan: MmaPlan) -> Launch:
    """Return the launch of a plan, for operands with a dense axis."""
    product, count = task.product, plan.access
    strides = (o.free if o.depth == 1 else o.depth for o in (product.a, product.b))
    a_stride, b_stride = (Multiple(stride, count) for stride in strides)
    a, b = task.operands(ACCESS, ACCESS)
    tf32 = " tf32" if product.tf32 else ""
    return launch(
        matmul_mma,
        Grid(task.tiles(plan.rows, plan.columns), (plan.units, 1, 1), task.info.planes[0]),
        task.effort(f"matmul {plan.kind} {plan.rows}x{plan.columns}{tf32}"),
        a=a, b=b, c=task.result(ACCESS), sizes=task.sizes(count), a_stride=a_stride,
        b_stride=b_stride, batches=task.batches(count, count), plan=plan, **task.following(count),
    )  # fmt: skip
