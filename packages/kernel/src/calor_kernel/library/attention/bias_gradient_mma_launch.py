"""Launches of the gradient of a bias by matrix instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Output, Request, Work
from calor_kernel.library.attention.bias_gradient import BiasParts
from calor_kernel.library.attention.bias_gradient_mma import bias_gradient_mma
from calor_kernel.library.attention.gradient_parts import Joined
from calor_kernel.library.attention.mma_launch import (
    index_of,
    launch_of,
    mma_refusal,
    plans_of,
)
from calor_kernel.library.attention.mma_plan import MmaPlan
from calor_kernel.library.attention.operands import upstream_of


def bias_mma_refusal(parts: BiasParts, request: Request) -> str | None:
    """Return why the device or the bias does not suit matrix instructions."""
    if any(parts.summed):
        return "queries or keys share elements of the bias"
    refusal = mma_refusal(parts.problem, request)
    if refusal is None and _plan(parts, request) is None:
        return "shared memory does not hold the rows of the steps"
    return refusal


def _plan(parts: BiasParts, request: Request) -> MmaPlan | None:
    """Return the plan with the smallest tile: sums take as many registers as both products."""
    p = parts.problem
    plans = [
        replace(plan, held=False)
        for plan in plans_of(p, "query", (p.queries, p.heads), request)
        if not plan.grouped and _stages(parts) * _bytes(plan) <= request.info.shared_bytes
    ]
    return min(plans, key=lambda plan: plan.rows * plan.block, default=None)


def _bytes(plan: MmaPlan) -> int:
    """Return the shared memory of a step."""
    panels = [plan.panel(size, room) for size in (plan.rows, plan.block) for room in plan.rooms]
    return sum(panel.nbytes for panel in panels)


def _stages(parts: BiasParts) -> int:
    """Return how many steps are in shared memory: the next one too if there is one."""
    p, (batches, heads) = parts.problem, parts.shape[:2]
    return 1 if batches == p.batch and heads == p.heads else 2


def bias_gradient_by_mma(parts: BiasParts, request: Request) -> Iterator[Work]:
    """Yield the work of the gradient of a bias."""
    p, info = parts.problem, request.info
    plan = _plan(parts, request)
    assert plan is not None
    matrices, count = parts.shape[0] * parts.shape[1], prod(parts.shape)
    down, across = -(-p.queries // plan.rows), -(-p.keys // plan.block)
    shares = parts.shares(down * across * matrices, info.cores)
    joined = Joined(info, index_of(p, request), p.accumulate, 4 if count % 4 == 0 else 1)
    target = joined.target(Bound(Output(0), parts.dtype), count, shares)
    flops = 2 * p.pairs * (p.features + p.values)
    cubes = down, across, matrices * shares
    launch = launch_of(
        bias_gradient_mma, plan, p, request, cubes, flops,
        up=upstream_of(request, p.access * p.dtype.itemsize),
        parts=target,
        shape=parts.parts(p.queries, p.keys, shares),
        stages=_stages(parts),
    )  # fmt: skip
    joined.steps.launches.append(launch)
    joined.join()
    yield joined.steps.work()
