"""Launches of the gradient of a bias by matrix instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final

from calor_kernel.contract.choices import choice
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Output, Request, Work
from calor_kernel.library.attention.bias_gradient import BiasParts, BiasShape
from calor_kernel.library.attention.bias_gradient_mma import bias_gradient_mma
from calor_kernel.library.attention.gradient_parts import Joined
from calor_kernel.library.attention.mma_launch import (
    index_of,
    launch_of,
    many,
    mma_refusal,
    plans_of,
)
from calor_kernel.library.attention.mma_plan import MmaPlan
from calor_kernel.library.attention.operands import upstream_of

# Cubes of a core that shares of the batches fill, the least batches of a share, and most shares.
_CUBES: Final = 2
_LEAST: Final = 4
_MOST: Final = 32


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


@choice(low=1)
def shares_of(tiles: int, batches: int, cores: int) -> int:
    """Return the shares of the batches of tiles that leave cores idle.

    >>> shares_of(54, 64, 132), shares_of(54, 6, 132), shares_of(300, 64, 132)
    (5, 1, 1)
    """
    most = min(-(-_CUBES * cores // max(tiles, 1)), batches // _LEAST, _MOST)
    return max(1, most) if tiles < _CUBES * cores else 1


def bias_gradient_by_mma(parts: BiasParts, request: Request) -> Iterator[Work]:
    """Yield the work of the gradient of a bias."""
    p, info = parts.problem, request.info
    plan = _plan(parts, request)
    assert plan is not None
    matrices, count = parts.shape[0] * parts.shape[1], prod(parts.shape)
    down, across = -(-p.queries // plan.rows), -(-p.keys // plan.block)
    shares = shares_of(down * across * matrices, p.batch, info.cores) if parts.shape[0] == 1 else 1
    joined = Joined(info, index_of(p, request), p.accumulate, 4 if count % 4 == 0 else 1)
    target = joined.target(Bound(Output(0), parts.dtype), count, shares)
    flops = 2 * p.pairs * (p.features + p.values)
    cubes = down, across, matrices * shares
    launch = launch_of(
        bias_gradient_mma, plan, p, request, cubes, flops,
        up=upstream_of(request, 16),
        parts=target,
        shape=BiasShape(p.batch, parts.shape[0], parts.shape[1], p.queries, p.keys),
        shares=many(shares),
        stages=_stages(parts),
    )  # fmt: skip
    joined.steps.launches.append(launch)
    joined.join()
    yield joined.steps.work()
