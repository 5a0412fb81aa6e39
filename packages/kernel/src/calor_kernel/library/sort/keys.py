"""Keys: unsigned integers whose order is the order of the elements.

Requirements: a stable sort of the keys is the sort that the reference defines: NaN last in both
directions, −0 equal to +0, complex numbers by real, then by imaginary part, those with a NaN after
all others. Bits of floats are turned as Herf does (Radix Tricks, 2001).
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, bool_, uint8, uint16, uint32, uint64
from calor_kernel.language import (
    absolute_position,
    bitcast,
    constant,
    kernel,
    loop_range,
    select,
    unravel,
)

UNSIGNED = {1: uint8, 2: uint16, 4: uint32, 8: uint64}


@kernel
def encode_keys(
    source: Any,
    target: Any,
    count: Any,
    turns: Any,
    n: Any,
    inner: Any,
    *,
    part: str,
    descending: bool,
) -> None:
    """Write ``target[row, j]``, the keys of ``source[outer, j, i]`` with rows of (outer, i).

    ``part``: of complex elements the "real", the "imaginary" part, or the "class" that puts those
    with NaN last; "whole" of others.
    """
    begin = absolute_position() * turns
    for at in loop_range(begin, min(begin + turns, count)):
        row, j = unravel(at, (1, n))
        outer, i = unravel(row, (1, inner))
        place = (outer * n + j) * inner + i
        if part == "whole":
            target[at] = key_of(source[place], descending)
        elif part == "class":
            real, imaginary = source[2 * place], source[2 * place + 1]
            two = select(real != real, constant(2, uint8), constant(0, uint8))
            target[at] = two + select(
                imaginary != imaginary, constant(1, uint8), constant(0, uint8)
            )
        else:
            taken = source[2 * place + (1 if part == "imaginary" else 0)]
            target[at] = key_of(taken, descending)


def key_of(x: Any, descending: bool) -> Any:
    """Return the key of a value."""
    dtype: DType = x.dtype
    whole = UNSIGNED[dtype.itemsize]
    bits = dtype.itemsize * 8
    ones = (1 << bits) - 1
    if dtype is bool_:
        key = x.to(uint8)
        return 1 - key if descending else key
    if dtype.kind == "uint":
        return x ^ constant(ones, whole) if descending else x
    if dtype.kind == "int":
        flip = (1 << (bits - 1)) ^ (ones if descending else 0)
        return bitcast(x, whole) ^ constant(flip, whole)
    sign = constant(1 << (bits - 1), whole)
    raw = bitcast(x, whole)
    magnitude = raw & constant(ones >> 1, whole)
    raw = select(magnitude == 0, constant(0, whole), raw)
    key = select((raw & sign) != 0, raw ^ constant(ones, whole), raw | sign)
    if descending:
        key = key ^ constant(ones, whole)
    # NaN: a magnitude above that of infinity, whichever way the numbers are sorted.
    return select(magnitude > constant(infinity_bits(dtype), whole), constant(ones, whole), key)


def infinity_bits(dtype: DType) -> int:
    """Return the bits of infinity; those of a NaN are more, but for the sign."""
    if dtype.name == "bfloat16":
        return 0x7F80
    return {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}[dtype.itemsize]


def value_of(key: Any, dtype: DType, descending: bool) -> Any:
    """Return the value of a key, with +0 for each zero and one NaN for all."""
    whole = UNSIGNED[dtype.itemsize]
    bits = dtype.itemsize * 8
    ones = (1 << bits) - 1
    key = key.to(whole)
    if dtype is bool_:
        return key == (0 if descending else 1)
    if dtype.kind == "uint":
        return key ^ constant(ones, whole) if descending else key
    sign = constant(1 << (bits - 1), whole)
    if dtype.kind == "int":
        flip = (1 << (bits - 1)) ^ (ones if descending else 0)
        return bitcast(key ^ constant(flip, whole), dtype)
    if descending:
        key = key ^ constant(ones, whole)
    return bitcast(select((key & sign) != 0, key ^ sign, key ^ constant(ones, whole)), dtype)
