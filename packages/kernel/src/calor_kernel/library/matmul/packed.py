"""Matrix products on a CPU: register tiles over a packed operand.

Requirements: multiply-adds run at the processor's rate. So the accumulators (rows × vectors) stay
in registers, a vector load of B serves all rows, and a broadcast of A serves several vectors. A is
read in place by strides, or packed. The K axis is cut at ``depth``, so that a panel of B stays in
the second-level cache (Goto and van de Geijn, 2008; Van Zee and van de Geijn, 2015).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from calor.dtypes import int8, int32, uint8
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, writer
from calor_kernel.library.matmul.block_prefetch import next_block
from calor_kernel.library.matmul.blueprints import Packed
from calor_kernel.library.matmul.operand_padding import in_groups
from calor_kernel.library.matmul.packing import Block, iota, pack_block, pack_operand
from calor_kernel.library.matmul.problem import Operand
from calor_kernel.library.matmul.task import Placed, Sizes, Task

N = TypeVar("N")
# Bytes of a line of the caches.
_LINE = 64
# How far ahead a tile asks for rows of a B as it lies.
_ROWS_AHEAD = 16
# Bytes between rows that share few sets of a cache, or a multiple of them.
_ALIASED = 2048


@dataclass(frozen=True, slots=True)
class Rows(Generic[N]):
    """The rows of A, or its panels of rows: their distance, the batch axes and the start."""

    row: kl.StrideOf[N]
    batch_inner: kl.SizeOf[N]
    place: Placed[N]


@dataclass(frozen=True, slots=True)
class Panels(Generic[N]):
    """The panels of B: their distance, that of the groups in a panel, batch axes and start."""

    panel: kl.StrideOf[N]
    depth: kl.StrideOf[N]
    place: Placed[N]


@dataclass(frozen=True, slots=True)
class Blocks(Generic[N]):
    """Rows and panels of a cube, and the groups of a pass over the K axis."""

    rows: kl.SizeOf[N]
    panels: kl.SizeOf[N]
    depth: kl.SizeOf[N]


@kl.kernel
def packed_matmul(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    of_a: Rows[kl.Number],
    of_b: Panels[kl.Number],
    blocks: Blocks[kl.Number],
    partial: kl.InOut | None,
    after: After | None,
    *,
    plan: Packed,
    ragged: bool,
    order: str = "columns",
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a block of C: panels from x and rows from y of batch z; ``sizes.k`` counts groups.

    ``order``: the axis of B with stride 1, where cubes pack it. ``ragged``: B, read as it lies, is
    narrower than a panel, so its loads are masked. ``partial``: the memory of sums between passes
    over the K axis, if an epilogue follows the last one.
    """
    m, n, k, rows, vectors, lanes = sizes.m, sizes.n, sizes.k, plan.rows, plan.vectors, plan.lanes
    group, accumulate, unroll = plan.group, plan.accumulate, plan.unroll
    # Strides known at build time leave registers to the tile.
    a_depth = rows * group if plan.pack_a else group
    block_rows, block_panels, depth = blocks.rows, blocks.panels, blocks.depth
    width = vectors * lanes
    line = _LINE // int(b.dtype.itemsize)
    b_depth: kl.Index = width * group if plan.pack_b else of_b.depth
    batch = kl.cube_position(2)
    place = batch // of_a.batch_inner, batch % of_a.batch_inner
    a_start, b_start = of_a.place.at(*place), of_b.place.at(*place)
    c_start = batch * m * n
    panels = (n + width - 1) // width
    first_panel = kl.cube_position(0) * block_panels
    last_panel = kl.min(first_panel + block_panels, panels)
    first_row = kl.cube_position(1) * block_rows
    last_row = kl.min(first_row + block_rows, m)
    ends = writer(epilogue, after, c, batch)
    # The panels of B that this cube packs.
    own = kl.private(plan.room, accumulate, align=64) if plan.room else None
    room = None
    if ends is not None and ends.heavy:
        room = kl.private(rows * width, ends.by.dtype, align=64)
    # An empty sum is 0 and is written too.
    for begin in kl.range(0, kl.max(k, 1), depth):
        count = kl.min(k - begin, depth)
        if own is not None:
            step = of_b.depth if order == "columns" else of_b.panel // width
            b_first = b_start + begin * of_b.depth
            # The first tiles of panels of whole vectors pack them as they read them. Rows of B that
            # begin at the same places of their pages share few sets of a cache, which lose them
            # until a panel's turn comes.
            aliased = step * int(b.dtype.itemsize) % _ALIASED == 0
            as_read = (order == "columns") & (last_panel * width <= n) & ~aliased
            if not as_read:
                block = Block(first_panel, last_panel, n, count)
                pack_block(b, own, b_first, step, block, vectors, lanes, order)
            # The next rows of these panels, or the first rows of the next cube's.
            goes_on = begin + depth < k
            from_row = kl.select(goes_on, begin + depth, 0)
            from_panel = kl.select(goes_on, first_panel, last_panel)
            to_panel = kl.min(from_panel + block_panels, panels)
            tiles_down = (last_row - first_row + rows - 1) // rows
            following = next_block(
                Block(from_panel, to_panel, n, kl.min(k - from_row, depth)),
                b_start + from_row * of_b.depth + from_panel * of_b.panel,
                step,
                width,
                tiles_down * (last_panel - first_panel),
                count,
                unroll,
                order,
                int(b.dtype.itemsize),
            )
            asked, along = following.at, following.at * 0
        for panel in kl.range(first_panel, last_panel):
            if own is None:
                b_at = b_start + panel * of_b.panel + begin * b_depth
            else:
                b_at = (panel - first_panel) * count * b_depth
            # B as it lies ends with the matrix: its last panel is the matrix's last columns, of
            # which those of the panel before are computed again and not written.
            column = panel * width
            if not plan.pack_b and not ragged:
                column = kl.min(column, n - width)
                b_at = b_at + column - panel * width
            masks = [
                panel * width + v * lanes + iota(lanes, n) < n if ragged else None
                for v in kl.range(vectors)
            ]
            tile = Tile(a, b if own is None else own, masks, lanes, group)
            start = kl.registers((vectors,), accumulate, lanes)
            if a.dtype is int8 and group > 1:
                tile.correct(start, b_at, b_depth, count)
            for row in kl.range(first_row, last_row, rows):
                if plan.pack_a:
                    first = a_start + row * of_a.row + begin * a_depth
                    a_at = [first + r * group for r in kl.range(rows)]
                else:
                    a_at = [
                        a_start + kl.min(row + r, last_row - 1) * of_a.row + begin * a_depth
                        for r in kl.range(rows)
                    ]
                acc = kl.registers((rows, vectors), accumulate, lanes)
                for r in kl.range(rows):
                    for v in kl.range(vectors):
                        acc[r, v] = start[v]
                if ends is not None:
                    last = begin + count >= k
                    if partial is None or last:
                        # Few elements of many rows, which the processor does not foresee.
                        for r in kl.range(rows):
                            near = kl.min(row + r, last_row - 1)
                            for v in kl.range(vectors):
                                ends.prefetch(near, kl.min(column + v * lanes, n - 1))
                elif begin > 0:
                    # The sums so far, which the tile's end adds.
                    for r in kl.range(rows):
                        near = c_start + kl.min(row + r, last_row - 1) * n
                        for v in kl.range(vectors):
                            c.prefetch(near + kl.min(column + v * lanes, n - 1))
                if plan.lines:
                    # Memory sends the lines of the result while its terms are added.
                    for r in kl.range(rows):
                        near = c_start + kl.min(row + r, last_row - 1) * n
                        for v in kl.range(vectors):
                            c.prefetch(near + kl.min(column + v * lanes, n - 1), locality=2)
                main = count // unroll * unroll
                tiles_before = (row - first_row) // rows
                next_at = b_at + of_b.panel + tiles_before * (main // unroll) * line
                if own is not None:
                    packs = as_read & (row == first_row)
                    source = Source(b, b_first + column, step)
                    for _ in kl.loop_range(0, following.before):
                        asked, along = following.step_on(b, asked, along)
                    for turn in kl.loop_range(0, main, following.turn):
                        asked, along = following.step_on(b, asked, along)
                        stop = kl.min(turn + following.turn, main)
                        if packs:
                            for p in kl.loop_range(turn, stop, unroll):
                                tile.steps(acc, a_at, b_at, p, a_depth, b_depth, unroll, source)
                        else:
                            for p in kl.loop_range(turn, stop, unroll):
                                tile.steps(acc, a_at, b_at, p, a_depth, b_depth, unroll)
                    if packs:
                        for p in kl.loop_range(main, count):
                            tile.steps(acc, a_at, b_at, p, a_depth, b_depth, 1, source)
                    else:
                        for p in kl.loop_range(main, count):
                            tile.steps(acc, a_at, b_at, p, a_depth, b_depth, 1)
                for p in kl.loop_range(0, main if own is None else 0, unroll):
                    if plan.ahead and plan.pack_b:
                        b.prefetch(next_at + p // unroll * line, locality=2)
                    if plan.ahead and not plan.pack_b:
                        # Rows of B as it lies are on pages of their own, and few of them fit
                        # a set of a cache: those of some turns ahead, then the next panel's.
                        row_ahead = p + _ROWS_AHEAD
                        ends_here = row_ahead >= main
                        from_panel = kl.select(ends_here, b_at + width, b_at)
                        row_ahead = kl.select(ends_here, row_ahead - main, row_ahead)
                        asked = from_panel + row_ahead * b_depth
                        for u in kl.range(unroll):
                            for part in kl.range(0, width, line):
                                b.prefetch(asked + u * b_depth + part, locality=2)
                    tile.steps(acc, a_at, b_at, p, a_depth, b_depth, unroll)
                for p in kl.range(main if own is None else count, count):
                    tile.steps(acc, a_at, b_at, p, a_depth, b_depth, 1)
                if ends is None:
                    store_tile(
                        acc, c, TilePlace(c_start, row, last_row, column, panel * width, n), begin
                    )
                else:
                    tile_at = TilePlace(c_start, row, last_row, column, panel * width, n)
                    end_tile(acc, ends, room, partial, tile_at, begin, begin + count >= k)


@dataclass(frozen=True, slots=True)
class Source:
    """Columns of a B that is not packed yet: the first element, and the distance of its rows."""

    b: kl.Pointer
    at: kl.Number
    step: kl.Number


@dataclass(frozen=True, slots=True)
class Tile:
    """Parameters of the steps of one register tile: the operands and their access."""

    a: kl.Pointer
    b: kl.Pointer
    masks: list[kl.Number | None]
    lanes: int
    group: int

    def multiply(
        self,
        acc: kl.Registers,
        a_at: list[kl.Number],
        a_step: kl.Index,
        b_at: kl.Number,
        source: tuple[kl.Pointer, kl.Number] | None = None,
    ) -> None:
        """Add the products of one group of the K axis to the accumulators.

        The vectors of B are those at ``source``, if it is given, and are stored.
        """
        rows, vectors = acc.shape
        span = self.lanes * self.group
        if source is None:
            columns = [
                self.b.load(b_at + v * span, span, mask=self.masks[v]) for v in kl.range(vectors)
            ]
        else:
            columns = [source[0].load(source[1] + v * span, span) for v in kl.range(vectors)]
            for v in kl.range(vectors):
                self.b.store(b_at + v * span, columns[v].to(self.b.dtype))
        for r in kl.range(rows):
            value = self.broadcast(a_at[r] + a_step)
            for v in kl.range(vectors):
                acc[r, v] = self.add(value, columns[v], acc[r, v])

    @kl.helper
    def steps(
        self,
        acc: kl.Registers,
        a_at: list[kl.Number],
        b_at: kl.Number,
        at: kl.Number,
        a_depth: int,
        b_depth: kl.Index,
        count: int,
        source: Source | None = None,
    ) -> None:
        """Add the products of ``count`` groups of the K axis from ``at`` on.

        B is read from a ``source``, if there is one, and packed.
        """
        # Known distances of a turn's steps need no instructions.
        a_now, b_now = [start + at * a_depth for start in a_at], b_at + at * b_depth
        for u in kl.range(count):
            row = None
            if source is not None:
                row = source.b, source.at + (at + u) * source.step
            self.multiply(acc, a_now, u * a_depth, b_now + u * b_depth, row)

    def add(self, x: kl.Number, y: kl.Number, total: kl.Number) -> kl.Number:
        """Return total + x · y."""
        if self.group > 1:
            return kl.dot(x, y, total)
        x, y = x.to(total.dtype), y.to(total.dtype)
        return kl.fma(x, y, total) if total.dtype.kind == "float" else total + x * y

    def broadcast(self, at: kl.Number) -> kl.Number:
        """Return one group of A in every group of lanes; bytes are shifted up by 128."""
        a = self.a
        if self.group == 1:
            return kl.splat(a[at], self.lanes)
        bits = kl.bitcast(a.load(at, self.group), int32)
        if a.dtype is int8:
            bits = bits ^ kl.constant(0x80808080, int32)
        return kl.bitcast(kl.splat(bits, self.lanes), uint8 if a.dtype is int8 else a.dtype)

    @kl.helper
    def correct(
        self, start: kl.Registers, b_at: kl.Number, b_depth: kl.Index, count: kl.Number
    ) -> None:
        """Subtract the effect of the shift of A's bytes: 128 times the sums of B's columns.

        The instruction takes unsigned bytes of A and signed bytes of B, as in oneDNN.
        """
        span = self.lanes * self.group
        moved = kl.constant(128, uint8, span)
        for p in kl.range(count):
            for v in kl.range(start.shape[0]):
                columns = self.b.load(b_at + p * b_depth + v * span, span, mask=self.masks[v])
                start[v] = kl.dot(moved, columns, start[v])
        for v in kl.range(start.shape[0]):
            start[v] = -start[v]


@dataclass(frozen=True, slots=True)
class TilePlace:
    """The place of a tile: the product's first element, rows and columns of the result.

    The tile begins at ``column``; what it writes begins at ``first``, up to the n-th column.
    """

    start: kl.Number
    row: kl.Number
    last_row: kl.Number
    column: kl.Number
    first: kl.Number
    n: kl.Number

    def whole(self, rows: int, width: int) -> kl.Number:
        """Return whether all of the tile is written."""
        ends = (self.column + width <= self.n) & (self.row + rows <= self.last_row)
        return ends & (self.column == self.first)

    def columns(self, at: kl.Number, lanes: int) -> kl.Number:
        """Return which of the columns from one on are written."""
        index = at + iota(lanes, at)
        return (index < self.n) & (index >= self.first)

    def inside(self, row: kl.Number, at: kl.Number, lanes: int) -> kl.Number:
        """Return which elements of a row are written."""
        return self.columns(at, lanes) & kl.splat(row < self.last_row, lanes)


@kl.helper
def store_tile(acc: kl.Registers, c: kl.Pointer, place: TilePlace, begin: kl.Number) -> None:
    """Write a tile; after the first pass over the K axis, add it to the result."""
    rows, vectors = acc.shape
    lanes, accumulate = acc.type.width, acc.type.dtype
    start, n = place.start, place.n
    if place.whole(rows, vectors * lanes):
        for r in kl.range(rows):
            for v in kl.range(vectors):
                at = start + (place.row + r) * n + place.column + v * lanes
                value = acc[r, v]
                if begin > 0:
                    value = value + c.load(at, lanes).to(accumulate)
                c.store(at, value.to(c.dtype))
    else:
        for r in kl.range(rows):
            for v in kl.range(vectors):
                at = start + (place.row + r) * n + place.column + v * lanes
                inside = place.inside(place.row + r, place.column + v * lanes, lanes)
                value = acc[r, v]
                if begin > 0:
                    value = value + c.load(at, lanes, mask=inside).to(accumulate)
                c.store(at, value.to(c.dtype), mask=inside)


@kl.helper
def end_tile(
    acc: kl.Registers,
    ends: Writer,
    room: kl.Pointer | None,
    partial: kl.Pointer | None,
    place: TilePlace,
    begin: kl.Number,
    last: kl.Number,
) -> None:
    """Write a tile by its epilogue in the last pass over the K axis; before, keep its sums.

    Where there is ``room``, memory of the unit, the sums go through it, so that a long epilogue is
    built once and not for each vector of a tile.
    """
    if partial is not None and begin > 0:
        add_partial(acc, partial, place.start + place.row * place.n + place.column, place)
    if partial is None or last:
        if room is None:
            end_vectors(acc, ends, place)
        else:
            end_room(acc, ends, room, place)
    else:
        store_tile(acc, partial, place, begin * 0)


@kl.helper
def end_room(acc: kl.Registers, ends: Writer, room: kl.Pointer, place: TilePlace) -> None:
    """Write what follows a tile, through memory of the unit."""
    rows, vectors = acc.shape
    lanes, n, column = acc.type.width, place.n, place.column
    width = vectors * lanes
    # Vectors that are computed together hide the latency of instructions.
    span = width if vectors & (vectors - 1) == 0 else lanes
    for r in kl.range(rows):
        for v in kl.range(vectors):
            room.store(r * width + v * lanes, acc[r, v].to(room.dtype))
    for r in kl.loop_range(0, kl.min(place.last_row - place.row, rows)):
        row = place.row + r
        for v in kl.loop_range(0, kl.min(n - column, width), span):
            total = room.load(r * width + v, span)
            inside = place.columns(column + v, span)
            ends.write(place.start + row * n + column + v, total, row, column + v, inside)


@kl.helper
def end_vectors(acc: kl.Registers, ends: Writer, place: TilePlace) -> None:
    """Write what follows each vector of a tile."""
    rows, vectors = acc.shape
    lanes, n, column = acc.type.width, place.n, place.column
    if place.whole(rows, vectors * lanes):
        for r in kl.range(rows):
            for v in kl.range(vectors):
                row, at = place.row + r, column + v * lanes
                ends.write(place.start + row * n + at, acc[r, v], row, at)
    else:
        for r in kl.range(rows):
            for v in kl.range(vectors):
                row, at = place.row + r, column + v * lanes
                inside = place.inside(row, at, lanes)
                # A row beyond the last one has the operands of that, and is not written.
                near = kl.min(row, place.last_row - 1)
                ends.write(place.start + row * n + at, acc[r, v], near, at, inside)


@kl.helper
def add_partial(acc: kl.Registers, partial: kl.Pointer, at: kl.Number, place: TilePlace) -> None:
    """Add the sums of the passes before to a tile."""
    rows, vectors = acc.shape
    lanes = acc.type.width
    for r in kl.range(rows):
        for v in kl.range(vectors):
            inside = place.inside(place.row + r, place.column + v * lanes, lanes)
            acc[r, v] = acc[r, v] + partial.load(at + r * place.n + v * lanes, lanes, mask=inside)


def packed_launches(task: Task, plan: Packed) -> tuple[Task, list[Launch]]:
    """Return the launches of a blueprint, and the task with the memory of packed operands."""
    group, width = plan.group, plan.width
    task = _in_groups(task, plan)
    p = task.product
    groups = -(-p.k // group)
    a, b = task.operands()
    launches = []
    element = p.a.dtype if group > 1 else plan.accumulate

    def packed(number: int, size: int, of: Operand, wide: int, lanes: int) -> tuple[Bound, int]:
        """Pack an operand to panels; return their memory, and the elements of a product."""
        nonlocal task
        whole = -(-size // wide) * wide * groups * group
        target, task = task.room(p.batches * whole * element.itemsize)
        # Lines of b along K are of whole groups by now.
        deep = groups * group if number and of.depth == 1 and of.free != 1 else p.k
        sizes, places = (size, deep, p.batch), (task.places[number], target)
        launches.append(pack_operand(*sizes, of, wide, lanes, group, element, *places))
        return Bound(target, element), whole

    of_a = Rows(p.a.free, p.batch[1], Placed(*p.a.batch, p.a.offset))
    if plan.pack_a:
        a, whole = packed(0, p.m, p.a, plan.rows, plan.rows)
        of_a = Rows(groups * group, p.batch[1], Placed(whole * p.batch[1], whole, 0))
    of_b = Panels(width * p.b.free, p.b.depth, Placed(*p.b.batch, p.b.offset))
    if plan.pack_b and not plan.room:
        b, whole = packed(1, p.n, p.b, width, plan.lanes)
        row = width * group
        of_b = Panels(groups * row, row, Placed(whole * p.batch[1], whole, 0))
    partial = None
    if task.tail is not None and plan.depth < groups:
        target, task = task.room(p.batches * p.m * p.n * plan.accumulate.itemsize)
        partial = Bound(target, plan.accumulate)
    # The whole K axis is one pass if it is not much longer than one.
    depth = plan.depth if plan.depth < groups else 1 << 40
    panels = -(-p.n // width)
    ahead = plan.ahead and not plan.room
    cubes = (-(-panels // plan.block_panels), -(-p.m // plan.block_rows), p.batches)
    made = launch(
        packed_matmul, Grid(cubes), task.effort(f"matmul {plan.rows}x{width}"),
        a=a, b=b, c=task.result(), sizes=Sizes(p.m, p.n, groups), of_a=of_a, of_b=of_b,
        blocks=Blocks(plan.block_rows, plan.block_panels, depth),
        plan=replace(plan, depth=0, block_rows=0, block_panels=0, ahead=ahead),
        ragged=not plan.pack_b and p.n < width,
        order="columns" if p.b.free == 1 or not plan.room else "depth",
        partial=partial, **task.following(),
    )  # fmt: skip
    return task, [*launches, made]


def _in_groups(task: Task, plan: Packed) -> Task:
    """Return the task whose operands along K have rows of whole groups, if they are read so."""
    product, group = task.product, plan.group
    if group == 1 or product.k % group == 0:
        return task
    if not plan.pack_a:
        task = in_groups(task, 0, group)
    if product.b.depth == 1 and product.b.free != 1:
        task = in_groups(task, 1, group)
    return task
