"""The main loop of float32 products by FMA: each unit sums register tiles of 4 x 4.

Requirements: every access of shared memory has four elements. The tiles of the next step are copied
while those of this one are multiplied. Each sum adds its terms in the order of the K axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calor.dtypes import float32
from calor_kernel.language import (
    Index,
    Number,
    Pipeline,
    Registers,
    helper,
    pack,
    registers,
    unit_index,
)
from calor_kernel.library.gemm.pipeline import Loader, accumulate
from calor_kernel.library.gemm.simt_plan import FOUR, SimtPlan
from calor_kernel.library.gemm.simt_staging import add_step


@dataclass(frozen=True, slots=True)
class SimtTile:
    """A unit's sums of a tile, for an epilogue; ``y``, ``x``: its first row and column.

    Sums are numbered in the order of the plan's updates and carried through loops, so that
    compilers keep them in registers.
    """

    plan: SimtPlan
    sums: Registers
    y: Number
    x: Number

    def rows(self, first: Index) -> Iterator[tuple[int, Number]]:
        """Yield indices and positions of the unit's rows; ``first``: the first row of the tile."""
        for i in range(FOUR * self.plan.high):
            yield i, first + self.y + i // FOUR * (FOUR * self.plan.down) + i % FOUR

    def columns(self, first: Index, run: int) -> Iterator[tuple[int, Number]]:
        """Yield index and position of every ``run``-th column of the unit."""
        for j in range(0, FOUR * self.plan.wide, run):
            yield j, first + self.x + j // FOUR * (FOUR * self.plan.across) + j % FOUR

    def value(self, row: int, column: int, run: int) -> Number:
        """Return ``run`` sums of a row, from a column on, as a vector."""
        return pack([self.sums[self.plan.numbers[row, column + q]] for q in range(run)])


def simt_tile(plan: SimtPlan) -> SimtTile:
    """Return sums of 0 for a unit's part of a tile."""
    y, x = woven(plan)
    return SimtTile(plan, registers(len(plan.numbers), float32), y, x)


@helper
def multiply(
    tile: SimtTile, pipe: Pipeline, loaders: Sequence[Loader], begin: Index, end: Index
) -> None:
    """Add the products of the terms from ``begin`` to ``end``, which two loaders copy."""
    plan = tile.plan

    def work(at: Number) -> None:
        add_step(tile.sums, pipe.stage(0).at(tile.y), pipe.stage(1).at(tile.x), plan)

    accumulate(pipe, loaders, work, begin, end, plan.depth)


def woven(plan: SimtPlan) -> tuple[Number, Number]:
    """Return the row and column of a unit's first register tile.

    Each group of 32 units covers four rows by eight columns of register tiles, numbered down the
    columns. So its accesses of shared memory have few bank conflicts (Gray, maxas, 2014).
    """
    unit = unit_index()
    if plan.down % 4 or plan.across % 8:
        return unit // plan.across * FOUR, unit % plan.across * FOUR
    group, place = unit // 32, unit % 32
    wide = plan.across // 8
    y = group // wide * 4 + (place % 2 + place // 16 * 2)
    x = group % wide * 8 + place // 2 % 8
    return y * FOUR, x * FOUR
