"""Places on a line, as kernels see them: what taps see, and where results go.

Requirements: a place of the result is counted along the rows of the input, so that taps are shifts;
what a tap sees beyond rows is told by masks, which are numbers of 32 bits compared lane by lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import int32, uint32
from calor_kernel.language import helper, select, splat
from calor_kernel.library.conv.phase_planes import iota

# The numbers of an axis of a line.
AXIS = 10


@dataclass(frozen=True, slots=True)
class LineAxis:
    """A spatial axis on a line, whose places are ``unit`` elements apart.

    Tap k of ``taps`` sees, from place o of the result, ``o + (k * dilation + start) // stride``, in
    phase ``k % phases``, which are ``jump`` elements apart; the line has places from ``first`` on,
    and of them 0 to ``inside`` are not padding. The weights of taps are ``weight`` apart. The
    result has ``count`` places, and the line ``extent`` before the next row, ``step`` apart.
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
        """Return how many places further than the result's tap k sees."""
        return (k * self.dilation + self.start) // self.stride

    def at(self, k: Any) -> Any:
        """Return how many elements further tap k begins."""
        return k % self.phases * self.jump + (self.shift(k) - self.first) * self.unit

    def has(self, place: Any) -> Any:
        """Return which places are the result's, and not between its rows."""
        return place < splat(self.count.to(int32), place.width)

    def sees(self, place: Any, k: Any) -> Any:
        """Return for which places of the result tap k sees no padding."""
        lanes = place.width
        seen = place + splat(self.shift(k).to(int32), lanes)
        return seen.to(uint32) < splat(self.inside.to(int32).to(uint32), lanes)


@dataclass(frozen=True, slots=True)
class Line:
    """How places on a line lie in the result.

    ``count`` places matter, in rows of ``length``, ``high`` rows a plane. In the result rows are
    ``row_step`` apart, planes ``plane_step`` and elements ``element_step``. A vector meets at most
    ``pieces`` rows; 0 says that line and result are the same.
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
        """Return, for each row in a vector, where its lane 0 would be, and which lanes it has."""
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
        """Return which lanes of the vector at ``first`` are places that matter."""
        return near(first, self.count, lanes)


def near(first: Any, count: Any, lanes: int) -> Any:
    """Return which lanes of the vector at ``first`` are before ``count``."""
    return iota(lanes) < splat((count - first).to(int32), lanes)


def line_axes(numbers: Any, strides: tuple[int, int, int]) -> list[LineAxis]:
    """Return depth, height and width from the numbers of a launch."""
    return [LineAxis(strides[i], *numbers[i * AXIS : (i + 1) * AXIS]) for i in range(3)]
