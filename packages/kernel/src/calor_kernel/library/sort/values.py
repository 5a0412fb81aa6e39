"""Rows sorted for their values alone: keys in place, and no indices.

Requirements: the values are those of the stable sort, bit for bit: keys of −0 and +0 are equal, and
those of all NaN, so where a row has one of these, its zeros and NaN are taken from the source again
in their order.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from calor.dtypes import DType, int64
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
    room: Any,
    *,
    descending: bool,
    own: bool,
) -> None:
    """Sort rows of n elements; a unit has ``room`` of ``spare``, as ``quick_sort`` says.

    ``own``: the keys have a memory of their own, beside the target; else they are sorted in the
    target, which is seen as keys.
    """
    to = target if own else keys
    done = partial(put_values, to, source.dtype, descending)
    unit = absolute_position()
    begin = unit * turns
    for row in loop_range(begin, min(begin + turns, rows)):
        first = row * n
        special = encode_row(source, keys, first, n, descending)
        quick_sort(keys, spare.at(unit * room), first, first + n, done)
        if special:
            put_special(source, to, first, n, descending)


def put_values(to: Any, dtype: DType, descending: bool, place: Any, keys: Any, mask: Any) -> None:
    """Write the values of sorted keys."""
    value = value_of(keys, dtype, descending)
    to.store(place, value if to.dtype is dtype else bitcast(value, to.dtype), mask=mask)


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
def put_special(source: Any, to: Any, first: Any, n: Any, descending: bool) -> None:
    """Write a row's zeros and NaN where they belong, in their order in the source."""
    dtype = source.dtype
    bits = UNSIGNED[dtype.itemsize]
    # The key of zero; those of NaN are the greatest.
    zero = constant((1 << (dtype.itemsize * 8 - 1)) - int(descending), bits)
    zeros, others = first, first + n
    for i in loop_range(first, first + n):
        x = source[i]
        zeros = zeros + (key_of(x, descending) < zero).to(int64)
        others = others - is_nan(bitcast(x, bits), dtype).to(int64)
    for i in loop_range(first, first + n):
        x = source[i]
        raw = bitcast(x, bits)
        if is_nan(raw, dtype):
            to[others] = x if to.dtype is dtype else raw
            others = others + 1
        elif key_of(x, descending) == zero:
            to[zeros] = x if to.dtype is dtype else raw
            zeros = zeros + 1
