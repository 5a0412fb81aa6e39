"""QR factors as launches: the reflections of a matrix, and the columns of Q."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from calor_kernel.contract.launching import Bound, Effort, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work
from calor_kernel.library.linalg.matrices import Matrices
from calor_kernel.library.linalg.reflections import ReflectionPlan, qr_columns, qr_reflections
from calor_kernel.library.steps import Steps

# Units of a cube, those with neighbouring columns, and columns of Q of a cube.
_UNITS, _ACROSS, _COLUMNS = 512, 32, (8, 4, 2, 1)
# Rows and columns in steps of which kernels are built.
_ROWS, _STEP = 32, 8


def lower_qr(request: Request) -> Sequence[Work] | Refusal:
    """Reflect column by column in one launch, and make the columns of Q in another."""
    (x,) = request.inputs
    over = Matrices.of(x, request.info)
    if not x.size:
        return Refusal("a matrix without elements is no work of a kernel")
    refused = over.refusal(64)
    if refused is not None:
        return refused
    m, n, dtype = over.rows, over.columns, x.dtype
    count, wide = min(m, n), request.outputs[0].shape[-1]
    whole = _plan(over, m, n)
    single = next(_columns(over, whole, wide), None)
    if single is None or not _fits(over, replace(whole, inside=False)):
        return Refusal("shared memory does not hold a column")
    steps = Steps()
    work = None
    if not _fits(over, whole):
        whole = replace(whole, inside=False)
        work = steps.room(over.batch * whole.rows * whole.pitch, dtype)
    vectors = steps.room(over.batch * count * m, dtype)
    scales = steps.room(over.batch * count, dtype)
    flops, nbytes = over.batch * m * n * count, over.batch * m * count * dtype.itemsize
    ends = [over.batch * whole.rows * whole.pitch, over.batch * m * m]
    steps.add(
        qr_reflections,
        over.grid(over.batch, whole.units, ends),
        Effort("qr reflections", 2 * flops, nbytes + 2 * x.size * dtype.itemsize),
        x=operand(0, x),
        work=work,
        vectors=vectors,
        scales=scales,
        r=Bound(Output(1), dtype),
        m=m,
        n=n,
        high=request.outputs[1].shape[-2],
        plan=whole,
    )
    tiles = -(-wide // single.columns)
    steps.add(
        qr_columns,
        over.grid(over.batch * tiles, single.units, ends),
        Effort("qr columns", 4 * over.batch * m * wide * count, tiles * nbytes),
        vectors=vectors,
        scales=scales,
        q=Bound(Output(0), dtype),
        m=m,
        count=count,
        wide=wide,
        tiles=tiles,
        plan=single,
    )
    return [steps.work()]


def _plan(over: Matrices, m: int, n: int) -> ReflectionPlan:
    """Return the plan of whole matrices in shared memory."""
    across = 8
    while across < min(n, _ACROSS):
        across *= 2
    units = 64
    while units < min(_UNITS, over.info.max_units // 2 + 1) and units * 16 < m * n:
        units *= 2
    return ReflectionPlan(-(-m // _ROWS) * _ROWS, -(-n // _STEP) * _STEP, units, across)


def _columns(over: Matrices, whole: ReflectionPlan, wide: int) -> Iterator[ReflectionPlan]:
    """Yield the plans of columns of Q that shared memory holds, the most columns first."""
    units = 64
    while units < min(256, over.info.max_units // 2 + 1) and units < whole.rows:
        units *= 2
    for columns in _COLUMNS:
        plan = ReflectionPlan(whole.rows, columns, units, columns)
        if _fits(over, plan) and (columns < 2 * wide or columns == 1):
            yield plan


def _fits(over: Matrices, plan: ReflectionPlan) -> bool:
    """Return whether shared memory holds what a cube needs."""
    return sum(map(over.room, plan.shared())) <= over.info.shared_bytes
