"""Hyperbolic functions and their inverses.

Requirements: within 1 ulp, near 0 too, and up to the overflow of the results; odd functions keep
the sign of zero. sinh and cosh use the even and the odd part of the exponential of the reduced
argument, so that nothing cancels and no reciprocal is needed. The inverses are logarithms of sums
of two numbers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from calor_kernel import language as kl
from calor_kernel.library.math import base
from calor_kernel.library.math.base import Format, Pair, exactly, within
from calor_kernel.library.math.coefficients import COSH, EXP, SINH, TANH
from calor_kernel.library.math.exponential import LOG2_E, expm1_parts, log_of_sum, reduced

# Beyond, sinh and cosh are infinite, and tanh is 1.
_ENDS: Final = (89.5, 710.5)
_TANH_ENDS: Final = (10.0, 20.0)
_NEAR: Final = 0.8  # up to here the polynomial of tanh
# n · log 2 in one number has an error of n · 2e−9; it grows where its effect shrinks.
_LOG_2: Final = 0.693147182464599609375
# Below, x ± x³ / 3 is x.
_NOTHING: Final = (2.0**-13, 2.0**-28)


class _Halves(NamedTuple):
    """A quarter of 2**n − 2**−n and of 2**n + 2**−n, with their errors, and functions of r.

    ``even``: cosh(r) − 1; ``odd``: sinh(r) − r, including the rest of r.
    """

    less: Pair
    more: Pair
    r: kl.Number
    even: kl.Number
    odd: kl.Number


def _halves(size: kl.Number, form: Format) -> _Halves:
    r, rest, n = reduced(base.above(size, _ENDS[form.number]), form)
    up = base.power_of_two(n - 2, form)
    # The other power is negligible long before it is subnormal.
    down = base.power_of_two(-2 - base.above(n, 100), form)
    z = r * r
    even = z * base.polynomial(z, COSH[form.number])
    odd = kl.fma(z * r, base.polynomial(z, SINH[form.number]), rest)
    return _Halves(base.fast_two_sum(up, -down), base.fast_two_sum(up, down), r, even, odd)


def _sum(main: Pair, other: Pair, h: _Halves) -> kl.Number:
    """Return 2 · (main · cosh(r) + other · sinh(r)) of the reduced argument."""
    product, error = base.two_product(other[0], h.r)
    total, lost = base.fast_two_sum(main[0], product)
    tail = kl.fma(main[0], h.even, kl.fma(other[0], h.odd, lost + error))
    return (total + (tail + kl.fma(other[1], h.r, main[1]))) * 2.0


@within(0.8, 0.85)
def sinh(x: kl.Number) -> kl.Number:
    """Return the hyperbolic sine, within 1 ulp."""
    return sinhcosh(x)[0]


@within(0.75, 0.75)
def cosh(x: kl.Number) -> kl.Number:
    """Return the hyperbolic cosine, within 1 ulp."""
    return sinhcosh(x)[1]


@exactly
def sinhcosh(x: kl.Number) -> tuple[kl.Number, kl.Number]:
    """Return the hyperbolic sine and cosine, each within 1 ulp."""
    form = base.format_of(x)
    h = _halves(abs(x), form)
    sine = base.sign_as(_sum(h.less, h.more, h), x)
    return kl.select(abs(x) < _NOTHING[form.number], x, sine), _sum(h.more, h.less, h)


@within(1.1, 0.9)
def tanh(x: kl.Number) -> kl.Number:
    """Return the hyperbolic tangent, within 1 ulp."""
    form = base.format_of(x)
    size = base.above(abs(x), _TANH_ENDS[form.number])
    result = _tanh32(size, form) if form.fraction == 23 else _tanh64(size, form)
    return base.sign_as(result, x)


def _tanh32(size: kl.Number, form: Format) -> kl.Number:
    """Return a polynomial near 0, and beyond 1 − 2 / (exp(2x) + 1), which is more accurate there.

    It needs no second number for the remainder of 2x.
    """
    z = size * size
    near = kl.fma(size * z, base.polynomial(z, TANH[0]), size)
    # 2x = n · log 2 + r, with n − 1 + bias in the low bits of the total.
    double = size + size
    magic = form.magic + (form.bias - 1)
    total = kl.fma(double, LOG2_E, magic)
    n = total - magic
    r = kl.fma(n, -_LOG_2, double)
    half = kl.bitcast(base.bits_of(total) << form.fraction, form.dtype)
    less = kl.fma(r * r, base.polynomial(r, EXP[0]), r)
    # Half of exp(2x) + 1.
    far = 1.0 - base.inverse(kl.fma(half, less, half + 0.5))
    return base.either(size < _NEAR, near, far)


def _tanh64(size: kl.Number, form: Format) -> kl.Number:
    # With t = (exp(2x) − 1) / 2 it is t / (t + 1).
    over = base.fast_two_sum(*expm1_parts(size * 2.0, form))
    under, lost = base.two_sum(over[0], 1.0)
    first, rest = base.ratio(over, (under, lost + over[1]))
    return first + rest


# Beyond, asinh(x) and acosh(x) are log(2 x).
_LARGE: Final = (2.0**14, 2.0**28)


def _result(
    z: kl.Number, rest: kl.Number, large: kl.Number, size: kl.Number, form: Format
) -> kl.Number:
    """Return log(1 + z + rest), or log(2 · size) if that is large."""
    total, lost = base.two_sum(z, 1.0)
    total, lost = base.fast_two_sum(total, lost + rest)
    nothing = kl.constant(0.0, size.dtype, size.width)
    more = kl.select(large, kl.constant(1, form.signed, size.width), 0)
    return log_of_sum(kl.select(large, size, total), kl.select(large, nothing, lost), form, more)


@within(1.0, 0.9)
def asinh(x: kl.Number) -> kl.Number:
    """Return the inverse hyperbolic sine, within 1 ulp."""
    form = base.format_of(x)
    size = abs(x)
    large = size > _LARGE[form.number]
    usual = base.above(size, _LARGE[form.number])
    square, error = base.two_product(usual, usual)
    total, lost = base.two_sum(square, 1.0)
    s, s_rest = base.root((total, lost + error))
    z, z_rest = base.two_sum(usual, s - 1.0)
    result = _result(z, z_rest + s_rest, large, size, form)
    return kl.select(size < _NOTHING[form.number], x, base.sign_as(result, x))


@within(1.0, 0.9)
def acosh(x: kl.Number) -> kl.Number:
    """Return the inverse hyperbolic cosine, within 1 ulp; NaN below 1."""
    form = base.format_of(x)
    large = x > _LARGE[form.number]
    t = base.above(x, _LARGE[form.number]) - 1.0
    square, error = base.two_product(t, t)
    total, lost = base.two_sum(square, t * 2.0)
    s, s_rest = base.root((total, lost + error))
    z, z_rest = base.two_sum(t, s)
    return kl.select(x >= 1.0, _result(z, z_rest + s_rest, large, x, form), base.NAN)


@within(1.0, 0.9)
def atanh(x: kl.Number) -> kl.Number:
    """Return the inverse hyperbolic tangent, within 1 ulp; ±inf at ±1, NaN beyond."""
    form = base.format_of(x)
    size = abs(x)
    nothing = kl.constant(0.0, x.dtype, x.width)
    under, lost = base.two_sum(-size, 1.0)
    # log((1 + x) / (1 − x)) / 2 = log(1 + 2 x / (1 − x)) / 2
    z, rest = base.ratio((size * 2.0, nothing), (under, lost))
    result = _result(z, rest, size > 2.0, size, form) * 0.5
    ends = kl.select(size == 1.0, base.INFINITY, kl.constant(base.NAN, x.dtype, x.width))
    result = kl.select(size < 1.0, result, ends)
    return kl.select(size < _NOTHING[form.number], x, base.sign_as(result, x))
