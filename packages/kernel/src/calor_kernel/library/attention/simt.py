"""Attention and its gradients by cubes of many units, with tiles in shared memory.

Requirements: only one tile of scores exists at a time. An online softmax follows the keys block by
block (Dao et al., "FlashAttention", 2022). Sums have a fixed order and nothing is atomic, so the
gradients of queries and of keys take two passes over the scores. Operands have any strides and
sizes. Tiles have the order of the operands: a unit reads vectors along the summed axis, so that an
access serves several products, and rows are padded, so that the vectors of neighbouring units lie
in different banks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.attention.gradient_parts import part_of_cube
from calor_kernel.library.attention.operands import (
    KernelOperands,
    Rows,
    ScoreForm,
    Upstream,
    finite,
    key_rows,
    query_rows,
    upstream_rows,
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
    together. ``wide``: the elements of a vector in shared memory.
    """

    across: int
    down: int
    depth: int
    rows: int
    keys: int
    values: int
    access: int = 1
    wide: int = 4

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
        return self.depth + 4

    @property
    def room(self) -> int:
        """The elements of the tiles of both operands of scores, or of the rows that are summed."""
        return max((self.height + self.block) * self.line, self.block * self.width)

    def shared_bytes(self, itemsize: int, plane: int) -> int:
        """Return the shared memory of a cube."""
        scores = max(self.height, self.block) * self.pitch
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
        wide = _ACCESS // int(self.dtype.itemsize)
        for p in kl.loop_range(0, a.width, plan.depth):
            kl.barrier()
            self.fill(self.room, plan.line, a, first, p, plan.height, plan.depth)
            self.fill(right, plan.line, b, begin, p, plan.block, plan.depth)
            kl.barrier()
            for q in kl.loop_range(0, plan.depth, wide):
                ys = [right.load(plan.column(j) * plan.line + q, wide) for j in range(plan.keys)]
                for i in range(plan.rows):
                    x = self.room.load(plan.row(i) * plan.line + q, wide)
                    for j in range(plan.keys):
                        for e in range(wide):
                            acc[i, j] = kl.fma(x[e], ys[j][e], acc[i, j])
        return acc

    @kl.helper
    def add_rows(self, sums: kl.Registers, source: Rows, first: kl.Index, begin: kl.Index) -> None:
        """Add the tile's factors times rows from ``first`` on, of features from ``begin`` on.

        A row of factors is that of a unit's row of sums.
        """
        plan = self.plan
        wide = _ACCESS // int(self.dtype.itemsize)
        together = plan.together
        self.fill(self.room, plan.width, source, first, begin, plan.block, plan.width)
        kl.barrier()
        for p in kl.loop_range(0, plan.block, wide):
            ys = [
                [
                    self.room.load((p + e) * plan.width + plan.value(v), together)
                    for v in range(0, plan.values, together)
                ]
                for e in range(wide)
            ]
            for i in range(plan.rows):
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
        g, plan = self.g, self.plan
        weights = self.products(query, key, first, begin)
        inner = self.products(upstream, value, first, begin)
        row_at = (n * g.heads + head) * g.queries
        for i in range(plan.rows):
            place = first + plan.row(i)
            there = place < g.queries
            shift = finite(up.total.load(row_at + place, mask=there))
            along = up.delta.load(row_at + place, mask=there)
            for j in range(plan.keys):
                x = self.score(weights[i, j], n, head, place, begin + plan.column(j))
                weights[i, j] = exp(x - shift)
                inner[i, j] = weights[i, j] * (inner[i, j] - along)
        return weights, inner

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
    scores = cube_memory(max(plan.height, plan.block) * plan.pitch, dtype)
    return Cube(plan, form, g, value_width, dtype, cube_memory(plan.room, dtype), scores)


def panel_of_cube(panels: kl.Number) -> tuple[kl.Number, kl.Number, kl.Number]:
    """Return the batch, the head and the panel of features of a cube."""
    return kl.cube_position(2), kl.cube_position(1) // panels, kl.cube_position(1) % panels


@kl.kernel
def attend_simt(
    out: kl.Out,
    total: kl.Out,
    rest: kl.Out | None,
    value_width: kl.Size,
    panels: kl.Size,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
) -> None:
    """Compute a tile: rows from x, a head and a panel of the values' features from y, batch z."""
    dtype, rows = total.dtype, plan.rows
    n, head, panel = panel_of_cube(panels)
    first = kl.cube_position(0) * plan.height
    cube = cube_of(plan, form, g, value_width, dtype)
    query, key, value = cube.heads(n, head)
    largest = kl.registers((rows,), dtype, fill=-math.inf)
    # Sums of a unit's own weights.
    powers = kl.registers((rows,), dtype)
    sums = kl.registers((rows, plan.values), dtype)
    stop = kl.min(g.keys, first + plan.height) if form.causal else g.keys
    for begin in kl.loop_range(0, stop, plan.block):
        scores = cube.products(query, key, first, begin)
        for i in range(rows):
            for j in range(plan.keys):
                place = first + plan.row(i), begin + plan.column(j)
                scores[i, j] = cube.score(scores[i, j], n, head, *place)
        for i, top in enumerate(cube.over_row("max", [_largest(scores, i) for i in range(rows)])):
            top = kl.select(top > largest[i], top, largest[i])
            shift = finite(top)
            factor = exp(largest[i] - shift)
            largest[i] = top
            power = powers[i] * factor
            for j in range(plan.keys):
                scores[i, j] = exp(scores[i, j] - shift)
                power = power + scores[i, j]
            powers[i] = power
            for j in range(plan.values):
                sums[i, j] = sums[i, j] * factor
        # All units have finished with the operands of the scores.
        kl.barrier()
        cube.keep(scores)
        cube.add_rows(sums, value, begin, panel * plan.width)
    row_at = (n * g.heads + head) * g.queries
    for i, power in enumerate(cube.over_row("add", [powers[i] for i in range(rows)])):
        row = first + plan.row(i)
        inverse = 1.0 / kl.select(power > 0.0, power, 1.0)
        if row < g.queries:
            made = [sums[i, j] * inverse for j in range(plan.values)]
            begin, left = (row_at + row) * value_width, panel * plan.width
            cube.put(out, begin, left, value_width, made)
            if rest is not None:
                more = [dropped(x, out.dtype) for x in made]
                cube.put(rest, begin, left, value_width, more)
        if (panel == 0) and (kl.unit_position(0) == 0) and (row < g.queries):
            total[row_at + row] = finite(largest[i]) + log(power)


