"""The first few elements of a sort: candidates below a threshold, of which the least are kept.

Requirements: a row is read once, and most of its elements are only compared. A candidate is a key
and an index in one number, so no two are equal and their order is that of the stable sort. Parts of
a row are independent; the candidates of all parts are sorted at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import int64, uint32, uint64
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
    splat,
)
from calor_kernel.library.sort.keys import key_of
from calor_kernel.library.sort.networks import LANES, compress, count_lanes
from calor_kernel.library.sort.pairs import RowTurns, lanes_of, pair_up
from calor_kernel.library.sort.quicksort import quick_select, quick_sort

N = TypeVar("N")
# Vectors of keys that are compared together.
_TOGETHER = 4
_LANES = LANES[uint32]
STEP = _TOGETHER * _LANES


@dataclass(frozen=True, slots=True)
class RowParts(Generic[N]):
    """Rows of n elements in ``parts`` of ``length``; ``items`` parts in all, ``turns`` a unit."""

    items: SizeOf[N]
    turns: SizeOf[N]
    parts: SizeOf[N]
    n: SizeOf[N]
    length: SizeOf[N]


@kernel
def front_candidates(
    source: In,
    pool: InOut,
    spare: InOut,
    front: Out,
    over: RowParts[Number],
    count: Size,
    room: Size,
    *,
    descending: bool,
) -> None:
    """Write the ``count`` first candidates of each part of each row to ``front``, in any order.

    Every part has at least ``count`` elements; the last part of a row may be shorter. A unit has
    ``room`` candidates of ``pool`` and of ``spare``, at least ``count`` and 3 steps.
    """
    unit = absolute_position()
    candidates, aside = pool.at(unit * room), spare.at(unit * room)
    lanes = lanes_of(_LANES)
    begin = unit * over.turns
    for item in loop_range(begin, min(begin + over.turns, over.items)):
        row = item // over.parts
        start = row * over.n
        at = (item - row * over.parts) * over.length
        last = min(at + over.length, over.n)
        filled = constant(0, int64)
        # The first steps are taken whole; then elements below the threshold, the last candidate.
        below = constant(0, uint32)
        stop = min(at + (room - STEP) // STEP * STEP, last)
        for i in loop_range(at, stop, _LANES):
            inside = (i + lanes) < last
            key = key_of(source.load(start + i, _LANES, mask=inside), descending)
            filled = add_candidates(
                candidates, filled, key.to(uint32), (i + lanes).to(uint32), inside
            )
        at = stop
        if filled > count:
            quick_select(candidates, aside, 0 * filled, filled, count - 1)
            below = (candidates[count - 1] >> 32).to(uint32)
            filled = count + 0
        while at < last:
            while (at < last) & (filled + 2 * STEP <= room):
                filled = add_step(source, start, at, last, below, candidates, filled, descending)
                at = at + STEP
            quick_select(candidates, aside, 0 * filled, filled, count - 1)
            below = (candidates[count - 1] >> 32).to(uint32)
            filled = count + 0
        for i in loop_range(0, count):
            front[item * count + i] = candidates[i]


@helper
def add_step(
    source: Pointer,
    start: Number,
    at: Number,
    last: Number,
    below: Number,
    candidates: Pointer,
    filled: Number,
    descending: bool,
) -> Number:
    """Add the elements of a step with keys below ``below``; return the number of candidates."""
    lanes = lanes_of(_LANES)
    limit = splat(below, _LANES)
    offsets = [at + k * _LANES for k in range(_TOGETHER)]
    keys, masks = [], []
    for offset in offsets:
        inside = (offset + lanes) < last
        x = source.load(start + offset, _LANES, mask=inside)
        keys.append(key_of(x, descending).to(uint32))
        masks.append((keys[-1] < limit) & inside)
    some = (masks[0] | masks[1]) | (masks[2] | masks[3])
    if count_lanes(some) > 0:
        for k in range(_TOGETHER):
            filled = add_candidates(
                candidates, filled, keys[k], (offsets[k] + lanes).to(uint32), masks[k]
            )
    return filled


def add_candidates(
    candidates: Pointer, filled: Number, key: Number, index: Number, mask: Number
) -> Number:
    """Add keys and indices of the lanes of a mask; return the number of candidates."""
    key, index = (compress(v, mask) for v in (key, index))
    for half, pairs in enumerate(pair_up(key, index)):
        candidates.store(filled + half * LANES[uint64], pairs)
    return filled + count_lanes(mask)


@kernel
def front_results(
    source: In,
    front: InOut,
    spare: InOut,
    values: Out,
    indices: Out,
    over: RowTurns[Number],
    candidates: Size,
    count: Size,
    *,
    wanted: tuple[bool, bool],
) -> None:
    """Sort the ``candidates`` of each row, and write the first ``count`` of them.

    ``wanted``: whether values and indices are written. ``source`` and ``values`` hold elements as
    bits.
    """
    begin = absolute_position() * over.turns
    for row in loop_range(begin, min(begin + over.turns, over.rows)):
        first = row * candidates
        quick_sort(front, spare.at(begin * candidates), first, first + candidates)
        for i in loop_range(0, count):
            index = (front[first + i] & 0xFFFFFFFF).to(int64)
            if wanted[0]:
                values[row * count + i] = source[row * over.n + index]
            if wanted[1]:
                indices[row * count + i] = index
