"""Sort kernels for any key: ranks by counting for short rows, a radix sort for long rows.

Requirements: stable and without races: positions are computed before anything is written. Long rows
are sorted from the least significant digit on (Knuth 5.2.5; in blocks as Satish, Harris and
Garland, 2009): each block counts its digits, a scan over (digit, block) gives the positions of each
block, and the block writes its elements in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import int32, int64
from calor_kernel import language as kl
from calor_kernel.library.sort.keys import AxisElements

N = TypeVar("N")
DIGITS = 256


@dataclass(frozen=True, slots=True)
class Blocks(Generic[N]):
    """Rows of n elements, divided into ``blocks`` of ``length`` elements; ``items`` in all."""

    items: kl.SizeOf[N]
    blocks: kl.SizeOf[N]
    n: kl.SizeOf[N]
    length: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class DigitPass:
    """A pass of a radix sort, by the digit that begins at the bit ``shift``.

    ``indirect``: keys are read through the order, and do not move. ``first``: the order is that of
    the elements; ``last``: moved keys are not read again.
    """

    shift: int
    indirect: bool
    first: bool = False
    last: bool = False


@kl.kernel
def rank_rows(
    words: tuple[kl.In, ...], order: kl.Out, rows: kl.Size, n: kl.Size, *, lanes: int
) -> None:
    """Write to ``order[row, rank]`` the index of the element with each rank.

    The rank of an element is the number of elements before it: smaller ones, and equal ones with
    smaller indices. ``words``: those of keys, the last one the most significant.
    """
    parts = (n + lanes - 1) // lanes
    item = kl.absolute_position()
    if item < rows * parts:
        row, part = kl.unravel(item, (1, parts))
        first = part * lanes
        ids = first + kl.constant(tuple(range(lanes)), int64)
        inside = ids < n
        mine = [word.load(row * n + first, lanes, mask=inside) for word in words]
        rank = kl.constant(0, int32, lanes)
        for j in kl.loop_range(0, n):
            other = [kl.splat(word[row * n + j], lanes) for word in words]
            before = kl.splat(j, lanes) < ids
            for theirs, own in zip(other, mine, strict=True):
                less, same = theirs < own, theirs == own
                before = less | (same & before)
            rank = rank + kl.select(
                before, kl.constant(1, int32, lanes), kl.constant(0, int32, lanes)
            )
        order.store(row * n + rank.to(int64), ids.to(int32), mask=inside)


@kl.kernel
def count_digits(
    keys: kl.In, order: kl.In, counts: kl.Out, over: Blocks[kl.Number], *, digits: DigitPass
) -> None:
    """Write ``counts[row, digit, block]``: the occurrences of each digit in each block of a row."""
    item = kl.absolute_position()
    if item < over.items:
        row, part = kl.unravel(item, (1, over.blocks))
        first = part * over.length
        bins = kl.private(DIGITS, int32, align=64)
        for d in kl.loop_range(0, DIGITS):
            bins[d] = kl.constant(0, int32)
        for j in kl.loop_range(first, kl.min(first + over.length, over.n)):
            d = digit(keys, order, row * over.n, j, digits)
            bins[d] = bins[d] + 1
        for d in kl.loop_range(0, DIGITS):
            counts[(row * DIGITS + d) * over.blocks + part] = bins[d]


@kl.kernel
def move_digits(
    keys: kl.In,
    order: kl.In,
    ends: kl.In,
    moved: kl.Out,
    moved_order: kl.Out,
    over: Blocks[kl.Number],
    *,
    digits: DigitPass,
) -> None:
    """Move the elements of each block to their positions by a digit; ``ends``: scanned counts."""
    item = kl.absolute_position()
    if item < over.items:
        row, part = kl.unravel(item, (1, over.blocks))
        first = part * over.length
        bins = kl.private(DIGITS, int64, align=64)
        for d in kl.loop_range(0, DIGITS):
            cell = d * over.blocks + part
            before = kl.constant(0, int64)
            if cell > 0:
                before = ends[row * DIGITS * over.blocks + cell - 1].to(int64)
            bins[d] = before
        start = row * over.n
        for j in kl.loop_range(first, kl.min(first + over.length, over.n)):
            own = j.to(moved_order.dtype) if digits.first else order[start + j]
            if digits.indirect:
                key = keys[start + own.to(int64)]
            else:
                key = keys[start + j]
            d = ((key >> digits.shift) & 255).to(int64)
            to = bins[d]
            bins[d] = to + 1
            moved_order[start + to] = own
            if not digits.indirect and not digits.last:
                moved[start + to] = key


def digit(
    keys: kl.Pointer, order: kl.Pointer, start: kl.Number, j: kl.Number, digits: DigitPass
) -> kl.Number:
    """Return the digit of the element at position j of a row."""
    index = order[start + j].to(int64) if digits.indirect else j
    return ((keys[start + index] >> digits.shift) & 255).to(int64)


@kl.kernel
def take_sorted(
    source: kl.In,
    order: kl.In,
    values: kl.Out,
    indices: kl.Out,
    over: AxisElements[kl.Number],
    *,
    words: int,
) -> None:
    """Write values and indices of (outer, j, i) by the order of row (outer, i)."""
    n, inner = over.n, over.inner
    begin = kl.absolute_position() * over.turns
    for at in kl.loop_range(begin, kl.min(begin + over.turns, over.count)):
        outer, j, i = kl.unravel(at, (1, n, inner))
        index = order[(outer * inner + i) * n + j].to(int64)
        indices[at] = index
        first = ((outer * n + index) * inner + i) * words
        for word in range(words):
            values[at * words + word] = source[first + word]
