"""Launches of disjoint windows on short rows, for devices whose cubes are one unit."""

from __future__ import annotations

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Launch, Output, View, row_major
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.pool.problem import Reduction, Windows, working
from calor_kernel.library.pool.tiles import Tile, give_tiles, reduce_tiles

# Positions of a window, which are all shuffled; and bytes of input that a cube reads.
_PLACES, _GRAIN = (2, 4, 8), 1 << 16


def tile_of(windows: Windows, views: tuple[View, ...], kind: str, info: DeviceInfo) -> Tile | None:
    """Return the tiling of rows by windows, None if they are not disjoint or rows fill vectors."""
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
    """Return the launch that reduces disjoint windows on short rows, None for others."""
    tile = tile_of(windows, (x,), kind, info)
    if tile is None:
        return None
    c = Bound(Output(), x.dtype)
    return _launch(reduce_tiles, windows, tile, kind, "window tiles", x=operand(0, x), c=c)


def gradient_of_tiles(
    windows: Windows, g: View, x: View, kind: str, info: DeviceInfo
) -> Launch | None:
    """Return the launch of the gradients of disjoint windows on short rows, or None."""
    tile = tile_of(windows, (g, x), kind, info)
    if tile is None:
        return None
    memory = {"g": operand(0, g), "x": operand(1, x), "c": Bound(Output(), g.dtype)}
    return _launch(give_tiles, windows, tile, kind, "window gradient tiles", **memory)


def _launch(
    function: KernelFunction, windows: Windows, tile: Tile, kind: str, label: str, **memory: Bound
) -> Launch:
    dtype, g = memory["x"].dtype, memory.get("g")
    turns = max(1, _GRAIN // (tile.block * dtype.itemsize))
    # Bytes of the gradients of windows and elements beside the elements, or of the results.
    nbytes = windows.windows * dtype.itemsize if g is None else windows.windows * g.dtype.itemsize
    nbytes += windows.elements * dtype.itemsize * (1 if g is None else 2)
    return launch(
        function,
        Grid.line(-(-windows.windows // (turns * tile.lanes))),
        Effort(label, windows.elements, nbytes),
        windows=windows.windows,
        turns=turns,
        tile=tile,
        by=Reduction.of(kind, dtype),
        **memory,
    )
