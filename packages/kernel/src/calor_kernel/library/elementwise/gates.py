"""Gates of activations, and the gradients of activations from what their factors share.

Requirements: the gradient of an activation is fused into sums of rows and columns, where memory is
as fast as some thirty instructions. So a gate takes one exponential and no division, and both tails
of it keep their digits; the density and the distribution of a normal number take one exponential.
Only correctly rounded operations are used, so every device gives the same bits. Nothing diverges,
and no result is denormal: products with them are slow on many processors. Half types need shorter
polynomials: their slopes are within 2 ** −13 of the exact ones, relative to 0.05 where these are
smaller, for arguments down to −5, and the digits decrease below.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Final, NamedTuple

from calor_kernel import language as kl
from calor_kernel.library import math
from calor_kernel.library.elementwise.gelu import SHORT, short_exp2
from calor_kernel.library.math.base import above, format_of, polynomial
from calor_kernel.library.math.exponential import LOG2_E, normal_exp

# The arguments of exponentials beyond which these are 0, in float32 and in float64; and those of a
# normal number's density with the digits of half types.
_ENDS: Final = (87.0, 708.0)
_NORMAL_END: Final = 13.0
# The inverse of numbers from 1 to 2, before the steps of Newton's method.
_INVERSE: Final = (2.8284001, -2.9392943, 1.3309915, -0.22183049)
# (M(a) − a) / √(2π), where M is Mills' ratio, the tail of the distribution over its density.
_SLOPE: Final = (
    0.49995747, -0.79676116, 0.24399804, -0.11891451, 0.04433405, -0.01189972, 0.0021625005,
    -0.00024814665, 1.6055106e-05, -4.4324065e-07,
)  # fmt: skip
_SCALE: Final = sqrt(2 / pi)
_CUBE: Final = 0.044715


class Gate(NamedTuple):
    """The logistic function of x and of −x, whose sum is 1."""

    open: kl.Number
    closed: kl.Number


def gate(x: kl.Number, short: bool) -> Gate:
    """Return both tails of the logistic function; ``short``: with the digits of half types."""
    size, end = abs(x), _ENDS[format_of(x).number]
    # The exponent is never positive, so nothing overflows.
    inside = above(size, end)
    fade = short_exp2(inside * -LOG2_E, SHORT) if short else normal_exp(-inside)
    fade = kl.select(size > end, 0.0, fade)
    near = _inverse(fade + 1.0, short)
    far, positive = fade * near, x >= 0.0
    return Gate(kl.select(positive, near, far), kl.select(positive, far, near))


def _inverse(x: kl.Number, short: bool) -> kl.Number:
    """Return 1 / x for numbers from 1 to 2."""
    if format_of(x).number:
        return 1.0 / x
    inverse = polynomial(x, _INVERSE)
    for _ in range(1 if short else 2):
        inverse = kl.fma(inverse, kl.fma(-x, inverse, 1.0), inverse)
    return inverse


def silu(x: kl.Number, short: bool) -> kl.Number:
    """Return x times its gate."""
    return x * gate(x, short).open


def silu_slope(x: kl.Number, short: bool) -> kl.Number:
    """Return the derivative of :func:`silu`."""
    both = gate(x, short)
    return both.open * kl.fma(x, both.closed, 1.0)


def normal_slope(x: kl.Number, short: bool) -> kl.Number:
    """Return the derivative of x · Φ(x), where Φ is the normal distribution."""
    if short:
        size = above(abs(x), _NORMAL_END)
        density = short_exp2(size * size * (-0.5 * LOG2_E), SHORT)
        tail = density * polynomial(size, _SLOPE)
        return kl.select(x > 0.0, 1.0 - tail, tail)
    power = x * x * -0.5
    seen = power > -_ENDS[format_of(x).number]
    density = normal_exp(kl.select(seen, power, 0.0)) * (1 / sqrt(2 * pi))
    below = (math.erf(x * sqrt(0.5)) + 1.0) * 0.5
    return below + kl.select(seen, x * density, 0.0)


def tanh_slope(x: kl.Number, short: bool) -> kl.Number:
    """Return the derivative of x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2."""
    square = x * x
    # (1 + tanh(u)) / 2 is the gate of 2u.
    both = gate(kl.fma(square, _CUBE, 1.0) * x * (2 * _SCALE), short)
    change = kl.fma(square, 6 * _CUBE * _SCALE, 2 * _SCALE)
    return both.open * kl.fma(x * both.closed, change, 1.0)
