"""Launches of sliding windows over rows, for devices whose cubes are one unit."""

from __future__ import annotations

from dataclasses import dataclass

from calor_kernel.contract.choices import exceeds, hinted
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Launch, Output, View
from calor_kernel.library.conv.row_windows import Along, Back, Extent, GivenRows, SeenRows
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.pool.distant_windows import choose_few_windows, reduce_few_windows
from calor_kernel.library.pool.long_rows import choose_long_rows, reduce_long_rows
from calor_kernel.library.pool.problem import Windows, leading, reduction
from calor_kernel.library.pool.rows import choose_rows, gather_rows, reduce_rows

_NO_SLIDE = Slide(1, 1, 1, 1, 0, 1)
# Bytes of input that a cube reads.
_GRAIN = 1 << 17
# Maximum of a window's length along a row that is known at build time; longer kernels compile
# slowly.
_LONGEST = 32
# Elements in which blocks of longer windows are reduced, the least and the most, and the largest
# stride of such windows.
_ROOMS, _STRIDE = (1 << 11, 1 << 14), 16


@dataclass(frozen=True, slots=True)
class Rows:
    """Windows in one or two axes over planes that are ``plane_step`` apart."""

    planes: int
    plane_step: int
    row_step: int
    high: Slide[int]
    wide: Slide[int]


def rows_of(windows: Windows, x: View, info: DeviceInfo) -> Rows | None:
    """Return windows as rows, None if they slide along more axes or rows are not dense."""
    if windows.rank > 2 or info.max_units > 1 or x.strides[-1] != 1:
        return None
    lead = leading((x,), len(windows.lead))
    if len(lead) > 1:
        return None
    high = windows.slides[0] if windows.rank == 2 else _NO_SLIDE
    row_step = x.strides[-2] if windows.rank == 2 else 0
    return Rows(lead[0].size, lead[0].strides[0], row_step, high, windows.slides[-1])


