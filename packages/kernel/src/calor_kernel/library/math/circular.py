"""Circular functions and their inverses.

Requirements: within 1 ulp for every finite argument. Zeros keep their signs, and infinities, NaN
and underflow are as in C. Sine and cosine of the reduced argument are sums of two numbers each, and
the tangent is their quotient. Inverses take at most one division or one square root. Beyond 1/2 the
arc sine is that of the half angle. Tangents are reduced to |t| ≤ tan(π/8) by one quotient with its
error (Cephes' intervals).

Angles are reduced to [−π/4, π/4], to far more than an ulp, also next to the multiples of π/2. Usual
arguments cost few operations: Cody and Waite's method with π/2 in three parts, whose first product
is exact with a fused operation. Large ones are multiplied by the significant bits of 2/π (Payne and
Hanek, "Radian reduction for trigonometric functions", 1983). These are shifted together from
constants of the kernel, so that no table is read. This path runs only if a lane needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from calor.dtypes import int32, int64, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.library.math import base
from calor_kernel.library.math.base import Format, Pair, Table, exactly, within
from calor_kernel.library.math.coefficients import ASIN, ATAN, COS, SIN

_TWO_OVER_PI: Final = 0.6366197723675814
_HALF_PI: Final[Table] = (
    (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
)
# Up to here Cody and Waite's method is accurate to the last place.
_LARGE: Final = (2.0**17, 2.0**28)
# The bits of 2/π after the binary point, in words of 32, after a word of zeros.
_WORDS: Final = (
    0x00000000, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041,
    0xFE5163AB, 0xDEBBC561, 0xB7246E3A, 0x424DD2E0, 0x06492EEA, 0x09D1921C, 0xFE1DEB1C,
    0xB129A73E, 0xE88235F5, 0x2EBB4484, 0xE99C7026, 0xB45F7E41, 0x3991D639, 0x835339F4,
    0x9C845F8B, 0xBDF9283B, 0x1FF897FF, 0xDE05980F, 0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF,
    0x27CB09B7, 0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B, 0x3D0739F7, 0x8A5292EA,
    0x6BFB5FB1, 0x1F8D5D08, 0x56033046, 0xFC7B6BAB,
)  # fmt: skip


class Angle(NamedTuple):
    """x = quadrant · π/2 + r + rest, with |r| ≤ π/4; only the quadrant's two low bits matter."""

    r: kl.Number
    rest: kl.Number
    quadrant: kl.Number


@kl.helper
def reduced_angle(x: kl.Number, form: Format) -> Angle:
    """Return a nonnegative argument's quadrant and remainder; NaN for infinities and NaN."""
    r, rest, quadrant = _near(x, form)
    large = x >= _LARGE[form.number]
    if base.some(large):
        far = _far(x, form)
        r = kl.select(large, far.r, r)
        rest = kl.select(large, far.rest, rest)
        quadrant = kl.select(large, far.quadrant, quadrant)
    return Angle(r, rest, quadrant)


def _near(x: kl.Number, form: Format) -> Angle:
    total = kl.fma(x, _TWO_OVER_PI, form.magic)
    n = total - form.magic
    first, second, third = _HALF_PI[form.number]
    step, error = base.two_product(n, kl.constant(second, x.dtype, x.width))
    r, rest = base.two_sum(kl.fma(n, -first, x), -step)
    return Angle(r, rest - kl.fma(n, third, error), kl.bitcast(total, form.signed))


def _far(x: kl.Number, form: Format) -> Angle:
    parts = _far32(x) if form.fraction == 23 else _far64(x)
    first, second = _HALF_PI[form.number][:2]
    turn, error = base.fast_two_sum(parts.r, parts.rest)
    r, lost = base.two_product(turn, kl.constant(first, x.dtype, x.width))
    rest = lost + kl.fma(turn, second, error * first)
    return Angle(kl.select(x < base.INFINITY, r, base.NAN), rest, parts.quadrant)


def _window(start: kl.Number, words: int, first: int) -> list[kl.Number]:
    """Return words of 2/π from bit ``start`` on; ``first``: the largest power of two of words."""
    place, shift = start >> 5, start & 31
    count = words + 1
    held: list[kl.Number] = [kl.constant(w, uint32, start.width) for w in _WORDS]
    step = first
    while step:
        taken = (place & step) != 0
        # Words that the later steps can reach.
        needed = min(count + step - 1, len(held) - step)
        held = [kl.select(taken, held[i + step], held[i]) for i in range(needed)]
        step //= 2
    # Shifts are below 32, so this one is made in two.
    return [(held[i] << shift) | ((held[i + 1] >> 1) >> (31 - shift)) for i in range(words)]


