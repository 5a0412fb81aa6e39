"""Keys: unsigned integers whose order is the order of the elements.

Requirements: a stable sort of the keys is the sort that the reference defines: NaN last in both
directions, −0 equal to +0, complex numbers by real, then by imaginary part, those with a NaN after
all others. Bits of floats are mapped as Herf does (Radix Tricks, 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import DType, bool_, uint8
from calor_kernel import language as kl
from calor_kernel.ir.types import UNSIGNED

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class AxisElements(Generic[N]):
    """The ``count`` elements of an array ``[outer, n, inner]``, sorted along n.

    A unit has ``turns`` of them.
    """

    count: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    n: kl.SizeOf[N]
    inner: kl.SizeOf[N]


@kl.kernel
def encode_keys(
    source: kl.In, target: kl.Out, over: AxisElements[kl.Number], *, part: str, descending: bool
) -> None:
    """Write ``target[row, j]``, the keys of ``source[outer, j, i]`` with rows (outer, i).

    ``part``: the "real" or the "imaginary" part of complex elements, or the "class" by which those
    with NaN are last; "whole" for other dtypes.
    """
    begin = kl.absolute_position() * over.turns
    for at in kl.loop_range(begin, kl.min(begin + over.turns, over.count)):
        row, j = kl.unravel(at, (1, over.n))
        outer, i = kl.unravel(row, (1, over.inner))
        index = (outer * over.n + j) * over.inner + i
        if part == "whole":
            target[at] = key_of(source[index], descending)
        elif part == "class":
            real, imaginary = source[2 * index], source[2 * index + 1]
            two = kl.select(real != real, kl.constant(2, uint8), kl.constant(0, uint8))
            target[at] = two + kl.select(
                imaginary != imaginary, kl.constant(1, uint8), kl.constant(0, uint8)
            )
        else:
            value = source[2 * index + (1 if part == "imaginary" else 0)]
            target[at] = key_of(value, descending)


def key_of(x: kl.Number, descending: bool) -> kl.Number:
    """Return the key of a value."""
    dtype: DType = x.dtype
    whole = UNSIGNED[dtype.itemsize]
    bits = dtype.itemsize * 8
    ones = (1 << bits) - 1
    if dtype is bool_:
        key = x.to(uint8)
        return 1 - key if descending else key
    if dtype.kind == "uint":
        return x ^ kl.constant(ones, whole) if descending else x
    if dtype.kind == "int":
        flip = (1 << (bits - 1)) ^ (ones if descending else 0)
        return kl.bitcast(x, whole) ^ kl.constant(flip, whole)
    sign = kl.constant(1 << (bits - 1), whole)
    raw = kl.bitcast(x, whole)
    magnitude = raw & kl.constant(ones >> 1, whole)
    raw = kl.select(magnitude == 0, kl.constant(0, whole), raw)
    key = kl.select((raw & sign) != 0, raw ^ kl.constant(ones, whole), raw | sign)
    if descending:
        key = key ^ kl.constant(ones, whole)
    # A NaN has a magnitude above infinity's; it is last in both directions.
    return kl.select(
        magnitude > kl.constant(infinity_bits(dtype), whole), kl.constant(ones, whole), key
    )


def infinity_bits(dtype: DType) -> int:
    """Return the bits of infinity; without the sign, the bits of a NaN are greater."""
    if dtype.name == "bfloat16":
        return 0x7F80
    return {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}[dtype.itemsize]


def value_of(key: kl.Number, dtype: DType, descending: bool) -> kl.Number:
    """Return the value of a key; all zeros become +0, all NaN the same NaN."""
    whole = UNSIGNED[dtype.itemsize]
    bits = dtype.itemsize * 8
    ones = (1 << bits) - 1
    key = key.to(whole)
    if dtype is bool_:
        return key == (0 if descending else 1)
    if dtype.kind == "uint":
        return key ^ kl.constant(ones, whole) if descending else key
    sign = kl.constant(1 << (bits - 1), whole)
    if dtype.kind == "int":
        flip = (1 << (bits - 1)) ^ (ones if descending else 0)
        return kl.bitcast(key ^ kl.constant(flip, whole), dtype)
    if descending:
        key = key ^ kl.constant(ones, whole)
    return kl.bitcast(
        kl.select((key & sign) != 0, key ^ sign, key ^ kl.constant(ones, whole)), dtype
    )
