"""Kept composites of neural networks: activations, softmax, norms.

Requirements: each is recorded as one node that a device may take whole; one that does not gets the
decomposition. A row owns its gradient where that is exact at the ends of the range (no 0 · inf) or
keeps less in memory than the gradient of the decomposition. Half types are computed in float32 and
rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calor.dtypes import DType, float32
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.movement import fill
from calor.ops.reductions import spread
from calor.specs import Spec

Axes = tuple[int, ...]


def wide_type(dtype: DType) -> DType:
    """Return the dtype that a value is computed in: float32 for half types."""
    return float32 if dtype.itemsize == 2 else dtype


def wide(x: Any) -> Any:
    """Return a tensor of a half type as float32, any other as it is."""
    return e.cast(x, dtype=float32) if x.dtype.itemsize == 2 else x


def like(x: Any, other: Any) -> Any:
    """Return x in the dtype of another tensor or spec."""
    return x if x.dtype is other.dtype else e.cast(x, dtype=other.dtype)


def _widened(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make the definition of an elementwise function compute half types in float32."""

    def defined(x: Any) -> Any:
        return like(function(wide(x)), x)

    return defined


def _factor(derivative: Callable[[Any], Any]) -> Callable[..., list[Any]]:
    """Return the vjp of an elementwise function from its derivative as a function of x."""

    def vjp(g: Any, y: Any, x: Any) -> list[Any]:
        return [like(wide(g) * derivative(wide(x)), g)]

    return vjp


def _gradient(name: str, derivative: Callable[[Any], Any]) -> Op:
    """Return the row of an elementwise function's gradient, g times the derivative at x.

    A device that takes it whole computes once what both factors of the derivative need.
    """

    def decompose(g: Any, x: Any) -> Any:
        return like(wide(g) * derivative(wide(x)), g)

    return op(name, rules.real_floats, decompose=decompose, promotion="float")


# Activations.
relu = op(
    "relu",
    rules.reals,
    vjp=lambda g, y, x: [e.where(y > 0, g, fill(g, 0))],
    saves="y",
    decompose=lambda x: e.maximum(x, fill(x, 0)),
    promotion="same",
)


def _sigmoid(x: Any) -> Any:
    # The exponent is never positive, so nothing overflows and both tails keep their digits.
    z = e.exp(-e.abs(x))
    return e.where(x >= 0, fill(x, 1), z) / (z + 1)


sigmoid = op(
    "sigmoid",
    rules.real_floats,
    vjp=lambda g, y, x: [g * y * (1 - y)],
    saves="y",
    decompose=_widened(_sigmoid),
    promotion="float",
)


def _gate(x: Any) -> Any:
    """Return sigmoid(x), 0 instead of denormals: products with them are slow on many processors."""
    return 1 / (e.exp(-x) + 1)


def _silu_derivative(x: Any) -> Any:
    s = _gate(x)
    return s * (x * (1 - s) + 1)


silu_gradient = _gradient("silu_gradient", _silu_derivative)

silu = op(
    "silu",
    rules.real_floats,
    vjp=silu_gradient,
    saves="0",
    decompose=_widened(lambda x: x * sigmoid(x)),
    promotion="float",
)


def _normal_cdf(x: Any) -> Any:
    return (e.erf(x * math.sqrt(0.5)) + 1) * 0.5


def _gelu_derivative(x: Any) -> Any:
    power = x * x * -0.5
    # No denormals, as in a gate.
    seen = power > math.log(np.finfo(x.dtype.numpy).tiny) + 1
    density = e.exp(power) * (1 / math.sqrt(2 * math.pi))
    return _normal_cdf(x) + e.where(seen, x * density, fill(x, 0))


gelu_gradient = _gradient("gelu_gradient", _gelu_derivative)

gelu = op(
    "gelu",
    rules.real_floats,
    vjp=gelu_gradient,
    saves="0",
    decompose=_widened(lambda x: x * _normal_cdf(x)),
    promotion="float",
)

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715


def _gelu_turn(x: Any) -> Any:
    return e.tanh((x * x * _TANH_CUBE + 1) * x * _TANH_SCALE)


def _gelu_tanh_derivative(x: Any) -> Any:
    turn = _gelu_turn(x)
    slope = (x * x * (3 * _TANH_CUBE) + 1) * _TANH_SCALE
    return (turn + 1) * 0.5 + x * (1 - turn * turn) * slope * 0.5


gelu_tanh_gradient = _gradient("gelu_tanh_gradient", _gelu_tanh_derivative)

gelu_tanh = op(
    "gelu_tanh",
    rules.real_floats,
    vjp=gelu_tanh_gradient,
    saves="0",
    decompose=_widened(lambda x: x * ((_gelu_turn(x) + 1) * 0.5)),
    promotion="float",
)


