"""Inverse circular functions: asin, acos, atan, atan2.

Requirements: within 1 ulp. Zeros keep their signs, and infinities, NaN and underflow are as in C.
At most one division or one square root. Beyond 1/2 the arc sine is that of the half angle. Tangents
are reduced to |t| ≤ tan(π/8) by one quotient with its error (Cephes' intervals).
"""

from __future__ import annotations

from typing import Final

from calor_kernel.language import Number, constant, fma, select
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
    root,
    sign_as,
    two_sum,
)
from calor_kernel.library.math.coefficients import ASIN, ATAN
from calor_kernel.library.math.reduction import HALF_PI

_THREE_QUARTERS: Final[Table] = (
    (2.356194496154785, -5.962440319251527e-09),
    (2.356194490192345, 9.184850993605148e-17),
)
_EIGHTH: Final = 0.41421356237309503  # tan(π/8); its inverse is tan(3π/8)
_MANY_EIGHTHS: Final = 2.414213562373095


def _arc(size: Number, form: Format) -> tuple[Number, Number, Number]:
    """Return v and the rest of asin(v), for |x| or beyond 1/2 for the half angle; and which."""
    outer = size > 0.5
    z = select(outer, (1.0 - size) * 0.5, size * size)
    nothing = constant(0.0, size.dtype, size.width)
    half, missing = root((z, nothing))
    v = select(outer, half, size)
    rest = fma(v * z, polynomial(z, ASIN[form.number]), select(outer, missing, nothing))
    return v, rest, outer


@exactly
def asin(x: Number) -> Number:
    """Return the arc sine, within 1 ulp; NaN beyond ±1."""
    form = format_of(x)
    v, rest, outer = _arc(abs(x), form)
    high, low = HALF_PI[form.number][:2]
    total, error = fast_two_sum(constant(high, x.dtype, x.width), v * -2.0)
    far = total + (error + fma(rest, -2.0, low))
    return sign_as(select(outer, far, v + rest), x)


@exactly
def acos(x: Number) -> Number:
    """Return the arc cosine in [0, π], within 1 ulp; NaN beyond ±1."""
    form = format_of(x)
    v, rest, outer = _arc(abs(x), form)
    high, low = HALF_PI[form.number][:2]
    negative = x < 0.0
    # π/2 − asin(x) within 1/2; beyond, twice the half angle, subtracted from π below 0.
    twice = select(outer, 2.0, constant(1.0, x.dtype, x.width))
    turn = select(outer, select(negative, 2.0, constant(0.0, x.dtype, x.width)), 1.0)
    back = select(outer ^ negative, twice, -twice)
    back = select(outer & negative, -twice, back)
    total, error = two_sum(turn * high, v * back)
    return total + (error + fma(rest, back, turn * low))


def _arc_tangent(t: Pair, base: Number, base_rest: Number, form: Format) -> Number:
    """Return base + atan(t) for |t| ≤ tan(π/8); |base| is 0 or larger."""
    first, rest = t
    z = first * first
    tail = fma(first * z, polynomial(z, ATAN[form.number]), rest * (1.0 - z))
    total, error = fast_two_sum(base, first)
    return total + (error + (tail + base_rest))


def _reduced(a: Number, b: Number, form: Format) -> tuple[Pair, Number, Number]:
    """Return t, and whether to add π/4 and π/2 to atan(t), for atan(a / b)."""
    middle = a > b * _EIGHTH
    steep = a > b * _MANY_EIGHTHS
    zero = constant(0.0, a.dtype, a.width)
    total, total_rest = two_sum(a, b)
    left, left_rest = two_sum(a, -b)
    over = select(steep, -b, select(middle, left, a))
    under = select(steep, a, select(middle, total, b))
    inside = middle & ~steep
    over_rest = select(inside, left_rest, zero)
    under_rest = select(inside, total_rest, zero)
    return ratio((over, over_rest), (under, under_rest)), inside, steep


@exactly
def atan(x: Number) -> Number:
    """Return the arc tangent, within 1 ulp."""
    form = format_of(x)
    size = abs(x)
    # Beyond this the result is constant; the inverse of the limit is a normal number.
    limit = 2.0 ** (form.fraction + 10)
    size = select(size > limit, limit, size)
    t, inside, steep = _reduced(size, constant(1.0, x.dtype, x.width), form)
    high, low = HALF_PI[form.number][:2]
    nothing = constant(0.0, x.dtype, x.width)
    base = select(steep, high, select(inside, high / 2, nothing))
    rest = select(steep, low, select(inside, low / 2, nothing))
    return sign_as(_arc_tangent(t, base, rest, form), x)


@exactly
def atan2(y: Number, x: Number) -> Number:
    """Return the angle of the point (x, y) in [−π, π], within 1 ulp, as C's ``atan2``."""
    form = format_of(y)
    a, b = abs(y), abs(x)
    most = select(a > b, a, b)
    one = constant(1.0, x.dtype, x.width)
    # Infinities are directions; other numbers are scaled to have normal inverses.
    endless = most == INFINITY
    # Small ones are scaled so far that a quotient's error is not subnormal.
    scale = select(most > 2.0 ** (form.bias // 2), one * 2.0**-8, 2.0 ** (form.bias // 3))
    a = select(endless, select(a == INFINITY, one, 0.0), a * scale)
    b = select(endless, select(b == INFINITY, one, 0.0), b * scale)
    b = select(most == 0.0, one, b)
    (t, t_rest), inside, steep = _reduced(a, b, form)
    back = is_negative(x)
    high, low = HALF_PI[form.number][:2]
    three, three_low = _THREE_QUARTERS[form.number]
    nothing = constant(0.0, x.dtype, x.width)
    middle = select(back, three, high / 2 * one)
    middle_low = select(back, three_low, low / 2 * one)
    flat, flat_low = select(back, high * 2, nothing), select(back, low * 2, nothing)
    base = select(steep, high, select(inside, middle, flat))
    rest = select(steep, low, select(inside, middle_low, flat_low))
    turned = (select(back, -t, t), select(back, -t_rest, t_rest))
    result = _arc_tangent(turned, base, rest, form)
    result = select((x != x) | (y != y), NAN, result)
    return sign_as(result, y)
