"""Rows sorted for their values alone: keys are sorted in place, without indices.

Requirements: the values are those of the stable sort, bit for bit. −0 and +0 have equal keys, and
so have all NaN; if a row has −0 or NaN, its zeros and NaN are copied from the source in their
order.
"""

from __future__ import annotations

from functools import partial

from calor.dtypes import DType, int64
from calor_kernel.language import (
    In,
    InOut,
    Mask,
    Number,
    Out,
    Pointer,
    Size,
    absolute_position,
    bitcast,
    constant,
    helper,
    kernel,
    loop_range,
    min,
    select,
    vreduce,
)
from calor_kernel.library.sort.keys import UNSIGNED, infinity_bits, key_of, value_of
from calor_kernel.library.sort.networks import LANES
from calor_kernel.library.sort.pairs import RowTurns
from calor_kernel.library.sort.quicksort import quick_sort


@kernel
def sort_values(
    source: In,
    keys: InOut,
    spare: InOut,
    target: Out,
    over: RowTurns[Number],
    room: Size,
    *,
    descending: bool,
    own: bool,
) -> None:
    """Sort rows; a unit has ``room`` keys of ``spare`` for ``quick_sort``.

    ``own``: the keys have their own memory; else they are sorted in the target's memory.
    """
    to = target if own else keys
    done = partial(put_values, to, source.dtype, descending)
    unit = absolute_position()
    begin = unit * over.turns
    for row in loop_range(begin, min(begin + over.turns, over.rows)):
        first = row * over.n
        special = encode_row(source, keys, first, over.n, descending)
        quick_sort(keys, spare.at(unit * room), first, first + over.n, done)
        if special:
            put_special(source, to, first, over.n, descending)


def put_values(
    to: Pointer, dtype: DType, descending: bool, at: Number, keys: Number, mask: Number | None
) -> None:
    """Write the values of sorted keys."""
    value = value_of(keys, dtype, descending)
    to.store(at, value if to.dtype is dtype else bitcast(value, to.dtype), mask=mask)


@helper
def encode_row(source: Pointer, keys: Pointer, first: Number, n: Number, descending: bool) -> Mask:
    """Write a row's keys; return whether it has a NaN or −0, False for dtypes without these."""
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


def is_special(x: Number, word: DType) -> Number:
    """Return 1 for NaN and −0, else 0, as a word."""
    bits = UNSIGNED[x.dtype.itemsize]
    raw = bitcast(x, bits)
    minus_zero = raw == constant(1 << (x.dtype.itemsize * 8 - 1), bits)
    return select(is_nan(raw, x.dtype) | minus_zero, constant(1, word), constant(0, word))


def is_nan(raw: Number, dtype: DType) -> Number:
    """Return whether bits are those of a NaN."""
    bits = dtype.itemsize * 8
    magnitude = raw & constant((1 << (bits - 1)) - 1, raw.dtype)
    return magnitude > constant(infinity_bits(dtype), raw.dtype)


@helper
def put_special(source: Pointer, to: Pointer, first: Number, n: Number, descending: bool) -> None:
    """Write a row's zeros and NaN at their sorted positions, in their order in the source."""
    dtype = source.dtype
    bits = UNSIGNED[dtype.itemsize]
    # The key of zero; NaN have the greatest key.
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
