"""Rows sorted for their values alone: keys in place, and no indices.

Requirements: the values are those of the stable sort, bit for bit: keys of −0 and +0 are equal, and
those of all NaN, so where a row has one of these, its zeros and NaN are taken from the source again
in their order.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    absolute_position,
    bitcast,
    constant,
    helper,
    kernel,
    loop_range,
    select,
    vreduce,
)
from calor_kernel.library.sort.keys import UNSIGNED, infinity_bits, key_of, value_of
from calor_kernel.library.sort.networks import LANES
from calor_kernel.library.sort.quick import quick_sort


@kernel
def sort_values(
    source: Any,
    keys: Any,
    spare: Any,
    target: Any,
    rows: Any,
    turns: Any,
    n: Any,
    *,
    descending: bool,
    own: bool,
) -> None:
    """Sort rows of n elements; ``spare`` has 64 more elements than ``keys``.

    ``own``: the keys have a memory of their own, beside the target; else they are sorted in the
    target, which is seen as keys.
    """
    dtype: DType = source.dtype
    lanes = LANES[keys.dtype]
    to = target if own else keys
    whole = n // lanes * lanes
    begin = absolute_position() * turns
    for row in loop_range(begin, min(begin + turns, rows)):
        first = row * n
        special = encode_row(source, keys, first, n, descending)
        quick_sort(keys, spare, first, first + n)
        zeros, others = first, first
        if special:
            # The keys of zero, and of NaN.
            half = 1 << (dtype.itemsize * 8 - 1)
            zeros = place_of(keys, first, n, constant(half - int(descending), keys.dtype))
            others = place_of(keys, first, n, constant(2 * half - 1, keys.dtype))
        for i in loop_range(0, whole, lanes):
            value = value_of(keys.load(first + i, lanes), dtype, descending)
            to.store(first + i, value if own else bitcast(value, keys.dtype))
        for i in loop_range(whole, n):
            value = value_of(keys[first + i], dtype, descending)
            to[first + i] = value if own else bitcast(value, keys.dtype)
        if special:
            put_special(source, to, first, n, zeros, others)


@helper
def encode_row(source: Any, keys: Any, first: Any, n: Any, descending: bool) -> Any:
    """Write a row's keys; return whether it has a NaN or −0, False where its dtype has none."""
    floating = source.dtype.kind == "float"
    lanes = LANES[keys.dtype]
    whole = n // lanes * lanes
    found = constant(0, keys.dtype, lanes)
    for i in loop_range(0, whole, lanes):
        x = source.load(first + i, lanes)
        keys.store(first + i, key_of(x, descending).to(keys.dtype))
        if floating:
            found = found | is_special(x, keys.dtype)
    any_found = vreduce("or", found)
    for i in loop_range(whole, n):
        x = source[first + i]
        keys[first + i] = key_of(x, descending).to(keys.dtype)
        if floating:
            any_found = any_found | is_special(x, keys.dtype)
    return any_found != 0 if floating else False


def is_special(x: Any, word: DType) -> Any:
    """Return 1 for NaN and −0, else 0, as a word."""
    bits = UNSIGNED[x.dtype.itemsize]
    raw = bitcast(x, bits)
    minus_zero = raw == constant(1 << (x.dtype.itemsize * 8 - 1), bits)
    return select(is_nan(raw, x.dtype) | minus_zero, constant(1, word), constant(0, word))


def is_nan(raw: Any, dtype: DType) -> Any:
    """Return whether bits are those of a NaN."""
    bits = dtype.itemsize * 8
    magnitude = raw & constant((1 << (bits - 1)) - 1, raw.dtype)
    return magnitude > constant(infinity_bits(dtype), raw.dtype)


@helper
def place_of(keys: Any, first: Any, n: Any, key: Any) -> Any:
    """Return where in a sorted row the first key lies that is not below ``key``."""
    lo, hi = first, first + n
    while lo < hi:
        middle = (lo + hi) >> 1
        less = keys[middle] < key
        lo, hi = select(less, middle + 1, lo), select(less, hi, middle)
    return lo


@helper
def put_special(source: Any, to: Any, first: Any, n: Any, zeros: Any, others: Any) -> None:
    """Write a row's zeros from ``zeros`` on, and its NaN from ``others`` on, in their order."""
    dtype = source.dtype
    bits = UNSIGNED[dtype.itemsize]
    for i in loop_range(first, first + n):
        x = source[i]
        raw = bitcast(x, bits)
        if is_nan(raw, dtype):
            to[others] = x if to.dtype is dtype else raw
            others = others + 1
        elif raw & constant((1 << (dtype.itemsize * 8 - 1)) - 1, bits) == 0:
            to[zeros] = x if to.dtype is dtype else raw
            zeros = zeros + 1
