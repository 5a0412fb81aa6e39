"""Rows sorted in vectors by cubes of one unit: as pairs, or values alone.

Requirements: a pair of a key and an index is one number of 8 bytes; no two are equal, so any sort
of them is the stable one. Values are the source's, bit for bit. For values alone, keys are sorted
in place, without indices: −0 and +0 have equal keys, and so have all NaN; if a row has −0 or NaN,
its zeros and NaN are copied from the source in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from calor.dtypes import DType, int64, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Output
from calor_kernel.ir.types import UNSIGNED
from calor_kernel.library.sort.keys import infinity_bits, key_of, value_of
from calor_kernel.library.sort.networks import LANES
from calor_kernel.library.sort.quicksort import quick_sort

N = TypeVar("N")
_LANES = LANES[uint32]
_HALF = LANES[uint64]


@dataclass(frozen=True, slots=True)
class RowTurns(Generic[N]):
    """Rows of n elements, ``turns`` of them a unit."""

    rows: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    n: kl.SizeOf[N]


def outputs_of(dtype: DType, wanted: tuple[bool, bool]) -> tuple[Bound, Bound]:
    """Return the memory of values and indices; the unwanted one stands for the other."""
    types = (dtype, int64)
    used = [types[i] if wanted[i] else types[1 - i] for i in range(2)]
    return Bound(Output(0), used[0]), Bound(Output(1 if all(wanted) else 0), used[1])


@kl.kernel
def sort_pairs(
    source: kl.In,
    pairs: kl.InOut,
    spare: kl.InOut,
    values: kl.Out,
    indices: kl.Out,
    over: RowTurns[kl.Number],
    room: kl.Size,
    *,
    descending: bool,
    wanted: tuple[bool, bool],
) -> None:
    """Sort rows; a unit has ``room`` elements of ``spare`` for ``quick_sort``.

    ``wanted``: whether values and indices are written. ``pairs`` has a number for each element.
    """
    unit = kl.absolute_position()
    begin = unit * over.turns
    for row in kl.loop_range(begin, kl.min(begin + over.turns, over.rows)):
        first = row * over.n
        encode_pairs(source, pairs, first, over.n, descending)
        done = partial(put_pairs, source, values, indices, first, wanted)
        quick_sort(pairs, spare.at(unit * room), first, first + over.n, done)


@kl.helper
def encode_pairs(
    source: kl.Pointer, pairs: kl.Pointer, first: kl.Number, n: kl.Number, descending: bool
) -> None:
    """Write a row's keys with the indices in the lower halves."""
    lanes = lanes_of(_LANES)
    for i in kl.loop_range(0, n, _LANES):
        x = source.load(first + i, _LANES, mask=(i + lanes) < n)
        both = pair_up(key_of(x, descending).to(uint32), (i + lanes).to(uint32))
        for half in range(2):
            at = i + half * _HALF
            pairs.store(first + at, both[half], mask=(at + lanes_of(_HALF)) < n)


def lanes_of(width: int) -> kl.Number:
    """Return the numbers of the lanes of a vector."""
    return kl.constant(tuple(range(width)), int64)


def pair_up(key: kl.Number, index: kl.Number) -> list[kl.Number]:
    """Return two vectors of keys with indices in the lower halves."""
    pairs = []
    for half in range(2):
        which = range(half * _HALF, half * _HALF + _HALF)
        pairs.append(
            (kl.shuffle(key, which).to(uint64) << 32) | kl.shuffle(index, which).to(uint64)
        )
    return pairs


def put_pairs(
    source: kl.Pointer,
    values: kl.Pointer,
    indices: kl.Pointer,
    first: kl.Number,
    wanted: tuple[bool, bool],
    at: kl.Number,
    pairs: kl.Number,
    mask: kl.Number | None,
) -> None:
    """Write the values and the indices of sorted pairs."""
    index = (pairs & 0xFFFFFFFF).to(int64)
    if wanted[1]:
        indices.store(at, index, mask=mask)
    if wanted[0]:
        values.store(at, source.load(first + index, mask=mask), mask=mask)


