"""Programs of rows whose values lie one after another: vectors along the row.

Requirements: one body for cubes of one unit, which takes several rows at the same time so that
their chains of operations overlap, and for cubes of many, where teams of units share a row; sums of
floats are added up in blocks, and the blocks with what rounding leaves of them (Neumaier, 1974), so
that the error of a sum does not grow with its length: it is at most 2⁻²³ · (block / lanes + 8)
times the sum of the magnitudes, where lanes counts all accumulators, and 2⁻⁵² likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from calor_kernel.language import (
    Number,
    Pointer,
    Registers,
    constant,
    cube_position,
    cube_size,
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
from calor_kernel.library.math.base import exactly, two_sum
from calor_kernel.library.reduce.kinds import identity, joined
from calor_kernel.library.reduce.program import Fold, Program, Schedule, applied
from calor_kernel.library.reduce.teams import over_lanes, over_team


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How a program runs along rows.

    ``kept`` and ``axes``: how many axes number the rows, and how many a row has. ``steps``: per
    operand in memory and result how far apart the values along the last axis are, −1 where the
    launch says it. ``width``: lanes of a vector. ``unroll``: vectors of a row on the way together.
    ``together``: rows on the way together. ``team``: units that share a row. ``block``: how many
    terms are added up before the sum is put aside, 0 for all; ``outer``: whether it counts places
    of the first axes instead. ``keep``: where kept values wait: in memory of the unit's own of
    ``capacity`` elements a row, or in the first result.
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


class Run:
    """What a unit knows while it computes some rows."""

    def __init__(self, program: Program, plan: RowPlan, arguments: Sequence[Any]) -> None:
        self.program, self.plan = program, plan
        self.schedule = Schedule.of(program)
        self.walks = self.schedule.count(program)
        memory = [i for i, o in enumerate(program.operands) if o.place != "number"]
        count = len(memory)
        self.sources: dict[int, Pointer] = dict(zip(memory, arguments, strict=False))
        self.targets = list(arguments[count : count + len(program.results)])
        rest = list(arguments[count + len(program.results) :])
        self.numbers = {
            i: rest.pop(0) for i, o in enumerate(program.operands) if o.place == "number"
        }
        self.rows, self.turns = rest.pop(0), rest.pop(0)
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
        for row in rows:
            position = unravel(row, self.sizes)
            starts = [offset_of(position, kept) for kept, _ in self.views]
            self.starts.append(starts)
            values = dict(self.numbers)
            for view, i in enumerate(self.memory):
                operand = program.operands[i]
                if operand.place == "row":
                    values[i] = load(self.sources[i], operand.dtype, starts[view], 1)
            self.values.append(values)
        self.settle(-1)

    @exactly
    def settle(self, walk: int) -> None:
        """Compute what is one value a row and known after a walk, and widen what is needed."""
        program, first = self.program, len(self.program.operands)
        for values in self.values:
            for k, step in enumerate(program.steps):
                known = (
                    not self.schedule.along[first + k] and self.schedule.walks[first + k] == walk
                )
                if known and not isinstance(step, Fold):
                    given = [values[n] for n in step.operands]
                    values[first + k] = applied(program, step, given)
        width = self.plan.width
        self.wide = [{n: splat(v, width) for n, v in values.items()} for values in self.values]

    @exactly
    def compute(
        self, wanted: Sequence[int], j: int, walk: int, at: Sequence[Any], i: Any, rest: Any
    ) -> list[Any]:
        """Return values of row j from place i on; ``rest``: how many there are, None for all."""
        known: dict[int, Any] = dict(self.wide[j])

        def find(number: int) -> Any:
            if number not in known:
                known[number] = make(number)
            return known[number]

        def make(number: int) -> Any:
            program = self.program
            if number in program.kept and self.schedule.walks[number] < walk:
                return self.recall(number, j, at, i, rest)
            step = program.step(number)
            if step is None:
                return self.read(number, at, i, rest)
            assert not isinstance(step, Fold)
            return applied(program, step, [find(n) for n in step.operands])

        return [find(n) for n in wanted]

    def read(self, number: int, at: Sequence[Any], i: Any, rest: Any) -> Any:
        """Return values of an operand."""
        view = self.memory.index(number)
        dtype, step = self.program.operands[number].dtype, self.plan.steps[view]
        if step < 0:
            step = self.views[view][1][-1]
        place = at[view] + i * step
        return load(self.sources[number], dtype, place, self.plan.width, step=step, rest=rest)

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
                store(self.targets[k], program.dtype(n), place + i, value, rest=rest)
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

    After the buffers come the numbers among the operands, the number of rows and ``turns``, sizes
    of the axes, and the strides of each view.
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

    @property
    def exact(self) -> bool:
        """Whether what rounding leaves is kept."""
        return self.fold.kind == "sum" and self.fold.dtype.kind == "float"

    def put_aside(self) -> None:
        """Add the accumulators to what was put aside, and begin anew."""
        assert self.aside is not None
        together, unroll = self.sums.shape
        nothing = constant(identity(self.fold.kind, self.fold.dtype), self.fold.dtype)
        for j in range(together):
            block = tree(self.fold.kind, [self.sums[j, u] for u in range(unroll)])
            if self.exact:
                self.aside[j, 0], rest = exact_sum(self.aside[j, 0], block)
                self.aside[j, 1] = self.aside[j, 1] + rest
            else:
                self.aside[j, 0] = joined(self.fold.kind, self.aside[j, 0], block)
            for u in range(unroll):
                self.sums[j, u] = nothing

    def finished(self, j: int, team: int) -> Number:
        """Return the reduction of row j."""
        kind = self.fold.kind
        made = tree(kind, [self.sums[j, u] for u in range(self.sums.shape[1])])
        if self.aside is not None:
            made = self.aside[j, 0]
            if self.exact:
                # What an infinite sum leaves is no number, and counts for nothing.
                rest = self.aside[j, 1]
                made = made + select(rest == rest, rest, 0.0)
        result: Number = over_team(kind, over_lanes(kind, made), team)
        return result


@exactly
def exact_sum(a: Number, b: Number) -> tuple[Number, Number]:
    """Return a sum and what rounding leaves of it."""
    return two_sum(a, b)


def tree(kind: str, values: Sequence[Any]) -> Any:
    """Return values joined, neighbours first."""
    made = list(values)
    while len(made) > 1:
        pairs = [joined(kind, a, b) for a, b in zip(made[::2], made[1::2], strict=False)]
        made = pairs + ([made[-1]] if len(made) % 2 else [])
    return made[0]


@helper
def one_walk(run: Any, walk: int) -> None:
    """Walk once along the rows."""
    program, plan, lengths = run.program, run.plan, run.lengths
    totals = [Total.of(run, n) for n in run.schedule.folds(program, walk)]
    length = lengths[-1]
    if plan.axes == 1:
        at = [[*starts, 0] for starts in run.starts]
        in_blocks(run, walk, totals, at, length, plan.block)
    else:
        count = lengths[0]
        for n in lengths[1:-1]:
            count = count * n
        size = plan.block if plan.outer else count
        for begin in loop_range(0, count, size):
            for o in loop_range(begin, min(begin + size, count)):
                position = unravel(o, lengths[:-1])
                at = [
                    [
                        start + offset_of(position, along[:-1]) if along else start
                        for start, (_, along) in zip(starts, run.views, strict=True)
                    ]
                    + [o * length]
                    for starts in run.starts
                ]
                in_blocks(run, walk, totals, at, length, 0 if plan.outer else plan.block)
            if plan.outer:
                for total in totals:
                    total.put_aside()
    for total in totals:
        for j in range(plan.together):
            run.values[j][total.number] = total.finished(j, plan.team)


@helper
def in_blocks(
    run: Any, walk: int, totals: list[Any], at: list[Any], length: Any, block: int
) -> None:
    """Walk along the last axis, in blocks where their sums are put aside."""
    if block:
        for begin in loop_range(0, length, block):
            through(run, walk, totals, at, begin, min(begin + block, length))
            for total in totals:
                total.put_aside()
    else:
        through(run, walk, totals, at, 0, length)


@helper
def through(run: Any, walk: int, totals: list[Any], at: list[Any], begin: Any, end: Any) -> None:
    """Walk from one place of the last axis to another."""
    plan = run.plan
    step = plan.team * plan.width
    first = unit_position() % plan.team * plan.width
    whole = (end - begin) // (step * plan.unroll) * (step * plan.unroll)
    for i in loop_range(begin + first, begin + whole, step * plan.unroll):
        for u in range(plan.unroll):
            for j in range(plan.together):
                one_vector(run, walk, totals, at[j], j, u, i + u * step, None)
    for i in loop_range(begin + whole + first, end, step):
        for j in range(plan.together):
            one_vector(run, walk, totals, at[j], j, 0, i, end - i if plan.width > 1 else None)


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
    made = run.compute([t.fold.operand for t in totals], j, walk, at, i, rest)
    for total, value in zip(totals, made, strict=True):
        kind, dtype = total.fold.kind, total.fold.dtype
        if rest is not None:
            inside = lanes(run.plan.width, rest) < rest
            nothing = constant(identity(kind, dtype), dtype, run.plan.width)
            value = select(inside, value, nothing)
        total.sums[j, u] = joined(kind, total.sums[j, u], value)
    run.write(walk, j, at, i, rest)
