"""Normalizations: of layers, by root mean squares, of batches, of groups of channels."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import WIDTHS, calor_nn, chance, one, rows_of, torch_nn
from fuzzing.families.pooling import IMAGES

_EPS = 1e-5


def _draw_rows(random: Random) -> Parameters:
    return {
        "kind": one(random, {"layer": 6, "rms": 3, "residual": 2, "rms_residual": 2}),
        "rows": rows_of(random),
        "width": one(random, WIDTHS),
        "affine": chance(random, 0.9),
    }


def _row_norm(p: Parameters) -> Work:
    """Return a norm of rows; residual: of a sum."""
    kind, rows, width = p["kind"], p["rows"], int(p["width"])  # type: ignore[arg-type]
    shape = (*rows, width)  # type: ignore[misc]
    rms, residual = "rms" in str(kind), "residual" in str(kind)
    scales = [Operand((width,), weight=True)] * (1 if rms else 2) * bool(p["affine"])
    operands = [Operand(shape)] * (1 + residual) + scales

    def layer(nn: Any) -> Any:
        def applied(x: Any, *rest: Any) -> Any:
            if residual:
                x, rest = x + rest[0], rest[1:]
            if rms:
                return nn().rms_norm(x, (width,), *rest, eps=_EPS)
            return nn().layer_norm(x, (width,), *rest, eps=_EPS)

        return applied

    return Work(tuple(operands), layer(calor_nn), layer(torch_nn), shape, 8.0 * prod(shape), width)


def _draw_channels(random: Random) -> Parameters:
    channels, size = one(random, IMAGES)
    kind = one(random, {"train": 4, "eval": 3, "group": 3, "train relu": 2})
    return {
        "kind": kind.replace(" ", "_"),
        "batch": one(random, {1: 2, 2: 1, 4: 1, 8: 2, 16: 1, 32: 3, 64: 1}),
        "image": (channels, size, size),
        "groups": 32 if channels % 32 == 0 else one(random, {1: 1, channels: 1}),
        "affine": 1,
    }


def _channel_norm(p: Parameters) -> Work:
    kind, groups = str(p["kind"]), int(p["groups"])  # type: ignore[arg-type]
    shape: Any = (p["batch"], *p["image"])  # type: ignore[misc]
    channel = Operand((shape[1],), "float32", weight=True)
    scale = Operand((shape[1],), weight=True)
    if kind == "group":
        operands = [Operand(shape), scale, scale]
        depth = prod(shape[1:]) // groups
    else:
        moments = Operand((shape[1],), fixed=True)
        variances = Operand((shape[1],), positive=True, fixed=True)
        operands = [Operand(shape), channel, channel]
        if kind == "eval":
            operands = [Operand(shape), moments, variances, scale, scale]
        depth = shape[0] * prod(shape[2:])

    def batch(nn: Any, x: Any, rest: Any) -> Any:
        if kind == "eval":
            return nn.batch_norm(x, *rest)
        return nn.batch_norm(x, None, None, *rest, training=True)

    def ours(x: Any, *rest: Any) -> Any:
        nn = calor_nn()
        if kind == "group":
            return nn.group_norm(x, groups, *rest)
        y = batch(nn, x, rest)[0]
        return nn.relu(y) if kind.endswith("relu") else y

    def theirs(x: Any, *rest: Any) -> Any:
        nn = torch_nn()
        if kind == "group":
            return nn.group_norm(x, groups, *rest)
        y = batch(nn, x, rest)
        return nn.relu(y) if kind.endswith("relu") else y

    return Work(tuple(operands), ours, theirs, shape, 8.0 * prod(shape), depth)


FAMILIES = (
    Family("row_norm", 6, _draw_rows, _row_norm, ("rows",)),
    Family("channel_norm", 4, _draw_channels, _channel_norm, ("batch",)),
)