@kl.kernel
def sort_values(
    source: kl.In,
    keys: kl.InOut,
    spare: kl.InOut,
    target: kl.Out,
    over: RowTurns[kl.Number],
    room: kl.Size,
    *,
    descending: bool,
    own: bool,
) -> None:
    """Sort rows; a unit has ``room`` keys of ``spare`` for ``quick_sort``.

    ``own``: the keys have their own memory; else they are sorted in the target's memory.
    """
    to = target if own else keys
    done = partial(put_values, to, source.dtype, descending)
    unit = kl.absolute_position()
    begin = unit * over.turns
    for row in kl.loop_range(begin, kl.min(begin + over.turns, over.rows)):
        first = row * over.n
        special = encode_row(source, keys, first, over.n, descending)
        quick_sort(keys, spare.at(unit * room), first, first + over.n, done)
        if special:
            put_special(source, to, first, over.n, descending)


def put_values(
    to: kl.Pointer,
    dtype: DType,
    descending: bool,
    at: kl.Number,
    keys: kl.Number,
    mask: kl.Number | None,
) -> None:
    """Write the values of sorted keys."""
    value = value_of(keys, dtype, descending)
    to.store(at, value if to.dtype is dtype else kl.bitcast(value, to.dtype), mask=mask)


@kl.helper
def encode_row(
    source: kl.Pointer, keys: kl.Pointer, first: kl.Number, n: kl.Number, descending: bool
) -> kl.Mask:
    """Write a row's keys; return whether it has a NaN or −0, False for dtypes without these."""
    floating = source.dtype.kind == "float"
    lanes = LANES[keys.dtype]
    whole = n // lanes * lanes
    found = kl.constant(0, keys.dtype, lanes)
    for i in kl.loop_range(0, whole, lanes):
        x = source.load(first + i, lanes)
        keys.store(first + i, key_of(x, descending).to(keys.dtype))
        if floating:
            found = found | is_special(x, keys.dtype)
    any_found = kl.vreduce("or", found)
    for i in kl.loop_range(whole, n):
        x = source[first + i]
        keys[first + i] = key_of(x, descending).to(keys.dtype)
        if floating:
            any_found = any_found | is_special(x, keys.dtype)
    return any_found != 0 if floating else False


def is_special(x: kl.Number, word: DType) -> kl.Number:
    """Return 1 for NaN and −0, else 0, as a word."""
    bits = UNSIGNED[x.dtype.itemsize]
    raw = kl.bitcast(x, bits)
    minus_zero = raw == kl.constant(1 << (x.dtype.itemsize * 8 - 1), bits)
    return kl.select(is_nan(raw, x.dtype) | minus_zero, kl.constant(1, word), kl.constant(0, word))


def is_nan(raw: kl.Number, dtype: DType) -> kl.Number:
    """Return whether bits are those of a NaN."""
    bits = dtype.itemsize * 8
    magnitude = raw & kl.constant((1 << (bits - 1)) - 1, raw.dtype)
    return magnitude > kl.constant(infinity_bits(dtype), raw.dtype)


@kl.helper
def put_special(
    source: kl.Pointer, to: kl.Pointer, first: kl.Number, n: kl.Number, descending: bool
) -> None:
    """Write a row's zeros and NaN at their sorted positions, in their order in the source."""
    dtype = source.dtype
    bits = UNSIGNED[dtype.itemsize]
    # The key of zero; NaN have the greatest key.
    zero = kl.constant((1 << (dtype.itemsize * 8 - 1)) - int(descending), bits)
    zeros, others = first, first + n
    for i in kl.loop_range(first, first + n):
        x = source[i]
        zeros = zeros + (key_of(x, descending) < zero).to(int64)
        others = others - is_nan(kl.bitcast(x, bits), dtype).to(int64)
    for i in kl.loop_range(first, first + n):
        x = source[i]
        raw = kl.bitcast(x, bits)
        if is_nan(raw, dtype):
            to[others] = x if to.dtype is dtype else raw
            others = others + 1
        elif key_of(x, descending) == zero:
            to[zeros] = x if to.dtype is dtype else raw
            zeros = zeros + 1
