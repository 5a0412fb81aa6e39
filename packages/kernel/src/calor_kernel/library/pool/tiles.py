"""Disjoint windows on short rows: the rows of many windows are one block of memory.

Requirements: images whose rows are shorter than a vector still fill its lanes. Every element is
read once. The positions of the windows in a block are known at build time, so that selecting them
costs shuffles. Sums have the same order as those of windows over longer rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Launch, Output, View, row_major
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.conv.vector_tiles import below
from calor_kernel.library.pool.problem import Windows, reduction
from calor_kernel.library.reduce.reduction_ops import ReductionOp


@dataclass(frozen=True, slots=True)
class Tile:
    """Windows of ``high`` by ``wide`` positions; ``row`` of them are side by side.

    ``lanes`` windows, whole rows of them, are a block of ``lanes * high * wide`` elements.
    """

    row: int
    high: int
    wide: int
    lanes: int

    @property
    def places(self) -> int:
        """The number of positions of a window."""
        return self.high * self.wide

    @property
    def block(self) -> int:
        """The number of elements of the windows of a vector."""
        return self.lanes * self.places

    def windows(self, left: kl.Number | None) -> kl.Mask | None:
        """Return which windows of a vector exist, None for all."""
        return None if left is None else below(left, self.lanes)

    def elements(self, left: kl.Number | None) -> kl.Mask | None:
        """Return which elements of a vector's windows exist, None for all."""
        return None if left is None else below(left * self.places, self.block)

    def place(self, i: int, j: int) -> tuple[int, ...]:
        """Return the offset of position (i, j) of each window in the block."""
        across = self.row * self.wide
        return tuple(
            (lane // self.row * self.high + i) * across + lane % self.row * self.wide + j
            for lane in range(self.lanes)
        )

    def owners(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return for each element of the block its window, and its index in the window."""
        across = self.row * self.wide
        windows, numbers = [], []
        for element in range(self.block):
            line, column = divmod(element, across)
            windows.append(line // self.high * self.row + column // self.wide)
            numbers.append(line % self.high * self.wide + column % self.wide)
        return tuple(windows), tuple(numbers)


@kl.kernel
def reduce_tiles(
    x: kl.In, c: kl.Out, windows: kl.Size, turns: kl.Size, *, tile: Tile, by: ReductionOp
) -> None:
    """Reduce ``turns`` vectors of windows; there are ``windows`` in all."""

    def reduce_block(at: kl.Number, left: kl.Number | None) -> None:
        total = reduced(x.load(at * tile.places, tile.block, mask=tile.elements(left)), tile, by)
        c.store(at, total.to(c.dtype), mask=tile.windows(left))

    each_block(windows, turns, tile.lanes, reduce_block)


@kl.kernel
def give_tiles(
    g: kl.In, x: kl.In, c: kl.Out, windows: kl.Size, turns: kl.Size, *, tile: Tile, by: ReductionOp
) -> None:
    """Write the gradients of ``turns`` vectors of windows to their extremes or all positions."""

    def give_block(at: kl.Number, left: kl.Number | None) -> None:
        given = g.load(at, tile.lanes, mask=tile.windows(left))
        block = x.load(at * tile.places, tile.block, mask=tile.elements(left))
        c.store(at * tile.places, spread(given, block, tile, by), mask=tile.elements(left))

    each_block(windows, turns, tile.lanes, give_block)


@kl.helper
def each_block(
    windows: kl.Number,
    turns: kl.Number,
    lanes: int,
    body: Callable[[kl.Number, kl.Number | None], None],
) -> None:
    """Call ``body`` for each vector of a cube's windows, with how many there are if not whole."""
    first = kl.cube_position(0) * turns * lanes
    last = kl.min(first + turns * lanes, windows)
    for at in kl.range(first, last, lanes):
        if at + lanes <= windows:
            body(at, None)
        else:
            body(at, windows - at)


def reduced(block: kl.Number, tile: Tile, by: ReductionOp) -> kl.Number:
    """Return the reduced windows of a block: rows onto each other, then along the row."""

    def column(j: int) -> kl.Number:
        rows = (kl.shuffle(block, tile.place(i, j)).to(by.dtype) for i in kl.range(tile.high))
        return reduce(by.combine, rows)

    return reduce(by.combine, map(column, kl.range(tile.wide)))


def spread(given: kl.Number, block: kl.Number, tile: Tile, by: ReductionOp) -> kl.Number:
    """Return for each element of a block its window's gradient."""
    windows, numbers = tile.owners()
    made = kl.shuffle(given, windows)
    if by.kind == "sum":
        return made
    chosen = kl.shuffle(choice(block, tile, by), windows)
    nothing = kl.constant(0, given.dtype, tile.block)
    return kl.select(chosen == kl.constant(numbers, int32), made, nothing)


@kl.helper
def choice(block: kl.Number, tile: Tile, by: ReductionOp) -> kl.Number:
    """Return the index of each window's extreme, the first one in row-major order."""
    best = kl.shuffle(block, tile.place(0, 0)).to(by.dtype)
    number = kl.constant(0, int32, tile.lanes)
    for place in kl.range(1, tile.places):
        i, j = place // tile.wide, place % tile.wide
        value = kl.shuffle(block, tile.place(i, j)).to(by.dtype)
        better = by.beats(value, best)
        best = kl.select(better, value, best)
        number = kl.select(better, kl.constant(place, int32, tile.lanes), number)
    return number


# Positions of a window, which are all shuffled; and bytes of input that a cube reads.
_PLACES, _GRAIN = (2, 4, 8), 1 << 16


def tile_of(windows: Windows, views: tuple[View, ...], kind: str, info: DeviceInfo) -> Tile | None:
    """Return the tiling of rows by windows, None if they are not disjoint or rows fill vectors."""
    if windows.rank > 2 or info.max_units > 1:
        return None
    if any(view.strides != row_major(view.shape) for view in views):
        return None
    lanes = max(1, info.vector_bytes // reduction(kind, views[-1].dtype).dtype.itemsize)
    row, places = windows.slides[-1].count, windows.places
    if row > lanes:
        return None
    for slide in windows.slides:
        if slide.start or slide.size != slide.count * slide.window:
            return None
        if slide.stride != slide.window or (slide.dilation > 1 and slide.window > 1):
            return None
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
        by=reduction(kind, dtype),
        **memory,
    )
