"""Row programs whose rows fit the registers of a team of units: operands are read once.

Requirements: for cubes of many units. Memory is read once and written once, however many passes a
program has, since values of a pass stay in registers for the next. Accesses are whole vectors if
rows are aligned. One body serves all lengths with the same number of vectors in a unit.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    constant,
    cube_position,
    cube_size,
    helper,
    kernel,
    select,
    unit_position,
)
from calor_kernel.library.elementwise.step import Step
from calor_kernel.library.elementwise.values import lanes, load, store
from calor_kernel.library.math.base import exactly
from calor_kernel.library.reduce.cooperative_reduction import over_lanes, over_team
from calor_kernel.library.reduce.pairwise_sums import tree
from calor_kernel.library.reduce.program import Fold, applied
from calor_kernel.library.reduce.reduction_ops import identity
from calor_kernel.library.reduce.row_state import Run


@kernel
def hold_rows(*arguments: Any, program: Any, plan: Any) -> None:
    """Run a program on rows, one for each team; arguments as in ``reduce_rows``."""
    run = Run(program, plan, arguments)
    row = cube_position() * (cube_size() // plan.team) + unit_position() // plan.team
    inside = row < run.rows
    length = select(inside, run.lengths[-1], 0)
    run.begin([min(row, run.rows - 1)])
    held = Held(run, unit_position() % plan.team * plan.width, length)
    for walk in range(run.walks):
        held.write(walk)
        for number in run.schedule.folds(program, walk):
            run.values[0][number] = held.total(number)
        run.settle(walk)
    if inside & (unit_position() % plan.team == 0):
        run.finish(None)


class Held:
    """A unit's vectors of a row, and the values computed from each."""

    def __init__(self, run: Run, first: Any, length: Any) -> None:
        plan = run.plan
        self.run, self.length = run, length
        self.places = [first + v * (plan.team * plan.width) for v in range(plan.held)]
        self.known: list[dict[int, Any]] = [{} for _ in self.places]
        # All loads are issued before the first wait.
        for number in run.memory:
            if run.program.operands[number].place == "along":
                for v in range(plan.held):
                    self.known[v][number] = self.read(number, v)

    def total(self, number: int) -> Any:
        """Return a reduction of the row, the same in each unit of the team."""
        run = self.run
        width, fold = run.plan.width, run.program.step(number)
        assert isinstance(fold, Fold)
        nothing = constant(identity(fold.kind, fold.dtype), fold.dtype, width)
        parts = []
        for v, place in enumerate(self.places):
            value = self.value(fold.operand, v)
            rest = self.length - place
            inside = rest > 0 if run.plan.even else lanes(width, rest) < rest
            parts.append(select(inside, value, nothing))
        return over_team(fold.kind, over_lanes(fold.kind, tree(fold.kind, parts)), run.plan.team)

    @exactly
    def value(self, number: int, v: int) -> Any:
        """Return a value of the program along the row, for a unit's vector ``v``."""
        spread, known, program = self.run.wide[0], self.known[v], self.run.program

        def find(wanted: int) -> Any:
            if wanted in spread:
                return spread[wanted]
            if wanted not in known:
                step = program.step(wanted)
                assert isinstance(step, Step)
                known[wanted] = applied(program, step, [find(n) for n in step.operands])
            return known[wanted]

        return find(number)

    def read(self, number: int, v: int) -> Any:
        """Return an operand's vector; lanes beyond the row's end are undefined."""
        run, place = self.run, self.places[v]
        view = run.memory.index(number)
        dtype, step = run.program.operands[number].dtype, run.plan.steps[view]
        source, at = run.sources[number], run.starts[0][view]
        width, rest = run.plan.width, self.length - place
        if run.plan.even and step == 1:
            return whole_vector(source, dtype, at + place, width, rest)
        # A single value is read from the start of the row, which exists.
        return load(source, dtype, at + place * step, width, step=step, rest=rest)

    def write(self, walk: int) -> None:
        """Write the values along the row that a pass computes."""
        run = self.run
        for k, n in run.schedule.written(run.program, walk):
            dtype, at = run.program.dtype(n), run.starts[0][run.count + k]
            for v, place in enumerate(self.places):
                rest = self.length - place
                put(run.targets[k], dtype, at + place, self.value(n, v), rest, run.plan.even)


@helper
def whole_vector(source: Any, dtype: Any, at: Any, width: int, rest: Any) -> Any:
    """Return a vector that is either inside a row, or outside of it and zeros."""
    value: Any = constant(0, source.dtype, width)
    if rest > 0:
        value = load(source, dtype, at, width, align=width * dtype.itemsize)
    return value


@helper
def put(target: Any, dtype: Any, at: Any, value: Any, rest: Any, even: bool) -> None:
    """Write a vector, or its lanes inside the row."""
    if even:
        if rest > 0:
            store(target, dtype, at, value, align=value.width * dtype.itemsize)
    else:
        store(target, dtype, at, value, rest=rest)
