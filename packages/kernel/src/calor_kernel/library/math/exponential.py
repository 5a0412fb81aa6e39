"""Exponentials and logarithms.

Requirements: within 1 ulp, also where the parts of a logarithm cancel and for denormals. No table,
since a gather costs more than the terms of a polynomial. Exponentials have no slow path, since
subnormal results come from a scale in two factors. Their argument is reduced by Cody and Waite's
method ("Software manual for the elementary functions", 1980), with the integer taken from the low
bits of a sum. Logarithms of denormals, zeros, infinities, NaN and negative numbers cost more. x =
2**e · (1 + f) with 1 + f in [√½, √2]; f is exact, and log(1 + f) − f is a polynomial, for float64
in the form of Sun's fdlibm (1993), which takes a division and half the terms.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from calor_kernel import language as kl
from calor_kernel.library.math import base
from calor_kernel.library.math.base import Format, Pair, Table, within
from calor_kernel.library.math.coefficients import EXP, EXP2, EXPM1, LOG

LOG2_E: Final = 1.4426950408889634
# log 2 in parts; the first is short, so that its products with exponents are exact.
LOG_2: Final[Table] = (
    (0.693145751953125, 1.428606765330187e-06),
    (0.6931471805601177, -1.7239444525614835e-13),
)
# The arguments where exp, exp2 and expm1 have become 0, −1 or infinite; others are clamped.
_EXP_ENDS: Final = ((-104.5, 89.0), (-746.0, 710.0))
_EXP2_ENDS: Final = ((-151.0, 129.0), (-1076.0, 1025.0))
_EXPM1_ENDS: Final = ((-20.0, 89.0), (-40.0, 710.0))
# Below these a function with slope 1 at 0 is its argument: without a square term, and with one.
NOTHING: Final = (2.0**-26, 2.0**-55)


def scaled(x: kl.Number, bits: kl.Number, form: Format) -> kl.Number:
    """Return x · 2**n, rounded once; the low bits of ``bits`` hold n + 2 · bias.

    Both halves of n are exponents of normal numbers.
    """
    half = bits >> 1
    first = kl.bitcast(half << form.fraction, form.dtype)
    second = kl.bitcast((bits - half) << form.fraction, form.dtype)
    return x * first * second


@within(1.0, 1.0)
def exp(x: kl.Number) -> kl.Number:
    """Return e**x, within 1 ulp."""
    form = base.format_of(x)
    low, high = _EXP_ENDS[form.number]
    x = base.above(base.below(x, low), high)
    magic = form.magic + 2 * form.bias
    total = kl.fma(x, LOG2_E, magic)
    n = total - magic
    first, second = LOG_2[form.number]
    r = kl.fma(n, -second, kl.fma(n, -first, x))
    p = kl.fma(r * r, base.polynomial(r, EXP[form.number]), r) + 1.0
    return scaled(p, kl.bitcast(total, form.signed), form)


def normal_exp(x: kl.Number) -> kl.Number:
    """Return e**x, within 1 ulp, for arguments whose results are normal numbers; any for NaN."""
    form = base.format_of(x)
    total = kl.fma(x, LOG2_E, form.magic)
    n = total - form.magic
    first, second = LOG_2[form.number]
    r = kl.fma(n, -second, kl.fma(n, -first, x))
    p = kl.fma(r * r, base.polynomial(r, EXP[form.number]), r) + 1.0
    # The integer is in the low bits of the total.
    return kl.bitcast(base.bits_of(p) + (base.bits_of(total) << form.fraction), form.dtype)


@within(0.85, 0.8)
def exp2(x: kl.Number) -> kl.Number:
    """Return 2**x, within 1 ulp; whole powers are exact."""
    form = base.format_of(x)
    low, high = _EXP2_ENDS[form.number]
    x = base.above(base.below(x, low), high)
    magic = form.magic + 2 * form.bias
    total = x + magic
    r = x - (total - magic)
    p = kl.fma(r, base.polynomial(r, EXP2[form.number]), 1.0)
    return scaled(p, kl.bitcast(total, form.signed), form)


class Reduced(NamedTuple):
    """x = n · log 2 + r + rest, up to far less than an ulp of r.

    ``n`` is an integer of the size of the float.
    """

    r: kl.Number
    rest: kl.Number
    n: kl.Number


def reduced(x: kl.Number, form: Format) -> Reduced:
    """Return an argument reduced by multiples of log 2."""
    total = kl.fma(x, LOG2_E, form.magic)
    n = total - form.magic
    first, second = LOG_2[form.number]
    near = kl.fma(n, -first, x)
    step = n * second
    r = near - step
    magic_bits = ((form.bias + form.fraction) << form.fraction) | (1 << (form.fraction - 1))
    return Reduced(r, (near - r) - step, kl.bitcast(total, form.signed) - magic_bits)


def expm1_parts(x: kl.Number, form: Format) -> tuple[kl.Number, kl.Number]:
    """Return half of exp(x) − 1 as a sum of two numbers, for |x| within the ends of expm1.

    The second is accurate to about 2**−5 of an ulp of the first.
    """
    r, rest, n = reduced(x, form)
    half = base.power_of_two(n - 1, form)
    tail = kl.fma(r * r, base.polynomial(r, EXPM1[form.number]), rest)
    # The leading terms of half · exp(r) − 1/2 are exact; the first is the larger, or 0.
    first, lost = base.two_sum(half, -0.5)
    total, error = base.fast_two_sum(first, half * r)
    return total, kl.fma(half, tail, error + lost)


@within(0.9, 1.1)
def expm1(x: kl.Number) -> kl.Number:
    """Return e**x − 1, within 1 ulp, also near 0."""
    form = base.format_of(x)
    low, high = _EXPM1_ENDS[form.number]
    total, error = expm1_parts(base.above(base.below(x, low), high), form)
    result = (total + error) * 2.0
    return kl.select(abs(x) < NOTHING[form.number], x, result)


_ROOT: Final = (
    int(np.float32(sqrt(0.5)).view(np.int32)),
    int(np.float64(sqrt(0.5)).view(np.int64)),
)
# 1 / log 2, 1 / log 10 and log10(2) in parts; the first part of the last is short.
_LOG2_E: Final[Table] = (
    (1.4426950216293335, 1.925963033500011e-08),
    (1.4426950408889634, 2.0355273740931033e-17),
)
_LOG10_E: Final[Table] = (
    (0.4342944920063019, -1.0103049952192578e-08),
    (0.4342944819032518, 1.098319650216765e-17),
)
_LOG10_2: Final[Table] = (
    (0.301025390625, 4.605039066518657e-06),
    (0.3010299956640665, -8.532344317057107e-14),
)


class Parts(NamedTuple):
    """log(x) = e · log 2 + f + rest, with an integer e; |f| ≤ √2 − 1."""

    e: kl.Number
    f: kl.Number
    rest: kl.Number


def decomposed(x: kl.Number, form: Format) -> Pair:
    """Return the integer e, and 1 + f, with x = 2**e · (1 + f), for positive normal x."""
    bits = kl.bitcast(x, form.signed) - _ROOT[form.number]
    significand = (bits & ((1 << form.fraction) - 1)) + _ROOT[form.number]
    return bits >> form.fraction, kl.bitcast(significand, form.dtype)


@kl.helper
def parted(x: kl.Number, form: Format, lost: kl.Number | None = None) -> tuple[kl.Number, Parts]:
    """Return whether an argument is not a positive normal number, and its parts.

    ``lost``: a correction to add to the argument, at most one ulp of it.
    """
    low, high = 1 << form.fraction, (2 * form.bias + 1) << form.fraction
    rare = (kl.bitcast(x, form.unsigned) - low) >= high - low
    lift = kl.constant(0, form.signed, x.width)
    if base.some(rare):
        # Denormals are made normal; the results of zeros and others are replaced later.
        small = x < form.tiny
        x = kl.select(small, x * 2.0 ** (form.fraction + 2), x)
        lift = kl.select(small, form.fraction + 2, lift)
    e, m = decomposed(x, form)
    f = m - 1.0
    rest = log_rest(f, form)
    if lost is not None:
        # For a large sum the correction is negligible, whatever its scale. The slope of the
        # logarithm is 1 / (1 + f), to two digits.
        slope = kl.fma(f, kl.fma(f, 0.72, -0.97), 1.0)
        rest = kl.fma(lost * base.power_of_two(-base.above(e, 64), form), slope, rest)
    return rare, Parts(e - lift, f, rest)


def log_rest(f: kl.Number, form: Format) -> kl.Number:
    """Return log(1 + f) − f for 1 + f in [√½, √2]."""
    square = f * f
    if form.fraction == 23:
        return kl.fma(f * -0.5, f, f * square * base.polynomial(f, LOG[0]))
    s = f / (f + 2.0)
    z = s * s
    half = square * 0.5
    return kl.fma(s, kl.fma(z, base.polynomial(z, LOG[1]), half), -half)


def natural(parts: Parts, form: Format) -> Pair:
    """Return the logarithm as the sum of two numbers."""
    first, second = LOG_2[form.number]
    e = kl.cast(parts.e, form.dtype)
    total, error = base.fast_two_sum(e * first, parts.f)
    return total, kl.fma(e, second, parts.rest) + error


@kl.helper
def _finished(x: kl.Number, rare: kl.Number, result: kl.Number) -> kl.Number:
    """Return the result, with the special cases 0, infinity, NaN and negative numbers."""
    if base.some(rare):
        nothing = kl.constant(base.NAN, x.dtype, x.width)
        result = kl.select(x > 0.0, result, kl.select(x == 0.0, -base.INFINITY, nothing))
        result = kl.select(
            x < base.INFINITY, result, kl.select(x == base.INFINITY, base.INFINITY, nothing)
        )
    return result


@within(0.9, 0.85)
def log(x: kl.Number) -> kl.Number:
    """Return the natural logarithm, within 1 ulp; −inf at 0, NaN below."""
    form = base.format_of(x)
    rare, parts = parted(x, form)
    total, rest = natural(parts, form)
    return _finished(x, rare, total + rest)


def _based(parts: Parts, whole: tuple[float, float], scale: Table, form: Format) -> kl.Number:
    """Return the logarithm to another base: ``whole`` is that of 2, ``scale`` that of e."""
    first, second = scale[form.number]
    e = kl.cast(parts.e, form.dtype)
    product, error = base.two_product(parts.f, kl.constant(first, form.dtype, e.width))
    rest = kl.fma(parts.f, second, kl.fma(parts.rest, first, error))
    if whole[1]:
        rest = kl.fma(e, whole[1], rest)
        e = e * whole[0]
    total, lost = base.fast_two_sum(e, product)
    return total + (lost + rest)


@within(1.0, 1.1)
def log2(x: kl.Number) -> kl.Number:
    """Return the logarithm to the base 2, within 1 ulp; exact for powers of two."""
    form = base.format_of(x)
    rare, parts = parted(x, form)
    return _finished(x, rare, _based(parts, (1.0, 0.0), _LOG2_E, form))


@within(1.0, 0.9)
def log10(x: kl.Number) -> kl.Number:
    """Return the logarithm to the base 10, within 1 ulp."""
    form = base.format_of(x)
    rare, parts = parted(x, form)
    first, second = _LOG10_2[form.number]
    return _finished(x, rare, _based(parts, (first, second), _LOG10_E, form))


def log_of_sum(
    total: kl.Number, lost: kl.Number, form: Format, more: kl.Number | int = 0
) -> kl.Number:
    """Return log(2**more · (total + lost)); ``lost`` is at most an ulp of the total."""
    rare, parts = parted(total, form, lost)
    high, rest = natural(parts._replace(e=parts.e + more), form)
    return _finished(total, rare, high + rest)


@within(0.95, 0.95)
def log1p(x: kl.Number) -> kl.Number:
    """Return log(1 + x), within 1 ulp, also near 0; −inf at −1, NaN below."""
    form = base.format_of(x)
    total = x + 1.0
    lost = kl.select(x > 1.0, 1.0 - (total - x), x - (total - 1.0))
    return kl.select(abs(x) < 2.0 ** -(form.fraction + 3), x, log_of_sum(total, lost, form))


def log1p_of_fraction(x: kl.Number) -> kl.Number:
    """Return log(1 + x) for x in [0, 1], within 1 ulp, which takes half the time of others."""
    form = base.format_of(x)
    far = x > sqrt(2) - 1
    near, lost = base.fast_two_sum(kl.constant(-0.5, x.dtype, x.width), x * 0.5)
    f = kl.select(far, near, x)
    first, second = LOG_2[form.number]
    total, error = base.fast_two_sum(kl.select(far, first, kl.constant(0.0, x.dtype, x.width)), f)
    # Where something is lost, the slope of the logarithm is √2, to two digits.
    rest = kl.select(far, kl.fma(lost, sqrt(2), error + second), 0.0)
    return total + (log_rest(f, form) + rest)
