"""Functions of two numbers: powers, hypot, logaddexp, and division with a remainder.

Requirements: within 1 ulp, with every special case of C's ``pow``. Bases and results that are not
positive normal numbers are branches, so that others pay for two comparisons only. The exponent
multiplies the error of the logarithm, so the logarithm is a sum of two numbers throughout: a
multiple of atanh(s) / s times s = f / (2 + f), with its first terms in two numbers each (the method
of SLEEF's pow).

hypot and logaddexp have no overflow of intermediate results. For hypot an infinity wins over NaN,
as in C.

Remainders are exact for any quotient. A quotient that fits the significand takes one step. Others
take a step for each group of their bits, in a loop that ends when every lane is done.
"""

from __future__ import annotations

from typing import Final

from calor_kernel import language as kl
from calor_kernel.library.math import base
from calor_kernel.library.math.base import Format, Pair, Table, within
from calor_kernel.library.math.coefficients import EXP2, POWER
from calor_kernel.library.math.exponential import decomposed, exp, log1p_of_fraction, scaled

# 2 / log 2, and its third and fifth: the series of log2((1 + s) / (1 − s)) / s, in two numbers.
_TERMS: Final[tuple[Table, Table, Table]] = (
    (
        (2.885390043258667, 3.851926067000022e-08),
        (2.8853900817779268, 4.0710547481862066e-17),
    ),
    (
        (0.9617967009544373, -7.028461812552678e-09),
        (0.9617966939259756, 5.0577616648125907e-17),
    ),
    (
        (0.5770780444145203, -2.805893473123433e-08),
        (0.5770780163555853, 5.2551030481378675e-17),
    ),
)
# Beyond, the power is 0 or infinite.
_ENDS: Final = (160.0, 1200.0)
# Up to here powers of two are normal numbers, also with a factor between √½ and √2.
_USUAL: Final = (125.0, 1021.0)


def _times_plus(z: Pair, b: Pair, term: Table, form: Format) -> Pair:
    """Return z · b, the smaller terms of the series, and a term of it."""
    first, second = term[form.number]
    product = z[0] * b[0]
    error = kl.fma(z[1], b[0], kl.fma(z[0], b[0], -product))
    total = product + first
    return total, (((first - total) + product) + kl.fma(z[0], b[1], second)) + error


def _log2(e: kl.Number, m: kl.Number, form: Format) -> Pair:
    """Return e + log2(m) for m in [√½, √2], to about ten bits more than an ulp.

    Sums are in the order in which their parts are available, to shorten the dependent chain.
    """
    f = m - 1.0
    inverse = 1.0 / (m + 1.0)
    s = f * inverse
    # f and 2 s are within a factor of 2, so that their difference is exact.
    lost = kl.fma(-s, f, kl.fma(s, -2.0, f)) * inverse
    square = s * s
    z = (square, kl.fma(s, s, -square))
    terms = _TERMS[: 2 + form.number]
    first, second = terms[-1][form.number]
    rest = base.polynomial(square, POWER[form.number])
    total = kl.fma(square, rest, first)
    series: Pair = (total, kl.fma(square, rest, first - total) + second)
    for term in terms[-2::-1]:
        series = _times_plus(z, series, term, form)
    # The error of s is multiplied by the slope of s · series.
    slope = kl.fma(square, 2.0 * _TERMS[1][form.number][0], series[0])
    product = s * series[0]
    error = kl.fma(s, series[1], kl.fma(lost, slope, kl.fma(s, series[0], -product)))
    whole = kl.cast(e, s.dtype)
    total = whole + product
    return total, ((whole - total) + product) + error


