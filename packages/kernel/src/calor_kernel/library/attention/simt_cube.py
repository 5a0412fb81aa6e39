"""Cubes of many units that compute tiles of scores: their plans, tiles and the softmax.

Requirements: operands have any strides and sizes. Tiles have the order of the operands: a unit
reads vectors along the summed axis, so that an access serves several products, and rows are padded,
so that the vectors of neighbouring units lie in different banks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.attention.mma_tiles import LOG2_E, power_of_two
from calor_kernel.library.attention.operands import (
    KernelOperands,
    Rows,
    ScoreForm,
    Upstream,
    finite,
    key_rows,
    query_rows,
    value_rows,
    visible,
)
from calor_kernel.library.attention.problem import dropped
from calor_kernel.library.math import exp, log

# Bytes of a vector in shared memory.
_ACCESS = 16
# Accesses of a unit that are issued together to fill a tile.
_TURNS = 4


@dataclass(frozen=True, slots=True)
class SimtPlan:
    """Cubes of ``across`` by ``down`` units; a unit has ``rows`` by ``keys`` scores of a tile.

    A tile of scores is square for gradients of keys. ``values``: a unit's columns of sums. A tile
    has ``depth`` features of the operands. ``access``: the elements of an operand that are read
    together. ``wide``: the elements of a vector in shared memory. ``held``: the rows of operands
    whose features a cube holds all, 0 if it holds parts. ``fast``: powers have the device's
    precision of 2**x. ``part``: the rows that are summed at a time, by factors of other lanes; 0
    for a tile of scores in shared memory.
    """

    across: int
    down: int
    depth: int
    rows: int
    keys: int
    values: int
    access: int = 1
    wide: int = 4
    held: int = 0
    fast: bool = False
    part: int = 0

    @kl.helper
    def weight(self, x: kl.Number) -> kl.Number:
        """Return e**x."""
        if not self.fast:
            return exp(x)
        made = power_of_two(x * LOG2_E)
        assert made is not None
        return made

    @property
    def together(self) -> int:
        """The columns of sums of a unit that lie side by side."""
        return math.gcd(self.values, self.wide)

    @property
    def stored(self) -> int:
        """The columns of a unit that are written together."""
        return math.gcd(self.together, self.access)

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.across * self.down

    @property
    def height(self) -> int:
        """The queries of a tile."""
        return self.rows * self.down

    @property
    def block(self) -> int:
        """The keys of a tile."""
        return self.keys * self.across

    @property
    def width(self) -> int:
        """The columns of sums of a cube."""
        return self.values * self.across

    @property
    def pitch(self) -> int:
        """The distance of rows of scores in shared memory."""
        return self.block + 4

    @property
    def line(self) -> int:
        """The distance of rows of operands in shared memory."""
        return self.across_row + 4

    @property
    def across_row(self) -> int:
        """The elements of a row of an operand in shared memory; whole rows are summed too."""
        return max(self.depth, self.width) if self.held else self.depth

    @property
    def room(self) -> int:
        """The elements of tiles of both operands of scores, or of rows that are summed."""
        if self.held:
            return self.held * self.line
        return max((self.height + self.block) * self.line, (self.part or self.block) * self.width)

    def shared_bytes(self, itemsize: int, plane: int) -> int:
        """Return the shared memory of a cube."""
        scores = 0 if self.part else max(self.height, self.block) * self.pitch
        # Narrow planes reduce maxima and sums of rows in shared memory.
        parts = 2 * self.height * self.across if plane < self.across else 0
        return (self.room + scores + parts) * itemsize

    def row(self, i: int) -> kl.Number:
        """Return the row of a unit's i-th results."""
        return kl.unit_position(1) + i * self.down

    def column(self, j: int) -> kl.Number:
        """Return the column of a unit's j-th scores."""
        return kl.unit_position(0) + j * self.across

    def value(self, j: int) -> kl.Number:
        """Return the column of a unit's j-th sums; vectors of neighbouring units are adjacent."""
        vector, lane = divmod(j, self.together)
        return (vector * self.across + kl.unit_position(0)) * self.together + lane


