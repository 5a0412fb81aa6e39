"""Quicksort of keys in memory: partitions that move lanes together, networks at the end.

Requirements: no element moves one by one; a range never overlaps another, so that several may be
sorted at a time; any input ends in O(n · bits) steps: where a pivot split badly, the next one
halves the range of the keys, of which there are 2 ** bits. After Blacher et al., "Vectorized and
performance-portable quicksort", 2022; smaller keys are moved together in place, others aside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor.dtypes import DType, int64
from calor_kernel.language import (
    constant,
    helper,
    loop_range,
    private,
    select,
    shuffle,
    splat,
    vreduce,
)
from calor_kernel.library.sort.networks import COMPRESS, COUNT, LANES, sort_registers

# Vectors that are partitioned at a time.
_UNROLL = 4
# Keys of a range at most that are partitioned through other memory, not in place.
ASIDE = 1 << 13
# Ranges that wait at most: the shorter part is sorted first.
_WAITING = 64


Done = Callable[[Any, Any, Any], None]
"""What takes keys in order: a place, a vector of keys for it, and the mask of those to take."""


@helper
def quick_sort(keys: Any, spare: Any, first: Any, last: Any, done: Done | None = None) -> None:
    """Sort ``keys[first:last]``; ``spare`` is room for as many keys, or ASIDE, to work in.

    With ``done`` the keys go there, and what is left in ``keys`` is whatever it writes.
    """
    dtype = keys.dtype
    lanes = LANES[dtype]
    starts, ends = private(_WAITING, int64), private(_WAITING, int64)
    bad = private(_WAITING, int64)
    starts[0] = first
    ends[0] = last
    bad[0] = constant(0, int64)
    waiting = constant(1, int64)
    while waiting > 0:
        waiting = waiting - 1
        lo, hi, was_bad = starts[waiting], ends[waiting], bad[waiting]
        if hi - lo <= lanes * lanes:
            sort_leaf(keys, lo, hi, done)
        else:
            if was_bad > 0:
                pivot = middle_of_range(keys, lo, hi)
            else:
                pivot = pivot_of(keys, lo, hi)
            low = partition_range(keys, spare, lo, hi, pivot)
            if low == lo:
                # The pivot is the least key; all that are equal to it are in place.
                top = constant((1 << dtype.itemsize * 8) - 1, dtype)
                equal = hi
                if pivot < top:
                    equal = partition_range(keys, spare, lo, hi, pivot + 1)
                    starts[waiting] = equal
                    ends[waiting] = hi
                    bad[waiting] = constant(1, int64)
                    waiting = waiting + 1
                put_equal(pivot, lo, equal, done)
            else:
                less, more = low - lo, hi - low
                worse = (min(less, more) * 8 < hi - lo).to(int64)
                # The shorter part comes next.
                left = waiting + (less < more).to(int64)
                right = waiting + (less >= more).to(int64)
                starts[left] = lo
                ends[left] = low
                starts[right] = low
                ends[right] = hi
                bad[waiting] = worse
                bad[waiting + 1] = worse
                waiting = waiting + 2


@helper
def put_equal(key: Any, lo: Any, hi: Any, done: Done | None) -> None:
    """Hand on a range of equal keys."""
    if done is not None:
        lanes = LANES[key.dtype]
        ids = constant(tuple(range(lanes)), int64)
        for i in loop_range(lo, hi, lanes):
            done(i, splat(key, lanes), (i + ids) < hi)


@helper
def sort_leaf(keys: Any, lo: Any, hi: Any, done: Done | None = None) -> None:
    """Sort a few keys in registers."""
    lanes = LANES[keys.dtype]
    if hi - lo <= lanes * 2:
        in_registers(keys, lo, hi, 2, 0, done)
    else:
        if hi - lo <= lanes * lanes // 2:
            in_registers(keys, lo, hi, lanes // 2, 2, done)
        else:
            in_registers(keys, lo, hi, lanes, lanes // 2, done)


@helper
def in_registers(keys: Any, lo: Any, hi: Any, rows: int, full: int, done: Done | None) -> None:
    """Sort keys that fit ``rows`` vectors, and fill ``full`` of them: those need no mask."""
    dtype = keys.dtype
    lanes = LANES[dtype]
    most = constant((1 << dtype.itemsize * 8) - 1, dtype)
    ids = constant(tuple(range(lanes)), int64)
    inside = [None if row < full else (lo + row * lanes + ids) < hi for row in range(rows)]
    v = [keys.load(lo + row * lanes, lanes, mask=inside[row], other=most) for row in range(rows)]
    for row, one in enumerate(sort_registers(v)):
        if done is not None:
            done(lo + row * lanes, one, inside[row])
        else:
            keys.store(lo + row * lanes, one, mask=inside[row])


@helper
def pivot_of(keys: Any, lo: Any, hi: Any) -> Any:
    """Return the middle of three keys for each lane, and of these."""
    lanes = LANES[keys.dtype]
    step = (hi - lo) // (3 * lanes)
    ids = constant(tuple(range(lanes)), int64) * step
    a, b, c = [keys.load(lo + step // 2 + i * lanes * step + ids) for i in range(3)]
    middle = max(min(a, b), min(max(a, b), c))
    return sort_registers([middle])[0][lanes // 2]


@helper
def middle_of_range(keys: Any, lo: Any, hi: Any) -> Any:
    """Return the number in the middle between the least and the greatest key, above the least."""
    lanes = LANES[keys.dtype]
    least = keys.load(lo, lanes)
    greatest = least
    for i in loop_range(lo, hi - lanes, lanes):
        taken = keys.load(i, lanes)
        least, greatest = min(least, taken), max(greatest, taken)
    taken = keys.load(hi - lanes, lanes)
    low, high = vreduce("min", min(least, taken)), vreduce("max", max(greatest, taken))
    half = (high - low) >> 1
    return low + half + ((high - low) & 1)


@helper
def partition(keys: Any, spare: Any, lo: Any, hi: Any, pivot: Any) -> Any:
    """As ``partition_range``: keys that are not below the pivot go through other memory."""
    dtype: DType = keys.dtype
    lanes = LANES[dtype]
    compress, count = COMPRESS[dtype], COUNT[dtype]
    wide = splat(pivot, lanes)
    ids = constant(tuple(range(lanes)), int64)
    low, aside = lo, 0 * lo
    whole = lo + (hi - lo) // (lanes * _UNROLL) * (lanes * _UNROLL)
    for i in loop_range(lo, whole, lanes * _UNROLL):
        # What is written lies at or before what was read.
        taken = [keys.load(i + k * lanes, lanes) for k in range(_UNROLL)]
        for v in taken:
            below = v < wide
            keys.store(low, compress(v, below))
            spare.store(aside, compress(v, ~below))
            found = count(below)
            low = low + found
            aside = aside + (lanes - found)
    for i in loop_range(whole, hi, lanes):
        inside = (i + ids) < hi
        v = keys.load(i, lanes, mask=inside)
        below = (v < wide) & inside
        found = count(below)
        keys.store(low, compress(v, below), mask=ids < found)
        more = min(hi - i, lanes) - found
        spare.store(aside, compress(v, ~below & inside), mask=ids < more)
        low = low + found
        aside = aside + more
    moved = aside // lanes * lanes
    for i in loop_range(0, moved, lanes):
        keys.store(low + i, spare.load(i, lanes))
    if moved < aside:
        inside = (moved + ids) < aside
        keys.store(low + moved, spare.load(moved, lanes, mask=inside), mask=inside)
    return low


@helper
def quick_select(keys: Any, spare: Any, first: Any, last: Any, place: Any) -> None:
    """Move the key that sorting would put to ``place`` there, and no greater one before it.

    No two keys of ``keys[first:last]`` are equal; ``spare`` as in ``quick_sort``.
    """
    lanes = LANES[keys.dtype]
    lo, hi = first, last
    bad = constant(0, int64)
    while hi - lo > lanes * lanes:
        if bad > 0:
            pivot = middle_of_range(keys, lo, hi)
        else:
            pivot = pivot_of(keys, lo, hi)
        low = partition(keys, spare, lo, hi, pivot)
        before = hi - lo
        if low > place:
            hi = low
        else:
            lo = low
        bad = ((hi - lo) * 8 > before * 7).to(int64)
    sort_leaf(keys, lo, hi)


@helper
def partition_range(keys: Any, spare: Any, lo: Any, hi: Any, pivot: Any) -> Any:
    """Move keys below the pivot to the front, and return where the others begin."""
    low = lo
    if hi - lo > ASIDE:
        low = partition_in_place(keys, spare, lo, hi, pivot)
    else:
        low = partition(keys, spare, lo, hi, pivot)
    return low


@helper
def partition_in_place(keys: Any, spare: Any, lo: Any, hi: Any, pivot: Any) -> Any:
    """As ``partition_range``, without moving keys twice: for ranges that caches do not hold.

    The first and last few vectors are kept aside, which makes room on both sides; then vectors are
    taken from the side with less room.
    """
    dtype: DType = keys.dtype
    lanes = LANES[dtype]
    compress, count = COMPRESS[dtype], COUNT[dtype]
    wide = splat(pivot, lanes)
    ids = constant(tuple(range(lanes)), int64)
    back = tuple(range(lanes - 1, -1, -1))
    step = lanes * _UNROLL
    rest = (hi - lo) % step
    # Aside: the first step, the last one, and what is no whole step before it.
    right = hi - step - rest
    for i in loop_range(0, step, lanes):
        spare.store(i, keys.load(lo + i, lanes))
    for i in loop_range(0, step + rest, lanes):
        inside = (right + i + ids) < hi
        spare.store(step + i, keys.load(right + i, lanes, mask=inside))
    left = lo + step
    low, high = lo, hi
    while left < right:
        nearer = left - low <= high - right
        at = select(nearer, left, right - step)
        left = select(nearer, left + step, left)
        right = select(nearer, right, right - step)
        taken = [keys.load(at + k * lanes, lanes) for k in range(_UNROLL)]
        for v in taken:
            below = v < wide
            found = count(below)
            keys.store(low, compress(v, below))
            keys.store(high - lanes, shuffle(compress(v, ~below), back))
            low = low + found
            high = high - (lanes - found)
    total = 2 * step + rest
    for i in loop_range(0, total, lanes):
        inside = (i + ids) < total
        v = spare.load(i, lanes)
        below = (v < wide) & inside
        above = ~(v < wide) & inside
        found = count(below)
        more = count(above)
        keys.store(low, compress(v, below), mask=ids < found)
        high = high - more
        keys.store(high, compress(v, above), mask=ids < more)
        low = low + found
    return low
