"""The first few elements of sorted rows, by cubes of one unit that sort no more than candidates.

Requirements: a row is read once, and most of its elements are only compared with a threshold, in
vectors; parts of a row are independent, and the candidates of all parts are sorted at the end. A
candidate is a pair of a key and an index, so ties keep their order. Where a processor compresses
vectors the lanes below the threshold are stored together, elsewhere one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import int64, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.library.sort.keys import key_of
from calor_kernel.library.sort.networks import LANES, compress, count_lanes
from calor_kernel.library.sort.quicksort import quick_select, quick_sort
from calor_kernel.library.sort.vector_sorts import RowTurns, lanes_of, pair_up

N = TypeVar("N")
_LANES = LANES[uint32]
# Vectors of keys that are compared together.
_TOGETHER = 4
STEP = _TOGETHER * _LANES


@dataclass(frozen=True, slots=True)
class RowParts(Generic[N]):
    """Rows of n elements in ``parts`` of ``length``; ``items`` parts in all, ``turns`` a unit."""

    items: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    parts: kl.SizeOf[N]
    n: kl.SizeOf[N]
    length: kl.SizeOf[N]


@kl.kernel
def front_candidates(
    source: kl.In,
    pool: kl.InOut,
    spare: kl.InOut,
    front: kl.Out,
    over: RowParts[kl.Number],
    count: kl.Size,
    room: kl.Size,
    *,
    descending: bool,
    compresses: bool,
) -> None:
    """Write the ``count`` first candidates of each part of each row to ``front``, in any order.

    Every part has at least ``count`` elements; the last part of a row may be shorter. A unit has
    ``room`` candidates of ``pool`` and of ``spare``, at least ``count`` and 3 steps.
    ``compresses``: the processor compresses vectors.
    """
    unit = kl.absolute_position()
    candidates, aside = pool.at(unit * room), spare.at(unit * room)
    lanes = lanes_of(_LANES)
    begin = unit * over.turns
    for item in kl.loop_range(begin, kl.min(begin + over.turns, over.items)):
        row = item // over.parts
        start = row * over.n
        at = (item - row * over.parts) * over.length
        last = kl.min(at + over.length, over.n)
        filled = kl.constant(0, int64)
        # The first steps are taken whole; then elements below the threshold, the last candidate.
        below = kl.constant(0, uint32)
        stop = kl.min(at + (room - STEP) // STEP * STEP, last)
        if compresses:
            for i in kl.loop_range(at, stop, _LANES):
                inside = (i + lanes) < last
                key = key_of(source.load(start + i, _LANES, mask=inside), descending)
                filled = add_candidates(
                    candidates, filled, key.to(uint32), (i + lanes).to(uint32), inside
                )
        else:
            filled = add_each(source, start, at, stop, candidates, filled, descending)
        at = stop
        if filled > count:
            quick_select(candidates, aside, 0 * filled, filled, count - 1, compresses)
            below = (candidates[count - 1] >> 32).to(uint32)
            filled = count + 0
        while at < last:
            while (at < last) & (filled + 2 * STEP <= room):
                if compresses:
                    filled = add_step(
                        source, start, at, last, below, candidates, filled, descending
                    )
                else:
                    filled = add_step_of_each(
                        source, start, at, last, below, candidates, filled, descending
                    )
                at = at + STEP
            quick_select(candidates, aside, 0 * filled, filled, count - 1, compresses)
            below = (candidates[count - 1] >> 32).to(uint32)
            filled = count + 0
        for i in kl.loop_range(0, count):
            front[item * count + i] = candidates[i]


@kl.helper
def add_step(
    source: kl.Pointer,
    start: kl.Number,
    at: kl.Number,
    last: kl.Number,
    below: kl.Number,
    candidates: kl.Pointer,
    filled: kl.Number,
    descending: bool,
) -> kl.Number:
    """Add the elements of a step with keys below ``below``; return the number of candidates."""
    lanes = lanes_of(_LANES)
    limit = kl.splat(below, _LANES)
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


@kl.helper
def add_each(
    source: kl.Pointer,
    start: kl.Number,
    at: kl.Number,
    last: kl.Number,
    candidates: kl.Pointer,
    filled: kl.Number,
    descending: bool,
    below: kl.Number | None = None,
) -> kl.Number:
    """Add elements one by one, those with keys below ``below``; return the number of candidates.

    The place behind the candidates is written too.
    """
    for i in kl.loop_range(at, last):
        key = key_of(source[start + i], descending).to(uint32)
        candidates[filled] = (key.to(uint64) << 32) | i.to(uint64)
        if below is None:
            filled = filled + 1
        else:
            filled = filled + (key < below).to(int64)
    return filled


@kl.helper
def add_step_of_each(
    source: kl.Pointer,
    start: kl.Number,
    at: kl.Number,
    last: kl.Number,
    below: kl.Number,
    candidates: kl.Pointer,
    filled: kl.Number,
    descending: bool,
) -> kl.Number:
    """As ``add_step``: vectors are compared, and where a key is below, each of theirs alone."""
    if at + STEP <= last:
        limit = kl.splat(below, _LANES)
        offsets = [at + k * _LANES for k in range(_TOGETHER)]
        masks = [
            key_of(source.load(start + offset, _LANES), descending).to(uint32) < limit
            for offset in offsets
        ]
        some = (masks[0] | masks[1]) | (masks[2] | masks[3])
        if count_lanes(some) > 0:
            for offset, mask in zip(offsets, masks, strict=True):
                if count_lanes(mask) > 0:
                    filled = add_each(
                        source,
                        start,
                        offset,
                        offset + _LANES,
                        candidates,
                        filled,
                        descending,
                        below,
                    )
    else:
        filled = add_each(source, start, at, last, candidates, filled, descending, below)
    return filled


def add_candidates(
    candidates: kl.Pointer, filled: kl.Number, key: kl.Number, index: kl.Number, mask: kl.Number
) -> kl.Number:
    """Add keys and indices of the lanes of a mask; return the number of candidates."""
    key, index = (compress(v, mask) for v in (key, index))
    for half, pairs in enumerate(pair_up(key, index)):
        candidates.store(filled + half * LANES[uint64], pairs)
    return filled + count_lanes(mask)


@kl.kernel
def front_results(
    source: kl.In,
    front: kl.InOut,
    spare: kl.InOut,
    values: kl.Out,
    indices: kl.Out,
    over: RowTurns[kl.Number],
    candidates: kl.Size,
    count: kl.Size,
    *,
    wanted: tuple[bool, bool],
    compresses: bool,
) -> None:
    """Sort the ``candidates`` of each row, and write the first ``count`` of them.

    ``wanted``: whether values and indices are written. ``source`` and ``values`` hold elements as
    bits. ``compresses``: the processor compresses vectors.
    """
    begin = kl.absolute_position() * over.turns
    for row in kl.loop_range(begin, kl.min(begin + over.turns, over.rows)):
        first = row * candidates
        aside = spare.at(begin * candidates)
        quick_sort(front, aside, first, first + candidates, compresses=compresses)
        for i in kl.loop_range(0, count):
            index = (front[first + i] & 0xFFFFFFFF).to(int64)
            if wanted[0]:
                values[row * count + i] = source[row * over.n + index]
            if wanted[1]:
                indices[row * count + i] = index