def cube_memory(count: int, dtype: DType) -> kl.Pointer:
    """Return memory shared by the units of a cube; private memory for a cube of one unit."""
    alone = kl.cube_size(0) * kl.cube_size(1) == 1
    memory = kl.private if alone else kl.shared
    return memory(count, dtype, align=_ACCESS)


@dataclass(frozen=True, slots=True)
class Cube:
    """A cube's scores of heads of batch ``n``, and its tiles.

    ``room`` is for both operands of scores, or for the rows that are summed; ``scores`` is for a
    tile of weights or gradients.
    """

    plan: SimtPlan
    form: ScoreForm
    g: KernelOperands
    value_width: kl.Number
    dtype: DType
    room: kl.Pointer
    scores: kl.Pointer

    def heads(self, n: kl.Number, head: kl.Number) -> tuple[Rows, Rows, Rows]:
        """Return the queries, keys and values of a query head."""
        query = query_rows(self.g, n, head, self.form.contiguous[0])
        return query, *self.key_heads(n, head // self.g.group)

    def key_heads(self, n: kl.Number, key_head: kl.Number) -> tuple[Rows, Rows]:
        """Return the keys and values of a key head."""
        _, keys, values = self.form.contiguous
        return (
            key_rows(self.g, n, key_head, keys),
            value_rows(self.g, n, key_head, self.value_width, values),
        )

    @kl.helper
    def fill(
        self, tile: kl.Pointer, pitch: int, source: Rows, first: kl.Index, begin: kl.Index,
        size: int, depth: int,
    ) -> None:  # fmt: skip
        """Fill a tile with features from ``begin`` on of rows from ``first`` on, or with 0."""
        access = self.plan.access if source.contiguous else 1
        pieces, units = depth // access, self.plan.units
        turns = -(-size * pieces // units)
        together = min(turns, _TURNS)
        for turn in kl.loop_range(0, turns, together) if turns > together else (0,):
            places, taken = [], []
            for k in range(together):
                i = kl.unit_index() + (turn + k) * units
                # Neighbouring units read along the axis that is more likely to be dense.
                row, p = (i // pieces, i % pieces) if source.contiguous else (i % size, i // size)
                places.append((i, row * pitch + p * access))
                taken.append(self.piece(source, first + row, begin + p * access, access))
            for (i, place), value in zip(places, taken, strict=True):
                if (size * pieces % (units * together) == 0) or (i < size * pieces):
                    tile.store(place, value.to(self.dtype))

    @kl.helper
    def piece(self, source: Rows, row: kl.Number, place: kl.Number, access: int) -> kl.Number:
        """Return an access of a row, or 0 beyond the operand."""
        value = kl.constant(0, source.memory.dtype, access)
        if (row < source.count) and (place < source.width):
            step = place if source.contiguous else place * source.step
            value = source.memory.load(source.at + row * source.row_step + step, access)
        return value

    @kl.helper
    def products(self, a: Rows, b: Rows, first: kl.Index, begin: kl.Index) -> kl.Registers:
        """Return the products of rows of a from ``first`` on and rows of b from ``begin`` on."""
        plan = self.plan
        acc = kl.registers((plan.rows, plan.keys), self.dtype)
        right = self.room.at(plan.height * plan.line)
        for p in kl.loop_range(0, a.width, plan.depth):
            kl.barrier()
            self.fill(self.room, plan.line, a, first, p, plan.height, plan.depth)
            self.fill(right, plan.line, b, begin, p, plan.block, plan.depth)
            kl.barrier()
            self.multiply(acc, self.room, right)
        return acc

    @kl.helper
    def multiply(
        self, acc: kl.Registers, left: kl.Pointer, right: kl.Pointer, rows: int = 0, keys: int = 0
    ) -> None:
        """Add the products of the rows of two tiles to a unit's scores.

        ``rows`` and ``keys``: how many of a unit's there are, 0 for all.
        """
        plan, wide = self.plan, _ACCESS // int(self.dtype.itemsize)
        rows, keys = rows or plan.rows, keys or plan.keys
        for q in kl.loop_range(0, plan.depth, wide):
            ys = [right.load(plan.column(j) * plan.line + q, wide) for j in range(keys)]
            for i in range(rows):
                x = left.load(plan.row(i) * plan.line + q, wide)
                for j in range(keys):
                    for e in range(wide):
                        acc[i, j] = kl.fma(x[e], ys[j][e], acc[i, j])

    @kl.helper
    def add_rows(self, sums: kl.Registers, source: Rows, first: kl.Index, begin: kl.Index) -> None:
        """Add the tile's factors times rows from ``first`` on, of features from ``begin`` on.

        A row of factors is that of a unit's row of sums.
        """
        plan = self.plan
        self.fill(self.room, plan.width, source, first, begin, plan.block, plan.width)
        kl.barrier()
        self.gather(sums, self.room, plan.width)

    @kl.helper
    def gather(
        self,
        sums: kl.Registers,
        room: kl.Pointer,
        pitch: int,
        count: kl.Index | None = None,
        rows: int = 0,
    ) -> None:
        """Add the tile's factors times rows of a room that lie ``pitch`` apart.

        ``count``: how many rows there are, None for all. ``rows``: how many sums of a unit there
        are, 0 for all.
        """
        plan, wide = self.plan, _ACCESS // int(self.dtype.itemsize)
        together = plan.together
        for p in kl.loop_range(0, plan.block if count is None else kl.min(count, plan.block), wide):
            ys = [
                [
                    room.load((p + e) * pitch + plan.value(v), together)
                    for v in range(0, plan.values, together)
                ]
                for e in range(wide)
            ]
            for i in range(rows or plan.rows):
                x = self.scores.load(plan.row(i) * plan.pitch + p, wide)
                for e in range(wide):
                    for j in range(plan.values):
                        y = ys[e][j // together]
                        one = y[j % together] if together > 1 else y
                        sums[i, j] = kl.fma(x[e], one, sums[i, j])

    @kl.helper
    def score(
        self, x: kl.Number, n: kl.Index, head: kl.Index, i: kl.Number, j: kl.Number
    ) -> kl.Number:
        """Return a product as a score: scaled, with biases, and −inf if hidden or beyond it."""
        x = x * self.g.scale
        there = (i < self.g.queries) & (j < self.g.keys)
        return visible(x, there, self.g, self.form, n, head, i, j)

    @kl.helper
    def gradients(
        self,
        query: Rows,
        key: Rows,
        value: Rows,
        upstream: Rows,
        up: Upstream[kl.Pointer],
        n: kl.Index,
        head: kl.Index,
        first: kl.Index,
        begin: kl.Index,
    ) -> tuple[kl.Registers, kl.Registers]:
        """Return a unit's weights and the gradients of its scores, 0 beyond the last score."""
        weights = self.products(query, key, first, begin)
        inner = self.products(upstream, value, first, begin)
        self.differentiate(weights, inner, self.numbers(up, n, head, first), n, head, first, begin)
        return weights, inner

    @kl.helper
    def numbers(
        self, up: Upstream[kl.Pointer], n: kl.Index, head: kl.Index, first: kl.Index
    ) -> tuple[list[kl.Number], list[kl.Number]]:
        """Return the log-sum-exp and the delta of a unit's rows, 0 beyond the last."""
        places = [first + self.plan.row(i) for i in range(self.plan.rows)]
        return self.numbers_at(up, n, head, places)

    @kl.helper
    def numbers_at(
        self, up: Upstream[kl.Pointer], n: kl.Index, head: kl.Index, places: Sequence[kl.Number]
    ) -> tuple[list[kl.Number], list[kl.Number]]:
        """Return the log-sum-exp and the delta of queries, 0 beyond the last."""
        row_at = (n * self.g.heads + head) * self.g.queries
        taken = [
            [memory.load(row_at + i, mask=i < self.g.queries) for i in places]
            for memory in (up.total, up.delta)
        ]
        return [finite(x) for x in taken[0]], taken[1]

    @kl.helper
    def differentiate(
        self,
        weights: kl.Registers,
        inner: kl.Registers,
        numbers: tuple[Sequence[kl.Number], Sequence[kl.Number]],
        n: kl.Index,
        head: kl.Index,
        first: kl.Index,
        begin: kl.Index,
    ) -> None:
        """Make weights of products, and gradients of scores of those of the upstream."""
        plan = self.plan
        for i in range(plan.rows):
            shift, along = numbers[0][i], numbers[1][i]
            for j in range(plan.keys):
                place = first + plan.row(i), begin + plan.column(j)
                x = self.score(weights[i, j], n, head, *place)
                weights[i, j] = plan.weight(x - shift)
                inner[i, j] = weights[i, j] * (inner[i, j] - along)

    @kl.helper
    def keep(self, scores: kl.Registers, turned: bool = False) -> None:
        """Write a unit's scores to the tile; rows are keys if ``turned``."""
        for i in range(self.plan.rows):
            for j in range(self.plan.keys):
                row, column = self.plan.row(i), self.plan.column(j)
                if turned:
                    row, column = column, row
                self.scores[row * self.plan.pitch + column] = scores[i, j]

    @kl.helper
    def put(
        self, target: kl.Pointer, at: kl.Number, first: kl.Number, width: kl.Number,
        made: Sequence[kl.Number],
    ) -> None:  # fmt: skip
        """Write a unit's sums of a row that begins at an index, from column ``first`` on."""
        step = self.plan.stored
        for j in range(0, self.plan.values, step):
            column = first + self.plan.value(j)
            if column < width:
                value = kl.pack(list(made[j : j + step])) if step > 1 else made[j]
                target.store(at + column, value.to(target.dtype))

    @kl.helper
    def put_tile(
        self, target: kl.Pointer, sums: kl.Registers, scale: kl.Number | None,
        first: kl.Number, count: kl.Number, at: kl.Number, width: kl.Number, panel: kl.Number,
    ) -> None:  # fmt: skip
        """Write a tile's sums of rows from ``first`` on, scaled, of ``count`` from ``at`` on."""
        for i in range(self.plan.rows):
            row = first + self.plan.row(i)
            if row < count:
                made = [sums[i, j] for j in range(self.plan.values)]
                made = made if scale is None else [x * scale for x in made]
                self.put(target, at + row * width, panel * self.plan.width, width, made)

    @kl.helper
    def keys_of(
        self, first: kl.Number, row_at: kl.Number, parts: kl.Number | None, part: kl.Number | None
    ) -> tuple[kl.Number, kl.Number, kl.Number]:
        """Return the first and last key of a cube's part for a tile, and where its rows go."""
        g, block = self.g, self.plan.block
        start, to = first * 0, row_at
        stop = kl.min(g.keys, first + self.plan.height) if self.form.causal else g.keys
        if parts is not None and part is not None:
            each = ((stop + block - 1) // block + parts - 1) // parts * block
            start, to = part * each, row_at + part * (kl.cube_count(2) * g.heads * g.queries)
            stop = kl.min(stop, start + each)
        return start, stop, to

    @kl.helper
    def queries_of(
        self, begin: kl.Number, key_at: kl.Number, parts: kl.Number | None, part: kl.Number | None,
        height: int = 0,
    ) -> tuple[kl.Number, kl.Number, kl.Number]:  # fmt: skip
        """Return the first and last query of a cube's part for a tile, and where its rows go.

        ``height``: the queries of a tile, 0 for the plan's rows.
        """
        g, height = self.g, height or self.plan.height
        start, stop = begin // height * height if self.form.causal else begin * 0, g.queries
        if parts is not None and part is not None:
            blocks = kl.max(stop - start + height - 1, 0) // height
            each = (blocks + parts - 1) // parts * height
            start = start + part * each
            stop = kl.min(stop, start + each)
            key_at = key_at + part * (kl.cube_count(2) * g.key_heads * g.keys)
        return start, stop, key_at

    @kl.helper
    def over_row(self, kind: str, values: Sequence[kl.Number]) -> list[kl.Number]:
        """Return values reduced over the units of each row; every unit of the cube calls it."""
        plan, made = self.plan, list(values)
        if plan.across == 1:
            return made
        if kl.plane_size() >= plan.across:
            distance = 1
            while distance < plan.across:
                others = [kl.plane_shuffle(x, distance, "xor") for x in made]
                made = [_joined(kind, x, y) for x, y in zip(made, others, strict=True)]
                distance *= 2
            return made
        parts = kl.shared(plan.height * plan.across, self.dtype)
        for i in range(plan.rows):
            parts[plan.row(i) * plan.across + kl.unit_position(0)] = made[i]
        kl.barrier()
        for i in range(plan.rows):
            first = plan.row(i) * plan.across
            x = parts[first]
            for k in range(1, plan.across):
                x = _joined(kind, x, parts[first + k])
            made[i] = x
        kl.barrier()
        return made


def _joined(kind: str, x: kl.Number, y: kl.Number) -> kl.Number:
    return x + y if kind == "add" else kl.select(y > x, y, x)


def cube_of(
    plan: SimtPlan, form: ScoreForm, g: KernelOperands, value_width: kl.Number, dtype: DType
) -> Cube:
    """Return a cube with memory for its tiles."""
    room = cube_memory(plan.room, dtype)
    size = max(plan.height, plan.block) * plan.pitch
    scores = room if plan.part else cube_memory(size, dtype)
    return Cube(plan, form, g, value_width, dtype, room, scores)


@dataclass(frozen=True, slots=True)
class Softmax:
    """The softmax of a unit's rows so far: their largest scores, a unit's powers, and its sums."""

    cube: Cube
    largest: kl.Registers
    powers: kl.Registers
    sums: kl.Registers

    @kl.helper
    def weigh(
        self, scores: kl.Registers, n: kl.Index, head: kl.Index, first: kl.Index, begin: kl.Index
    ) -> None:
        """Make weights of a tile of products, and rescale what was summed before."""
        cube, plan = self.cube, self.cube.plan
        for i in range(plan.rows):
            for j in range(plan.keys):
                place = first + plan.row(i), begin + plan.column(j)
                scores[i, j] = cube.score(scores[i, j], n, head, *place)
        tops = cube.over_row("max", [_largest(scores, i) for i in range(plan.rows)])
        for i, top in enumerate(tops):
            top = kl.select(top > self.largest[i], top, self.largest[i])
            shift = finite(top)
            factor = plan.weight(self.largest[i] - shift)
            self.largest[i] = top
            power = self.powers[i] * factor
            for j in range(plan.keys):
                scores[i, j] = plan.weight(scores[i, j] - shift)
                power = power + scores[i, j]
            self.powers[i] = power
            for j in range(plan.values):
                self.sums[i, j] = self.sums[i, j] * factor

    @kl.helper
    def write(
        self,
        out: kl.Pointer,
        total: kl.Pointer,
        rest: kl.Pointer | None,
        n: kl.Number,
        head: kl.Number,
        panel: kl.Number,
        first: kl.Number,
    ) -> None:
        """Write the rows of a tile of queries, and their log-sum-exp."""
        cube, plan, g = self.cube, self.cube.plan, self.cube.g
        row_at = (n * g.heads + head) * g.queries
        powers = cube.over_row("add", [self.powers[i] for i in range(plan.rows)])
        for i, power in enumerate(powers):
            row = first + plan.row(i)
            inverse = 1.0 / kl.select(power > 0.0, power, 1.0)
            if row < g.queries:
                made = [self.sums[i, j] * inverse for j in range(plan.values)]
                begin, left = (row_at + row) * cube.value_width, panel * plan.width
                cube.put(out, begin, left, cube.value_width, made)
                if rest is not None:
                    more = [dropped(x, out.dtype) for x in made]
                    cube.put(rest, begin, left, cube.value_width, more)
            if (panel == 0) and (kl.unit_position(0) == 0) and (row < g.queries):
                total[row_at + row] = finite(self.largest[i]) + log(power)


def softmax_of(cube: Cube) -> Softmax:
    """Return the softmax of no scores."""
    plan, dtype = cube.plan, cube.dtype
    largest = kl.registers((plan.rows,), dtype, fill=-math.inf)
    powers = kl.registers((plan.rows,), dtype)
    return Softmax(cube, largest, powers, kl.registers((plan.rows, plan.values), dtype))


def panel_of_cube(panels: kl.Number) -> tuple[kl.Number, kl.Number, kl.Number]:
    """Return the batch, the head and the panel of features of a cube."""
    return kl.cube_position(2), kl.cube_position(1) // panels, kl.cube_position(1) % panels


def _largest(scores: kl.Registers, i: int) -> kl.Number:
    top = scores[i, 0]
    for j in range(1, scores.shape[1]):
        top = _joined("max", top, scores[i, j])
    return top
