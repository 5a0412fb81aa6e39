"""Rows divided among cubes, in one launch: the last cube of a row joins its parts.

Requirements: the order of the parts decides the order of the sum, not the order in which cubes end,
so bits are those of two launches. No cube waits for another. What a last cube reads of the parts is
one buffer with what cubes write, since the compiler may read any other early. The words that count
the cubes are 0 before and after the launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calor_kernel import language as kl
from calor_kernel.library.arrivals import is_last
from calor_kernel.library.reduce.job import Strides
from calor_kernel.library.reduce.program import Program
from calor_kernel.library.reduce.row_state import RowPlan, Rows, Run
from calor_kernel.library.reduce.rows import team_row, team_rows

# In place of the number of a buffer: the next one of its own.
OWN: Final = -1


@dataclass(frozen=True, slots=True)
class Last:
    """The program that joins parts, its plan, and which results of the parts it reads, or OWN."""

    program: Program
    plan: RowPlan
    read: tuple[int, ...]


@kl.kernel
def reduce_rows_joined(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.InOut, ...],
    numbers: tuple[kl.Element, ...],
    over: Rows[kl.Number],
    views: tuple[Strides[kl.Number], ...],
    others: tuple[kl.In, ...],
    results: tuple[kl.Out, ...],
    more: tuple[kl.Element, ...],
    cubes: kl.Size,
    whole: Rows[kl.Number],
    places: tuple[Strides[kl.Number], ...],
    flags: kl.InOut,
    *,
    program: Program,
    plan: RowPlan,
    last: Last,
) -> None:
    """Compute parts of a row, and join them in the last of the row's ``cubes``.

    The parts are those of :func:`.rows.reduce_rows`: ``program`` reads ``sources`` and
    ``numbers``, has ``over`` and ``views``, and writes ``targets``. The joining reads some of these
    and ``others``, has ``more``, ``whole`` and ``places``, and writes ``results``.
    """
    if plan.resident:
        kl.launch_attributes(cubes_per_core=plan.resident)
    cube = kl.cube_position()
    team_rows(Run(program, plan, (sources, targets, numbers), over, views), cube)
    row = kl.quotient(cube, cubes)
    if is_last(flags, row, cubes):
        read = chosen(targets, others, last.read)
        run = Run(last.program, last.plan, (read, results, more), whole, places)
        # Teams beyond the first have no row.
        team_row(run, kl.select(kl.unit_position() < last.plan.team, row, whole.rows))


def chosen(
    shared: Sequence[kl.Pointer], own: Sequence[kl.Pointer], numbers: Sequence[int]
) -> list[kl.Pointer]:
    """Return a buffer for each number: that of ``shared``, or the next one of ``own``."""
    left = iter(own)
    return [next(left) if number == OWN else shared[number] for number in numbers]
