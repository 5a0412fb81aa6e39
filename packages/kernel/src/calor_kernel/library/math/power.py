"""Powers of floats.

Requirements: within 1 ulp; exact where bases are powers of two; every special case of C's ``pow``.
The logarithm has to be right to the digits that the exponent multiplies, and so is a sum of two
numbers throughout: 2 atanh(s) with s = f / (2 + f), its first terms in two numbers each (the way of
Ziv's and of SLEEF's pow).
"""

from __future__ import annotations

from typing import Final

from calor_kernel.language import Number, bitcast, cast, constant, fma, select, trunc
from calor_kernel.library.math.base import (
    INFINITY,
    NAN,
    Format,
    Pair,
    Table,
    exactly,
    fast_two_sum,
    format_of,
    is_negative,
    polynomial,
    ratio,
    two_product,
    two_sum,
)
from calor_kernel.library.math.coefficients import EXP2, POWER
from calor_kernel.library.math.exponential import scaled
from calor_kernel.library.math.logarithm import decomposed

# 2 / log 2, and of the series of atanh(s) / s the terms 1/3 and 1/5, in two numbers.
_TWICE_LOG2_E: Final[Table] = (
    (2.885390043258667, 3.851926067000022e-08),
    (2.8853900817779268, 4.0710547481862066e-17),
)
_THIRD: Final[Table] = (
    (0.3333333432674408, -9.934107758624577e-09),
    (0.3333333333333333, 1.850371707708594e-17),
)
_FIFTH: Final[Table] = (
    (0.20000000298023224, -2.9802322831784522e-09),
    (0.2, -1.1102230246251566e-17),
)
# Beyond, the power is 0 or infinite.
_ENDS: Final = (160.0, 1200.0)


def _times(a: Pair, b: Pair) -> Pair:
    product, error = two_product(a[0], b[0])
    return fast_two_sum(product, fma(a[0], b[1], fma(a[1], b[0], error)))


def _constant(table: Table, form: Format, like: Number) -> Pair:
    first, second = table[form.number]
    return constant(first, like.dtype, like.width), constant(second, like.dtype, like.width)


def _log2(x: Number, form: Format) -> Pair:
    """Return log2 of a positive finite number, to about ten bits more than an ulp."""
    e, m = decomposed(x, form)
    nothing = constant(0.0, x.dtype, x.width)
    s = fast_two_sum(*ratio((m - 1.0, nothing), two_sum(m, 1.0)))
    z = _times(s, s)
    tail = polynomial(z[0], POWER[form.number]) * z[0]
    if form.number:
        fifth = _constant(_FIFTH, form, x)
        inner = fast_two_sum(fifth[0], tail)
        inner = _times(z, (inner[0], inner[1] + fifth[1]))
    else:
        inner = (tail, nothing)
    third = _constant(_THIRD, form, x)
    sum_, lost = fast_two_sum(third[0], inner[0])
    series = _times(z, (sum_, lost + (inner[1] + third[1])))
    total, lost = fast_two_sum(1.0 + nothing, series[0])
    product = _times(_times(s, (total, lost + series[1])), _constant(_TWICE_LOG2_E, form, x))
    whole, rest = two_sum(cast(e, x.dtype), product[0])
    return fast_two_sum(whole, rest + product[1])


@exactly
def power(x: Number, y: Number) -> Number:
    """Return x to the power of y, within 1 ulp, as C's ``pow``."""
    form = format_of(x)
    size = abs(x)
    high, low = _log2(size, form)
    nothing = constant(0.0, x.dtype, x.width)
    ends = select(size == 0.0, nothing - INFINITY, nothing + INFINITY)
    finite = (size > 0.0) & (size < INFINITY)
    high, low = select(finite, high, ends), select(finite, low, nothing)
    exponent = y * high
    error = fma(y, low, fma(y, high, -exponent))
    limit = _ENDS[form.number]
    inside = abs(exponent) < limit
    error = select(inside, error, nothing)
    exponent = select(exponent > limit, limit, select(exponent < -limit, -limit, exponent))
    magic = form.magic + 2 * form.bias
    total = exponent + magic
    r = (exponent - (total - magic)) + error
    result = fma(r, polynomial(r, EXP2[form.number]), 1.0)
    result = scaled(result, bitcast(total, form.signed), form)
    return _special(x, y, size, result, form)


def _special(x: Number, y: Number, size: Number, result: Number, form: Format) -> Number:
    whole = trunc(y) == y
    half = y * 0.5
    odd = whole & (trunc(half) != half)
    negative = is_negative(x)
    flipped = bitcast(bitcast(result, form.signed) ^ -form.sign, form.dtype)
    result = select(negative & odd, flipped, result)
    result = select((x < 0.0) & (size < INFINITY) & ~whole, NAN, result)
    # 1 to any power is 1, and so is −1 to an infinite one.
    endless = abs(y) == INFINITY
    result = select((x != x) | (y != y), NAN, result)
    return select((x == 1.0) | (y == 0.0) | ((size == 1.0) & endless), 1.0, result)
