"""Attention of few queries by cubes that share the keys of a head (flash-decoding).

Requirements: a key head's keys are divided among cubes, so that one query fills the device, and all
query heads of a key head share the loads. A team of lanes holds a key's features, a vector a lane,
and follows its own keys with its own online softmax. So the loop has no barrier, and each key and
value is read once, in order. All loads of a step are issued before the first is used. Teams are
joined at the end, and splits by the last cube of a head, or by a launch of its own. Sums have a
fixed order. (Dao et al., "Flash-Decoding for long-context inference", 2023.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.language.declared import CHANGES, READS
from calor_kernel.library.arrivals import is_last
from calor_kernel.library.attention.operands import (
    KernelOperands,
    Rows,
    ScoreForm,
    extras_of,
    finite,
    key_rows,
    query_rows,
    value_rows,
    visible,
)
from calor_kernel.library.attention.problem import ResultSteps, dropped
from calor_kernel.library.attention.split_plan import JoinPlan, SplitPlan
from calor_kernel.library.math import log

M = TypeVar("M")
N = TypeVar("N")
# Splits that a unit reads together, since one after the other would take as long as the sums.
TOGETHER = 8
# Bytes of a line of the cache, and the most lines that a unit fetches early.
_LINE, _FETCHED = 128, 2


@dataclass(frozen=True, slots=True)
class Caches(Generic[M, N]):
    """Dense keys and values, of which the launch writes a row at the place that ``place`` holds.

    The row is that of the operands' key and value, whose rows are no others.
    """

    keys: Annotated[M, CHANGES]
    values: Annotated[M, CHANGES]
    place: Annotated[M, READS]


@dataclass(frozen=True, slots=True)
class Splits:
    """The results, the sums of splits, and the sizes of both.

    ``sums`` has the unscaled sums of each row and split, and ``numbers`` the maximum of its scores
    and the sum of its weights.
    """

    out: kl.Pointer
    total: kl.Pointer
    sums: Any
    numbers: Any
    width: kl.Number
    count: kl.Number
    rest: Any

    @kl.helper
    def finish(
        self, row: kl.Number, at: Sequence[kl.Number], column: kl.Number,
        largest: kl.Number, power: kl.Number, x: kl.Number,
    ) -> None:  # fmt: skip
        """Write a value of a row that begins ``at``, and its log-sum-exp beside the first one."""
        self.put(at, column, x / kl.select(power > 0.0, power, 1.0))
        if column == 0:
            self.total[row] = finite(largest) + log(power)

    @kl.helper
    def put(self, at: Sequence[kl.Number], column: kl.Number, x: kl.Number) -> None:
        """Write values from a column on of a row that begins ``at``, in the results and the rest.

        A place alone is that of both.
        """
        self.out.store(at[0] + column, x.to(self.out.dtype))
        if self.rest is not None:
            self.rest.store(at[-1] + column, dropped(x, self.out.dtype))

    @kl.helper
    def keep(
        self, row: kl.Number, split: kl.Number, column: kl.Number,
        largest: kl.Number, power: kl.Number, x: kl.Number,
    ) -> None:  # fmt: skip
        """Write a value of a split."""
        at = row * self.count + split
        self.sums[at * self.width + column] = x
        if column == 0:
            self.numbers[at * 2] = largest
            self.numbers[at * 2 + 1] = power

    @kl.helper
    def join(
        self, row: kl.Number, at: Sequence[kl.Number], column: kl.Number, there: kl.Mask,
        plan: JoinPlan,
    ) -> None:  # fmt: skip
        """Compute a vector of a row that begins ``at`` from all splits.

        Each lane has an online softmax of its own.

        All loads of several splits are issued before the first is used. The lanes of a plan share
        the splits; all of them call it, also if their vector is not ``there``.
        """
        lanes = plan.lanes
        dtype, each, share = self.total.dtype, plan.joined, kl.unit_position() % lanes
        top, power = kl.registers(1, dtype, fill=-math.inf), kl.registers(1, dtype)
        x = kl.registers(1, dtype, each)
        for begin in kl.loop_range(0, self.count, TOGETHER * lanes):
            numbers = [begin + (share + k * lanes) for k in range(TOGETHER)]
            places = [row * self.count + kl.min(s, self.count - 1) for s in numbers]
            heads = [(self.numbers[at * 2], self.numbers[at * 2 + 1]) for at in places]
            taken = [self.sums.load(at * self.width + column, each) for at in places]
            best = top[0]
            for largest, _ in heads:
                best = kl.select(largest > best, largest, best)
            shift = finite(best)
            factor = plan.weight(top[0] - shift)
            made, joined = power[0] * factor, x[0] * kl.splat(factor, each)
            for k in range(TOGETHER):
                factor = kl.select(numbers[k] < self.count, plan.weight(heads[k][0] - shift), 0.0)
                made = kl.fma(heads[k][1], factor, made)
                joined = kl.fma(taken[k], kl.splat(factor, each), joined)
            top[0], power[0], x[0] = best, made, joined
        (best,) = over_lanes("max", [top[0]], 1, lanes)
        factor = plan.weight(top[0] - finite(best))
        scaled = x[0] * kl.splat(factor, each)
        made, joined = over_lanes("add", [power[0] * factor, scaled], 1, lanes)
        if there & (share == 0):
            inverse = 1.0 / kl.select(made > 0.0, made, 1.0)
            self.put(at, column, joined * kl.splat(inverse, each))
            if column == 0:
                self.total[row] = finite(best) + log(made)


@dataclass(frozen=True, slots=True)
class HeadRows:
    """Rows from ``first`` on of the query heads of a key head of batch ``n``."""

    g: KernelOperands
    n: kl.Number
    key_head: kl.Number
    first: kl.Number

    @property
    def count(self) -> kl.Number:
        """The number of rows of a key head."""
        return self.g.group * self.g.queries

    @kl.helper
    def place(self, r: kl.Index) -> tuple[kl.Number, kl.Number]:
        """Return the head and the query of a row, or of the last one."""
        row = kl.min(self.first + r, self.count - 1)
        head = row // self.g.queries
        return self.key_head * self.g.group + head, row - head * self.g.queries

    @kl.helper
    def index(self, r: kl.Index) -> kl.Number:
        """Return the index of a row among all."""
        head, query = self.place(r)
        return (self.n * self.g.heads + head) * self.g.queries + query

    @kl.helper
    def starts(
        self, r: kl.Index, steps: Sequence[ResultSteps[kl.Number] | None], width: kl.Number
    ) -> list[kl.Number]:
        """Return where a row of each of the results begins, which are dense without ``steps``."""
        place = self.place(r)
        row = self.index(r) * width
        return [row if s is None else s.at(self.n, *place) for s in steps]


@dataclass(frozen=True, slots=True)
class Softmax:
    """The online softmax of a team's rows: maxima, sums of weights, and weighted sums of values."""

    largest: kl.Registers
    powers: kl.Registers
    sums: kl.Registers

    @kl.helper
    def follow(
        self, r: int, scores: Sequence[kl.Number], values: Sequence[kl.Number], plan: SplitPlan
    ) -> None:
        """Add the scores of some keys to a row, with the vectors of their values."""
        top = self.largest[r]
        for x in scores:
            top = kl.select(x > top, x, top)
        shift = finite(top)
        factor = plan.weight(self.largest[r] - shift)
        self.largest[r] = top
        weights = [plan.weight(x - shift) for x in scores]
        power = self.powers[r] * factor
        for weight in weights:
            power = power + weight
        self.powers[r] = power
        for v in range(plan.values):
            made = self.sums[r, v] * kl.splat(factor, plan.access)
            for u in range(plan.unroll):
                taken = values[u * plan.values + v]
                made = kl.fma(taken, kl.splat(weights[u], plan.access), made)
            self.sums[r, v] = made

    @kl.helper
    def join_teams(self, plan: SplitPlan) -> None:
        """Join the teams of each plane; every unit gets the sums of its plane."""
        plane = kl.plane_size()
        rows = range(plan.rows)
        tops = over_lanes("max", [self.largest[r] for r in rows], plan.lanes, plane)
        factors = [plan.weight(self.largest[r] - finite(tops[r])) for r in rows]
        scaled = [self.powers[r] * factors[r] for r in rows]
        powers = over_lanes("add", scaled, plan.lanes, plane)
        for r in rows:
            self.largest[r], self.powers[r] = tops[r], powers[r]
            given = [self.sums[r, v] * factors[r] for v in range(plan.values)]
            sums = over_lanes("add", given, plan.lanes, plane)
            for v in range(plan.values):
                self.sums[r, v] = sums[v]


