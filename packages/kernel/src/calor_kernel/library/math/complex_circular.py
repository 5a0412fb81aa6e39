"""Circular and hyperbolic functions of complex numbers, and their inverses.

Requirements: as for the other complex functions. Each circular function is its hyperbolic one of i
· z. The inverses are Kahan's ("Branch cuts for complex elementary functions", 1987): they keep full
precision near the cuts and choose sides by the signs of zeros. If a part is infinite or NaN the
results are those of C (C11, Annex G).
"""

from __future__ import annotations

from math import pi
from typing import Final

from calor_kernel.language import Number, constant, fma, select, sqrt
from calor_kernel.library.math.base import INFINITY, above, exactly, format_of, sign_as
from calor_kernel.library.math.circular import sincos
from calor_kernel.library.math.circular import tan as real_tan
from calor_kernel.library.math.complex_numbers import Complex, finite
from calor_kernel.library.math.complex_numbers import root as complex_root
from calor_kernel.library.math.exponential import exp
from calor_kernel.library.math.hyperbolic import asinh as real_asinh
from calor_kernel.library.math.hyperbolic import sinhcosh
from calor_kernel.library.math.inverse_circular import atan2
from calor_kernel.library.math.logarithm import log1p

# Beyond, tanh is ±1, apart from a small imaginary part.
_FLAT: Final = (11.0, 22.0)


def _turned(z: Complex) -> Complex:
    """Return i · z."""
    return -z[1], z[0]


def _back(z: Complex) -> Complex:
    """Return −i · z."""
    return z[1], -z[0]


def _times(zero: Number, size: Number) -> Number:
    """Return the product, and 0 if the first factor is 0, however large the second."""
    return select(zero == 0.0, zero, zero * size)


@exactly
def sinh(z: Complex) -> Complex:
    """Return the hyperbolic sine."""
    (s, c), (sine, cosine) = sinhcosh(z[0]), sincos(z[1])
    lost = (abs(z[0]) == INFINITY) & ~finite(z[1])
    return select(lost, s, _times(s, cosine)), _times(sine, c)


@exactly
def cosh(z: Complex) -> Complex:
    """Return the hyperbolic cosine."""
    (s, c), (sine, cosine) = sinhcosh(z[0]), sincos(z[1])
    imag = select(s == 0.0, s * sign_as(constant(1.0, s.dtype, s.width), sine), _times(sine, s))
    lost = (abs(z[0]) == INFINITY) & ~finite(z[1])
    return select(lost, c, c * cosine), imag


@exactly
def tanh(z: Complex) -> Complex:
    """Return the hyperbolic tangent."""
    a, b = z
    limit = _FLAT[format_of(a).number]
    far = abs(a) > limit
    size = select(far, limit, abs(a))
    s, _ = sinhcosh(size)
    t = real_tan(b)
    steep = fma(t, t, 1.0)
    under = fma(steep * s, s, 1.0)
    real = steep * sqrt(fma(s, s, 1.0)) * s / under
    sine, cosine = sincos(b)
    small = sine * cosine * 4.0 * exp(abs(a) * -2.0)
    endless = abs(a) == INFINITY
    nothing = constant(0.0, a.dtype, a.width)
    real = select(far & (finite(b) | endless), 1.0, select(a == 0.0, nothing, real))
    small = select(endless, sign_as(nothing, b), small)
    return sign_as(real, a), select(b == 0.0, b, select(far, small, t / under))


@exactly
def sin(z: Complex) -> Complex:
    """Return the sine."""
    return _back(sinh(_turned(z)))


@exactly
def cos(z: Complex) -> Complex:
    """Return the cosine."""
    return cosh(_turned(z))


@exactly
def tan(z: Complex) -> Complex:
    """Return the tangent."""
    return _back(tanh(_turned(z)))


def _endless(z: Complex) -> Number:
    """Return whether a part is infinite; such a number is a direction."""
    return (abs(z[0]) == INFINITY) | (abs(z[1]) == INFINITY)


def _upright(z: Complex, angle: Number) -> Number:
    """Return the angle, and π/2 if the real part is 0 and the imaginary part is NaN."""
    return select((z[0] == 0.0) & (z[1] != z[1]), pi / 2, angle)


def _infinite(x: Number) -> Number:
    """Return infinity with the sign of x."""
    return sign_as(constant(INFINITY, x.dtype, x.width), x)


def _roots(z: Complex) -> tuple[Complex, Complex]:
    """Return √(1 − z) and √(1 + z)."""
    a, b = z
    return complex_root((1.0 - a, -b)), complex_root((1.0 + a, b))


@exactly
def asin(z: Complex) -> Complex:
    """Return the arc sine."""
    low, high = _roots(z)
    real = atan2(z[0], low[0] * high[0] - low[1] * high[1])
    imag = real_asinh(low[0] * high[1] - low[1] * high[0])
    endless = _endless(z)
    real = select(z[0] == 0.0, z[0], select(endless, atan2(z[0], abs(z[1])), real))
    return real, select(endless, _infinite(z[1]), imag)


@exactly
def acos(z: Complex) -> Complex:
    """Return the arc cosine."""
    low, high = _roots(z)
    imag = real_asinh(high[0] * low[1] - high[1] * low[0])
    endless = _endless(z)
    angle = select(endless, atan2(abs(z[1]), z[0]), atan2(low[0], high[0]) * 2.0)
    return _upright(z, angle), select(endless, _infinite(-z[1]), imag)


@exactly
def acosh(z: Complex) -> Complex:
    """Return the inverse hyperbolic cosine, with a real part that is not negative."""
    low = complex_root((z[0] - 1.0, z[1]))
    high = complex_root((z[0] + 1.0, z[1]))
    real = real_asinh(low[0] * high[0] + low[1] * high[1])
    endless = _endless(z)
    angle = select(endless, atan2(z[1], z[0]), atan2(low[1], high[0]) * 2.0)
    return select(endless, INFINITY, real), _upright(z, angle)


@exactly
def atanh(z: Complex) -> Complex:
    """Return the inverse hyperbolic tangent."""
    a, b = z
    # For larger numbers the limit avoids overflow of squares, and the result is ±πi/2 anyway.
    limit = 2.0 ** (format_of(a).bias // 2 - 2)
    size, height = above(abs(a), limit), above(abs(b), limit)
    less, more = 1.0 - size, 1.0 + size
    # For a positive argument the logarithm amplifies no error.
    real = log1p(size * 4.0 / fma(less, less, height * height)) * 0.25
    nothing = constant(0.0, a.dtype, a.width)
    real = sign_as(select(_endless(z) | (a == 0.0), nothing, real), a)
    imag = atan2(height * 2.0, fma(less, more, -(height * height))) * 0.5
    return real, sign_as(select(abs(b) == INFINITY, pi / 2, imag), b)


@exactly
def asinh(z: Complex) -> Complex:
    """Return the inverse hyperbolic sine."""
    return _back(asin(_turned(z)))


@exactly
def atan(z: Complex) -> Complex:
    """Return the arc tangent."""
    return _back(atanh(_turned(z)))
