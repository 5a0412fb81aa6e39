"""Images as lines, divided by stride into phases.

Requirements: on a line each tap of a window is a shift, whatever stride and dilation are, so
nothing is copied per tap. Rows are copied by whole vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import int32
from calor_kernel.language import (
    Number,
    cast,
    constant,
    cube_position,
    helper,
    kernel,
    shuffle,
    splat,
)

# The count of numbers of an axis for ``pad_planes``.
AXIS = 7
Strides = tuple[int, int, int]


def iota(lanes: int) -> Number:
    """Return the vector 0, 1, … of 32-bit integers."""
    return constant(tuple(range(lanes)), int32)


@kernel
def pad_planes(
    x: Any,
    lines: Any,
    channels: Any,
    outer: Any,
    step: Any,
    *axes: Any,
    strides: Strides,
    lanes: int,
    unit: int,
    both: bool,
) -> None:
    """Copy channel x of image y to a line: its planes phase by phase, with zeros for padding.

    ``axes``: for each of depth, height and width the number of phases, the extent of a plane, its
    first position, dilation, the input position of tap 0, the input's size and its stride. Along an
    axis, position e of phase j is the input's ``stride * e + (dilation * j + start) % stride``.
    ``unit``: 1 or 2 if the stride is that and a row is dense, else 0. ``both``: whether the stride
    of rows is 2 and both phases are read.
    """
    channel, image = cube_position(0), cube_position(1)
    deep, high, wide = axes[:AXIS], axes[AXIS : 2 * AXIS], axes[2 * AXIS :]
    width, volume = wide[1], deep[1] * high[1] * wide[1]
    base = image * outer + channel * step
    line = (image * channels + channel) * deep[0] * high[0] * wide[0] * volume
    for jd in range(deep[0]):
        first_d = first_of(deep, strides[0], jd)
        for jh in range(high[0]):
            first_h = first_of(high, strides[1], jh)
            to = line + (jd * high[0] + jh) * wide[0] * volume
            for ed in range(deep[1]):
                d = first_d + ed * strides[0]
                for eh in range(high[1]):
                    h = first_h + eh * strides[1]
                    inside = (d >= 0) & (d < deep[5]) & (h >= 0) & (h < high[5])
                    row = Row(x, base + d * deep[6] + h * high[6], wide[5], wide[6], inside)
                    if both:
                        copy_both(row, lines, to, volume, wide, lanes)
                    else:
                        for jw in range(wide[0]):
                            first = first_of(wide, strides[2], jw)
                            for e in range(0, width, lanes):
                                value = row.read(first + e * strides[2], strides[2], lanes, unit)
                                here = iota(lanes) < splat(cast(width - e, int32), lanes)
                                at = to + jw * volume + e
                                lines.store(at, value.to(lines.dtype), mask=here)
                    to += width


def first_of(axis: Any, stride: int, j: Any) -> Any:
    """Return the input position of the first element of phase j."""
    return axis[2] * stride + ((j * axis[3] + axis[4]) % stride if stride > 1 else 0)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the input: its start, size and stride, and whether it exists."""

    x: Any
    at: Any
    size: Any
    step: Any
    inside: Any

    def part(self, first: Any, lanes: int) -> Any:
        """Return adjacent elements, with 0 outside of the row."""
        place = splat(cast(first, int32), lanes) + iota(lanes)
        valid = (place >= 0) & (place < splat(self.size.to(int32), lanes))
        return self.x.load(self.at + first, lanes, mask=valid & splat(self.inside, lanes))

    def read(self, first: Any, stride: int, lanes: int, unit: int) -> Any:
        """Return elements ``first``, ``first + stride``, …, 0 outside of the row."""
        if unit == 0:
            place = first + constant(tuple(i * stride for i in range(lanes)), first.dtype)
            valid = splat(self.inside, lanes) & (place >= 0) & (place < self.size)
            return self.x.load(self.at + place * self.step, mask=valid)
        if unit == 1:
            return self.part(first, lanes)
        parts = [self.part(first + i * lanes, lanes) for i in range(2)]
        return shuffle(parts[0], tuple(range(0, 2 * lanes, 2)), parts[1])


@helper
def copy_both(row: Row, lines: Any, to: Any, volume: Any, axis: Any, lanes: int) -> None:
    """Write both phases of a row with stride two; the axis's start says which is first."""
    odd_first = axis[4] % 2
    for e in range(0, axis[1], lanes):
        first = (axis[2] + e) * 2
        parts = [row.part(first + i * lanes, lanes) for i in range(2)]
        here = iota(lanes) < splat(cast(axis[1] - e, int32), lanes)
        for odd in range(2):
            value = shuffle(parts[0], tuple(range(odd, 2 * lanes, 2)), parts[1])
            number = odd_first if odd == 0 else 1 - odd_first
            lines.store(to + number * volume + e, value.to(lines.dtype), mask=here)


@kernel
def merge_planes(parts: Any, c: Any, *axes: Any, strides: Strides, lanes: int) -> None:
    """Write plane x of the result from its phases, which are adjacent planes.

    ``axes``: for each of depth, height and width the size of the result and of a phase. Element i
    of the result is element ``i // stride`` of phase ``i % stride``.
    """
    plane = cube_position(0)
    sizes, extents = axes[::2], axes[1::2]
    volume = extents[0] * extents[1] * extents[2]
    start = plane * (strides[0] * strides[1] * strides[2]) * volume
    to = plane * sizes[0] * sizes[1] * sizes[2]
    for d in range(sizes[0]):
        for h in range(sizes[1]):
            phase = (d % strides[0] * strides[1] + h % strides[1]) * strides[2]
            row = d // strides[0] * extents[1] + h // strides[1]
            at = start + phase * volume + row * extents[2]
            merge_row(parts, at, volume, c, to, sizes[2], strides[2], lanes)
            to += sizes[2]


@helper
def merge_row(
    parts: Any, at: Any, volume: Any, c: Any, to: Any, width: Any, stride: int, lanes: int
) -> None:
    """Write a row from its phases, ``volume`` elements apart."""
    for i in range(0, width, lanes * (2 if stride == 2 else 1)):
        lane = iota(lanes)
        left = splat(cast(width - i, int32), lanes)
        if stride == 1:
            c.store(to + i, parts.load(at + i, lanes, mask=lane < left), mask=lane < left)
        elif stride == 2:
            e = i // 2
            odd = lane * 2 + 1
            even = parts.load(at + e, lanes, mask=lane * 2 < left)
            other = parts.load(at + volume + e, lanes, mask=odd < left)
            for half in range(2):
                order = [lanes * (k % 2) + (half * lanes + k) // 2 for k in range(lanes)]
                inside = lane + half * lanes < left
                c.store(to + i + half * lanes, shuffle(even, order, other), mask=inside)
        else:
            place = i + iota(lanes).to(to.dtype)
            value = parts.load(at + place % stride * volume + place // stride, mask=lane < left)
            c.store(to + i, value, mask=lane < left)
