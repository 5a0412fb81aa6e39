"""Columns divided among cubes, in one launch: the last cube of a block joins the parts.

Requirements: the order of the parts decides the order of the sum, not the order in which cubes end.
No cube waits for another. The words that count the cubes are 0 before and after the launch.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.library.arrivals import is_last
from calor_kernel.library.reduce.columns import Blocks, ColumnPlan, ColumnProgram, one_block
from calor_kernel.library.reduce.job import Strides
from calor_kernel.library.reduce.program import Program


@kl.kernel
def reduce_columns_joined(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.InOut, ...],
    numbers: tuple[kl.Element, ...],
    over: Blocks[kl.Number],
    views: tuple[Strides[kl.Number], ...],
    others: tuple[kl.In, ...],
    results: tuple[kl.Out, ...],
    more: tuple[kl.Element, ...],
    parts: Blocks[kl.Number],
    joined: tuple[Strides[kl.Number], ...],
    flags: kl.InOut,
    *,
    program: Program,
    plan: ColumnPlan,
    along: tuple[int, ...],
    joining: Program,
    joining_plan: ColumnPlan,
) -> None:
    """Compute a part of a block of columns, and join the parts in the last of their cubes.

    ``targets``: of the parts, first their reductions. The parts' program has ``over``, ``views``
    and ``numbers``. The joining program reads the reductions and ``others``, and has ``parts``,
    ``joined`` and ``more``; it writes ``results``.
    """
    task = kl.cube_position()
    one_block(ColumnProgram(plan, over, views, program, sources, targets, numbers, along), task)
    place = task % (over.blocks * over.outers)
    if is_last(flags, place, parts.terms):
        read = [*targets[: len(program.folds)], *others]
        one_block(
            ColumnProgram(joining_plan, parts, joined, joining, read, results, more, ()), place
        )
