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
    seen = as_bits(problem.a, info)
    inside = all(low >= 0 and high < n for low, high, n in zip(lows, highs, sizes, strict=True))
    wide = parts[0][2]
    if inside and not (dense and wide.a != 1 and wide.size > 1):
        return Images(operand(0, seen), tuple(parts), images.a, groups.a, depth.a)
    lows = [min(low, 0) for low in lows]
    ends = zip(highs, lows, sizes, strict=True)
    extents = [max(high + 1, size) - low for high, low, size in ends]
    plane = prod(extents)
    channels = groups.size * depth.size
    size = images.size * channels * plane * seen.dtype.itemsize
    memory = Bound(steps.memory(size), seen.dtype)
    unit = 1 if wide.a == 1 else 0
    lanes = max(1, info.vector_bytes // 4)
    steps.add(
        pad_planes,
        Grid((channels, images.size, 1)),
        Effort("conv planes", nbytes=2 * size),
        x=operand(0, seen),
        lines=memory,
        channels=channels,
        outer=images.a,
        step=depth.a,
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


def _reach(axis: Axis[int]) -> tuple[int, int]:
    """Return the first and the last position that a window reads, padding included."""
    last = axis.result * (axis.count - 1)
    ends = axis.start, axis.start + axis.summed * (axis.terms - 1)
    return min(ends), max(ends) + last
