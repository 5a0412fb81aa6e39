"""Rows sorted with their indices: a key and an index are one number of 8 bytes.

Requirements: no two numbers are equal, so any sort of them is the stable one; values are the
source's, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from calor.dtypes import DType, int64, uint32, uint64
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Output
from calor_kernel.language import (
    In,
    InOut,
    Number,
    Out,
    Pointer,
    Size,
    SizeOf,
    absolute_position,
    constant,
    helper,
    kernel,
    loop_range,
    min,
    shuffle,
)
from calor_kernel.library.sort.keys import key_of
from calor_kernel.library.sort.networks import LANES
from calor_kernel.library.sort.quicksort import quick_sort

N = TypeVar("N")
_LANES = LANES[uint32]
_HALF = LANES[uint64]


@dataclass(frozen=True, slots=True)
class RowTurns(Generic[N]):
    """Rows of n elements, ``turns`` of them a unit."""

    rows: SizeOf[N]
    turns: SizeOf[N]
    n: SizeOf[N]


def outputs_of(dtype: DType, wanted: tuple[bool, bool]) -> tuple[Bound, Bound]:
    """Return the memory of values and indices; the unwanted one stands for the other."""
    types = (dtype, int64)
    used = [types[i] if wanted[i] else types[1 - i] for i in range(2)]
    return Bound(Output(0), used[0]), Bound(Output(1 if all(wanted) else 0), used[1])


@kernel
def sort_pairs(
    source: In,
    pairs: InOut,
    spare: InOut,
    values: Out,
    indices: Out,
    over: RowTurns[Number],
    room: Size,
    *,
    descending: bool,
    wanted: tuple[bool, bool],
) -> None:
    """Sort rows; a unit has ``room`` elements of ``spare`` for ``quick_sort``.

    ``wanted``: whether values and indices are written. ``pairs`` has a number for each element.
    """
    unit = absolute_position()
    begin = unit * over.turns
    for row in loop_range(begin, min(begin + over.turns, over.rows)):
        first = row * over.n
        encode_pairs(source, pairs, first, over.n, descending)
        done = partial(put_pairs, source, values, indices, first, wanted)
        quick_sort(pairs, spare.at(unit * room), first, first + over.n, done)


@helper
def encode_pairs(
    source: Pointer, pairs: Pointer, first: Number, n: Number, descending: bool
) -> None:
    """Write a row's keys with the indices in the lower halves."""
    lanes = lanes_of(_LANES)
    for i in loop_range(0, n, _LANES):
        x = source.load(first + i, _LANES, mask=(i + lanes) < n)
        both = pair_up(key_of(x, descending).to(uint32), (i + lanes).to(uint32))
        for half in range(2):
            at = i + half * _HALF
            pairs.store(first + at, both[half], mask=(at + lanes_of(_HALF)) < n)


def lanes_of(width: int) -> Number:
    """Return the numbers of the lanes of a vector."""
    return constant(tuple(range(width)), int64)


def pair_up(key: Number, index: Number) -> list[Number]:
    """Return two vectors of keys with indices in the lower halves."""
    pairs = []
    for half in range(2):
        which = range(half * _HALF, half * _HALF + _HALF)
        pairs.append((shuffle(key, which).to(uint64) << 32) | shuffle(index, which).to(uint64))
    return pairs


def put_pairs(
    source: Pointer,
    values: Pointer,
    indices: Pointer,
    first: Number,
    wanted: tuple[bool, bool],
    at: Number,
    pairs: Number,
    mask: Number | None,
) -> None:
    """Write the values and the indices of sorted pairs."""
    index = (pairs & 0xFFFFFFFF).to(int64)
    if wanted[1]:
        indices.store(at, index, mask=mask)
    if wanted[0]:
        values.store(at, source.load(first + index, mask=mask), mask=mask)