@within(1.0, 1.0)
@kl.helper
def power(x: kl.Number, y: kl.Number) -> kl.Number:
    """Return x to the power of y, within 1 ulp, as C's ``pow``."""
    form = base.format_of(x)
    low, high = 1 << form.fraction, (2 * form.bias + 1) << form.fraction
    rare = (kl.bitcast(x, form.unsigned) - low) >= high - low
    size = x
    lift = kl.constant(0, form.signed, x.width)
    if base.some(rare):
        size = abs(x)
        small = size < form.tiny
        size = kl.select(small, size * 2.0 ** (form.fraction + 2), size)
        lift = kl.select(small, form.fraction + 2, lift)
    e, m = decomposed(size, form)
    first, second = _log2(e - lift, m, form)
    exponent = y * first
    error = kl.fma(y, second, kl.fma(y, first, -exponent))
    total = exponent + form.magic
    near = _exp2(exponent - (total - form.magic), error, form)
    result = kl.bitcast(base.bits_of(near) + (base.bits_of(total) << form.fraction), form.dtype)
    rare = rare | ~(abs(exponent) < _USUAL[form.number])
    if base.some(rare):
        result = _special(x, y, _far(exponent, error, form), form)
    return result


def _exp2(r: kl.Number, error: kl.Number, form: Format) -> kl.Number:
    """Return 2 to the power of r in [−½, ½] and its error, which the last terms ignore."""
    table = EXP2[form.number]
    last = base.polynomial(r, table[3:])
    r = r + error
    for c in table[2::-1]:
        last = kl.fma(last, r, c)
    return kl.fma(last, r, 1.0)


def _far(exponent: kl.Number, error: kl.Number, form: Format) -> kl.Number:
    """Return 2 to the power of a sum of two numbers of any size; the same in the usual range."""
    limit = _ENDS[form.number]
    error = kl.select(abs(exponent) < limit, error, 0.0)
    exponent = base.above(base.below(exponent, -limit), limit)
    magic = form.magic + 2 * form.bias
    total = exponent + magic
    near = _exp2(exponent - (total - magic), error, form)
    return scaled(near, kl.bitcast(total, form.signed), form)


def _special(x: kl.Number, y: kl.Number, result: kl.Number, form: Format) -> kl.Number:
    """Return the result with C's special cases of base and exponent."""
    size = abs(x)
    nothing = kl.constant(0.0, x.dtype, x.width)
    # For 0 and infinity, and for infinite powers, the result is 0 or infinite.
    grows = (size > 1.0) ^ (y < 0.0)
    endless = abs(y) == base.INFINITY
    extreme = (size == 0.0) | (size == base.INFINITY) | endless
    result = kl.select(extreme, kl.select(grows, base.INFINITY, nothing), result)
    whole = kl.trunc(y) == y
    half = y * 0.5
    odd = whole & (kl.trunc(half) != half)
    flipped = kl.bitcast(kl.bitcast(result, form.signed) ^ -form.sign, form.dtype)
    result = kl.select(base.is_negative(x) & odd, flipped, result)
    result = kl.select((x < 0.0) & (size < base.INFINITY) & ~whole, base.NAN, result)
    result = kl.select((x != x) | (y != y), base.NAN, result)
    # 1 to any power is 1, and so is −1 to an infinite power.
    return kl.select((x == 1.0) | (y == 0.0) | ((size == 1.0) & endless), 1.0, result)


