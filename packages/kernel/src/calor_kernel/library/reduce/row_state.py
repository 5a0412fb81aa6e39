"""The state of a unit that runs a program on some rows: their positions and values.

Requirements: one value a row is a number. If many short rows are computed together it is a vector
of them, so that it is computed and written for all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from calor_kernel import language as kl
from calor_kernel.library.elementwise.values import lanes, load, store, stored
from calor_kernel.library.math.base import exactly
from calor_kernel.library.reduce.job import Strides
from calor_kernel.library.reduce.program import Program, Schedule, evaluated, real

N = TypeVar("N")
# Alignment in bytes of results that bypass the caches.
_LINE: Final = 64


@dataclass(frozen=True, slots=True)
class RowPlan:
    """A plan for a program along rows.

    ``steps``: for each operand in memory and result the stride of the last axis, −1 if the launch
    has it. ``width``: lanes of a vector. ``unroll``: vectors of a row that are loaded together.
    ``together``: rows that are computed together. ``team``: units that share a row. ``block``:
    terms of a block, after which sums are set aside, 0 for all; ``outer``: whether it counts
    positions of the first axes instead. ``lines``: positions of the first axes that a team sees at
    the same time. ``keep``: where kept values are stored: in memory of the
    unit with ``capacity`` elements a row, or in result ``holder``. ``split``: whether a row is
    divided into parts, each with its own adjacent results. ``ahead``: whether the second pass
    prefetches the next rows. ``nontemporal``: whether results bypass the caches. ``transposed``:
    whether one value a row is a vector over the rows computed together, as many as lanes.
    ``short``: whether rows are shorter than a vector. ``held``: vectors of a row in each unit of a
    team whose registers hold it, 0 for rows in memory. ``even``: whether rows are whole, aligned
    vectors. ``alike``: for each view the first one with its strides, which has the same offsets; ()
    if rows have one axis. ``aligned``: whether rows begin at whole vectors, of which the last one
    may be incomplete. ``late``: whether the last pass reads all vectors of a turn before it writes
    one, since a result may lie over an operand. ``resident``: cubes of a core for which registers
    shall suffice, 0 for any.
    """

    steps: tuple[int, ...]
    width: int
    unroll: int = 1
    together: int = 1
    team: int = 1
    block: int = 0
    outer: bool = False
    keep: Literal["private", "result", ""] = ""
    capacity: int = 0
    holder: int = 0
    split: bool = False
    ahead: bool = False
    nontemporal: bool = False
    transposed: bool = False
    short: bool = False
    held: int = 0
    even: bool = False
    lines: int = 1
    alike: tuple[int, ...] = ()
    aligned: bool = False
    late: bool = False
    resident: int = 0


@dataclass(frozen=True, slots=True)
class Rows(Generic[N]):
    """The rows of a launch: a cube of one unit takes ``turns`` of them, others one a team.

    ``parts``: of each row, with ``chunk`` positions of its first axis. ``sizes`` and ``lengths``:
    of the axes of the rows, and of a row.
    """

    rows: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    parts: kl.SizeOf[N]
    chunk: kl.SizeOf[N]
    sizes: tuple[kl.SizeOf[N], ...]
    lengths: tuple[kl.SizeOf[N], ...]


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of positions of a row in a pass.

    ``row``: its index among the rows computed together. ``starts``: of the row in each view, and
    its first position. ``first``: the vector's position along the last axis. ``rest``: the
    positions from there on, None if all lanes exist.
    """

    walk: int
    row: int
    starts: Sequence[kl.Index]
    first: kl.Index
    rest: kl.Number | None = None


