"""Launches of attention by register tiles, for devices whose cubes have one unit."""

from __future__ import annotations

from calor_kernel.contract.work import Argument, Build, Launch, Output, Request, Work
from calor_kernel.ir.types import Buffer
from calor_kernel.library.attention.bias import bias_gradient_tiles
from calor_kernel.library.attention.bias_parts import BiasParts
from calor_kernel.library.attention.blueprints import (
    Tiles,
    forward_shares,
    forward_tiles,
    gradient_shares,
)
from calor_kernel.library.attention.cpu_forward import attend_tiles
from calor_kernel.library.attention.cpu_gradients import add_parts, gradient_tiles
from calor_kernel.library.attention.operands import (
    Packed,
    keywords,
    least_bytes,
    tile_keywords,
    upstream_of,
)
from calor_kernel.library.attention.problem import (
    SIZE,
    STRIDE,
    Attention,
    arguments_of,
    signature_of,
)

# Vectors of parts that a cube adds.
_SHARE = 64
# Maximum of queries for which packing the keys does not pay.
_FEW = 5


def forward_by_tiles(problem: Attention, request: Request) -> Work:
    """Return the work of the forward pass."""
    p, b = problem, forward_tiles(problem, request.info)
    share = forward_shares(p, b, request.info)
    operands = Packed(p)
    few = p.queries <= _FEW and (p.key.strides[3] == 1 or p.features == 1)
    panels: Argument = p.key.argument
    if not few:
        panels = operands.transposed(p.key, p.features, b.panel, b.lanes)
    values = operands.rows(p.value, p.values, b.value_vectors * b.lanes, b.lanes)
    read = Buffer(p.accumulate, writable=False)
    written = (Buffer(p.dtype), Buffer(p.accumulate))
    first = p.key.declared if few else read
    signature = (first, read, *written, *(SIZE,) * 3, *(STRIDE,) * 4, *signature_of(p))
    said = {**tile_keywords(p), "packed": values.packed, "ragged": values.ragged, "few": few}
    places = (panels, values.argument, Output(0), Output(1))
    launch = Launch(
        Build(attend_tiles, signature, keywords(b, **said)),
        (-(-p.queries // share.queries), p.heads, p.batch),
        (*places, share.queries, share.keys, p.values, *values.numbers, *arguments_of(p)),
        2 * p.pairs * (p.features + p.values),
        least_bytes(p),
        f"attention {b.rows}x{b.panel}",
    )
    return Work((*operands.launches, launch), tuple(operands.scratch))


def gradients_by_tiles(problem: Attention, b: Tiles, request: Request) -> Work:
    """Return the work of the gradients of query, key and value."""
    p = problem
    share, up = gradient_shares(p, b, request.info), upstream_of(request, p)
    operands = Packed(p)
    key_panels = operands.transposed(p.key, p.features, b.panel, b.lanes)
    value_panels = operands.transposed(p.value, p.values, b.panel, b.lanes)
    rows = operands.rows(p.key, p.features, b.feature_vectors * b.lanes, b.lanes)
    splits = -(-p.keys // share.split)
    count = p.rows * p.features
    alone = splits == 1 and p.dtype is p.accumulate
    for_query: Argument = Output(0) if alone else operands.memory(splits * count, p.accumulate)
    launches = operands.launches
    read, result = Buffer(p.accumulate, writable=False), Buffer(p.dtype)
    if p.keys:
        written = (Buffer(p.accumulate), result, result)
        signature = (
            *up.declared, read, read, read, *written, *(SIZE,) * 5, *(STRIDE,) * 4,
            *signature_of(p),
        )  # fmt: skip
        places = (key_panels, value_panels, rows.argument, for_query, Output(1), Output(2))
        numbers = (share.queries, share.keys, share.split, count, p.values, *rows.numbers)
        said = {**tile_keywords(p), "packed": rows.packed, "ragged": rows.ragged}
        launches.append(
            Launch(
                Build(gradient_tiles, signature, keywords(b, **said)),
                (splits, p.key_heads, p.batch),
                (*up.arguments, *places, *numbers, *arguments_of(p)),
                2 * p.pairs * (3 * p.features + 2 * p.values),
                2 * least_bytes(p),
                f"attention gradient {b.rows}x{b.panel}",
            )
        )
    if not alone and count:
        said = {"width": b.lanes, "share": _SHARE, "causal": p.causal, "accumulate": p.accumulate}
        launches.append(
            Launch(
                Build(add_parts, (read, result, *(SIZE,) * 5), tuple(sorted(said.items()))),
                (-(-count // (_SHARE * b.lanes)), 1, 1),
                (for_query, Output(0), count, p.features, p.queries, splits, share.split),
                splits * count,
                splits * count * p.accumulate.itemsize,
                "attention gradient sum",
            )
        )
    return Work(tuple(launches), tuple(operands.scratch))


def bias_gradient_by_tiles(
    problem: Attention, b: Tiles, request: Request, parts: BiasParts
) -> Work:
    """Return the work of the gradient of a bias."""
    p = problem
    share, up = gradient_shares(p, b, request.info), upstream_of(request, p)
    operands = Packed(p)
    key_panels = operands.transposed(p.key, p.features, b.panel, b.lanes)
    value_panels = operands.transposed(p.value, p.values, b.panel, b.lanes)
    target, after = parts.target(share.queries, share.keys, operands.memory, request.info)
    read = Buffer(p.accumulate, writable=False)
    signature = (*up.declared, read, read, target.declared, *(SIZE,) * 8, *signature_of(p))
    places = (key_panels, value_panels, target.argument)
    numbers = (share.queries, share.keys, *target.numbers, p.values)
    said = {**tile_keywords(p), "sum_rows": parts.sum_rows, "sum_keys": parts.sum_keys}
    launch = Launch(
        Build(bias_gradient_tiles, signature, keywords(b, **said)),
        (-(-p.queries // share.queries), -(-p.keys // share.keys), parts.matrices),
        (*up.arguments, *places, *numbers, *arguments_of(p)),
        2 * p.pairs * (p.features + p.values),
        least_bytes(p),
        f"attention bias gradient {b.rows}x{b.panel}",
    )
    return Work((*operands.launches, launch, *after), tuple(operands.scratch))
