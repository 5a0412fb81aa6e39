"""Functions of complex numbers: arithmetic, exponentials, circular and hyperbolic functions.

Requirements: a number is its real and its imaginary part. Errors are within 4 ulp of a result's
size; those of a power z**w grow with the size of w · log z. Overflow of squares is avoided. The
signs of zeros choose the side of a branch cut, and infinities and NaN give the results of C (C11,
Annex G). Each circular function is its hyperbolic one of i · z. The inverses are Kahan's ("Branch
cuts for complex elementary functions", 1987), which keep full precision near the cuts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Final

from calor_kernel import language as kl
from calor_kernel.library.math import base, circular, exponential, hyperbolic
from calor_kernel.library.math.base import Format, Pair, exactly
from calor_kernel.library.math.circular import atan2, sincos
from calor_kernel.library.math.exponential import log_of_sum
from calor_kernel.library.math.hyperbolic import sinhcosh
from calor_kernel.library.math.power import hypot

Complex = tuple[kl.Number, kl.Number]
Function = Callable[[Complex], Complex]


def larger(a: kl.Number, b: kl.Number) -> kl.Number:
    """Return the larger of two numbers that are not NaN."""
    return kl.select(a > b, a, b)


def finite(x: kl.Number) -> kl.Number:
    """Return whether x is neither infinite nor NaN."""
    return abs(x) < base.INFINITY


def exponent_of(size: kl.Number, form: Format) -> kl.Number:
    """Return an integer n with 2**n close to the size, in the exponent range of normal numbers."""
    n = (kl.bitcast(size, form.signed) >> form.fraction) - form.bias
    n = kl.select(n > form.bias - 1, form.bias - 1, n)
    return kl.select(n < 2 - form.bias, 2 - form.bias, n)


def scaled_by(z: Complex, n: kl.Number, form: Format) -> Complex:
    """Return z · 2**n with parts rounded once."""
    half = n >> 1
    first, second = base.power_of_two(half, form), base.power_of_two(n - half, form)
    return z[0] * first * second, z[1] * first * second


@exactly
def divide(z: Complex, w: Complex) -> Complex:
    """Return z / w; both are scaled near 1, so that no square over- or underflows."""
    form = base.format_of(z[0])
    up = exponent_of(larger(abs(z[0]), abs(z[1])), form)
    down = exponent_of(larger(abs(w[0]), abs(w[1])), form)
    a, b = scaled_by(z, -up, form)
    c, d = scaled_by(w, -down, form)
    size = kl.fma(c, c, d * d)
    # The two products of a part may cancel, so their rounding errors are kept.
    ratio = (_products(a, c, b, d) / size, _products(b, c, -a, d) / size)
    return scaled_by(ratio, up - down, form)


def _products(a: kl.Number, b: kl.Number, c: kl.Number, d: kl.Number) -> kl.Number:
    """Return a · b + c · d within 1.5 ulp (Kahan)."""
    product = c * d
    return kl.fma(a, b, product) + kl.fma(c, d, -product)


@exactly
def sign(z: Complex) -> Complex:
    """Return z / |z|, and 0 at 0."""
    form = base.format_of(z[0])
    nothing = kl.constant(0.0, z[0].dtype, z[0].width)
    a, b = scaled_by(z, -exponent_of(larger(abs(z[0]), abs(z[1])), form), form)
    size = hypot(a, b)
    zero = size == 0.0
    return kl.select(zero, nothing, a / size), kl.select(zero, nothing, b / size)


@exactly
def root(z: Complex) -> Complex:
    """Return the square root with a real part that is not negative."""
    form = base.format_of(z[0])
    n = exponent_of(larger(abs(z[0]), abs(z[1])), form) >> 1
    a, b = scaled_by(z, -(n + n), form)
    main = kl.sqrt((abs(a) + hypot(a, b)) * 0.5)
    zero = main == 0.0
    other = kl.select(zero, abs(b), abs(b) / (main + main))
    right = a >= 0.0
    real, imag = kl.select(right, main, other), kl.select(right, other, main)
    real, imag = scaled_by((real, imag), n, form)
    endless = abs(z[1]) == base.INFINITY
    real, imag = kl.select(endless, base.INFINITY, real), kl.select(endless, base.INFINITY, imag)
    return real, base.sign_as(abs(imag), z[1])


@exactly
def exp(z: Complex) -> Complex:
    """Return e**z."""
    a, b = z
    size = exponential.exp(a)
    sine, cosine = sincos(b)
    # At 0 no direction matters; on the real axis the result is real.
    vanishes = a == -base.INFINITY
    nothing = kl.constant(0.0, a.dtype, a.width)
    # The size is infinite and the direction is unknown.
    lost = (a == base.INFINITY) & ~finite(b)
    real = kl.select(vanishes, nothing, kl.select(lost, size, size * cosine))
    imag = kl.select(vanishes, nothing, size * sine)
    return kl.select(b == 0.0, size, real), kl.select(b == 0.0, b, imag)


@exactly
def expm1(z: Complex) -> Complex:
    """Return e**z − 1, with full precision near 0."""
    a, b = z
    sine, cosine = sincos(b)
    half = circular.sin(b * 0.5)
    along = exponential.expm1(a) + 0.0
    real = along * cosine - half * half * 2.0
    imag = exponential.exp(a) * sine
    axis, ends = b == 0.0, (abs(a) == base.INFINITY) & ~finite(b)
    nothing = kl.constant(0.0, a.dtype, a.width)
    imag = kl.select((a == -base.INFINITY) & ends, nothing, imag)
    return kl.select(axis | ends, along, real), kl.select(axis, b, imag)


def _log_size(longer: kl.Number, less: kl.Number, more: kl.Number, shorter: kl.Number) -> kl.Number:
    """Return log √(longer² + shorter²); less is longer − 1 and more longer + 1, nearly exact.

    Near 1 it is the logarithm of 1 + less · more + shorter², which keeps the digits.
    """
    form = base.format_of(longer)
    size = hypot(longer, shorter)
    near = (size > 0.5) & (size < 2.0)
    one = kl.constant(1.0, longer.dtype, longer.width)
    product, error = base.two_product(
        kl.select(near, less, 0.0 * one), kl.select(near, more, 0.0 * one)
    )
    square, rest = base.two_product(
        kl.select(near, shorter, 0.0 * one), kl.select(near, shorter, 0.0 * one)
    )
    w, lost = base.two_sum(product, square)
    total, left = base.two_sum(one, w)
    total, left = base.fast_two_sum(total, left + (lost + (error + rest)))
    result = log_of_sum(kl.select(near, total, size), kl.select(near, left, 0.0 * one), form)
    return kl.select(near, result * 0.5, result)


def _ordered(a: kl.Number, b: kl.Number) -> Pair:
    a, b = abs(a), abs(b)
    return kl.select(a > b, a, b), kl.select(a > b, b, a)


@exactly
def log(z: Complex) -> Complex:
    """Return the logarithm with an imaginary part in [−π, π]."""
    longer, shorter = _ordered(*z)
    return _log_size(longer, longer - 1.0, longer + 1.0, shorter), atan2(z[1], z[0])


@exactly
def log1p(z: Complex) -> Complex:
    """Return log(1 + z), with full precision near 0."""
    a, b = z
    moved = a + 1.0
    flat = abs(moved) >= abs(b)
    longer, shorter = _ordered(moved, b)
    # |1 + a|² − 1 = a (2 + a)
    less, more = kl.select(flat, a, longer - 1.0), kl.select(flat, a + 2.0, longer + 1.0)
    return _log_size(longer, less, more, shorter), atan2(b, moved)


def _scaled_log(factor: float) -> Function:
    @exactly
    def logarithm(z: Complex) -> Complex:
        size, angle = log(z)
        return size * factor, angle * factor

    return logarithm


log2, log10 = _scaled_log(1.4426950408889634), _scaled_log(0.4342944819032518)


@exactly
def power(z: Complex, w: Complex) -> Complex:
    """Return z to the power of w: exp(w · log z), and z⁰ = 1.

    0 to a power with a positive real part is 0, to another power NaN.
    """
    size, angle = log(z)
    c, d = w
    made = exp((_products(c, size, -d, angle), _products(c, angle, d, size)))
    zero = (z[0] == 0.0) & (z[1] == 0.0)
    nothing = kl.constant(0.0, c.dtype, c.width)
    at_zero = kl.select(c > 0.0, nothing, base.NAN)
    constant_ = (c == 0.0) & (d == 0.0)
    real = kl.select(constant_, 1.0, kl.select(zero, at_zero, made[0]))
    return real, kl.select(constant_, nothing, kl.select(zero, at_zero, made[1]))


# Beyond, tanh is ±1, apart from a small imaginary part.
_FLAT: Final = (11.0, 22.0)


def _turned(z: Complex) -> Complex:
    """Return i · z."""
    return -z[1], z[0]


def _rotated(function: Function) -> Function:
    """Return the function of z that is −i times a function of i · z."""

    @exactly
    def rotated(z: Complex) -> Complex:
        real, imag = function(_turned(z))
        return imag, -real

    return rotated


def _times(zero: kl.Number, size: kl.Number) -> kl.Number:
    """Return the product, and 0 if the first factor is 0, however large the second."""
    return kl.select(zero == 0.0, zero, zero * size)


@exactly
def sinh(z: Complex) -> Complex:
    """Return the hyperbolic sine."""
    (s, c), (sine, cosine) = sinhcosh(z[0]), sincos(z[1])
    lost = (abs(z[0]) == base.INFINITY) & ~finite(z[1])
    return kl.select(lost, s, _times(s, cosine)), _times(sine, c)


@exactly
def cosh(z: Complex) -> Complex:
    """Return the hyperbolic cosine."""
    (s, c), (sine, cosine) = sinhcosh(z[0]), sincos(z[1])
    imag = kl.select(
        s == 0.0, s * base.sign_as(kl.constant(1.0, s.dtype, s.width), sine), _times(sine, s)
    )
    lost = (abs(z[0]) == base.INFINITY) & ~finite(z[1])
    return kl.select(lost, c, c * cosine), imag


@exactly
def tanh(z: Complex) -> Complex:
    """Return the hyperbolic tangent."""
    a, b = z
    limit = _FLAT[base.format_of(a).number]
    far = abs(a) > limit
    size = kl.select(far, limit, abs(a))
    s, _ = sinhcosh(size)
    t = circular.tan(b)
    steep = kl.fma(t, t, 1.0)
    under = kl.fma(steep * s, s, 1.0)
    real = steep * kl.sqrt(kl.fma(s, s, 1.0)) * s / under
    sine, cosine = sincos(b)
    small = sine * cosine * 4.0 * exponential.exp(abs(a) * -2.0)
    endless = abs(a) == base.INFINITY
    nothing = kl.constant(0.0, a.dtype, a.width)
    real = kl.select(far & (finite(b) | endless), 1.0, kl.select(a == 0.0, nothing, real))
    small = kl.select(endless, base.sign_as(nothing, b), small)
    return base.sign_as(real, a), kl.select(b == 0.0, b, kl.select(far, small, t / under))


@exactly
def cos(z: Complex) -> Complex:
    """Return the cosine."""
    return cosh(_turned(z))


def _endless(z: Complex) -> kl.Number:
    """Return whether a part is infinite; such a number is a direction."""
    return (abs(z[0]) == base.INFINITY) | (abs(z[1]) == base.INFINITY)


def _upright(z: Complex, angle: kl.Number) -> kl.Number:
    """Return the angle, and π/2 if the real part is 0 and the imaginary part is NaN."""
    return kl.select((z[0] == 0.0) & (z[1] != z[1]), pi / 2, angle)


def _infinite(x: kl.Number) -> kl.Number:
    """Return infinity with the sign of x."""
    return base.sign_as(kl.constant(base.INFINITY, x.dtype, x.width), x)


def _roots(z: Complex) -> tuple[Complex, Complex]:
    """Return √(1 − z) and √(1 + z)."""
    a, b = z
    return root((1.0 - a, -b)), root((1.0 + a, b))


@exactly
def asin(z: Complex) -> Complex:
    """Return the arc sine."""
    low, high = _roots(z)
    real = atan2(z[0], low[0] * high[0] - low[1] * high[1])
    imag = hyperbolic.asinh(low[0] * high[1] - low[1] * high[0])
    endless = _endless(z)
    real = kl.select(z[0] == 0.0, z[0], kl.select(endless, atan2(z[0], abs(z[1])), real))
    return real, kl.select(endless, _infinite(z[1]), imag)


@exactly
def acos(z: Complex) -> Complex:
    """Return the arc cosine."""
    low, high = _roots(z)
    imag = hyperbolic.asinh(high[0] * low[1] - high[1] * low[0])
    endless = _endless(z)
    angle = kl.select(endless, atan2(abs(z[1]), z[0]), atan2(low[0], high[0]) * 2.0)
    return _upright(z, angle), kl.select(endless, _infinite(-z[1]), imag)


@exactly
def acosh(z: Complex) -> Complex:
    """Return the inverse hyperbolic cosine, with a real part that is not negative."""
    low = root((z[0] - 1.0, z[1]))
    high = root((z[0] + 1.0, z[1]))
    real = hyperbolic.asinh(low[0] * high[0] + low[1] * high[1])
    endless = _endless(z)
    angle = kl.select(endless, atan2(z[1], z[0]), atan2(low[1], high[0]) * 2.0)
    return kl.select(endless, base.INFINITY, real), _upright(z, angle)


@exactly
def atanh(z: Complex) -> Complex:
    """Return the inverse hyperbolic tangent."""
    a, b = z
    # For larger numbers the limit avoids overflow of squares, and the result is ±πi/2 anyway.
    limit = 2.0 ** (base.format_of(a).bias // 2 - 2)
    size, height = base.above(abs(a), limit), base.above(abs(b), limit)
    less, more = 1.0 - size, 1.0 + size
    # For a positive argument the logarithm amplifies no error.
    real = exponential.log1p(size * 4.0 / kl.fma(less, less, height * height)) * 0.25
    nothing = kl.constant(0.0, a.dtype, a.width)
    real = base.sign_as(kl.select(_endless(z) | (a == 0.0), nothing, real), a)
    imag = atan2(height * 2.0, kl.fma(less, more, -(height * height))) * 0.5
    return real, base.sign_as(kl.select(abs(b) == base.INFINITY, pi / 2, imag), b)


sin, tan, asinh, atan = _rotated(sinh), _rotated(tanh), _rotated(asin), _rotated(atanh)
