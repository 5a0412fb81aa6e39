"""Launches of rows divided among cubes of which the last one of a row joins the parts.

Requirements: where launches are dear, one replaces that of the parts and that which joins them.
What a cube takes longer to count others and to read their parts is less than a launch takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from calor.dtypes import int64, uint32
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Flags, Launch
from calor_kernel.library.reduce.job import Placed, Problem
from calor_kernel.library.reduce.joined_rows_launch import fits
from calor_kernel.library.reduce.launches import is_across, rows_given
from calor_kernel.library.reduce.rows_joined import OWN, Last, reduce_rows_joined

_NEEDED: Final = ("barrier", "atomics", "forward_progress")


class Parts(NamedTuple):
    """The last launch, if it left the parts that wait: its problem, and the division of its rows.

    ``pieces``: the parts of each row, which follow each other.
    """

    problem: Problem
    parts: int
    chunk: int
    pieces: int


def rows_joined_launch(first: Parts, joining: Problem) -> Launch | None:
    """Return the launch of parts whose last cubes join them; None if these are two launches."""
    problem, info = first.problem, first.problem.info
    if not (info.launch_ns and problem.many and all(map(info.has, _NEEDED))):
        return None
    if is_across(problem) or is_across(joining):
        return None
    grid, given = rows_given(problem, first.parts, first.chunk)
    after, then = rows_given(joining)
    teams = grid.cube[0] // given.plan.team
    # All parts of a cube are of one row.
    if first.pieces % teams or then.plan.team > grid.cube[0]:
        return None
    read = parts_read(joining.job.sources, problem.job.targets)
    if read is None:
        return None
    made = problem.launch(
        reduce_rows_joined,
        grid if after.index is not int64 else replace(grid, index=int64),
        given.program,
        **given.rest,
        others=apart(joining.job.sources, read),
        results=[p.bound for p in joining.job.targets],
        more=joining.numbers,
        cubes=first.pieces // teams,
        whole=then.over,
        places=then.views,
        flags=Bound(Flags(then.over.rows), uint32),
        last=Last(then.program, then.plan, read),
    )
    nbytes = sum(p.nbytes for p in joining.job.placed)
    made = replace(made, nbytes=made.nbytes + nbytes)
    return made if fits(made, info) else None


def parts_read(sources: Sequence[Placed], targets: Sequence[Placed]) -> tuple[int, ...] | None:
    """Return for each source the number of the target that it is, or OWN.

    None if one is a part of a target, which would be another buffer for the compiler.
    """
    whole = [replace(target.memory, offset=0) for target in targets]
    found = []
    for source in sources:
        memory = replace(source.memory, offset=0)
        number = whole.index(memory) if memory in whole else OWN
        if number != OWN and source.bound != targets[number].bound:
            return None
        found.append(number)
    return tuple(found)


def apart(sources: Sequence[Placed], numbers: Sequence[int]) -> list[Bound]:
    """Return the memory of the sources that are no targets."""
    return [p.bound for p, number in zip(sources, numbers, strict=True) if number == OWN]
