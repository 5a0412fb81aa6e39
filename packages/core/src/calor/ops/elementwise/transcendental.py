"""Rows of roots, exponentials, logarithms, circular, hyperbolic and special functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calor.dtypes import float32
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.elementwise.comparison import where
from calor.ops.elementwise.conversion import cast, conjugate
from calor.ops.movement import fill
from calor.reference import elementwise as reference
from calor.reference import exponential

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trigamma",
]

# Roots, exponentials, logarithms.
sqrt: Op = op(
    "sqrt",
    rules.floats,
    np.sqrt,
    lambda g, y, x: [g / conjugate(y * 2)],
    saves="y",
    promotion="float",
)
exp: Op = op(
    "exp",
    rules.floats,
    np.exp,
    lambda g, y, x: [g * conjugate(y)],
    saves="y",
    promotion="float",
    autocast="float32",
)
exp2: Op = op(
    "exp2",
    rules.real_floats,
    np.exp2,
    lambda g, y, x: [g * y * math.log(2.0)],
    saves="y",
    promotion="float",
)
expm1: Op = op(
    "expm1",
    rules.floats,
    exponential.expm1,
    lambda g, y, x: [g * conjugate(y + 1)],
    saves="y",
    promotion="float",
    autocast="float32",
)
log: Op = op(
    "log",
    rules.floats,
    np.log,
    lambda g, y, x: [g / conjugate(x)],
    saves="0",
    promotion="float",
    autocast="float32",
)
log2: Op = op(
    "log2",
    rules.floats,
    np.log2,
    lambda g, y, x: [g / conjugate(x * math.log(2.0))],
    saves="0",
    promotion="float",
    autocast="float32",
)
log10: Op = op(
    "log10",
    rules.floats,
    np.log10,
    lambda g, y, x: [g / conjugate(x * math.log(10.0))],
    saves="0",
    promotion="float",
    autocast="float32",
)
log1p: Op = op(
    "log1p",
    rules.floats,
    exponential.log1p,
    lambda g, y, x: [g / conjugate(x + 1)],
    saves="0",
    promotion="float",
    autocast="float32",
)

# Circular and hyperbolic functions.
sin: Op = op(
    "sin",
    rules.floats,
    np.sin,
    lambda g, y, x: [g * conjugate(cos(x))],
    saves="0",
    promotion="float",
)
cos: Op = op(
    "cos",
    rules.floats,
    np.cos,
    lambda g, y, x: [-g * conjugate(sin(x))],
    saves="0",
    promotion="float",
)
tan: Op = op(
    "tan",
    rules.floats,
    np.tan,
    lambda g, y, x: [g * conjugate(y * y + 1)],
    saves="y",
    promotion="float",
    autocast="float32",
)
asin: Op = op(
    "asin",
    rules.floats,
    np.arcsin,
    lambda g, y, x: [g / conjugate(sqrt((1 - x) * (1 + x)))],
    saves="0",
    promotion="float",
    autocast="float32",
)
acos: Op = op(
    "acos",
    rules.floats,
    np.arccos,
    lambda g, y, x: [-g / conjugate(sqrt((1 - x) * (1 + x)))],
    saves="0",
    promotion="float",
    autocast="float32",
)
atan: Op = op(
    "atan",
    rules.floats,
    np.arctan,
    lambda g, y, x: [g / conjugate(x * x + 1)],
    saves="0",
    promotion="float",
)
sinh: Op = op(
    "sinh",
    rules.floats,
    np.sinh,
    lambda g, y, x: [g * conjugate(cosh(x))],
    saves="0",
    promotion="float",
    autocast="float32",
)
cosh: Op = op(
    "cosh",
    rules.floats,
    np.cosh,
    lambda g, y, x: [g * conjugate(sinh(x))],
    saves="0",
    promotion="float",
    autocast="float32",
)
tanh: Op = op(
    "tanh",
    rules.floats,
    np.tanh,
    lambda g, y, x: [g * conjugate(1 - y * y)],
    saves="y",
    promotion="float",
)
asinh: Op = op(
    "asinh",
    rules.floats,
    np.arcsinh,
    lambda g, y, x: [g / conjugate(sqrt(x * x + 1))],
    saves="0",
    promotion="float",
)
acosh: Op = op(
    "acosh",
    rules.floats,
    np.arccosh,
    lambda g, y, x: [g / conjugate(sqrt(x - 1) * sqrt(x + 1))],
    saves="0",
    promotion="float",
)
atanh: Op = op(
    "atanh",
    rules.floats,
    np.arctanh,
    lambda g, y, x: [g / conjugate((1 - x) * (1 + x))],
    saves="0",
    promotion="float",
)

# Special functions.
erf: Op = op(
    "erf",
    rules.real_floats,
    reference.erf,
    lambda g, y, x: [g * exp(-(x * x)) * (2.0 / math.sqrt(math.pi))],
    saves="0",
    promotion="float",
)
erfinv: Op = op(
    "erfinv",
    rules.real_floats,
    reference.erfinv,
    lambda g, y, x: [g * exp(y * y) * (math.sqrt(math.pi) / 2.0)],
    saves="y",
    promotion="float",
    autocast="float32",
)
lgamma: Op = op(
    "lgamma",
    rules.real_floats,
    reference.lgamma,
    lambda g, y, x: [g * digamma(x)],
    saves="0",
    promotion="float",
)
digamma: Op = op(
    "digamma",
    rules.real_floats,
    reference.digamma,
    lambda g, y, x: [_times_trigamma(g, x)],
    saves="0",
    promotion="float",
)


def _times_trigamma(g: Any, x: Any) -> Any:
    """Return g times the derivative of digamma, whose sums half types would round away."""
    if x.dtype.itemsize > 2:
        return g * trigamma(x)
    return cast(cast(g, dtype=float32) * trigamma(cast(x, dtype=float32)), dtype=g.dtype)


def trigamma(x: Any) -> Any:
    """Return the derivative of digamma as a tensor expression (shift up, asymptotic series).

    Source: Abramowitz and Stegun 6.4.11 and 6.4.6; reflection 6.4.7 for x < 0.5.
    """
    reflected = x < 0.5
    z = where(reflected, 1 - x, x)
    total = fill(z, 0)
    for _ in range(8):
        total = total + 1 / (z * z)
        z = z + 1
    w = 1 / (z * z)
    series = w * (1 / 6 - w * (1 / 30 - w * (1 / 42 - w * (1 / 30 - w * (5 / 66)))))
    total = total + (1 / z) * (1 + series) + w / 2
    turn = sin(x * math.pi)
    return where(reflected, (math.pi / turn) * (math.pi / turn) - total, total)
