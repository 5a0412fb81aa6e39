"""Row programs on dense rows, with vectors along the row.

Requirements: one body for cubes of one unit, with several rows at a time so that their chains of
operations overlap, and for cubes of many, with teams of units that share a row. Block sums are set
aside. A row that fits the registers of a team is read once and written once, however many passes a
program has, since values of a pass stay in registers for the next; accesses are whole vectors if
rows are aligned, and one kernel serves all lengths with the same number of vectors in a unit.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.elementwise.values import lanes, load, store
from calor_kernel.library.math.base import exactly
from calor_kernel.library.reduce.job import Strides
from calor_kernel.library.reduce.program import Program, evaluated, real
from calor_kernel.library.reduce.reduction_ops import over_each, over_team
from calor_kernel.library.reduce.row_state import RowPlan, Rows, Run, Vector


@kl.kernel
def reduce_rows(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    numbers: tuple[kl.Element, ...],
    over: Rows[kl.Number],
    views: tuple[Strides[kl.Number], ...],
    *,
    program: Program,
    plan: RowPlan,
) -> None:
    """Run a program on rows; ``views``: the strides of sources and targets."""
    if plan.resident:
        kl.launch_attributes(cubes_per_core=plan.resident)
    run = Run(program, plan, (sources, targets, numbers), over, views)
    if kl.cube_size() > 1:
        team_rows(run, kl.cube_position())
    else:
        first = kl.cube_position() * over.turns
        last = kl.min(first + over.turns, over.rows)
        for row in kl.loop_range(first, last, plan.together):
            rows = [kl.min(row + j, last - 1) for j in range(plan.together)]
            some_rows(run, rows, None, last - row if plan.transposed else None)


@kl.helper
def team_rows(run: Run, cube: kl.Number) -> tuple[kl.Number, kl.Mask]:
    """Compute the rows of a cube of many units, one a team.

    Return the row, and whether this unit is the one that writes what has one value a row.
    """
    plan = run.plan
    return team_row(run, cube * (kl.cube_size() // plan.team) + kl.unit_position() // plan.team)


@kl.helper
def team_row(run: Run, row: kl.Number) -> tuple[kl.Number, kl.Mask]:
    """Compute the row of a unit's team, and return what :func:`team_rows` does."""
    plan, over = run.plan, run.over
    # Teams beyond the last row have an empty range.
    inside = row < over.rows
    run.lengths[-1] = kl.select(inside, run.lengths[-1], 0)
    alone = inside & (kl.unit_position() % plan.team == 0)
    if plan.held:
        held_row(run, kl.min(row, over.rows - 1), inside)
    else:
        some_rows(run, [kl.min(row, over.rows - 1)], alone, None)
    return row, alone


@kl.helper
def some_rows(
    run: Run, rows: Sequence[kl.Number], inside: kl.Mask | None, rest: kl.Number | None
) -> None:
    """Compute rows; ``inside``: whether this unit writes results of one value a row."""
    run.begin(rows)
    for walk in range(run.schedule.count):
        one_walk(run, walk)
        run.settle(walk)
    if inside is None or inside:
        run.finish(rest)


class Total:
    """A reduction in progress: accumulators, and the total set aside with its rounding error."""

    def __init__(self, run: Run, number: int) -> None:
        fold, self.plan, self.number = run.program.fold(number), run.plan, number
        self.operand, self.op = fold.operands[0], fold.op
        self.sums = self._registers(self.plan.unroll)
        self.aside = self._registers(2) if self.plan.block else None

    def _registers(self, count: int) -> kl.Registers:
        plan, op = self.plan, self.op
        return kl.registers((plan.together, count), op.dtype, plan.width, op.identity)

    def put_aside(self) -> None:
        """Add the accumulators to the total set aside, and reset them."""
        assert self.aside is not None
        op, (together, unroll) = self.op, self.sums.shape
        nothing = op.neutral()
        for j in range(together):
            block = op.tree([self.sums[j, u] for u in range(unroll)])
            total, rest = op.put_aside(self.aside[j, 0], self.aside[j, 1], block)
            self.aside[j, 0], self.aside[j, 1] = total, rest
            for u in range(unroll):
                self.sums[j, u] = nothing

    def finish(self, run: Run) -> None:
        """Store the reduction as a value of each row."""
        op, plan = self.op, self.plan
        made = []
        for j in range(plan.together):
            if self.aside is None:
                made.append(op.tree([self.sums[j, u] for u in range(plan.unroll)]))
            else:
                made.append(op.taken_together(self.aside[j, 0], self.aside[j, 1]))
        if plan.transposed:
            run.values[0][self.number] = over_each(op, made)
            return
        for values, vector in zip(run.values, made, strict=True):
            values[self.number] = over_team(op, op.over_lanes(vector), plan.team)


