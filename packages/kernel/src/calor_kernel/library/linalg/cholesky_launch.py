"""Cholesky factors as launches: one for each panel of columns, and one for each group of them."""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import float32
from calor_kernel.contract.launching import Bound, Effort, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work
from calor_kernel.library.gemm.simt_plan import SimtPlan
from calor_kernel.library.linalg.cholesky import cholesky_panel
from calor_kernel.library.linalg.cholesky_update import cholesky_update
from calor_kernel.library.linalg.matrices import Matrices
from calor_kernel.library.linalg.unit_cholesky import add_factor
from calor_kernel.library.steps import Steps

# Columns of a panel, and rows of a cube; a unit has four elements of each block.
_BLOCKS = (8, 16, 32)
# Columns of a group, whose products an update subtracts from all that is behind them, and the
# orders up to which a panel reads all before it. On an H200 a panel takes 7.1 µs, 0.88 more for
# each panel that it reads, and an update of these orders 11 to 24.
_GROUP, _WHOLE = 128, 320


def lower_cholesky(request: Request) -> Sequence[Work] | Refusal:
    """Factorize panel by panel."""
    (x,) = request.inputs
    over = Matrices.of(x, request.info)
    n = over.rows
    if not x.size:
        return [Work(())]
    steps = Steps()
    if over.info.max_units == 1:
        refused = over.refusal_of_units()
        if refused is not None:
            return refused
        add_factor(request, over, steps)
        return [steps.work()]
    block = next((b for b in _BLOCKS if b >= n), _BLOCKS[-1])
    refused = over.refusal(block * block // 4)
    if refused is not None:
        return refused
    group = _GROUP if x.dtype is float32 and n > _WHOLE else n
    source, factor = operand(0, x), Bound(Output(), x.dtype)
    work: Bound | None = None
    for first in range(0, n, block):
        tiles = -(-(n - first) // block)
        items = over.batch * (n - first) * block
        begin = first // group * group
        if first and first == begin:
            work = _updated(steps, over, source, work, factor, (first - group, first))
        steps.add(
            cholesky_panel,
            over.grid(over.batch * tiles, block * block // 4),
            Effort(
                "cholesky panel",
                items * (2 * (first - begin) + block),
                2 * items * x.dtype.itemsize,
            ),
            x=work or source,
            factor=factor,
            n=n,
            begin=begin,
            first=first,
            tiles=tiles,
            block=block,
            tall=tiles > 1,
        )
    return [steps.work()]


def _updated(
    steps: Steps,
    over: Matrices,
    source: Bound,
    work: Bound | None,
    factor: Bound,
    group: tuple[int, int],
) -> Bound:
    """Add the update by a group of columns, and return the memory that has it.

    ``work``: that of the update before, None for the first one.
    """
    n, (begin, end) = over.rows, group
    copies = over.info.has("async_copy")
    plan = SimtPlan(16, 16, 1, 1, 16, True, True, stages=3 if copies else 2)
    tiles = -(-(n - end) // plan.rows)
    items = over.batch * (n - end) ** 2 // 2
    target = work or steps.room(over.batch * n * n, over.dtype)
    steps.add(
        cholesky_update,
        over.grid(over.batch * tiles * tiles, plan.units),
        Effort("cholesky update", 2 * items * (end - begin), 2 * items * over.dtype.itemsize),
        x=source if work is None else None,
        factor=factor,
        work=target,
        n=n,
        begin=begin,
        end=end,
        tiles=tiles,
        plan=plan,
    )
    return target
