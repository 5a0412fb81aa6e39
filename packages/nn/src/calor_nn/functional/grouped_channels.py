"""Standardized groups of channels with a weight and a bias for each channel, as one op.

Requirements: the gradient reads the operand and the gradient of the result twice, and writes once.
What it sums is summed by channel; sums of groups, of weights and of biases are sums of these few
numbers. The gradient of a standardization alone would need the product with the weights as an
image, and the product with the result as another.
"""

from __future__ import annotations

import math
from typing import Any

from calor.errors import ShapeError
from calor.ops import composites as c
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops import rules
from calor.ops.base import op
from calor.ops.movement import reshape
from calor.specs import Spec, spec

# x is (samples, groups, channels of a group, elements of a channel).
_GROUP, _CHANNEL = (2, 3), (3,)


def _rule(x: Spec, weight: Spec, bias: Spec, *, eps: float) -> tuple[Spec, Spec, Spec]:
    rules.real_floats(x)
    for given in (weight, bias):
        rules.real_floats(given)
        if len(x.shape) != 4 or given.shape != (x.shape[1], x.shape[2], 1):
            raise ShapeError(f"nn.grouped_channels: {given} is no number a channel of {x}")
    moment = spec(x.shape[:2], c.wide_type(x.dtype))
    return x, moment, moment


def _decompose(x: Any, weight: Any, bias: Any, *, eps: float) -> tuple[Any, Any, Any]:
    made, mean, variance = c.standardize(c.wide(x), axes=_GROUP, eps=eps)
    made = made * _by_channel(weight, x) + _by_channel(bias, x)
    return c.like(made, x), mean, variance


def _vjp(g: Any, outputs: Any, x: Any, weight: Any, bias: Any, *, eps: float) -> list[Any]:
    _, mean, variance = outputs
    g_y, g_mean, g_variance = c.wide(g[0]), g[1], g[2]
    rate = 1 / e.sqrt(variance + eps) + (variance - variance)
    centred = c.wide(x) - r.spread(mean, x, _GROUP)
    # By channel: of the gradient, and of the gradient where x is above its mean.
    sums = r.sum(g_y, axes=_CHANNEL, dtype=g_y.dtype)
    products = r.sum(g_y * centred, axes=_CHANNEL, dtype=g_y.dtype)
    weights = reshape(c.wide(weight), shape=(1, *x.shape[1:3]))
    share = 1 / max(1, math.prod(x.shape[2:]))
    whole = r.sum(sums * weights, axes=(2,), dtype=sums.dtype)
    moment = r.sum(products * weights, axes=(2,), dtype=sums.dtype)
    along = (g_variance * 2 - rate * rate * rate * moment) * share
    # No image of distances from the mean is kept for this pass.
    constant = (g_mean - rate * whole) * share - along * mean
    scale = r.spread(rate, sums, (2,)) * weights
    total = (
        g_y * r.spread(scale, x, _CHANNEL)
        + c.wide(x) * r.spread(along, x, _GROUP)
        + r.spread(constant, x, _GROUP)
    )
    by_weight = r.sum(products * r.spread(rate, sums, (2,)), axes=(0,), dtype=sums.dtype)
    by_bias = r.sum(sums, axes=(0,), dtype=sums.dtype)
    given = (*x.shape[1:3], 1)
    return [
        c.like(total, x),
        c.like(reshape(by_weight, shape=given), weight),
        c.like(reshape(by_bias, shape=given), bias),
    ]


def _by_channel(given: Any, x: Any) -> Any:
    return reshape(c.like(given, c.wide(x)), shape=(1, *x.shape[1:3], 1))


# Outputs: the result, the mean and the (biased) variance of each group.
grouped_channels = op("nn.grouped_channels", _rule, vjp=_vjp, saves="01y", decompose=_decompose)
