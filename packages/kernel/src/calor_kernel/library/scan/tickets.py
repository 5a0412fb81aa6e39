"""Tiles that begin in the order of tickets, and look back at what those before them say.

Requirements: a tile waits only for tiles that began before it, and the device lets a cube that runs
go on; what a tile says of itself is one word, or two of 8 bytes, whose upper bits tell what the
lower ones are, so that no fence is needed (Merrill and Garland, "Single-pass parallel prefix scan
with decoupled look-back", 2016). Totals are joined in the order in which they were found, so sums
of floats are not the same bits each time.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, int32, int64, uint32, uint64
from calor_kernel.language import (
    absolute_position,
    barrier,
    bitcast,
    constant,
    ctz,
    helper,
    kernel,
    lane_position,
    plane_ballot,
    plane_reduce,
    plane_size,
    select,
    unit_index,
)
from calor_kernel.library.scan.chunks import REDUCTIONS, joined

# What a word says: nothing, the tile's own total, all up to the tile's end.
TOTAL, UP_TO = 1, 2
# A word of 4 bytes is two bits that say so, and a count below.
_COUNT = 30


@kernel
def clear_words(words: Any, count: Any) -> None:
    """Write zeros."""
    i = absolute_position()
    if i < count:
        words[i] = constant(0, words.dtype)


@helper
def ticket(tickets: Any, room: Any) -> Any:
    """Return the number of a cube among those that began; ``room``: an int32 in shared memory."""
    if unit_index() == 0:
        room[0] = tickets.atomic("add", 0, constant(1, tickets.dtype)).to(int32)
    barrier()
    item = room[0].to(int64)
    barrier()
    return item


@helper
def looked_back(
    words: Any, own: Any, tile: Any, step: Any, total: Any, kind: str, nothing: Any, ahead: int
) -> Any:
    """Say a tile's total and what it is joined with all before; return what comes before.

    A unit asks by itself: ``own`` is the place of its word, and the words of the tiles before, of
    which there are ``tile``, lie ``step`` apart. So many as ``ahead`` says are asked for at a time.
    """
    say(words, own, total, tile == 0)
    first = own - tile * step
    before, at, found = nothing, own - step, tile == 0
    while not found:
        # All are under way before the first is looked at; beyond the row's end is its first tile.
        told = [heard(words, max(at - k * step, first), total.dtype) for k in range(ahead)]
        going = found ^ True
        for flag, value in told:
            counts = going & (flag != 0)
            before = select(counts, joined(kind, value, before), before)
            at = at - select(counts, step, 0)
            found = found | (counts & (flag == UP_TO))
            going = counts & (flag == TOTAL)
    if tile > 0:
        say(words, own, joined(kind, before, total), tile > 0)
    return before


@helper
def looked_back_together(
    words: Any, item: Any, tile: Any, dtype: DType, kind: str, nothing: Any
) -> Any:
    """Return what comes before a tile in its row; all units of a plane ask.

    The words of a row's tiles lie side by side.
    """
    plane = plane_size()
    prefix = nothing
    at = tile
    while at > 0:
        # The nearest tile is the first lane's; beyond the row's first one there is nothing.
        distance = lane_position() + 1
        exists = distance <= at
        place = item - tile + select(exists, at - distance, 0)
        flag, value = heard(words, place, dtype)
        while plane_ballot(flag == 0) != 0:
            flag, value = heard(words, place, dtype)
        ends = plane_ballot((flag == UP_TO) & exists)
        last = select(ends != 0, ctz(ends), constant(plane, uint64))
        counts = exists & (lane_position().to(uint64) <= last)
        value = select(counts, value, nothing)
        prefix = joined(kind, plane_reduce(REDUCTIONS[kind], value), prefix)
        at = select(ends != 0, 0, at - plane)
    return prefix


def say(words: Any, place: Any, value: Any, complete: Any) -> None:
    """Write a tile's value, and whether it is that of all up to its end.

    Words of 4 bytes hold counts, and those of 8 bytes values, of which those of 8 bytes have two.
    """
    flag = select(complete, constant(UP_TO, words.dtype), constant(TOTAL, words.dtype))
    if words.dtype is uint32:
        word = bitcast(value, uint32) | (flag << _COUNT)
        words.store(place, word, order="relaxed", scope="device")
        return
    parts = halves(value)
    for k, bits in enumerate(parts):
        word = (flag << 32) | bits
        words.store(place * len(parts) + k, word, order="relaxed", scope="device")


def heard(words: Any, place: Any, dtype: DType) -> tuple[Any, Any]:
    """Return what a tile says, 0 for nothing, and the value."""
    if words.dtype is uint32:
        word = words.load(place, order="relaxed", scope="device")
        return word >> _COUNT, bitcast(word & constant((1 << _COUNT) - 1, uint32), dtype)
    low = constant(0xFFFFFFFF, uint64)
    if dtype.itemsize < 8:
        word = words.load(place, order="relaxed", scope="device")
        return (word >> 32), number(word & low, dtype)
    first = words.load(place * 2, order="relaxed", scope="device")
    second = words.load(place * 2 + 1, order="relaxed", scope="device")
    # Halves that were written at different times are none.
    kind = select((first >> 32) == (second >> 32), first >> 32, constant(0, uint64))
    return kind, bitcast((first & low) | (second << 32), dtype)


def halves(value: Any) -> list[Any]:
    """Return the bits of a value in the lower halves of words."""
    dtype = value.dtype
    if dtype.itemsize == 8:
        bits = bitcast(value, uint64)
        return [bits & constant(0xFFFFFFFF, uint64), bits >> 32]
    if dtype.itemsize == 4:
        return [bitcast(value, uint32).to(uint64)]
    return [bitcast(value.to(int32), uint32).to(uint64)]


def number(bits: Any, dtype: DType) -> Any:
    """Return the value of bits in the lower half of a word."""
    whole = bits.to(uint32)
    if dtype.itemsize == 4:
        return bitcast(whole, dtype)
    return bitcast(whole, int32).to(dtype)
