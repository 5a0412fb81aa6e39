"""Gathers and scatters of rows, with cubes of many units.

Requirements: neighbouring units access neighbouring elements of a row, and short rows are adjacent,
so accesses are coalesced; small sizes need no 64-bit division. The last assignment to a row wins
for any order of units: a row is claimed by the greatest number of an update, and only this update
writes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import DType, int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, is_size, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Grid
from calor_kernel.library.indexing.checked_index import (
    Failures,
    IndexedAxes,
    checked,
    quick_unravel,
    updated,
)

N = TypeVar("N")
# Units of a cube, of them along a row at most, and the cubes that each core has at least, where
# rows are long: of few rows several cubes take one.
_UNITS, _ALONG, _CUBES = 256, 128, 8


@dataclass(frozen=True, slots=True)
class AlongAxis(Generic[N]):
    """Updates along an axis of ``size``: ``picks`` for an outer index, ``inner`` elements each."""

    picks: kl.SizeOf[N]
    size: kl.SizeOf[N]
    inner: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class UpdatedRows(Generic[N]):
    """The rows of updates: by an index into the first axes, or along one axis."""

    along: AlongAxis[N] | None = None
    axes: IndexedAxes[N] | None = None


def along_row(length: kl.Number, split: bool, unroll: int = 1) -> Iterable[kl.Number]:
    """Return the loop of a unit over the elements of its row; ``split``: cubes along y share it."""
    first, step = kl.unit_position(0), kl.cube_size(0)
    if not split:
        return kl.loop_range(first, length, step, unroll=unroll)
    start, across = kl.cube_position(1) * step + first, kl.cube_count(1) * step
    return kl.loop_range(start, length, across, unroll=unroll)


@kl.kernel
def gather_at_once(
    source: kl.In,
    indices: kl.In,
    target: kl.Out,
    status: Failures,
    rows: kl.Size,
    length: kl.Size,
    picks: kl.Size,
    outer_step: kl.Size,
    axes: IndexedAxes[kl.Number],
    *,
    width: int,
    flat: bool,
    own: bool,
    small: bool,
    split: bool,
) -> None:
    """Gather rows of ``length`` vectors as ``gather_rows``; y of a unit is its row."""
    row = kl.cube_position() * kl.cube_size(1) + kl.unit_position(1)
    if row < rows:
        outer, pick = (0, row) if flat else quick_unravel(row, (1, picks), small)
        at = 0 * row if flat else outer * outer_step
        parts = len(axes.sizes)
        for part in range(parts):
            given = indices[(row if own else pick) * parts + part]
            at = at + checked(given, axes.sizes[part], status, part + 1) * axes.strides[part]
        align = width * source.dtype.itemsize
        for i in along_row(length, split):
            vector = source.load(at + i * width, width, align=align)
            target.store((row * length + i) * width, vector, align=align)


@kl.helper
def row_of(
    indices: kl.Pointer,
    pick: kl.Number,
    status: kl.Pointer,
    rows: UpdatedRows[kl.Number],
    small: bool,
) -> kl.Number:
    """Return the row of the target of an update."""
    if rows.along is not None:
        picks, size, inner = rows.along.picks, rows.along.size, rows.along.inner
        outer, _, i = quick_unravel(pick, (1, picks, inner), small)
        row = (outer * size + checked(indices[pick], size, status, 1)) * inner + i
    else:
        axes = rows.axes
        assert axes is not None
        row = 0 * pick
        parts = len(axes.sizes)
        for part in range(parts):
            index = checked(indices[pick * parts + part], axes.sizes[part], status, part + 1)
            row = row + index * axes.strides[part]
    return row


@kl.kernel
def claim_rows(
    indices: kl.In,
    owners: kl.InOut,
    status: Failures,
    picks: kl.Size,
    rows: UpdatedRows[kl.Number],
    *,
    small: bool,
) -> None:
    """Give each row to its last update: ``owners`` has update numbers from 1, cleared before."""
    pick = kl.cube_position() * kl.cube_size() + kl.unit_position()
    if pick < picks:
        row = row_of(indices, pick, status, rows, small)
        owners.atomic("max", row, (pick + 1).to(owners.dtype))


@kl.helper
def compare_and_update(bits: kl.Pointer, place: kl.Number, new: kl.Number, update: str) -> None:
    """Update a number whose bits are in memory of integers: again while others change it."""
    seen = bits.atomic("or", place, kl.constant(0, bits.dtype))
    made = kl.bitcast(updated(update, kl.bitcast(seen, new.dtype), new), bits.dtype)
    while made != seen:
        found = bits.atomic("compare", place, seen, made)
        again = kl.bitcast(updated(update, kl.bitcast(found, new.dtype), new), bits.dtype)
        made = kl.select(found == seen, found, again)
        seen = found


@kl.kernel
def scatter_at_once(
    target: kl.InOut,
    indices: kl.In,
    updates: kl.In,
    owners: kl.In,
    status: Failures,
    picks: kl.Size,
    length: kl.Size,
    rows: UpdatedRows[kl.Number],
    *,
    update: str,
    width: int,
    small: bool,
    number: DType | None,
    split: bool,
) -> None:
    """Update rows of ``length`` vectors; y of a unit is the number of its update.

    ``owners`` is read for assignments. ``number``: the type of numbers whose bits the target has.
    """
    pick = kl.cube_position() * kl.cube_size(1) + kl.unit_position(1)
    if pick < picks:
        row = row_of(indices, pick, status, rows, small)
        if update == "assign":
            if owners[row] == (pick + 1).to(owners.dtype):
                for i in along_row(length, split):
                    new = updates.load((pick * length + i) * width, width)
                    target.store((row * length + i) * width, new)
        else:
            for i in along_row(length, split, unroll=1 if number else 4):
                new = updates[pick * length + i].to(number or target.dtype)
                if number is None:
                    target.atomic(update, row * length + i, new)
                else:
                    compare_and_update(target, row * length + i, new, update)


@kl.kernel
def sum_updates(
    sums: kl.InOut,
    indices: kl.In,
    updates: kl.In,
    owners: kl.In,
    status: Failures,
    picks: kl.Size,
    length: kl.Size,
    rows: UpdatedRows[kl.Number],
    *,
    small: bool,
    split: bool,
) -> None:
    """Add each update to the sum of its row, which has the place of the row's owner."""
    pick = kl.cube_position() * kl.cube_size(1) + kl.unit_position(1)
    if pick < picks:
        place = owners[row_of(indices, pick, status, rows, small)].to(pick.dtype) - 1
        for i in along_row(length, split):
            new = updates[pick * length + i].to(sums.dtype)
            sums.atomic("add", place * length + i, new)