def _largest(scores: kl.Registers, i: int) -> kl.Number:
    top = scores[i, 0]
    for j in range(1, scores.shape[1]):
        top = _joined("max", top, scores[i, j])
    return top


@kl.kernel
def query_gradient_simt(
    up: Upstream[kl.Pointer],
    for_query: kl.Out,
    value_width: kl.Size,
    panels: kl.Size,
    parts: kl.Size | None,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
) -> None:
    """Compute the gradient of a tile of queries, one panel of their features a cube.

    ``parts``: how many cubes share the keys of a tile; each writes sums of its own.
    """
    dtype = up.total.dtype
    n, head, panel = panel_of_cube(panels)
    tile, _, part = part_of_cube(parts)
    first = tile * plan.height
    cube = cube_of(plan, form, g, value_width, dtype)
    query, key, value = cube.heads(n, head)
    row_at = (n * g.heads + head) * g.queries
    upstream = upstream_rows(up, row_at, g, value_width)
    sums = kl.registers((plan.rows, plan.values), dtype)
    start, to = first * 0, row_at
    stop = kl.min(g.keys, first + plan.height) if form.causal else g.keys
    if parts is not None and part is not None:
        each = ((stop + plan.block - 1) // plan.block + parts - 1) // parts * plan.block
        start, to = part * each, row_at + part * (kl.cube_count(2) * g.heads * g.queries)
        stop = kl.min(stop, start + each)
    for begin in kl.loop_range(start, stop, plan.block):
        _, inner = cube.gradients(query, key, value, upstream, up, n, head, first, begin)
        kl.barrier()
        cube.keep(inner)
        cube.add_rows(sums, key, begin, panel * plan.width)
    for i in range(plan.rows):
        row = first + plan.row(i)
        if row < g.queries:
            made = [sums[i, j] * g.scale for j in range(plan.values)]
            at = (to + row) * g.features
            cube.put(for_query, at, panel * plan.width, g.features, made)


@kl.kernel
def key_gradient_simt(
    up: Upstream[kl.Pointer],
    for_key: kl.Out,
    for_value: kl.Out,
    value_width: kl.Size,
    panels: kl.Size,
    parts: kl.Size | None,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
) -> None:
    """Compute the gradients of a tile of keys and values, one panel of their features a cube.

    ``parts``: how many cubes share the queries of a tile; each writes sums of its own.
    """
    dtype, height, width = up.total.dtype, plan.height, plan.width
    n, key_head, panel = panel_of_cube(panels)
    tile, _, part = part_of_cube(parts)
    begin = tile * plan.block
    start, stop = begin // height * height if form.causal else begin * 0, g.queries
    key_at = (n * g.key_heads + key_head) * g.keys
    if parts is not None and part is not None:
        blocks = kl.max(stop - start + height - 1, 0) // height
        each = (blocks + parts - 1) // parts * height
        start = start + part * each
        stop = kl.min(stop, start + each)
        key_at = key_at + part * (kl.cube_count(2) * g.key_heads * g.keys)
    cube = cube_of(plan, form, g, value_width, dtype)
    key, value = cube.key_heads(n, key_head)
    key_sums = kl.registers((plan.rows, plan.values), dtype)
    value_sums = kl.registers((plan.rows, plan.values), dtype)
    for head in kl.loop_range(key_head * g.group, (key_head + 1) * g.group):
        row_at = (n * g.heads + head) * g.queries
        query = query_rows(g, n, head, form.contiguous[0])
        upstream = upstream_rows(up, row_at, g, value_width)
        for first in kl.loop_range(start, stop, height):
            weights, inner = cube.gradients(query, key, value, upstream, up, n, head, first, begin)
            for factors, rows, sums in (
                (weights, upstream, value_sums),
                (inner, query, key_sums),
            ):
                kl.barrier()
                cube.keep(factors, turned=True)
                cube.add_rows(sums, rows, first, panel * width)
    for i in range(plan.rows):
        row = begin + plan.row(i)
        if row < g.keys:
            of_key = [key_sums[i, j] * g.scale for j in range(plan.values)]
            of_value = [value_sums[i, j] for j in range(plan.values)]
            first = panel * width
            cube.put(for_key, (key_at + row) * g.features, first, g.features, of_key)
            cube.put(for_value, (key_at + row) * value_width, first, value_width, of_value)
