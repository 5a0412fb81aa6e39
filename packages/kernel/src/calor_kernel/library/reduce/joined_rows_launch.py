"""Launches behind one that left parts of reductions; they join the parts themselves.

Requirements: whether a launch joins depends on the device and the sizes alone, and changes no bits.
What its cubes read once more costs less than a launch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Grid
from calor_kernel.contract.work import Flags, Input, Launch, Output, Scratch
from calor_kernel.library.reduce.job import Placed, Problem, Strides
from calor_kernel.library.reduce.joined_rows import Joining, apply_rows, continue_rows
from calor_kernel.library.reduce.launches import (
    holding,
    is_aligned,
    rows_given,
    span_of,
    steps_of,
    team_that_holds,
)
from calor_kernel.library.reduce.program import Operand
from calor_kernel.library.reduce.row_state import RowPlan, Rows

# Bytes of parts that all cubes of a launch may read once more. From the second-level cache of a
# GPU that takes a microsecond; a launch takes two, and four of the host.
_AGAIN: Final = 1 << 22
# Units of a cube that writes along rows, its turns at most, and the cubes of a core from which it
# takes several: joining takes a cube as long as a turn.
_UNITS: Final = 256
_TURNS: Final = 16
_CUBES: Final = 8


class Joined(NamedTuple):
    """A problem whose joined operands come from parts, the joining, and the arguments for it."""

    problem: Problem
    joining: Problem
    form: Joining
    nbytes: int
    given: dict[str, object]


class Applied(NamedTuple):
    """A launch of :func:`.joined_rows.apply_rows`, with its rows, strides and plan."""

    joined: Joined
    grid: Grid
    over: Rows[int]
    views: tuple[Strides[int], ...]
    plan: RowPlan

    @property
    def problem(self) -> Problem:
        """What is written along rows."""
        return self.joined.problem

    def positions(self, *others: Problem) -> DType:
        """Return the type of positions, which are those of rows and of parts."""
        return _index(self.problem, self.joined.joining, *others)

    def launch(self) -> Launch:
        """Return the launch."""
        return self.problem.launch(
            apply_rows,
            replace(self.grid, index=self.positions()),
            self.problem.program,
            over=self.over,
            views=self.views,
            plan=self.plan,
            lengths=self.problem.layout.along.sizes,
            joining=self.joined.form,
            **self.joined.given,
        )


def _plan(joining: Problem) -> RowPlan | None:
    """Return the plan of rows of parts in registers, which is that of a launch that joins them."""
    found = joining.layout
    if not joining.many or len(found.along.sizes) > 1 or joining.schedule.count != 1:
        return None
    pairs = zip(found.along.strides, joining.along, strict=True)
    if any(varies and s[-1] not in (0, 1) for s, varies in pairs):
        return None
    team = team_that_holds(joining)
    return None if team is None else holding(joining, team)


def _joined(problem: Problem, joining: Problem, kept: Collection[int]) -> Joined | None:
    """Return a problem that reads results of a joining, so that its cubes join; None if none does.

    ``kept``: the indices of those results that are written.
    """
    plan = _plan(joining)
    if plan is None:
        return None
    results, targets = joining.program.results, joining.job.targets
    program, operands = problem.program, list(problem.program.operands)
    values: list[int] = []
    sources: list[Placed] = []
    for number, source in zip(program.memory, problem.job.sources, strict=True):
        found = [n for n, t in zip(results, targets, strict=True) if t is source]
        if found:
            operands[number] = Operand(operands[number].dtype, "joined")
            values += found
        else:
            sources.append(source)
    if not values:
        return None
    made = replace(program, operands=tuple(operands))
    job = replace(problem.job, sources=tuple(sources))
    left = replace(joining.program, results=tuple(results[k] for k in kept))
    written = replace(joining.job, targets=tuple(targets[k] for k in kept))
    inner = Problem(left, written, joining.info)
    layout = inner.layout
    rows = layout.kept.count
    given: dict[str, object] = {
        "joined": [p.bound for p in written.sources],
        "written": [p.bound for p in written.targets],
        "more": inner.numbers,
        "whole": Rows(rows, 1, 1, 0, layout.kept.sizes, layout.along.sizes),
        "places": tuple(inner.views()),
    }
    nbytes = sum(
        p.nbytes for p, varies in zip(written.sources, inner.along, strict=False) if varies
    )
    form = Joining(left, _of_views(plan, inner), tuple(values))
    return Joined(Problem(made, job, problem.info), inner, form, nbytes, given)


def _of_views(plan: RowPlan, problem: Problem) -> RowPlan:
    """Return a plan of rows with the steps of a problem's views."""
    return replace(plan, steps=steps_of(problem))


def _index(*problems: Problem) -> DType:
    """Return the type of positions, which are those of rows and of parts."""
    return kl.index_dtype(*(span_of(one.view) for p in problems for one in p.job.placed))


def fits(made: Launch, info: DeviceInfo) -> bool:
    """Return whether a device takes so many buffers."""
    buffers = [a for a in made.arguments if isinstance(a, (Input, Output, Scratch, Flags))]
    return len(buffers) <= info.arguments


def continued_launch(problem: Problem, joining: Problem, parts: int, chunk: int) -> Launch | None:
    """Return the launch of parts of rows, whose cubes join the parts of an earlier pass.

    None if a launch should join them. All results of the joining are written.
    """
    found = _joined(problem, joining, range(len(joining.program.results)))
    if found is None:
        return None
    grid, given = rows_given(found.problem, parts, chunk)
    if found.form.plan.team > given.plan.team or given.plan.together > 1:
        return None
    if exceeds(found.nbytes * parts, _AGAIN):
        return None
    grid = replace(grid, index=_index(problem, joining))
    made = found.problem.launch(
        continue_rows, grid, given.program, **given.rest, joining=found.form, **found.given
    )
    return made if fits(made, problem.info) else None


def applied(problem: Problem, joining: Problem, needed: Sequence[Placed]) -> Applied | None:
    """Return the launch that writes results along rows, whose cubes join the parts before it.

    None if a launch should join them. Of the joining's results only the ``needed`` are written.
    """
    targets = joining.job.targets
    kept = [k for k, t in enumerate(targets) if any(t is one for one in needed)]
    found = _joined(problem, joining, kept)
    if found is None:
        return None
    inner, info = found.problem, problem.info
    units, layout = min(info.max_units, _UNITS), inner.layout
    steps = steps_of(inner)
    if found.form.plan.team > units or any(
        varies and s < 0 for varies, s in zip(inner.along, steps, strict=True)
    ):
        return None
    width, short = _vectors(inner)
    rows, terms = layout.kept.count, layout.along.count
    step = units * width
    turns = least(greatest(rows * terms // (step * _CUBES * info.cores), 1), _TURNS)
    parts = -(-terms // (step * turns))
    if exceeds(found.nbytes * parts, _AGAIN):
        return None
    plan = RowPlan(steps, width, team=units, even=width > 1, short=short)
    made = Applied(
        found,
        Grid.line(rows * parts, units, info.planes[0]),
        Rows(rows, 1, parts, step * turns, layout.kept.sizes, layout.along.sizes),
        tuple(inner.views()),
        plan,
    )
    return made if fits(made.launch(), info) else None


def _vectors(problem: Problem) -> tuple[int, bool]:
    """Return the width of aligned vectors along rows, and whether the last one may be short."""
    width, sizes = problem.width, problem.layout.along.sizes
    short = bool(sizes[-1] % width)
    return (
        (width, short) if is_aligned(problem, width) and not (short and sizes[1:]) else (1, False)
    )
