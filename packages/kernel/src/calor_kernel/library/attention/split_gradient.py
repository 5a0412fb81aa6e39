"""Gradients of attention of few queries, in one pass over keys that cubes share.

Requirements: a cube owns some keys of a key head and all rows of its query heads, so the gradients
of its keys and values are whole, and each key and value is read once. Rows are in shared memory;
blocks of them belong to different planes, which see the same keys. A team of lanes holds a key's
features, as in the forward pass. Partial products of several pairs of a row and a key are reduced
together: each exchange halves the pairs of a lane, so one lane computes a weight. Sums of the query
gradient stay in registers; the last cube of a head, or a launch of its own, adds those of the
splits. Sums have a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.arrivals import is_last
from calor_kernel.library.attention.operands import (
    KernelOperands,
    ScoreForm,
    Upstream,
    finite,
    key_rows,
    query_rows,
    value_rows,
    visible,
)
from calor_kernel.library.attention.problem import ResultSteps
from calor_kernel.library.attention.split_keys import (
    HeadRows,
    over_lanes,
    product,
    taken_rows,
)
from calor_kernel.library.attention.split_plan import SplitPlan
from calor_kernel.library.math.base import exactly
from calor_kernel.library.reduce.row_order import RowOrder

# Splits that are read together.
_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """Cubes of ``blocks`` of rows; each has the ``units`` and the rows of ``team``.

    ``turn``: the rows whose products are reduced together. ``order``: that of the sum that is a
    row's delta, where the cubes compute it.
    """

    team: SplitPlan
    blocks: int
    turn: int
    order: RowOrder | None = None

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.team.units * self.blocks

    @property
    def rows(self) -> int:
        """The rows of a cube."""
        return self.team.rows * self.blocks

    @property
    def step(self) -> int:
        """The keys of a step."""
        return self.team.teams * self.team.unroll

    @property
    def rooms(self) -> tuple[int, int]:
        """The places for the features of a key, and of a value."""
        of_a_vector = self.team.lanes * self.team.access
        return of_a_vector * self.team.features, of_a_vector * self.team.values

    @property
    def columns(self) -> range:
        """The first columns of the vectors of a result that a unit reads for its row's delta."""
        assert self.order is not None
        return range(0, min(self.rooms[1], self.order.terms), self.team.access)

    def shared_bytes(self, itemsize: int, plane: int) -> int:
        """Return the shared memory of a cube."""
        widths = sum(self.rooms)
        steps = self.step * self.blocks * widths if self.blocks > 1 else 0
        joined = self.units // plane * self.team.together * self.rooms[0]
        return (self.rows * (widths + 4) + steps + joined) * itemsize


@dataclass(frozen=True, slots=True)
class HeldRows:
    """The rows of a cube in shared memory: queries, upstream gradients, and a row's numbers.

    ``heads`` and ``places``: the query head and the query of each row, where masks need them.
    """

    mine: HeadRows
    queries: kl.Pointer
    upstream: kl.Pointer
    shifts: kl.Pointer
    alongs: kl.Pointer
    heads: kl.Pointer | None
    places: kl.Pointer | None

    @kl.helper
    def query(self, row: kl.Index, v: int, plan: GradientPlan) -> kl.Number:
        """Return the vector of a lane of a query."""
        return self.queries.load(row * plan.rooms[0] + plan.team.place(v), plan.team.access)

    @kl.helper
    def gradient(self, row: kl.Index, v: int, plan: GradientPlan) -> kl.Number:
        """Return the vector of a lane of an upstream gradient."""
        return self.upstream.load(row * plan.rooms[1] + plan.team.place(v), plan.team.access)


