"""Eigenvalues of symmetric matrices as a launch."""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.contract.launching import Bound, Effort, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work
from calor_kernel.library.linalg.jacobi import JacobiPlan, jacobi_eigh
from calor_kernel.library.linalg.matrices import Matrices
from calor_kernel.library.steps import Steps

# Rows up to which cubes have so many units.
_UNITS = ((12, 32), (24, 64), (40, 256), (1 << 30, 512))
# Rows of matrices, in steps of which kernels are built; rows from which on a cube takes too long.
_STEP, _MOST = 8, 256
# Sweeps that most matrices take.
_SWEEPS = 7


def lower_eigh(request: Request) -> Sequence[Work] | Refusal:
    """Rotate in shared memory, or in that of the device where a cube holds no matrix."""
    (x,) = request.inputs
    over = Matrices.of(x, request.info)
    n = over.rows
    if not x.size:
        return Refusal("a matrix without rows is no work of a kernel")
    wanted = next(units for most, units in _UNITS if n <= most)
    units = min(wanted, request.info.max_units // 32 * 32)
    refused = over.refusal(32)
    if refused is not None:
        return refused
    if n > _MOST:
        return Refusal(f"a cube rotates matrices of up to {_MOST} rows")
    room = -(-n // _STEP) * _STEP
    plan = JacobiPlan(room, units, True)
    nbytes = sum(map(over.room, plan.shared())) + 2 * over.info.shared_room(room // 2, 4)
    steps = Steps()
    memory: list[Bound | None] = [None, None]
    if nbytes > over.info.shared_bytes:
        plan = JacobiPlan(room, units, False)
        memory = [steps.room(over.batch * plan.size, x.dtype) for _ in range(2)]
    steps.add(
        jacobi_eigh,
        over.grid(over.batch, units, [over.batch * plan.size]),
        Effort(
            "eigh by rotations", over.batch * 12 * _SWEEPS * n**3, 3 * x.size * x.dtype.itemsize
        ),
        x=operand(0, x),
        first=memory[0],
        second=memory[1],
        values=Bound(Output(0), x.dtype),
        vectors=Bound(Output(1), x.dtype),
        n=n,
        plan=plan,
    )
    return [steps.work()]
