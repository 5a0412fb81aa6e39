"""Matrix products on a CPU with tile registers: B packed to panels, A by rows as it lies.

Requirements: blocks of two by two tiles of 16 by 16 sums use all eight registers, so each load of a
tile serves two products. Loads from the second-level cache take longer than the products, so a
long K axis is cut in passes: each part of a panel of B stays in the first-level cache while all
rows of a cube go by, whose sums wait in memory. Rows of A with its terms adjacent are read in
place: the last block begins earlier instead of reading beyond the end. Other operands A are copied
by rows first. Terms behind the last whole step are copied to a step of their own, which zeros fill
up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calor.dtypes import DType, bfloat16, float32, int8, int32
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Grid, launch
from calor_kernel.contract.work import Dropped, Request, View, Work, row_major
from calor_kernel.language.tiles import SUMS, TILE, TILE_BYTES, terms
from calor_kernel.library.gemm.epilogue import HEAVY, After, Epilogue, writer
from calor_kernel.library.matmul.packed import Blocks, Panels, Rows
from calor_kernel.library.matmul.packing import iota, pack_operand
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.task import Placed, Sizes, Task

_FEATURES = {bfloat16: "tile_bfloat16", int8: "tile_8"}
_RESULTS = {bfloat16: (bfloat16, float32), int8: (int32,)}
# Rows of a cube, which share a panel of B.
_BLOCK_ROWS = 128
# Steps of a pass over the K axis: its part of a panel of B stays in the first-level cache, beside
# the rows of A that go by. An axis of few more is one pass, without sums in memory in between.
_PASS, _ONE_PASS = 8, 12


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Blocks of ``rows`` by ``columns`` tiles; the result has vectors of ``lanes`` elements.

    ``rest``: whether the K axis ends within a step. ``ahead``: the lines of the next panel that
    each step of a block prefetches, so that the blocks of a cube's rows prefetch all of it.
    ``room``: the rows of a cube whose sums wait for further passes over the K axis; 0 for one pass.
    """

    dtype: DType
    rows: int
    columns: int
    lanes: int
    rest: bool = False
    ahead: int = 0
    room: int = 0

    @property
    def height(self) -> int:
        """The rows of a block."""
        return TILE * self.rows

    @property
    def width(self) -> int:
        """The columns of a block: of a panel of B."""
        return TILE * self.columns

    @property
    def line(self) -> int:
        """The elements of a line of a panel: a group of terms for each column."""
        return self.width * terms(self.dtype) // TILE


