"""The first few elements of a sort: candidates below a threshold, of which the least are kept.

Requirements: a row is read once, and most of its elements are compared and no more; a candidate is
its key and its index in one number, so that no two are equal and the order is that of the stable
sort; parts of a row are independent, and what each keeps is sorted at the end.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import int64, uint32, uint64
from calor_kernel.language import (
    absolute_position,
    constant,
    helper,
    kernel,
    loop_range,
    splat,
)
from calor_kernel.library.sort.keys import key_of
from calor_kernel.library.sort.networks import COMPRESS, COUNT, LANES
from calor_kernel.library.sort.pairs import joined
from calor_kernel.library.sort.quick import quick_select, quick_sort

# Vectors of keys that are looked at together.
_TOGETHER = 4
_LANES = LANES[uint32]
STEP = _TOGETHER * _LANES


@kernel
def front_candidates(
    source: Any,
    pool: Any,
    spare: Any,
    front: Any,
    items: Any,
    turns: Any,
    parts: Any,
    n: Any,
    part: Any,
    count: Any,
    room: Any,
    *,
    descending: bool,
) -> None:
    """Write the ``count`` first candidates of each part of each row to ``front``, in any order.

    Parts have ``part`` elements, the last one of a row fewer, and none fewer than ``count``. A unit
    has ``room`` candidates of ``pool`` and of ``spare``, at least ``count`` and 3 steps.
    """
    unit = absolute_position()
    candidates, aside = pool.at(unit * room), spare.at(unit * room)
    lanes = constant(tuple(range(_LANES)), int64)
    for item in loop_range(unit * turns, min(unit * turns + turns, items)):
        row = item // parts
        start = row * n
        at = (item - row * parts) * part
        last = min(at + part, n)
        held = constant(0, int64)
        # The first steps are taken as they are, then what is below the last of those held.
        below = constant(0, uint32)
        filled = min(at + (room - STEP) // STEP * STEP, last)
        for i in loop_range(at, filled, _LANES):
            inside = (i + lanes) < last
            key = key_of(source.load(start + i, _LANES, mask=inside), descending)
            held = put(candidates, held, key.to(uint32), (i + lanes).to(uint32), inside)
        at = filled
        if held > count:
            quick_select(candidates, aside, 0 * held, held, count - 1)
            below = (candidates[count - 1] >> 32).to(uint32)
            held = count + 0
        while at < last:
            while (at < last) & (held + 2 * STEP <= room):
                held = taken(source, start, at, last, below, candidates, held, descending)
                at = at + STEP
            quick_select(candidates, aside, 0 * held, held, count - 1)
            below = (candidates[count - 1] >> 32).to(uint32)
            held = count + 0
        for i in loop_range(0, count):
            front[item * count + i] = candidates[i]


@helper
def taken(
    source: Any,
    start: Any,
    at: Any,
    last: Any,
    below: Any,
    candidates: Any,
    held: Any,
    descending: bool,
) -> Any:
    """Add the candidates of a step with keys less than ``below``; return how many are held."""
    lanes = constant(tuple(range(_LANES)), int64)
    limit = splat(below, _LANES)
    places = [at + k * _LANES for k in range(_TOGETHER)]
    keys, masks = [], []
    for place in places:
        inside = (place + lanes) < last
        x = source.load(start + place, _LANES, mask=inside)
        keys.append(key_of(x, descending).to(uint32))
        masks.append((keys[-1] < limit) & inside)
    some = (masks[0] | masks[1]) | (masks[2] | masks[3])
    if COUNT[uint32](some) > 0:
        for k in range(_TOGETHER):
            held = put(candidates, held, keys[k], (places[k] + lanes).to(uint32), masks[k])
    return held


def put(candidates: Any, held: Any, key: Any, index: Any, mask: Any) -> Any:
    """Add keys and indices of a mask's lanes to the candidates; return how many are held."""
    key, index = (COMPRESS[uint32](v, mask) for v in (key, index))
    for half, pairs in enumerate(joined(key, index)):
        candidates.store(held + half * LANES[uint64], pairs)
    return held + COUNT[uint32](mask)


@kernel
def front_results(
    source: Any,
    front: Any,
    spare: Any,
    values: Any,
    indices: Any,
    rows: Any,
    turns: Any,
    n: Any,
    held: Any,
    count: Any,
    *,
    wanted: tuple[bool, bool],
) -> None:
    """Sort the ``held`` candidates of each row, and write the first ``count`` of them.

    ``wanted``: whether values and indices are. ``source`` and ``values`` hold elements as bits.
    """
    begin = absolute_position() * turns
    for row in loop_range(begin, min(begin + turns, rows)):
        quick_sort(front, spare.at(begin * held), row * held, row * held + held)
        for i in loop_range(0, count):
            place = (front[row * held + i] & 0xFFFFFFFF).to(int64)
            if wanted[0]:
                values[row * count + i] = source[row * n + place]
            if wanted[1]:
                indices[row * count + i] = place
