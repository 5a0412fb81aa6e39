"""Launches of argmax and argmin: the ways of the family for them.

Requirements: memory is read in order if strides allow it. Few results of many terms are divided
among cubes, and another launch joins their values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calor.dtypes import int64, uint32
from calor_kernel.contract.choices import choice, exceeds
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.ways import Way, serves
from calor_kernel.contract.work import Flags, Output, Request, Work, row_major
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.argminmax import (
    ArgPlan,
    ArgRows,
    ArgTasks,
    argminmax_columns,
    argminmax_rows,
    argminmax_teams,
    join_indices,
)
from calor_kernel.library.reduce.argminmax_joined import argminmax_joined
from calor_kernel.library.reduce.columns import Blocks, ColumnPlan
from calor_kernel.library.reduce.general import general_work
from calor_kernel.library.reduce.job import Layout, Strides
from calor_kernel.library.reduce.program_launch import divided
from calor_kernel.library.reduce.reduction_ops import ReductionOp, index_type, working
from calor_kernel.library.steps import Steps

_CHUNK: Final = 1 << 16
# Vectors of a block of a row; bytes of a block of columns, and of one if there are few blocks.
_BLOCK: Final = 64
_WIDE, _NARROW, _FEW = 4096, 1024, 4
# Maximum of units of a cube, and of one if there are no more results than cores.
_UNITS, _ALONE = 128, 1024
# Units of a cube that joins parts, the least terms of each of them, and those that hide its start.
_WHOLE, _TERMS, _MANY = 256, 4, 8
# Such cubes of a core, which have as many units as it runs: a unit waits for each of its loads.
_RUNNING = 4


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

    def divided(self, cubes: int, each: int) -> tuple[int, int]:
        """Return the number of parts of each cube's terms, and the terms of a part."""
        total = self.results * self.terms * self.x.dtype.itemsize
        parts, chunk = divided(self.info, cubes, total, self.terms, each)
        return parts, chunk or self.terms

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
        width = max(self.info.vector_bytes // 8, 1) if not self.many else 1
        steps.add(
            join_indices,
            Grid.line(-(-self.results // width)),
            Effort(label, 0, self.results * (parts * (wide.itemsize + index.itemsize) + 8)),
            **memory,
            out=out,
            results=self.results,
            parts=parts,
            plan=ArgPlan(self.op, self.x.dtype, index, width),
        )
        return steps.work()


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
    units = min(one.info.max_units, _ALONE if few else _UNITS)
    team = 1
    while team < units and team * (4 if along else 32) < one.terms:
        team *= 2
    units = max(team, min(units, _UNITS))
    span = units // team
    parts, chunk = one.divided(-(-one.results // span), size)
    tasks = one.results * parts
    sizes, strides = one.kept.sizes, one.kept.strides
    over = ArgTasks(one.results, tasks, one.terms, chunk, one.step, sizes, strides)
    grid = Grid.line(-(-tasks // span), units)
    given = {"over": over, "plan": one.plan, "team": team, "along": along}
    return [one.work(argminmax_teams, grid, parts, **given)]


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


def _joined_parts(one: ArgProblem) -> tuple[int, int]:
    """Return the parts of each result for cubes that join them, and the units of a cube."""
    units = _WHOLE
    while units > one.info.max_units:
        units //= 2
    return int(_parts(one.results, one.terms, units, one.info.cores)), units


def _few_long_rows(one: ArgProblem, request: Request) -> str | None:
    if not one.many:
        return "a cube has one unit"
    if not all(map(one.info.has, ("barrier", "atomics", "forward_progress"))):
        return "a cube does not see what others wrote before"
    if not one.along:
        return "adjacent results are nearer than adjacent terms"
    return "rows are short or many" if _joined_parts(one)[0] < 2 else None


def _joined(one: ArgProblem, request: Request) -> list[Work]:
    parts, units = _joined_parts(one)
    chunk = -(-one.terms // parts)
    tasks, terms, steps = one.results * parts, one.results * one.terms, Steps()
    effort = Effort(
        f"reduce.{one.op.kind} joined", terms, terms * one.x.dtype.itemsize + 8 * one.results
    )
    sizes, strides = one.kept.sizes, one.kept.strides
    steps.add(
        argminmax_joined,
        Grid.line(tasks, units, one.info.planes[0] if one.info.has("planes") else 1),
        effort,
        x=operand(0, one.x),
        values=steps.room(tasks, stored(one.op.dtype)),
        indices=steps.room(tasks, one.plan.index),
        out=Bound(Output(0), int64),
        flags=Bound(Flags(one.results), uint32),
        over=ArgTasks(one.results, tasks, one.terms, chunk, one.step, sizes, strides),
        parts=parts,
        plan=one.plan,
        units=units,
    )
    return [steps.work()]


ARGMINMAX: Final[tuple[Way[ArgProblem], ...]] = (
    Way("argminmax joined", _few_long_rows, _joined),
    Way("argminmax teams", _many_units, _teams),
    Way("argminmax rows", _dense_rows, _rows),
    Way("argminmax columns", _dense_columns, _columns),
    Way("general", serves, lambda one, request: [general_work(request, one.layout)], spare=True),
)