@dataclass(frozen=True, slots=True)
class NewRow:
    """A lane's vectors of a row that its cache does not have yet, and its place there."""

    vectors: Sequence[kl.Number]
    place: kl.Number

    @kl.helper
    def store(self, cache: Rows, start: kl.Number, end: kl.Number, plan: SplitPlan) -> None:
        """Write the row to the cache if it is between two places."""
        if (self.place >= start) & (self.place < end) & (kl.unit_position() < plan.lanes):
            for v, value in enumerate(self.vectors):
                feature = plan.place(v)
                if feature < cache.width:
                    cache.memory.store(cache.at + self.place * cache.row_step + feature, value)


@kl.helper
def row_vector(
    rows: Rows, at: kl.Index, v: int, there: kl.Mask, full: bool, plan: SplitPlan
) -> kl.Number:
    """Return a vector of a row; zeros if it is not ``there``, or has no such features."""
    place = plan.place(v)
    value = kl.constant(0, rows.memory.dtype, plan.access)
    inside = there if full else there & (place < rows.width)
    if inside:
        step = place if rows.contiguous else place * rows.step
        value = rows.memory.load(at + step, plan.access)
    return value


@kl.helper
def taken_rows(
    rows: Rows, places: Sequence[kl.Number], there: Sequence[kl.Mask], count: int, full: bool,
    plan: SplitPlan, new: NewRow | None = None,
) -> list[kl.Number]:  # fmt: skip
    """Return the vectors of a lane of some rows, all of the first row first."""
    made = []
    for place, seen in zip(places, there, strict=True):
        old = seen if new is None or plan.even else seen & (place != new.place)
        for v in range(count):
            made.append(row_vector(rows, rows.at + place * rows.row_step, v, old, full, plan))
    return made


