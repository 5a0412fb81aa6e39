"""One pass of a program across rows, by cubes of many units with a column and some rows each.

Requirements: neighbouring units read neighbouring columns. The units of one column join their
totals in shared memory, in an order that depends on their number alone. Block sums are set aside as
in :mod:`pairwise_sums`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    Registers,
    barrier,
    constant,
    cube_position,
    cube_size,
    helper,
    kernel,
    loop_range,
    offset_of,
    registers,
    shared,
    unit_position,
    unravel,
)
from calor_kernel.library.elementwise.values import store
from calor_kernel.library.reduce.columns import ColumnPlan, Columns
from calor_kernel.library.reduce.pairwise_sums import put_aside, taken_together, tree
from calor_kernel.library.reduce.program import Program, evaluated
from calor_kernel.library.reduce.reduction_ops import identity, joined


@dataclass(frozen=True, slots=True)
class Held:
    """A unit's totals for each reduction: of the current block, and set aside."""

    sums: list[Registers]
    aside: list[Registers]


@kernel
def reduce_columns_team(*arguments: Any, program: Program, plan: ColumnPlan) -> None:
    """Compute a block of columns, one a unit along the first ``plan.span`` units of a cube.

    Arguments as for ``reduce_columns``.
    """
    run = Columns(program, plan, arguments)
    down = cube_size() // plan.span
    x, y = unit_position() % plan.span, unit_position() // plan.span
    count, begin, end, starts, target = run.place(cube_position())
    # Units beyond the last column repeat its work, and write nothing.
    column = min(x, count - 1)
    starts = {i: start + column * run.steps[i] for i, start in starts.items()}
    held = Held(
        [registers(1, f.dtype, 1, identity(f.kind, f.dtype)) for _, f in run.folds],
        [registers(2, f.dtype, 1, identity(f.kind, f.dtype)) for _, f in run.folds],
    )
    if plan.block:
        for b in loop_range(begin, end, plan.block):
            add_rows(run, held, starts, b + y, min(b + plan.block, end), down)
            for k, (_, fold) in enumerate(run.folds):
                aside, sums = held.aside[k], held.sums[k]
                aside[0], aside[1] = put_aside(fold, aside[0], aside[1], sums[0])
                sums[0] = constant(identity(fold.kind, fold.dtype), fold.dtype)
    else:
        add_rows(run, held, starts, begin + y, end, down)
    known = run.known(starts, 0, None)
    for k, (n, fold) in enumerate(run.folds):
        total = held.sums[k][0]
        if plan.block:
            total = taken_together(fold, held.aside[k][0], held.aside[k][1])
        known[n] = over_rows(fold.kind, total, down)
    made = evaluated(program, program.results, known, lambda _: None)
    if (y == 0) & (x < count):
        for memory, n, value in zip(run.targets, program.results, made, strict=True):
            store(memory, program.dtype(n), target + column, value)


@helper
def add_rows(run: Any, held: Any, starts: Any, first: Any, end: Any, down: int) -> None:
    """Add every ``down``-th row to the totals, several at a time."""
    streams = run.plan.streams
    last = end - (streams - 1) * down
    for r in loop_range(first, last, streams * down):
        add_some(run, held, starts, [r + s * down for s in range(streams)])
    # As many rounds as the loop above, in the units' own rows.
    rounds = (max(last - first, 0) + streams * down - 1) // (streams * down)
    for r in loop_range(first + rounds * (streams * down), end, down):
        add_some(run, held, starts, [r])


def add_some(run: Columns, held: Held, starts: Any, rows: list[Any]) -> None:
    """Add some rows to the totals."""
    made = []
    for row in rows:
        position = unravel(row, run.lengths)
        views = run.views.items()
        at = {i: starts[i] + offset_of(position, a) for i, (_, a) in views if a}
        made.append(run.terms_of(at, starts, 0, None))
    for k, (_, fold) in enumerate(run.folds):
        added = tree(fold.kind, [terms[k] for terms in made])
        held.sums[k][0] = joined(fold.kind, held.sums[k][0], added)


@helper
def over_rows(kind: str, value: Any, down: int) -> Any:
    """Return the joined values of the units of one column; every unit of the cube calls it."""
    span = cube_size() // down
    unit = unit_position()
    room = shared(cube_size(), value.dtype)
    distance = down // 2
    while distance:
        room[unit] = value
        barrier()
        value = joined(kind, value, room[unit ^ (distance * span)])
        barrier()
        distance //= 2
    return value
