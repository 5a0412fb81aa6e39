"""Vectorized quicksort of keys in memory, with sorting networks for small ranges.

Requirements: elements move in vectors; ranges never overlap, so several can be sorted at a time;
any input takes O(n · bits) steps: after an unbalanced partition the next pivot halves the range of
key values, 2 ** bits at first. After Blacher et al., "Vectorized and performance-portable
quicksort", 2022; keys below the pivot are compressed in place, others to spare memory.
"""

from __future__ import annotations

from collections.abc import Callable

from calor.dtypes import DType, int64
from calor_kernel import language as kl
from calor_kernel.library.sort.networks import LANES, compress, count_lanes, sort_registers

# Vectors of a partition's step.
_UNROLL = 4
# Keys of a range at most that are partitioned through spare memory, not in place.
SPARE = 1 << 13
# Entries of the stack of ranges: the shorter part is sorted first.
_WAITING = 64


Done = Callable[[kl.Number, kl.Number, kl.Number | None], None]
"""Consumer of sorted keys: their first index, a vector of keys, and the mask of its lanes."""


@kl.helper
def quick_sort(
    keys: kl.Pointer,
    spare: kl.Pointer,
    first: kl.Number,
    last: kl.Number,
    done: Done | None = None,
    compresses: bool = True,
) -> None:
    """Sort ``keys[first:last]``; ``spare`` holds as many keys, or SPARE.

    ``done`` consumes the sorted keys; ``keys`` itself is then not sorted. ``compresses``: the
    processor compresses vectors; else ``spare`` holds as many keys.
    """
    dtype = keys.dtype
    lanes = LANES[dtype]
    starts, ends = kl.private(_WAITING, int64), kl.private(_WAITING, int64)
    bad = kl.private(_WAITING, int64)
    starts[0] = first
    ends[0] = last
    bad[0] = kl.constant(0, int64)
    waiting = kl.constant(1, int64)
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
            low = partition_range(keys, spare, lo, hi, pivot, compresses)
            if low == lo:
                # The pivot is the least key; all that are equal to it are in place.
                top = kl.constant((1 << dtype.itemsize * 8) - 1, dtype)
                equal = hi
                if pivot < top:
                    equal = partition_range(keys, spare, lo, hi, pivot + 1, compresses)
                    starts[waiting] = equal
                    ends[waiting] = hi
                    bad[waiting] = kl.constant(1, int64)
                    waiting = waiting + 1
                put_equal(pivot, lo, equal, done)
            else:
                less, more = low - lo, hi - low
                worse = (kl.min(less, more) * 8 < hi - lo).to(int64)
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


@kl.helper
def put_equal(key: kl.Number, lo: kl.Number, hi: kl.Number, done: Done | None) -> None:
    """Give a range of equal keys to ``done``."""
    if done is not None:
        lanes = LANES[key.dtype]
        ids = kl.constant(tuple(range(lanes)), int64)
        for i in kl.loop_range(lo, hi, lanes):
            done(i, kl.splat(key, lanes), (i + ids) < hi)


