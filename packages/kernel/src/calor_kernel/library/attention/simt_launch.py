"""Launches of attention by cubes of many units, for operands of any type, sizes and strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, Output, Request, Work
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.bias_gradient import BiasParts, bias_gradient_simt
from calor_kernel.library.attention.mma_launch import index_of
from calor_kernel.library.attention.operands import (
    ScoreForm,
    contiguous,
    least_bytes,
    operands_of,
    upstream_of,
)
from calor_kernel.library.attention.problem import Attention
from calor_kernel.library.attention.simt import (
    SimtPlan,
    attend_simt,
    key_gradient_simt,
    query_gradient_simt,
)
from calor_kernel.library.steps import Steps

# Queries and keys up to which small tiles serve.
_SMALL = 32


def simt_plan(problem: Attention, width: int, info: DeviceInfo, sums: int = 1) -> SimtPlan:
    """Return the plan for cubes of many units, with ``sums`` tiles of sums of ``width`` columns.

    A cube of one unit uses it too, if its private memory holds no rows of this many features.
    """
    p, item = problem, problem.accumulate.itemsize
    if info.max_units == 1:
        return SimtPlan(1, 1, 32, 8, 8, 8)
    wide = item == 8
    access = min(_access(p), 2) if wide else _access(p)
    columns = max(1, -(-width // 16))
    # Sums of more columns are more registers, which such a device's compiler does not take.
    most = 8 if sums == 1 and not info.accumulators else 4
    large = SimtPlan(16, 8, 32, 8, 4, _power(min(columns, most)), access)
    small = SimtPlan(16, 8, 16, 4, 2, _power(min(columns, 4)), access)
    plans = [small, replace(small, values=_power(min(columns, 2)))]
    if not wide and p.queries > _SMALL and p.keys > _SMALL:
        plans[:0] = [large, replace(large, values=_power(min(columns, 4)))]
    return next((one for one in plans if one.shared_bytes(item) <= info.shared_bytes), plans[-1])


def _power(count: int) -> int:
    """Return the least power of two that is no less than ``count``."""
    return 1 << (count - 1).bit_length()


def _access(problem: Attention) -> int:
    """Return the elements that are read together: four if all rows begin at whole accesses."""
    p, access = problem, 4
    starts = [n for o in (p.query, p.key, p.value) for n in (*o.strides[:3], o.offset)]
    for n in (p.features, p.values, *starts):
        while n % access:
            access //= 2
    return access


def forward_by_simt(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the forward pass."""
    p = problem
    attend = _launch(
        attend_simt,
        p,
        request,
        p.values,
        2 * p.pairs * (p.features + p.values),
        out=Bound(Output(0), p.dtype),
        total=Bound(Output(1), p.accumulate),
    )
    yield Work((attend,))


def gradients_by_simt(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the gradients of query, key and value."""
    p, up = problem, upstream_of(request)
    results = [Bound(Output(i), p.dtype) for i in range(3)]
    launches = []
    if p.rows * p.features:
        flops = 2 * p.pairs * (2 * p.features + p.values)
        of_query = _launch(
            query_gradient_simt, p, request, p.features, flops, up=up, for_query=results[0]
        )
        launches.append(of_query)
    if p.batch * p.keys * (p.features + p.values):
        width, flops = max(p.features, p.values), 4 * p.pairs * (p.features + p.values)
        own = {"up": up, "for_key": results[1], "for_value": results[2]}
        launches.append(_launch(key_gradient_simt, p, request, width, flops, **own))
    yield Work(tuple(launches))


def bias_gradient_by_simt(parts: BiasParts, request: Request) -> Iterator[Work]:
    """Yield the work of the gradient of a bias."""
    p, plan, steps = parts.problem, simt_plan(parts.problem, 1, request.info), Steps()
    block, kernel = (plan.height, plan.block), bias_gradient_simt
    grid = Grid((1, 1, 1), (plan.across, plan.down, 1), request.info.planes[0])
    parts.add(steps, kernel, block, grid, "simt", request, plan=plan, form=_form(p))
    yield steps.work()


def _form(problem: Attention) -> ScoreForm:
    return ScoreForm(problem.kinds, problem.causal, contiguous=contiguous(problem))


def _launch(
    function: KernelFunction,
    problem: Attention,
    request: Request,
    width: int,
    flops: int,
    **own: object,
) -> Launch:
    """Return the launch of a body over queries or keys, heads, and panels of a width."""
    by_keys, info = function is key_gradient_simt, request.info
    p, plan = problem, simt_plan(problem, width, info, 2 if by_keys else 1)
    panels = max(1, -(-width // plan.width))
    count, heads, block = (
        (p.keys, p.key_heads, plan.block) if by_keys else (p.queries, p.heads, plan.height)
    )
    cubes = -(-count // block), heads * panels, p.batch
    return launch(
        function,
        Grid(cubes, (plan.across, plan.down, 1), info.planes[0], index_of(p, request)),
        Effort(function.name, flops, least_bytes(p)),
        value_width=p.values,
        panels=panels,
        g=operands_of(p, plan.access),
        plan=plan,
        form=_form(p),
        **own,
    )
