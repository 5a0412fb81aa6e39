"""Updates of rows by few updates, in one launch.

Requirements: with few updates, what takes long is the number of launches. Each cube reads all
indices, so a plane finds the other updates of its row: one update of a row does the work of all of
them, in their order. It lists them first, so that several are read at once. So results are
reproducible, sums of half types are rounded once, and the last assignment wins.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, int32, int64
from calor_kernel import language as kl
from calor_kernel.library.indexing.checked_index import Failures, updated
from calor_kernel.library.indexing.cooperative import UpdatedRows, row_of

ROOMS: Final = (64, 256, 1024)
"""The numbers of updates for which a kernel has room."""
PLANES: Final = 8
"""The planes of a cube; each has an update."""
# Updates that a plane searches for those of its row at a time, and those that it reads together.
_LISTED: Final = 256
_AHEAD: Final = 8


@kl.kernel
def update_in_order(
    target: kl.InOut,
    indices: kl.In,
    updates: kl.In,
    status: Failures,
    picks: kl.Size,
    length: kl.Size,
    rows: UpdatedRows[kl.Number],
    *,
    update: str,
    width: int,
    room: int,
    wide: DType,
    small: bool,
) -> None:
    """Update rows of ``length`` vectors; a plane along x has an update, cubes along y have columns.

    Rows are below 2 ** 31. Updates are computed as ``wide``.
    """
    lanes, lane = kl.plane_size(), kl.lane_position()
    found = kl.shared(room, int32)
    for e in kl.loop_range(kl.unit_index(), room, PLANES * lanes):
        number = kl.constant(-1, int32)
        if e < picks:
            number = row_of(indices, e, status, rows, small).to(int32)
        found[e] = number
    kl.barrier()
    mine = kl.shared(PLANES * _LISTED, int32).at(kl.plane_position() * _LISTED)
    pick = kl.cube_position(0) * PLANES + kl.plane_position()
    exists = pick < picks
    row = found[kl.select(exists, pick, 0)]
    # The last update assigns, the first one does what else there is.
    begin, end = (pick + 1, picks) if update == "assign" else (0 * pick, pick)
    same = kl.registers(1, int32)
    for base in kl.loop_range(begin, end, lanes):
        same[0] = kl.max(same[0], _hit(found, row, base + lane, end))
    chosen = exists & (kl.plane_reduce("max", same[0]) == 0)
    i = kl.cube_position(1) * lanes + lane
    total = kl.registers(1, wide, width)
    inside, align = chosen & (i < length), width * target.dtype.itemsize
    to = (row.to(int64) * length + i) * width
    if inside:
        new = updates.load((pick * length + i) * width, width).to(wide)
        if update == "assign":
            total[0] = new
        else:
            total[0] = updated(update, target.load(to, width, align=align).to(wide), new)
    if update != "assign":
        column = kl.min(i, length - 1)
        # All planes take all turns, as some devices have barriers of cubes alone.
        for base in kl.loop_range(0, picks, _LISTED):
            count = kl.constant(0, int32)
            if chosen:
                behind = kl.min(base + _LISTED, picks)
                count = list_row(found, row, kl.max(base, pick + 1), behind, mine)
            kl.barrier()
            for n in kl.loop_range(0, count, _AHEAD):
                # All are on their way before the first is added.
                places = [mine[kl.min(n + u, count - 1)] for u in range(_AHEAD)]
                read = [
                    updates.load((at.to(pick.dtype) * length + column) * width, width)
                    for at in places
                ]
                for u, new in enumerate(read):
                    later = updated(update, total[0], new.to(wide))
                    total[0] = kl.select(n + u < count, later, total[0])
            kl.barrier()
    if inside:
        target.store(to, total[0].to(target.dtype), align=align)


@kl.helper
def list_row(
    found: kl.Pointer, row: kl.Number, first: kl.Number, end: kl.Number, target: kl.Pointer
) -> kl.Number:
    """Write the updates of a row from ``first`` to ``end``, in their order; return their number."""
    lanes, lane = kl.plane_size(), kl.lane_position()
    count = kl.constant(0, int32)
    for base in kl.loop_range(first, end, lanes):
        hit = _hit(found, row, base + lane, end)
        if kl.plane_reduce("max", hit) > 0:
            upto = kl.plane_scan("add", hit)
            if hit > 0:
                target[count + upto - 1] = (base + lane).to(int32)
            count = count + kl.plane_shuffle(upto, lanes - 1)
    return count


@kl.helper
def _hit(found: kl.Pointer, row: kl.Number, place: kl.Number, end: kl.Number) -> kl.Number:
    """Return 1 if an update before ``end`` has the row, else 0."""
    there = place < end
    near = found[kl.select(there, place, 0)]
    return kl.select(there & (near == row), kl.constant(1, int32), kl.constant(0, int32))
