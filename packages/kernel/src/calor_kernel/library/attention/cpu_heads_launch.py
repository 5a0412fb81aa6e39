"""Launches of attention with a lane for each head, for devices whose cubes have one unit.

Requirements: rooms of private memory are rounded up, so that many sizes share few kernels. The way
serves many small heads; where a head's keys or features fill vectors, register tiles do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.contract.work import Output, Request, Work
from calor_kernel.library.attention.cpu_heads import TILE, Rooms, attend_heads, gradient_heads
from calor_kernel.library.attention.cpu_launch import PRIVATE, form_of, room_for
from calor_kernel.library.attention.operands import (
    least_bytes,
    operands_of,
    results_of,
    upstream_of,
)
from calor_kernel.library.attention.problem import Attention
from calor_kernel.library.steps import Steps

_LARGE: Final = "private memory does not hold a vector of heads"


def _rooms(problem: Attention, request: Request) -> Rooms:
    """Return the rooms of private memory."""
    p = problem
    lanes = max(1, request.info.vector_bytes // p.accumulate.itemsize)
    sizes = (room_for(n, TILE) for n in (p.queries, p.keys, p.features, p.values))
    return Rooms(lanes, *sizes)


def heads_refusal(problem: Attention, request: Request) -> str | None:
    """Return why a lane for each head does not suit the forward pass, None if it does."""
    p = problem
    if request.info.max_units > 1:
        return "cubes have many units"
    b = _rooms(p, request)
    if b.lanes < TILE:
        return f"vectors have fewer than {TILE} elements"
    if not p.queries or not p.keys or not p.features or not p.values:
        return "it has no keys or features"
    cubes = -(-p.batch * p.heads // b.lanes)
    if p.batch * p.heads < b.lanes // 2 or 2 * cubes < request.info.cores:
        return "its heads fill no vectors of all cores"
    if p.queries < TILE and max(p.features, p.values) > b.lanes:
        return "few queries read long keys in place"
    elements = b.queries * b.features + b.keys * (b.features + b.values) + TILE * b.keys
    return None if elements * request.info.vector_bytes <= PRIVATE else _LARGE


def heads_gradient_refusal(problem: Attention, request: Request) -> str | None:
    """Return why a lane for each head does not suit the gradients, None if it does."""
    reason = heads_refusal(problem, request)
    if reason is not None:
        return reason
    if problem.group > 1:
        return "query heads share key heads"
    b = _rooms(problem, request)
    p, whole = problem, problem.keys % b.lanes == 0 and b.features + b.values > b.lanes
    if whole and not p.causal and p.dtype is p.accumulate:
        return "the keys of a head fill vectors"
    elements = (b.queries + b.keys) * (b.features + b.values) + 2 * b.queries * b.keys
    return None if elements * request.info.vector_bytes <= PRIVATE else _LARGE


def _grid(problem: Attention, rooms: Rooms) -> Grid:
    return Grid.line(-(-problem.batch * problem.heads // rooms.lanes))


def forward_by_heads(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the forward pass."""
    p, b, steps = problem, _rooms(problem, request), Steps()
    turned = tuple(p.steps(i, p.heads, p.queries, p.values) for i in (0, 2))
    steps.add(
        attend_heads,
        _grid(p, b),
        Effort("attention by heads", p.flops(1, 1), least_bytes(p)),
        **results_of(p, request),
        matrices=p.batch * p.heads,
        value_width=p.values,
        steps=turned[0],
        rest_steps=turned[1],
        g=operands_of(p),
        rooms=b,
        form=form_of(p, 3),
    )
    yield steps.work()


def gradients_by_heads(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the gradients of query, key and value."""
    p, b, steps = problem, _rooms(problem, request), Steps()
    sizes = (p.queries, p.features), (p.keys, p.features), (p.keys, p.values)
    turned = [p.steps(i, p.heads, *size) for i, size in enumerate(sizes)]
    steps.add(
        gradient_heads,
        _grid(p, b),
        Effort("attention gradient by heads", p.flops(3, 2), 2 * least_bytes(p)),
        up=upstream_of(request),
        for_query=Bound(Output(0), p.dtype),
        for_key=Bound(Output(1), p.dtype),
        for_value=Bound(Output(2), p.dtype),
        matrices=p.batch * p.heads,
        value_width=p.values,
        query_steps=turned[0],
        key_steps=turned[1],
        value_steps=turned[2],
        g=operands_of(p),
        rooms=b,
        form=form_of(p, 3),
    )
    yield steps.work()
