"""Windows that tile short rows as launches, for devices whose cubes are one unit."""

from __future__ import annotations

from math import prod

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Input, Launch, Output, View, row_major
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.conv.padded_rows import SIZE
from calor_kernel.library.pool.problem import Windows, working
from calor_kernel.library.pool.tiles import Tile, give_tiles, reduce_tiles

# Places of a window, all of which are shuffles; and bytes of input that a cube reads.
_PLACES, _GRAIN = (2, 4, 8), 1 << 16


def tile_of(windows: Windows, views: tuple[View, ...], kind: str, info: DeviceInfo) -> Tile | None:
    """Return how windows tile their rows, None where they do not, or rows fill vectors."""
    if windows.rank > 2 or info.max_units > 1:
        return None
    if any(view.strides != row_major(view.shape) for view in views):
        return None
    for slide in windows.slides:
        if slide.start or slide.size != slide.count * slide.window:
            return None
        if slide.stride != slide.window or (slide.dilation > 1 and slide.window > 1):
            return None
    lanes = max(1, info.vector_bytes // working(views[-1].dtype, kind).itemsize)
    row, places = windows.slides[-1].count, windows.places
    if places not in _PLACES or not row or lanes % row or lanes < 2:
        return None
    high = windows.slides[0].window if windows.rank == 2 else 1
    return Tile(row, high, windows.slides[-1].window, lanes)


def reduction_of_tiles(windows: Windows, x: View, kind: str, info: DeviceInfo) -> Launch | None:
    """Return the launch that reduces windows that tile short rows, None where they do not."""
    tile = tile_of(windows, (x,), kind, info)
    if tile is None:
        return None
    return _launch(reduce_tiles, windows, tile, (x,), kind, (Input(0, x.offset),), "window tiles")


def gradient_of_tiles(
    windows: Windows, g: View, x: View, kind: str, info: DeviceInfo
) -> Launch | None:
    """Return the launch that gives gradients to windows that tile short rows, or None."""
    tile = tile_of(windows, (g, x), kind, info)
    if tile is None:
        return None
    given = (Input(0, g.offset), Input(1, x.offset))
    return _launch(give_tiles, windows, tile, (g, x), kind, given, "window gradient tiles")


def _launch(
    function: KernelFunction,
    windows: Windows,
    tile: Tile,
    views: tuple[View, ...],
    kind: str,
    given: tuple[Argument, ...],
    label: str,
) -> Launch:
    x = views[-1]
    turns = max(1, _GRAIN // (tile.block * x.dtype.itemsize))
    signature: tuple[Buffer | Scalar, ...] = (
        *(Buffer(view.dtype, writable=False) for view in views),
        Buffer(views[0].dtype),
        *(SIZE, SIZE),
    )
    keywords = {"tile": tile, "kind": kind, "wide": working(x.dtype, kind)}
    build = Build(function, signature, tuple(sorted(keywords.items())))
    cubes = (-(-windows.windows // (turns * tile.lanes)), 1, 1)
    arguments = (*given, Output(0), windows.windows, turns)
    nbytes = sum(prod(view.shape) * view.dtype.itemsize for view in views)
    nbytes += (windows.windows if len(views) == 1 else windows.elements) * x.dtype.itemsize
    return Launch(build, cubes, arguments, windows.elements, nbytes, label)
