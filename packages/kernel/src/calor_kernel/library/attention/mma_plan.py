"""How attention by matrix instructions shares its work: tiles of planes, and their products.

Requirements: a plane, or a group of four, owns whole rows of scores, whatever its instruction is:
where sums lie as the first operand of the next product does, these are rows of tiles, and where
they lie as the second does, tiles are turned, and they are columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, float32
from calor_kernel.language import (
    Fragment,
    Layout,
    Pipeline,
    Tile,
    group_of,
    helper,
    operand_of,
    plane_position,
)
from calor_kernel.language.matrices import MatrixShape, Side
from calor_kernel.library.gemm.mma import (
    Panel,
    Sums,
    add_products,
    held,
    plane_of,
    shape_of,
    store,
    sums_of,
)

# Instructions whose sums lie as their second operand does.
_SECOND = ("mfma", "wmma")


@dataclass(frozen=True, slots=True)
class Fragments:
    """How attention is computed: each of ``planes`` owns ``high`` tiles of rows of scores.

    A step takes ``block`` of the other operand's rows. ``features`` and ``values`` are the room of
    a row in shared memory, powers of two. ``held``: whether the rows that a plane owns stay in
    registers. ``grouped``: whether four planes compute together, beside the units; rooms are whole
    lines then. ``instruction``: its name among the shapes, where it is not that of these.
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

    @property
    def units(self) -> int:
        """The units of a cube."""
        return plane_of(self.instruction) * self.planes

    @property
    def rows(self) -> int:
        """The rows that a cube owns."""
        return self.planes * self.high * (16 if self.grouped else self.own)

    def shape(self, columns: int) -> MatrixShape:
        """Return the instruction for sums of so many columns."""
        return shape_of(self.instruction, self.dtype, columns if self.grouped else 0)

    @property
    def axis(self) -> int:
        """The axis of a tile of scores that others' rows lie along: of rows that are owned, 1.

        Where sums are the next product's second operand, tiles are turned, and columns are owned.
        """
        return 0 if self.instruction.startswith(_SECOND) else 1

    @property
    def own(self) -> int:
        """The rows of a tile of scores that are a plane's or a group's own."""
        return self.shape(self.block).extent("c")[1 - self.axis]

    @property
    def other(self) -> int:
        """The rows of the other operand that a tile of scores has."""
        return self.shape(self.block).extent("c")[self.axis]

    @helper
    def first_row(self) -> Any:
        """Return the first row that this unit's plane or group owns, of the cube's."""
        if self.grouped:
            return group_of(self.shape(self.block)) * self.own
        return plane_position() * (self.high * self.own)

    def sums(self, columns: int) -> Sums:
        """Return the sums of the rows that a plane or group owns: tiles of them, and along them."""
        shape = self.shape(columns)
        return sums_of(shape, self.high, columns // shape.extent("c")[self.axis])

    def places(self, tile: Fragment) -> tuple[Any, Any]:
        """Return how far a unit's first element of a tile is along own rows, and along others'."""
        row, column = tile.lane_place()
        return (row, column) if self.axis == 1 else (column, row)

    def panel(self, count: int, room: int) -> Panel:
        """Return a panel of rows."""
        return Panel(self.dtype, count, room, self.grouped)

    @property
    def numbers(self) -> Tile:
        """A number for each row of a step."""
        return Tile(float32, Layout((self.block,)))

    def shared_bytes(self, gradient: bool) -> int:
        """Return the shared memory of a cube: rows of its own, and two steps of the other's."""
        rooms = self.features, self.values
        own = sum(self.panel(self.rows, r).nbytes for r in (rooms if gradient else rooms[:1]))
        steps = 2 * sum(self.panel(self.block, r).nbytes for r in rooms)
        numbers = 4 * float32.itemsize * self.numbers.size if gradient else 0
        return own + steps + numbers

    @helper
    def own_operands(self, own: Pipeline, rooms: Any, row: Any) -> Any:
        """Return the rows that a plane or group owns as operands: in registers, where they stay.

        Before this one step of the other's rows is on its way.
        """
        first = self.axis == 1
        panels = [
            self.panel(self.rows, room).matrix(own.stage(i), turned=not first)
            for i, room in enumerate(rooms)
        ]
        if not self.held:
            return panels
        own.wait(1)
        return [
            held(panel, self.shape(room), first, self.high, room, row)
            for panel, room in zip(panels, rooms, strict=True)
        ]

    @helper
    def add_scores(self, sums: Sums, own: Any, row: Any, other: Any, room: int) -> None:
        """Add products of rows that a plane or group owns and all rows of a step's panel.

        ``own``: as from ``own_operands``. Groups' are to be settled.
        """
        panel = self.panel(self.block, room)
        if self.axis == 1:
            add_products(sums, own, panel.matrix(other, turned=True), room, row)
        else:
            add_products(_turned(sums), panel.matrix(other), own, room, 0, row)

    @helper
    def add_weighted(self, sums: Sums, weights: Sums, other: Any, room: int) -> None:
        """Add to sums the weights of a step's rows times these rows; groups' are to be settled."""
        shape, panel = self.shape(room), self.panel(self.block, room)
        side: Side = "a" if self.axis == 1 else "b"
        made = [
            [operand_of(tiles, shape, side, first=p) for tiles in weights]
            for p in range(0, self.block, shape.k)
        ]
        if self.axis == 1:
            add_products(sums, made, panel.matrix(other), self.block)
        else:
            add_products(_turned(sums), panel.matrix(other, turned=True), made, self.block)

    @helper
    def store(self, sums: Sums, target: Any, first: Any, width: Any, count: Any) -> None:
        """Write own rows of ``width`` elements from an index on; there are ``count`` of them."""
        store(sums, target, first, width, (count, width), turned=self.axis == 0)


def _turned(sums: Sums) -> Sums:
    return [list(tiles) for tiles in zip(*sums, strict=True)]