def _far32(x: kl.Number) -> Angle:
    """Return the quadrant and the remaining part of a quadrant, as the sum of two numbers."""
    bits = kl.bitcast(x, uint32)
    m = (bits & 0x7FFFFF) | 0x800000
    # x · 2/π modulo 4 as a 64-bit integer: the words above are whole turns, and those below are
    # more than the worst argument needs.
    top, middle, low = _window((bits >> 23) - 120, 3, 4)
    high = m * top + kl.mulhi(m, middle)
    part = m * middle
    total = part + kl.mulhi(m, low)
    high = high + kl.cast(total < part, uint32)
    quadrant = (high + (1 << 29)) >> 30
    left = kl.bitcast(high - (quadrant << 30), int32)
    a = kl.cast(left >> 6, x.dtype) * 2.0**-24
    b = kl.cast(((left & 63) << 18) | kl.bitcast(total >> 14, int32), x.dtype) * 2.0**-48
    c = kl.cast(kl.bitcast(total & 0x3FFF, int32), x.dtype) * 2.0**-62
    turn, error = base.fast_two_sum(a, b)
    return Angle(turn, error + c, kl.bitcast(quadrant, int32))


def _far64(x: kl.Number) -> Angle:
    bits = kl.bitcast(x, uint64)
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    start = kl.cast(bits >> 52, uint32) - 1045
    words = [kl.cast(w, uint64) for w in _window(start, 6, 16)]
    high, low = _product(words, m)
    quadrant = (high + (1 << 61)) >> 62
    left = kl.bitcast(high - (quadrant << 62), int64)
    a = kl.cast(left >> 9, x.dtype) * 2.0**-53
    b = kl.cast(((left & 511) << 44) | kl.bitcast(low >> 20, int64), x.dtype) * 2.0**-106
    c = kl.cast(kl.bitcast(low & 0xFFFFF, int64), x.dtype) * 2.0**-126
    turn, error = base.two_sum(a, b)
    turn, error = base.fast_two_sum(turn, error + c)
    return Angle(turn, error, kl.bitcast(quadrant, int64))


def _product(words: Sequence[kl.Number], m: kl.Number) -> tuple[kl.Number, kl.Number]:
    """Return the two upper 64-bit words of m times a 192-bit number, modulo 2**192.

    ``words`` are its words of 32 bits, the uppermost first.
    """
    mask = (1 << 32) - 1
    low, high = m & mask, m >> 32
    result: list[kl.Number] = []
    carry = kl.constant(0, uint64, m.width)
    above = kl.constant(0, uint64, m.width)
    for word in reversed(words):
        # The product with the lower half of m, at its position, and with the upper half one higher.
        product = low * word + carry
        total = (product & mask) + (above & mask)
        carry = (product >> 32) + (above >> 32) + (total >> 32)
        result.append(total & mask)
        above = high * word
    return (result[5] << 32) | result[4], (result[3] << 32) | result[2]


class _Turn(NamedTuple):
    """Sine and cosine of an angle in [−π/4, π/4], each the sum of two numbers."""

    sine: Pair
    cosine: Pair


def _turn(angle: Angle, form: Format) -> _Turn:
    r, rest = angle.r, angle.rest
    z = r * r
    half = z * 0.5
    near_one = 1.0 - half
    lost = kl.fma(kl.fma(r, r, -z), -0.5, (1.0 - near_one) - half)
    # The rest is multiplied by the slope of the sine, the cosine.
    sine = kl.fma(r * z, base.polynomial(z, SIN[form.number]), rest * near_one)
    cosine = kl.fma(z * z, base.polynomial(z, COS[form.number]), lost - r * rest)
    return _Turn((r, sine), (near_one, cosine))


def _signed(x: kl.Number, flips: kl.Number, form: Format) -> kl.Number:
    """Return x with its sign changed if bit 1 of ``flips`` is set."""
    bit = (flips & 2) << (8 * form.dtype.itemsize - 2)
    return kl.bitcast(kl.bitcast(x, form.signed) ^ bit, form.dtype)


