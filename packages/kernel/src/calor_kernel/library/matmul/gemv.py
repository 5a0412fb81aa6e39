"""Products of few rows: B is read once, at the speed of memory.

Requirements: B is never packed, and is read in order along its contiguous axis. Either vectors run
along the K axis and are reduced at the end, or they run along the columns, with several rows of B
together, so that the processor sees few long streams. The order of a sum depends on the blueprint
alone. A long sum is one of sums of blocks: the roundings of thousands of terms do not add up.
"""

from __future__ import annotations

from dataclasses import replace

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.launching import Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.matmul.blueprints import Dots, Streams
from calor_kernel.library.matmul.packing import iota
from calor_kernel.library.matmul.task import Batches, Sizes, Task

# Terms that a lane adds one after another.
_BLOCK = 256


@kl.kernel
def dot_rows(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    a_row: kl.Stride,
    b_column: kl.Stride,
    batches: Batches[kl.Number],
    block: kl.Size,
    after: After | None,
    *,
    plan: Dots,
    epilogue: Epilogue | None = None,
    turned: bool = False,
) -> None:
    """Compute ``block`` columns of c from x and the plan's rows from y on, of batch z.

    ``turned``: the transpose of c is written.
    """
    m, n, k, rows, columns = sizes.m, sizes.n, sizes.k, plan.rows, plan.columns
    lanes, accumulate = plan.lanes, plan.accumulate
    batch = kl.cube_position(2)
    a_start, b_start = batches.starts(batch)
    row = kl.cube_position(1) * rows
    a_at = [a_start + kl.min(row + r, m - 1) * a_row for r in kl.range(rows)]
    first = kl.cube_position(0) * block
    last = kl.min(first + block, n)
    whole, long = k // lanes * lanes, _BLOCK * lanes
    blocks = kl.private(rows * columns * lanes, accumulate, align=64)
    ends = writer(epilogue, after, c, batch)
    for column in kl.range(first, last, columns):
        b_at = [b_start + kl.min(column + j, last - 1) * b_column for j in kl.range(columns)]
        acc = kl.registers((rows, columns), accumulate, lanes)
        for start in kl.loop_range(0, whole, long):
            if start > 0:
                set_aside(acc, blocks, start > long)
            for p in kl.loop_range(start, kl.min(start + long, whole), lanes):
                add_products(acc, a, a_at, b, b_at, p, None)
        if whole > long:
            take_back(acc, blocks)
        if whole < k:
            inside = whole + iota(lanes, k) < k
            add_products(acc, a, a_at, b, b_at, whole, inside)
        for r in kl.range(rows):
            if ends is not None:
                if row + r < m:
                    total = kl.pack([kl.vreduce("add", acc[r, j]) for j in kl.range(columns)])
                    exist = column + iota(columns, n) < last if columns > 1 else None
                    ends.write((batch * m + row + r) * n + column, total, row + r, column, exist)
                continue
            for j in kl.range(columns):
                if (row + r < m) and (column + j < last):
                    if turned:
                        at = (batch * n + column + j) * m + row + r
                    else:
                        at = (batch * m + row + r) * n + column + j
                    c[at] = kl.vreduce("add", acc[r, j]).to(c.dtype)


@kl.helper
def add_products(
    acc: kl.Registers,
    a: kl.Pointer,
    a_at: list[kl.Number],
    b: kl.Pointer,
    b_at: list[kl.Number],
    p: kl.Index,
    inside: kl.Number | None,
) -> None:
    """Add products of one vector of the summed axis."""
    rows, columns = acc.shape
    wide, lanes = acc.type.dtype, acc.type.width
    left = [a.load(a_at[r] + p, lanes, mask=inside).to(wide) for r in kl.range(rows)]
    for j in kl.range(columns):
        right = b.load(b_at[j] + p, lanes, mask=inside).to(wide)
        for r in kl.range(rows):
            acc[r, j] = add_scaled(left[r], right, acc[r, j])


