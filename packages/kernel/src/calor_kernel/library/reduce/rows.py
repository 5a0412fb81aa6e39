"""Programs of rows whose values lie one after another: vectors along the row.

Requirements: one body for cubes of one unit, which takes several rows at the same time so that
their chains of operations overlap, and for cubes of many, where teams of units share a row; sums
are put aside as :mod:`totals` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from calor_kernel.language import (
    Number,
    Pointer,
    Registers,
    constant,
    cube_position,
    cube_size,
    divide,
    helper,
    kernel,
    loop_range,
    offset_of,
    private,
    registers,
    select,
    splat,
    unit_position,
    unravel,
)
from calor_kernel.library.elementwise.values import lanes, load, store, stored
from calor_kernel.library.math.base import exactly
from calor_kernel.library.reduce.kinds import identity, joined, smaller
from calor_kernel.library.reduce.program import Fold, Program, Schedule, evaluated
from calor_kernel.library.reduce.teams import over_lanes, over_team
from calor_kernel.library.reduce.totals import put_aside, taken_together, tree

# Bytes by which addresses divide where results go past the caches.
_LINE: Final = 64


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How a program runs along rows.

    ``kept`` and ``axes``: how many axes number the rows, and how many a row has. ``steps``: per
    operand in memory and result how far apart the values along the last axis are, −1 where the
    launch says it. ``width``: lanes of a vector. ``unroll``: vectors of a row on the way together.
    ``together``: rows on the way together. ``team``: units that share a row. ``block``: how many
    terms are added up before the sum is put aside, 0 for all; ``outer``: whether it counts places
    of the first axes instead. ``keep``: where kept values wait: in memory of the unit's own of
    ``capacity`` elements a row, or in the first result. ``split``: whether a row is divided into
    parts, each with results of its own; they lie one after another. ``ahead``: whether the second
    walk asks for the rows that come next. ``nontemporal``: whether results go past the caches.
    """

    kept: int
    axes: int
    steps: tuple[int, ...]
    width: int
    unroll: int = 1
    together: int = 1
    team: int = 1
    block: int = 0
    outer: bool = False
    keep: Literal["private", "result", ""] = ""
    capacity: int = 0
    split: bool = False
    ahead: bool = False
    nontemporal: bool = False


