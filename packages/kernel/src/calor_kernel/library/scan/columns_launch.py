"""Scans along an axis that is not the last as launches, for cubes of many units.

Requirements: one read and one write, whatever the axis is; where there are cubes enough for the
device, each follows its columns from tile to tile, and the bits are the same each time; else tiles
are cubes of their own, which look back.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, int32, int64, uint64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output, Scratch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.scan.columns import (
    ColumnPlan,
    scan_columns,
    scan_columns_looking_back,
)
from calor_kernel.library.scan.tickets import clear_words

_SIZE: Final = Scalar(int64, nonnegative=True)
# Units of a cube, rows of a unit, and bytes of columns that are read side by side.
_UNITS, _ROWS, _LINE = 256, 8, 128
# Cubes for each that runs at a time, where each follows its columns; units that clear words.
_CUBES, _CLEARING = 4, 256
# Columns of fewer bytes are read by single units, each in a part of its own.
_NARROW: Final = 32
# Units of a cube at least, and below each other at most.
_FEWEST, _DOWN = 64, 32


def column_scan(
    info: DeviceInfo,
    kind: str,
    dtype: DType,
    accumulate: DType,
    identity: float,
    sizes: tuple[int, int, int],
    source: Argument,
    reverse: bool,
    label: str,
    deterministic: bool,
) -> tuple[list[Launch], tuple[int, ...]] | None:
    """Return launches and scratch that scan dense ``[outer, n, inner]`` along n.

    None where others do it better: columns are narrow, or tiles must not look back.
    """
    outer, n, inner = sizes
    if inner * dtype.itemsize < _NARROW or not info.has("barrier") or info.max_units < _FEWEST:
        return None
    width = _width(info, dtype, inner, getattr(source, "offset", 0))
    across, down = _shape(info, width * dtype.itemsize, n, -(-inner // width))
    plan = ColumnPlan(kind, accumulate, identity, width, across, _ROWS, reverse)
    units = across * down
    across = -(-inner // plan.columns)
    rows = units // plan.across * plan.items
    tiles = -(-n // rows)
    build = (dtype, plan, units)
    nbytes = 2 * outer * n * inner * dtype.itemsize
    if tiles <= 2 or outer * across >= _CUBES * info.cores:
        cubes = outer * across
        arguments: tuple[Argument, ...] = (source, Output(0), across, n, inner)
        return [_launch(info, scan_columns, *build, (), cubes, arguments, nbytes, label)], ()
    rounds = accumulate.kind == "float" and kind in ("sum", "prod")
    if (deterministic and rounds) or not (info.has("forward_progress") and uint64 in info.dtypes):
        return None
    cubes = outer * across * tiles
    count = cubes * plan.columns * (2 if accumulate.itemsize == 8 else 1)
    # The tickets lie behind the words, in the same piece that is cleared.
    cleared = Launch(
        Build(clear_words, (Buffer(uint64), _SIZE), (), (_CLEARING, 1, 1)),
        (-(-(count + 1) // _CLEARING), 1, 1),
        (Scratch(0), count + 1),
        0,
        8 * count,
        label,
    )
    arguments = (source, Output(0), Scratch(0), Scratch(0, 2 * count), tiles, across, n, inner)
    words = (Buffer(uint64), Buffer(int32))
    last = _launch(info, scan_columns_looking_back, *build, words, cubes, arguments, nbytes, label)
    return [cleared, last], (8 * count + 8,)


def _width(info: DeviceInfo, dtype: DType, inner: int, offset: int) -> int:
    """Return the columns of a unit: those of an access, where all begin where one may."""
    width: int = max(1, min(info.vector_bytes // dtype.itemsize, 8))
    while inner % width or offset % width:
        width //= 2
    return width


def _shape(info: DeviceInfo, access: int, n: int, accesses: int) -> tuple[int, int]:
    """Return the units of a cube side by side, and below each other.

    ``access``: bytes of one; ``accesses``: those of a row of columns.
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


def _launch(
    info: DeviceInfo,
    function: KernelFunction,
    dtype: DType,
    plan: ColumnPlan,
    units: int,
    words: tuple[Buffer, ...],
    cubes: int,
    arguments: tuple[Argument, ...],
    nbytes: int,
    label: str,
) -> Launch:
    shapes = (Buffer(dtype, writable=False), Buffer(dtype), *words)
    signature: tuple[Buffer | Scalar, ...] = (*shapes, *(_SIZE for _ in arguments[len(shapes) :]))
    build = Build(function, signature, (("plan", plan),), (units, 1, 1), info.planes[0])
    return Launch(build, (cubes, 1, 1), arguments, 0, nbytes, label)
