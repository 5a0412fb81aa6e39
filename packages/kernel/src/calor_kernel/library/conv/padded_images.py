"""Images with the zeros that windows read beyond them, copied only where some are read.

Requirements: rows keep their order, so that adjacent output pixels read adjacent elements. Parts of
a problem, such as the phases of a strided gradient, share one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from calor.dtypes import DType
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Input, row_major
from calor_kernel.library.conv.phase_planes import PlaneAxis, pad_planes
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.copying import as_bits
from calor_kernel.library.steps import Steps

Axes = tuple[Axis[int], ...]


@dataclass(frozen=True, slots=True)
class Images:
    """An operand as bits, the axes of each part, and the strides of images, groups and channels."""

    memory: Bound
    parts: tuple[Axes, ...]
    image: int
    group: int
    channel: int

    def typed(self, dtype: DType) -> Bound:
        """Return the memory with its own dtype instead of that of its bits."""
        return replace(self.memory, dtype=dtype)


def padded(
    problem: Correlation,
    parts: Sequence[Axes],
    steps: Steps,
    info: DeviceInfo,
    dense: bool = False,
) -> Images:
    """Return the first operand with all that the windows of parts of its problem read.

    ``parts``: the three axes of each. ``dense``: whether rows must be contiguous.
    """
    images, groups, _ = problem.leads
    depth, sizes = problem.depth, [axis.size for axis in parts[0]]
    reached = [[_reach(axis) for axis in axes] for axes in parts]
    lows = [min(ends[k][0] for ends in reached) for k in range(3)]
    highs = [max(ends[k][1] for ends in reached) for k in range(3)]
    source, at = operand(0, as_bits(problem.a, info)), (images.a, groups.a, depth.a)
    inside = all(low >= 0 and high < n for low, high, n in zip(lows, highs, sizes, strict=True))
    wide = parts[0][2]
    across = wide.a != 1 and wide.size > 1
    if across and (dense or depth.a == 1):
        # Channels last: a transposition is faster than gathering rows.
        source, at, parts = _dense(problem, parts, steps, info)
        wide, across = parts[0][2], False
    if inside:
        return Images(source, tuple(parts), *at)
    lows = [min(low, 0) for low in lows]
    ends = zip(highs, lows, sizes, strict=True)
    extents = [max(high + 1, size) - low for high, low, size in ends]
    plane = prod(extents)
    channels = groups.size * depth.size
    size = images.size * channels * plane * source.dtype.itemsize
    memory = Bound(steps.memory(size), source.dtype)
    unit = 0 if across else 1
    lanes = max(1, info.vector_bytes // 4)
    steps.add(
        pad_planes,
        Grid((channels, images.size, 1)),
        Effort("conv planes", nbytes=2 * size),
        x=source,
        lines=memory,
        channels=channels,
        outer=at[0],
        step=at[2],
        axes=[
            PlaneAxis(1, extent, low, 1, 0, a.size, a.a)
            for a, low, extent in zip(parts[0], lows, extents, strict=True)
        ],
        strides=(1, 1, 1),
        lanes=lanes if unit else max(lanes // 2, 1),
        unit=unit,
        both=False,
    )
    distances = (extents[1] * extents[2], extents[2], 1)
    moved = tuple(
        tuple(
            replace(a, start=a.start - low, size=extent, a=distance)
            for a, low, extent, distance in zip(axes, lows, extents, distances, strict=True)
        )
        for axes in parts
    )
    return Images(memory, moved, channels * plane, depth.size * plane, plane)


def _dense(
    problem: Correlation, parts: Sequence[Axes], steps: Steps, info: DeviceInfo
) -> tuple[Bound, tuple[int, int, int], list[Axes]]:
    """Return a dense copy of the first operand as bits, its strides, and the axes of parts."""
    view = as_bits(problem.a, info)
    target = steps.memory(view.size * view.dtype.itemsize)
    steps.copy(problem.a, Input(0), target, info)
    image, channel, *rows = row_major(view.shape)
    distances = [1] * (3 - len(rows)) + rows
    moved = [
        tuple(replace(a, a=step) for a, step in zip(axes, distances, strict=True)) for axes in parts
    ]
    return Bound(target, view.dtype), (image, problem.depth.size * channel, channel), moved


def _reach(axis: Axis[int]) -> tuple[int, int]:
    """Return the first and the last position that a window reads, padding included."""
    last = axis.result * (axis.count - 1)
    ends = axis.start, axis.start + axis.summed * (axis.terms - 1)
    return min(ends), max(ends) + last
