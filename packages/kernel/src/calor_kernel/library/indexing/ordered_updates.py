"""Updates of rows by few updates, in one launch.

Requirements: with few updates, what takes long is the number of launches. Each cube reads all
indices, so a plane finds the other updates of its row: one update of a row does the work of all of
them, in their order. So results are reproducible, sums of half types are rounded once, and the last
assignment wins.
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
    pick = kl.cube_position(0) * PLANES + kl.plane_position()
    if pick < picks:
        row = found[pick]
        # The last update assigns, the first one does what else there is.
        begin, end = (pick + 1, picks) if update == "assign" else (0 * pick, pick)
        same = kl.registers(1, int32)
        for base in kl.loop_range(begin, end, lanes):
            same[0] = kl.max(same[0], _hit(found, row, base + lane, end))
        i = kl.cube_position(1) * lanes + lane
        if kl.plane_reduce("max", same[0]) == 0:
            total = kl.registers(1, wide, width)
            inside, align = i < length, width * target.dtype.itemsize
            to = (row.to(int64) * length + i) * width
            if inside:
                new = updates.load((pick * length + i) * width, width).to(wide)
                if update == "assign":
                    total[0] = new
                else:
                    total[0] = updated(update, target.load(to, width, align=align).to(wide), new)
            if update != "assign":
                for base in kl.loop_range(pick + 1, picks, lanes):
                    if kl.plane_reduce("max", _hit(found, row, base + lane, picks)) > 0:
                        for other in kl.loop_range(base, kl.min(base + lanes, picks)):
                            if inside & (found[other] == row):
                                new = updates.load((other * length + i) * width, width)
                                total[0] = updated(update, total[0], new.to(wide))
            if inside:
                target.store(to, total[0].to(target.dtype), align=align)


@kl.helper
def _hit(found: kl.Pointer, row: kl.Number, place: kl.Number, end: kl.Number) -> kl.Number:
    """Return 1 if an update before ``end`` has the row, else 0."""
    there = place < end
    near = found[kl.select(there, place, 0)]
    return kl.select(there & (near == row), kl.constant(1, int32), kl.constant(0, int32))