@kl.helper
def sort_leaf(keys: kl.Pointer, lo: kl.Number, hi: kl.Number, done: Done | None = None) -> None:
    """Sort a small range in registers."""
    lanes = LANES[keys.dtype]
    if hi - lo <= lanes * 2:
        in_registers(keys, lo, hi, 2, 0, done)
    else:
        if hi - lo <= lanes * lanes // 2:
            in_registers(keys, lo, hi, lanes // 2, 2, done)
        else:
            in_registers(keys, lo, hi, lanes, lanes // 2, done)


@kl.helper
def in_registers(
    keys: kl.Pointer, lo: kl.Number, hi: kl.Number, rows: int, full: int, done: Done | None
) -> None:
    """Sort a range in ``rows`` vectors; the first ``full`` ones need no mask."""
    dtype = keys.dtype
    lanes = LANES[dtype]
    most = kl.constant((1 << dtype.itemsize * 8) - 1, dtype)
    ids = kl.constant(tuple(range(lanes)), int64)
    inside = [None if row < full else (lo + row * lanes + ids) < hi for row in range(rows)]
    v = [keys.load(lo + row * lanes, lanes, mask=inside[row], other=most) for row in range(rows)]
    for row, one in enumerate(sort_registers(v)):
        if done is not None:
            done(lo + row * lanes, one, inside[row])
        else:
            keys.store(lo + row * lanes, one, mask=inside[row])


@kl.helper
def pivot_of(keys: kl.Pointer, lo: kl.Number, hi: kl.Number) -> kl.Number:
    """Return the median of the medians of three keys in each lane."""
    lanes = LANES[keys.dtype]
    step = (hi - lo) // (3 * lanes)
    ids = kl.constant(tuple(range(lanes)), int64) * step
    a, b, c = [keys.load(lo + step // 2 + i * lanes * step + ids) for i in range(3)]
    middle = kl.max(kl.min(a, b), kl.min(kl.max(a, b), c))
    return sort_registers([middle])[0][lanes // 2]


@kl.helper
def middle_of_range(keys: kl.Pointer, lo: kl.Number, hi: kl.Number) -> kl.Number:
    """Return the midpoint of the least and the greatest key, rounded up."""
    lanes = LANES[keys.dtype]
    least = keys.load(lo, lanes)
    greatest = least
    for i in kl.loop_range(lo, hi - lanes, lanes):
        loaded = keys.load(i, lanes)
        least, greatest = kl.min(least, loaded), kl.max(greatest, loaded)
    loaded = keys.load(hi - lanes, lanes)
    low, high = (
        kl.vreduce("min", kl.min(least, loaded)),
        kl.vreduce("max", kl.max(greatest, loaded)),
    )
    half = (high - low) >> 1
    return low + half + ((high - low) & 1)


@kl.helper
def partition(
    keys: kl.Pointer, spare: kl.Pointer, lo: kl.Number, hi: kl.Number, pivot: kl.Number
) -> kl.Number:
    """As ``partition_range``; keys at or above the pivot go through spare memory."""
    dtype: DType = keys.dtype
    lanes = LANES[dtype]
    wide = kl.splat(pivot, lanes)
    ids = kl.constant(tuple(range(lanes)), int64)
    low, above_end = lo, 0 * lo
    whole = lo + (hi - lo) // (lanes * _UNROLL) * (lanes * _UNROLL)
    for i in kl.loop_range(lo, whole, lanes * _UNROLL):
        # Stores never pass the loads.
        loaded = [keys.load(i + k * lanes, lanes) for k in range(_UNROLL)]
        for v in loaded:
            below = v < wide
            keys.store(low, compress(v, below))
            spare.store(above_end, compress(v, ~below))
            found = count_lanes(below)
            low = low + found
            above_end = above_end + (lanes - found)
    for i in kl.loop_range(whole, hi, lanes):
        inside = (i + ids) < hi
        v = keys.load(i, lanes, mask=inside)
        below = (v < wide) & inside
        found = count_lanes(below)
        keys.store(low, compress(v, below), mask=ids < found)
        more = kl.min(hi - i, lanes) - found
        spare.store(above_end, compress(v, ~below & inside), mask=ids < more)
        low = low + found
        above_end = above_end + more
    moved = above_end // lanes * lanes
    for i in kl.loop_range(0, moved, lanes):
        keys.store(low + i, spare.load(i, lanes))
    if moved < above_end:
        inside = (moved + ids) < above_end
        keys.store(low + moved, spare.load(moved, lanes, mask=inside), mask=inside)
    return low


@kl.helper
def quick_select(
    keys: kl.Pointer,
    spare: kl.Pointer,
    first: kl.Number,
    last: kl.Number,
    index: kl.Number,
    compresses: bool = True,
) -> None:
    """Move the key with sorted index ``index`` there, and all smaller keys before it.

    No two keys of ``keys[first:last]`` are equal; ``spare`` and ``compresses`` as in
    ``quick_sort``.
    """
    lanes = LANES[keys.dtype]
    lo, hi = first, last
    bad = kl.constant(0, int64)
    while hi - lo > lanes * lanes:
        if bad > 0:
            pivot = middle_of_range(keys, lo, hi)
        else:
            pivot = pivot_of(keys, lo, hi)
        if compresses:
            low = partition(keys, spare, lo, hi, pivot)
        else:
            low = partition_each(keys, spare, lo, hi, pivot)
        before = hi - lo
        if low > index:
            hi = low
        else:
            lo = low
        bad = ((hi - lo) * 8 > before * 7).to(int64)
    sort_leaf(keys, lo, hi)


@kl.helper
def partition_range(
    keys: kl.Pointer,
    spare: kl.Pointer,
    lo: kl.Number,
    hi: kl.Number,
    pivot: kl.Number,
    compresses: bool,
) -> kl.Number:
    """Move keys below the pivot to the front; return the index of the first other key."""
    low = lo
    if not compresses:
        low = partition_each(keys, spare, lo, hi, pivot)
    elif hi - lo > SPARE:
        low = partition_in_place(keys, spare, lo, hi, pivot)
    else:
        low = partition(keys, spare, lo, hi, pivot)
    return low


@kl.helper
def partition_each(
    keys: kl.Pointer, spare: kl.Pointer, lo: kl.Number, hi: kl.Number, pivot: kl.Number
) -> kl.Number:
    """As ``partition``, key by key without a branch: for processors that compress no vectors."""
    low, above = lo, 0 * lo
    for i in kl.loop_range(lo, hi):
        key = keys[i]
        below = (key < pivot).to(int64)
        keys[low] = key
        spare[above] = key
        low = low + below
        above = above + (1 - below)
    for i in kl.loop_range(0, above):
        keys[low + i] = spare[i]
    return low


@kl.helper
def partition_in_place(
    keys: kl.Pointer, spare: kl.Pointer, lo: kl.Number, hi: kl.Number, pivot: kl.Number
) -> kl.Number:
    """As ``partition_range``, but each key moves once: for ranges larger than caches.

    The first and last vectors go to spare memory, which frees space on both sides; each step then
    loads vectors from the side with less free space.
    """
    dtype: DType = keys.dtype
    lanes = LANES[dtype]
    wide = kl.splat(pivot, lanes)
    ids = kl.constant(tuple(range(lanes)), int64)
    back = tuple(range(lanes - 1, -1, -1))
    step = lanes * _UNROLL
    rest = (hi - lo) % step
    # To spare memory: the first step, the last one, and the incomplete step before it.
    right = hi - step - rest
    for i in kl.loop_range(0, step, lanes):
        spare.store(i, keys.load(lo + i, lanes))
    for i in kl.loop_range(0, step + rest, lanes):
        inside = (right + i + ids) < hi
        spare.store(step + i, keys.load(right + i, lanes, mask=inside))
    left = lo + step
    low, high = lo, hi
    while left < right:
        nearer = left - low <= high - right
        at = kl.select(nearer, left, right - step)
        left = kl.select(nearer, left + step, left)
        right = kl.select(nearer, right, right - step)
        loaded = [keys.load(at + k * lanes, lanes) for k in range(_UNROLL)]
        for v in loaded:
            below = v < wide
            found = count_lanes(below)
            keys.store(low, compress(v, below))
            keys.store(high - lanes, kl.shuffle(compress(v, ~below), back))
            low = low + found
            high = high - (lanes - found)
    total = 2 * step + rest
    for i in kl.loop_range(0, total, lanes):
        inside = (i + ids) < total
        v = spare.load(i, lanes)
        below = (v < wide) & inside
        above = ~(v < wide) & inside
        found = count_lanes(below)
        more = count_lanes(above)
        keys.store(low, compress(v, below), mask=ids < found)
        high = high - more
        keys.store(high, compress(v, above), mask=ids < more)
        low = low + found
    return low
