"""Launches of scans along an axis that is not the last, for cubes of many units.

Requirements: one read and one write, whatever the axis is. With enough columns for the device a
cube loops over the tiles of its columns, and results are bitwise reproducible; else each tile is a
cube, which looks back.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, int32, uint64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, Output, Request, Scratch
from calor_kernel.library.reduce.reduction_ops import ReductionOp
from calor_kernel.library.scan.columns import (
    ColumnPlan,
    scan_columns,
    scan_columns_looking_back,
)
from calor_kernel.library.scan.decoupled_look_back import clear

# Units of a cube, rows of a unit, and bytes of adjacent columns that a row of units reads.
_UNITS, _ROWS, _LINE = 256, 8, 128
# Cubes per core from which each cube loops over the tiles of its columns.
_CUBES: Final = 4
# Columns of fewer bytes are scanned in chunks, one unit each.
_NARROW: Final = 32
# Units of a cube at least, and units of the same columns at most.
_FEWEST, _DOWN = 64, 32


def column_scan(
    request: Request, op: ReductionOp, sizes: tuple[int, int, int], source: Bound, offset: int
) -> tuple[list[Launch], tuple[int, ...]] | None:
    """Return launches and scratch that scan dense ``[outer, n, inner]`` along n.

    None if another method is better: columns are narrow, or tiles must not look back. ``offset``:
    the first element of the source.
    """
    (outer, n, inner), info, dtype = sizes, request.info, source.dtype
    if inner * dtype.itemsize < _NARROW or not info.has("barrier") or info.max_units < _FEWEST:
        return None
    width = _width(info, dtype, inner, offset)
    across, down = _shape(info, width * dtype.itemsize, n, -(-inner // width))
    plan = ColumnPlan(op, width, across, _ROWS, request.attributes["reverse"])
    units = across * down
    across = -(-inner // plan.columns)
    tiles = -(-n // (down * plan.items))
    effort = Effort(request.op, 0, 2 * outer * n * inner * dtype.itemsize)
    given = {
        "source": source,
        "target": Bound(Output(), dtype),
        "across": across,
        "n": n,
        "inner": inner,
        "plan": plan,
    }
    cubes = outer * across
    if tiles <= 2 or cubes >= _CUBES * info.cores:
        grid = Grid.line(cubes, units, info.planes[0])
        return [launch(scan_columns, grid, effort, **given)], ()
    if (request.deterministic and op.rounds) or not (
        info.has("forward_progress") and uint64 in info.dtypes
    ):
        return None
    cubes *= tiles
    count = cubes * plan.columns * (2 if op.dtype.itemsize == 8 else 1)
    # The tickets follow the words in the same scratch memory, which is cleared by one launch.
    words = Bound(Scratch(0), uint64)
    cleared = clear(words, count + 1, Effort(request.op, 0, 8 * count))
    last = launch(
        scan_columns_looking_back,
        Grid.line(cubes, units, info.planes[0]),
        effort,
        words=words,
        tickets=Bound(Scratch(0, 2 * count), int32),
        tiles=tiles,
        **given,
    )
    return [cleared, last], (8 * count + 8,)


def _width(info: DeviceInfo, dtype: DType, inner: int, offset: int) -> int:
    """Return the columns of a unit: the widest access that is aligned in every row."""
    width: int = max(1, min(info.vector_bytes // dtype.itemsize, 8))
    while inner % width or offset % width:
        width //= 2
    return width


def _shape(info: DeviceInfo, access: int, n: int, accesses: int) -> tuple[int, int]:
    """Return the units of a cube along the columns, and along the rows.

    ``access``: bytes of an access; ``accesses``: accesses of a row of the array.
    """
    most = min(_UNITS, info.max_units)
    across = 1
    while across * access < _LINE and across < accesses:
        across *= 2
    down = min(_DOWN, most // across)
    while down > 1 and down // 2 * _ROWS >= n:
        down //= 2
    while across * down < most and across < accesses:
        across *= 2
    return across, down
