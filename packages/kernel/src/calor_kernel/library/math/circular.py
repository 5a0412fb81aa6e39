"""Circular functions and their inverses.

Requirements: within 1 ulp for every finite argument. Zeros keep their signs, and infinities, NaN
and underflow are as in C. Sine and cosine of the reduced argument are sums of two numbers each, and
the tangent is their quotient. Inverses take at most one division or one square root. Beyond 1/2 the
arc sine is that of the half angle. Tangents are reduced to |t| ≤ tan(π/8) by one quotient with its
error (Cephes' intervals).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from calor_kernel.language import Number, bitcast, constant, fma, select
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
from calor_kernel.library.math.bounds import within
from calor_kernel.library.math.coefficients import ASIN, ATAN, COS, SIN
from calor_kernel.library.math.reduction import HALF_PI, Angle, reduced_angle


class _Turn(NamedTuple):
    """Sine and cosine of an angle in [−π/4, π/4], each the sum of two numbers."""

    sine: Pair
    cosine: Pair


def _turn(angle: Angle, form: Format) -> _Turn:
    r, rest = angle.r, angle.rest
    z = r * r
    half = z * 0.5
    near_one = 1.0 - half
    lost = fma(fma(r, r, -z), -0.5, (1.0 - near_one) - half)
    # The rest is multiplied by the slope of the sine, the cosine.
    sine = fma(r * z, polynomial(z, SIN[form.number]), rest * near_one)
    cosine = fma(z * z, polynomial(z, COS[form.number]), lost - r * rest)
    return _Turn((r, sine), (near_one, cosine))


def _signed(x: Number, flips: Number, form: Format) -> Number:
    """Return x with its sign changed if bit 1 of ``flips`` is set."""
    bit = (flips & 2) << (8 * form.dtype.itemsize - 2)
    return bitcast(bitcast(x, form.signed) ^ bit, form.dtype)


def _negated_as(result: Number, x: Number, form: Format) -> Number:
    """Return a result with its sign changed if x has a sign."""
    bit = bitcast(x, form.signed) & ~(form.sign - 1)
    return bitcast(bitcast(result, form.signed) ^ bit, form.dtype)


def _chosen(angle: Angle, form: Format, quadrant: Number) -> Number:
    (s, s_rest), (c, c_rest) = _turn(angle, form)
    odd = (quadrant & 1) != 0
    return _signed(select(odd, c, s) + select(odd, c_rest, s_rest), quadrant, form)


@within(0.75, 0.75)
def sin(x: Number) -> Number:
    """Return the sine of an angle in radians, within 1 ulp; NaN for infinities."""
    form = format_of(x)
    angle = reduced_angle(abs(x), form)
    return _negated_as(_chosen(angle, form, angle.quadrant), x, form)


@within(0.75, 0.75)
def cos(x: Number) -> Number:
    """Return the cosine of an angle in radians, within 1 ulp; NaN for infinities."""
    form = format_of(x)
    angle = reduced_angle(abs(x), form)
    return _chosen(angle, form, angle.quadrant + 1)


@exactly
def sincos(x: Number) -> tuple[Number, Number]:
    """Return the sine and the cosine of an angle in radians, each within 1 ulp."""
    form = format_of(x)
    angle = reduced_angle(abs(x), form)
    sine = _negated_as(_chosen(angle, form, angle.quadrant), x, form)
    return sine, _chosen(angle, form, angle.quadrant + 1)


@within(0.95, 0.85)
def tan(x: Number) -> Number:
    """Return the tangent of an angle in radians, within 1 ulp; NaN for infinities."""
    form = format_of(x)
    angle = reduced_angle(abs(x), form)
    turn = _turn(angle, form)
    sine, cosine = fast_two_sum(*turn.sine), fast_two_sum(*turn.cosine)
    odd = (angle.quadrant & 1) != 0
    over = (select(odd, cosine[0], sine[0]), select(odd, cosine[1], sine[1]))
    under = (select(odd, sine[0], cosine[0]), select(odd, sine[1], cosine[1]))
    first, rest = ratio(over, under)
    return _negated_as(_signed(first + rest, angle.quadrant << 1, form), x, form)


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


@within(0.7, 0.75)
def asin(x: Number) -> Number:
    """Return the arc sine, within 1 ulp; NaN beyond ±1."""
    form = format_of(x)
    v, rest, outer = _arc(abs(x), form)
    high, low = HALF_PI[form.number][:2]
    total, error = fast_two_sum(constant(high, x.dtype, x.width), v * -2.0)
    far = total + (error + fma(rest, -2.0, low))
    return sign_as(select(outer, far, v + rest), x)


@within(0.7, 0.75)
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


@within(0.7, 0.65)
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


@within(0.85, 0.85)
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
