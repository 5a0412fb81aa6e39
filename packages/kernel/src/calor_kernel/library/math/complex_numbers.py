"""Functions of complex numbers: division, roots, exponentials, logarithms, powers.

Requirements: a number is its real and its imaginary part. Errors are within 4 ulp of a result's
size; those of a power z**w grow with the size of w · log z. Overflow of squares is avoided. The
signs of zeros choose the side of a branch cut, and infinities and NaN give the results of C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from calor_kernel.language import Number, bitcast, constant, fma, select, sqrt
from calor_kernel.library.math.base import (
    INFINITY,
    NAN,
    Format,
    Pair,
    exactly,
    fast_two_sum,
    format_of,
    power_of_two,
    sign_as,
    two_product,
    two_sum,
)
from calor_kernel.library.math.circular import sin, sincos
from calor_kernel.library.math.exponential import exp as real_exp
from calor_kernel.library.math.exponential import expm1 as real_expm1
from calor_kernel.library.math.inverse_circular import atan2
from calor_kernel.library.math.logarithm import log_of_sum
from calor_kernel.library.math.plane import hypot

Complex = tuple[Number, Number]
Function = Callable[[Complex], Complex]

_LOG2_E: Final = 1.4426950408889634
_LOG10_E: Final = 0.4342944819032518


def larger(a: Number, b: Number) -> Number:
    """Return the larger of two numbers that are not NaN."""
    return select(a > b, a, b)


def finite(x: Number) -> Number:
    """Return whether x is neither infinite nor NaN."""
    return abs(x) < INFINITY


def exponent_of(size: Number, form: Format) -> Number:
    """Return an integer n with 2**n close to the size, in the exponent range of normal numbers."""
    n = (bitcast(size, form.signed) >> form.fraction) - form.bias
    n = select(n > form.bias - 1, form.bias - 1, n)
    return select(n < 2 - form.bias, 2 - form.bias, n)


def scaled_by(z: Complex, n: Number, form: Format) -> Complex:
    """Return z · 2**n with parts rounded once."""
    half = n >> 1
    first, second = power_of_two(half, form), power_of_two(n - half, form)
    return z[0] * first * second, z[1] * first * second


@exactly
def divide(z: Complex, w: Complex) -> Complex:
    """Return z / w; both are scaled near 1, so that no square over- or underflows."""
    form = format_of(z[0])
    up = exponent_of(larger(abs(z[0]), abs(z[1])), form)
    down = exponent_of(larger(abs(w[0]), abs(w[1])), form)
    a, b = scaled_by(z, -up, form)
    c, d = scaled_by(w, -down, form)
    size = fma(c, c, d * d)
    # The two products of a part may cancel, so their rounding errors are kept.
    ratio = (_products(a, c, b, d) / size, _products(b, c, -a, d) / size)
    return scaled_by(ratio, up - down, form)


def _products(a: Number, b: Number, c: Number, d: Number) -> Number:
    """Return a · b + c · d within 1.5 ulp (Kahan)."""
    product = c * d
    return fma(a, b, product) + fma(c, d, -product)


@exactly
def sign(z: Complex) -> Complex:
    """Return z / |z|, and 0 at 0."""
    form = format_of(z[0])
    nothing = constant(0.0, z[0].dtype, z[0].width)
    a, b = scaled_by(z, -exponent_of(larger(abs(z[0]), abs(z[1])), form), form)
    size = hypot(a, b)
    zero = size == 0.0
    return select(zero, nothing, a / size), select(zero, nothing, b / size)


@exactly
def root(z: Complex) -> Complex:
    """Return the square root with a real part that is not negative."""
    form = format_of(z[0])
    n = exponent_of(larger(abs(z[0]), abs(z[1])), form) >> 1
    a, b = scaled_by(z, -(n + n), form)
    main = sqrt((abs(a) + hypot(a, b)) * 0.5)
    zero = main == 0.0
    other = select(zero, abs(b), abs(b) / (main + main))
    right = a >= 0.0
    real, imag = select(right, main, other), select(right, other, main)
    real, imag = scaled_by((real, imag), n, form)
    endless = abs(z[1]) == INFINITY
    real, imag = select(endless, INFINITY, real), select(endless, INFINITY, imag)
    return real, sign_as(abs(imag), z[1])


@exactly
def exp(z: Complex) -> Complex:
    """Return e**z."""
    a, b = z
    size = real_exp(a)
    sine, cosine = sincos(b)
    # At 0 no direction matters; on the real axis the result is real.
    vanishes = a == -INFINITY
    nothing = constant(0.0, a.dtype, a.width)
    # The size is infinite and the direction is unknown.
    lost = (a == INFINITY) & ~finite(b)
    real = select(vanishes, nothing, select(lost, size, size * cosine))
    imag = select(vanishes, nothing, size * sine)
    return select(b == 0.0, size, real), select(b == 0.0, b, imag)


@exactly
def expm1(z: Complex) -> Complex:
    """Return e**z − 1, with full precision near 0."""
    a, b = z
    sine, cosine = sincos(b)
    half = sin(b * 0.5)
    along = real_expm1(a) + 0.0
    real = along * cosine - half * half * 2.0
    imag = real_exp(a) * sine
    axis, ends = b == 0.0, (abs(a) == INFINITY) & ~finite(b)
    nothing = constant(0.0, a.dtype, a.width)
    imag = select((a == -INFINITY) & ends, nothing, imag)
    return select(axis | ends, along, real), select(axis, b, imag)


def _log_size(longer: Number, less: Number, more: Number, shorter: Number) -> Number:
    """Return log √(longer² + shorter²); less is longer − 1 and more longer + 1, nearly exact.

    Near 1 it is the logarithm of 1 + less · more + shorter², which keeps the digits.
    """
    form = format_of(longer)
    size = hypot(longer, shorter)
    near = (size > 0.5) & (size < 2.0)
    one = constant(1.0, longer.dtype, longer.width)
    product, error = two_product(select(near, less, 0.0 * one), select(near, more, 0.0 * one))
    square, rest = two_product(select(near, shorter, 0.0 * one), select(near, shorter, 0.0 * one))
    w, lost = two_sum(product, square)
    total, left = two_sum(one, w)
    total, left = fast_two_sum(total, left + (lost + (error + rest)))
    result = log_of_sum(select(near, total, size), select(near, left, 0.0 * one), form)
    return select(near, result * 0.5, result)


def _ordered(a: Number, b: Number) -> Pair:
    a, b = abs(a), abs(b)
    return select(a > b, a, b), select(a > b, b, a)


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
    less, more = select(flat, a, longer - 1.0), select(flat, a + 2.0, longer + 1.0)
    return _log_size(longer, less, more, shorter), atan2(b, moved)


@exactly
def log2(z: Complex) -> Complex:
    """Return the logarithm to the base 2."""
    a, b = log(z)
    return a * _LOG2_E, b * _LOG2_E


@exactly
def log10(z: Complex) -> Complex:
    """Return the logarithm to the base 10."""
    a, b = log(z)
    return a * _LOG10_E, b * _LOG10_E


@exactly
def power(z: Complex, w: Complex) -> Complex:
    """Return z to the power of w: exp(w · log z), and z⁰ = 1.

    0 to a power with a positive real part is 0, to another power NaN.
    """
    size, angle = log(z)
    c, d = w
    made = exp((_products(c, size, -d, angle), _products(c, angle, d, size)))
    zero = (z[0] == 0.0) & (z[1] == 0.0)
    nothing = constant(0.0, c.dtype, c.width)
    at_zero = select(c > 0.0, nothing, NAN)
    constant_ = (c == 0.0) & (d == 0.0)
    real = select(constant_, 1.0, select(zero, at_zero, made[0]))
    return real, select(constant_, nothing, select(zero, at_zero, made[1]))