def _seen(rows: Rows, x: View) -> tuple[dict[str, object], Grid]:
    """Return the arguments of the windows of rows, and the grid of cubes."""
    high, wide = rows.high, rows.wide
    turns = max(1, _GRAIN // max(wide.size * high.stride * x.dtype.itemsize, 1))
    count = rows.planes * high.count
    given = {
        "over": SeenRows(count, turns, high.window, high.stride, _extent(high), _extent(wide)),
        "plane_step": rows.plane_step,
        "row_step": rows.row_step,
        "dilation": high.dilation,
    }
    return given, Grid.line(-(-count // turns))


def _along(wide: Slide[int]) -> dict[str, object]:
    """Return the arguments of windows along a row whose vectors are of neighbouring windows."""
    if wide.window > _LONGEST:
        return {"taps": wide.window, "gap": wide.dilation, "stride": wide.stride}
    return {"along": Along(wide.window, wide.stride, wide.dilation)}


def _few(rows: Rows, lanes: int, others: int) -> dict[str, object] | None:
    """Return the arguments of few windows along rows; None unless these are fewer vectors.

    ``others``: vectors of a row if neighbouring windows are lanes.
    """
    wide = rows.wide
    if wide.dilation != 1 or not exceeds(others, wide.count * -(-wide.window // lanes)):
        return None
    return {"taps": wide.window, "stride": wide.stride}


def _extent(slide: Slide[int]) -> Extent[int]:
    return Extent(slide.start, slide.count, slide.size)


def reduction_of_rows(windows: Windows, x: View, kind: str, info: DeviceInfo) -> Launch | None:
    """Return the launch that reduces windows row by row, None if there are no such rows."""
    rows = rows_of(windows, x, info)
    if rows is None:
        return None
    by = reduction(kind, x.dtype)
    lanes = max(1, info.vector_bytes // by.dtype.itemsize)
    nbytes = windows.windows * x.dtype.itemsize
    shared = info.native.get("shared_cache", 0)
    long = bool(shared) and x.dtype is by.dtype and exceeds(nbytes, shared // 2)
    stream = long and rows.wide.count % lanes == 0
    nbytes += windows.elements * x.dtype.itemsize
    given, grid = _seen(rows, x)
    given |= {"x": operand(0, x), "c": Bound(Output(), x.dtype), "lanes": lanes, "by": by}
    wide = rows.wide
    few = _few(rows, lanes, -(-wide.count // lanes) * wide.stride + wide.window // lanes)
    if few is not None:
        effort = Effort("few windows", windows.windows * windows.places, nbytes)
        return launch(reduce_few_windows, grid, effort, **few, **given)
    seen = _along(wide) | given
    work = windows.windows * windows.places
    if rows.wide.window <= _LONGEST:
        effort = Effort("window rows", work, nbytes)
        return launch(reduce_rows, grid, effort, stream=stream, **seen)
    room = _room(rows.wide, lanes, by.dtype.itemsize)
    if room is None:
        return None
    extent = (rows.wide.window - 1) * rows.wide.dilation + 2 * lanes
    return launch(
        reduce_long_rows,
        grid,
        Effort("window long rows", work, nbytes),
        bits=int(rows.wide.window).bit_length(),
        block=(room - extent) // (lanes * rows.wide.stride) * lanes,
        room=room,
        **seen,
    )


def _room(wide: Slide[int], lanes: int, itemsize: int) -> int | None:
    """Return the elements for blocks of long windows, None if they span too many or lie apart."""
    extent = (wide.window - 1) * wide.dilation + 2 * lanes
    least, most = (n * 4 // max(itemsize, 4) for n in _ROOMS)
    wanted = extent + min(max(2 * extent, least // 2), hinted(wide.count) * wide.stride + lanes)
    room = min(max(1 << int(wanted).bit_length(), least), most)
    fits = extent + lanes * wide.stride <= room and wide.stride <= _STRIDE
    return room if fits else None


def choice_of_rows(
    windows: Windows, x: View, kind: str, chosen: Bound, info: DeviceInfo
) -> Launch | None:
    """Return the launch that finds the windows' extremes row by row, None without rows."""
    rows = rows_of(windows, x, info)
    if rows is None:
        return None
    by = reduction(kind, x.dtype)
    lanes = max(1, info.vector_bytes // max(by.dtype.itemsize, 4))
    wide = rows.wide
    given, grid = _seen(rows, x)
    given |= {"x": operand(1, x), "chosen": chosen, "lanes": lanes, "by": by}
    nbytes = windows.elements * x.dtype.itemsize + windows.windows * chosen.dtype.itemsize
    work = windows.windows * windows.places
    few = _few(rows, lanes, -(-wide.count // lanes) * wide.window)
    if few is not None:
        effort = Effort("few windows' choice", work, nbytes)
        return launch(choose_few_windows, grid, effort, **few, **given)
    long = wide.window > _LONGEST
    if long and exceeds(lanes, 2 * wide.count):
        return None
    effort = Effort("window choice rows", work, nbytes)
    kernel = choose_long_rows if long else choose_rows
    return launch(kernel, grid, effort, **_along(wide), **given)


def gradient_of_rows(
    windows: Windows, g: View, chosen: Bound, all_positions: bool, info: DeviceInfo
) -> Launch | None:
    """Return the launch of the elements' gradients row by row, None without rows."""
    rows = rows_of(windows, g, info)
    if rows is None:
        return None
    if max(rows.high.window, rows.wide.window, rows.wide.stride) > _LONGEST:
        return None
    high, across = rows.high, rows.wide
    count = rows.planes * high.size
    turns = max(1, _GRAIN // max(across.size * g.dtype.itemsize, 1))
    wide = reduction("sum", g.dtype).dtype
    nbytes = (windows.elements + windows.windows) * g.dtype.itemsize
    return launch(
        gather_rows,
        Grid.line(-(-count // turns)),
        Effort("window gradient rows", windows.elements, nbytes),
        g=operand(0, g),
        chosen=chosen,
        c=Bound(Output(), g.dtype),
        over=GivenRows(count, turns, _extent(high), across.size, across.count),
        plane_step=rows.plane_step,
        row_step=rows.row_step,
        back=Back(across.window, across.stride, across.dilation, across.start),
        down=Along(high.window, high.stride, high.dilation),
        lanes=max(1, info.vector_bytes // max(wide.itemsize, 4)),
        all_positions=all_positions,
        wide=wide,
    )
