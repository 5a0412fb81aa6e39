"""Images as lines, divided by stride into phases.

Requirements: on a line each tap of a window is a shift, whatever stride and dilation are, so
nothing is copied per tap. Rows are copied by whole vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.conv.row_windows import write_phases
from calor_kernel.library.conv.vector_tiles import below, iota, within

Strides3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PlaneAxis(Generic[N]):
    """An axis of a copied image, and of the input whose elements are ``step`` apart.

    The copy has ``phases`` of ``extent`` positions each, from ``first`` on. Taps are ``dilation``
    apart; the first one reads the input position ``start``. The input has ``size`` elements.
    """

    phases: kl.SizeOf[N]
    extent: kl.SizeOf[N]
    first: kl.StrideOf[N]
    dilation: kl.SizeOf[N]
    start: kl.StrideOf[N]
    size: kl.SizeOf[N]
    step: kl.StrideOf[N]

    def of_phase(self: PlaneAxis[kl.Number], stride: int, j: kl.Number) -> kl.Number:
        """Return the input position of the first element of phase j.

        Position e of the phase is the input's ``stride * e + (dilation * j + start) % stride``.
        """
        begin = self.first * stride
        return begin + ((j * self.dilation + self.start) % stride if stride > 1 else 0)


@kl.kernel
def pad_planes(
    x: kl.In,
    lines: kl.Out,
    channels: kl.Size,
    outer: kl.Stride,
    step: kl.Stride,
    axes: tuple[PlaneAxis[kl.Number], ...],
    *,
    strides: Strides3,
    lanes: int,
    unit: int,
    both: bool,
) -> None:
    """Copy channel x of image y to a line: its planes phase by phase, with zeros for padding.

    ``axes``: depth, height and width. ``unit``: 1 or 2 if the stride is that and a row is dense,
    else 0. ``both``: whether the stride of rows is 2 and both phases are read.
    """
    channel, image = kl.cube_position(0), kl.cube_position(1)
    deep, high, wide = axes
    volume = deep.extent * high.extent * wide.extent
    base = image * outer + channel * step
    line = (image * channels + channel) * deep.phases * high.phases * wide.phases * volume
    for jd in kl.range(deep.phases):
        first_d = deep.of_phase(strides[0], jd)
        for jh in kl.range(high.phases):
            first_h = high.of_phase(strides[1], jh)
            to = line + (jd * high.phases + jh) * wide.phases * volume
            for ed in kl.range(deep.extent):
                d = first_d + ed * strides[0]
                for eh in kl.range(high.extent):
                    h = first_h + eh * strides[1]
                    inside = (d >= 0) & (d < deep.size) & (h >= 0) & (h < high.size)
                    row = Row(x, base + d * deep.step + h * high.step, wide, inside)
                    if both:
                        copy_both(row, lines, to, volume, lanes)
                    else:
                        for jw in kl.range(wide.phases):
                            first = wide.of_phase(strides[2], jw)
                            for e in kl.range(0, wide.extent, lanes):
                                value = row.read(first + e * strides[2], strides[2], lanes, unit)
                                here = below(wide.extent - e, lanes)
                                at = to + jw * volume + e
                                lines.store(at, value.to(lines.dtype), mask=here)
                    to += wide.extent


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the input: its start, its axis, and whether it exists."""

    x: kl.Pointer
    at: kl.Number
    axis: PlaneAxis[kl.Number]
    inside: kl.Mask

    def part(self, first: kl.Number, lanes: int) -> kl.Number:
        """Return adjacent elements, with 0 outside of the row."""
        valid = within(first, lanes, self.axis.size) & kl.splat(self.inside, lanes)
        return self.x.load(self.at + first, lanes, mask=valid)

    def pair(self, first: kl.Number, lanes: int) -> tuple[kl.Number, kl.Number]:
        """Return two vectors of adjacent elements."""
        return self.part(first, lanes), self.part(first + lanes, lanes)

    def read(self, first: kl.Number, stride: int, lanes: int, unit: int) -> kl.Number:
        """Return elements ``first``, ``first + stride``, …, 0 outside of the row."""
        if unit == 0:
            place = first + kl.constant(tuple(i * stride for i in kl.range(lanes)), first.dtype)
            valid = kl.splat(self.inside, lanes) & (place >= 0) & (place < self.axis.size)
            return self.x.load(self.at + place * self.axis.step, mask=valid)
        if unit == 1:
            return self.part(first, lanes)
        low, high = self.pair(first, lanes)
        return kl.shuffle(low, tuple(kl.range(0, 2 * lanes, 2)), high)


@kl.helper
def copy_both(row: Row, lines: kl.Pointer, to: kl.Number, volume: kl.Number, lanes: int) -> None:
    """Write both phases of a row with stride two; the axis's start says which is first."""
    odd_first = row.axis.start % 2
    for e in kl.range(0, row.axis.extent, lanes):
        low, high = row.pair((row.axis.first + e) * 2, lanes)
        here = below(row.axis.extent - e, lanes)
        for odd in kl.range(2):
            value = kl.shuffle(low, tuple(kl.range(odd, 2 * lanes, 2)), high)
            number = odd_first if odd == 0 else 1 - odd_first
            lines.store(to + number * volume + e, value.to(lines.dtype), mask=here)


@kl.kernel
def merge_planes(
    parts: kl.In,
    c: kl.Out,
    sizes: tuple[kl.Size, ...],
    extents: tuple[kl.Size, ...],
    *,
    strides: Strides3,
    lanes: int,
) -> None:
    """Write plane x of the result from its phases, which are adjacent planes.

    ``sizes`` and ``extents``: the depth, height and width of the result and of a phase. Element i
    of the result is element ``i // stride`` of phase ``i % stride``.
    """
    plane, stride = kl.cube_position(0), strides[2]
    volume = extents[0] * extents[1] * extents[2]
    start = plane * (strides[0] * strides[1] * strides[2]) * volume
    to = plane * sizes[0] * sizes[1] * sizes[2]
    for d in kl.range(sizes[0]):
        for h in kl.range(sizes[1]):
            phase = (d % strides[0] * strides[1] + h % strides[1]) * stride
            row = d // strides[0] * extents[1] + h // strides[1]
            at = start + phase * volume + row * extents[2]
            for i in kl.range(0, sizes[2], lanes * (stride if stride <= 2 else 1)):
                left = sizes[2] - i
                if stride <= 2:
                    read = []
                    for p in kl.range(stride):
                        there = iota(lanes) * stride + p < kl.splat(kl.cast(left, int32), lanes)
                        place = at + p * volume + i // stride
                        read.append(parts.load(place, lanes, mask=there))
                    write_phases(read, c, to + i, left)
                else:
                    place = i + iota(lanes).to(to.dtype)
                    here = below(left, lanes)
                    of = at + place % stride * volume + place // stride
                    c.store(to + i, parts.load(of, mask=here), mask=here)
            to += sizes[2]