@kl.helper
def wide_rows(
    taken: Sequence[kl.Number], places: Sequence[kl.Number], new: NewRow | None, dtype: DType
) -> list[kl.Number]:
    """Return the vectors of rows in the dtype of sums, with those of a new row in its place."""
    made = [x.to(dtype) for x in taken]
    if new is not None:
        count = len(new.vectors)
        fresh = [x.to(dtype) for x in new.vectors]
        for i, place in enumerate(places):
            for v in range(count):
                here = i * count + v
                made[here] = kl.select(place == new.place, fresh[v], made[here])
    return made


@kl.helper
def scaled_queries(
    g: KernelOperands, n: kl.Number, places: Sequence[tuple[kl.Number, kl.Number]],
    contiguous: bool, dtype: DType, plan: SplitPlan,
) -> list[kl.Number]:  # fmt: skip
    """Return the vectors of a lane of each query, times the scale."""
    made = []
    for head, query in places:
        rows = query_rows(g, n, head, contiguous)
        made += taken_rows(rows, [query], [True], plan.features, plan.full[0], plan)
    return [x.to(dtype) * kl.splat(g.scale, plan.access) for x in made]


@kl.helper
def over_lanes(kind: str, values: Sequence[kl.Number], first: int, end: int) -> list[kl.Number]:
    """Return values reduced over lanes whose numbers differ in bits from ``first`` up to ``end``.

    All values of a step are exchanged before the first is used.
    """
    made, distance = list(values), first
    while distance < end:
        others = [other_lane(x, distance) for x in made]
        pairs = list(zip(made, others, strict=True))
        made = [kl.select(y > x, y, x) if kind == "max" else x + y for x, y in pairs]
        distance *= 2
    return made


