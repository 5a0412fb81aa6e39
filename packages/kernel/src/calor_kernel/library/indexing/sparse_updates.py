"""Updates of some rows of half types, for cubes of one unit.

Requirements: a table is not converted for a part of its rows. Sums of half types are rounded once,
in the order of the updates: those of a row form a list, and the first of them does the work of all.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, float32, int32
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, hinted, least
from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.contract.work import Request
from calor_kernel.library.conv.vector_tiles import below
from calor_kernel.library.indexing.checked_index import Failures, IndexedAxes, checked, updated
from calor_kernel.library.steps import Steps

# Vectors of a row that are updated side by side.
_VECTORS: Final = 8
# Rows and updates at most, whose numbers, from 1, fit 32 bits.
_NUMBERED: Final = (1 << 31) - 2


@kl.kernel
def link_updates(
    indices: kl.In,
    heads: kl.Out,
    following: kl.Out,
    rows: kl.Out,
    status: Failures,
    picks: kl.Size,
    count: kl.Size,
    axes: IndexedAxes[kl.Number],
    *,
    lanes: int,
) -> None:
    """Write the row of each update, the first update of each row, and the next one of each.

    Updates are counted from 1; 0 is none. There are ``count`` rows.
    """
    none = kl.constant(0, int32, lanes)
    for i in kl.loop_range(0, count, lanes):
        heads.store(i, none, mask=below(count - i, lanes))
    for done in kl.loop_range(picks):
        pick = picks - 1 - done
        row = 0 * pick
        for part, size in enumerate(axes.sizes):
            at = pick * len(axes.sizes) + part
            row = row + checked(indices[at], size, status, part + 1) * axes.strides[part]
        rows[pick] = row.to(int32)
        following[pick] = heads[row]
        heads[row] = (pick + 1).to(int32)


@kl.kernel
def update_linked_rows(
    target: kl.InOut,
    updates: kl.In,
    heads: kl.In,
    following: kl.In,
    rows: kl.In,
    picks: kl.Size,
    turns: kl.Size,
    length: kl.Size,
    *,
    update: str,
    lanes: int,
    vectors: int,
    wide: DType,
) -> None:
    """Update rows of ``length`` elements; cube x has ``turns`` updates.

    The vectors of the end of a row overlap those before them.
    """
    begin = kl.cube_position(0) * turns
    for pick in kl.loop_range(begin, kl.min(begin + turns, picks)):
        row = rows[pick].to(pick.dtype)
        if heads[row].to(pick.dtype) == pick + 1:
            for left in kl.loop_range(0, length, vectors * lanes):
                columns = [kl.min(left + v * lanes, length - lanes) for v in kl.range(vectors)]
                total = kl.registers(vectors, wide, lanes)
                for v in kl.range(vectors):
                    total[v] = target.load(row * length + columns[v], lanes).to(wide)
                other = pick + 1
                while other > 0:
                    at = (other - 1) * length
                    for v in kl.range(vectors):
                        new = updates.load(at + columns[v], lanes).to(wide)
                        total[v] = updated(update, total[v], new)
                    other = following[other - 1].to(pick.dtype)
                for v in kl.range(vectors):
                    target.store(row * length + columns[v], total[v].to(target.dtype))


def suits_linked_rows(request: Request, picks: int, count: int) -> bool:
    """Return whether updates of ``count`` rows are linked: most rows have none."""
    x = request.inputs[0]
    if request.info.max_units > 1 or x.dtype.kind != "float" or x.dtype.itemsize != 2:
        return False
    fits = not exceeds(count, _NUMBERED) and not exceeds(picks, _NUMBERED)
    return fits and bool(0 < 2 * hinted(picks) <= hinted(count))


def add_linked_rows(
    steps: Steps, request: Request, picks: int, count: int, axes: IndexedAxes[int],
    given: dict[str, object],
) -> None:  # fmt: skip
    """Add the launches of updates that :func:`suits_linked_rows` accepts; ``given``: a scatter's.

    The updates of a cube are about as many as those of any other.
    """
    info, length = request.info, request.inputs[0].size // count
    lanes = max(1, info.vector_bytes // float32.itemsize)
    heads, following, rows = (steps.room(n, int32) for n in (count, picks, picks))
    links = {"heads": heads, "following": following, "rows": rows}
    steps.add(
        link_updates,
        Grid.line(1),
        Effort("scatter links", picks, 4 * count + 16 * picks),
        indices=given["indices"],
        status=given["status"],
        picks=picks,
        count=count,
        axes=axes,
        lanes=lanes,
        **links,
    )
    while lanes > length:
        lanes //= 2
    vectors = next((n for n in (1, 2, 4) if length <= n * lanes), _VECTORS)
    turns = -(-picks // least(picks, 4 * info.cores))
    target = given["target"]
    assert isinstance(target, Bound)
    steps.add(
        update_linked_rows,
        Grid.line(-(-picks // turns)),
        Effort(f"scatter {given['update']} of rows", picks * length, 6 * picks * length),
        target=target,
        updates=given["updates"],
        picks=picks,
        turns=turns,
        length=length,
        update=given["update"],
        lanes=lanes,
        vectors=vectors,
        wide=float32,
        **links,
    )
