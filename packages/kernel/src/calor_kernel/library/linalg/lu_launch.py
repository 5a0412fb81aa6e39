"""LU factors as launches: one for small matrices, else two for each panel of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from calor.dtypes import int32
from calor_kernel.contract.launching import Bound, Effort, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work
from calor_kernel.library.linalg.lu import LuPlan, lu_panel, lu_sorted, lu_update
from calor_kernel.library.linalg.matrices import Matrices
from calor_kernel.library.linalg.unit_lu import add_factors
from calor_kernel.library.steps import Steps

# Units of a panel and of an update, the columns of one panel, and those of one of several.
_UNITS, _ALONE, _WIDTHS = 256, 64, (16, 8, 4)
# Rows and columns of a cube that updates.
_TILE = 32


def lower_lu(request: Request) -> Sequence[Work] | Refusal:
    """Factorize in one launch if a cube holds the matrix, else panel by panel."""
    (x,) = request.inputs
    over = Matrices.of(x, request.info)
    if not x.size:
        return Refusal("the order of the rows of matrices without columns is no work of a kernel")
    steps = Steps()
    if over.info.max_units == 1:
        refused = over.refusal_of_units()
        if refused is not None:
            return refused
        add_factors(request, over, steps)
        return [steps.work()]
    refused = over.refusal(_UNITS)
    if refused is not None:
        return refused
    plan = next(_fitting(over), None)
    if plan is None:
        return Refusal("shared memory does not hold four columns")
    source = operand(0, x)
    packed = Bound(Output(0), x.dtype)
    rows = Bound(Output(1), request.outputs[1].dtype)
    if plan.alone:
        _add_panel(steps, over, plan, 0, x=source, packed=packed, sorted_rows=rows)
    else:
        _add_panels(steps, over, plan, source, packed, rows)
    return [steps.work()]


def _fitting(over: Matrices) -> Iterator[LuPlan]:
    """Yield the plans that shared memory holds, those of the widest panels first."""
    high = -(-over.rows // 32) * 32 if over.rows <= 256 else -(-over.rows // 128) * 128
    units = next(u for u in (32, 64, 128, _UNITS) if u >= min(high, _UNITS))
    widths = [w for w in (8, 16, 32, _ALONE) if w >= over.columns][:1]
    plans = [LuPlan(width, high, units, alone=True) for width in widths]
    plans += [LuPlan(width, high, units) for width in _WIDTHS]
    for plan in plans:
        dtype = over.dtype
        candidates = plan.units + plan.joins
        nbytes = over.room(plan.width * plan.pitch) + over.room(candidates)
        nbytes += over.info.shared_room(plan.rows, 4) + over.info.shared_room(candidates, 4)
        if nbytes <= over.info.shared_bytes and dtype.itemsize:
            yield plan


def _add_panel(
    steps: Steps, over: Matrices, plan: LuPlan, first: int, **memory: Bound | None
) -> None:
    """Add the launch of a panel."""
    items = over.batch * (over.rows - first) * plan.width
    given = dict.fromkeys(("x", "work", "packed", "order", "sorted_rows")) | memory
    steps.add(
        lu_panel,
        over.grid(over.batch, plan.units),
        Effort("lu panel", items * plan.width, 2 * items * over.dtype.itemsize),
        m=over.rows,
        n=over.columns,
        first=first,
        plan=replace(plan, begins=first == 0),
        **given,
    )


def _add_panels(
    steps: Steps, over: Matrices, plan: LuPlan, x: Bound, packed: Bound, rows: Bound
) -> None:
    """Add the launches of all panels, and what brings their rows in order."""
    m, n, width = over.rows, over.columns, plan.width
    work = steps.room(over.batch * m * n, over.dtype)
    order = steps.room(over.batch * m, int32)
    ends = min(-(-min(m, n) // width) * width, n)
    for first in range(0, min(m, n), width):
        source = x if first == 0 else None
        _add_panel(steps, over, plan, first, x=source, work=work, order=order)
        behind = n - first - width
        if behind <= 0:
            break
        high, wide = max(1, -(-(m - first - width) // _TILE)), -(-behind // _TILE)
        items = over.batch * high * wide * _TILE * _TILE
        steps.add(
            lu_update,
            over.grid(over.batch * high * wide, _TILE * _TILE // 4),
            Effort("lu update", 2 * items * width, 2 * items * over.dtype.itemsize),
            x=source,
            work=work,
            packed=packed,
            order=order,
            m=m,
            n=n,
            first=first,
            high=high,
            wide=wide,
            width=width,
            tile=_TILE,
        )
    steps.add(
        lu_sorted,
        over.grid(over.batch * m, min(_UNITS, 128)),
        Effort("lu order", 0, 2 * over.batch * m * n * over.dtype.itemsize),
        work=work,
        order=order,
        packed=packed,
        sorted_rows=rows,
        m=m,
        n=n,
        count=ends,
        width=width,
    )
