"""A unit's registers of a matrix, and the row and column of each."""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language.arrays import Registers
from calor_kernel.language.builder import current
from calor_kernel.language.functions import lane_position, unit_index
from calor_kernel.language.layouts import Layout
from calor_kernel.language.matrices import MatrixShape, Side, register_places


class HeldMatrix:
    """A unit's registers of a matrix.

    ``parts`` holds the registers in vectors of equal length; register r of the layout is lane ``r %
    width`` of part ``r // width``.
    """

    __slots__ = ("parts", "shape", "side", "width")

    def __init__(self, shape: MatrixShape, side: Side, parts: Registers) -> None:
        self.shape = shape
        self.side = side
        self.parts = parts
        self.width = shape.piece(side)

    def __repr__(self) -> str:
        rows, columns = self.extent
        return f"<fragment {self.side} of {self.shape.name}: {rows} x {columns} {self.dtype}>"

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.parts.type.dtype

    @property
    def extent(self) -> tuple[int, int]:
        """The rows and columns of the whole matrix."""
        return self.shape.extent(self.side)

    @property
    def count(self) -> int:
        """The number of registers per unit."""
        return len(self.parts.items) * self.width

    def lane_place(self) -> tuple[Any, Any]:
        """Return row and column of this unit's register 0."""
        rows = self.extent[0]
        modes = self.shape.layout(self.side)[0].modes()
        places = Layout(tuple(n for n, _ in modes)).position(lane_of(self.shape))
        row: Any = 0
        column: Any = 0
        for place, (_, stride) in zip(places, modes, strict=True):
            if stride < rows:
                row = row + place * stride
            else:
                column = column + place * (stride // rows)
        return row, column

    def register_place(self, register: int) -> tuple[int, int]:
        """Return the distance of a register from register 0, in rows and columns."""
        return register_places(self.shape, self.side)[register]

    def place(self, register: int) -> tuple[Any, Any]:
        """Return row and column of one of this unit's registers."""
        (row, column), (down, right) = self.lane_place(), self.register_place(register)
        return row + down, column + right

    def places(self, part: int) -> tuple[Any, Any]:
        """Return the rows and the columns of a part's registers, as vectors."""
        builder = current()
        first = self.lane_place()
        moved = [self.register_place(part * self.width + i) for i in range(self.width)]
        if self.width == 1:
            return first[0] + moved[0][0], first[1] + moved[0][1]
        found = []
        for axis in (0, 1):
            far = builder.constant(tuple(m[axis] for m in moved), builder.index)
            found.append(builder.binary("add", first[axis], far))
        return found[0], found[1]


def lane_of(shape: MatrixShape) -> Any:
    """Return this unit's index among the units that share a matrix."""
    if shape.lanes == 1:
        return 0
    if shape.lanes == current().plane:
        return lane_position()
    return unit_index() % shape.lanes
