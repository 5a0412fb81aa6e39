"""Exponentials: exp, exp2, expm1, and the parts of hyperbolic functions.

Requirements: within 1 ulp from the smallest denormal to the largest number. No table, since a
gather costs more than the terms of a polynomial. No slow path, since subnormal results come from a
scale in two factors. The argument is reduced by Cody and Waite's method ("Software manual for the
elementary functions", 1980), with the integer taken from the low bits of a sum. The polynomials are
those of ``coefficients``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from calor_kernel.language import Number, bitcast, fma, select
from calor_kernel.library.math.base import (
    Format,
    Table,
    above,
    below,
    exactly,
    fast_two_sum,
    format_of,
    polynomial,
    power_of_two,
    two_sum,
)
from calor_kernel.library.math.coefficients import EXP, EXP2, EXPM1

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


def scaled(x: Number, bits: Number, form: Format) -> Number:
    """Return x · 2**n, rounded once; the low bits of ``bits`` hold n + 2 · bias.

    Both halves of n are exponents of normal numbers.
    """
    half = bits >> 1
    first = bitcast(half << form.fraction, form.dtype)
    second = bitcast((bits - half) << form.fraction, form.dtype)
    return x * first * second


@exactly
def exp(x: Number) -> Number:
    """Return e**x, within 1 ulp."""
    form = format_of(x)
    low, high = _EXP_ENDS[form.number]
    x = above(below(x, low), high)
    magic = form.magic + 2 * form.bias
    total = fma(x, LOG2_E, magic)
    n = total - magic
    first, second = LOG_2[form.number]
    r = fma(n, -second, fma(n, -first, x))
    p = fma(r * r, polynomial(r, EXP[form.number]), r) + 1.0
    return scaled(p, bitcast(total, form.signed), form)


@exactly
def exp2(x: Number) -> Number:
    """Return 2**x, within 1 ulp; whole powers are exact."""
    form = format_of(x)
    low, high = _EXP2_ENDS[form.number]
    x = above(below(x, low), high)
    magic = form.magic + 2 * form.bias
    total = x + magic
    r = x - (total - magic)
    p = fma(r, polynomial(r, EXP2[form.number]), 1.0)
    return scaled(p, bitcast(total, form.signed), form)


class Reduced(NamedTuple):
    """x = n · log 2 + r + rest, up to far less than an ulp of r.

    ``n`` is an integer of the size of the float.
    """

    r: Number
    rest: Number
    n: Number


def reduced(x: Number, form: Format) -> Reduced:
    """Return an argument reduced by multiples of log 2."""
    total = fma(x, LOG2_E, form.magic)
    n = total - form.magic
    first, second = LOG_2[form.number]
    near = fma(n, -first, x)
    step = n * second
    r = near - step
    return Reduced(r, (near - r) - step, bitcast(total, form.signed) - form.magic_bits)


def expm1_parts(x: Number, form: Format) -> tuple[Number, Number]:
    """Return half of exp(x) − 1 as a sum of two numbers, for |x| within the ends of expm1.

    The second is accurate to about 2**−5 of an ulp of the first.
    """
    r, rest, n = reduced(x, form)
    half = power_of_two(n - 1, form)
    tail = fma(r * r, polynomial(r, EXPM1[form.number]), rest)
    # The leading terms of half · exp(r) − 1/2 are exact; the first is the larger, or 0.
    first, lost = two_sum(half, -0.5)
    total, error = fast_two_sum(first, half * r)
    return total, fma(half, tail, error + lost)


@exactly
def expm1(x: Number) -> Number:
    """Return e**x − 1, within 1 ulp, also near 0."""
    form = format_of(x)
    low, high = _EXPM1_ENDS[form.number]
    total, error = expm1_parts(above(below(x, low), high), form)
    result = (total + error) * 2.0
    return select(abs(x) < NOTHING[form.number], x, result)
