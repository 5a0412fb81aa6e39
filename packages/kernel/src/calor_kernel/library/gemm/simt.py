"""The main loop of float32 products by FMA: each unit sums register tiles of 4 x 4.

Requirements: every access of shared memory is of four elements; the next step's tiles are copied
while this one's are multiplied; each sum is formed in the order of the summed axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from calor.dtypes import float32
from calor_kernel.language import Pipeline, Registers, helper, pack, registers, unit_index
from calor_kernel.library.gemm.pipeline import Loader, accumulate
from calor_kernel.library.gemm.simt_plan import FOUR, Patches
from calor_kernel.library.gemm.simt_staging import add_step


@dataclass(frozen=True, slots=True)
class SimtTile:
    """A unit's sums of a tile, for an epilogue; ``y``, ``x``: the first of its rows and columns.

    Numbered as the plan adds to them, sums are carried through loops, and compilers keep them in
    registers.
    """

    plan: Patches
    sums: Registers
    y: Any
    x: Any

    def rows(self, first: Any) -> Iterator[tuple[int, Any]]:
        """Yield the numbers of the unit's rows and where they are; ``first``: the tile's first."""
        for i in range(FOUR * self.plan.high):
            yield i, first + self.y + i // FOUR * (FOUR * self.plan.down) + i % FOUR

    def columns(self, first: Any, run: int) -> Iterator[tuple[int, Any]]:
        """Yield every ``run``-th of the unit's columns as ``rows`` does."""
        for j in range(0, FOUR * self.plan.wide, run):
            yield j, first + self.x + j // FOUR * (FOUR * self.plan.across) + j % FOUR

    def value(self, row: int, column: int, run: int) -> Any:
        """Return ``run`` sums of a row from a column on, as a vector."""
        return pack([self.sums[self.plan.numbers[row, column + q]] for q in range(run)])


def simt_tile(plan: Patches) -> SimtTile:
    """Return a unit's sums of a tile, which are 0."""
    y, x = woven(plan)
    return SimtTile(plan, registers(len(plan.numbers), float32), y, x)


@helper
def multiply(
    tile: SimtTile, pipe: Pipeline, loaders: Sequence[Loader], begin: Any, end: Any
) -> None:
    """Add the products of the terms from ``begin`` to ``end``, which two loaders copy."""
    plan = tile.plan

    def work(at: Any) -> None:
        add_step(tile.sums, pipe.stage(0).at(tile.y), pipe.stage(1).at(tile.x), plan)

    accumulate(pipe, loaders, work, begin, end, plan.depth)


def woven(plan: Patches) -> tuple[Any, Any]:
    """Return the row and column of a unit's first patch.

    Units that go together are four down by eight across, neighbours below each other, so that
    accesses of shared memory by all of them meet few banks twice (Gray, maxas, 2014).
    """
    unit = unit_index()
    if plan.down % 4 or plan.across % 8:
        return unit // plan.across * FOUR, unit % plan.across * FOUR
    group, place = unit // 32, unit % 32
    wide = plan.across // 8
    y = group // wide * 4 + (place % 2 + place // 16 * 2)
    x = group % wide * 8 + place // 2 % 8
    return y * FOUR, x * FOUR
