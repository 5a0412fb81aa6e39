"""Eigenvalues and eigenvectors of symmetric matrices as launches."""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import int32
from calor_kernel.contract.launching import Bound, Effort, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work
from calor_kernel.library.linalg.jacobi import SWEEPS, JacobiPlan, jacobi_values, jacobi_vectors
from calor_kernel.library.linalg.matrices import Matrices
from calor_kernel.library.steps import Steps

# Rows up to which cubes have so many units.
_UNITS = ((12, 32), (24, 64), (40, 256), (1 << 30, 512))
# Rows of matrices, in steps of which kernels are built; rows from which on a cube takes too long.
_STEP, _MOST = 8, 256
# Sweeps that most matrices take, and rows of eigenvectors of a cube.
_SWEEPS, _LINES = 7, 4


def lower_eigh(request: Request) -> Sequence[Work] | Refusal:
    """Rotate in shared memory, or in that of the device where a cube holds no matrix."""
    (x,) = request.inputs
    over, dtype = Matrices.of(x, request.info), x.dtype
    n = over.rows
    if not x.size:
        return Refusal("a matrix without rows is no work of a kernel")
    if n > _MOST:
        return Refusal(f"a cube rotates matrices of up to {_MOST} rows")
    room = -(-n // _STEP) * _STEP
    # A unit has a pair of columns of the eigenvectors.
    single = JacobiPlan(room, -(-room // 64) * 32, True)
    refused = over.refusal(single.units)
    if refused is not None:
        return refused
    units = next(units for most, units in _UNITS if n <= most)
    whole = JacobiPlan(room, min(units, request.info.max_units // 32 * 32), True)
    nbytes = sum(map(over.room, whole.shared())) + 2 * over.info.shared_room(room // 2, 4)
    steps = Steps()
    work = None
    if nbytes > over.info.shared_bytes:
        whole = JacobiPlan(room, whole.units, False)
        work = steps.room(over.batch * whole.size, dtype)
    half, tiles = (n + 1) // 2, -(-n // _LINES)
    count = over.batch * SWEEPS * (2 * half - 1) * 2 * half
    turns, ranks = steps.room(count, dtype), steps.room(over.batch * (n + 1), int32)
    ends = [over.batch * whole.size, count]
    flops, traffic = 6 * over.batch * _SWEEPS * n**3, 2 * x.size * dtype.itemsize
    steps.add(
        jacobi_values,
        over.grid(over.batch, whole.units, ends),
        Effort("eigh values", flops, traffic),
        x=operand(0, x),
        work=work,
        values=Bound(Output(0), dtype),
        turns=turns,
        ranks=ranks,
        n=n,
        plan=whole,
    )
    steps.add(
        jacobi_vectors,
        over.grid(over.batch * tiles, single.units, ends),
        Effort("eigh vectors", flops, traffic),
        turns=turns,
        ranks=ranks,
        vectors=Bound(Output(1), dtype),
        n=n,
        tiles=tiles,
        plan=single,
        lines=_LINES,
    )
    return [steps.work()]