@kl.helper
def hold_rows(
    mine: HeadRows, up: Upstream[kl.Pointer], value_width: kl.Number, form: ScoreForm,
    plan: GradientPlan,
) -> HeldRows:  # fmt: skip
    """Copy the rows of a key head to shared memory; rows beyond the last are zeros."""
    g, dtype, unit, access = mine.g, up.total.dtype, kl.unit_position(), plan.team.access
    of_query, of_value = plan.rooms
    placed = bool(form.kinds) or form.causal
    index = g.keys.dtype
    held = HeldRows(
        mine,
        kl.shared(plan.rows * of_query, dtype, align=16),
        kl.shared(plan.rows * of_value, dtype, align=16),
        kl.shared(plan.rows, dtype),
        kl.shared(plan.rows, dtype),
        kl.shared(plan.rows, index) if placed else None,
        kl.shared(plan.rows, index) if placed else None,
    )
    for i in kl.loop_range(unit, plan.rows * (of_query // access), plan.units):
        row = i // (of_query // access)
        column = i % (of_query // access) * access
        head, query = mine.place(row)
        source = query_rows(g, mine.n, head, form.contiguous[0])
        value = kl.constant(0, g.query.dtype, access)
        if (row < mine.count) & (column < g.features):
            step = column if source.contiguous else column * source.step
            value = source.memory.load(source.at + query * source.row_step + step, access)
        held.queries.store(row * of_query + column, value.to(dtype))
    for i in kl.loop_range(unit, plan.rows * (of_value // access), plan.units):
        row = i // (of_value // access)
        column = i % (of_value // access) * access
        value = kl.constant(0, up.gradient.dtype, access)
        if (row < mine.count) & (column < value_width):
            at = mine.index(row) * value_width
            if up.strides:
                head, query = mine.place(row)
                rows = mine.n * up.strides[0] + head * up.strides[1]
                at = rows + query * up.strides[2]
            value = up.gradient.load(at + column, access)
        held.upstream.store(row * of_value + column, value.to(dtype))
    for row in kl.loop_range(unit, plan.rows, plan.units):
        at = mine.index(row)
        held.shifts[row] = finite(up.total[at])
        if not up.result:
            held.alongs[row] = up.delta[at]
        if held.heads is not None and held.places is not None:
            head, query = mine.place(row)
            held.heads[row] = head.to(index)
            held.places[row] = query.to(index)
    kl.barrier()
    if up.result:
        sum_rows(held, up, value_width, plan)
    return held


@kl.helper
def sum_rows(
    held: HeldRows, up: Upstream[kl.Pointer], value_width: kl.Number, plan: GradientPlan
) -> None:
    """Compute the sum of a row's products of result and upstream gradient, a row a unit.

    The order is that of the op, so that the gradients have the bits of those of a given delta.
    """
    mine, access, dtype = held.mine, plan.team.access, up.total.dtype
    for row in kl.loop_range(kl.unit_position(), plan.rows, plan.units):
        head, query = mine.place(row)
        at = mine.n * up.result[0] + head * up.result[1] + query * up.result[2]
        near = kl.constant(0, at.dtype)
        if up.rest is not None:
            steps = up.rest_steps
            near = mine.n * steps[0] + head * steps[1] + query * steps[2]
        products = []
        for column in plan.columns:
            value = kl.constant(0, dtype, access)
            inside = True if plan.team.full[1] else column < value_width
            if inside:
                value = whole_result(up, at + column, near + column, access)
            upstream = held.upstream.load(row * plan.rooms[1] + column, access)
            products += multiplied(value, upstream)
        held.alongs[row] = added(products, plan, dtype)
    kl.barrier()


@kl.helper
def whole_result(
    up: Upstream[kl.Pointer], at: kl.Number, near: kl.Number, access: int
) -> kl.Number:
    """Return a vector of the result as it was before it was rounded, if its rest is given."""
    value = up.delta.load(at, access).to(up.total.dtype)
    if up.rest is not None:
        value = value + up.rest.load(near, access).to(up.total.dtype)
    return value


@exactly
def multiplied(a: kl.Number, b: kl.Number) -> list[kl.Number]:
    """Return the products of two vectors' lanes, each rounded."""
    made = a * b
    return [made] if made.width == 1 else [made[i] for i in range(made.width)]


def added(products: Sequence[kl.Number], plan: GradientPlan, dtype: DType) -> kl.Number:
    """Return the sum of a row's products, with zeros behind the last one."""
    assert plan.order is not None
    zero = kl.constant(0, dtype)
    return plan.order.total(lambda n: products[n] if n < len(products) else zero, dtype)


@kl.helper
def halved(pairs: Sequence[kl.Number], count: int, lanes: int) -> tuple[list[kl.Number], kl.Number]:
    """Return sums over the lanes of a team, and the number of a lane's first one.

    ``pairs`` has some values of each of ``count`` pairs, all of the first one first. While a lane
    has several pairs, it gives half of them to another lane and takes the other half's parts.
    """
    made, left, place = list(pairs), count, kl.unit_position() * 0
    each, distance = len(made) // count, lanes // 2
    while distance:
        if left > 1:
            high = kl.unit_position() // distance % 2 != 0
            half = len(made) // 2
            given = [kl.select(high, a, b) for a, b in zip(made[:half], made[half:], strict=True)]
            kept = [kl.select(high, b, a) for a, b in zip(made[:half], made[half:], strict=True)]
            others = [kl.plane_shuffle(x, distance, "xor") for x in given]
            made = [x + y for x, y in zip(kept, others, strict=True)]
            left = len(made) // each
            place = place + kl.select(high, left, 0)
        else:
            others = [kl.plane_shuffle(x, distance, "xor") for x in made]
            made = [x + y for x, y in zip(made, others, strict=True)]
        distance //= 2
    return made, place


@kl.helper
def spread(made: Sequence[kl.Number], count: int, lanes: int) -> list[kl.Number]:
    """Return the values of all ``count`` pairs in all lanes, whose own ones ``halved`` left."""
    if lanes == 1:
        return list(made)
    base = kl.lane_position() // lanes * lanes
    found = []
    for number in range(count):
        at, left, distance, offset = number, count, lanes // 2, 0
        while distance and left > 1:
            left //= 2
            if at >= left:
                at -= left
                offset += distance
            distance //= 2
        found.append(kl.plane_shuffle(made[at], base + offset))
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a team: its keys from ``begin`` on, up to ``stop``, and their vectors."""

    held: HeldRows
    begin: kl.Number
    stop: kl.Number
    team: kl.Number
    keys: Sequence[kl.Number]
    values: Sequence[kl.Number]

    @kl.helper
    def factors(
        self, first: kl.Number, queries: Sequence[kl.Number], upstream: Sequence[kl.Number],
        plan: GradientPlan, form: ScoreForm,
    ) -> tuple[list[kl.Number], list[kl.Number]]:  # fmt: skip
        """Return the weights and the gradients of the scores of ``turn`` rows from ``first`` on."""
        team, g, held = plan.team, self.held.mine.g, self.held
        parts = []
        for t in range(plan.turn):
            for u in range(team.unroll):
                mine = queries[t * team.features : (t + 1) * team.features]
                keys = self.keys[u * team.features : (u + 1) * team.features]
                parts.append(product(mine, keys, team))
                mine = upstream[t * team.values : (t + 1) * team.values]
                values = self.values[u * team.values : (u + 1) * team.values]
                parts.append(product(mine, values, team))
        count = plan.turn * team.unroll
        made, place = halved(parts, count, team.lanes)
        weights, slopes = [], []
        for i in range(len(made) // 2):
            pair = place + i
            row = first + pair // team.unroll
            key = self.begin + (pair % team.unroll * team.teams + self.team).to(self.begin.dtype)
            there = (key < self.stop) & (row.to(self.begin.dtype) < held.mine.count)
            head, query = self.begin * 0, self.begin * 0
            if held.heads is not None and held.places is not None:
                head, query = held.heads[row], held.places[row]
            x = made[2 * i] * g.scale
            x = visible(x, there, g, form, held.mine.n, head, query, key)
            weight = team.weight(x - held.shifts[row])
            weights.append(weight)
            slopes.append(weight * (made[2 * i + 1] - held.alongs[row]))
        return spread(weights, count, team.lanes), spread(slopes, count, team.lanes)


@dataclass(frozen=True, slots=True)
class Target:
    """Rows of a result: from ``start`` on, ``step`` apart, each of ``width`` elements."""

    memory: kl.Pointer
    start: kl.Number
    step: kl.Number
    width: kl.Number

    @kl.helper
    def store(self, row: kl.Number, column: kl.Number, x: kl.Number) -> None:
        """Write a vector of a row if the row has it."""
        if column < self.width:
            self.memory.store(self.start + row * self.step + column, x.to(self.memory.dtype))


def rows_of(
    memory: kl.Pointer, width: kl.Number, steps: ResultSteps[kl.Number] | None, g: KernelOperands,
    n: kl.Number, key_head: kl.Number,
) -> Target:  # fmt: skip
    """Return the rows of a key head of a gradient, which is dense without ``steps``."""
    if steps is None:
        return Target(memory, (n * g.key_heads + key_head) * g.keys * width, width, width)
    return Target(memory, steps.at(n, key_head, 0), steps.row, width)


@kl.kernel
def gradient_split(
    up: Upstream[kl.Pointer],
    for_query: kl.Out,
    for_key: kl.Out,
    for_value: kl.Out,
    query_steps: ResultSteps[kl.Number] | None,
    key_steps: ResultSteps[kl.Number] | None,
    value_steps: ResultSteps[kl.Number] | None,
    sums: kl.InOut | None,
    flags: kl.InOut | None,
    value_width: kl.Size,
    splits: kl.Size,
    length: kl.Size,
    g: KernelOperands,
    *,
    plan: GradientPlan,
    form: ScoreForm,
) -> None:
    """Compute gradients for ``length`` keys from x on, key head y, batch z.

    ``sums`` has the unscaled query gradients of each row and split.
    """
    dtype, n, key_head = up.total.dtype, kl.cube_position(2), kl.cube_position(1)
    team, mine = plan.team, HeadRows(g, n, key_head, kl.cube_position(1) * 0)
    held = hold_rows(mine, up, value_width, form, plan)
    keys = key_rows(g, n, key_head, form.contiguous[1])
    values = value_rows(g, n, key_head, value_width, form.contiguous[2])
    unit = kl.unit_position()
    first = unit // team.units * team.rows
    number = unit % team.units // team.lanes
    query_sums = kl.registers((team.rows, team.features), dtype, team.access)
    split = kl.cube_position(0)
    start = split * length
    end = kl.min(start + length, g.keys)
    # Keys from here on are hidden from all queries.
    stop = kl.min(end, g.queries) if form.causal else end
    room = None
    if plan.blocks > 1:
        room = kl.shared(plan.blocks * plan.step * sum(plan.rooms), dtype, align=16)
    keys_to = rows_of(for_key, g.features, key_steps, g, n, key_head)
    targets = keys_to, rows_of(for_value, value_width, value_steps, g, n, key_head)
    for begin in kl.loop_range(start, end, plan.step):
        at = [begin + (u * team.teams + number) for u in range(team.unroll)]
        there = [key < stop for key in at]
        of_keys = taken_rows(keys, at, there, team.features, team.full[0], team)
        of_values = taken_rows(values, at, there, team.values, team.full[1], team)
        step = Step(
            held,
            begin,
            stop,
            number,
            [x.to(dtype) for x in of_keys],
            [x.to(dtype) for x in of_values],
        )
        key_sums = kl.registers((team.unroll, team.features), dtype, team.access)
        value_sums = kl.registers((team.unroll, team.values), dtype, team.access)
        for r in range(0, team.rows, plan.turn):
            add_rows(step, first + r, r, (query_sums, key_sums, value_sums), plan, form)
        for u in range(team.unroll):
            for v in range(team.features):
                key_sums[u, v] = key_sums[u, v] * kl.splat(g.scale, team.access)
        made = key_sums, value_sums
        if room is None:
            for u in range(team.unroll):
                if at[u] < end:
                    for target, given, count in zip(
                        targets, made, (team.features, team.values), strict=True
                    ):
                        for v in range(count):
                            target.store(at[u], team.place(v), given[u, v])
        else:
            join_blocks(room, made, targets, begin, end - begin, plan)
    write_queries(query_sums, mine, for_query, query_steps, sums, split, splits, plan)
    if flags is not None and sums is not None:
        last = is_last(flags, n * kl.cube_count(1) + key_head, splits)
        if last:
            each = g.features // team.access
            for i in kl.loop_range(unit, mine.count * each, plan.units):
                row = i // each
                column = (i - row * each) * team.access
                to = mine.starts(row, (query_steps,), g.features)[0]
                add_splits_of(mine.index(row), to, column, for_query, sums, splits, g, team.access)


@kl.helper
def add_rows(
    step: Step,
    first: kl.Number,
    r: int,
    sums: tuple[kl.Registers, kl.Registers, kl.Registers],
    plan: GradientPlan,
    form: ScoreForm,
) -> None:
    """Add what ``turn`` rows from ``first`` on give to the sums of queries, keys and values."""
    team, held = plan.team, step.held
    of_queries, of_keys, of_values = sums
    turns, features, values = range(plan.turn), range(team.features), range(team.values)
    queries = [held.query(first + t, v, plan) for t in turns for v in features]
    upstream = [held.gradient(first + t, v, plan) for t in turns for v in values]
    weights, slopes = step.factors(first, queries, upstream, plan, form)
    for t in turns:
        for u in range(team.unroll):
            slope = kl.splat(slopes[t * team.unroll + u], team.access)
            weight = kl.splat(weights[t * team.unroll + u], team.access)
            for v in features:
                x, y = queries[t * team.features + v], step.keys[u * team.features + v]
                of_keys[u, v] = kl.fma(x, slope, of_keys[u, v])
                of_queries[r + t, v] = kl.fma(y, slope, of_queries[r + t, v])
            for v in values:
                x = upstream[t * team.values + v]
                of_values[u, v] = kl.fma(x, weight, of_values[u, v])


@kl.helper
def join_blocks(
    room: kl.Pointer,
    made: tuple[kl.Registers, kl.Registers],
    targets: Sequence[Target],
    begin: kl.Number,
    rows: kl.Number,
    plan: GradientPlan,
) -> None:
    """Add the sums of keys and values of all blocks of rows, and write those of a step."""
    team, unit = plan.team, kl.unit_position()
    own, number = unit // team.units, unit % team.units // team.lanes
    starts = (0, plan.blocks * plan.step * plan.rooms[0])
    counts = (team.features, team.values)
    for given, count, width, start in zip(made, counts, plan.rooms, starts, strict=True):
        for u in range(team.unroll):
            row = own * plan.step + (u * team.teams + number)
            for v in range(count):
                room.store(start + row * width + team.place(v), given[u, v])
    kl.barrier()
    for target, width, start in zip(targets, plan.rooms, starts, strict=True):
        for i in kl.loop_range(unit, plan.step * (width // team.access), plan.units):
            row = i // (width // team.access)
            column = i % (width // team.access) * team.access
            if row < rows:
                x = room.load(start + row * width + column, team.access)
                for b in range(1, plan.blocks):
                    at = start + (row + b * plan.step) * width + column
                    x = x + room.load(at, team.access)
                target.store(begin + row, column, x)
    kl.barrier()


@kl.helper
def write_queries(
    query_sums: kl.Registers, mine: HeadRows, for_query: kl.Pointer,
    steps: ResultSteps[kl.Number] | None, sums: kl.Pointer | None, split: kl.Number,
    splits: kl.Number, plan: GradientPlan,
) -> None:  # fmt: skip
    """Join the teams and planes of a cube, and write its query gradients, or those of a split."""
    team, g, dtype, plane = plan.team, mine.g, mine.g.scale.dtype, kl.plane_size()
    planes, width = plan.units // plane, plan.rooms[0]
    of_a_block = team.units // plane
    lane, own = kl.lane_position(), kl.plane_position()
    room = kl.shared(planes * team.together * width, dtype, align=16)
    for r in range(0, team.rows, team.together):
        if r:
            kl.barrier()
        for t in range(team.together):
            given = [query_sums[r + t, v] for v in range(team.features)]
            joined = over_lanes("add", given, team.lanes, plane)
            if lane < team.lanes:
                for v in range(team.features):
                    at = (own * team.together + t) * width + team.place(v)
                    room.store(at, joined[v])
        kl.barrier()
        for i in kl.loop_range(kl.unit_position(), plan.blocks * team.together * width, plan.units):
            block = i // (team.together * width)
            t = i // width % team.together
            column = i % width
            row = block * team.rows + r + t
            if (row < mine.count) & (column < g.features):
                x = kl.constant(0, dtype)
                for p in range(of_a_block):
                    at = ((block * of_a_block + p) * team.together + t) * width + column
                    x = x + room[at]
                if sums is not None:
                    sums[(mine.index(row) * splits + split) * g.features + column] = x
                else:
                    to = mine.starts(row, (steps,), g.features)[0] + column
                    for_query[to] = (x * g.scale).to(for_query.dtype)


@kl.helper
def add_splits_of(
    row: kl.Number, to: kl.Number, column: kl.Number, for_query: kl.Pointer, sums: kl.Pointer,
    splits: kl.Number, g: KernelOperands, access: int,
) -> None:  # fmt: skip
    """Compute a vector of the query gradient of a row, which begins at ``to``, from all splits."""
    total = kl.registers(1, sums.dtype, access)
    for s in kl.loop_range(0, splits, _TOGETHER):
        places = [row * splits + kl.min(s + k, splits - 1) for k in range(_TOGETHER)]
        taken = [sums.load(at * g.features + column, access) for at in places]
        for k in range(_TOGETHER):
            factor = kl.select(s + k < splits, g.scale, 0.0)
            total[0] = kl.fma(taken[k], kl.splat(factor, access), total[0])
    for_query.store(to + column, total[0].to(for_query.dtype))


@kl.kernel
def join_gradients(
    for_query: kl.Out, sums: kl.In, splits: kl.Size, rows: kl.Size,
    steps: ResultSteps[kl.Number] | None, g: KernelOperands, *, access: int,
) -> None:  # fmt: skip
    """Compute the query gradients from the sums of all splits, a vector a unit."""
    i, each = kl.absolute_position(), g.features // access
    if i < rows * each:
        row = i // each
        to = row * g.features if steps is None else steps.of_row(row)
        add_splits_of(row, to, (i - row * each) * access, for_query, sums, splits, g, access)