def other_lane(value: kl.Number, distance: int) -> kl.Number:
    """Return the value of the lane whose number differs in one bit."""
    if value.width == 1:
        return kl.plane_shuffle(value, distance, "xor")
    return kl.pack([kl.plane_shuffle(value[i], distance, "xor") for i in range(value.width)])


@kl.helper
def scores_of(
    queries: Sequence[kl.Number], keys: Sequence[kl.Number], plan: SplitPlan
) -> list[kl.Number]:
    """Return the products of each query with each key of a team, in all of its lanes."""
    parts = []
    for r in range(plan.rows):
        for u in range(plan.unroll):
            mine = queries[r * plan.features : (r + 1) * plan.features]
            parts.append(product(mine, keys[u * plan.features : (u + 1) * plan.features], plan))
    return over_lanes("add", parts, 1, plan.lanes)


@kl.helper
def product(a: Sequence[kl.Number], b: Sequence[kl.Number], plan: SplitPlan) -> kl.Number:
    """Return a lane's part of the product of two rows, by one multiply-add an element."""
    if plan.access == 1:
        x = a[0] * b[0]
        for y, z in zip(a[1:], b[1:], strict=True):
            x = kl.fma(y, z, x)
        return x
    x = a[0][0] * b[0][0]
    for v in range(len(a)):
        for e in range(plan.access):
            if v or e:
                x = kl.fma(a[v][e], b[v][e], x)
    return x