@kl.helper
def set_aside(acc: kl.Registers, blocks: kl.Pointer, begun: kl.Number) -> None:
    """Add the sums of a block to those of the blocks before, and begin again."""
    lanes = acc.type.width
    for r in kl.range(acc.shape[0]):
        for j in kl.range(acc.shape[1]):
            at = (r * acc.shape[1] + j) * lanes
            if begun:
                blocks.store(at, blocks.load(at, lanes) + acc[r, j])
            else:
                blocks.store(at, acc[r, j])
            acc[r, j] = kl.constant(0, acc.type.dtype, lanes)


@kl.helper
def take_back(acc: kl.Registers, blocks: kl.Pointer) -> None:
    """Add the sums of the blocks before to those of the last block."""
    lanes = acc.type.width
    for r in kl.range(acc.shape[0]):
        for j in kl.range(acc.shape[1]):
            at = (r * acc.shape[1] + j) * lanes
            acc[r, j] = blocks.load(at, lanes) + acc[r, j]


@kl.kernel
def scaled_rows(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    a_row: kl.Stride,
    a_depth: kl.Stride,
    b_depth: kl.Stride,
    batches: Batches[kl.Number],
    block: kl.Size,
    after: After | None,
    *,
    plan: Streams,
    epilogue: Epilogue | None = None,
    turned: bool = False,
) -> None:
    """Compute ``block`` columns from x and the plan's rows from y: rows of B times elements of A.

    Several rows of B are read together, once for all rows of C. Sums are kept in memory of the
    unit, with ``room`` for the elements of a row. ``turned``: the transpose of c is written.
    """
    m, n, k, rows, streams, lanes = sizes.m, sizes.n, sizes.k, plan.rows, plan.streams, plan.lanes
    vectors, room, accumulate = plan.vectors, plan.room, plan.accumulate
    batch = kl.cube_position(2)
    place = batch // batches.inner, batch % batches.inner
    row = kl.cube_position(1) * rows
    a_start = batches.a.at(*place)
    a_at = [a_start + kl.min(row + r, m - 1) * a_row for r in kl.range(rows)]
    first = kl.cube_position(0) * block
    count = kl.min(block, n - first)
    b_at = batches.b.at(*place) + first
    sums = kl.private(rows * room, accumulate, align=64)
    blocks = kl.private(rows * room, accumulate, align=64)
    span = lanes * vectors
    whole = count // span * span
    for r in kl.range(rows):
        for i in kl.loop_range(0, block, lanes):
            sums.store(r * room + i, kl.constant(0, accumulate, lanes))
    main, long = k // streams * streams, _BLOCK // streams * streams
    for start in kl.loop_range(0, main, long):
        if start > 0:
            set_rows_aside(sums, blocks, room, rows, block, lanes, start > long)
        for p in kl.loop_range(start, kl.min(start + long, main), streams):
            factors = factors_of(a, a_at, a_depth, p, streams, lanes, accumulate)
            here = b_at + p * b_depth
            for i in kl.loop_range(0, whole, span):
                for v in kl.range(vectors):
                    add_streams(sums, room, factors, b, here, b_depth, i + v * lanes, None)
            for at in kl.range(whole, count, lanes):
                inside = at + iota(lanes, n) < count
                add_streams(sums, room, factors, b, here, b_depth, at, inside)
    if main > long:
        for r in kl.range(rows):
            for i in kl.loop_range(0, block, lanes):
                at = r * room + i
                sums.store(at, blocks.load(at, lanes) + sums.load(at, lanes))
    for p in kl.range(main, k):
        factors = factors_of(a, a_at, a_depth, p, 1, lanes, accumulate)
        here = b_at + p * b_depth
        for at in kl.range(0, count, lanes):
            inside = at + iota(lanes, n) < count
            add_streams(sums, room, factors, b, here, b_depth, at, inside)
    ends = writer(epilogue, after, c, batch)
    for r in kl.range(rows):
        if row + r < m:
            c_at = (batch * m + row + r) * n + first
            if turned:
                c_at = (batch * n + first) * m + row + r
                for at in kl.loop_range(0, count):
                    c[c_at + at * m] = sums[r * room + at].to(c.dtype)
            else:
                for at in kl.range(0, count, lanes):
                    inside = at + iota(lanes, n) < count
                    total = sums.load(r * room + at, lanes)
                    if ends is None:
                        c.store(c_at + at, total.to(c.dtype), mask=inside)
                    else:
                        ends.write(c_at + at, total, row + r, first + at, inside)


