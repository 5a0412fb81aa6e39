"""Plans of attention by matrix instructions: tiles of planes, and their products.

Requirements: a plane, or a warp group of four, owns whole rows of scores, for any instruction. If
the accumulator layout matches operand A of the next product, these are rows of the tiles. If the
accumulator layout matches operand B, we compute Sᵀ, and they are columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor.dtypes import DType, float32
from calor_kernel import language as kl
from calor_kernel.language.matrices import MatrixShape, Side
from calor_kernel.library.gemm.mma import (
    Operands,
    Panel,
    Sums,
    add_products,
    held,
    plane_of,
    shape_of,
    store,
    sums_of,
)

# Instructions whose accumulator layout matches their operand B.
_SECOND = ("mfma", "wmma")

OwnRows = kl.SharedMatrix | Operands
"""A plane's or warp group's own rows: in shared memory, or in registers."""


@dataclass(frozen=True, slots=True)
class MmaPlan:
    """A plan: each of ``planes`` owns ``high`` tiles of rows of scores.

    A step has ``block`` rows of the other operand. ``features`` and ``values`` are the room of a
    row in shared memory, powers of two. ``held``: whether the rows of a plane stay in registers.
    ``grouped``: whether a warp group of four planes computes asynchronously; rooms are whole lines
    then. ``instruction``: the name of the shape, if it is not the default one. ``copied``: the
    elements of a copy from memory; rows are whole copies.
    """

    dtype: DType
    planes: int
    high: int
    block: int
    features: int
    values: int
    held: bool = False
    grouped: bool = False
    instruction: str = ""
    copied: int = 1

    @property
    def units(self) -> int:
        """The units of a cube."""
        return plane_of(self.instruction) * self.planes

    @property
    def rows(self) -> int:
        """The rows of a cube."""
        return self.planes * self.high * (16 if self.grouped else self.own)

    def shape(self, columns: int) -> MatrixShape:
        """Return the instruction for sums of ``columns`` columns."""
        return shape_of(self.instruction, self.dtype, columns if self.grouped else 0)

    @property
    def axis(self) -> int:
        """The axis of a tile of scores along the other operand's rows; 1 for tiles of S.

        If sums are operand B of the next product, tiles are of Sᵀ and the axis is 0.
        """
        return 0 if self.instruction.startswith(_SECOND) else 1

    @property
    def own(self) -> int:
        """The rows of a tile of scores that a plane or warp group owns."""
        return self.shape(self.block).extent("c")[1 - self.axis]

    @property
    def other(self) -> int:
        """The rows of the other operand in a tile of scores."""
        return self.shape(self.block).extent("c")[self.axis]

    @property
    def rooms(self) -> tuple[int, int]:
        """The room of a row of queries or keys, and of values."""
        return self.features, self.values

    @kl.helper
    def first_row(self) -> kl.Number:
        """Return the first of the cube's rows that this unit's plane or warp group owns."""
        if self.grouped:
            group: kl.Number = kl.group_of(self.shape(self.block)) * self.own
            return group
        return kl.plane_position() * (self.high * self.own)

    def sums(self, columns: int) -> Sums:
        """Return the sums of a plane's or warp group's rows: tiles of rows, and along each row."""
        shape = self.shape(columns)
        return sums_of(shape, self.high, columns // shape.extent("c")[self.axis])

    def places(self, tile: kl.Fragment) -> tuple[kl.Number, kl.Number]:
        """Return the offset of a unit's first element of a tile, along own and other rows."""
        row, column = tile.lane_place()
        return (row, column) if self.axis == 1 else (column, row)

    def panel(self, count: int, room: int) -> Panel:
        """Return a panel of rows."""
        return Panel(self.dtype, count, room, self.grouped)

    @property
    def numbers(self) -> kl.Tile:
        """A tile with one number for each row of a step."""
        return kl.Tile(float32, kl.Layout((self.block,)))

    def shared_bytes(self, gradient: bool) -> int:
        """Return the shared memory of a cube: its own rows, and two steps of the other's rows."""
        kept = self.rooms if gradient else self.rooms[:1]
        own = sum(self.panel(self.rows, room).nbytes for room in kept)
        steps = 2 * sum(self.panel(self.block, room).nbytes for room in self.rooms)
        numbers = 4 * float32.itemsize * self.numbers.size if gradient else 0
        return own + steps + numbers

    def own_panel(self, stage: kl.Pointer, room: int) -> kl.SharedMatrix:
        """Return own rows in shared memory as an operand."""
        return self.panel(self.rows, room).matrix(stage, turned=self.axis != 1)

    @kl.helper
    def own_operands(
        self, own: kl.Pipeline, rooms: Sequence[int], row: kl.Index
    ) -> Sequence[OwnRows]:
        """Return the own rows as operands: in registers if they stay there.

        One step of the other operand's rows has been copied ahead.
        """
        first = self.axis == 1
        panels = [self.own_panel(own.stage(i), room) for i, room in enumerate(rooms)]
        if not self.held:
            return panels
        own.wait(1)
        return [
            held(panel, self.shape(room), first, self.high, room, row)
            for panel, room in zip(panels, rooms, strict=True)
        ]

    @kl.helper
    def add_scores(
        self, sums: Sums, own: OwnRows, row: kl.Index, other: kl.Pointer, room: int
    ) -> None:
        """Add products of the own rows of a plane or warp group and all rows of a step's panel.

        ``own`` comes from ``own_operands``. Warp-group products need ``settle``.
        """
        panel = self.panel(self.block, room)
        if self.axis == 1:
            add_products(sums, own, panel.matrix(other, turned=True), room, row)
        else:
            add_products(_transposed(sums), panel.matrix(other), own, room, 0, row)

    @kl.helper
    def add_weighted(self, sums: Sums, weights: Sums, other: kl.Pointer, room: int) -> None:
        """Add the weights of a step's rows times these rows; warp groups need ``settle``."""
        shape, panel = self.shape(room), self.panel(self.block, room)
        side: Side = "a" if self.axis == 1 else "b"
        made = [
            [kl.operand_of(tiles, shape, side, first=p) for tiles in weights]
            for p in range(0, self.block, shape.k)
        ]
        if self.axis == 1:
            add_products(sums, made, panel.matrix(other), self.block)
        else:
            add_products(_transposed(sums), panel.matrix(other, turned=True), made, self.block)

    @kl.helper
    def store(
        self, sums: Sums, target: kl.Pointer, first: kl.Index, width: kl.Index, count: kl.Index,
        step: kl.Index | None = None,
    ) -> None:  # fmt: skip
        """Write ``count`` own rows of ``width`` elements from an index on, ``step`` apart."""
        row_step = width if step is None else step
        store(sums, target, first, row_step, (count, width), turned=self.axis == 0)


def _transposed(sums: Sums) -> Sums:
    return [list(tiles) for tiles in zip(*sums, strict=True)]