@kl.kernel
def matmul_tile_registers(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    rest: kl.Size,
    of_a: Rows[kl.Number],
    of_b: Panels[kl.Number],
    blocks: Blocks[kl.Number],
    after: After | None,
    *,
    plan: TilePlan,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a block of C: panels from x and rows from y of batch z.

    ``sizes.k`` counts whole steps, and ``rest`` the terms behind them; a pass over them has
    ``blocks.depth``. At least ``plan.height`` rows exist.
    """
    m, n, height, width, lanes = sizes.m, sizes.n, plan.height, plan.width, plan.lanes
    step, nbytes = terms(plan.dtype), int(plan.dtype.itemsize)
    sums = kl.private(max(height, plan.room) * width, SUMS[plan.dtype], align=64)
    if plan.rest:
        left_rest = kl.private(height * step, plan.dtype, align=64)
        right_rest = kl.private(TILE * plan.line, plan.dtype, align=64)
    batch = kl.cube_position(2)
    ends = writer(epilogue, after, c, batch)
    place = batch // of_a.batch_inner, batch % of_a.batch_inner
    a_start, b_start = of_a.place.at(*place), of_b.place.at(*place)
    c_start = batch * m * n
    panels = (n + width - 1) // width
    first_panel = kl.cube_position(0) * blocks.panels
    last_panel = kl.min(first_panel + blocks.panels, panels)
    first_row = kl.cube_position(1) * blocks.rows
    last_row = kl.min(first_row + blocks.rows, m)
    for panel in kl.loop_range(first_panel, last_panel):
        right = b.at(b_start + panel * of_b.panel)
        if plan.rest:
            copy_lines(right.at(sizes.k * TILE * of_b.depth), right_rest, rest, of_b.depth, plan)
        column = panel * width
        for first in kl.loop_range(0, sizes.k, blocks.depth):
            count = kl.min(sizes.k - first, blocks.depth)
            last = first + count >= sizes.k
            lines = right.at(first * TILE * of_b.depth)
            for begin in kl.loop_range(first_row, last_row, height):
                row = kl.min(begin, m - height)
                left = a.at(a_start + row * of_a.row)
                done = begin - first_row
                own = sums.at(done * width) if plan.room else sums
                share = (done // height * sizes.k + first) * (plan.ahead * TILE_BYTES // nbytes)
                ahead = right.at(of_b.panel + share)

                part = left.at(first * step)
                multiply_block(own, part, of_a.row, lines, of_b.depth, count, first, ahead, plan)
                if last:
                    if plan.rest:
                        copy_rows(left.at(sizes.k * step), left_rest, rest, of_a.row, plan)
                        kl.tile_product(
                            own, left_rest, step, right_rest, plan.line, 1,
                            rows=plan.rows, columns=plan.columns, add=True,
                        )  # fmt: skip
                    to = c_start + row * n + column
                    # Rows before the block are another's.
                    for r in kl.loop_range(begin - row, height):
                        for v in kl.range(0, width, lanes):
                            value = own.load(r * width + v, lanes)
                            inside = column + v + iota(lanes, n) < n
                            if ends is None:
                                c.store(to + r * n + v, value.to(c.dtype), mask=inside)
                            else:
                                ends.write(to + r * n + v, value, row + r, column + v, inside)


@kl.helper
def multiply_block(
    sums: kl.Pointer,
    left: kl.Pointer,
    row: kl.Number,
    right: kl.Pointer,
    depth: kl.Number,
    count: kl.Number,
    first: kl.Number,
    ahead: kl.Pointer,
    plan: TilePlan,
) -> None:
    """Multiply a block for a pass over the K axis, whose first step is ``first``."""
    if plan.room:
        if first > 0:
            kl.tile_product(
                sums, left, row, right, depth, count, rows=plan.rows, columns=plan.columns,
                ahead=ahead, lines=plan.ahead, add=True,
            )  # fmt: skip
        else:
            kl.tile_product(
                sums, left, row, right, depth, count, rows=plan.rows, columns=plan.columns,
                ahead=ahead, lines=plan.ahead,
            )  # fmt: skip
    else:
        kl.tile_product(
            sums, left, row, right, depth, count, rows=plan.rows, columns=plan.columns,
            ahead=ahead, lines=plan.ahead,
        )  # fmt: skip


@kl.helper
def copy_rows(
    source: kl.Pointer, target: kl.Pointer, rest: kl.Number, stride: kl.Number, plan: TilePlan
) -> None:
    """Copy the rows' terms behind the last whole step, filled up with zeros."""
    step = terms(plan.dtype)
    inside = iota(step, rest) < rest
    for r in kl.loop_range(plan.height):
        target.store(r * step, source.load(r * stride, step, mask=inside))


@kl.helper
def copy_lines(
    source: kl.Pointer, target: kl.Pointer, rest: kl.Number, stride: kl.Number, plan: TilePlan
) -> None:
    """Copy a panel's lines behind the last whole step, and lines of zeros."""
    line, group, part = plan.line, terms(plan.dtype) // TILE, terms(plan.dtype)
    last, zeros = (rest + group - 1) // group - 1, kl.splat(kl.constant(0, plan.dtype), part)
    for g in kl.loop_range(TILE):
        for v in kl.range(0, line, part):
            value = source.load(kl.min(g, last) * stride + v, part)
            target.store(g * line + v, kl.select(g <= last, value, zeros))


def tile_refusal(task: Task, request: Request) -> str | None:
    """Return why tile registers do not compute a product."""
    product, info = task.product, task.info
    feature = _FEATURES.get(product.a.dtype)
    if feature is None or product.b.dtype is not product.a.dtype:
        return "tile registers take bfloat16 or int8"
    if not info.has(feature):
        return f"the device lacks {feature}"
    if product.dtype not in _RESULTS[product.a.dtype]:
        return f"tile registers give no {product.dtype.name}"
    if product.m < TILE:
        return f"it has fewer than {TILE} rows"
    if product.k < terms(product.a.dtype):
        return f"its K axis has fewer than {terms(product.a.dtype)} terms"
    if task.tail is not None and task.tail.expression.weight >= HEAVY:
        return "a long epilogue is faster in vectors of several rows, as a launch of its own"
    return None


def tile_works(task: Task, request: Request) -> Iterator[Work | Dropped]:
    """Yield blocks of two by two tiles."""
    product, info = task.product, task.info
    if product.a.depth != 1:
        task = _by_rows(task)
    rows = 2 if product.m >= 2 * TILE else 1
    rest = bool(product.k % terms(product.a.dtype))
    lanes = min(info.vector_bytes // int(product.dtype.itemsize), 2 * TILE)
    yield _work(task, TilePlan(product.a.dtype, rows, 2, lanes, rest))


def _by_rows(task: Task) -> Task:
    """Return the task with A copied to dense rows."""
    p = task.product
    shape = (*p.batch, p.m, p.k)
    view = View(shape, (*p.a.batch, p.a.free, p.a.depth), p.a.dtype, p.a.offset)
    steps = row_major(shape)
    return task.copied(0, view, Operand((steps[0], steps[1]), p.k, 1, 0, p.a.dtype))


def _work(task: Task, plan: TilePlan) -> Work:
    p, group = task.product, terms(plan.dtype) // TILE
    groups, line = -(-p.k // group), plan.line
    panel_count = -(-p.n // plan.width)
    whole = panel_count * groups * line
    target, task = task.room(p.batches * whole * plan.dtype.itemsize)
    packing = pack_operand(
        p.n, p.k, p.batch, p.b, plan.width, TILE, group, plan.dtype, task.places[1], target
    )
    high, wide = _blocks(p, task.info, plan)
    steps = p.k // terms(plan.dtype)
    several = exceeds(steps, _ONE_PASS)
    plan = replace(
        plan,
        ahead=_lines_ahead(-(-high // plan.height), plan),
        room=_BLOCK_ROWS if several else 0,
    )
    grid = Grid((-(-panel_count // wide), -(-p.m // high), p.batches))
    made = launch(
        matmul_tile_registers,
        grid,
        task.effort(f"matmul tile registers {plan.height}x{plan.width}"),
        a=task.operands()[0],
        b=Bound(target, plan.dtype),
        c=task.result(),
        sizes=Sizes(p.m, p.n, steps),
        rest=p.k % terms(plan.dtype),
        of_a=Rows(p.a.free, p.batch[1], Placed(*p.a.batch, p.a.offset)),
        of_b=Panels(groups * line, line, Placed(whole * p.batch[1], whole, 0)),
        blocks=Blocks(high, wide, _PASS if several else 1 << 40),
        plan=plan,
        **task.following(),
    )
    return task.work(packing, made, name=f"tile registers {plan.rows}x{plan.columns}")


def _lines_ahead(blocks: int, plan: TilePlan) -> int:
    """Return the lines of a panel that each step of a cube's blocks of rows prefetches.

    >>> plan = TilePlan(bfloat16, 2, 2, 16)
    >>> [_lines_ahead(blocks, plan) for blocks in (1, 2, 3, 4, 9)]
    [32, 16, 16, 8, 4]
    """
    whole = TILE * plan.columns
    # Few kernels serve all numbers of blocks.
    return next((whole >> n for n in range(5, 0, -1) if not exceeds(1 << n, blocks)), whole)


def _blocks(p: Product, info: DeviceInfo, plan: TilePlan) -> tuple[int, int]:
    """Return the rows and the panels of a cube: at least four cubes for each core if possible."""
    tiles = -(-p.m // plan.height)
    parts = -(-tiles * plan.height // _BLOCK_ROWS)
    high = -(-tiles // parts) * plan.height
    panels = -(-p.n // plan.width)
    tall = -(-p.m // high) * p.batches
    return high, greatest(1, least(panels, 8, panels * tall // (4 * info.cores)))