class Run:
    """What a unit knows while it computes some rows."""

    def __init__(self, program: Program, plan: RowPlan, arguments: Sequence[Any]) -> None:
        self.program, self.plan = program, plan
        self.schedule = Schedule.of(program)
        self.walks = self.schedule.count(program)
        memory = program.memory
        count = len(memory)
        self.sources: dict[int, Pointer] = dict(zip(memory, arguments, strict=False))
        self.targets = list(arguments[count : count + len(program.results)])
        rest = list(arguments[count + len(program.results) :])
        self.numbers = {i: rest.pop(0) for i in program.numbers}
        self.rows, self.turns, self.parts, self.chunk = (rest.pop(0) for _ in range(4))
        self.sizes = [rest.pop(0) for _ in range(plan.kept)]
        self.lengths = [rest.pop(0) for _ in range(plan.axes)]
        along = [program.operands[i].place == "along" for i in memory]
        along += [self.schedule.along[n] for n in program.results]
        self.views = []
        for varies in along:
            kept = [rest.pop(0) for _ in range(plan.kept)]
            self.views.append((kept, [rest.pop(0) for _ in range(plan.axes if varies else 0)]))
        self.count = count
        self.memory = memory
        # The places of the first axes that are walked, and how many of the last one, per row.
        self.begin_at: Any = 0
        self.end_at: Any = None
        self.ends: list[Any] = []
        # Per row of those on the way together: where it begins in each view, and its values.
        self.starts: list[list[Any]] = []
        self.values: list[dict[int, Any]] = []
        self.wide: list[dict[int, Any]] = []
        self.room: Pointer | None = None

    @exactly
    def begin(self, rows: Sequence[Any]) -> None:
        """Find where rows begin, and read what is one value a row."""
        program = self.program
        self.starts, self.values = [], []
        self.end_at, self.ends = 1, []
        for n in self.lengths[:-1]:
            self.end_at = self.end_at * n
        for row in rows:
            end, part = self.lengths[-1], None
            if self.plan.split:
                row, part = divide(row, self.parts)
            position = unravel(row, self.sizes)
            starts = [offset_of(position, kept) for kept, _ in self.views]
            if part is not None:
                starts[self.count :] = [start + part for start in starts[self.count :]]
                begin = part * self.chunk
                if self.plan.axes > 1:
                    self.begin_at = begin
                    self.end_at = smaller(begin + self.chunk, self.end_at)
                else:
                    end = smaller(end - begin, self.chunk)
                    for view, (_, along) in enumerate(self.views[: self.count]):
                        starts[view] = starts[view] + begin * along[-1] if along else starts[view]
            self.starts.append(starts)
            self.ends.append(end)
            values: dict[int, Any] = dict(self.numbers)
            for view, i in enumerate(self.memory):
                operand = program.operands[i]
                if operand.place == "row":
                    values[i] = load(self.sources[i], operand.dtype, starts[view], 1)
            self.values.append(values)
        self.settle(-1)

    def settle(self, walk: int) -> None:
        """Compute what is one value a row and known after a walk, and widen what is needed."""
        wanted = self.schedule.rowwise(self.program, walk)
        for values in self.values:
            made = evaluated(self.program, wanted, values, lambda _: None)
            values.update(zip(wanted, made, strict=True))
        width = self.plan.width
        self.wide = [{n: splat(v, width) for n, v in values.items()} for values in self.values]

    def compute(
        self, wanted: Sequence[int], j: int, walk: int, at: Sequence[Any], i: Any, rest: Any
    ) -> list[Any]:
        """Return values of row j from place i on; ``rest``: how many there are, None for all."""

        def read(number: int) -> Any:
            if number in self.program.kept and self.schedule.walks[number] < walk:
                return self.recall(number, j, at, i, rest)
            known = self.program.step(number) is not None
            return None if known else self.read(number, at, i, rest)

        return evaluated(self.program, wanted, self.wide[j], read)

    def read(self, number: int, at: Sequence[Any], i: Any, rest: Any) -> Any:
        """Return values of an operand."""
        view = self.memory.index(number)
        dtype, step = self.program.operands[number].dtype, self.plan.steps[view]
        if step < 0:
            step = self.views[view][1][-1]
        place = at[view] + i * step
        return load(self.sources[number], dtype, place, self.plan.width, step=step, rest=rest)

    def look_ahead(self, at: Sequence[Any], i: Any) -> None:
        """Ask for what the next rows read at the same place."""
        for view, number in enumerate(self.memory):
            if self.program.operands[number].place == "along" and self.plan.steps[view] == 1:
                next_row = at[view] + self.views[view][0][-1] * self.plan.together
                self.sources[number].prefetch(next_row + i, locality=2)

    def kept_at(self, number: int, j: int, at: Sequence[Any], i: Any) -> tuple[Pointer, Any]:
        """Return the memory and the place where a kept value waits."""
        plan, program = self.plan, self.program
        if plan.keep == "result":
            return self.targets[0], at[self.count] + i
        if self.room is None:
            size = plan.capacity * plan.together * len(program.kept)
            self.room = private(size, stored(program.dtype(number)), align=64)
        slot = j * len(program.kept) + program.kept.index(number)
        return self.room, at[-1] + i + slot * plan.capacity

    def recall(self, number: int, j: int, at: Sequence[Any], i: Any, rest: Any) -> Any:
        """Return kept values."""
        memory, place = self.kept_at(number, j, at, i)
        return load(memory, self.program.dtype(number), place, self.plan.width, rest=rest)

    def write(self, walk: int, j: int, at: Sequence[Any], i: Any, rest: Any) -> None:
        """Write what a walk writes along row j, and keep what later walks need."""
        program, plan = self.program, self.plan
        results = self.schedule.written(program, walk)
        kept = self.schedule.stored(program, walk, self.walks - 1)
        made = self.compute([n for _, n in results] + kept, j, walk, at, i, rest)
        for (k, n), value in zip(results, made, strict=False):
            place, view = at[self.count + k], self.count + k
            if plan.steps[view] == 1:
                past = plan.nontemporal and rest is None
                store(
                    self.targets[k],
                    program.dtype(n),
                    place + i,
                    value,
                    rest=rest,
                    align=_LINE if past else 0,
                    nontemporal=past,
                )
            else:
                step = self.views[view][1][-1]
                spread(self.targets[k], place + i * step, step, value, rest)
        for n, value in zip(kept, made[len(results) :], strict=True):
            memory, place = self.kept_at(n, j, at, i)
            store(memory, program.dtype(n), place, value, rest=rest)