def _negated_as(result: kl.Number, x: kl.Number, form: Format) -> kl.Number:
    """Return a result with its sign changed if x has a sign."""
    bit = kl.bitcast(x, form.signed) & ~(form.sign - 1)
    return kl.bitcast(kl.bitcast(result, form.signed) ^ bit, form.dtype)


def _chosen(angle: Angle, form: Format, quadrant: kl.Number) -> kl.Number:
    (s, s_rest), (c, c_rest) = _turn(angle, form)
    odd = (quadrant & 1) != 0
    return _signed(kl.select(odd, c, s) + kl.select(odd, c_rest, s_rest), quadrant, form)


@within(0.75, 0.75)
def sin(x: kl.Number) -> kl.Number:
    """Return the sine of an angle in radians, within 1 ulp; NaN for infinities."""
    form = base.format_of(x)
    angle = reduced_angle(abs(x), form)
    return _negated_as(_chosen(angle, form, angle.quadrant), x, form)


@within(0.75, 0.75)
def cos(x: kl.Number) -> kl.Number:
    """Return the cosine of an angle in radians, within 1 ulp; NaN for infinities."""
    form = base.format_of(x)
    angle = reduced_angle(abs(x), form)
    return _chosen(angle, form, angle.quadrant + 1)


@exactly
def sincos(x: kl.Number) -> tuple[kl.Number, kl.Number]:
    """Return the sine and the cosine of an angle in radians, each within 1 ulp."""
    form = base.format_of(x)
    angle = reduced_angle(abs(x), form)
    sine = _negated_as(_chosen(angle, form, angle.quadrant), x, form)
    return sine, _chosen(angle, form, angle.quadrant + 1)


@within(0.95, 0.85)
def tan(x: kl.Number) -> kl.Number:
    """Return the tangent of an angle in radians, within 1 ulp; NaN for infinities."""
    form = base.format_of(x)
    angle = reduced_angle(abs(x), form)
    turn = _turn(angle, form)
    sine, cosine = base.fast_two_sum(*turn.sine), base.fast_two_sum(*turn.cosine)
    odd = (angle.quadrant & 1) != 0
    over = (kl.select(odd, cosine[0], sine[0]), kl.select(odd, cosine[1], sine[1]))
    under = (kl.select(odd, sine[0], cosine[0]), kl.select(odd, sine[1], cosine[1]))
    first, rest = base.ratio(over, under)
    return _negated_as(_signed(first + rest, angle.quadrant << 1, form), x, form)


_THREE_QUARTERS: Final[Table] = (
    (2.356194496154785, -5.962440319251527e-09),
    (2.356194490192345, 9.184850993605148e-17),
)
_EIGHTH: Final = 0.41421356237309503  # tan(π/8); its inverse is tan(3π/8)
_MANY_EIGHTHS: Final = 2.414213562373095


def _arc(size: kl.Number, form: Format) -> tuple[kl.Number, kl.Number, kl.Number]:
    """Return v and the rest of asin(v), for |x| or beyond 1/2 for the half angle; and which."""
    outer = size > 0.5
    z = kl.select(outer, (1.0 - size) * 0.5, size * size)
    nothing = kl.constant(0.0, size.dtype, size.width)
    half, missing = base.root((z, nothing))
    v = kl.select(outer, half, size)
    rest = kl.fma(v * z, base.polynomial(z, ASIN[form.number]), kl.select(outer, missing, nothing))
    return v, rest, outer


@within(0.7, 0.75)
def asin(x: kl.Number) -> kl.Number:
    """Return the arc sine, within 1 ulp; NaN beyond ±1."""
    form = base.format_of(x)
    v, rest, outer = _arc(abs(x), form)
    high, low = _HALF_PI[form.number][:2]
    total, error = base.fast_two_sum(kl.constant(high, x.dtype, x.width), v * -2.0)
    far = total + (error + kl.fma(rest, -2.0, low))
    return base.sign_as(kl.select(outer, far, v + rest), x)


@within(0.7, 0.75)
def acos(x: kl.Number) -> kl.Number:
    """Return the arc cosine in [0, π], within 1 ulp; NaN beyond ±1."""
    form = base.format_of(x)
    v, rest, outer = _arc(abs(x), form)
    high, low = _HALF_PI[form.number][:2]
    negative = x < 0.0
    # π/2 − asin(x) within 1/2; beyond, twice the half angle, subtracted from π below 0.
    twice = kl.select(outer, 2.0, kl.constant(1.0, x.dtype, x.width))
    turn = kl.select(outer, kl.select(negative, 2.0, kl.constant(0.0, x.dtype, x.width)), 1.0)
    back = kl.select(outer ^ negative, twice, -twice)
    back = kl.select(outer & negative, -twice, back)
    total, error = base.two_sum(turn * high, v * back)
    return total + (error + kl.fma(rest, back, turn * low))