def _softplus_rule(x: Spec, *, beta: float) -> Spec:
    return rules.real_floats(x)


def _softplus(x: Any, *, beta: float) -> Any:
    if beta == 1:
        return like(e.logaddexp(wide(x), fill(wide(x), 0)), x)
    scaled = wide(x) * beta
    return like(e.logaddexp(scaled, fill(scaled, 0)) / beta, x)


# log(1 + exp(beta · x)) / beta, without overflow.
softplus = op(
    "softplus",
    _softplus_rule,
    vjp=lambda g, y, x, *, beta: [like(wide(g) * _gate(wide(x) * beta), g)],
    saves="0",
    decompose=_softplus,
    autocast="float32",
)


def _elu_rule(x: Spec, *, alpha: float, scale: float, rate: float) -> Spec:
    return rules.real_floats(x)


def _elu(x: Any, *, alpha: float, scale: float, rate: float) -> Any:
    x_wide = wide(x)
    above = x_wide > 0
    # Only negative elements enter the exponential, which would overflow elsewhere.
    below = e.expm1(e.where(above, fill(x_wide, 0), x_wide) * rate) * (alpha * scale)
    return like(e.where(above, x_wide * scale, below), x)


def _elu_vjp(g: Any, y: Any, x: Any, *, alpha: float, scale: float, rate: float) -> list[Any]:
    x_wide = wide(x)
    above = x_wide > 0
    slope = e.exp(e.where(above, fill(x_wide, 0), x_wide) * rate) * (alpha * scale * rate)
    return [like(wide(g) * e.where(above, fill(x_wide, scale), slope), g)]


# scale · x where x > 0, scale · alpha · (exp(rate · x) - 1) elsewhere: ELU, CELU and SELU.
elu = op("elu", _elu_rule, vjp=_elu_vjp, saves="0", decompose=_elu)


def _mish_turn(x: Any) -> Any:
    return e.tanh(e.logaddexp(x, fill(x, 0)))


def _mish_derivative(x: Any) -> Any:
    turn = _mish_turn(x)
    return turn + x * (1 - turn * turn) * _gate(x)


mish = op(
    "mish",
    rules.real_floats,
    vjp=_factor(_mish_derivative),
    saves="0",
    decompose=_widened(lambda x: x * _mish_turn(x)),
    promotion="float",
)


def _hard_sigmoid(x: Any) -> Any:
    return e.minimum(e.maximum(x + 3, fill(x, 0)), fill(x, 6)) / 6


def _hard_swish_derivative(x: Any) -> Any:
    # Comparisons with NaN are false, so it takes the slope that it is in.
    inside = e.where(x >= 3, fill(x, 1), x * (1 / 3) + 0.5)
    return e.where(x <= -3, fill(x, 0), inside)


hard_swish = op(
    "hard_swish",
    rules.real_floats,
    vjp=_factor(_hard_swish_derivative),
    saves="0",
    decompose=_widened(lambda x: x * _hard_sigmoid(x)),
    promotion="float",
)


# Softmax along one axis, shifted by its maximum so that no exponential overflows.
def _softmax_rule(x: Spec, *, axis: int) -> Spec:
    rules.check_axes(x, (axis,))
    return rules.real_floats(x)


def _shifted(x: Any, axis: int) -> Any:
    return x - spread(r.max(x, axes=(axis,)), x, (axis,))


def _total(x: Any, axis: int) -> Any:
    return spread(r.sum(x, axes=(axis,), dtype=x.dtype), x, (axis,))


def _softmax(x: Any, *, axis: int) -> Any:
    powers = e.exp(_shifted(wide(x), axis))
    return like(powers / _total(powers, axis), x)


def _log_softmax(x: Any, *, axis: int) -> Any:
    shifted = _shifted(wide(x), axis)
    return like(shifted - e.log(_total(e.exp(shifted), axis)), x)


def _softmax_vjp(g: Any, y: Any, x: Any, *, axis: int) -> list[Any]:
    g_wide, y_wide = wide(g), wide(y)
    part = g_wide * y_wide
    return [like(part - y_wide * _total(part, axis), g)]


def _log_softmax_vjp(g: Any, y: Any, x: Any, *, axis: int) -> list[Any]:
    g_wide = wide(g)
    return [like(g_wide - e.exp(wide(y)) * _total(g_wide, axis), g)]


softmax = op(
    "softmax",
    _softmax_rule,
    vjp=_softmax_vjp,
    saves="y",
    decompose=_softmax,
    autocast="float32",
)
log_softmax = op(
    "log_softmax",
    _softmax_rule,
    vjp=_log_softmax_vjp,
    saves="y",
    decompose=_log_softmax,
    autocast="float32",
)


