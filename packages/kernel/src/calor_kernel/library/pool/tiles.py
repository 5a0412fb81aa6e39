"""Disjoint windows on short rows: the rows of many windows are one block of memory.

Requirements: images whose rows are shorter than a vector still fill its lanes. Every element is
read once. The positions of the windows in a block are known at build time, so that selecting them
costs shuffles. Sums have the same order as those of windows over longer rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import int32
from calor_kernel.language import (
    In,
    Mask,
    Number,
    Out,
    Pointer,
    Size,
    constant,
    cube_position,
    helper,
    kernel,
    min,
    range,
    select,
    shuffle,
    splat,
)
from calor_kernel.library.conv.phase_planes import iota
from calor_kernel.library.pool.problem import Reduction
from calor_kernel.library.pool.rows import taken


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
    def block(self) -> int:
        """The number of elements of the windows of a vector."""
        return self.lanes * self.high * self.wide

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


@kernel
def reduce_tiles(x: In, c: Out, windows: Size, turns: Size, *, tile: Tile, by: Reduction) -> None:
    """Reduce ``turns`` vectors of windows; there are ``windows`` in all."""
    first = cube_position(0) * turns * tile.lanes
    last = min(first + turns * tile.lanes, windows)
    for at in range(first, last, tile.lanes):
        if at + tile.lanes <= windows:
            total = reduced(read(x, at, windows, tile, True), tile, by)
            c.store(at, total.to(c.dtype))
        else:
            total = reduced(read(x, at, windows, tile, False), tile, by)
            c.store(at, total.to(c.dtype), mask=rest(windows - at, tile.lanes))


@kernel
def give_tiles(
    g: In, x: In, c: Out, windows: Size, turns: Size, *, tile: Tile, by: Reduction
) -> None:
    """Write the gradients of ``turns`` vectors of windows to their extremes or all positions."""
    first = cube_position(0) * turns * tile.lanes
    last = min(first + turns * tile.lanes, windows)
    for at in range(first, last, tile.lanes):
        if at + tile.lanes <= windows:
            given = g.load(at, tile.lanes)
            made = spread(given, read(x, at, windows, tile, True), tile, by)
            c.store(at * (tile.high * tile.wide), made)
        else:
            given = g.load(at, tile.lanes, mask=rest(windows - at, tile.lanes))
            made = spread(given, read(x, at, windows, tile, False), tile, by)
            places = tile.high * tile.wide
            c.store(at * places, made, mask=rest((windows - at) * places, tile.block))


def rest(count: Number, lanes: int) -> Mask:
    """Return which of the lanes are below a count."""
    return iota(lanes) < splat(count.to(int32), lanes)


def read(x: Pointer, at: Number, windows: Number, tile: Tile, whole: bool) -> Number:
    """Return the block of the windows from ``at`` on."""
    places = tile.high * tile.wide
    if whole:
        return x.load(at * places, tile.block)
    return x.load(at * places, tile.block, mask=rest((windows - at) * places, tile.block))


def reduced(block: Number, tile: Tile, by: Reduction) -> Number:
    """Return the reduced windows of a block: rows onto each other, then along the row."""
    total: Number | None = None
    for j in range(tile.wide):
        column: Number | None = None
        for i in range(tile.high):
            value = shuffle(block, tile.place(i, j)).to(by.wide)
            column = value if column is None else taken(by.kind, column, value)
        assert column is not None
        total = column if total is None else taken(by.kind, total, column)
    assert total is not None
    return total


def spread(given: Number, block: Number, tile: Tile, by: Reduction) -> Number:
    """Return for each element of a block its window's gradient."""
    windows, numbers = tile.owners()
    made = shuffle(given, windows)
    if by.kind == "sum":
        return made
    chosen = shuffle(choice(block, tile, by), windows)
    nothing = constant(0, given.dtype, tile.block)
    return select(chosen == constant(numbers, int32), made, nothing)


@helper
def choice(block: Number, tile: Tile, by: Reduction) -> Number:
    """Return the index of each window's extreme, the first one in row-major order."""
    best = shuffle(block, tile.place(0, 0)).to(by.wide)
    number = constant(0, int32, tile.lanes)
    for place in range(1, tile.high * tile.wide):
        i, j = place // tile.wide, place % tile.wide
        value = shuffle(block, tile.place(i, j)).to(by.wide)
        if by.wide.kind == "float":
            # Not less or equal means greater or NaN; after a NaN nothing is taken.
            within = value <= best if by.kind == "max" else value >= best
            better = ~within & (best == best)
        else:
            better = value > best if by.kind == "max" else value < best
        best = select(better, value, best)
        number = select(better, constant(place, int32, tile.lanes), number)
    return number
