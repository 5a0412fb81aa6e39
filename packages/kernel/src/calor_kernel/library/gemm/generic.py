"""The main loop for any types and strides: tiles in shared memory, sums in registers.

Requirements: a cube reads each element of the operands from global memory once a step. Two tiles
alternate: one is loaded while the other is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.gemm.lines import StridedLines


@dataclass(frozen=True, slots=True)
class GenericPlan:
    """Cubes of ``across`` by ``down`` units with ``rows`` by ``columns`` sums each.

    A unit's rows are ``down`` apart and its columns ``across`` apart, so neighbouring units read
    neighbouring elements. A step has ``depth`` terms. Sums have the type ``accumulate``.
    """

    across: int
    down: int
    rows: int
    columns: int
    depth: int
    accumulate: DType

    @property
    def height(self) -> int:
        """The rows of a tile."""
        return self.down * self.rows

    @property
    def width(self) -> int:
        """The columns of a tile."""
        return self.across * self.columns

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.across * self.down

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube: two tiles of each operand."""
        return 2 * self.depth * (self.height + self.width) * int(self.accumulate.itemsize)


@dataclass(frozen=True, slots=True)
class GenericTile:
    """A cube's tiles of both operands and a unit's sums; ``y``, ``x``: the unit's position."""

    plan: GenericPlan
    left: kl.Pointer
    right: kl.Pointer
    sums: kl.Registers
    y: kl.Number
    x: kl.Number

    def rows(self, first: kl.Index) -> Iterator[tuple[int, kl.Number]]:
        """Yield indices and positions of the unit's rows; ``first``: the first row of the tile."""
        for i in range(self.plan.rows):
            yield i, first + self.y + i * self.plan.down

    def columns(self, first: kl.Index) -> Iterator[tuple[int, kl.Number]]:
        """Yield indices and positions of the unit's columns, as ``rows`` does."""
        for j in range(self.plan.columns):
            yield j, first + self.x + j * self.plan.across


GenericLoader = Callable[[kl.Index, kl.Number], None]
"""Fills half ``side`` of an operand's tile, [depth, size], with the step that begins at a term."""


def generic_tile(plan: GenericPlan) -> GenericTile:
    """Return shared memory for two tiles of each operand, and sums of 0."""
    x, y = kl.unit_position(0), kl.unit_position(1)
    left = kl.shared(2 * plan.height * plan.depth, plan.accumulate)
    right = kl.shared(2 * plan.depth * plan.width, plan.accumulate)
    sums = kl.registers((plan.rows, plan.columns), plan.accumulate)
    return GenericTile(plan, left, right, sums, y, x)


@kl.helper
def multiply(
    tile: GenericTile, loaders: Sequence[GenericLoader], begin: kl.Index, end: kl.Index
) -> None:
    """Add the products of the terms from ``begin`` to ``end``; the loaders fill the tiles."""
    plan = tile.plan
    side = 0
    for start in range(begin, end, plan.depth):
        for load in loaders:
            load(side, start)  # type: ignore[arg-type]
        kl.barrier()
        left_at = side * (plan.height * plan.depth) + tile.y
        right_at = side * (plan.depth * plan.width) + tile.x
        add_step(tile, left_at, right_at)
        # The other half is filled next. This half is overwritten only after the barrier.
        side = 1 - side


@kl.helper
def add_step(tile: GenericTile, left_at: kl.Index, right_at: kl.Index) -> None:
    """Add a step's products to a unit's sums; the positions are of its first elements."""
    plan, acc = tile.plan, tile.sums
    for p in kl.loop_range(plan.depth):
        xs = [tile.right[right_at + p * plan.width + j * plan.across] for j in range(plan.columns)]
        for i in range(plan.rows):
            value = tile.left[left_at + p * plan.height + i * plan.down]
            for j in range(plan.columns):
                if plan.accumulate.kind == "float":
                    acc[i, j] = kl.fma(value, xs[j], acc[i, j])
                else:
                    acc[i, j] = acc[i, j] + value * xs[j]


@kl.helper
def fill_tile(
    tile: kl.Pointer,
    at: kl.Index,
    lines: StridedLines,
    begin: kl.Index,
    k: kl.Index,
    units: int,
    size: int,
    depth: int,
    along: bool,
) -> None:
    """Fill a tile [depth, size] with the terms from ``begin`` on, and with 0 beyond the operand.

    ``along``: whether the operand is contiguous along the K axis, which has ``k`` terms.
    """
    unit = kl.unit_index()
    for turn in range(-(-size * depth // units)):
        i = unit + turn * units
        if along:
            place, p = i // depth, i % depth
        else:
            place, p = i % size, i // size
        value = kl.constant(0, tile.dtype)
        if (p < depth) and (place < size):
            if (lines.first + place < lines.count) and (begin + p < k):
                value = lines.source[lines.index(lines.first + place, begin + p)].to(tile.dtype)
            tile[at + p * size + place] = value