@kl.kernel
def attend_split(
    out: kl.Out,
    total: kl.Out,
    rest: kl.Out | None,
    sums: kl.InOut | None,
    numbers: kl.InOut | None,
    flags: kl.InOut | None,
    value_width: kl.Size,
    blocks: kl.Size,
    splits: kl.Size,
    length: kl.Size,
    steps: tuple[ResultSteps[kl.Number] | None, ...],
    caches: Caches[kl.Pointer, kl.Number] | None,
    g: KernelOperands,
    *,
    plan: SplitPlan,
    form: ScoreForm,
) -> None:
    """Attend to ``length`` keys from x on, for a key head and a block of its rows from y, batch z.

    ``flags`` counts the finished cubes of each block of rows, the last of which joins the splits.
    With ``caches``, keys and values are those but for one row, which the cube of its place writes.
    """
    if kl.has("overlap"):
        # The compiler otherwise loads one key after another rather than take more registers.
        kl.launch_attributes(cubes_per_core=plan.cubes)
    dtype, n, position = total.dtype, kl.cube_position(2), kl.cube_position(1)
    key_head = position // blocks
    mine = HeadRows(g, n, key_head, (position - key_head * blocks) * plan.rows)
    to = Splits(out, total, sums, numbers, value_width, splits, rest)
    keys = key_rows(g, n, key_head, form.contiguous[1])
    values = value_rows(g, n, key_head, value_width, form.contiguous[2])
    places = [mine.place(r) for r in range(plan.rows)]
    split, team = kl.cube_position(0), kl.unit_position() // plan.lanes
    start = split * length
    stop = kl.min(start + length, g.keys)
    if form.causal:
        stop = kl.min(stop, g.queries)
    fresh_key, fresh_value, place = keys, values, kl.constant(0, g.keys.dtype)
    if caches is not None:
        start_at = caches.place[0]
        last = (g.keys - 1).to(start_at.dtype)
        place = kl.max(kl.min(start_at, last), 0).to(g.keys.dtype)
        keys = cached_rows(caches.keys, keys, g, n, key_head)
        values = cached_rows(caches.values, values, g, n, key_head)
    if kl.has("overlap"):
        fetch_rows(keys, start, stop, form.contiguous[1], plan)
        fetch_rows(values, start, stop, form.contiguous[2], plan)
        kl.await_launches()
    queries = scaled_queries(g, n, places, form.contiguous[0], dtype, plan)
    new_key, new_value = None, None
    if caches is not None:
        new_key = new_row(fresh_key, place, plan.features, plan.full[0], plan)
        new_value = new_row(fresh_value, place, plan.values, plan.full[1], plan)
    softmax = Softmax(
        kl.registers((plan.rows,), dtype, fill=-math.inf),
        kl.registers((plan.rows,), dtype),
        kl.registers((plan.rows, plan.values), dtype, plan.access),
    )
    begins = kl.loop_range(start, stop, plan.teams * plan.unroll)
    # Without a loop the keys are loaded with the queries.
    for begin in [start] if plan.once else begins:
        at = [begin + (u * plan.teams + team) for u in range(plan.unroll)]
        there = [True if plan.even else key < stop for key in at]
        # All loads are issued before the first is used.
        of_keys = taken_rows(keys, at, there, plan.features, plan.full[0], plan, new_key)
        of_values = taken_rows(values, at, there, plan.values, plan.full[1], plan, new_value)
        extras = [
            extras_of(there[u], g, form, n, *places[r], at[u]) if plan.rows == 1 else None
            for r in range(plan.rows)
            for u in range(plan.unroll)
        ]
        scores = scores_of(queries, wide_rows(of_keys, at, new_key, dtype), plan)
        weighted = wide_rows(of_values, at, new_value, dtype)
        for r in range(plan.rows):
            seen = []
            for u in range(plan.unroll):
                k, one = r * plan.unroll + u, (n, *places[r], at[u])
                seen.append(visible(scores[k], there[u], g, form, *one, extras[k]))
            softmax.follow(r, seen, weighted, plan)
    softmax.join_teams(plan)
    write_rows(softmax, mine, to, split, steps, plan)
    if new_key is not None and new_value is not None:
        # Nothing waits for the caches, as the rows are at hand.
        end = kl.select(mine.first == 0, start + length, start)
        new_key.store(keys, start, end, plan)
        new_value.store(values, start, end, plan)
    if flags is not None:
        join_if_last(flags, mine, to, steps, plan)


@kl.helper
def fetch_rows(
    rows: Rows, start: kl.Number, stop: kl.Number, contiguous: bool, plan: SplitPlan
) -> None:
    """Fetch rows into the cache that all cores share, a line a unit, if their elements adjoin."""
    if contiguous:
        line = _LINE // int(rows.memory.dtype.itemsize)
        each = (rows.width + (line - 1)) // line
        count = kl.min((stop - start) * each, _FETCHED * plan.units)
        for i in kl.loop_range(kl.unit_position(), count, plan.units):
            row = start + i // each
            rows.memory.prefetch(rows.at + row * rows.row_step + i % each * line)


@kl.helper
def new_row(rows: Rows, place: kl.Number, count: int, full: bool, plan: SplitPlan) -> NewRow:
    """Return the only one of some rows, and its place in a cache."""
    return NewRow([row_vector(rows, rows.at, v, True, full, plan) for v in range(count)], place)


@kl.helper
def cached_rows(
    memory: kl.Pointer, like: Rows, g: KernelOperands, n: kl.Number, key_head: kl.Number
) -> Rows:
    """Return the rows of a key head in a dense cache, as wide as others."""
    at = (n * g.key_heads + key_head) * g.keys * like.width
    return Rows(memory, at, g.keys, like.width, like.width)


