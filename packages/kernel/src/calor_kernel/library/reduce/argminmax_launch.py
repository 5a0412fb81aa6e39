"""Launches of argmax and argmin: the ways of the family for them.

Requirements: memory is read in order if strides allow it. Few results of many terms are divided
among cubes, and another launch joins their values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from calor.dtypes import int64, uint32
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice, exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.ways import Way, serves
from calor_kernel.contract.work import Flags, Output, Request, Work, row_major
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.argminmax import (
    ArgPlan,
    ArgRows,
    argminmax_columns,
    argminmax_rows,
    join_indices,
)
from calor_kernel.library.reduce.argminmax_cooperative import (
    ArgTasks,
    Team,
    argminmax_joined,
    argminmax_teams,
    join_indices_in_teams,
)
from calor_kernel.library.reduce.columns import Blocks, ColumnPlan
from calor_kernel.library.reduce.general import general_work
from calor_kernel.library.reduce.job import Layout, Strides
from calor_kernel.library.reduce.launches import span_of
from calor_kernel.library.reduce.program_launch import divided
from calor_kernel.library.reduce.reduction_ops import ReductionOp, index_type, working
from calor_kernel.library.steps import Steps

_CHUNK: Final = 1 << 16
# Vectors of a block of a row; bytes of a block of columns, and of one if there are few blocks.
_BLOCK: Final = 64
_WIDE, _NARROW, _FEW = 4096, 1024, 4
# Units of a cube at least, and those of a result at most: of many results, and of those that have
# a core each.
_UNITS, _TEAM, _ALONE = 128, 256, 1024
# Vectors of a unit of many results along a dense axis, and those on their way, of 16 bytes and
# of single elements. Neighbouring columns that units read, and a unit's terms of them.
_EACH, _UNROLL, _SINGLES = 4, 4, 8
_ACROSS, _DOWN = 32, 8
# Vectors of a row, from which its edges do not count.
_LONG: Final = 32
# Units of a cube that joins parts, the least terms of each of them, and those that hide its start.
_WHOLE, _TERMS, _MANY = 256, 4, 8
# Such cubes of a core, which have as many units as it runs: a unit waits for each of its loads.
_RUNNING = 4
# Units of a core that hide its waits.
_HIDING: Final = 2048


class ArgProblem:
    """The problem of an argmax or argmin."""

    def __init__(self, request: Request, found: Layout) -> None:
        (self.x,), self.info, kind = request.inputs, request.info, request.op
        self.layout, self.many = found, request.info.max_units > 1
        self.kept = found.kept.first
        self.results = found.kept.count
        (self.terms,), (self.step,) = found.along.sizes, found.along.strides[0]
        source = self.x.dtype
        self.op = ReductionOp(kind, working(kind, source, int64))
        self.plan = ArgPlan(self.op, source, index_type(self.terms))
        self.widest = max(self.op.dtype.itemsize, self.plan.index.itemsize)
        self.width = max(self.info.vector_bytes // self.widest, 1)

    @property
    def along(self) -> bool:
        """Whether neighbouring units read neighbouring terms, not terms of neighbouring results."""
        return abs(self.step) <= abs(self.kept.strides[-1]) or self.results == 1

    def vectors(self) -> tuple[int, bool]:
        """Return the width of a team's vectors, and whether rows may begin within one."""
        width = self.info.vector_bytes // stored(self.x.dtype).itemsize
        if self.step != 1 or width < 2 or not exceeds(self.terms, width - 1):
            return 1, False
        places = (self.x.offset, self.terms, *self.kept.strides)
        if not any(place % width for place in places):
            return width, False
        return (width, True) if exceeds(self.terms, _LONG * width) else (1, False)

    def divided(self, cubes: int, each: int) -> tuple[int, int]:
        """Return the number of parts of each cube's terms, and the terms of a part."""
        total = self.results * self.terms * self.x.dtype.itemsize
        parts, chunk = divided(self.info, cubes, total, self.terms, each)
        return parts, chunk or self.terms

    def divided_across(self, span: int) -> tuple[int, int]:
        """Return what :meth:`divided` does, for cubes of ``span`` neighbouring columns."""
        each = min(span, _ACROSS) * self.x.dtype.itemsize
        return self.divided(-(-self.results // span), each)

    def work(self, kernel: KernelFunction, grid: Grid, parts: int, **given: object) -> Work:
        """Return the launch of a body, and the one that joins its parts."""
        label, terms = f"reduce.{self.op.kind}", self.results * self.terms
        effort = Effort(label, terms, terms * self.x.dtype.itemsize + 8 * self.results)
        out, x, steps = Bound(Output(0), int64), operand(0, self.x), Steps()
        if parts == 1:
            steps.add(kernel, grid, effort, x=x, values=None, indices=out, **given)
            return steps.work()
        wide, index, count = stored(self.op.dtype), self.plan.index, self.results * parts
        memory = {"values": steps.room(count, wide), "indices": steps.room(count, index)}
        steps.add(kernel, grid, effort, x=x, **memory, **given)
        join, last, more = self.joining(parts)
        effort = Effort(label, 0, self.results * (parts * (wide.itemsize + index.itemsize) + 8))
        sizes = {"results": self.results, "parts": parts}
        steps.add(join, last, effort, **memory, out=out, **sizes, **more)
        return steps.work()

    def joining(self, parts: int) -> tuple[KernelFunction, Grid, dict[str, object]]:
        """Return the body that joins parts of results, its grid, and what it is built for."""
        width = 1 if self.many else max(self.info.vector_bytes // 8, 1)
        plan = replace(self.plan, width=width)
        if not self.many:
            return join_indices, Grid.line(-(-self.results // width)), {"plan": plan}
        units = _units(self.info, _UNITS)
        team = Team(_doubled(units, lambda n: n < parts), along=True)
        grid = Grid.line(-(-self.results // (units // team.units)), units, _plane(self.info))
        return join_indices_in_teams, grid, {"plan": plan, "team": team}


def _many_units(one: ArgProblem, request: Request) -> str | None:
    return None if one.many else "a cube has one unit"


def _one_unit(one: ArgProblem, request: Request) -> str | None:
    return "a cube has many units, which share a result" if one.many else None


def _dense_rows(one: ArgProblem, request: Request) -> str | None:
    if one.step != 1 and one.terms != 1:
        return f"elements along the axis are {one.step} apart"
    return _one_unit(one, request)


def _dense_columns(one: ArgProblem, request: Request) -> str | None:
    if one.kept.strides[-1] != 1:
        return f"adjacent results are {one.kept.strides[-1]} elements apart"
    return _one_unit(one, request)


def _rows(one: ArgProblem, request: Request) -> list[Work]:
    length, size = one.terms, one.x.dtype.itemsize
    parts, chunk = one.divided(one.results, size)
    block = _BLOCK * one.width
    plan = replace(one.plan, width=one.width, unroll=4, size=block, single=chunk <= block)
    tasks = one.results * parts
    turns = max(min(_CHUNK // max(size * chunk, 1), tasks), 1)
    over = ArgRows(one.results, tasks, turns, length, chunk, one.kept)
    return [one.work(argminmax_rows, Grid.line(-(-tasks // turns)), parts, over=over, plan=plan)]


def _columns(one: ArgProblem, request: Request) -> list[Work]:
    (*outer, last), strides = one.kept.sizes, one.kept.strides
    outers = one.results // last
    narrow = outers * -(-last * one.widest // _WIDE) < _FEW
    size = max((_NARROW if narrow else _WIDE) // one.info.vector_bytes, 1) * one.width
    blocks = -(-last // size)
    each = min(size, last) * one.x.dtype.itemsize
    parts, chunk = one.divided(blocks * outers, each)
    tasks = blocks * outers * parts
    turns = max(min(_CHUNK // max(each * chunk, 1), tasks), 1)
    written = Strides(row_major(one.kept.sizes)[:-1])
    work = one.work(
        argminmax_columns,
        Grid.line(-(-tasks // turns)),
        parts,
        over=Blocks(
            tasks, turns, blocks, outers, last, one.terms, chunk, one.results, tuple(outer), ()
        ),
        views=(Strides(strides[:-1], (one.step,)), written),
        plan=replace(one.plan, width=one.width),
        columns=ColumnPlan(one.width, size, 8, (1,)),
    )
    return [work]


def _teams(one: ArgProblem, request: Request) -> list[Work]:
    along, size = one.along, one.x.dtype.itemsize
    whole = one.divided(one.results, size)[0] == 1
    few = whole and not exceeds(one.results, one.info.cores)
    width, uneven = one.vectors() if along else (1, False)
    team, units = _team_along(one, few, width) if along else _team_across(one)
    if uneven and team < 2 * width:
        width, uneven = 1, False
    span = units // team
    cubes = -(-one.results // span)
    parts, chunk = one.divided(cubes, size) if along else one.divided_across(span)
    plan, over = _given(one, parts, chunk, span, (width, uneven), team)
    grid = _grid(one, over, parts, units)
    return [one.work(argminmax_teams, grid, parts, over=over, plan=plan, team=Team(team, along))]


def _team_along(one: ArgProblem, few: bool, width: int) -> tuple[int, int]:
    """Return the units of a row, and of a cube: some vectors a unit if rows fill the device."""
    most = _units(one.info, _ALONE if few else _TEAM)
    filled = one.info.cores * _HIDING * width * _EACH
    each = width * (_EACH if exceeds(one.results * one.terms, filled) else 1)
    team = _doubled(most, lambda units: units * each < one.terms)
    return team, max(team, _units(one.info, _UNITS))


def _team_across(one: ArgProblem) -> tuple[int, int]:
    """Return the units of a column, and of a cube: neighbouring columns for whole memory lines."""
    most = _units(one.info, _TEAM)
    span = _doubled(min(_ACROSS, most), lambda n: n < one.kept.sizes[-1])
    filled = exceeds(one.results, one.info.cores * _HIDING)
    each = _DOWN * _SINGLES if filled else _DOWN
    team = _doubled(most // span, lambda units: units * each < one.terms)
    return team, max(team * span, _units(one.info, _UNITS))


def _units(info: DeviceInfo, most: int) -> int:
    """Return a power of two of units, at most those of a cube."""
    while most > info.max_units:
        most //= 2
    return most


def _doubled(most: int, wanting: Callable[[int], bool]) -> int:
    """Return the least power of two that suffices, or ``most``."""
    found = 1
    while found < most and wanting(found):
        found *= 2
    return found


def _plane(info: DeviceInfo) -> int:
    return info.planes[0] if info.has("planes") else 1


def _given(
    one: ArgProblem, parts: int, chunk: int, span: int, vectors: tuple[int, bool], team: int
) -> tuple[ArgPlan, ArgTasks[int]]:
    """Return the plan of teams and their tasks; ``span``: results of a cube."""
    width, uneven = vectors
    most = _UNROLL if width > 1 else _SINGLES
    unroll = _doubled(most, lambda n: exceeds(chunk, n * width * team))
    plan = replace(one.plan, width=width, unroll=unroll, uneven=uneven)
    shift = one.x.offset % width
    sizes, strides = one.kept.sizes, one.kept.strides
    blocks = -(-one.results // span)
    return plan, ArgTasks(one.results, blocks, one.terms, chunk, one.step, shift, sizes, strides)


def _grid(one: ArgProblem, over: ArgTasks[int], parts: int, units: int) -> Grid:
    """Return the grid of teams; places in memory are computed in 32 bits if they fit."""
    reach = span_of(one.x) + one.x.offset + units * abs(one.step) * one.info.vector_bytes
    index = kl.index_dtype(one.results * parts, reach)
    return Grid.line(over.blocks * parts, units, _plane(one.info), index)


@choice(low=1)
def _parts(results: int, terms: int, units: int, cores: int) -> int:
    """Return the parts of a result for a cube each, which it joins at once: some terms a unit.

    A core has one cube, or several if each has many terms.

    >>> _parts(1, 50257, 256, 132), _parts(8, 50257, 256, 132), _parts(1, 1000, 256, 132)
    (50, 24, 1)
    >>> _parts(128, 8732, 256, 132), _parts(128, 1000, 256, 132), _parts(1024, 8732, 256, 132)
    (4, 1, 1)
    """
    results = max(results, 1)
    several = min(_RUNNING * cores // results, terms // (units * _MANY))
    return max(1, min(units, max(cores // results, several), -(-terms // (units * _TERMS))))


def _joined_parts(one: ArgProblem) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the parts of results for cubes that join them, their terms, and the units.

    The units are those of a result, and of a cube.
    """
    if not one.along:
        team, units = _team_across(one)
        return one.divided_across(units // team), (team, units)
    units = _units(one.info, _WHOLE)
    parts = int(_parts(one.results, one.terms, units, one.info.cores))
    # Parts of aligned rows begin with whole vectors.
    width = one.vectors()[0]
    return (parts, -(-one.terms // (parts * width)) * width), (units, units)


def _few_long(one: ArgProblem, request: Request) -> str | None:
    if not one.many:
        return "a cube has one unit"
    if not all(map(one.info.has, ("barrier", "atomics", "forward_progress"))):
        return "a cube does not see what others wrote before"
    return "results are of few terms, or many" if _joined_parts(one)[0][0] < 2 else None


def _joined(one: ArgProblem, request: Request) -> list[Work]:
    (parts, chunk), (team, units) = _joined_parts(one)
    vectors = one.vectors() if one.along else (1, False)
    plan, over = _given(one, parts, chunk, units // team, vectors, team)
    tasks, terms, steps = one.results * parts, one.results * one.terms, Steps()
    effort = Effort(
        f"reduce.{one.op.kind} joined", terms, terms * one.x.dtype.itemsize + 8 * one.results
    )
    steps.add(
        argminmax_joined,
        _grid(one, over, parts, units),
        effort,
        x=operand(0, one.x),
        values=steps.room(tasks, stored(one.op.dtype)),
        indices=steps.room(tasks, one.plan.index),
        out=Bound(Output(0), int64),
        flags=Bound(Flags(over.blocks), uint32),
        over=over,
        parts=parts,
        plan=plan,
        team=Team(team, one.along),
    )
    return [steps.work()]


ARGMINMAX: Final[tuple[Way[ArgProblem], ...]] = (
    Way("argminmax joined", _few_long, _joined),
    Way("argminmax teams", _many_units, _teams),
    Way("argminmax rows", _dense_rows, _rows),
    Way("argminmax columns", _dense_columns, _columns),
    Way("general", serves, lambda one, request: [general_work(request, one.layout)], spare=True),
)
