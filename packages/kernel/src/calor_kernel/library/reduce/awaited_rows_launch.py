"""Launches of rows divided among cubes whose later cubes wait for the parts.

Requirements: where cubes may wait for others, one launch replaces that of the parts and that which
joins them and writes along the rows. Both have cubes of one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from calor.dtypes import uint32
from calor_kernel.contract.launching import Bound, Grid
from calor_kernel.contract.work import Flags, Launch
from calor_kernel.library.reduce.awaited_rows import OWN, Following, Order, await_rows
from calor_kernel.library.reduce.job import Placed, Problem
from calor_kernel.library.reduce.joined_rows_launch import Applied, fits
from calor_kernel.library.reduce.launches import rows_given

# Vectors that a unit reads before it writes. Parts take registers, so a core has fewer cubes than
# of a launch that only writes.
_UNROLL: Final = 2
# Operands of a part from which its registers would leave a core one cube, which is too little to
# write along rows.
_MANY: Final = 2
_NEEDED: Final = ("barrier", "atomics", "forward_progress")


class Parts(NamedTuple):
    """The last launch, if it left the parts that wait: its problem, and the division of its rows.

    ``pieces``: the parts of each row, which follow each other.
    """

    problem: Problem
    parts: int
    chunk: int
    pieces: int


def awaited_launch(first: Parts, then: Applied) -> Launch | None:
    """Return the launch of parts and of what follows them; None if these are two launches."""
    problem, info = first.problem, first.problem.info
    if not all(map(info.has, _NEEDED)):
        return None
    before, given = rows_given(problem, first.parts, first.chunk)
    units, cubes = then.grid.cube[0], then.grid.cubes[0]
    if before.cube[0] > units:
        return None
    parts = -(-given.over.rows // (units // given.plan.team))
    job, joined, targets = then.problem.job, then.joined, problem.job.targets
    parted = joined.joining.job.sources
    read, known = _shared(job.sources, targets), _shared(parted, targets)
    if read is None or known is None:
        return None
    made = problem.launch(
        await_rows,
        Grid.line(parts + cubes, units, info.planes[0], then.positions(problem)),
        given.program,
        **given.rest,
        read=_own(job.sources, read),
        results=[p.bound for p in job.targets],
        others=then.problem.numbers,
        along=then.over,
        paths=then.views,
        lengths=then.problem.layout.along.sizes,
        **(joined.given | {"joined": _own(parted, known)}),
        order=Order(parts, parts + cubes, then.over.rows, first.pieces),
        flags=Bound(Flags(1 + 2 * then.over.rows), uint32),
        following=Following(
            then.problem.program,
            replace(then.plan, unroll=_UNROLL),
            joined.form,
            read,
            known,
            2 if sum(problem.along[: len(given.program.memory)]) >= _MANY else None,
        ),
    )
    alone = then.launch()
    made = replace(made, flops=made.flops + alone.flops, nbytes=made.nbytes + alone.nbytes)
    return made if fits(made, info) else None


def _shared(sources: Sequence[Placed], targets: Sequence[Placed]) -> tuple[int, ...] | None:
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


def _own(sources: Sequence[Placed], numbers: Sequence[int]) -> list[Bound]:
    """Return the memory of the sources that are no targets."""
    return [p.bound for p, number in zip(sources, numbers, strict=True) if number == OWN]