def spread(target: Pointer, first: Any, step: Any, value: Number, rest: Any) -> None:
    """Write lanes ``step`` elements apart."""
    if value.width == 1:
        target[first] = value
        return
    numbers = lanes(value.width, step)
    mask = None if rest is None else numbers < rest
    target.store(first + numbers * step, value, mask=mask)


@kernel
def reduce_rows(*arguments: Any, program: Program, plan: RowPlan) -> None:
    """Run a program on rows; a cube of one unit takes ``turns`` of them, others one a team.

    After the buffers come the numbers among the operands, the number of rows and ``turns``, the
    parts of a row and their size, sizes of the axes, and the strides of each view.
    """
    run = Run(program, plan, arguments)
    if cube_size() > 1:
        row = cube_position() * (cube_size() // plan.team) + unit_position() // plan.team
        # Teams beyond the last row walk along nothing.
        inside = row < run.rows
        run.lengths[-1] = select(inside, run.lengths[-1], 0)
        some_rows(run, [min(row, run.rows - 1)], inside & (unit_position() % plan.team == 0))
    else:
        first = cube_position() * run.turns
        last = min(first + run.turns, run.rows)
        for row in loop_range(first, last, plan.together):
            some_rows(run, [min(row + j, last - 1) for j in range(plan.together)], None)


@helper
def some_rows(run: Any, rows: list[Any], inside: Any) -> None:
    """Compute rows; ``inside``: whether this unit writes what is one value a row."""
    run.begin(rows)
    for walk in range(run.walks):
        one_walk(run, walk)
        run.settle(walk)
    for k, n in enumerate(run.program.results):
        if not run.schedule.along[n]:
            for starts, values in zip(run.starts, run.values, strict=True):
                at, dtype = starts[run.count + k], run.program.dtype(n)
                if inside is None or inside:
                    store(run.targets[k], dtype, at, values[n])


@dataclass(frozen=True, slots=True)
class Total:
    """A reduction on the way: accumulators, and what was put aside, with what rounding left."""

    number: int
    fold: Fold
    sums: Registers
    aside: Registers | None

    @staticmethod
    def of(run: Run, number: int) -> Total:
        """Return a reduction before its first term."""
        fold, plan = run.program.step(number), run.plan
        assert isinstance(fold, Fold)
        shape, nothing = (plan.together, plan.unroll), identity(fold.kind, fold.dtype)
        sums = registers(shape, fold.dtype, plan.width, nothing)
        aside = None
        if plan.block:
            aside = registers((plan.together, 2), fold.dtype, plan.width, nothing)
        return Total(number, fold, sums, aside)

    def put_aside(self) -> None:
        """Add the accumulators to what was put aside, and begin anew."""
        assert self.aside is not None
        fold, (together, unroll) = self.fold, self.sums.shape
        nothing = constant(identity(fold.kind, fold.dtype), fold.dtype)
        for j in range(together):
            block = tree(fold.kind, [self.sums[j, u] for u in range(unroll)])
            total, rest = put_aside(fold, self.aside[j, 0], self.aside[j, 1], block)
            self.aside[j, 0], self.aside[j, 1] = total, rest
            for u in range(unroll):
                self.sums[j, u] = nothing

    def finished(self, j: int, team: int) -> Number:
        """Return the reduction of row j."""
        kind = self.fold.kind
        if self.aside is None:
            made = tree(kind, [self.sums[j, u] for u in range(self.sums.shape[1])])
        else:
            made = taken_together(self.fold, self.aside[j, 0], self.aside[j, 1])
        result: Number = over_team(kind, over_lanes(kind, made), team)
        return result


@helper
def one_walk(run: Any, walk: int) -> None:
    """Walk once along the rows."""
    program, plan, lengths = run.program, run.plan, run.lengths
    totals = [Total.of(run, n) for n in run.schedule.folds(program, walk)]
    length = lengths[-1]
    if plan.axes == 1:
        at = [[*starts, 0] for starts in run.starts]
        in_blocks(run, walk, totals, at, run.ends, plan.block)
    else:
        size = plan.block if plan.outer else run.end_at
        for begin in loop_range(run.begin_at, run.end_at, size):
            for o in loop_range(begin, min(begin + size, run.end_at)):
                position = unravel(o, lengths[:-1])
                at = [
                    [
                        start + offset_of(position, along[:-1]) if along else start
                        for start, (_, along) in zip(starts, run.views, strict=True)
                    ]
                    + [o * length]
                    for starts in run.starts
                ]
                in_blocks(run, walk, totals, at, run.ends, 0 if plan.outer else plan.block)
            if plan.outer:
                for total in totals:
                    total.put_aside()
    for total in totals:
        for j in range(plan.together):
            run.values[j][total.number] = total.finished(j, plan.team)


@helper
def in_blocks(
    run: Any, walk: int, totals: list[Any], at: list[Any], ends: list[Any], block: int
) -> None:
    """Walk along the last axis, in blocks where their sums are put aside."""
    # Parts of rows may be of different lengths; else all rows have the same.
    apart = ends if run.plan.split else ends[:1]
    if block:
        for begin in loop_range(0, max(apart), block):
            stops = [min(begin + block, end) for end in apart]
            through(run, walk, totals, at, begin, stops)
            for total in totals:
                total.put_aside()
    else:
        through(run, walk, totals, at, 0, apart)


@helper
def through(
    run: Any, walk: int, totals: list[Any], at: list[Any], begin: Any, ends: list[Any]
) -> None:
    """Walk from one place of the last axis to another, of which each row may have its own."""
    plan = run.plan
    step = plan.team * plan.width
    first = unit_position() % plan.team * plan.width
    count = min(ends) - begin
    if len(ends) > 1:
        count = max(count, 0)
    whole = count // (step * plan.unroll) * (step * plan.unroll)
    for i in loop_range(begin + first, begin + whole, step * plan.unroll):
        for u in range(plan.unroll):
            for j in range(plan.together):
                one_vector(run, walk, totals, at[j], j, u, i + u * step, None)
    for i in loop_range(begin + whole + first, max(ends), step):
        for j in range(plan.together):
            rest = ends[j % len(ends)] - i if plan.width > 1 else None
            one_vector(run, walk, totals, at[j], j, 0, i, rest)


def one_vector(
    run: Run,
    walk: int,
    totals: Sequence[Total],
    at: Sequence[Any],
    j: int,
    u: int,
    i: Any,
    rest: Any,
) -> None:
    """Compute the values from place i on, and take them into the totals."""
    if run.plan.ahead and walk == 1 and rest is None:
        run.look_ahead(at, i)
    made = run.compute([t.fold.operand for t in totals], j, walk, at, i, rest)
    for total, value in zip(totals, made, strict=True):
        kind, dtype = total.fold.kind, total.fold.dtype
        if rest is not None:
            inside = lanes(run.plan.width, rest) < rest
            nothing = constant(identity(kind, dtype), dtype, run.plan.width)
            value = select(inside, value, nothing)
        total.sums[j, u] = joined(kind, total.sums[j, u], value)
    run.write(walk, j, at, i, rest)
