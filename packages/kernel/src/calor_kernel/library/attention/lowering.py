"""Attention as launches: from the three ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from math import prod
from typing import Any

from calor.dtypes import bool_
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.blueprints import Tiles, shares, tiles
from calor_kernel.library.attention.forward import attend_tiles
from calor_kernel.library.attention.problem import (
    SIZE,
    STRIDE,
    Attention,
    Operand,
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
from calor_kernel.library.matmul.lowering import pack_operand
from calor_kernel.library.matmul.problem import Operand as Packable
from calor_kernel.library.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
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
    if request.info.max_units == 1:
        return [_tiles(problem, tiles(problem, request.info), request.info)]
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


def _tiles(problem: Attention, blueprint: Tiles, info: DeviceInfo) -> Work:
    """Return the work of the forward pass by register tiles."""
    p, b = problem, blueprint
    width, span = b.vectors * b.lanes, b.value_vectors * b.lanes
    launches: list[Launch] = []
    scratch: list[int] = []
    if p.keys and p.features:
        panels = -(-p.keys // width)
        launches.append(pack(p, p.key, p.keys, p.features, True, width, b.lanes, Scratch(0)))
        scratch.append(p.batch * p.key_heads * panels * width * p.features * p.accumulate.itemsize)
    else:
        scratch.append(p.accumulate.itemsize)
    direct = p.value.dtype is p.accumulate and (p.value.strides[3] == 1 or p.values == 1)
    values: Argument = p.value.argument
    share = shares(p, b)
    numbers = [p.values, *p.value.strides[:2], span, p.value.strides[2]]
    if not direct and p.keys and p.values:
        values = Scratch(1)
        panels = -(-p.values // span)
        launches.append(pack(p, p.value, p.values, p.keys, False, span, b.lanes, values))
        whole = panels * span * p.keys
        scratch.append(p.batch * p.key_heads * whole * p.accumulate.itemsize)
        numbers = [p.values, whole * p.key_heads, whole, p.keys * span, span]
    keywords = {
        **{f.name: getattr(b, f.name) for f in fields(b)},
        "kinds": p.kinds,
        "steps": tuple(x.strides[3] if x.strides[3] in (0, 1) else -1 for x in p.extras),
        "contiguous": p.query.strides[3] == 1 or p.features == 1,
        "packed": not direct,
        "ragged": direct and p.values % span != 0,
        "causal": p.causal,
    }
    signature = (
        Buffer(p.accumulate, writable=False),
        Buffer(p.value.dtype if direct else p.accumulate, writable=False),
        Buffer(p.dtype),
        Buffer(p.accumulate),
        *(SIZE,) * 3,
        *(STRIDE,) * 4,
        *signature_of(p),
    )
    launches.append(
        Launch(
            Build(attend_tiles, signature, tuple(sorted(keywords.items()))),
            (-(-p.queries // share.queries), p.heads, p.batch),
            (
                Scratch(0),
                values,
                Output(0),
                Output(1),
                share.queries,
                share.keys,
                *numbers,
                *arguments_of(p),
            ),
            2 * p.pairs * (p.features + p.values),
            _nbytes(p),
            f"attention {b.rows}x{width}",
        )
    )
    return Work(tuple(launches), tuple(scratch))


def _nbytes(problem: Attention) -> int:
    p = problem
    queries = p.rows * (p.features + p.values)
    keys = p.batch * p.key_heads * p.keys * (p.features + p.values)
    return int((queries + keys) * p.dtype.itemsize)


def pack(
    problem: Attention,
    operand: Operand,
    n: int,
    k: int,
    transposed: bool,
    width: int,
    lanes: int,
    target: Scratch,
) -> Launch:
    """Return the launch that packs keys or values of all heads to panels of ``width`` columns."""
    batch, head, row, column = operand.strides
    free, depth = (row, column) if transposed else (column, row)
    seen = Packable((batch, head), free, depth, 0, operand.dtype)
    heads = (problem.batch, problem.key_heads)
    element = problem.accumulate
    return pack_operand(n, k, heads, seen, width, lanes, 1, element, operand.argument, target)


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