@kl.kernel
def add_sums(
    target: kl.InOut,
    sums: kl.In,
    indices: kl.In,
    owners: kl.In,
    status: Failures,
    picks: kl.Size,
    length: kl.Size,
    rows: UpdatedRows[kl.Number],
    *,
    width: int,
    small: bool,
    split: bool,
) -> None:
    """Add the sum of each updated row of ``length`` vectors to it, and round once."""
    pick = kl.cube_position() * kl.cube_size(1) + kl.unit_position(1)
    if pick < picks:
        row = row_of(indices, pick, status, rows, small)
        if owners[row] == (pick + 1).to(owners.dtype):
            size = target.dtype.itemsize * width
            for i in along_row(length, split):
                to = (row * length + i) * width
                place = (pick * length + i) * width
                total = sums.load(place, width, align=width * sums.dtype.itemsize)
                total = total + target.load(to, width, align=size).to(sums.dtype)
                target.store(to, total.to(target.dtype), align=size)


@kl.kernel
def number_rows(
    indices: kl.In,
    numbers: kl.Out,
    status: Failures,
    picks: kl.Size,
    rows: UpdatedRows[kl.Number],
    *,
    small: bool,
) -> None:
    """Write the row of each update."""
    pick = kl.cube_position() * kl.cube_size() + kl.unit_position()
    if pick < picks:
        row = row_of(indices, pick, status, rows, small)
        numbers[pick] = row.to(numbers.dtype)


@kl.kernel
def update_segments(
    target: kl.InOut,
    numbers: kl.In,
    order: kl.In,
    updates: kl.In,
    picks: kl.Size,
    length: kl.Size,
    *,
    update: str,
    split: bool,
) -> None:
    """Update each row by its updates in their order; ``numbers``: sorted rows of updates."""
    first = kl.cube_position() * kl.cube_size(1) + kl.unit_position(1)
    if first < picks:
        row = numbers[first]
        before = kl.constant(-1, numbers.dtype)
        if first > 0:
            before = numbers[first - 1]
        if before != row:
            last = first + 1
            while (last < picks) & (numbers[kl.min(last, picks - 1)] == row):
                last = last + 1
            for i in along_row(length, split):
                to = row.to(int64) * length + i
                total = target[to]
                for j in kl.loop_range(first, last):
                    new = updates[order[j] * length + i].to(target.dtype)
                    total = updated(update, total, new)
                target[to] = total


def numbers_of(rows: int) -> DType:
    """Return the dtype of row numbers."""
    return int32 if rows < 1 << 31 else int64


def row_grid(info: DeviceInfo, rows: int, length: int) -> tuple[Grid, bool]:
    """Return the cubes for rows of vectors, and whether several cubes along y share a row.

    A cube has units along a row, and along the rows.
    """
    units = min(_UNITS, info.max_units)
    along = 1
    while along < min(_ALONG, units) and along < length:
        along *= 2
    cube = along, units // along, 1
    cubes = -(-rows // cube[1])
    across = greatest(1, least(-(-length // along), _CUBES * info.cores // cubes))
    return Grid((cubes, across, 1), cube), is_size(across) or across > 1


def is_small(count: int) -> bool:
    """Return whether indices below a count are computed with 32 bits."""
    return count < 1 << 30
