"""One pass of a program across rows, with vectors along a dense kept axis.

Requirements: operands are read in memory order, some rows at a time. The totals of a block of
columns stay in the nearest cache, so that a processor sees few long streams. Few columns with many
terms are divided among cubes, each of which leaves partial totals. Block sums are set aside as in
:mod:`pairwise_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    Pointer,
    constant,
    cube_position,
    helper,
    kernel,
    loop_range,
    offset_of,
    private,
    splat,
    unravel,
)
from calor_kernel.library.elementwise.values import load, store
from calor_kernel.library.reduce.pairwise_sums import put_aside, taken_together, tree
from calor_kernel.library.reduce.program import Program, evaluated
from calor_kernel.library.reduce.reduction_ops import identity, joined, smaller


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """A plan for a pass across rows.

    ``kept``: the axes of the blocks of columns beside the last one. ``axes``: the reduced axes.
    ``width``: lanes of a vector. ``span``: columns of a block. ``streams``: rows that are loaded
    together. ``block``: rows of a block, after which sums are set aside, 0 for all. ``steps``: for
    each operand in memory 1 if its columns are dense, 0 if they are one value.
    """

    kept: int
    axes: int
    width: int
    span: int
    streams: int
    steps: tuple[int, ...]
    block: int = 0


class Columns:
    """The state of a unit that computes blocks of columns."""

    def __init__(self, program: Program, plan: ColumnPlan, arguments: Sequence[Any]) -> None:
        self.program, self.plan = program, plan
        rest = list(arguments)
        self.sources: dict[int, Pointer] = {i: rest.pop(0) for i in program.memory}
        self.steps = dict(zip(program.memory, plan.steps, strict=True))
        self.targets = [rest.pop(0) for _ in program.results]
        self.numbers = {i: rest.pop(0) for i in program.numbers}
        self.tasks, self.turns, self.blocks, self.outers = (rest.pop(0) for _ in range(4))
        self.columns, self.terms, self.chunk, self.apart = (rest.pop(0) for _ in range(4))
        self.sizes = [rest.pop(0) for _ in range(plan.kept)]
        self.lengths = [rest.pop(0) for _ in range(plan.axes)]
        self.views: dict[int, tuple[list[Any], list[Any]]] = {}
        for i in program.memory:
            kept = [rest.pop(0) for _ in range(plan.kept)]
            along = program.operands[i].place == "along"
            self.views[i] = (kept, [rest.pop(0) for _ in range(plan.axes if along else 0)])
        self.strides = [rest.pop(0) for _ in range(plan.kept)]
        self.folds = [(n, program.fold(n)) for n in program.folds]

    def place(self, task: Any) -> tuple[Any, Any, Any, dict[int, Any], Any]:
        """Return a block's number of columns, its terms, and its start in each view."""
        block, rest = task % self.blocks, task // self.blocks
        outer, part = rest % self.outers, rest // self.outers
        column = block * self.plan.span
        position = unravel(outer, self.sizes)
        starts = {
            i: offset_of(position, kept) + column * self.steps[i]
            for i, (kept, _) in self.views.items()
        }
        target = offset_of(position, self.strides) + part * self.apart + column
        begin = part * self.chunk
        count = smaller(self.columns - column, self.plan.span)
        return count, begin, smaller(begin + self.chunk, self.terms), starts, target

    def known(self, starts: dict[int, Any], v: Any, rest: Any) -> dict[int, Any]:
        """Return values that do not vary along the reduced axes: scalars, one value a column."""
        width = self.plan.width
        made: dict[int, Any] = {i: splat(n, width) for i, n in self.numbers.items()}
        for i, operand in enumerate(self.program.operands):
            if operand.place == "row":
                made[i] = self.read(i, starts[i], v, rest)
        return made

    def read(self, number: int, at: Any, v: Any, rest: Any) -> Any:
        """Return an operand's values of the columns from v on."""
        step, dtype = self.steps[number], self.program.operands[number].dtype
        width = self.plan.width
        return load(self.sources[number], dtype, at + v * step, width, step=step, rest=rest)

    def terms_of(self, at: dict[int, Any], starts: dict[int, Any], v: Any, rest: Any) -> list[Any]:
        """Return the terms of a row for each reduction."""

        def read(number: int) -> Any:
            if self.program.step(number) is not None:
                return None
            return self.read(number, at[number], v, rest)

        wanted = [fold.operand for _, fold in self.folds]
        return evaluated(self.program, wanted, self.known(starts, v, rest), read)


