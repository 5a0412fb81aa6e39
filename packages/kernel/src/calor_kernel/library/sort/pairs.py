"""Rows sorted with where their elements were: a key and an index are one number of 8 bytes.

Requirements: no two numbers are equal, so a sort in any manner is the stable one; values are the
source's, bit for bit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from calor.dtypes import int64, uint32, uint64
from calor_kernel.language import absolute_position, constant, helper, kernel, loop_range, shuffle
from calor_kernel.library.sort.keys import key_of
from calor_kernel.library.sort.networks import LANES
from calor_kernel.library.sort.quick import quick_sort

_LANES = LANES[uint32]
_HALF = LANES[uint64]


@kernel
def sort_pairs(
    source: Any,
    pairs: Any,
    spare: Any,
    values: Any,
    indices: Any,
    rows: Any,
    turns: Any,
    n: Any,
    room: Any,
    *,
    descending: bool,
    wanted: tuple[bool, bool],
) -> None:
    """Sort rows of n elements; a unit has ``room`` of ``spare``, as ``quick_sort`` says.

    ``wanted``: whether values and indices are. ``pairs`` has a number for each element.
    """
    unit = absolute_position()
    begin = unit * turns
    for row in loop_range(begin, min(begin + turns, rows)):
        first = row * n
        encode_pairs(source, pairs, first, n, descending)
        done = partial(put_pairs, source, values, indices, first, wanted)
        quick_sort(pairs, spare.at(unit * room), first, first + n, done)


@helper
def encode_pairs(source: Any, pairs: Any, first: Any, n: Any, descending: bool) -> None:
    """Write a row's keys with the indices below them."""
    lanes = constant(tuple(range(_LANES)), int64)
    for i in loop_range(0, n, _LANES):
        x = source.load(first + i, _LANES, mask=(i + lanes) < n)
        both = joined(key_of(x, descending).to(uint32), (i + lanes).to(uint32))
        for half in range(2):
            place = i + half * _HALF
            pairs.store(first + place, both[half], mask=(place + lanes_of(_HALF)) < n)


def lanes_of(width: int) -> Any:
    """Return the numbers of the lanes of a vector."""
    return constant(tuple(range(width)), int64)


def joined(key: Any, index: Any) -> list[Any]:
    """Return two vectors of keys with indices below them."""
    made = []
    for half in range(2):
        which = range(half * _HALF, half * _HALF + _HALF)
        made.append((shuffle(key, which).to(uint64) << 32) | shuffle(index, which).to(uint64))
    return made


def put_pairs(
    source: Any,
    values: Any,
    indices: Any,
    first: Any,
    wanted: tuple[bool, bool],
    place: Any,
    pairs: Any,
    mask: Any,
) -> None:
    """Write the values and the indices of sorted pairs."""
    index = (pairs & 0xFFFFFFFF).to(int64)
    if wanted[1]:
        indices.store(place, index, mask=mask)
    if wanted[0]:
        values.store(place, source.load(first + index, mask=mask), mask=mask)
