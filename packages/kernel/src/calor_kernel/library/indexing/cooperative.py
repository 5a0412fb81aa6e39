"""Reading and writing rows at computed places, by all units of a device at once.

Requirements: for cubes of many units; neighbouring units read and write neighbouring elements of a
row, and short rows are neighbours themselves, so that accesses are whole lines; no element costs a
division by a number of 64 bits where sizes are small. An assignment gives what the last update
gives, whichever unit comes first: rows are claimed by the greatest number of an update, and only
whom they belong to writes them.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, int32, int64
from calor_kernel.language import (
    constant,
    cube_position,
    cube_size,
    helper,
    kernel,
    loop_range,
    unit_position,
)
from calor_kernel.library.indexing.checked_index import checked, quick_unravel
from calor_kernel.library.indexing.update_ops import updated


@kernel
def gather_at_once(
    source: Any,
    indices: Any,
    target: Any,
    status: Any,
    rows: Any,
    length: Any,
    picks: Any,
    outer_step: Any,
    *axes: Any,
    width: int,
    parts: int,
    flat: bool,
    small: bool,
) -> None:
    """Write rows of ``length`` vectors, as ``gather_rows`` does: a unit's y is its row."""
    sizes, strides = axes[:parts], axes[parts:]
    row = cube_position() * cube_size(1) + unit_position(1)
    if row < rows:
        outer, pick = (0, row) if flat else quick_unravel(row, (1, picks), small)
        at = 0 * row if flat else outer * outer_step
        for part in range(parts):
            index = checked(indices[pick * parts + part], sizes[part], status, part + 1)
            at = at + index * strides[part]
        align = width * source.dtype.itemsize
        for i in loop_range(unit_position(0), length, cube_size(0)):
            taken = source.load(at + i * width, width, align=align)
            target.store((row * length + i) * width, taken, align=align)


@helper
def row_of(indices: Any, pick: Any, status: Any, axes: Any, parts: int, small: bool) -> Any:
    """Return the row of the target that an update is for.

    ``parts``: the numbers of an index, whose axes' sizes and strides ``axes`` has; −1 for updates
    of elements along an axis, of which it has the number, the axis's size and that of the inside.
    """
    if parts < 0:
        picks, size, inner = axes
        outer, _, i = quick_unravel(pick, (1, picks, inner), small)
        row = (outer * size + checked(indices[pick], size, status, 1)) * inner + i
    else:
        row = 0 * pick
        for part in range(parts):
            index = checked(indices[pick * parts + part], axes[part], status, part + 1)
            row = row + index * axes[parts + part]
    return row


@kernel
def claim_rows(
    indices: Any, owners: Any, status: Any, picks: Any, *axes: Any, parts: int, small: bool
) -> None:
    """Give each row to its last update: ``owners`` has numbers counted from 1, and is 0 before."""
    pick = cube_position() * cube_size() + unit_position()
    if pick < picks:
        row = row_of(indices, pick, status, axes, parts, small)
        owners.atomic("max", row, (pick + 1).to(owners.dtype))


@kernel
def scatter_at_once(
    target: Any,
    indices: Any,
    updates: Any,
    owners: Any,
    status: Any,
    picks: Any,
    length: Any,
    *axes: Any,
    parts: int,
    update: str,
    width: int,
    small: bool,
) -> None:
    """Update rows of ``length`` vectors: a unit's y is the number of its update."""
    pick = cube_position() * cube_size(1) + unit_position(1)
    if pick < picks:
        row = row_of(indices, pick, status, axes, parts, small)
        if update == "assign":
            if owners[row] == (pick + 1).to(owners.dtype):
                for i in loop_range(unit_position(0), length, cube_size(0)):
                    new = updates.load((pick * length + i) * width, width)
                    target.store((row * length + i) * width, new)
        else:
            for i in loop_range(unit_position(0), length, cube_size(0)):
                new = updates[pick * length + i].to(target.dtype)
                target.atomic(update, row * length + i, new)


@kernel
def number_rows(
    indices: Any, numbers: Any, status: Any, picks: Any, *axes: Any, parts: int, small: bool
) -> None:
    """Write the row of each update."""
    pick = cube_position() * cube_size() + unit_position()
    if pick < picks:
        row = row_of(indices, pick, status, axes, parts, small)
        numbers[pick] = row.to(numbers.dtype)


@kernel
def update_segments(
    target: Any,
    numbers: Any,
    order: Any,
    updates: Any,
    picks: Any,
    length: Any,
    *,
    update: str,
) -> None:
    """Update each row by all its updates in their order; sorted ``numbers`` are their rows."""
    first = cube_position() * cube_size(1) + unit_position(1)
    if first < picks:
        row = numbers[first]
        before = constant(-1, numbers.dtype)
        if first > 0:
            before = numbers[first - 1]
        if before != row:
            last = first + 1
            while (last < picks) & (numbers[min(last, picks - 1)] == row):
                last = last + 1
            for i in loop_range(unit_position(0), length, cube_size(0)):
                to = row.to(int64) * length + i
                total = target[to]
                for j in loop_range(first, last):
                    new = updates[order[j] * length + i].to(target.dtype)
                    total = updated(update, total, new)
                target[to] = total


def numbers_of(rows: int) -> DType:
    """Return the type in which rows are numbered."""
    return int32 if rows < 1 << 31 else int64
