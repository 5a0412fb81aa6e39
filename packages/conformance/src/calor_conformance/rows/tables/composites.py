"""Rows of the kept composites: what each means, whole or decomposed."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import DType, bfloat16, float16, float32

from ..domains import away_from, between, chosen, normal
from ..language import REAL_FLOATS, REALS, WIDE_FLOATS, Array, Case, case, ulp
from ..oracles import erf

X = normal(3, 4)
# Gradients of results.
G = normal(3, 4)
AWAY = away_from(0, 3, 4)
NEAR = ulp(8)


def _relu(x: Array) -> Array:
    return np.where(x > 0, x, np.where(x <= 0, 0, x))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu(x: Array) -> Array:
    return np.asarray(x * (1 + erf(x * np.sqrt(x.dtype.type(0.5)))) / 2)


def _gelu_tanh(x: Array) -> Array:
    scale = np.sqrt(2 / np.arctan(x.dtype.type(1)) / 4)
    return np.asarray(x * (1 + np.tanh(scale * (x + x.dtype.type(0.044715) * x**3))) / 2)


def _silu_gradient(g: Array, x: Array) -> Array:
    return np.asarray(g * _sigmoid(x) * (1 + x * _sigmoid(-x)))


def _gelu_gradient(g: Array, x: Array) -> Array:
    half = x.dtype.type(0.5)
    density = np.exp(-x * x * half) * np.sqrt(half / (4 * np.arctan(x.dtype.type(1))))
    return np.asarray(g * ((1 + erf(x * np.sqrt(half))) * half + x * density))


def _gelu_tanh_gradient(g: Array, x: Array) -> Array:
    scale, cube = np.sqrt(2 / np.arctan(x.dtype.type(1)) / 4), x.dtype.type(0.044715)
    gate = _sigmoid(2 * scale * (x + cube * x**3))
    return np.asarray(g * gate * (1 + x * (1 - gate) * 2 * scale * (1 + 3 * cube * x * x)))


def _softplus(x: Array, *, beta: float = 1.0) -> Array:
    return np.asarray(np.logaddexp(x * x.dtype.type(beta), 0) / x.dtype.type(beta))


def _elu(x: Array, *, alpha: float, scale: float, rate: float) -> Array:
    below = alpha * np.expm1(np.minimum(x, 0) * x.dtype.type(rate))
    return np.asarray(scale * np.where(x > 0, x, below)).astype(x.dtype)


def _softmax(x: Array, *, axis: int) -> Array:
    powers = np.exp(x - np.max(x, axis, keepdims=True))
    return np.asarray(powers / np.sum(powers, axis, keepdims=True))


def _log_softmax(x: Array, *, axis: int) -> Array:
    shifted = x - np.max(x, axis, keepdims=True)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True)))


def _standardize(x: Array, *, axes: Any, eps: float) -> tuple[Array, Array, Array]:
    mean = np.mean(x, axes, keepdims=True)
    variance = np.mean((x - mean) ** 2, axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + eps)
    return y, np.squeeze(mean, axes), np.squeeze(variance, axes)


def _rms_norm(x: Array, *, axes: Any, eps: float) -> tuple[Array, Array]:
    square = np.mean(x * x, axes, keepdims=True)
    return x / np.sqrt(square + eps), np.squeeze(square, axes)


def _cross_entropy(x: Array, t: Array) -> Array:
    low = np.maximum(np.log(x), -100)
    high = np.maximum(np.log1p(0 - x), -100)
    return np.asarray(-(t * low + (1 - t) * high))


def _size(x: Array, **_: Any) -> Any:
    return np.max(np.abs(x)) + 1


def _gate_size(x: Array) -> Any:
    """The size whose eight ulp are x times a gate that may be 0: the smallest normal number."""
    limits = np.finfo(np.float64 if x.dtype == np.longdouble else np.float32)
    return np.abs(x) * (limits.tiny / (8 * limits.eps))


def _offset(x: Array, **_: Any) -> Any:
    """Digits of the size of x are lost where its mean is taken away."""
    return np.max(np.abs(x)) * 16


_SLOPE = ulp(16, scale=lambda g, x: np.abs(g))
# The parts that cancel where the slope is 0 grow with x.
_BENT_SLOPE = ulp(16, scale=lambda g, x: np.abs(g) * np.maximum(np.abs(x), 1))

_LOGITS = [[1000.0, 999.0, 998.5, -1000.0], [-2000.0, -2001.0, -np.inf, -2000.5],
           [90.0, -90.0, 89.5, 0.0]]  # fmt: skip


def _wide(dtype: DType) -> DType:
    """Moments of half types are kept in float32."""
    return float32 if dtype.itemsize == 2 else dtype


CASES: list[Case] = [
    case("relu", AWAY, oracle=_relu, dtypes=REALS),
    case("sigmoid", X, oracle=_sigmoid, dtypes=REAL_FLOATS, tol=NEAR),
    case("silu", X, oracle=lambda x: x * _sigmoid(x), dtypes=REAL_FLOATS,
         tol=ulp(8, scale=_gate_size)),
    case("gelu", X, oracle=_gelu, dtypes=REAL_FLOATS, tol=ulp(8, scale=lambda x: np.abs(x))),
    case("gelu_tanh", X, oracle=_gelu_tanh, dtypes=REAL_FLOATS,
         tol=ulp(8, scale=lambda x: np.abs(x))),
    case("silu_gradient", G, X, oracle=_silu_gradient, dtypes=REAL_FLOATS, tol=_SLOPE),
    case("gelu_gradient", G, X, oracle=_gelu_gradient, dtypes=REAL_FLOATS, tol=_SLOPE),
    case("gelu_tanh_gradient", G, X, oracle=_gelu_tanh_gradient, dtypes=REAL_FLOATS,
         tol=_BENT_SLOPE),
    *(
        case("softplus", X, beta=beta, oracle=_softplus, dtypes=REAL_FLOATS, name=str(beta),
             tol=ulp(8, scale=lambda x, **_: np.abs(x) + 1))
        for beta in (1.0, 2.5)
    ),
    *(
        case("elu", X, alpha=alpha, scale=scale, rate=rate, oracle=_elu, dtypes=REAL_FLOATS,
             name=name, tol=ulp(8, scale=lambda x, **_: np.abs(x)))
        for name, alpha, scale, rate in (
            ("elu", 0.5, 1.0, 1.0),
            ("celu", 2.0, 1.0, 0.5),
            ("selu", 1.6732632423543772, 1.0507009873554805, 1.0),
        )
    ),
    case("mish", X, oracle=lambda x: x * np.tanh(_softplus(x)), dtypes=REAL_FLOATS,
         tol=ulp(8, scale=lambda x: np.abs(x))),
    case("hard_swish", X, oracle=lambda x: x * np.clip(x + 3, 0, 6) / 6, dtypes=REAL_FLOATS,
         tol=ulp(8, scale=lambda x: np.abs(x))),
    *(
        case(op, normal(*shape), axis=axis, oracle=oracle, dtypes=REAL_FLOATS, tol=tol,
             name=f"{list(shape)}-{axis}")
        for op, oracle, tol in [
            ("softmax", _softmax, ulp(16)),
            ("log_softmax", _log_softmax, ulp(8, scale=_size)),
        ]
        for shape, axis in [((3, 4), 1), ((3, 4), 0), ((2, 3, 2), 1), ((1,), 0)]
    ),
    *(
        case(op, normal(*shape), axes=axes, eps=eps, oracle=oracle, dtypes=REAL_FLOATS, out=out,
             tol=ulp(64, scale=lambda *_, **__: 4.0), name=f"{list(shape)}-{list(axes)}-{eps}")
        for op, oracle, out in [
            ("standardize", _standardize, lambda d: (d, _wide(d), _wide(d))),
            ("rms_norm", _rms_norm, lambda d: (d, _wide(d))),
        ]
        for shape, axes, eps in [
            ((3, 4), (1,), 1e-5),
            ((3, 4), (0, 1), 0.1),
            ((2, 3, 4), (0, 2), 0.0),
            ((2, 3, 2, 2), (2, 3), 1e-3),
        ]
    ),
    # Logits beyond what an exponential holds, some of them hidden; nothing overflows.
    *(
        case(op, chosen(_LOGITS), axis=1, oracle=oracle, dtypes=REAL_FLOATS, tol=tol, name="large",
             no_gradient="differences see the rounding of large numbers")
        for op, oracle, tol in [
            ("softmax", _softmax, ulp(64)),
            ("log_softmax", _log_softmax, ulp(8, scale=_size)),
        ]
    ),
    # A mean that is large beside the deviation: the digits of a variance in one pass cancel.
    case("standardize", between(1000.0, 1001.0, 3, 64), axes=(1,), eps=0.0, oracle=_standardize,
         dtypes=WIDE_FLOATS, tol=ulp(16, scale=_offset), name="offset",
         no_gradient="differences see the rounding of large numbers"),
    # The squares of these are beyond float16.
    *(
        case(op, between(300.0, 700.0, 3, 8), axes=(1,), eps=0.0, oracle=oracle, out=out,
             dtypes=(float16, bfloat16), tol=ulp(64, scale=lambda *_, **__: 4.0), name="squares")
        for op, oracle, out in [
            ("rms_norm", _rms_norm, lambda d: (d, float32)),
        ]
    ),
    case("binary_cross_entropy", between(0.1, 0.9, 3, 4), between(0.0, 1.0, 3, 4),
         oracle=_cross_entropy, dtypes=REAL_FLOATS,
         # The logarithm of 1 − x has the digits that 1 − x has.
         tol=ulp(8, scale=lambda x, t: np.abs(1 - t))),
]  # fmt: skip