@kl.helper
def write_rows(
    softmax: Softmax, mine: HeadRows, to: Splits, split: kl.Number,
    steps: Sequence[ResultSteps[kl.Number] | None], plan: SplitPlan,
) -> None:  # fmt: skip
    """Join the planes of a cube, and write its rows as results or as those of a split."""
    dtype, lane = to.total.dtype, kl.lane_position()
    planes = plan.units // kl.plane_size()
    own = kl.plane_position()
    heads = kl.shared(planes * plan.rows * 2, dtype)
    room = kl.shared(planes * plan.together * plan.room, dtype)
    if lane == 0:
        for r in range(plan.rows):
            heads[(own * plan.rows + r) * 2] = softmax.largest[r]
            heads[(own * plan.rows + r) * 2 + 1] = softmax.powers[r]
    for first in range(0, plan.rows, plan.together):
        if first:
            kl.barrier()
        if lane < plan.lanes:
            for r in range(plan.together):
                for v in range(plan.values):
                    at = (own * plan.together + r) * plan.room + plan.place(v)
                    room.store(at, softmax.sums[first + r, v])
        kl.barrier()
        for i in kl.loop_range(kl.unit_position(), plan.together * plan.room, plan.units):
            r = i // plan.room
            column = i - r * plan.room
            if (mine.first + first + r < mine.count) and (column < to.width):
                tops = [heads[(p * plan.rows + first + r) * 2] for p in range(planes)]
                top = tops[0]
                for x in tops[1:]:
                    top = kl.select(x > top, x, top)
                shift = finite(top)
                power, x = kl.constant(0, dtype), kl.constant(0, dtype)
                for p in range(planes):
                    factor = plan.weight(tops[p] - shift)
                    power = kl.fma(heads[(p * plan.rows + first + r) * 2 + 1], factor, power)
                    x = kl.fma(room[p * plan.together * plan.room + i], factor, x)
                row = mine.index(first + r)
                if plan.split:
                    to.keep(row, split, column, top, power, x)
                else:
                    starts = mine.starts(first + r, steps, to.width)
                    to.finish(row, starts, column, top, power, x)


@kl.helper
def join_if_last(
    flags: kl.Pointer, mine: HeadRows, to: Splits,
    steps: Sequence[ResultSteps[kl.Number] | None], plan: SplitPlan,
) -> None:  # fmt: skip
    """Join the splits of a block of rows if all other cubes of it have finished."""
    last = is_last(flags, mine.n * kl.cube_count(1) + kl.cube_position(1), to.count)
    if last:
        rows = kl.min(mine.count - mine.first, plan.rows)
        each, lanes = to.width // plan.joined, plan.joining
        for begin in kl.loop_range(0, rows * each, plan.units // lanes):
            number = begin + kl.unit_position() // lanes
            i = kl.min(number, rows * each - 1)
            r = i // each
            column = (i - r * each) * plan.joined
            at = mine.starts(r, steps, to.width)
            to.join(mine.index(r), at, column, number < rows * each, plan.join)


@kl.kernel
def join_splits(
    out: kl.Out,
    total: kl.Out,
    rest: kl.Out | None,
    sums: kl.In,
    numbers: kl.In,
    value_width: kl.Size,
    splits: kl.Size,
    rows: kl.Size,
    steps: tuple[ResultSteps[kl.Number] | None, ...],
    *,
    plan: JoinPlan,
) -> None:
    """Compute the results from the sums of all splits, a vector a unit or some neighbours."""
    number, each = kl.absolute_position() // plan.lanes, value_width // plan.joined
    i = kl.min(number, rows * each - 1)
    row = i // each
    to = Splits(out, total, sums, numbers, value_width, splits, rest)
    at = [row * value_width if s is None else s.of_row(row) for s in steps]
    to.join(row, at, (i - row * each) * plan.joined, number < rows * each, plan)
