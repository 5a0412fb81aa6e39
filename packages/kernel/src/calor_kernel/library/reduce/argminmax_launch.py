"""Launches of argmax and argmin.

Requirements: memory is read in order if strides allow it. Few results of many terms are divided
among cubes, and another launch joins their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import DType, int64
from calor_kernel.contract.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Request,
    Scratch,
    Work,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.argminmax import (
    PlacePlan,
    join_places,
    places_of_columns,
    places_of_rows,
)
from calor_kernel.library.reduce.argminmax_cooperative import places_of_teams
from calor_kernel.library.reduce.problem import Reduction, reduction_of
from calor_kernel.library.reduce.reduction_ops import index_type, working
from calor_kernel.library.reduce.split_reduction import divided

_SIZE: Final = Scalar(int64, nonnegative=True)
_STRIDE: Final = Scalar(int64)
_CHUNK: Final = 1 << 16
# Vectors of a block of a row; bytes of a block of columns, and of one if there are few blocks.
_BLOCK: Final = 64
_WIDE, _NARROW, _FEW = 4096, 1024, 4


class Places:
    """The problem of one op, for all its methods."""

    def __init__(self, request: Request) -> None:
        (x,), self.info, self.kind = request.inputs, request.info, request.op
        self.found: Reduction = reduction_of(x, (request.attributes["axis"],), ordered=True)
        self.source = x.dtype
        self.wide = working(self.kind, x.dtype, int64)
        (self.axis,) = self.found.reduced
        self.index = index_type(self.axis.size)
        self.results = self.found.results

    def plan(self, size: int, unroll: int, kept: int, width: int | None = None) -> PlacePlan:
        """Return a plan with the problem's parameters."""
        size_of = max(self.wide.itemsize, self.index.itemsize)
        lanes = width or max(self.info.vector_bytes // size_of, 1)
        return PlacePlan(
            self.kind, self.source, self.wide, self.index, kept, lanes, unroll, size * lanes
        )

    def work(
        self,
        build: tuple[object, Sequence[tuple[str, object]], int],
        plan: PlacePlan,
        cubes: int,
        numbers: Sequence[int],
        sizes: int,
        parts: int,
    ) -> Work:
        """Return the launches of a body and its join; the first ``sizes`` numbers are sizes."""
        function, keywords, units = build
        plan = replace(plan, partial=parts > 1)
        targets: list[Argument] = [Scratch(0), Scratch(1)] if plan.partial else [Output(0)]
        types: list[DType] = [stored(self.wide), self.index] if plan.partial else [int64]
        signature: list[Buffer | Scalar] = [Buffer(stored(self.source), writable=False)]
        signature += [Buffer(t) for t in types]
        signature += [_SIZE] * sizes + [_STRIDE] * (len(numbers) - sizes)
        arguments = (Input(0, self.found.offset), *targets, *numbers)
        made = Build(
            function,  # type: ignore[arg-type]
            tuple(signature),
            (("plan", plan), *keywords),
            (units, 1, 1),
        )
        terms = self.results * self.axis.size
        nbytes = terms * self.source.itemsize + 8 * self.results
        launch = Launch(made, (cubes, 1, 1), arguments, terms, nbytes, f"reduce.{self.kind}")
        if not plan.partial:
            return Work((launch,))
        count = self.results * parts
        joined = self._joined(plan, parts)
        return Work((launch, joined), (count * types[0].itemsize, count * types[1].itemsize))

    def _joined(self, plan: PlacePlan, parts: int) -> Launch:
        width = max(self.info.vector_bytes // 8, 1)
        if self.info.max_units > 1:
            width = 1
        plan = replace(plan, width=width, kept=0, size=0, unroll=1, single=False)
        signature = (
            Buffer(stored(self.wide), writable=False),
            Buffer(self.index, writable=False),
            Buffer(int64),
            _SIZE,
            _SIZE,
        )
        build = Build(join_places, signature, (("plan", plan),))
        arguments = (Scratch(0), Scratch(1), Output(0), self.results, parts)
        nbytes = self.results * (parts * (self.wide.itemsize + self.index.itemsize) + 8)
        cubes = -(-self.results // width)
        return Launch(build, (cubes, 1, 1), arguments, 0, nbytes, f"reduce.{self.kind}")


def places_work(request: Request) -> Work | None:
    """Return the work of argmax or argmin, None if only the general body suits."""
    problem = Places(request)
    found = problem.found
    if problem.info.max_units > 1:
        return _by_teams(problem)
    if problem.axis.stride == 1 or problem.axis.size == 1:
        return _along(problem)
    if found.kept[-1].stride == 1:
        return _across(problem)
    return None


def _along(problem: Places) -> Work:
    found, length, size = problem.found, problem.axis.size, problem.source.itemsize
    kept = len(found.kept)
    plan = problem.plan(_BLOCK, 4, kept)
    total = problem.results * length * size
    parts, chunk = divided(problem.info, problem.results, total, length, size)
    plan = replace(plan, single=(chunk or length) <= plan.size)
    tasks = problem.results * parts
    turns = max(min(_CHUNK // max(size * (chunk or length), 1), tasks), 1)
    numbers = [problem.results, tasks, turns, length, chunk or length]
    numbers += [a.size for a in found.kept] + [a.stride for a in found.kept]
    body = (places_of_rows, (), 1)
    return problem.work(body, plan, -(-tasks // turns), numbers, 5 + kept, parts)


def _across(problem: Places) -> Work:
    found, (terms, step) = problem.found, (problem.axis.size, problem.axis.stride)
    *outer, last = found.kept
    outers = problem.results // last.size
    widest = max(problem.wide.itemsize, problem.index.itemsize)
    narrow = outers * -(-last.size * widest // _WIDE) < _FEW
    size = (_NARROW if narrow else _WIDE) // problem.info.vector_bytes
    plan = problem.plan(max(size, 1), 8, len(outer))
    blocks = -(-last.size // plan.size)
    total = problem.results * terms * problem.source.itemsize
    each = min(plan.size, last.size) * problem.source.itemsize
    parts, chunk = divided(problem.info, blocks * outers, total, terms, each)
    tasks = blocks * outers * parts
    turns = max(min(_CHUNK // max(each * (chunk or terms), 1), tasks), 1)
    numbers = [tasks, turns, blocks, outers, last.size, terms, chunk or terms, problem.results]
    written = [1]
    for axis in reversed(found.kept[1:]):
        written.insert(0, written[0] * axis.size)
    numbers += [step, *(a.size for a in outer), *(a.stride for a in outer), *written[:-1]]
    sizes = 9 + len(outer) if step >= 0 else 8
    body = (places_of_columns, (), 1)
    return problem.work(body, plan, -(-tasks // turns), numbers, sizes, parts)


def _by_teams(problem: Places) -> Work:
    found, terms, step = problem.found, problem.axis.size, problem.axis.stride
    along = abs(step) <= abs(found.kept[-1].stride) or problem.results == 1
    units: int = min(problem.info.max_units, 128)
    team = 1
    while team < units and team * (4 if along else 32) < terms:
        team *= 2
    size = problem.source.itemsize
    span = units // team
    total = problem.results * terms * size
    parts, chunk = divided(problem.info, -(-problem.results // span), total, terms, size)
    tasks = problem.results * parts
    plan = problem.plan(0, 1, len(found.kept), 1)
    numbers = [problem.results, tasks, terms, chunk or terms, step]
    numbers += [a.size for a in found.kept] + [a.stride for a in found.kept]
    body = (places_of_teams, (("team", team), ("along", along)), units)
    return problem.work(body, plan, -(-tasks // span), numbers, 4, parts)