def _arc_tangent(t: Pair, start: kl.Number, start_rest: kl.Number, form: Format) -> kl.Number:
    """Return start + atan(t) for |t| ≤ tan(π/8); |start| is 0 or larger."""
    first, rest = t
    z = first * first
    tail = kl.fma(first * z, base.polynomial(z, ATAN[form.number]), rest * (1.0 - z))
    total, error = base.fast_two_sum(start, first)
    return total + (error + (tail + start_rest))


def _reduced(a: kl.Number, b: kl.Number, form: Format) -> tuple[Pair, kl.Number, kl.Number]:
    """Return t, and whether to add π/4 and π/2 to atan(t), for atan(a / b)."""
    middle = a > b * _EIGHTH
    steep = a > b * _MANY_EIGHTHS
    zero = kl.constant(0.0, a.dtype, a.width)
    total, total_rest = base.two_sum(a, b)
    left, left_rest = base.two_sum(a, -b)
    over = kl.select(steep, -b, kl.select(middle, left, a))
    under = kl.select(steep, a, kl.select(middle, total, b))
    inside = middle & ~steep
    over_rest = kl.select(inside, left_rest, zero)
    under_rest = kl.select(inside, total_rest, zero)
    return base.ratio((over, over_rest), (under, under_rest)), inside, steep


@within(0.7, 0.65)
def atan(x: kl.Number) -> kl.Number:
    """Return the arc tangent, within 1 ulp."""
    form = base.format_of(x)
    size = abs(x)
    # Beyond this the result is constant; the inverse of the limit is a normal number.
    limit = 2.0 ** (form.fraction + 10)
    size = kl.select(size > limit, limit, size)
    t, inside, steep = _reduced(size, kl.constant(1.0, x.dtype, x.width), form)
    high, low = _HALF_PI[form.number][:2]
    nothing = kl.constant(0.0, x.dtype, x.width)
    start = kl.select(steep, high, kl.select(inside, high / 2, nothing))
    rest = kl.select(steep, low, kl.select(inside, low / 2, nothing))
    return base.sign_as(_arc_tangent(t, start, rest, form), x)


@within(0.85, 0.85)
def atan2(y: kl.Number, x: kl.Number) -> kl.Number:
    """Return the angle of the point (x, y) in [−π, π], within 1 ulp, as C's ``atan2``."""
    form = base.format_of(y)
    a, b = abs(y), abs(x)
    most = kl.select(a > b, a, b)
    one = kl.constant(1.0, x.dtype, x.width)
    # Infinities are directions; other numbers are scaled to have normal inverses.
    endless = most == base.INFINITY
    # Small ones are scaled so far that a quotient's error is not subnormal.
    scale = kl.select(most > 2.0 ** (form.bias // 2), one * 2.0**-8, 2.0 ** (form.bias // 3))
    a = kl.select(endless, kl.select(a == base.INFINITY, one, 0.0), a * scale)
    b = kl.select(endless, kl.select(b == base.INFINITY, one, 0.0), b * scale)
    b = kl.select(most == 0.0, one, b)
    (t, t_rest), inside, steep = _reduced(a, b, form)
    back = base.is_negative(x)
    high, low = _HALF_PI[form.number][:2]
    three, three_low = _THREE_QUARTERS[form.number]
    nothing = kl.constant(0.0, x.dtype, x.width)
    middle = kl.select(back, three, high / 2 * one)
    middle_low = kl.select(back, three_low, low / 2 * one)
    flat, flat_low = kl.select(back, high * 2, nothing), kl.select(back, low * 2, nothing)
    start = kl.select(steep, high, kl.select(inside, middle, flat))
    rest = kl.select(steep, low, kl.select(inside, middle_low, flat_low))
    turned = (kl.select(back, -t, t), kl.select(back, -t_rest, t_rest))
    result = _arc_tangent(turned, start, rest, form)
    result = kl.select((x != x) | (y != y), base.NAN, result)
    return base.sign_as(result, y)
