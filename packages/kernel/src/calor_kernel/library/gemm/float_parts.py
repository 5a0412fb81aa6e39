"""Numbers of float32 as sums of three numbers of bfloat16, whose products have all of its digits.

Requirements: tile registers multiply bfloat16 alone, sixteen times as fast as FMA multiplies
float32. A float32 is the sum of three bfloat16, exactly; of the nine products of two such sums, the
three smallest are beneath the last digit. So six products of tiles have the digits of one in
float32. The parts of very small and very large numbers, of infinities and NaN would lose digits, so
what has such numbers is multiplied by FMA. (Henry, Tang and Heinecke, "Leveraging the bfloat16
Artificial Intelligence Datatype For Higher-Precision Computations", 2019.)
"""

from __future__ import annotations

from calor.dtypes import float32, uint32
from calor_kernel import language as kl
from calor_kernel.language.tiles import PARTS

# The bits of the least and of the first too large of the numbers whose parts have all digits, and
# whose products are far from the least and the largest float32: 2^-48 and 2^60.
_LEAST, _LARGE = (127 - 48) << 23, (127 + 60) << 23
_SIGN, _HIGH, _ROUND, _BITS = 0x7FFFFFFF, 0xFFFF0000, 0x8000, 16


def parts_of(value: kl.Number) -> list[kl.Number]:
    """Return the bits of the parts, the largest first, in the upper halves of words.

    Each is rounded to the nearest, so that what products leave out has both signs.
    """
    found, width = [], value.width
    for _ in range(PARTS - 1):
        bits = kl.bitcast(value, uint32) + kl.constant(_ROUND, uint32, width)
        high = bits & kl.constant(_HIGH, uint32, width)
        found.append(high)
        value = value - kl.bitcast(high, float32)
    return [*found, kl.bitcast(value, uint32)]


def strange(value: kl.Number) -> kl.Number:
    """Return a word for each lane: not zero if the parts of its number may lose digits."""
    width = value.width
    bits = kl.bitcast(value, uint32) & kl.constant(_SIGN, uint32, width)
    beyond = bits - kl.constant(_LEAST, uint32, width)
    outside = beyond >= kl.constant(_LARGE - _LEAST, uint32, width)
    zero = kl.constant(0, uint32, width)
    return kl.select(outside, bits, zero)


def pairs_of(first: kl.Number, second: kl.Number) -> list[kl.Number]:
    """Return the parts of two numbers in words: those of the first in the lower halves."""
    bits = kl.constant(_BITS, uint32, first.width)
    both = zip(parts_of(first), parts_of(second), strict=True)
    return [(low >> bits) | high for low, high in both]


def halves_of(value: kl.Number) -> list[kl.Number]:
    """Return the bits of the parts in half words."""
    bits = kl.constant(_BITS, uint32, value.width)
    return [part >> bits for part in parts_of(value)]
