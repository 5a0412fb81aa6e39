"""Pixels on a line: what taps read, and where results go.

Requirements: output pixels are counted along the rows of the input, so that taps are shifts. Masks,
compared lane by lane as 32-bit numbers, say what a tap reads beyond a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import int32, uint32
from calor_kernel.language import helper, select, splat
from calor_kernel.library.conv.phase_planes import iota

# The count of numbers of an axis of a line.
AXIS = 10


@dataclass(frozen=True, slots=True)
class LineAxis:
    """A spatial axis on a line, whose pixels are ``unit`` elements apart.

    For output pixel o, tap k of ``taps`` reads position ``o + (k * dilation + start) // stride`` of
    phase ``k % phases``. Phases are ``jump`` elements apart. The line has positions from ``first``
    on; 0 to ``inside`` are not padding. The weights of taps are ``weight`` apart. The result has
    ``count`` pixels, ``step`` apart; rows of the line are ``extent`` apart.
    """

    stride: int
    taps: Any
    phases: Any
    jump: Any
    dilation: Any
    start: Any
    first: Any
    unit: Any
    inside: Any
    weight: Any
    count: Any

    def shift(self, k: Any) -> Any:
        """Return the shift of tap k from the output pixel, in pixels."""
        return (k * self.dilation + self.start) // self.stride

    def at(self, k: Any) -> Any:
        """Return the shift of tap k in elements."""
        return k % self.phases * self.jump + (self.shift(k) - self.first) * self.unit

    def has(self, place: Any) -> Any:
        """Return which positions are output pixels, and not between rows."""
        return place < splat(self.count.to(int32), place.width)

    def sees(self, place: Any, k: Any) -> Any:
        """Return the output pixels for which tap k reads no padding."""
        lanes = place.width
        seen = place + splat(self.shift(k).to(int32), lanes)
        return seen.to(uint32) < splat(self.inside.to(int32).to(uint32), lanes)


@dataclass(frozen=True, slots=True)
class Line:
    """The layout of a line's pixels in the result.

    The first ``count`` positions matter, in rows of ``length``, ``high`` rows a plane. In the
    result rows are ``row_step`` apart, planes ``plane_step`` and elements ``element_step``. A
    vector spans at most ``pieces`` rows; 0 says that line and result have the same layout.
    """

    deep: LineAxis
    high: LineAxis
    wide: LineAxis
    count: Any
    length: Any
    rows: Any
    plane_step: Any
    row_step: Any
    element_step: int
    pieces: int

    def places(self, first: Any, lanes: int, wraps: int) -> tuple[Any, Any, Any]:
        """Return plane, row and column of each lane of the vector that begins at ``first``."""
        row, column = first // self.length, first % self.length
        plane, y = row // self.rows, row % self.rows
        column = column.to(int32) + iota(lanes)
        y, plane = splat(y.to(int32), lanes), splat(plane.to(int32), lanes)
        length, rows = splat(self.length.to(int32), lanes), splat(self.rows.to(int32), lanes)
        for _ in range(wraps):
            over = column >= length
            column = select(over, column - length, column)
            y = select(over, y + 1, y)
            over = y >= rows
            y = select(over, y - rows, y)
            plane = select(over, plane + 1, plane)
        return plane, y, column

    @helper
    def targets(self, first: Any, lanes: int) -> list[tuple[Any, Any]]:
        """Return, for each row in a vector, the position of its lane 0, and its lanes."""
        lane = iota(lanes)
        near = self.near(first, lanes)
        if self.pieces == 0:
            return [(first * self.element_step, near)]
        row, column = first // self.length, first % self.length
        made = []
        for _ in range(self.pieces):
            place = column.to(int32) + lane
            plane, y = row // self.rows, row % self.rows
            at = plane * self.plane_step + y * self.row_step + column * self.element_step
            width = splat(self.wide.count.to(int32), lanes)
            inside = (place >= 0) & (place < width) & splat(y < self.high.count, lanes)
            made.append((at, inside & near))
            row, column = row + 1, column - self.length
        return made

    def store(self, c: Any, at: Any, value: Any, targets: list[tuple[Any, Any]]) -> None:
        """Write a vector of the result."""
        value = value.to(c.dtype)
        for place, inside in targets:
            if self.element_step == 1:
                c.store(at + place, value, mask=inside)
            else:
                lane = iota(value.width).to(place.dtype)
                c.store(at + place + lane * self.element_step, value, mask=inside)

    def near(self, first: Any, lanes: int) -> Any:
        """Return which lanes of the vector at ``first`` are positions that matter."""
        return near(first, self.count, lanes)


def near(first: Any, count: Any, lanes: int) -> Any:
    """Return which lanes of the vector at ``first`` are before ``count``."""
    return iota(lanes) < splat((count - first).to(int32), lanes)


def line_axes(numbers: Any, strides: tuple[int, int, int]) -> list[LineAxis]:
    """Return depth, height and width from the numbers of a launch."""
    return [LineAxis(strides[i], *numbers[i * AXIS : (i + 1) * AXIS]) for i in range(3)]