# Norms: every one of them is a standardization over its own axes, or an RMS norm.
def _standardize_rule(x: Spec, *, axes: Axes, eps: float) -> tuple[Spec, Spec, Spec]:
    rules.real_floats(x)
    moment = rules.without_axes(x, axes, wide_type(x.dtype))
    return x, moment, moment


def _mean(x: Any, axes: Axes) -> Any:
    return r.sum(x, axes=axes, dtype=x.dtype) / float(_count(x, axes))


def _count(x: Any, axes: Axes) -> int:
    count: int = math.prod(x.shape[a] for a in axes)
    return max(1, count)


def _standardize(x: Any, *, axes: Axes, eps: float) -> tuple[Any, Any, Any]:
    x_wide = wide(x)
    mean = _mean(x_wide, axes)
    centred = x_wide - spread(mean, x, axes)
    variance = _mean(centred * centred, axes)
    # Where squares overflow there is no deviation, and nothing that is standardized by it.
    rate = 1 / e.sqrt(variance + eps) + (variance - variance)
    return like(centred * spread(rate, x, axes), x), mean, variance


def _standardize_vjp(g: Any, outputs: Any, x: Any, *, axes: Axes, eps: float) -> list[Any]:
    # With y = (x - mean) / deviation, all that is not along g or y is constant over the axes.
    y, _, variance = outputs
    g_y, g_mean, g_variance = wide(g[0]), g[1], g[2]
    y_wide = wide(y)
    deviation = e.sqrt(variance + eps)
    rate = 1 / deviation
    share = 1 / _count(x, axes)
    constant = g_mean * share - rate * _mean(g_y, axes)
    along = g_variance * deviation * (2 * share) - rate * _mean(g_y * y_wide, axes)
    total = (
        g_y * spread(rate, x, axes) + y_wide * spread(along, x, axes) + spread(constant, x, axes)
    )
    return [like(total, x)]


# Outputs: (x - mean) / sqrt(variance + eps), the mean and the (biased) variance over the axes.
standardize = op(
    "standardize", _standardize_rule, vjp=_standardize_vjp, saves="y", decompose=_standardize
)


def _rms_rule(x: Spec, *, axes: Axes, eps: float) -> tuple[Spec, Spec]:
    rules.real_floats(x)
    return x, rules.without_axes(x, axes, wide_type(x.dtype))


def _rms_norm(x: Any, *, axes: Axes, eps: float) -> tuple[Any, Any]:
    x_wide = wide(x)
    square = _mean(x_wide * x_wide, axes)
    return like(x_wide * spread(1 / e.sqrt(square + eps), x, axes), x), square


def _rms_vjp(g: Any, outputs: Any, x: Any, *, axes: Axes, eps: float) -> list[Any]:
    y, square = outputs
    g_y, y_wide = wide(g[0]), wide(y)
    size = e.sqrt(square + eps)
    rate = 1 / size
    along = g[1] * size * (2 / _count(x, axes)) - rate * _mean(g_y * y_wide, axes)
    return [like(g_y * spread(rate, x, axes) + y_wide * spread(along, x, axes), x)]


# Outputs: x / sqrt(square + eps), and the mean square over the axes.
rms_norm = op("rms_norm", _rms_rule, vjp=_rms_vjp, saves="y", decompose=_rms_norm)


# Binary cross-entropy of probabilities, with logarithms that end at -100.
_LEAST_LOG = -100.0


def _clamped_log(x: Any) -> Any:
    return e.maximum(e.log(x), fill(x, _LEAST_LOG))


def _cross_entropy(x: Any, target: Any) -> Any:
    p, t = wide(x), wide(target)
    return like(-(t * _clamped_log(p) + (1 - t) * _clamped_log(1 - p)), x)


def _cross_entropy_for_x(g: Any, y: Any, x: Any, target: Any) -> Any:
    p, t = wide(x), wide(target)
    spread_out = e.maximum(p * (1 - p), fill(p, 1e-12))
    return like(wide(g) * (p - t) / spread_out, x)


def _cross_entropy_for_target(g: Any, y: Any, x: Any, target: Any) -> Any:
    p = wide(x)
    return like(wide(g) * (_clamped_log(1 - p) - _clamped_log(p)), target)


binary_cross_entropy = op(
    "binary_cross_entropy",
    rules.real_floats,
    vjp=(_cross_entropy_for_x, _cross_entropy_for_target),
    saves=("01", "0"),
    decompose=_cross_entropy,
    promotion="float",
    autocast="float32",
)
