"""Updating single elements at computed places, on devices whose cubes have one unit.

Requirements: as in ``scattering``: the same bits each time. Indices are checked as vectors, a block
ahead of the updates, which are then a load, an operation and a store each. Cubes that share a row
own a part of its places each: they look at all indices, and take those of their part.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import int32, int64, uint32
from calor_kernel.language import (
    constant,
    cube_position,
    helper,
    kernel,
    loop_range,
    private,
    select,
    splat,
)
from calor_kernel.library.indexing.update_ops import updated
from calor_kernel.library.sort.networks import LANES, compress, count_lanes

_LANES = LANES[uint32]
# Indices that are checked at a time.
_BLOCK = 512


@kernel
def scatter_elements(
    target: Any,
    indices: Any,
    updates: Any,
    status: Any,
    outers: Any,
    picks: Any,
    size: Any,
    outer_share: Any,
    share: Any,
    *,
    update: str,
    owned: bool,
) -> None:
    """Update elements of rows of ``size``: cube x owns outer rows, cube y ``share`` places.

    ``owned``: there are several cubes along y; places are less than 2 ** 31 then.
    """
    first_outer = cube_position(0) * outer_share
    first = cube_position(1) * share
    last = min(first + share, size)
    places = private(_BLOCK + _LANES, int64, align=64)
    numbers = private(_BLOCK + _LANES, uint32, align=64)
    for outer in loop_range(first_outer, min(first_outer + outer_share, outers)):
        for begin in loop_range(0, picks, _BLOCK):
            end = min(begin + _BLOCK, picks)
            at = outer * picks
            if owned:
                held = take_block(
                    indices, at, begin, end, size, first, last, places, numbers, status
                )
                for j in loop_range(0, held, unroll=2):
                    number = at + begin + numbers[j].to(int64)
                    change(target, outer * size + places[j], updates[number], update)
            else:
                check_block(indices, at, begin, end, size, places, status)
                for j in loop_range(begin, end, unroll=4):
                    to = outer * size + places[j - begin]
                    change(target, to, updates[at + j], update)


def change(target: Any, to: Any, new: Any, update: str) -> None:
    """Update one element."""
    new = new.to(target.dtype)
    target[to] = new if update == "assign" else updated(update, target[to], new)


@helper
def places_of(indices: Any, at: Any, i: Any, end: Any, size: Any, status: Any) -> Any:
    """Return a vector of indices counted from the start; those out of range are noted, and 0.

    Lanes beyond the end are 0 too.
    """
    inside = (i + constant(tuple(range(_LANES)), int64)) < end
    raw = indices.load(at + i, _LANES, mask=inside)
    place = raw.to(int64)
    below = place < 0
    if raw.dtype.kind != "uint":
        place = select(below, place + size, place)
        below = place < 0
    wrong = below | (place >= splat(size, _LANES))
    if count_lanes(wrong) > 0:
        # Lanes beyond the end are 0, which is out of range where the size is 0.
        status.store(0, constant(1, int32), order="relaxed", scope="device")
    return select(wrong, constant(0, int64, _LANES), place)


@helper
def check_block(
    indices: Any, at: Any, begin: Any, end: Any, size: Any, places: Any, status: Any
) -> None:
    """Write the places of a block of indices."""
    for i in loop_range(begin, end, _LANES):
        places.store(i - begin, places_of(indices, at, i, end, size, status))


@helper
def take_block(
    indices: Any,
    at: Any,
    begin: Any,
    end: Any,
    size: Any,
    first: Any,
    last: Any,
    places: Any,
    numbers: Any,
    status: Any,
) -> Any:
    """Write the places from ``first`` to ``last`` of a block, and the indices' numbers in it.

    Returns how many there are.
    """
    held = constant(0, int64)
    lanes = constant(tuple(range(_LANES)), int64)
    for i in loop_range(begin, end, _LANES):
        place = places_of(indices, at, i, end, size, status)
        mine = (place >= first) & (place < last) & ((i + lanes) < end)
        number = (i - begin + lanes).to(uint32)
        near = compress(place.to(uint32), mine)
        places.store(held, near.to(int64))
        numbers.store(held, compress(number, mine))
        held = held + count_lanes(mine)
    return held