@kl.helper
def set_rows_aside(
    sums: kl.Pointer,
    blocks: kl.Pointer,
    room: int,
    rows: int,
    block: kl.Index,
    lanes: int,
    begun: kl.Number,
) -> None:
    """Add the sums of rows of B to those of the rows before, and begin again."""
    for r in kl.range(rows):
        for i in kl.loop_range(0, block, lanes):
            at = r * room + i
            if begun:
                blocks.store(at, blocks.load(at, lanes) + sums.load(at, lanes))
            else:
                blocks.store(at, sums.load(at, lanes))
            sums.store(at, kl.constant(0, sums.dtype, lanes))


@kl.helper
def factors_of(
    a: kl.Pointer,
    a_at: list[kl.Number],
    a_depth: kl.Number,
    p: kl.Index,
    streams: int,
    lanes: int,
    accumulate: DType,
) -> list[list[kl.Number]]:
    """Return a list for each row: the elements of A that multiply the rows of B from p on."""
    return [
        [kl.splat(a[start + (p + s) * a_depth].to(accumulate), lanes) for s in kl.range(streams)]
        for start in a_at
    ]


@kl.helper
def add_streams(
    sums: kl.Pointer,
    room: int,
    factors: list[list[kl.Number]],
    b: kl.Pointer,
    b_at: kl.Index,
    b_depth: kl.Index,
    at: kl.Index,
    inside: kl.Number | None,
) -> None:
    """Add the products of one vector of each row of b."""
    lanes = factors[0][0].type.width
    totals = [sums.load(r * room + at, lanes) for r in kl.range(len(factors))]
    for s in kl.range(len(factors[0])):
        taken = b.load(b_at + s * b_depth + at, lanes, mask=inside).to(sums.dtype)
        for r in kl.range(len(factors)):
            totals[r] = add_scaled(factors[r][s], taken, totals[r])
    for r in kl.range(len(factors)):
        sums.store(r * room + at, totals[r])


def add_scaled(factor: kl.Number, taken: kl.Number, total: kl.Number) -> kl.Number:
    """Return total + factor · taken."""
    if total.dtype.kind == "float":
        return kl.fma(factor, taken, total)
    return total + factor * taken


def _ending(task: Task, turned: bool) -> dict[str, object]:
    """Return the arguments of what follows the sums; a transposed result has no epilogue."""
    return {**replace(task, tail=None).following(), "turned": True} if turned else task.following()


def dot_rows_launch(task: Task, plan: Dots, *, turned: bool = False) -> Launch:
    """Return the launch of a product whose operands are dense along the K axis.

    ``turned``: the result is that of the transposes.
    """
    if task.tail is not None and task.tail.heavy:
        # A few sums at a time would wait for each instruction of a long expression.
        task = replace(task, tail=None)
    (a, b), p = task.operands(), task.product
    return launch(
        dot_rows,
        Grid(task.tiles(plan.rows, plan.block)),
        task.effort(f"matmul dots {plan.rows}x{plan.columns}"),
        a=a, b=b, c=task.result(), sizes=task.sizes(), a_row=p.a.free, b_column=p.b.free,
        batches=task.batches(), block=plan.block, plan=replace(plan, block=0),
        **_ending(task, turned),
    )  # fmt: skip


def scaled_rows_launch(task: Task, plan: Streams, *, turned: bool = False) -> Launch:
    """Return the launch of a product whose B is dense along its columns, as ``dot_rows_launch``."""
    (a, b), p = task.operands(), task.product
    return launch(
        scaled_rows,
        Grid(task.tiles(plan.rows, plan.block)),
        task.effort("matmul streams"),
        a=a, b=b, c=task.result(), sizes=task.sizes(), a_row=p.a.free, a_depth=p.a.depth,
        b_depth=p.b.depth, batches=task.batches(), block=plan.block, plan=replace(plan, block=0),
        **_ending(task, turned),
    )  # fmt: skip
