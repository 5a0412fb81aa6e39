"""The epilogue by units, for results whose rows do not begin where TMA can write.

Requirements: neighbouring units write neighbouring elements, so sums go through shared memory in
the layout of the epilogue by TMA. Positions have 64 bits, and edges are predicated. An epilogue
reads the operands of several rows before it writes the first, since results may replace operands:
reads behind a write would wait for it.
"""

from __future__ import annotations

from calor.dtypes import int64
from calor_cuda.kernels.matmul.tma_store import store_part
from calor_cuda.kernels.matmul.warpgroup_tma_plan import PARTS, TmaPlan
from calor_kernel import language as kl
from calor_kernel.library.gemm.epilogue import Writer

# Rows of a warp group, its units, those of a plane, and the rows of a turn.
_ROWS, _GROUP, _PLANE = 64, 128, 32
_TURN = _GROUP // _PLANE
# Registers of a unit for the operands of the turns that are read together, and the most of these.
_HELD, _TURNS = 16, 8


@kl.helper
def write_rows(
    c: kl.Pointer,
    sizes: tuple[kl.Number, kl.Number],
    parts: kl.Pointer,
    sums: kl.Fragment,
    there: tuple[kl.Index, kl.Index, kl.Index],
    group: kl.Index,
    plan: TmaPlan,
    ends: Writer | None = None,
) -> None:
    """Write a warp group's sums, or what follows them by ``ends``.

    ``there``: the product, row and column of the tile.
    """
    (m, n), (batch, row, column) = sizes, there
    top = row + plan.top(group)
    wide = [number.to(int64) for number in (batch, m, n, top)]  # type: ignore[union-attr]
    first = (wide[0] * wide[1] + wide[3]) * wide[2] + column.to(int64)  # type: ignore[union-attr]
    unit = kl.unit_index() % _GROUP
    plane, lane = unit // _PLANE, unit % _PLANE
    for part in range(plan.columns // plan.part):
        place = parts.at((group * PARTS + part % PARTS) * (_ROWS * plan.part))
        # All units have read what this part overwrites.
        kl.barrier("warpgroup")
        store_part(sums, place, part * plan.part, plan.part, plan.swizzle(plan.result))
        kl.barrier("warpgroup")
        start = part * plan.part
        turns = 4 if ends is None else _together(ends)
        for first_line in kl.loop_range(0, _ROWS, turns * _TURN):
            lines = [first_line + turn * _TURN + plane for turn in range(turns)]
            for q in range(0, plan.part, _PLANE):
                along = start + q + lane
                right = column + along
                inner = kl.min(right, n - 1)
                read = [
                    [] if ends is None else ends.operands(kl.min(top + line, m - 1), inner, 1)
                    for line in lines
                ]
                for line, given in zip(lines, read, strict=True):
                    if (top + line < m) & (right < n):
                        turned = line % 8 << plan.swizzle(plan.result).base
                        value = place[line * plan.part + ((q + lane) ^ turned)]
                        at = first + line.to(int64) * wide[2] + along.to(int64)
                        if ends is None:
                            c[at] = value
                        else:
                            ends.store(at, ends.results(value, given))


def _together(ends: Writer) -> int:
    """Return the turns whose operands are read together."""
    matrices = max(1, sum(along.rows for along in ends.by.along))
    return max(2, min(_TURNS, 1 << (_HELD // matrices).bit_length() - 1))
