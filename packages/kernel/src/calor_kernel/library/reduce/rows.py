"""Row programs on dense rows, with vectors along the row.

Requirements: one body for cubes of one unit, with several rows at a time so that their chains of
operations overlap, and for cubes of many, with teams of units that share a row. Block sums are set
aside as in :mod:`pairwise_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    Registers,
    constant,
    cube_position,
    cube_size,
    helper,
    kernel,
    loop_range,
    offset_of,
    registers,
    select,
    unit_position,
    unravel,
)
from calor_kernel.library.elementwise.values import lanes
from calor_kernel.library.reduce.cooperative_reduction import over_each, over_lanes, over_team
from calor_kernel.library.reduce.pairwise_sums import put_aside, taken_together, tree
from calor_kernel.library.reduce.program import Fold, Program
from calor_kernel.library.reduce.reduction_ops import identity, joined
from calor_kernel.library.reduce.row_state import RowPlan, Run


@kernel
def reduce_rows(*arguments: Any, program: Program, plan: RowPlan) -> None:
    """Run a program on rows; a cube of one unit takes ``turns`` of them, others one a team.

    After the buffers come the scalar operands, the number of rows and ``turns``, the parts of a row
    and their size, sizes of the axes, and the strides of each view.
    """
    run = Run(program, plan, arguments)
    if cube_size() > 1:
        row = cube_position() * (cube_size() // plan.team) + unit_position() // plan.team
        # Teams beyond the last row have an empty range.
        inside = row < run.rows
        run.lengths[-1] = select(inside, run.lengths[-1], 0)
        inside = inside & (unit_position() % plan.team == 0)
        some_rows(run, [min(row, run.rows - 1)], inside, None)
    else:
        first = cube_position() * run.turns
        last = min(first + run.turns, run.rows)
        for row in loop_range(first, last, plan.together):
            rows = [min(row + j, last - 1) for j in range(plan.together)]
            some_rows(run, rows, None, last - row if plan.transposed else None)


@helper
def some_rows(run: Any, rows: list[Any], inside: Any, rest: Any) -> None:
    """Compute rows; ``inside``: whether this unit writes results of one value a row."""
    run.begin(rows)
    for walk in range(run.walks):
        one_walk(run, walk)
        run.settle(walk)
    if inside is None or inside:
        run.finish(rest)


@dataclass(frozen=True, slots=True)
class Total:
    """A reduction in progress: accumulators, and the total set aside with its rounding error."""

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
        """Add the accumulators to the total set aside, and reset them."""
        assert self.aside is not None
        fold, (together, unroll) = self.fold, self.sums.shape
        nothing = constant(identity(fold.kind, fold.dtype), fold.dtype)
        for j in range(together):
            block = tree(fold.kind, [self.sums[j, u] for u in range(unroll)])
            total, rest = put_aside(fold, self.aside[j, 0], self.aside[j, 1], block)
            self.aside[j, 0], self.aside[j, 1] = total, rest
            for u in range(unroll):
                self.sums[j, u] = nothing

    def finish(self, run: Run) -> None:
        """Store the reduction as a value of each row."""
        fold, plan = self.fold, run.plan
        made = []
        for j in range(plan.together):
            if self.aside is None:
                sums = [self.sums[j, u] for u in range(plan.unroll)]
                made.append(tree(fold.kind, sums))
            else:
                made.append(taken_together(fold, self.aside[j, 0], self.aside[j, 1]))
        if plan.transposed:
            run.values[0][self.number] = over_each(fold.kind, made)
            return
        for values, vector in zip(run.values, made, strict=True):
            total = over_lanes(fold.kind, vector)
            values[self.number] = over_team(fold.kind, total, plan.team)


@helper
def one_walk(run: Any, walk: int) -> None:
    """Run one pass along the rows."""
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
        total.finish(run)


@helper
def in_blocks(
    run: Any, walk: int, totals: list[Any], at: list[Any], ends: list[Any], block: int
) -> None:
    """Run along the last axis, in blocks if sums are set aside."""
    # Parts of rows may differ in length; otherwise all rows have the same length.
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
    """Run over a range of the last axis; each row may have its own range."""
    plan = run.plan
    step = plan.team * plan.width
    first = unit_position() % plan.team * plan.width
    count = min(ends) - begin
    if len(ends) > 1:
        count = max(count, 0)
    whole: Any = 0
    if not plan.short:
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
    """Compute the values from position i on, and add them to the totals."""
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
