"""Activation functions and the softmax family.

The definitions are kept composites of calor where it has one, so that a device may take them whole.
"""

from __future__ import annotations

from math import prod
from typing import Any

import calor
import calor_nn.functional as nn
from calor_onnx.call import Call
from calor_onnx.computing import aligned, like, unary, wide
from calor_onnx.registry import operator

unary("Relu", calor.relu)
unary("Sigmoid", calor.sigmoid)
unary("Softplus", calor.softplus)
unary("Softsign", nn.softsign)
unary("Mish", nn.mish)


@operator("LeakyRelu")
def leaky_relu(call: Call, x: Any, *, alpha: float = 0.01, consumed_inputs: Any = None) -> Any:
    """x where it is not negative, else alpha · x."""
    return calor.leaky_relu(x, alpha)


@operator("Elu")
def elu(call: Call, x: Any, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Any:
    """x where it is positive, else alpha · (exp(x) − 1)."""
    return calor.elu(x, alpha)


@operator("Celu", since=12)
def celu(call: Call, x: Any, *, alpha: float = 1.0) -> Any:
    """max(0, x) + min(0, alpha · (exp(x / alpha) − 1))."""
    return like(nn.celu(wide(x), alpha), x)


@operator("Selu", since=6)
def selu(
    call: Call, x: Any, *, alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Any:  # fmt: skip
    """gamma · x where it is positive, else gamma · alpha · (exp(x) − 1)."""
    below = calor.expm1(calor.minimum(x, 0))
    return calor.where(calor.greater(x, 0), x * gamma, below * (alpha * gamma))


@operator("Selu")
def selu_1(
    call: Call, x: Any, *, alpha: float = 1.6732, gamma: float = 1.0507, consumed_inputs: Any = None
) -> Any:
    """As of opset 6, with rounder numbers."""
    return selu(call, x, alpha=alpha, gamma=gamma)


@operator("HardSigmoid")
def hard_sigmoid(
    call: Call, x: Any, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = None
) -> Any:
    """alpha · x + beta within 0 and 1."""
    return calor.clip(x * alpha + beta, 0, 1)


@operator("HardSwish", since=14)
def hard_swish(call: Call, x: Any) -> Any:
    """x times HardSigmoid(x) with alpha 1/6."""
    return x * calor.clip(x * (1 / 6) + 0.5, 0, 1)


@operator("Swish", since=24)
def swish(call: Call, x: Any, *, alpha: float = 1.0) -> Any:
    """x · sigmoid(alpha · x)."""
    return calor.silu(x) if alpha == 1 else x * calor.sigmoid(x * alpha)


@operator("ThresholdedRelu")
def thresholded_relu(call: Call, x: Any, *, alpha: float = 1.0) -> Any:
    """x where it is above alpha, else 0."""
    return calor.where(calor.greater(x, alpha), x, 0)


@operator("Shrink", since=9)
def shrink(call: Call, x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """x moved towards 0 by ``bias`` outside of ±lambd, 0 inside."""
    moved = calor.where(calor.greater(x, lambd), calor.astype(x - bias, x.dtype), 0)
    return calor.where(calor.less(x, -lambd), calor.astype(x + bias, x.dtype), moved)


@operator("PRelu", since=7)
def prelu(call: Call, x: Any, slope: Any) -> Any:
    """x where it is not negative, else slope · x."""
    return calor.where(calor.less(x, 0), calor.multiply(x, slope), x)


@operator("PRelu")
def prelu_1(call: Call, x: Any, slope: Any, *, consumed_inputs: Any = None) -> Any:
    """As of opset 7, with a slope for each channel."""
    return prelu(call, x, aligned(x, slope, 1) if slope.size > 1 else slope)


@operator("Gelu", since=20)
def gelu(call: Call, x: Any, *, approximate: str = "none") -> Any:
    """x times the probability of the normal distribution below x."""
    return calor.gelu(x, approximate)  # type: ignore[arg-type]


@operator("Softmax", since=13)
def softmax(call: Call, x: Any, *, axis: int = -1) -> Any:
    """The exponentials along an axis, divided by their sum."""
    return calor.softmax(x, axis=axis)


@operator("LogSoftmax", since=13)
def log_softmax(call: Call, x: Any, *, axis: int = -1) -> Any:
    """The logarithm of Softmax."""
    return calor.log_softmax(x, axis=axis)


@operator("Hardmax", since=13)
def hardmax(call: Call, x: Any, *, axis: int = -1) -> Any:
    """1 at the first largest element along an axis, 0 elsewhere."""
    axis %= x.ndim
    where = calor.expand_dims(calor.argmax(x, axis=axis), axis)
    places = calor.arange(x.shape[axis], device=call.device)
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return like(calor.equal(where, calor.reshape(places, tuple(shape))), x)


def _flat(function: Any) -> Any:
    """Return the meaning before opset 13: the axes from ``axis`` on count as one."""

    def old(call: Call, x: Any, *, axis: int = 1) -> Any:
        axis = axis % x.ndim if x.ndim else 0
        rows = calor.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
        return calor.reshape(function(call, rows, axis=1), x.shape)

    return old


for _name, _function in (("Softmax", softmax), ("LogSoftmax", log_softmax), ("Hardmax", hardmax)):
    operator(_name)(_flat(_function))
