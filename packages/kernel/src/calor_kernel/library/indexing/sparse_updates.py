"""Updates of a few rows of half types, for cubes of one unit.

Requirements: a table is not converted for a few of its rows. Sums of half types are rounded once,
in the order of the updates, so the first update of a row does the work of all of them. Each cube
reads all indices, which are few.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.work import Request
from calor_kernel.library.indexing.checked_index import Failures, IndexedAxes, checked, updated

ROOMS: Final = (16, 128, 1024)
"""The numbers of updates for which a kernel has room."""
# Vectors of a row that are updated side by side.
_VECTORS: Final = 8
# Elements that are converted, twice, in the time of comparing two indices.
_COMPARED: Final = 8


@kl.kernel
def update_sparse_rows(
    target: kl.InOut,
    indices: kl.In,
    updates: kl.In,
    status: Failures,
    picks: kl.Size,
    turns: kl.Size,
    length: kl.Size,
    axes: IndexedAxes[kl.Number],
    *,
    update: str,
    lanes: int,
    vectors: int,
    room: int,
    wide: DType,
) -> None:
    """Update rows of ``length`` elements; cube x has ``turns`` updates.

    The vectors of the end of a row overlap those before them.
    """
    found = kl.private(room, int64)
    for pick in kl.loop_range(picks):
        row = 0 * pick
        for part, size in enumerate(axes.sizes):
            at = pick * len(axes.sizes) + part
            row = row + checked(indices[at], size, status, part + 1) * axes.strides[part]
        found[pick] = row
    begin = kl.cube_position(0) * turns
    for pick in kl.loop_range(begin, kl.min(begin + turns, picks)):
        row, earlier = found[pick], kl.registers(1, int64)
        for other in kl.loop_range(pick):
            same = found[other] == row
            earlier[0] = kl.select(same, kl.constant(1, int64), earlier[0])
        if earlier[0] == 0:
            for left in kl.loop_range(0, length, vectors * lanes):
                columns = [kl.min(left + v * lanes, length - lanes) for v in kl.range(vectors)]
                total = kl.registers(vectors, wide, lanes)
                for v in kl.range(vectors):
                    total[v] = target.load(row * length + columns[v], lanes).to(wide)
                for other in kl.loop_range(pick, picks):
                    if found[other] == row:
                        for v in kl.range(vectors):
                            new = updates.load(other * length + columns[v], lanes).to(wide)
                            total[v] = updated(update, total[v], new)
                for v in kl.range(vectors):
                    target.store(row * length + columns[v], total[v].to(target.dtype))


def suits_sparse_rows(request: Request, picks: int, length: int) -> bool:
    """Return whether comparing all indices takes less than converting the whole operand."""
    if request.info.max_units > 1 or picks > ROOMS[-1]:
        return False
    lanes, vectors = vectors_of(request, length)
    compared = picks * picks * (1 + hinted(length) // (lanes * vectors))
    return bool(hinted(request.inputs[0].size) >= _COMPARED * hinted(compared))


def vectors_of(request: Request, length: int) -> tuple[int, int]:
    """Return the lanes of vectors, and how many of them are updated side by side."""
    lanes = max(1, request.info.vector_bytes // 4)
    while lanes > length:
        lanes //= 2
    return lanes, next((n for n in (1, 2, 4) if length <= n * lanes), _VECTORS)
