"""Scans of long rows in one pass: each tile looks back at the totals of those before it.

Requirements: every element is read once and written once; a tile waits only for tiles that began
before it, which the order of the tickets says, and the device lets a cube that runs go on; what a
tile says of itself is one word, or two of 8 bytes, whose upper half tells what the lower half is,
so that no fence is needed (Merrill and Garland, "Single-pass parallel prefix scan with decoupled
look-back", 2016). Totals are joined in the order in which they were found, so sums of floats are
not the same bits each time.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, int32, uint32, uint64
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
    plane_position,
    plane_reduce,
    plane_size,
    select,
    shared,
    splat,
    unit_position,
    unravel,
)
from calor_kernel.library.scan.kernels import REDUCTIONS, joined
from calor_kernel.library.scan.tiles import (
    TilePlan,
    between_planes,
    in_plane,
    places,
    put,
    taken,
    tile_of,
)

# What a word says: nothing, the tile's own total, all up to the tile's end.
TOTAL, UP_TO = 1, 2


@kernel
def clear_words(words: Any, count: Any) -> None:
    """Write zeros."""
    i = absolute_position()
    if i < count:
        words[i] = constant(0, words.dtype)


@kernel
def scan_looking_back(
    source: Any, target: Any, words: Any, tickets: Any, tiles: Any, n: Any, *, plan: TilePlan
) -> None:
    """Scan rows of n elements, a tile a cube; ``words`` and ``tickets`` are 0 before."""
    box = shared(1, int32)
    held = shared(1, plan.accumulate)
    if unit_position() == 0:
        box[0] = tickets.atomic("add", 0, constant(1, int32))
    barrier()
    item = box[0].to(tiles.dtype)
    row, tile = unravel(item, (1, tiles))
    at = row * n
    where = places(tile * tile_of(plan), plan)
    values = [taken(source, at, i, n, plan) for i in where]
    scanned, total = in_plane(values, plan)
    before, whole = between_planes(total, plan)
    if plane_position() == 0:
        if lane_position() == 0:
            say(words, item, whole, tile == 0)
        prefix = looked_back(words, item, tile, plan)
        if lane_position() == 0:
            held[0] = prefix
            if tile > 0:
                say(words, item, joined(plan.kind, prefix, whole), tile >= 0)
    barrier()
    prefix = splat(joined(plan.kind, held[0], before), plan.width)
    for i, value in zip(where, scanned, strict=True):
        put(target, at, i, n, joined(plan.kind, prefix, value), i >= 0, plan)


@helper
def looked_back(words: Any, item: Any, tile: Any, plan: TilePlan) -> Any:
    """Return what comes before a tile in its row; all units of a plane ask."""
    plane = plane_size()
    prefix = plan.nothing
    at = tile
    while at > 0:
        # The nearest tile is the first lane's; beyond the row's first one there is nothing.
        distance = lane_position() + 1
        exists = distance <= at
        place = item - tile + select(exists, at - distance, 0)
        kind, value = heard(words, place, plan.accumulate)
        while plane_ballot(kind == 0) != 0:
            kind, value = heard(words, place, plan.accumulate)
        ends = plane_ballot((kind == UP_TO) & exists)
        last = select(ends != 0, ctz(ends), constant(plane, uint64))
        counts = exists & (lane_position().to(uint64) <= last)
        value = select(counts, value, plan.nothing)
        prefix = joined(plan.kind, plane_reduce(REDUCTIONS[plan.kind], value), prefix)
        at = select(ends != 0, 0, at - plane)
    return prefix


def say(words: Any, item: Any, value: Any, complete: Any) -> None:
    """Write a tile's value, and whether it is that of all up to its end."""
    for k, bits in enumerate(halves(value)):
        count = len(halves(value))
        flag = select(complete, constant(UP_TO, uint64), constant(TOTAL, uint64))
        word = (flag << 32) | bits
        words.store(item * count + k, word, order="relaxed", scope="device")


def heard(words: Any, place: Any, dtype: DType) -> tuple[Any, Any]:
    """Return what a tile says, 0 for nothing, and the value."""
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
