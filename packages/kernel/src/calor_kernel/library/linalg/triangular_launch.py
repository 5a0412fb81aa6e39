"""Triangular systems as launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from calor_kernel.contract.launching import Bound, Effort, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work
from calor_kernel.library.linalg.matrices import Matrices
from calor_kernel.library.linalg.triangular import TriangularPlan, solve_triangular
from calor_kernel.library.linalg.unit_triangular import add_solution
from calor_kernel.library.steps import Steps

# Rows of a block, units that share a row of it, and columns of a cube at most.
_SHAPES = ((8, 2), (16, 4), (32, 8))
_COLUMNS = 8


def lower_triangular_solve(request: Request) -> Sequence[Work] | Refusal:
    """Solve for some columns in each cube."""
    a, b = request.inputs
    over = Matrices.of(a, request.info)
    n, count = over.rows, b.shape[-1]
    if not b.size:
        return [Work(())]
    if over.info.max_units == 1:
        refused = over.refusal_of_units()
        if refused is not None:
            return refused
        steps = Steps()
        add_solution(request, over, steps)
        return [steps.work()]
    block, parts = next((s for s in _SHAPES if s[0] >= n), _SHAPES[-1])
    refused = over.refusal(block * parts)
    if refused is not None:
        return refused
    said = request.attributes
    backward = bool(said["lower"]) == bool(said["transpose"])
    unit, transpose = bool(said["unit_diagonal"]), bool(said["transpose"])
    first = TriangularPlan(block, parts, _COLUMNS, block, backward, transpose, unit)
    plan = next(_fitting(over, first, n, count), None)
    if plan is None:
        return Refusal("shared memory does not hold a column")
    tiles = -(-count // plan.columns)
    nbytes = (a.size // 2 + 2 * b.size) * a.dtype.itemsize
    steps = Steps()
    steps.add(
        solve_triangular,
        over.grid(over.batch * tiles, plan.units, [b.size]),
        Effort("triangular solve", over.batch * n * n * count, nbytes),
        a=operand(0, a),
        b=operand(1, b),
        x=Bound(Output(), b.dtype),
        n=n,
        count=count,
        tiles=tiles,
        plan=plan,
    )
    return [steps.work()]


def _fitting(over: Matrices, first: TriangularPlan, n: int, count: int) -> Iterator[TriangularPlan]:
    """Yield the plans whose pieces shared memory holds, the most columns first."""
    room = first.block
    # Few sizes of memory are few kernels.
    while room < n:
        room *= 2
    if room > 4 * first.block and n <= 3 * room // 4:
        room = 3 * room // 4
    columns = 1
    while columns < min(count, first.columns):
        columns *= 2
    while columns:
        plan = replace(first, columns=columns, room=room)
        if sum(over.room(size) for size in plan.shared(over.dtype)) <= over.info.shared_bytes:
            yield plan
        columns //= 2
