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
from calor_kernel.language import (
    In,
    Mask,
    Number,
    Out,
    Size,
    constant,
    cube_position,
    helper,
    kernel,
    min,
    range,
    select,
    shuffle,
)
from calor_kernel.library.conv.vector_tiles import below
from calor_kernel.library.pool.problem import Reduction


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

    def windows(self, left: Number | None) -> Mask | None:
        """Return which windows of a vector exist, None for all."""
        return None if left is None else below(left, self.lanes)

    def elements(self, left: Number | None) -> Mask | None:
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


@kernel
def reduce_tiles(x: In, c: Out, windows: Size, turns: Size, *, tile: Tile, by: Reduction) -> None:
    """Reduce ``turns`` vectors of windows; there are ``windows`` in all."""

    def reduce_block(at: Number, left: Number | None) -> None:
        total = reduced(x.load(at * tile.places, tile.block, mask=tile.elements(left)), tile, by)
        c.store(at, total.to(c.dtype), mask=tile.windows(left))

    each_block(windows, turns, tile.lanes, reduce_block)


@kernel
def give_tiles(
    g: In, x: In, c: Out, windows: Size, turns: Size, *, tile: Tile, by: Reduction
) -> None:
    """Write the gradients of ``turns`` vectors of windows to their extremes or all positions."""

    def give_block(at: Number, left: Number | None) -> None:
        given = g.load(at, tile.lanes, mask=tile.windows(left))
        block = x.load(at * tile.places, tile.block, mask=tile.elements(left))
        c.store(at * tile.places, spread(given, block, tile, by), mask=tile.elements(left))

    each_block(windows, turns, tile.lanes, give_block)


@helper
def each_block(
    windows: Number, turns: Number, lanes: int, body: Callable[[Number, Number | None], None]
) -> None:
    """Call ``body`` for each vector of a cube's windows, with how many there are if not whole."""
    first = cube_position(0) * turns * lanes
    last = min(first + turns * lanes, windows)
    for at in range(first, last, lanes):
        if at + lanes <= windows:
            body(at, None)
        else:
            body(at, windows - at)


def reduced(block: Number, tile: Tile, by: Reduction) -> Number:
    """Return the reduced windows of a block: rows onto each other, then along the row."""

    def column(j: int) -> Number:
        rows = (shuffle(block, tile.place(i, j)).to(by.wide) for i in range(tile.high))
        return reduce(by.take, rows)

    return reduce(by.take, map(column, range(tile.wide)))


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
    for place in range(1, tile.places):
        i, j = place // tile.wide, place % tile.wide
        value = shuffle(block, tile.place(i, j)).to(by.wide)
        better = by.improves(value, best)
        best = select(better, value, best)
        number = select(better, constant(place, int32, tile.lanes), number)
    return number
