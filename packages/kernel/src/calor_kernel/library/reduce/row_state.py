"""The state of a unit that runs a program on some rows: their positions and values.

Requirements: one value a row is a number. If many short rows are computed together it is a vector
of them, so that it is computed and written for all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from calor_kernel.language import (
    Number,
    Pointer,
    divide,
    offset_of,
    pack,
    private,
    shuffle,
    splat,
    unravel,
)
from calor_kernel.library.elementwise.values import lanes, load, store, stored
from calor_kernel.library.math.base import exactly
from calor_kernel.library.reduce.program import Program, Schedule, evaluated
from calor_kernel.library.reduce.reduction_ops import smaller

# Alignment in bytes of results that bypass the caches.
_LINE: Final = 64


@dataclass(frozen=True, slots=True)
class RowPlan:
    """A plan for a program along rows.

    ``kept`` and ``axes``: the number of axes of the rows, and of a row. ``steps``: for each operand
    in memory and result the stride of the last axis, −1 if the launch has it. ``width``: lanes of a
    vector. ``unroll``: vectors of a row that are loaded together. ``together``: rows that are
    computed together. ``team``: units that share a row. ``block``: terms of a block, after which
    sums are set aside, 0 for all; ``outer``: whether it counts positions of the first axes instead.
    ``keep``: where kept values are stored: in memory of the unit with ``capacity`` elements a row,
    or in result ``holder``. ``split``: whether a row is divided into parts, each with its own
    adjacent results. ``ahead``: whether the second pass prefetches the next rows. ``nontemporal``:
    whether results bypass the caches. ``transposed``: whether one value a row is a vector over the
    rows computed together, as many as lanes. ``short``: whether rows are shorter than a vector.
    ``held``: vectors of a row in each unit of a team whose registers hold it, 0 for rows in memory.
    ``even``: whether rows are whole, aligned vectors.
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
    holder: int = 0
    split: bool = False
    ahead: bool = False
    nontemporal: bool = False
    transposed: bool = False
    short: bool = False
    held: int = 0
    even: bool = False


class Run:
    """The state of a unit that computes some rows."""

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
        # The range of the first axes, and the size of the last axis, for each row.
        self.begin_at: Any = 0
        self.end_at: Any = None
        self.ends: list[Any] = []
        # For each row computed together: its start in each view, and its values.
        self.starts: list[list[Any]] = []
        self.values: list[dict[int, Any]] = []
        self.wide: list[dict[int, Any]] = []
        self.needed = self.schedule.spread(program)
        self.room: Pointer | None = None

    @exactly
    def begin(self, rows: Sequence[Any]) -> None:
        """Compute the starts of rows, and read operands of one value a row."""
        program = self.program
        self.starts = []
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
        self.values = [dict(self.numbers) for _ in rows]
        for view, i in enumerate(self.memory):
            operand = program.operands[i]
            if operand.place == "row":
                for values, starts in zip(self.values, self.starts, strict=True):
                    values[i] = load(self.sources[i], operand.dtype, starts[view], 1)
        if self.plan.transposed:
            first = self.values[0]
            self.values = [{i: pack([values[i] for values in self.values]) for i in first}]
        self.settle(-1)

    def settle(self, walk: int) -> None:
        """Compute the values, one a row each, known after a pass, and broadcast those needed."""
        wanted = self.schedule.rowwise(self.program, walk)
        for values in self.values:
            made = evaluated(self.program, wanted, values, lambda _: None)
            values.update(zip(wanted, made, strict=True))
        self.wide = [self._spread(j) for j in range(self.plan.together)]

    def _spread(self, j: int) -> dict[int, Any]:
        """Return the values of row j that steps along it read, as vectors."""
        width = self.plan.width
        values = self.values[0 if self.plan.transposed else j]
        made = {n: splat(v, width) for n, v in self.numbers.items()}
        for n in self.needed:
            if n in values and n not in made:
                v = values[n]
                made[n] = shuffle(v, [j] * width) if self.plan.transposed else splat(v, width)
        return made

    def compute(
        self, wanted: Sequence[int], j: int, walk: int, at: Sequence[Any], i: Any, rest: Any
    ) -> list[Any]:
        """Return values of row j from position i on; ``rest``: their number, None for all."""

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
        """Prefetch the next rows' values at the same position."""
        for view, number in enumerate(self.memory):
            if self.program.operands[number].place == "along" and self.plan.steps[view] == 1:
                next_row = at[view] + self.views[view][0][-1] * self.plan.together
                self.sources[number].prefetch(next_row + i, locality=2)

    def kept_at(self, number: int, j: int, at: Sequence[Any], i: Any) -> tuple[Pointer, Any]:
        """Return the memory and the position of a kept value."""
        plan, program = self.plan, self.program
        if plan.keep == "result":
            return self.targets[plan.holder], at[self.count + plan.holder] + i
        if self.room is None:
            size = plan.capacity * plan.together * len(program.kept)
            self.room = private(size, stored(program.dtype(number)), align=64)
        slot = j * len(program.kept) + program.kept.index(number)
        return self.room, at[-1] + i + slot * plan.capacity

    def recall(self, number: int, j: int, at: Sequence[Any], i: Any, rest: Any) -> Any:
        """Return kept values."""
        memory, place = self.kept_at(number, j, at, i)
        return load(memory, self.program.dtype(number), place, self.plan.width, rest=rest)

    def finish(self, rest: Any) -> None:
        """Write results of one value a row; ``rest``: the number of rows if transposed."""
        for k, n in enumerate(self.program.results):
            if self.schedule.along[n]:
                continue
            target, dtype = self.targets[k], self.program.dtype(n)
            for starts, values in zip(self.starts, self.values, strict=False):
                store(target, dtype, starts[self.count + k], values[n], rest=rest)

    def write(self, walk: int, j: int, at: Sequence[Any], i: Any, rest: Any) -> None:
        """Write a pass's results along row j, and keep values for later passes."""
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
