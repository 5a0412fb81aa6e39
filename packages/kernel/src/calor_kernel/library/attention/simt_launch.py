"""Launches of attention by cubes of many units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output, Request, Scratch, Work
from calor_kernel.ir.types import Buffer
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.bias import bias_gradient_team
from calor_kernel.library.attention.bias_parts import BiasParts
from calor_kernel.library.attention.blueprints import teams
from calor_kernel.library.attention.operands import keywords, least_bytes, upstream_of
from calor_kernel.library.attention.problem import (
    SIZE,
    Attention,
    arguments_of,
    signature_of,
)
from calor_kernel.library.attention.simt import attend_team, key_gradient_team, query_gradient_team


def forward_by_teams(problem: Attention, request: Request) -> Work:
    """Return the work of the forward pass."""
    p = problem
    launch = _launch(
        attend_team,
        p,
        request.info,
        p.values,
        (p.queries, p.heads),
        (Output(0), Output(1)),
        (Buffer(p.dtype), Buffer(p.accumulate)),
        2 * p.pairs * (p.features + p.values),
    )
    return Work((launch,))


def gradients_by_teams(problem: Attention, request: Request) -> Work:
    """Return the work of the gradients of query, key and value."""
    p, up = problem, upstream_of(request, problem)
    result = Buffer(p.dtype)
    launches = []
    if p.rows * p.features:
        launches.append(
            _launch(
                query_gradient_team,
                p,
                request.info,
                p.features,
                (p.queries, p.heads),
                (*up.arguments, Output(0)),
                (*up.declared, result),
                2 * p.pairs * (2 * p.features + p.values),
            )
        )
    if p.batch * p.keys * (p.features + p.values):
        launches.append(
            _launch(
                key_gradient_team,
                p,
                request.info,
                max(p.features, p.values),
                (p.keys, p.key_heads),
                (*up.arguments, Output(1), Output(2)),
                (*up.declared, result, result),
                4 * p.pairs * (p.features + p.values),
            )
        )
    return Work(tuple(launches))


def bias_gradient_by_teams(problem: Attention, request: Request, parts: BiasParts) -> Work:
    """Return the work of the gradient of a bias."""
    p, up, b = problem, upstream_of(request, problem), teams(problem, 1, request.info)
    scratch: list[int] = []

    def memory(count: int, dtype: Any) -> Scratch:
        scratch.append(max(count, 1) * dtype.itemsize)
        return Scratch(len(scratch) - 1)

    tall, block = b.rows * b.down, b.keys * b.across
    target, after = parts.target(tall, block, memory, request.info)
    said = dict(keywords(b, **_told(p), sum_rows=parts.sum_rows, sum_keys=parts.sum_keys))
    del said["values"]
    signature = (*up.declared, target.declared, *(SIZE,) * 6, *signature_of(p))
    launch = Launch(
        Build(
            bias_gradient_team,
            signature,
            tuple(said.items()),
            (b.across, b.down, 1),
            request.info.planes[0],
        ),
        (-(-p.queries // tall), -(-p.keys // block), parts.matrices),
        (*up.arguments, target.argument, *target.numbers, p.values, *arguments_of(p)),
        2 * p.pairs * (p.features + p.values),
        least_bytes(p),
        "attention bias gradient team",
    )
    return Work((launch, *after), tuple(scratch))


def _told(problem: Attention) -> dict[str, Any]:
    p = problem
    operands = ((p.query, p.features), (p.key, p.features), (p.value, p.values))
    along = tuple(o.strides[3] == 1 or n == 1 for o, n in operands)
    return {"along": along, "kinds": p.kinds, "causal": p.causal}


def _launch(
    function: KernelFunction,
    problem: Attention,
    info: DeviceInfo,
    width: int,
    sizes: tuple[int, int],
    arguments: Sequence[Argument],
    declared: Sequence[Buffer],
    flops: int,
) -> Launch:
    """Return the launch of a body over queries or keys, heads, and panels of a width."""
    p, b = problem, teams(problem, width, info)
    panels = max(1, -(-width // (b.across * b.values)))
    block = b.keys * b.across if function is key_gradient_team else b.rows * b.down
    count, heads = sizes
    return Launch(
        Build(
            function,
            (*declared, SIZE, SIZE, *signature_of(p)),
            keywords(b, **_told(p)),
            (b.across, b.down, 1),
            info.planes[0],
        ),
        (-(-count // block), heads * panels, p.batch),
        (*arguments, p.values, panels, *arguments_of(p)),
        flops,
        least_bytes(p),
        function.name,
    )