@kernel
def reduce_columns(*arguments: Any, program: Program, plan: ColumnPlan) -> None:
    """Compute ``turns`` blocks of columns, each from ``chunk`` of the terms.

    After the buffers come the scalar operands; all blocks, ``turns``, blocks side by side, the
    number of such rows of blocks; columns, terms, ``chunk``, the stride of parts in the results;
    sizes of the axes, strides of each operand and of the results.
    """
    run = Columns(program, plan, arguments)
    sums = [private(plan.span, f.dtype, align=64) for _, f in run.folds]
    aside = [private(2 * plan.span, f.dtype, align=64) for _, f in run.folds] if plan.block else []
    first = cube_position() * run.turns
    for task in loop_range(first, min(first + run.turns, run.tasks)):
        count, begin, end, starts, target = run.place(task)
        clear(run, sums, count, 1)
        clear(run, aside, count, 2)
        if plan.block:
            for b in loop_range(begin, end, plan.block):
                some_terms(run, sums, starts, count, b, min(b + plan.block, end))
                settle(run, sums, aside, count)
        else:
            some_terms(run, sums, starts, count, begin, end)
        whole = count // plan.width * plan.width
        for v in loop_range(0, whole, plan.width):
            finish(run, sums, aside, starts, target, v, None)
        if whole < count:
            finish(run, sums, aside, starts, target, whole, count - whole)


@helper
def clear(run: Any, memory: list[Any], count: Any, copies: int) -> None:
    """Fill totals with the identities of their reductions."""
    width, span = run.plan.width, run.plan.span
    if memory:
        for v in loop_range(0, count, width):
            for k, (_, fold) in enumerate(run.folds):
                nothing = constant(identity(fold.kind, fold.dtype), fold.dtype, width)
                for c in range(copies):
                    memory[k].store(c * span + v, nothing)


@helper
def some_terms(run: Any, sums: list[Any], starts: Any, count: Any, begin: Any, end: Any) -> None:
    """Add the rows of a range to the totals."""
    streams = run.plan.streams
    whole = (end - begin) // streams * streams
    for r in loop_range(begin, begin + whole, streams):
        across(run, sums, starts, [r + s for s in range(streams)], count)
    for r in loop_range(begin + whole, end):
        across(run, sums, starts, [r], count)


@helper
def across(run: Any, sums: list[Any], starts: Any, rows: list[Any], count: Any) -> None:
    """Add some rows to the totals."""
    width = run.plan.width
    at = []
    for row in rows:
        position = unravel(row, run.lengths)
        views = run.views.items()
        at.append({i: starts[i] + offset_of(position, a) for i, (_, a) in views if a})
    whole = count // width * width
    for v in loop_range(0, whole, width):
        add_vectors(run, sums, starts, at, v, None)
    if whole < count:
        add_vectors(run, sums, starts, at, whole, count - whole)


def add_vectors(
    run: Columns, sums: list[Pointer], starts: Any, at: list[Any], v: Any, rest: Any
) -> None:
    """Add a vector of each of some rows to the totals."""
    made = [run.terms_of(one, starts, v, rest) for one in at]
    for k, (_, fold) in enumerate(run.folds):
        added = tree(fold.kind, [terms[k] for terms in made])
        sums[k].store(v, joined(fold.kind, sums[k].load(v, run.plan.width), added))


@helper
def settle(run: Any, sums: list[Any], aside: list[Any], count: Any) -> None:
    """Add the totals to those set aside, and reset them."""
    width, span = run.plan.width, run.plan.span
    for v in loop_range(0, count, width):
        for k, (_, fold) in enumerate(run.folds):
            total, rest = aside[k].load(v, width), aside[k].load(span + v, width)
            total, rest = put_aside(fold, total, rest, sums[k].load(v, width))
            aside[k].store(v, total)
            aside[k].store(span + v, rest)
            sums[k].store(v, constant(identity(fold.kind, fold.dtype), fold.dtype, width))


def finish(
    run: Columns,
    sums: list[Pointer],
    aside: list[Pointer],
    starts: Any,
    target: Any,
    v: Any,
    rest: Any,
) -> None:
    """Write the results of a vector of columns."""
    width, span = run.plan.width, run.plan.span
    known = run.known(starts, v, rest)
    for k, (n, fold) in enumerate(run.folds):
        if aside:
            total, left = aside[k].load(v, width), aside[k].load(span + v, width)
            known[n] = taken_together(fold, total, left)
        else:
            known[n] = sums[k].load(v, width)
    made = evaluated(run.program, run.program.results, known, lambda _: None)
    for memory, n, value in zip(run.targets, run.program.results, made, strict=True):
        store(memory, run.program.dtype(n), target + v, value, rest=rest)
