"""Circular functions: sin, cos, tan.

Requirements: within 1 ulp for every finite argument; odd functions keep the sign of zero. Sine and
cosine of the reduced argument are sums of two numbers each, and the tangent is their quotient.
"""

from __future__ import annotations

from typing import NamedTuple

from calor_kernel.language import Number, bitcast, fma, select
from calor_kernel.library.math.base import (
    Format,
    Pair,
    exactly,
    fast_two_sum,
    format_of,
    polynomial,
    ratio,
)
from calor_kernel.library.math.coefficients import COS, SIN
from calor_kernel.library.math.reduction import Angle, reduced_angle


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


def _chosen(angle: Angle, form: Format, quadrant: Number) -> Number:
    (s, s_rest), (c, c_rest) = _turn(angle, form)
    odd = (quadrant & 1) != 0
    return _signed(select(odd, c, s) + select(odd, c_rest, s_rest), quadrant, form)


@exactly
def sin(x: Number) -> Number:
    """Return the sine of an angle in radians, within 1 ulp; NaN for infinities."""
    form = format_of(x)
    angle = reduced_angle(abs(x), form)
    result = _chosen(angle, form, angle.quadrant)
    bit = bitcast(x, form.signed) & ~(form.sign - 1)
    return bitcast(bitcast(result, form.signed) ^ bit, form.dtype)


@exactly
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
    sine = _chosen(angle, form, angle.quadrant)
    bit = bitcast(x, form.signed) & ~(form.sign - 1)
    sine = bitcast(bitcast(sine, form.signed) ^ bit, form.dtype)
    return sine, _chosen(angle, form, angle.quadrant + 1)


@exactly
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
    result = _signed(first + rest, angle.quadrant << 1, form)
    bit = bitcast(x, form.signed) & ~(form.sign - 1)
    return bitcast(bitcast(result, form.signed) ^ bit, form.dtype)