@within(0.8, 0.6)
def hypot(a: kl.Number, b: kl.Number) -> kl.Number:
    """Return √(a² + b²), within 1 ulp; infinite where a or b is."""
    form = base.format_of(a)
    a, b = abs(a), abs(b)
    # If one is NaN the order is arbitrary; NaN propagates either way.
    longer, shorter = kl.select(a > b, a, b), kl.select(a > b, b, a)
    one = kl.constant(1.0, a.dtype, a.width)
    large, small = longer > 2.0 ** (form.bias // 2), longer < 2.0 ** -(form.bias // 3)
    drop, lift = 2.0 ** -(form.bias * 2 // 3), 2.0 ** (form.bias * 3 // 4)
    scale = kl.select(large, drop, kl.select(small, lift, one))
    back = kl.select(large, 1.0 / drop, kl.select(small, 1.0 / lift, one))
    square, error = base.two_product(longer * scale, longer * scale)
    other, other_error = base.two_product(shorter * scale, shorter * scale)
    total, lost = base.fast_two_sum(square, other)
    first, rest = base.root((total, lost + (error + other_error)), 2.0 ** -(form.bias - 27))
    result = (first + rest) * back
    return kl.select((a == base.INFINITY) | (b == base.INFINITY), base.INFINITY, result)


@within(2.0, 2.0, "the larger operand")
def logaddexp(a: kl.Number, b: kl.Number) -> kl.Number:
    """Return log(exp(a) + exp(b)), also if the exponentials overflow."""
    larger = kl.select(a > b, a, b)
    # The distance of equal infinities is 0.
    apart = kl.select(a == b, kl.constant(0.0, a.dtype, a.width), -abs(a - b))
    return larger + log1p_of_fraction(exp(apart))


def _parted(x: kl.Number, form: Format) -> tuple[kl.Number, kl.Number]:
    """Return the exponent and the significand in [1, 2) of a positive finite number."""
    lift = form.fraction + 1
    small = x < form.tiny
    bits = kl.bitcast(kl.select(small, x * 2.0**lift, x), form.signed)
    exponent = (bits >> form.fraction) - form.bias
    exponent = kl.select(small, exponent - lift, exponent)
    significand = (bits & ((1 << form.fraction) - 1)) | (form.bias << form.fraction)
    return exponent, kl.bitcast(significand, form.dtype)


def _step(r: kl.Number, b: kl.Number) -> kl.Number:
    """Return the exact remainder of r by b, for a quotient that fits the significand."""
    left = kl.fma(-kl.trunc(r / b), b, r)
    # Rounding may have raised the quotient to the next integer.
    left = kl.select(left < 0.0, left + b, left)
    return kl.select(left >= b, left - b, left)


@kl.helper
def _remainder_of_sizes(a: kl.Number, b: kl.Number, form: Format) -> kl.Number:
    """Return the remainder of positive numbers; undefined for others."""
    most = form.fraction - 1
    e, m = _parted(a, form)
    low, divisor = _parted(b, form)
    apart = e - low
    apart = kl.select(apart < 0, 0, apart)
    apart = kl.select((b > 0.0) & (a < base.INFINITY), apart, 0)
    step = kl.select(apart > most, most, apart)
    r = _step(m * base.power_of_two(step, form), divisor)
    apart = apart - step
    while base.some(apart > 0):
        step = kl.select(apart > most, most, apart)
        r = _step(r * base.power_of_two(step, form), divisor)
        apart = apart - step
    less = a < b
    # In two steps, since the power may exceed the exponents of normal numbers.
    half = low >> 1
    return kl.select(
        less, a, r * base.power_of_two(half, form) * base.power_of_two(low - half, form)
    )


@within(0.0, 0.0)
def fmod(a: kl.Number, b: kl.Number) -> kl.Number:
    """Return the exact remainder of the quotient rounded toward zero, with the sign of a."""
    form = base.format_of(a)
    size, other = abs(a), abs(b)
    rest = _remainder_of_sizes(size, other, form)
    rest = kl.select(other == base.INFINITY, size, rest)
    fine = (other > 0.0) & (size < base.INFINITY)
    return kl.select(fine, base.sign_as(rest, a), base.NAN)


def _down(a: kl.Number, b: kl.Number) -> Pair:
    """Return fmod, and 1 if the quotient rounded down is 1 less than rounded toward zero."""
    rest = fmod(a, b)
    other = (rest != 0.0) & (base.is_negative(rest) ^ base.is_negative(b))
    return rest, kl.select(other, kl.constant(1.0, a.dtype, a.width), 0.0)


@within(0.5, 0.5)
def remainder(a: kl.Number, b: kl.Number) -> kl.Number:
    """Return a − b · floor(a / b), rounded once, with the sign of b; NaN for b = 0."""
    rest, less = _down(a, b)
    moved = kl.select(less != 0.0, rest + b, rest)
    return kl.select(rest == 0.0, base.sign_as(abs(rest), b), moved)


@within(1.0, 1.0)
def floor_divide(a: kl.Number, b: kl.Number) -> kl.Number:
    """Return a / b rounded down; for b = 0 the result of a / b."""
    rest, less = _down(a, b)
    quotient = (a - rest) / b - less
    whole = kl.floor(quotient)
    whole = kl.select(quotient - whole > 0.5, whole + 1.0, whole)
    ratio = a / b
    whole = kl.select(
        quotient == 0.0, base.sign_as(kl.constant(0.0, a.dtype, a.width), ratio), whole
    )
    return kl.select(b == 0.0, ratio, whole)
