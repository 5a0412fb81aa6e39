"""Attention as launches: from the three ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from calor.dtypes import bool_
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.problem import (
    SIZE,
    Attention,
    arguments_of,
    attention_of,
    signature_of,
)
from calor_kernel.library.attention.simple import (
    attend_rows,
    bias_gradient_elements,
    key_gradient_rows,
    query_gradient_rows,
)
from calor_kernel.library.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Work,
    lowering,
)
from calor_kernel.runtime.device import DeviceInfo


@lowering("attention", strided=True)
def lower_attention(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to attend, the likeliest first."""
    problem = attention_of(request)
    if not problem.rows:
        return [Work(())]
    buffers = (Buffer(problem.dtype), Buffer(problem.accumulate))
    launch = _simple(
        attend_rows,
        problem,
        request.info,
        problem.rows,
        (Output(0), Output(1), problem.rows),
        (*buffers, SIZE),
        {"value_width": problem.values},
    )
    return [Work((launch,))]


@lowering("attention_gradient", strided=True, dense=(0, 1, 2))
def lower_attention_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to compute the gradients of query, key and value, the likeliest first."""
    problem = attention_of(request, 3)
    before, read = _upstream(request, problem)
    keys = problem.batch * problem.key_heads * problem.keys
    result = Buffer(problem.dtype)
    keywords = {"query_width": problem.features, "value_width": problem.values}
    launches = []
    if problem.rows:
        launches.append(
            _simple(
                query_gradient_rows,
                problem,
                request.info,
                problem.rows,
                (*before, Output(0), problem.rows),
                (*read, result, SIZE),
                keywords,
            )
        )
    if keys:
        launches.append(
            _simple(
                key_gradient_rows,
                problem,
                request.info,
                keys,
                (*before, Output(1), Output(2), keys),
                (*read, result, result, SIZE),
                keywords,
            )
        )
    return [Work(tuple(launches))]


@lowering("attention_bias_gradient", strided=True, dense=(0, 1, 2))
def lower_attention_bias_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to compute the gradient of the bias, the likeliest first."""
    problem = attention_of(request, 3)
    before, read = _upstream(request, problem)
    (bias,) = (v for v in request.inputs[6:] if v.dtype is not bool_)
    count = prod(bias.shape)
    if not count:
        return [Work(())]
    launch = _simple(
        bias_gradient_elements,
        problem,
        request.info,
        count,
        (*before, Output(0), count, problem.batch, *bias.shape),
        (*read, Buffer(bias.dtype), *(SIZE,) * 6),
        {"value_width": problem.values},
    )
    return [Work((launch,))]


def _upstream(
    request: Request, problem: Attention
) -> tuple[tuple[Argument, ...], tuple[Buffer, ...]]:
    """Return the gradient of the result, delta and the logarithms, as arguments and parameters."""
    arguments = tuple(Input(i, request.inputs[i].offset) for i in range(3))
    types = (problem.dtype, problem.accumulate, problem.accumulate)
    return arguments, tuple(Buffer(t, writable=False) for t in types)


def _simple(
    function: KernelFunction,
    problem: Attention,
    info: DeviceInfo,
    count: int,
    arguments: Sequence[Argument],
    signature: Sequence[Buffer | Scalar],
    keywords: dict[str, Any],
) -> Launch:
    """Return the launch of a body of which a unit does one of ``count`` pieces."""
    units = min(info.max_units, 64)
    said = {**keywords, "kinds": problem.kinds, "causal": problem.causal}
    build = Build(
        function,
        (*signature, *signature_of(problem)),
        tuple(sorted(said.items())),
        (units, 1, 1),
    )
    flops = 2 * problem.pairs * (problem.features + problem.values)
    return Launch(
        build,
        (-(-count // units), 1, 1),
        (*arguments, *arguments_of(problem)),
        flops,
        0,
        function.name,
    )
