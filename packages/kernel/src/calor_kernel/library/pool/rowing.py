"""Sliding windows over rows as launches, for devices whose cubes are one unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Input, Launch, Output, View
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.padded_rows import SIZE, STRIDE
from calor_kernel.library.conv.row_windows import Along, Back
from calor_kernel.library.pool.problem import Slide, Windows, identity, leading, working
from calor_kernel.library.pool.rows import reduce_rows
from calor_kernel.library.pool.rows_gradients import choose_rows, gather_rows

Signature = tuple[Buffer | Scalar, ...]
_NO_SLIDE = Slide(1, 1, 1, 1, 0, 1)
# Windows of a row that are reduced together, and bytes of input that a cube reads.
_BLOCK, _GRAIN = 256, 1 << 17
# Windows along a row are known to the build; longer ones would make long kernels.
_LONGEST = 32


@dataclass(frozen=True, slots=True)
class Rows:
    """Windows in one or two axes over planes that are ``plane_step`` apart."""

    planes: int
    plane_step: int
    row_step: int
    high: Slide
    wide: Slide

    @property
    def along(self) -> Along:
        """The windows along a row."""
        return Along(self.wide.window, self.wide.stride, self.wide.dilation)


def rows_of(windows: Windows, x: View, info: DeviceInfo) -> Rows | None:
    """Return windows as rows, None where they slide in more axes or rows are no rows in memory."""
    if windows.rank > 2 or info.max_units > 1 or x.strides[-1] != 1:
        return None
    if windows.slides[-1].window > _LONGEST:
        return None
    lead = leading((x,), len(windows.lead))
    if len(lead) > 1:
        return None
    high = windows.slides[0] if windows.rank == 2 else _NO_SLIDE
    row_step = x.strides[-2] if windows.rank == 2 else 0
    return Rows(lead[0][0], lead[0][1], row_step, high, windows.slides[-1])


def _numbers(rows: Rows, turns: int) -> tuple[tuple[int, ...], tuple[Scalar, ...]]:
    """Return the numbers that say which rows and places windows see, and what they are."""
    high, across = rows.high, rows.wide
    numbers = (
        rows.planes * high.count,
        turns,
        high.count,
        high.window,
        high.stride,
        high.start,
        high.size,
        rows.plane_step,
        rows.row_step,
        across.count,
        across.start,
        across.size,
    )
    signs = (*(SIZE,) * 5, STRIDE, SIZE, STRIDE, STRIDE, SIZE, STRIDE, SIZE)
    return numbers, signs


def reduction_of_rows(windows: Windows, x: View, kind: str, info: DeviceInfo) -> Launch | None:
    """Return the launch that reduces windows row by row, None where there are no such rows."""
    rows = rows_of(windows, x, info)
    if rows is None:
        return None
    wide = working(x.dtype, kind)
    lanes = max(1, info.vector_bytes // wide.itemsize)
    high, across = rows.high, rows.wide
    count = rows.planes * high.count
    turns = max(1, _GRAIN // max(across.size * high.stride * x.dtype.itemsize, 1))
    nbytes = windows.windows * x.dtype.itemsize
    shared = info.native.get("shared_cache", 0)
    whole = across.count % lanes == 0 and x.dtype is wide
    numbers, signs = _numbers(rows, turns)
    signature: Signature = (Buffer(x.dtype, writable=False), Buffer(x.dtype), *signs)
    keywords: dict[str, Any] = {
        "along": rows.along,
        "dilation": high.dilation,
        "lanes": lanes,
        "block": _BLOCK,
        "kind": kind,
        "identity": identity(x.dtype, kind),
        "wide": wide,
        "stream": bool(shared) and nbytes > shared // 2 and whole,
    }
    build = Build(reduce_rows, signature, tuple(sorted(keywords.items())))
    nbytes += windows.elements * x.dtype.itemsize
    flops = windows.windows * windows.places
    arguments: tuple[Argument, ...] = (Input(0, x.offset), Output(0), *numbers)
    return Launch(build, (-(-count // turns), 1, 1), arguments, flops, nbytes, "window rows")


def choice_of_rows(
    windows: Windows, x: View, kind: str, numbers: DType, to: Argument, info: DeviceInfo
) -> Launch | None:
    """Return the launch that finds the windows' extremes row by row, None where none are rows."""
    rows = rows_of(windows, x, info)
    if rows is None:
        return None
    high, across = rows.high, rows.wide
    turns = max(1, _GRAIN // max(across.size * high.stride * x.dtype.itemsize, 1))
    wide = working(x.dtype, kind)
    given, signs = _numbers(rows, turns)
    keywords: dict[str, Any] = {
        "along": rows.along,
        "dilation": high.dilation,
        "lanes": max(1, info.vector_bytes // max(wide.itemsize, 4)),
        "kind": kind,
        "identity": identity(x.dtype, kind),
        "wide": wide,
    }
    signature: Signature = (Buffer(x.dtype, writable=False), Buffer(numbers), *signs)
    build = Build(choose_rows, signature, tuple(sorted(keywords.items())))
    count = rows.planes * high.count
    nbytes = windows.elements * x.dtype.itemsize + windows.windows * numbers.itemsize
    flops = windows.windows * windows.places
    arguments = (Input(1, x.offset), to, *given)
    return Launch(build, (-(-count // turns), 1, 1), arguments, flops, nbytes, "window choice rows")


def gradient_of_rows(
    windows: Windows,
    g: View,
    chosen: Argument,
    numbers: DType,
    all_places: bool,
    info: DeviceInfo,
) -> Launch | None:
    """Return the launch that gives gradients to elements row by row, None where none are rows."""
    rows = rows_of(windows, g, info)
    if rows is None or rows.high.window > _LONGEST or rows.wide.stride > _LONGEST:
        return None
    high, across = rows.high, rows.wide
    count = rows.planes * high.size
    turns = max(1, _GRAIN // max(across.size * g.dtype.itemsize, 1))
    wide = working(g.dtype, "sum")
    given = (
        count,
        turns,
        high.start,
        high.size,
        across.size,
        high.count,
        across.count,
        rows.plane_step,
        rows.row_step,
    )
    signs = (SIZE, SIZE, STRIDE, *(SIZE,) * 4, STRIDE, STRIDE)
    keywords: dict[str, Any] = {
        "back": Back(across.window, across.stride, across.dilation, across.start),
        "taps": high.window,
        "stride": high.stride,
        "dilation": high.dilation,
        "lanes": max(1, info.vector_bytes // max(wide.itemsize, 4)),
        "all_places": all_places,
        "wide": wide,
    }
    read = Buffer(g.dtype, writable=False), Buffer(numbers, writable=False)
    build = Build(gather_rows, (*read, Buffer(g.dtype), *signs), tuple(sorted(keywords.items())))
    nbytes = (windows.elements + windows.windows) * g.dtype.itemsize
    arguments = (Input(0, g.offset), chosen, Output(0), *given)
    cubes = (-(-count // turns), 1, 1)
    return Launch(build, cubes, arguments, windows.elements, nbytes, "window gradient rows")
