"""Programs on rows whose reductions the launch before left as parts: each cube joins its row's.

Requirements: no launch has the joining alone, and no cube waits for another. A cube joins the parts
of its row in the order in which a launch would, so that bits are equal whoever joins. The first
cube of a row writes what has one value a row. (Reading parts once more takes less than a launch.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calor_kernel import language as kl
from calor_kernel.library.reduce.job import Strides
from calor_kernel.library.reduce.program import Program
from calor_kernel.library.reduce.row_state import RowPlan, Rows, Run, Vector
from calor_kernel.library.reduce.rows import held_row, some_rows


@dataclass(frozen=True, slots=True)
class Joining:
    """How parts are joined: a program that reads them, and its plan of rows in registers.

    ``values``: those of the program that the rows' joined operands are.
    """

    program: Program
    plan: RowPlan
    values: tuple[int, ...]


@kl.kernel
def continue_rows(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    numbers: tuple[kl.Element, ...],
    over: Rows[kl.Number],
    views: tuple[Strides[kl.Number], ...],
    joined: tuple[kl.In, ...],
    written: tuple[kl.Out, ...],
    more: tuple[kl.Element, ...],
    whole: Rows[kl.Number],
    places: tuple[Strides[kl.Number], ...],
    *,
    program: Program,
    plan: RowPlan,
    joining: Joining,
) -> None:
    """Leave parts of the reductions of a later pass; a team has a part of a row.

    The joining program reads ``joined``, has ``whole``, ``places`` and ``more``, and writes
    ``written``.
    """
    row = kl.cube_position() * (kl.cube_size() // plan.team) + kl.unit_position() // plan.team
    # Teams beyond the last row have an empty range.
    inside, row = row < over.rows, kl.min(row, over.rows - 1)
    alone = inside & (kl.unit_position() % plan.team == 0)
    known = Run(joining.program, joining.plan, (joined, written, more), whole, places)
    found = joined_values(known, joining, kl.divide(row, over.parts), alone)
    run = Run(program, plan, (sources, targets, numbers), over, views, found)
    run.lengths[-1] = kl.select(inside, run.lengths[-1], 0)
    some_rows(run, [row], alone, None)


@kl.kernel
def apply_rows(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    numbers: tuple[kl.Element, ...],
    over: Rows[kl.Number],
    views: tuple[Strides[kl.Number], ...],
    lengths: tuple[kl.FastDivmod, ...],
    joined: tuple[kl.In, ...],
    written: tuple[kl.Out, ...],
    more: tuple[kl.Element, ...],
    whole: Rows[kl.Number],
    places: tuple[Strides[kl.Number], ...],
    *,
    program: Program,
    plan: RowPlan,
    joining: Joining,
) -> None:
    """Write values along rows; a cube has ``over.chunk`` adjacent values of a row.

    ``lengths``: those of ``over``. The joining is that of :func:`continue_rows`.
    """
    row, part = kl.divide(kl.cube_position(), over.parts)
    known = Run(joining.program, joining.plan, (joined, written, more), whole, places)
    found = joined_values(known, joining, (row, part), kl.unit_position() == 0)
    write_part(
        Run(program, plan, (sources, targets, numbers), over, views, found), (row, part), lengths
    )


@kl.helper
def write_part(run: Run, at: Sequence[kl.Number], lengths: Sequence[kl.FastDivmod]) -> None:
    """Write the values of a cube's part of a row; ``at``: the row, and the part."""
    (row, part), plan, over = at, run.plan, run.over
    run.begin([row])
    length = over.lengths[0]
    for n in over.lengths[1:]:
        length = length * n
    begin = part * over.chunk
    end = kl.min(begin + over.chunk, length)
    far, step = kl.unit_position() * plan.width, kl.cube_size() * plan.width
    if plan.unroll > 1:
        several = step * plan.unroll
        whole = begin + kl.quotient(end - begin, several) * several
        for i in kl.loop_range(begin + far, whole, several):
            # All loads are issued before the first value is written.
            vectors = [_vector(run, lengths, i + u * step) for u in range(plan.unroll)]
            made = [run.made(vector) for vector in vectors]
            for vector, values in zip(vectors, made, strict=True):
                run.put(vector, values)
        begin = whole
    for i in kl.loop_range(begin + far, end, step):
        vector, rest = _vector(run, lengths, i), end - i
        if plan.short and rest < plan.width:
            run.write(replace(vector, rest=rest))
        else:
            run.write(vector)


def _vector(run: Run, lengths: Sequence[kl.FastDivmod], i: kl.Number) -> Vector:
    """Return the vector at a position along a row."""
    position = kl.unravel(i, lengths)
    starts = [
        start + kl.offset_of(position[:-1], view.along[:-1]) if view.along else start
        for start, view in zip(run.starts[0], run.views, strict=True)
    ]
    return Vector(0, 0, starts, position[-1])


@kl.helper
def joined_values(
    run: Run, joining: Joining, at: Sequence[kl.Number], alone: kl.Mask
) -> list[kl.Number]:
    """Return values of a row, joined from its parts; every unit of a team calls it.

    ``at``: the row, and the number of the cube or team among those of the row. The unit that is
    ``alone`` in the first of them writes results.
    """
    row, part = at
    held_row(run, row, alone & (part == 0))
    return [run.values[0][n] for n in joining.values]
