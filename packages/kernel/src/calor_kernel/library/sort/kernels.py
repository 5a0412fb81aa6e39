"""The steps of a sort: ranks by counting for short rows, digits by counting for long ones.

Requirements: stable and without races: each element's place is computed before anything is
written. Long rows are sorted from the least significant digit on (Knuth 5.2.5; in blocks as
Satish, Harris and Garland, 2009): each block counts its digits, a scan over (digit, block) gives
every block its places, and the block writes its elements in their order.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import int32, int64
from calor_kernel.language import (
    absolute_position,
    constant,
    kernel,
    loop_range,
    private,
    select,
    splat,
    unravel,
)

DIGITS = 256


@kernel
def rank_rows(
    low: Any,
    middle: Any,
    high: Any,
    places: Any,
    rows: Any,
    n: Any,
    *,
    words: int,
    lanes: int,
) -> None:
    """Write to ``places[row, rank]`` which element of the row has each rank.

    An element's rank is how many come before it: smaller ones, and equal ones at lower places. Keys
    have ``words`` words, the last of ``low``, ``middle``, ``high`` the most significant.
    """
    arrays = [low, middle, high][:words]
    parts = (n + lanes - 1) // lanes
    item = absolute_position()
    if item < rows * parts:
        row, part = unravel(item, (1, parts))
        first = part * lanes
        ids = first + constant(tuple(range(lanes)), int64)
        inside = ids < n
        mine = [a.load(row * n + first, lanes, mask=inside) for a in arrays]
        rank = constant(0, int32, lanes)
        for j in loop_range(0, n):
            other = [splat(a[row * n + j], lanes) for a in arrays]
            before = splat(j, lanes) < ids
            for word in range(words):
                less, same = other[word] < mine[word], other[word] == mine[word]
                before = less | (same & before)
            rank = rank + select(before, constant(1, int32, lanes), constant(0, int32, lanes))
        places.store(row * n + rank.to(int64), ids.to(int32), mask=inside)


@kernel
def count_digits(
    keys: Any,
    order: Any,
    counts: Any,
    items: Any,
    blocks: Any,
    n: Any,
    block: Any,
    *,
    shift: int,
    indirect: bool,
) -> None:
    """Write ``counts[row, digit, block]``: how often each digit stands in each block of a row.

    ``indirect``: keys are read in the order of ``order``, and were not moved themselves.
    """
    item = absolute_position()
    if item < items:
        row, part = unravel(item, (1, blocks))
        first = part * block
        bins = private(DIGITS, int32, align=64)
        for d in loop_range(0, DIGITS):
            bins[d] = constant(0, int32)
        for j in loop_range(first, min(first + block, n)):
            d = digit(keys, order, row * n, j, shift, indirect)
            bins[d] = bins[d] + 1
        for d in loop_range(0, DIGITS):
            counts[(row * DIGITS + d) * blocks + part] = bins[d]


@kernel
def move_digits(
    keys: Any,
    order: Any,
    ends: Any,
    moved: Any,
    moved_order: Any,
    items: Any,
    blocks: Any,
    n: Any,
    block: Any,
    *,
    shift: int,
    indirect: bool,
    first_pass: bool,
    last_pass: bool,
) -> None:
    """Write each element of each block to its place for a digit; ``ends`` are scanned counts.

    Keys move along unless they are read through the order (``indirect``) or nobody reads them after
    (``last_pass``); in the ``first_pass`` the order is that of the elements themselves.
    """
    item = absolute_position()
    if item < items:
        row, part = unravel(item, (1, blocks))
        first = part * block
        bins = private(DIGITS, int64, align=64)
        for d in loop_range(0, DIGITS):
            cell = d * blocks + part
            before = constant(0, int64)
            if cell > 0:
                before = ends[row * DIGITS * blocks + cell - 1].to(int64)
            bins[d] = before
        start = row * n
        for j in loop_range(first, min(first + block, n)):
            own = j.to(moved_order.dtype) if first_pass else order[start + j]
            if indirect:
                key = keys[start + own.to(int64)]
            else:
                key = keys[start + j]
            d = ((key >> shift) & 255).to(int64)
            to = bins[d]
            bins[d] = to + 1
            moved_order[start + to] = own
            if not indirect and not last_pass:
                moved[start + to] = key


def digit(keys: Any, order: Any, start: Any, j: Any, shift: int, indirect: bool) -> Any:
    """Return the digit of the element at a place of a row."""
    place = order[start + j].to(int64) if indirect else j
    return ((keys[start + place] >> shift) & 255).to(int64)


@kernel
def take_sorted(
    source: Any,
    order: Any,
    values: Any,
    indices: Any,
    count: Any,
    turns: Any,
    n: Any,
    inner: Any,
    *,
    words: int,
) -> None:
    """Write values and indices of (outer, j, i) from the order of row (outer, i)."""
    begin = absolute_position() * turns
    for at in loop_range(begin, min(begin + turns, count)):
        outer, j, i = unravel(at, (1, n, inner))
        place = order[(outer * inner + i) * n + j].to(int64)
        indices[at] = place
        of = ((outer * n + place) * inner + i) * words
        for word in range(words):
            values[at * words + word] = source[of + word]
