"""Prologues of products of few rows: a row program whose result the cubes keep in shared memory.

Requirements: each cube computes the rows that it multiplies, so no launch waits for one that makes
them. A team of units holds a row in its registers and leaves the
result in shared memory, rounded to the dtype that it would have in memory. Rows that
registers do not hold are for a launch of their own, and so are products of so many cubes that not
all run at a time: the rows would be computed again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

from calor.dtypes import DType, int32
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Typed
from calor_kernel.language.declared import ELEMENT, READS
from calor_kernel.library.reduce.job import Problem, Strides
from calor_kernel.library.reduce.launches import held_plan, span_of
from calor_kernel.library.reduce.program import Program
from calor_kernel.library.reduce.row_state import RowPlan, Rows, Run
from calor_kernel.library.reduce.rows import held_row

M = TypeVar("M")
N = TypeVar("N")
# Maximum of bytes of the rows of a cube, and the planes of a core that run at the same time, since
# each unit has many registers.
_ROOM: Final = 16 << 10
_PLANES: Final = 24
# Elements of the widest access of a row in shared memory.
_ACCESS: Final = 16


@dataclass(frozen=True, slots=True)
class Prologue:
    """The build of a prologue: the program, and the registers that hold a row.

    ``capacity``: the elements of a row in shared memory. ``units``: of a cube.
    """

    program: Program
    plan: RowPlan
    dtype: DType
    capacity: int
    units: int

    @property
    def teams(self) -> int:
        """The rows that a cube computes at the same time."""
        return self.units // self.plan.team

    def nbytes(self, rows: int, info: DeviceInfo) -> int:
        """Return the bytes of shared memory for some rows."""
        count = -(-rows // self.teams) * self.teams
        return info.shared_room(count * self.capacity, self.dtype.itemsize)


@dataclass(frozen=True, slots=True)
class Sources(Generic[M, N]):
    """The operands and scalars of a row program, and how its operands lie."""

    sources: tuple[Annotated[M, READS], ...]
    numbers: tuple[Annotated[N, ELEMENT], ...]
    over: Rows[N]
    views: tuple[Strides[N], ...]


@kl.helper
def rows_in_shared(
    before: Sources[kl.Pointer, kl.Number],
    prologue: Prologue,
    first: kl.Number,
    count: kl.Number,
    rows: int,
) -> kl.Pointer:
    """Return shared memory with ``rows`` rows from ``first`` on, of ``count``; all units see them.

    Rows beyond the last are undefined.
    """
    plan, teams = prologue.plan, prologue.teams
    turns = -(-rows // teams)
    room = kl.shared(turns * teams * prologue.capacity, prologue.dtype, align=_ACCESS)
    team = kl.unit_position() // plan.team
    zero = kl.constant(0, count.dtype)
    lone = Strides(tuple([zero for _ in before.over.sizes]), (zero + 1,))
    views = (*before.views, lone)
    for turn in range(turns):
        line = team + turn * teams
        target = room.at(line * prologue.capacity)
        run = Run(
            prologue.program, plan, (before.sources, (target,), before.numbers), before.over, views
        )
        # What all units of a team wait for has no condition; teams beyond have an empty row.
        inside = (line < rows) & (first + line < count)
        run.lengths[-1] = kl.select(inside, run.lengths[-1], 0)
        held_row(run, kl.min(first + line, count - 1), inside)
    kl.barrier()
    return room


def prologue_of(problem: Problem, units: int, rows: int, planes: int) -> dict[str, object] | None:
    """Return the arguments of a prologue for cubes of ``units`` with ``rows`` rows.

    None if registers or shared memory do not hold the rows, or if there are too many cubes, which
    have so many ``planes``.
    """
    info, program = problem.info, problem.program
    found, plan = problem.layout, held_plan(problem, units, rows)
    if plan is None or len(found.along.sizes) > 1 or exceeds(planes, _PLANES * info.cores):
        return None
    if kl.index_dtype(*(span_of(placed.view) for placed in problem.job.placed)) is not int32:
        return None
    dtype = program.dtype(program.results[0])
    capacity = plan.team * plan.held * plan.width
    capacity = -(-capacity // _ACCESS) * _ACCESS
    made = Prologue(program, plan, dtype, capacity, units)
    if made.nbytes(rows, info) > min(_ROOM, info.shared_of(2)):
        return None
    numbers = zip(problem.job.numbers, program.numbers, strict=True)
    *views, _ = problem.views()
    before: Sources[Bound, Any] = Sources(
        tuple(p.bound for p in problem.job.sources),
        tuple(Typed(n, program.operands[i].dtype) for n, i in numbers),
        Rows(found.kept.count, 1, 1, 0, found.kept.sizes, found.along.sizes),
        tuple(views),
    )
    return {"before": before, "prologue": made}
