"""Circular and hyperbolic functions of complex numbers, and their inverses.

Requirements: as for the other complex functions; each circular function is its hyperbolic one of
the turned number. The inverses are Kahan's ("Branch cuts for complex elementary functions", 1987),
which lose nothing near the cuts and choose their sides by the signs of zeros.
"""

from __future__ import annotations

from typing import Final

from calor_kernel.language import Number, constant, fma, select, sqrt
from calor_kernel.library.math.base import exactly, format_of, sign_as
from calor_kernel.library.math.circular import sincos
from calor_kernel.library.math.circular import tan as real_tan
from calor_kernel.library.math.complex_numbers import Complex
from calor_kernel.library.math.complex_numbers import root as complex_root
from calor_kernel.library.math.exponential import exp
from calor_kernel.library.math.hyperbolic import asinh as real_asinh
from calor_kernel.library.math.hyperbolic import sinhcosh
from calor_kernel.library.math.inverse_circular import atan2
from calor_kernel.library.math.logarithm import log1p

# Beyond, tanh is ±1 but for a small imaginary part.
_FLAT: Final = (11.0, 22.0)


def _turned(z: Complex) -> Complex:
    """Return i · z."""
    return -z[1], z[0]


def _back(z: Complex) -> Complex:
    """Return −i · z."""
    return z[1], -z[0]


def _times(zero: Number, size: Number) -> Number:
    """Return the product, and nothing where the first is 0, however large the second."""
    return select(zero == 0.0, zero, zero * size)


@exactly
def sinh(z: Complex) -> Complex:
    """Return the hyperbolic sine."""
    (s, c), (sine, cosine) = sinhcosh(z[0]), sincos(z[1])
    return _times(s, cosine), _times(sine, c)


@exactly
def cosh(z: Complex) -> Complex:
    """Return the hyperbolic cosine."""
    (s, c), (sine, cosine) = sinhcosh(z[0]), sincos(z[1])
    imag = select(s == 0.0, s * sign_as(constant(1.0, s.dtype, s.width), sine), _times(sine, s))
    return c * cosine, imag


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
    real = select(far, constant(1.0, a.dtype, a.width), real)
    return sign_as(real, a), select(far, small, t / under)


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


def _roots(z: Complex) -> tuple[Complex, Complex]:
    """Return √(1 − z) and √(1 + z)."""
    a, b = z
    return complex_root((1.0 - a, -b)), complex_root((1.0 + a, b))


@exactly
def asin(z: Complex) -> Complex:
    """Return the arc sine."""
    low, high = _roots(z)
    real = atan2(z[0], low[0] * high[0] - low[1] * high[1])
    return real, real_asinh(low[0] * high[1] - low[1] * high[0])


@exactly
def acos(z: Complex) -> Complex:
    """Return the arc cosine."""
    low, high = _roots(z)
    return atan2(low[0], high[0]) * 2.0, real_asinh(high[0] * low[1] - high[1] * low[0])


@exactly
def acosh(z: Complex) -> Complex:
    """Return the inverse hyperbolic cosine, with a real part that is not negative."""
    low = complex_root((z[0] - 1.0, z[1]))
    high = complex_root((z[0] + 1.0, z[1]))
    return real_asinh(low[0] * high[0] + low[1] * high[1]), atan2(low[1], high[0]) * 2.0


@exactly
def atanh(z: Complex) -> Complex:
    """Return the inverse hyperbolic tangent."""
    a, b = z
    size = abs(a)
    less, more = 1.0 - size, 1.0 + size
    # Of a positive argument the logarithm enlarges no error.
    real = sign_as(log1p(size * 4.0 / fma(less, less, b * b)) * 0.25, a)
    return real, atan2(b * 2.0, fma(less, more, -(b * b))) * 0.5


@exactly
def asinh(z: Complex) -> Complex:
    """Return the inverse hyperbolic sine."""
    return _back(asin(_turned(z)))


@exactly
def atan(z: Complex) -> Complex:
    """Return the arc tangent."""
    return _back(atanh(_turned(z)))
