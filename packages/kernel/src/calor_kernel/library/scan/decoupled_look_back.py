"""Decoupled look-back: tiles start in the order of tickets and read the totals of earlier tiles.

Requirements: a tile waits only for tiles that started before it, and the device guarantees forward
progress to running cubes. A tile publishes one word, or two words for values of 8 bytes; the upper
bits of a word give the state of the lower bits, so no fence is needed (Merrill and Garland,
"Single-pass parallel prefix scan with decoupled look-back", 2016). The order in which totals are
combined varies, so sums of floats are not bitwise reproducible.
"""

from __future__ import annotations

from typing import Annotated

from calor.dtypes import DType, int32, int64, uint32, uint64
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.language import (
    Index,
    Mask,
    Number,
    Out,
    Pointer,
    Size,
    absolute_position,
    barrier,
    bitcast,
    constant,
    ctz,
    helper,
    kernel,
    lane_position,
    max,
    plane_ballot,
    plane_reduce,
    plane_size,
    select,
    unit_index,
)
from calor_kernel.language.declared import Access
from calor_kernel.library.reduce.reduction_ops import LANES, ReductionOp

# The state of a word: 0 for empty, the tile's own total, or the total up to the tile's end.
TOTAL, UP_TO = 1, 2
# A word of 4 bytes has the state in its upper two bits, and a count below.
_COUNT = 30
# Units of a cube that clears words.
_CLEARING = 256

Words = Annotated[Pointer, Access("InOut", True, True, uint64)]
Tickets = Annotated[Pointer, Access("InOut", True, True, int32)]


@kernel
def clear_words(words: Out, count: Size) -> None:
    """Write zeros."""
    i = absolute_position()
    if i < count:
        words[i] = constant(0, words.dtype)


def clear(words: Bound, count: int, effort: Effort) -> Launch:
    """Return the launch that clears words."""
    grid = Grid.line(-(-count // _CLEARING), _CLEARING)
    return launch(clear_words, grid, effort, words=words, count=count)


@helper
def ticket(tickets: Pointer, slot: Pointer) -> Number:
    """Return the number of a cube in the order of starts; ``slot``: an int32 of shared memory."""
    if unit_index() == 0:
        slot[0] = tickets.atomic("add", 0, constant(1, tickets.dtype)).to(int32)
    barrier()
    item = slot[0].to(int64)
    barrier()
    return item


@helper
def look_back(
    words: Pointer,
    own: Number,
    tile: Number,
    step: Index,
    total: Number,
    op: ReductionOp,
    ahead: int,
) -> Number:
    """Publish a tile's total and its prefix; return the total of the tiles before it.

    Each unit looks back by itself. ``own``: the index of its word; the words of the ``tile``
    earlier tiles are ``step`` apart. ``ahead`` words are read at a time.
    """
    publish(words, own, total, tile == 0)
    first = own - tile * step
    before, at, found = op.neutral(), own - step, tile == 0
    while not found:
        # All loads are issued before the first is used; indices stop at the row's first tile.
        states = [read_state(words, max(at - k * step, first), total.dtype) for k in range(ahead)]
        going = found ^ True
        for state, value in states:
            counts = going & (state != 0)
            before = select(counts, op.combine(value, before), before)
            at = at - select(counts, step, 0)
            found = found | (counts & (state == UP_TO))
            going = counts & (state == TOTAL)
    if tile > 0:
        publish(words, own, op.combine(before, total), tile > 0)
    return before


@helper
def look_back_by_plane(words: Pointer, item: Number, tile: Number, op: ReductionOp) -> Number:
    """Return the total of the tiles before one in its row; the units of a plane look together.

    The words of a row's tiles are adjacent.
    """
    plane = plane_size()
    prefix = neutral = op.neutral()
    at = tile
    while at > 0:
        # Lane 0 has the nearest tile; lanes before the row's first tile have none.
        distance = lane_position() + 1
        exists = distance <= at
        own = item - tile + select(exists, at - distance, 0)
        state, value = read_state(words, own, op.dtype)
        while plane_ballot(state == 0) != 0:
            state, value = read_state(words, own, op.dtype)
        ends = plane_ballot((state == UP_TO) & exists)
        last = select(ends != 0, ctz(ends), constant(plane, uint64))
        counts = exists & (lane_position().to(uint64) <= last)
        value = select(counts, value, neutral)
        prefix = op.combine(plane_reduce(LANES[op.kind], value), prefix)
        at = select(ends != 0, 0, at - plane)
    return prefix


def publish(words: Pointer, index: Number, value: Number, complete: Mask) -> None:
    """Write a tile's value; ``complete``: it is the total up to the tile's end.

    Words of 4 bytes hold counts, words of 8 bytes values; a value of 8 bytes has two words.
    """
    state = select(complete, constant(UP_TO, words.dtype), constant(TOTAL, words.dtype))
    if words.dtype is uint32:
        word = bitcast(value, uint32) | (state << _COUNT)
        words.store(index, word, order="relaxed", scope="device")
        return
    parts = halves(value)
    for k, bits in enumerate(parts):
        word = (state << 32) | bits
        words.store(index * len(parts) + k, word, order="relaxed", scope="device")


def read_state(words: Pointer, index: Number, dtype: DType) -> tuple[Number, Number]:
    """Return the state of a tile's word, 0 for empty, and the value."""
    if words.dtype is uint32:
        word = words.load(index, order="relaxed", scope="device")
        return word >> _COUNT, bitcast(word & constant((1 << _COUNT) - 1, uint32), dtype)
    low = constant(0xFFFFFFFF, uint64)
    if dtype.itemsize < 8:
        word = words.load(index, order="relaxed", scope="device")
        return (word >> 32), from_bits(word & low, dtype)
    first = words.load(index * 2, order="relaxed", scope="device")
    second = words.load(index * 2 + 1, order="relaxed", scope="device")
    # Two halves with different states belong to different writes: the word counts as empty.
    state = select((first >> 32) == (second >> 32), first >> 32, constant(0, uint64))
    return state, bitcast((first & low) | (second << 32), dtype)


def halves(value: Number) -> list[Number]:
    """Return the bits of a value in the lower halves of words."""
    dtype = value.dtype
    if dtype.itemsize == 8:
        bits = bitcast(value, uint64)
        return [bits & constant(0xFFFFFFFF, uint64), bits >> 32]
    if dtype.itemsize == 4:
        return [bitcast(value, uint32).to(uint64)]
    return [bitcast(value.to(int32), uint32).to(uint64)]


def from_bits(bits: Number, dtype: DType) -> Number:
    """Return the value of bits in the lower half of a word."""
    whole = bits.to(uint32)
    if dtype.itemsize == 4:
        return bitcast(whole, dtype)
    return bitcast(whole, int32).to(dtype)
