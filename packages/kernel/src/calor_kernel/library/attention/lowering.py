"""Attention as launches: from the three ops to the bodies of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

from calor.dtypes import DType, bool_
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.backward import add_parts, gradient_tiles
from calor_kernel.library.attention.blueprints import (
    gradient_shares,
    gradient_tiles_of,
    shares,
    tiles,
)
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

Keywords = tuple[tuple[str, Any], ...]


@lowering("attention", strided=True)
def lower_attention(request: Request) -> Sequence[Work] | Refusal:
    """Return the ways to attend, the likeliest first."""
    problem = attention_of(request)
    if not problem.rows:
        return [Work(())]
    if request.info.max_units == 1:
        return [_tiles(problem, request.info)]
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
    if request.info.max_units == 1:
        return [_gradient_tiles(problem, request, before, read)]
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


class _Packed:
    """Operands of a work by register tiles: what is packed to scratch memory before."""

    def __init__(self, problem: Attention) -> None:
        self.problem = problem
        self.launches: list[Launch] = []
        self.scratch: list[int] = []

    def memory(self, count: int, dtype: DType) -> Scratch:
        """Return memory for some elements."""
        self.scratch.append(max(count, 1) * dtype.itemsize)
        return Scratch(len(self.scratch) - 1)

    def transposed(self, operand: Operand, width: int, panel: int, lanes: int) -> Scratch:
        """Return keys or values of all heads as panels of as many keys."""
        p = self.problem
        count = -(-p.keys // panel) * panel * width
        target = self.memory(p.batch * p.key_heads * count, p.accumulate)
        if count:
            self._pack(operand, (p.keys, width), True, panel, lanes, target)
        return target

    def rows(self, operand: Operand, width: int, span: int, lanes: int) -> RightOperand:
        """Return keys or values with rows that vectors run along, packed where they do not."""
        p = self.problem
        if operand.dtype is p.accumulate and (operand.strides[3] == 1 or width == 1):
            batch, head, row, _ = operand.strides
            numbers = (batch, head, span, row)
            return RightOperand(operand.argument, numbers, False, width % span != 0)
        whole = -(-width // span) * span * p.keys
        target = self.memory(p.batch * p.key_heads * whole, p.accumulate)
        if whole:
            self._pack(operand, (width, p.keys), False, span, lanes, target)
        numbers = (whole * p.key_heads, whole, p.keys * span, span)
        return RightOperand(target, numbers, True, False)

    def _pack(
        self,
        operand: Operand,
        sizes: tuple[int, int],
        transposed: bool,
        panel: int,
        lanes: int,
        target: Scratch,
    ) -> None:
        p = self.problem
        batch, head, row, column = operand.strides
        free, depth = (row, column) if transposed else (column, row)
        seen = Packable((batch, head), free, depth, 0, operand.dtype)
        heads = (p.batch, p.key_heads)
        self.launches.append(
            pack_operand(
                *sizes, heads, seen, panel, lanes, 1, p.accumulate, operand.argument, target
            )
        )


@dataclass(frozen=True, slots=True)
class RightOperand:
    """An operand as ``Columns`` takes it: strides of batch, head, panel and row."""

    argument: Argument
    numbers: tuple[int, int, int, int]
    packed: bool
    ragged: bool


def _keywords(problem: Attention, blueprint: Any, right: RightOperand) -> Keywords:
    p = problem
    return tuple(
        sorted(
            {
                **{f.name: getattr(blueprint, f.name) for f in fields(blueprint)},
                "kinds": p.kinds,
                "steps": tuple(x.strides[3] if x.strides[3] in (0, 1) else -1 for x in p.extras),
                "contiguous": p.query.strides[3] == 1 or p.features == 1,
                "packed": right.packed,
                "ragged": right.ragged,
                "causal": p.causal,
            }.items()
        )
    )


def _tiles(problem: Attention, info: DeviceInfo) -> Work:
    """Return the work of the forward pass by register tiles."""
    p, b = problem, tiles(problem, info)
    share = shares(p, b)
    operands = _Packed(p)
    panels = operands.transposed(p.key, p.features, b.vectors * b.lanes, b.lanes)
    values = operands.rows(p.value, p.values, b.value_vectors * b.lanes, b.lanes)
    read = Buffer(p.accumulate, writable=False)
    signature = (
        read,
        read,
        Buffer(p.dtype),
        Buffer(p.accumulate),
        *(SIZE,) * 3,
        *(STRIDE,) * 4,
        *signature_of(p),
    )
    places = (panels, values.argument, Output(0), Output(1))
    launch = Launch(
        Build(attend_tiles, signature, _keywords(p, b, values)),
        (-(-p.queries // share.queries), p.heads, p.batch),
        (*places, share.queries, share.keys, p.values, *values.numbers, *arguments_of(p)),
        2 * p.pairs * (p.features + p.values),
        _nbytes(p),
        f"attention {b.rows}x{b.vectors * b.lanes}",
    )
    return Work((*operands.launches, launch), tuple(operands.scratch))


def _gradient_tiles(
    problem: Attention, request: Request, upstream: Sequence[Argument], types: Sequence[Buffer]
) -> Work:
    """Return the work of the gradients of query, key and value by register tiles."""
    p, b = problem, gradient_tiles_of(problem, request.info)
    share = gradient_shares(p, b, request.info)
    operands = _Packed(p)
    panel = b.vectors * b.lanes
    key_panels = operands.transposed(p.key, p.features, panel, b.lanes)
    value_panels = operands.transposed(p.value, p.values, panel, b.lanes)
    rows = operands.rows(p.key, p.features, b.feature_vectors * b.lanes, b.lanes)
    splits = -(-p.keys // share.split)
    count = p.rows * p.features
    alone = splits == 1 and p.dtype is p.accumulate
    for_query: Argument = Output(0) if alone else operands.memory(splits * count, p.accumulate)
    launches = operands.launches
    read, result = Buffer(p.accumulate, writable=False), Buffer(p.dtype)
    if p.keys:
        signature = (
            *types,
            *(read,) * 3,
            Buffer(p.accumulate),
            *(result,) * 2,
            *(SIZE,) * 5,
            *(STRIDE,) * 4,
            *signature_of(p),
        )
        places = (key_panels, value_panels, rows.argument, for_query, Output(1), Output(2))
        numbers = (share.queries, share.keys, share.split, count, p.values, *rows.numbers)
        launches.append(
            Launch(
                Build(gradient_tiles, signature, _keywords(p, b, rows)),
                (splits, p.key_heads, p.batch),
                (*upstream, *places, *numbers, *arguments_of(p)),
                2 * p.pairs * (3 * p.features + 2 * p.values),
                2 * _nbytes(p),
                f"attention gradient {b.rows}x{panel}",
            )
        )
    if not alone and count:
        said = {"width": b.lanes, "share": 64, "causal": p.causal, "accumulate": p.accumulate}
        launches.append(
            Launch(
                Build(add_parts, (read, result, *(SIZE,) * 5), tuple(sorted(said.items()))),
                (-(-count // (64 * b.lanes)), 1, 1),
                (for_query, Output(0), count, p.features, p.queries, splits, share.split),
                splits * count,
                splits * count * p.accumulate.itemsize,
                "attention gradient sum",
            )
        )
    return Work(tuple(launches), tuple(operands.scratch))


def _nbytes(problem: Attention) -> int:
    p = problem
    queries = p.rows * (p.features + p.values)
    keys = p.batch * p.key_heads * p.keys * (p.features + p.values)
    return int((queries + keys) * p.dtype.itemsize)


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
