"""Updates at computed indices, for cubes that own a part of the result.

Requirements: parallel and bitwise reproducible: each cube owns a part of the result and reads the
indices in their order, so the last assignment wins and sums have one order. For single elements,
vectors of indices are checked a block ahead of the updates, which are then one load, one operation
and one store each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import int64, uint32
from calor_kernel import language as kl
from calor_kernel.library.indexing.checked_index import (
    Failures,
    IndexedAxes,
    checked,
    report_lanes,
    updated,
)
from calor_kernel.library.sort.networks import LANES, compress, count_lanes

N = TypeVar("N")
_LANES = LANES[uint32]
# Indices that are checked at a time.
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class ScatteredRows(Generic[N]):
    """Updates of ``rows`` rows of ``length`` elements, ``picks`` in all.

    Cube x owns ``share`` rows from x · share on, cube y ``columns`` elements of each row.
    ``pick_step`` and ``part_step``: strides of indices.
    """

    rows: kl.SizeOf[N]
    picks: kl.SizeOf[N]
    length: kl.SizeOf[N]
    share: kl.SizeOf[N]
    columns: kl.SizeOf[N]
    pick_step: kl.SizeOf[N]
    part_step: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class Updates(Generic[N]):
    """Updates (outer, pick, inner) along an axis of ``size``.

    Cube x owns ``outer_share`` outer rows, cube y ``share`` positions of the axis. ``inner`` is
    None for single elements.
    """

    outers: kl.SizeOf[N]
    picks: kl.SizeOf[N]
    inner: kl.SizeOf[N] | None
    size: kl.SizeOf[N]
    outer_share: kl.SizeOf[N]
    share: kl.SizeOf[N]


@kl.kernel
def scatter_rows(
    target: kl.InOut,
    indices: kl.In,
    updates: kl.In,
    status: Failures,
    over: ScatteredRows[kl.Number],
    axes: IndexedAxes[kl.Number],
    *,
    width: int,
    update: str,
    pair: bool,
) -> None:
    """Update rows of the target from rows of the updates, in their order.

    Strides of ``axes`` are in rows. ``pair``: elements are (real, imaginary).
    """
    length = over.length
    first = kl.cube_position(0) * over.share
    last = kl.min(first + over.share, over.rows)
    begin = kl.cube_position(1) * over.columns
    end = kl.min(begin + over.columns, length)
    for pick in kl.loop_range(0, over.picks):
        row = 0 * pick
        for part, size in enumerate(axes.sizes):
            at = pick * over.pick_step + part * over.part_step
            row = row + checked(indices[at], size, status, part + 1) * axes.strides[part]
        if (row >= first) and (row < last):
            update_row(
                target, row * length, updates, pick * length, begin, end, width, update, pair
            )


@kl.helper
def update_row(
    target: kl.Pointer,
    to: kl.Number,
    updates: kl.Pointer,
    at: kl.Number,
    begin: kl.Number,
    end: kl.Number,
    width: int,
    update: str,
    pair: bool,
) -> None:
    """Update one row from ``begin`` to ``end``."""
    step = 2 if pair else width
    whole = begin + (end - begin) // step * step
    for i in kl.loop_range(begin, whole, step):
        if pair:
            multiply_pair(target, to + i, updates, at + i)
        else:
            new = updates.load(at + i, width).to(target.dtype)
            if update != "assign":
                new = updated(update, target.load(to + i, width), new)
            target.store(to + i, new)
    if not pair:
        for i in kl.loop_range(whole, end):
            new = updates[at + i].to(target.dtype)
            target[to + i] = new if update == "assign" else updated(update, target[to + i], new)


@kl.helper
def multiply_pair(target: kl.Pointer, to: kl.Number, updates: kl.Pointer, at: kl.Number) -> None:
    """Multiply one complex number by another."""
    a, b = target[to], target[to + 1]
    c, d = updates[at].to(target.dtype), updates[at + 1].to(target.dtype)
    target[to] = a * c - b * d
    target[to + 1] = a * d + b * c


@kl.kernel
def scatter_along(
    target: kl.InOut,
    indices: kl.In,
    updates: kl.In,
    status: Failures,
    over: Updates[kl.Number],
    *,
    words: int,
    update: str,
    pair: bool,
) -> None:
    """Update elements along an axis; an element is ``words`` items of memory."""
    size, inner = over.size, over.inner
    assert inner is not None
    first_outer = kl.cube_position(0) * over.outer_share
    first = kl.cube_position(1) * over.share
    last = kl.min(first + over.share, size)
    for outer in kl.loop_range(first_outer, kl.min(first_outer + over.outer_share, over.outers)):
        for pick in kl.loop_range(0, over.picks):
            for i in kl.loop_range(inner):
                n = (outer * over.picks + pick) * inner + i
                index = checked(indices[n], size, status, 1)
                if (index >= first) and (index < last):
                    to = ((outer * size + index) * inner + i) * words
                    if pair:
                        multiply_pair(target, to, updates, n * words)
                    else:
                        for word in range(words):
                            new = updates[n * words + word].to(target.dtype)
                            if update != "assign":
                                new = updated(update, target[to + word], new)
                            target[to + word] = new


@kl.kernel
def scatter_elements(
    target: kl.InOut,
    indices: kl.In,
    updates: kl.In,
    status: Failures,
    over: Updates[kl.Number],
    *,
    update: str,
    owned: bool,
) -> None:
    """Update elements of rows.

    ``owned``: there are several cubes along y; positions are then below 2 ** 31.
    """
    size, picks = over.size, over.picks
    first_outer = kl.cube_position(0) * over.outer_share
    first = kl.cube_position(1) * over.share
    last = kl.min(first + over.share, size)
    positions = kl.private(_BLOCK + _LANES, int64, align=64)
    numbers = kl.private(_BLOCK + _LANES, uint32, align=64)
    for outer in kl.loop_range(first_outer, kl.min(first_outer + over.outer_share, over.outers)):
        for begin in kl.loop_range(0, picks, _BLOCK):
            end = kl.min(begin + _BLOCK, picks)
            at = outer * picks
            if owned:
                found = take_block(
                    indices, at, begin, end, size, first, last, positions, numbers, status
                )
                for j in kl.loop_range(0, found, unroll=2):
                    number = at + begin + numbers[j].to(int64)
                    change(target, outer * size + positions[j], updates[number], update)
            else:
                check_block(indices, at, begin, end, size, positions, status)
                for j in kl.loop_range(begin, end, unroll=4):
                    to = outer * size + positions[j - begin]
                    change(target, to, updates[at + j], update)


def change(target: kl.Pointer, to: kl.Number, new: kl.Number, update: str) -> None:
    """Update one element."""
    new = new.to(target.dtype)
    target[to] = new if update == "assign" else updated(update, target[to], new)


@kl.helper
def check_vector(
    indices: kl.Pointer,
    at: kl.Number,
    i: kl.Number,
    end: kl.Number,
    size: kl.Number,
    status: kl.Pointer,
) -> kl.Number:
    """Return a vector of indices counted from the start; those out of range give 0 and a failure.

    Lanes beyond the end are 0 too.
    """
    inside = (i + kl.constant(tuple(range(_LANES)), int64)) < end
    raw = indices.load(at + i, _LANES, mask=inside)
    position = raw.to(int64)
    below = position < 0
    if raw.dtype.kind != "uint":
        position = kl.select(below, position + size, position)
        below = position < 0
    wrong = below | (position >= kl.splat(size, _LANES))
    if count_lanes(wrong) > 0:
        # Lanes beyond the end are 0, which is out of range where the size is 0.
        report_lanes(status, raw, wrong, size, _LANES)
    return kl.select(wrong, kl.constant(0, int64, _LANES), position)


@kl.helper
def check_block(
    indices: kl.Pointer,
    at: kl.Number,
    begin: kl.Number,
    end: kl.Number,
    size: kl.Number,
    positions: kl.Pointer,
    status: kl.Pointer,
) -> None:
    """Write the positions of a block of indices."""
    for i in kl.loop_range(begin, end, _LANES):
        positions.store(i - begin, check_vector(indices, at, i, end, size, status))


@kl.helper
def take_block(
    indices: kl.Pointer,
    at: kl.Number,
    begin: kl.Number,
    end: kl.Number,
    size: kl.Number,
    first: kl.Number,
    last: kl.Number,
    positions: kl.Pointer,
    numbers: kl.Pointer,
    status: kl.Pointer,
) -> kl.Number:
    """Write the positions from ``first`` to ``last`` of a block, and the indices' numbers in it.

    Return the number of them.
    """
    found = kl.constant(0, int64)
    lanes = kl.constant(tuple(range(_LANES)), int64)
    for i in kl.loop_range(begin, end, _LANES):
        position = check_vector(indices, at, i, end, size, status)
        mine = (position >= first) & (position < last) & ((i + lanes) < end)
        number = (i - begin + lanes).to(uint32)
        near = compress(position.to(uint32), mine)
        positions.store(found, near.to(int64))
        numbers.store(found, compress(number, mine))
        found = found + count_lanes(mine)
    return found
