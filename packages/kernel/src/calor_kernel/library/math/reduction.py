"""Arguments of circular functions, reduced to [−π/4, π/4].

Requirements: the remainder is accurate to far more than an ulp for every finite argument, also next
to the multiples of π/2. Usual arguments cost only a few operations. Small ones are reduced by Cody
and Waite's method with π/2 in three parts; the first product is exact with a fused operation. Large
ones are multiplied by the significant bits of 2/π (Payne and Hanek, "Radian reduction for
trigonometric functions", 1983). These are shifted together from constants of the kernel, so that no
table is read. This path runs only if a lane needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from calor.dtypes import int32, int64, uint32, uint64
from calor_kernel.language import (
    Number,
    bitcast,
    cast,
    constant,
    fma,
    helper,
    mulhi,
    select,
)
from calor_kernel.library.math.base import (
    INFINITY,
    NAN,
    Format,
    Table,
    fast_two_sum,
    some,
    two_product,
    two_sum,
)

TWO_OVER_PI: Final = 0.6366197723675814
HALF_PI: Final[Table] = (
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

    r: Number
    rest: Number
    quadrant: Number


@helper
def reduced_angle(x: Number, form: Format) -> Angle:
    """Return a nonnegative argument's quadrant and remainder; NaN for infinities and NaN."""
    r, rest, quadrant = _near(x, form)
    large = x >= _LARGE[form.number]
    if some(large):
        far = _far(x, form)
        r = select(large, far.r, r)
        rest = select(large, far.rest, rest)
        quadrant = select(large, far.quadrant, quadrant)
    return Angle(r, rest, quadrant)


def _near(x: Number, form: Format) -> Angle:
    total = fma(x, TWO_OVER_PI, form.magic)
    n = total - form.magic
    first, second, third = HALF_PI[form.number]
    step, error = two_product(n, constant(second, x.dtype, x.width))
    r, rest = two_sum(fma(n, -first, x), -step)
    return Angle(r, rest - fma(n, third, error), bitcast(total, form.signed))


def _far(x: Number, form: Format) -> Angle:
    parts = _far32(x) if form.fraction == 23 else _far64(x)
    first, second = HALF_PI[form.number][:2]
    turn, error = fast_two_sum(parts.r, parts.rest)
    r, lost = two_product(turn, constant(first, x.dtype, x.width))
    rest = lost + fma(turn, second, error * first)
    return Angle(select(x < INFINITY, r, NAN), rest, parts.quadrant)


def _window(start: Number, words: int, first: int) -> list[Number]:
    """Return words of 2/π from bit ``start`` on; ``first``: the largest power of two of words."""
    place, shift = start >> 5, start & 31
    count = words + 1
    held: list[Number] = [constant(w, uint32, start.width) for w in _WORDS]
    step = first
    while step:
        taken = (place & step) != 0
        # Words that the later steps can reach.
        needed = min(count + step - 1, len(held) - step)
        held = [select(taken, held[i + step], held[i]) for i in range(needed)]
        step //= 2
    # Shifts are below 32, so this one is made in two.
    return [(held[i] << shift) | ((held[i + 1] >> 1) >> (31 - shift)) for i in range(words)]


def _far32(x: Number) -> Angle:
    """Return the quadrant and the remaining part of a quadrant, as the sum of two numbers."""
    bits = bitcast(x, uint32)
    m = (bits & 0x7FFFFF) | 0x800000
    # x · 2/π modulo 4 as a 64-bit integer: the words above are whole turns, and those below are
    # more than the worst argument needs.
    top, middle, low = _window((bits >> 23) - 120, 3, 4)
    high = m * top + mulhi(m, middle)
    part = m * middle
    total = part + mulhi(m, low)
    high = high + cast(total < part, uint32)
    quadrant = (high + (1 << 29)) >> 30
    left = bitcast(high - (quadrant << 30), int32)
    a = cast(left >> 6, x.dtype) * 2.0**-24
    b = cast(((left & 63) << 18) | bitcast(total >> 14, int32), x.dtype) * 2.0**-48
    c = cast(bitcast(total & 0x3FFF, int32), x.dtype) * 2.0**-62
    turn, error = fast_two_sum(a, b)
    return Angle(turn, error + c, bitcast(quadrant, int32))


def _far64(x: Number) -> Angle:
    bits = bitcast(x, uint64)
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    start = cast(bits >> 52, uint32) - 1045
    words = [cast(w, uint64) for w in _window(start, 6, 16)]
    high, low = _product(words, m)
    quadrant = (high + (1 << 61)) >> 62
    left = bitcast(high - (quadrant << 62), int64)
    a = cast(left >> 9, x.dtype) * 2.0**-53
    b = cast(((left & 511) << 44) | bitcast(low >> 20, int64), x.dtype) * 2.0**-106
    c = cast(bitcast(low & 0xFFFFF, int64), x.dtype) * 2.0**-126
    turn, error = two_sum(a, b)
    turn, error = fast_two_sum(turn, error + c)
    return Angle(turn, error, bitcast(quadrant, int64))


def _product(words: Sequence[Number], m: Number) -> tuple[Number, Number]:
    """Return the two upper 64-bit words of m times a 192-bit number, modulo 2**192.

    ``words`` are its words of 32 bits, the uppermost first.
    """
    mask = (1 << 32) - 1
    low, high = m & mask, m >> 32
    result: list[Number] = []
    carry = constant(0, uint64, m.width)
    above = constant(0, uint64, m.width)
    for word in reversed(words):
        # The product with the lower half of m, at its position, and with the upper half one higher.
        product = low * word + carry
        total = (product & mask) + (above & mask)
        carry = (product >> 32) + (above >> 32) + (total >> 32)
        result.append(total & mask)
        above = high * word
    return (result[5] << 32) | result[4], (result[3] << 32) | result[2]
