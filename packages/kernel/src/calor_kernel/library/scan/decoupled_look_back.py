"""Decoupled look-back: tiles start in the order of tickets and read the totals of earlier tiles.

Requirements: a tile waits only for tiles that started before it, and the device guarantees forward
progress to running cubes. A tile publishes one word, or two words for values of 8 bytes; the upper
bits of a word give the state of the lower bits, so no fence is needed (Merrill and Garland,
"Single-pass parallel prefix scan with decoupled look-back", 2016). The order in which totals are
combined varies, so sums of floats are not bitwise reproducible.
"""

from __future__ import annotations

from typing import Annotated

from calor.dtypes import DType, int32, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.language.declared import Access
from calor_kernel.library.reduce.reduction_ops import LANES, ReductionOp

# The state of a word: 0 for empty, the tile's own total, or the total up to the tile's end.
TOTAL, UP_TO = 1, 2
# A word of 4 bytes has the state in its upper two bits, and a count below.
_COUNT = 30
# Units of a cube that clears words.
_CLEARING = 256

Words = Annotated[kl.Pointer, Access("InOut", True, True, uint64)]
Tickets = Annotated[kl.Pointer, Access("InOut", True, True, int32)]


@kl.kernel
def clear_words(words: kl.Out, count: kl.Size) -> None:
    """Write zeros."""
    i = kl.absolute_position()
    if i < count:
        words[i] = kl.constant(0, words.dtype)


def clear(words: Bound, count: int, effort: Effort) -> Launch:
    """Return the launch that clears words."""
    grid = Grid.line(-(-count // _CLEARING), _CLEARING)
    return launch(clear_words, grid, effort, words=words, count=count)


@kl.helper
def look_back(
    words: kl.Pointer,
    own: kl.Number,
    tile: kl.Number,
    step: kl.Index,
    total: kl.Number,
    op: ReductionOp,
    ahead: int,
) -> kl.Number:
    """Publish a tile's total and its prefix; return the total of the tiles before it.

    Each unit looks back by itself. ``own``: the index of its word; the words of the ``tile``
    earlier tiles are ``step`` apart. ``ahead`` words are read at a time.
    """
    publish(words, own, total, tile == 0)
    first = own - tile * step
    before, at, found = op.neutral(), own - step, tile == 0
    while not found:
        # All loads are issued before the first is used; indices stop at the row's first tile.
        states = [
            read_state(words, kl.max(at - k * step, first), total.dtype) for k in range(ahead)
        ]
        going = found ^ True
        for state, value in states:
            counts = going & (state != 0)
            before = kl.select(counts, op.combine(value, before), before)
            at = at - kl.select(counts, step, 0)
            found = found | (counts & (state == UP_TO))
            going = counts & (state == TOTAL)
    if tile > 0:
        publish(words, own, op.combine(before, total), tile > 0)
    return before


@kl.helper
def look_back_by_plane(
    words: kl.Pointer, item: kl.Number, tile: kl.Number, op: ReductionOp
) -> kl.Number:
    """Return the total of the tiles before one in its row; the units of a plane look together.

    The words of a row's tiles are adjacent.
    """
    plane = kl.plane_size()
    prefix = neutral = op.neutral()
    at = tile
    while at > 0:
        # Lane 0 has the nearest tile; lanes before the row's first tile have none.
        distance = kl.lane_position() + 1
        exists = distance <= at
        own = item - tile + kl.select(exists, at - distance, 0)
        state, value = read_state(words, own, op.dtype)
        while kl.plane_ballot(state == 0) != 0:
            state, value = read_state(words, own, op.dtype)
        ends = kl.plane_ballot((state == UP_TO) & exists)
        last = kl.select(ends != 0, kl.ctz(ends), kl.constant(plane, uint64))
        counts = exists & (kl.lane_position().to(uint64) <= last)
        value = kl.select(counts, value, neutral)
        prefix = op.combine(kl.plane_reduce(LANES[op.kind], value), prefix)
        at = kl.select(ends != 0, 0, at - plane)
    return prefix


def publish(words: kl.Pointer, index: kl.Number, value: kl.Number, complete: kl.Mask) -> None:
    """Write a tile's value; ``complete``: it is the total up to the tile's end.

    Words of 4 bytes hold counts, words of 8 bytes values; a value of 8 bytes has two words.
    """
    state = kl.select(complete, kl.constant(UP_TO, words.dtype), kl.constant(TOTAL, words.dtype))
    if words.dtype is uint32:
        word = kl.bitcast(value, uint32) | (state << _COUNT)
        words.store(index, word, order="relaxed", scope="device")
        return
    parts = halves(value)
    for k, bits in enumerate(parts):
        word = (state << 32) | bits
        words.store(index * len(parts) + k, word, order="relaxed", scope="device")


def read_state(words: kl.Pointer, index: kl.Number, dtype: DType) -> tuple[kl.Number, kl.Number]:
    """Return the state of a tile's word, 0 for empty, and the value."""
    if words.dtype is uint32:
        word = words.load(index, order="relaxed", scope="device")
        return word >> _COUNT, kl.bitcast(word & kl.constant((1 << _COUNT) - 1, uint32), dtype)
    low = kl.constant(0xFFFFFFFF, uint64)
    if dtype.itemsize < 8:
        word = words.load(index, order="relaxed", scope="device")
        return (word >> 32), from_bits(word & low, dtype)
    first = words.load(index * 2, order="relaxed", scope="device")
    second = words.load(index * 2 + 1, order="relaxed", scope="device")
    # Two halves with different states belong to different writes: the word counts as empty.
    state = kl.select((first >> 32) == (second >> 32), first >> 32, kl.constant(0, uint64))
    return state, kl.bitcast((first & low) | (second << 32), dtype)


def halves(value: kl.Number) -> list[kl.Number]:
    """Return the bits of a value in the lower halves of words."""
    dtype = value.dtype
    if dtype.itemsize == 8:
        bits = kl.bitcast(value, uint64)
        return [bits & kl.constant(0xFFFFFFFF, uint64), bits >> 32]
    if dtype.itemsize == 4:
        return [kl.bitcast(value, uint32).to(uint64)]
    return [kl.bitcast(value.to(int32), uint32).to(uint64)]


def from_bits(bits: kl.Number, dtype: DType) -> kl.Number:
    """Return the value of bits in the lower half of a word."""
    whole = bits.to(uint32)
    if dtype.itemsize == 4:
        return kl.bitcast(whole, dtype)
    return kl.bitcast(whole, int32).to(dtype)