@kl.helper
def one_walk(run: Run, walk: int) -> None:
    """Run one pass along the rows."""
    plan, lengths = run.plan, run.lengths
    totals = [Total(run, n) for n in run.schedule.folds(walk)]
    length = lengths[-1]
    if len(lengths) == 1:
        at = [[*starts, 0] for starts in run.starts]
        in_blocks(run, walk, totals, at, run.ends, plan.block)
    else:
        size: kl.Index = plan.block if plan.outer else run.end_at
        line: kl.Index = 0
        if plan.lines > 1:
            line = kl.unit_position() % plan.team // (plan.team // plan.lines)
        for begin in kl.loop_range(run.begin_at, run.end_at, size):
            for o in kl.loop_range(begin + line, kl.min(begin + size, run.end_at), plan.lines):
                position = kl.unravel(o, lengths[:-1])
                at = [
                    [
                        start + kl.offset_of(position, view.along[:-1]) if view.along else start
                        for start, view in zip(starts, run.views, strict=True)
                    ]
                    + [o * length]
                    for starts in run.starts
                ]
                in_blocks(run, walk, totals, at, run.ends, 0 if plan.outer else plan.block)
            if plan.outer:
                for total in totals:
                    total.put_aside()
    for total in totals:
        total.finish(run)


@kl.helper
def in_blocks(
    run: Run,
    walk: int,
    totals: Sequence[Total],
    at: Sequence[Sequence[kl.Index]],
    ends: Sequence[kl.Number],
    block: int,
) -> None:
    """Run along the last axis, in blocks if sums are set aside."""
    # Parts of rows may differ in length; otherwise all rows have the same length.
    apart = ends if run.plan.split else ends[:1]
    if block:
        for begin in kl.loop_range(0, kl.max(*apart), block):
            stops = [kl.min(begin + block, end) for end in apart]
            through(run, walk, totals, at, begin, stops)
            for total in totals:
                total.put_aside()
    else:
        through(run, walk, totals, at, 0, apart)


@kl.helper
def through(
    run: Run,
    walk: int,
    totals: Sequence[Total],
    at: Sequence[Sequence[kl.Index]],
    begin: kl.Index,
    ends: Sequence[kl.Number],
) -> None:
    """Run over a range of the last axis; each row may have its own range."""
    plan = run.plan
    team = plan.team // plan.lines
    step = team * plan.width
    first = kl.unit_position() % team * plan.width
    count = kl.min(*ends) - begin
    if len(ends) > 1:
        count = kl.max(count, 0)
    whole: kl.Index = 0
    if not plan.short:
        whole = count // (step * plan.unroll) * (step * plan.unroll)
    late = plan.late and walk == run.schedule.count - 1 and not totals
    for i in kl.loop_range(begin + first, begin + whole, step * plan.unroll):
        if late:
            places = [Vector(walk, 0, at[0], i + u * step) for u in range(plan.unroll)]
            made = [run.made(place) for place in places]
            for place, values in zip(places, made, strict=True):
                run.put(place, values)
        else:
            for u in range(plan.unroll):
                for j in range(plan.together):
                    one_vector(run, totals, u, Vector(walk, j, at[j], i + u * step))
    for i in kl.loop_range(begin + whole + first, kl.max(*ends), step):
        for j in range(plan.together):
            # Even rows end with a whole vector.
            rest = ends[j % len(ends)] - i if plan.width > 1 and not plan.even else None
            one_vector(run, totals, 0, Vector(walk, j, at[j], i, rest))


def one_vector(run: Run, totals: Sequence[Total], u: int, at: Vector) -> None:
    """Compute the values of a vector, and add them to the totals."""
    # Several rows at a time are no stream that a processor foresees.
    looks = at.walk == 1 or (run.schedule.count == 1 and run.plan.together > 1)
    if run.plan.ahead and looks and at.rest is None:
        run.look_ahead(at)
    made = run.compute([t.operand for t in totals], at)
    for total, value in zip(totals, made, strict=True):
        if at.rest is not None:
            inside = lanes(run.plan.width, at.rest) < at.rest
            value = kl.select(inside, value, total.op.neutral(run.plan.width))
        total.sums[at.row, u] = total.op.combine(total.sums[at.row, u], value)
    run.write(at)


@kl.helper
def held_row(run: Run, row: kl.Number, inside: kl.Mask) -> None:
    """Compute a row in the registers of a team."""
    run.begin([row])
    held = _Held(run, kl.unit_position() % run.plan.team * run.plan.width)
    for walk in range(run.schedule.count):
        held.write(walk)
        for number in run.schedule.folds(walk):
            run.values[0][number] = held.total(number)
        run.settle(walk)
    if inside & (kl.unit_position() % run.plan.team == 0):
        run.finish(None)


