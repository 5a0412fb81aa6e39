"""Launches of rows divided among cubes whose later cubes wait for the parts.

Requirements: where cubes may wait for others, one launch replaces that of the parts and that which
joins them and writes along the rows. Both have cubes of one size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calor.dtypes import uint32
from calor_kernel.contract.launching import Bound, Grid
from calor_kernel.contract.work import Flags, Launch
from calor_kernel.library.reduce.awaited_rows import Following, Order, await_rows
from calor_kernel.library.reduce.joined_rows_launch import Applied, fits
from calor_kernel.library.reduce.launches import rows_given
from calor_kernel.library.reduce.rows_joined_launch import Parts, apart, parts_read

# Vectors that a unit reads before it writes. Parts take registers, so a core has fewer cubes than
# of a launch that only writes.
_UNROLL: Final = 2
# Operands of a part from which its registers would leave a core one cube, which is too little to
# write along rows.
_MANY: Final = 2
_NEEDED: Final = ("barrier", "atomics", "forward_progress")


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
    read, known = parts_read(job.sources, targets), parts_read(parted, targets)
    if read is None or known is None:
        return None
    made = problem.launch(
        await_rows,
        Grid.line(parts + cubes, units, info.planes[0], then.positions(problem)),
        given.program,
        **given.rest,
        read=apart(job.sources, read),
        results=[p.bound for p in job.targets],
        others=then.problem.numbers,
        along=then.over,
        paths=then.views,
        lengths=then.problem.layout.along.sizes,
        **(joined.given | {"joined": apart(parted, known)}),
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
