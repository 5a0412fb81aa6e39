"""Planes of the input as lines, divided by stride into phases.

Requirements: on its line, each tap of a window is the same line from another element on, whatever
stride and dilation are, so that nothing is copied once per tap; rows are copied by whole vectors.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import int32
from calor_kernel.language import cast, constant, cube_position, helper, kernel, shuffle, splat

# The numbers of an axis for ``pad_planes``.
AXIS = 7


def iota(lanes: int) -> Any:
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
    strides: tuple[int, int, int],
    lanes: int,
    unit: int,
) -> None:
    """Copy channel x of image y to a line: its planes phase by phase, zero where it is padding.

    ``axes``: for each of depth, height and width the number of phases, the extent of a plane, its
    first place, dilation, the input's place of tap 0, the input's size and its stride in memory.
    Along an axis, place e of phase j is the input's ``stride * e + (dilation * j + start) %
    stride``. ``unit``: how elements of a row are read: 1 or 2 where the stride is that and they lie
    one after another, else 0.
    """
    channel, image = cube_position(0), cube_position(1)
    deep, high, wide = axes[:AXIS], axes[AXIS : 2 * AXIS], axes[2 * AXIS :]
    width = wide[1]
    base = image * outer + channel * step
    count = deep[0] * high[0] * wide[0] * deep[1] * high[1]
    line = (image * channels + channel) * count * width
    end = splat(width.to(int32), lanes)
    for jd in range(deep[0]):
        first_d = first_of(deep, strides[0], jd)
        for jh in range(high[0]):
            first_h = first_of(high, strides[1], jh)
            for jw in range(wide[0]):
                first = first_of(wide, strides[2], jw)
                for ed in range(deep[1]):
                    d = first_d + ed * strides[0]
                    for eh in range(high[1]):
                        h = first_h + eh * strides[1]
                        inside = (d >= 0) & (d < deep[5]) & (h >= 0) & (h < high[5])
                        at = base + d * deep[6] + h * high[6]
                        for e in range(0, width, lanes):
                            place = first + e * strides[2]
                            value = read_row(
                                x, at, place, wide[5], wide[6], inside, strides[2], lanes, unit
                            )
                            here = iota(lanes) < end - splat(cast(e, int32), lanes)
                            lines.store(line + e, value.to(lines.dtype), mask=here)
                        line += width


def first_of(axis: Any, stride: int, j: Any) -> Any:
    """Return which place of the input the first element of phase j is."""
    return axis[2] * stride + ((j * axis[3] + axis[4]) % stride if stride > 1 else 0)


@helper
def read_row(
    x: Any,
    at: Any,
    first: Any,
    size: Any,
    step: Any,
    inside: Any,
    stride: int,
    lanes: int,
    unit: int,
) -> Any:
    """Return elements ``first``, ``first + stride``, … of a row, 0 outside of it."""
    if unit == 0:
        place = first + constant(tuple(i * stride for i in range(lanes)), first.dtype)
        valid = splat(inside, lanes) & (place >= 0) & (place < size)
        return x.load(at + place * step, mask=valid)
    parts = []
    for part in range(unit):
        begin = first + part * lanes
        place = begin.to(int32) + iota(lanes)
        valid = splat(inside, lanes) & (place >= 0) & (place < size.to(int32))
        parts.append(x.load(at + begin, lanes, mask=valid))
    if unit == 1:
        return parts[0]
    return shuffle(parts[0], tuple(range(0, 2 * lanes, 2)), parts[1])