class _Held:
    """A unit's vectors of a row, and the values computed from each.

    Along several axes, ``lines`` has the start of each vector's line in each view, and the vector's
    position in the line.
    """

    def __init__(self, run: Run, first: kl.Number) -> None:
        plan, sizes = run.plan, run.over.lengths
        self.run, self.length = run, run.lengths[-1]
        for n in sizes[:-1]:
            self.length = self.length * n
        self.places = [first + v * (plan.team * plan.width) for v in range(plan.held)]
        self.lines: list[tuple[Sequence[kl.Index], kl.Number]] = []
        self.known: list[dict[int, kl.Number]] = [{} for _ in self.places]
        # All loads are issued before the first wait.
        for v, place in enumerate(self.places):
            self.lines.append(self._line(place) if len(sizes) > 1 else (run.starts[0], place))
            for number in run.memory:
                if run.program.operands[number].role == "along":
                    self.known[v][number] = self.read(number, v)

    @exactly
    def _line(self, place: kl.Number) -> tuple[Sequence[kl.Index], kl.Number]:
        """Return the starts of a position's line, and the position in it; the last one beyond."""
        run, sizes = self.run, self.run.over.lengths
        position = kl.unravel(kl.min(place, kl.max(self.length, 1) - 1), sizes)
        starts: list[kl.Index] = []
        for k, (start, view) in enumerate(zip(run.starts[0], run.views, strict=True)):
            first = run.plan.alike[k]
            if first < k:
                starts.append(starts[first])
            else:
                along = kl.offset_of(position[:-1], view.along[:-1]) if view.along else 0
                starts.append(start + along)
        return starts, position[-1]

    def total(self, number: int) -> kl.Number:
        """Return a reduction of the row, the same in each unit of the team."""
        op = self.run.program.fold(number).op
        return over_team(
            op, op.over_lanes(self._joined(number, 0, len(self.places))), self.run.plan.team
        )

    @exactly
    def _joined(self, number: int, first: int, count: int) -> kl.Number:
        """Return a reduction over some vectors, neighbours first.

        A pair is joined before the next one is computed, which takes few registers.
        """
        fold, plan = self.run.program.fold(number), self.run.plan
        if count > 1:
            half = (count + 1) // 2
            left = self._joined(number, first, half)
            return fold.op.combine(left, self._joined(number, first + half, count - half))
        value, rest = self.value(fold.operands[0], first), self.length - self.places[first]
        inside = rest > 0 if plan.even else lanes(plan.width, rest) < rest
        return kl.select(inside, value, fold.op.neutral(plan.width))

    def value(self, number: int, v: int) -> kl.Number:
        """Return a value of the program along the row, for a unit's vector ``v``."""
        self.known[v].update(self.run.wide[0])
        return evaluated(self.run.program, [number], self.known[v])[0]

    def read(self, number: int, v: int) -> kl.Number:
        """Return an operand's vector; lanes beyond the row's end are undefined."""
        run, (starts, place) = self.run, self.lines[v]
        view, rest = run.memory.index(number), self.length - self.places[v]
        if run.plan.even and run.plan.steps[view] == 1:
            source, dtype = run.sources[number], run.program.dtype(number)
            return _whole_vector(source, dtype, starts[view] + place, run.plan.width, rest)
        # A single value is read from the start of the row, which exists.
        return run.read(number, Vector(0, 0, starts, place, rest))

    def write(self, walk: int) -> None:
        """Write the values along the row that a pass computes."""
        run = self.run
        for k, n in run.schedule.written(walk):
            dtype = run.program.dtype(n)
            for v, (starts, place) in enumerate(self.lines):
                at, rest = starts[run.count + k] + place, self.length - self.places[v]
                _put(run.targets[k], dtype, at, self.value(n, v), rest, run.plan.even)


@kl.helper
def _whole_vector(
    source: kl.Pointer, dtype: DType, at: kl.Number, width: int, rest: kl.Number
) -> kl.Number:
    """Return a vector that is either inside a row, or outside of it and zeros."""
    value = kl.constant(0, source.dtype, width)
    if rest > 0:
        value = real(load(source, dtype, at, width, align=width * dtype.itemsize))
    return value


@kl.helper
def _put(
    target: kl.Pointer, dtype: DType, at: kl.Number, value: kl.Number, rest: kl.Number, even: bool
) -> None:
    """Write a vector, or its lanes inside the row."""
    if even:
        if rest > 0:
            store(target, dtype, at, value, align=value.width * dtype.itemsize)
    else:
        store(target, dtype, at, value, rest=rest)
