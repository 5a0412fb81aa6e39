"""Pixels on a line: what taps read, and which of them are output pixels.

Requirements: output pixels are counted along the rows of the input, so that taps are shifts. Masks,
compared lane by lane as 32-bit numbers, say what a tap reads beyond a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from calor.dtypes import int32, uint32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.conv.vector_tiles import below, iota


@dataclass(frozen=True, slots=True)
class AxisNumbers(Generic[N]):
    """A spatial axis on a line, whose pixels are ``unit`` elements apart.

    For output pixel o, tap k of ``taps`` reads position ``o + (k * dilation + start) // stride`` of
    phase ``k % phases``. Phases are ``jump`` elements apart. The line has positions from ``first``
    on; 0 to ``inside`` are not padding. The weights of taps are ``weight`` apart. The result has
    ``count`` pixels.
    """

    taps: kl.SizeOf[N]
    phases: kl.SizeOf[N]
    jump: kl.SizeOf[N]
    dilation: kl.SizeOf[N]
    start: kl.StrideOf[N]
    first: kl.StrideOf[N]
    unit: kl.StrideOf[N]
    inside: kl.SizeOf[N]
    weight: kl.StrideOf[N]
    count: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class LineNumbers(Generic[N]):
    """A line: its first ``count`` positions, in rows of ``length``, ``rows`` of them in a plane.

    ``axes``: depth, height and width.
    """

    count: kl.SizeOf[N]
    length: kl.SizeOf[N]
    rows: kl.SizeOf[N]
    axes: tuple[AxisNumbers[N], ...]


@dataclass(frozen=True, slots=True)
class LineAxis:
    """A spatial axis on a line and its stride, known at build time."""

    of: AxisNumbers[kl.Number]
    stride: int

    def shift(self, k: kl.Index) -> kl.Number:
        """Return the shift of tap k from the output pixel, in pixels."""
        return (k * self.of.dilation + self.of.start) // self.stride

    def at(self, k: kl.Index) -> kl.Number:
        """Return the shift of tap k in elements."""
        return k % self.of.phases * self.of.jump + (self.shift(k) - self.of.first) * self.of.unit

    def has(self, place: kl.Number) -> kl.Mask:
        """Return which positions are output pixels, and not between rows."""
        return place < kl.splat(self.of.count.to(int32), place.width)

    def sees(self, place: kl.Number, k: kl.Index) -> kl.Mask:
        """Return the output pixels for which tap k reads no padding."""
        lanes = place.width
        seen = place + kl.splat(self.shift(k).to(int32), lanes)
        return seen.to(uint32) < kl.splat(self.of.inside.to(int32).to(uint32), lanes)


@dataclass(frozen=True, slots=True)
class Line:
    """A line and the strides of its axes."""

    of: LineNumbers[kl.Number]
    strides: tuple[int, int, int]

    @property
    def axes(self) -> tuple[LineAxis, LineAxis, LineAxis]:
        """Depth, height and width."""
        deep, high, wide = map(LineAxis, self.of.axes, self.strides)
        return deep, high, wide

    @property
    def taps(self) -> kl.Number:
        """The number of taps of a window."""
        deep, high, wide = self.of.axes
        return deep.taps * high.taps * wide.taps

    def shift(self, kd: kl.Index, kh: kl.Index, kw: kl.Index) -> kl.Number:
        """Return the shift of a tap in elements."""
        deep, high, wide = self.axes
        return deep.at(kd) + high.at(kh) + wide.at(kw)

    def near(self, first: kl.Number, lanes: int) -> kl.Mask:
        """Return which lanes of the vector at ``first`` are positions of the line."""
        return below(self.of.count - first, lanes)

    @kl.helper
    def taps_seen(self, first: kl.Number, last: kl.Number) -> tuple[kl.Number, kl.Number]:
        """Return the first tap that sees no padding alone, and the one behind the last.

        ``first`` and ``last``: the pixels of a range. The line is one plane.
        """
        _, high, wide = self.axes
        top, bottom = first // self.of.length, last // self.of.length
        begin, end = top * 0, top * 0
        for k in kl.range(high.of.taps):
            begin += kl.select(bottom + high.shift(k) < 0, 1, 0)
            end += kl.select(top + high.shift(k) < high.of.inside, 1, 0)
        return begin * wide.of.taps, end * wide.of.taps

    @kl.helper
    def pixels_seen(
        self, first: kl.Number, last: kl.Number, lanes: int
    ) -> tuple[kl.Number, kl.Number]:
        """Return the pixels of the rows that some of the taps from first to last see, in vectors.

        The line is one plane.
        """
        _, high, wide = self.axes
        lowest, highest = high.shift(first // wide.of.taps), high.shift(last // wide.of.taps)
        top = kl.max(-highest, 0)
        bottom = kl.max(kl.min(high.of.inside - lowest, high.of.count), top)
        begin = kl.min(top * self.of.length, self.of.count) // lanes * lanes
        return begin, kl.min(bottom * self.of.length, self.of.count)

    def places(
        self, first: kl.Number, lanes: int, wraps: int
    ) -> tuple[kl.Number, kl.Number, kl.Number]:
        """Return plane, row and column of each lane of the vector that begins at ``first``."""
        row, start = first // self.of.length, first % self.of.length
        column = start.to(int32) + iota(lanes)
        y = kl.splat((row % self.of.rows).to(int32), lanes)
        plane = kl.splat((row // self.of.rows).to(int32), lanes)
        length, rows = (
            kl.splat(self.of.length.to(int32), lanes),
            kl.splat(self.of.rows.to(int32), lanes),
        )
        for _ in kl.range(wraps):
            over = column >= length
            column = kl.select(over, column - length, column)
            y = kl.select(over, y + 1, y)
            over = y >= rows
            y = kl.select(over, y - rows, y)
            plane = kl.select(over, plane + 1, plane)
        return plane, y, column

    @kl.helper
    def list_masks(
        self,
        inside: kl.Mask,
        places: tuple[kl.Number, kl.Number, kl.Number],
        seen: kl.Pointer,
        at: kl.Index,
        step: kl.Index,
    ) -> None:
        """Write, for each tap, which of a vector's pixels are ``inside`` and read no padding.

        The masks of taps are ``step`` apart, from ``at`` on.
        """
        plane, y, column = places
        deep, high, wide = self.axes
        for kd in kl.range(deep.of.taps):
            below = inside & deep.sees(plane, kd)
            for kh in kl.range(high.of.taps):
                beside = below & high.sees(y, kh)
                for kw in kl.range(wide.of.taps):
                    seen.store(at, beside & wide.sees(column, kw))
                    at += step