class Run:
    """The state of a unit that computes some rows.

    ``joined``: the values of the program's joined operands, for the only row.
    """

    def __init__(
        self,
        program: Program,
        plan: RowPlan,
        memory: tuple[Sequence[kl.Pointer], Sequence[kl.Pointer], Sequence[kl.Number]],
        over: Rows[kl.Number],
        views: Sequence[Strides[kl.Number]],
        joined: Sequence[kl.Number] = (),
    ) -> None:
        self.program, self.plan, self.over, self.views = program, plan, over, views
        self.schedule = Schedule(program)
        self.memory = program.memory
        self.count = len(self.memory)
        self.sources = dict(zip(self.memory, memory[0], strict=True))
        self.targets = memory[1]
        self.numbers = dict(zip(program.numbers, memory[2], strict=True))
        self.numbers |= dict(zip(program.joined, joined, strict=True))
        self.lengths: list[kl.Number] = list(over.lengths)
        # The range of the first axes, and the size of the last axis, for each row.
        self.begin_at: kl.Index = 0
        self.end_at: kl.Index = 1
        self.ends: list[kl.Number] = []
        # For each row computed together: its start in each view, and its values.
        self.starts: list[list[kl.Index]] = []
        self.values: list[dict[int, kl.Number]] = []
        self.wide: list[dict[int, kl.Number]] = []
        self.needed = self.schedule.spread()
        self.room: kl.Pointer | None = None

    @exactly
    def begin(self, rows: Sequence[kl.Number]) -> None:
        """Compute the starts of rows, and read operands of one value a row."""
        program, over = self.program, self.over
        self.starts = []
        self.end_at, self.ends = 1, []
        for n in self.lengths[:-1]:
            self.end_at = self.end_at * n
        for row in rows:
            end, part = self.lengths[-1], None
            if self.plan.split:
                row, part = kl.divide(row, over.parts)
            position = kl.unravel(row, over.sizes)
            starts: list[kl.Index] = [kl.offset_of(position, view.kept) for view in self.views]
            if part is not None:
                starts[self.count :] = [start + part for start in starts[self.count :]]
                begin = part * over.chunk
                if len(over.lengths) > 1:
                    self.begin_at = begin
                    self.end_at = kl.min(begin + over.chunk, self.end_at)
                else:
                    end = kl.min(end - begin, over.chunk)
                    for number, view in enumerate(self.views[: self.count]):
                        if view.along:
                            starts[number] = starts[number] + begin * view.along[-1]
            self.starts.append(starts)
            self.ends.append(end)
        self.values = [dict(self.numbers) for _ in rows]
        for number, i in enumerate(self.memory):
            operand = program.operands[i]
            if operand.role == "row":
                for values, starts in zip(self.values, self.starts, strict=True):
                    values[i] = real(load(self.sources[i], operand.dtype, starts[number], 1))
        if self.plan.transposed:
            first = self.values[0]
            self.values = [{i: kl.pack([values[i] for values in self.values]) for i in first}]
        self.settle(-1)

    def settle(self, walk: int) -> None:
        """Compute the values, one a row each, known after a pass, and broadcast those needed."""
        wanted = self.schedule.rowwise(walk)
        for values in self.values:
            evaluated(self.program, wanted, values)
        self.wide = [self._spread(j) for j in range(self.plan.together)]

    def _spread(self, j: int) -> dict[int, kl.Number]:
        """Return the values of row j that steps along it read, as vectors."""
        width, transposed = self.plan.width, self.plan.transposed
        values = self.values[0 if transposed else j]
        made = {n: kl.splat(v, width) for n, v in self.numbers.items()}
        for n in self.needed:
            if n in values and n not in made:
                v = values[n]
                made[n] = kl.shuffle(v, [j] * width) if transposed else kl.splat(v, width)
        return made

    def compute(self, wanted: Sequence[int], at: Vector) -> list[kl.Number]:
        """Return values of the program at a vector of positions."""

        def read(number: int) -> kl.Number | None:
            if number in self.program.kept and self.schedule.walks[number] < at.walk:
                memory, place = self._kept_at(number, at)
                dtype = self.program.dtype(number)
                return real(load(memory, dtype, place, self.plan.width, rest=at.rest))
            return self.read(number, at) if self.program.step(number) is None else None

        return evaluated(self.program, wanted, dict(self.wide[at.row]), read)

    def read(self, number: int, at: Vector) -> kl.Number:
        """Return values of an operand."""
        view, plan = self.memory.index(number), self.plan
        dtype, step = self.program.operands[number].dtype, self._step(view)
        place = at.starts[view] + at.first * step
        whole = (plan.even or plan.aligned) and at.rest is None
        align = plan.width * dtype.itemsize if whole else 0
        source, rest = self.sources[number], at.rest
        return real(load(source, dtype, place, plan.width, step=step, rest=rest, align=align))

    def _step(self, view: int) -> kl.Index:
        """Return the stride of a view's last axis."""
        known = self.plan.steps[view]
        return known if known >= 0 else self.views[view].along[-1]

    def look_ahead(self, at: Vector) -> None:
        """Prefetch later rows' values at the same position: the next, or those behind them."""
        rows = self.plan.together * (1 if at.walk else 2)
        for view, number in enumerate(self.memory):
            if self.program.operands[number].role == "along" and self.plan.steps[view] == 1:
                next_row = at.starts[view] + self.views[view].kept[-1] * rows
                self.sources[number].prefetch(next_row + at.first, locality=2)

    def _kept_at(self, number: int, at: Vector) -> tuple[kl.Pointer, kl.Index]:
        """Return the memory and the position of a kept value."""
        plan, program = self.plan, self.program
        if plan.keep == "result":
            return self.targets[plan.holder], at.starts[self.count + plan.holder] + at.first
        if self.room is None:
            size = plan.capacity * plan.together * len(program.kept)
            self.room = kl.private(size, stored(program.dtype(number)), align=64)
        slot = at.row * len(program.kept) + program.kept.index(number)
        return self.room, at.starts[-1] + at.first + slot * plan.capacity

    def finish(self, rest: kl.Number | None) -> None:
        """Write results of one value a row; ``rest``: the number of rows if transposed."""
        for k, n in enumerate(self.program.results):
            if self.schedule.along[n]:
                continue
            target, dtype = self.targets[k], self.program.dtype(n)
            for starts, values in zip(self.starts, self.values, strict=False):
                store(target, dtype, starts[self.count + k], values[n], rest=rest)

    def write(self, at: Vector) -> None:
        """Write a pass's results along a row, and keep values for later passes."""
        self.put(at, self.made(at))

    def made(self, at: Vector) -> list[kl.Number]:
        """Return a pass's results along a row, and the values to keep."""
        results = [n for _, n in self.schedule.written(at.walk)]
        return self.compute(results + self.schedule.stored(at.walk), at)

    def put(self, at: Vector, made: Sequence[kl.Number]) -> None:
        """Write what :meth:`made` returned."""
        program, plan, rest = self.program, self.plan, at.rest
        results = self.schedule.written(at.walk)
        kept = self.schedule.stored(at.walk)
        for (k, n), value in zip(results, made, strict=False):
            place, view = at.starts[self.count + k], self.count + k
            if plan.steps[view] == 1:
                past = plan.nontemporal and rest is None
                target, dtype = self.targets[k], program.dtype(n)
                align = _LINE if past or (plan.even and rest is None) else 0
                if plan.aligned and rest is None:
                    align = plan.width * dtype.itemsize
                place = place + at.first
                store(target, dtype, place, value, rest=rest, align=align, nontemporal=past)
            else:
                step = self.views[view].along[-1]
                spread_lanes(self.targets[k], place + at.first * step, step, value, rest)
        for n, value in zip(kept, made[len(results) :], strict=True):
            memory, position = self._kept_at(n, at)
            store(memory, program.dtype(n), position, value, rest=rest)


def spread_lanes(
    target: kl.Pointer, first: kl.Index, step: kl.Number, value: kl.Number, rest: kl.Number | None
) -> None:
    """Write lanes ``step`` elements apart."""
    if value.width == 1:
        target[first] = value
        return
    numbers = lanes(value.width, step)
    mask = None if rest is None else numbers < rest
    target.store(first + numbers * step, value, mask=mask)
