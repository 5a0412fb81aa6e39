"""Narrow images: the pairs of pixels and taps of a row, and operands with channels last.

Requirements: small images are mostly border, so nothing is multiplied with padding. A kernel is
built for the width and knows each tap's pairs of pixels. Vectors run along channels, since such
images have many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor_kernel.language import cube_position, helper, kernel, loop_range, splat
from calor_kernel.library.conv.phase_planes import iota
from calor_kernel.library.matmul.packing import transpose


@dataclass(frozen=True, slots=True)
class Row:
    """A row of ``count`` output pixels over one of ``size`` pixels, known at build time.

    Tap k of output pixel o reads ``(o * step + k * dilation + start) / divide``, if that is an
    integer.
    """

    count: int
    taps: int
    step: int
    dilation: int
    start: int
    divide: int
    size: int

    def pairs(self) -> list[tuple[int, int, int]]:
        """Return (input pixel, output pixel, tap) of all products without padding, in order."""
        found = []
        for place in range(self.count):
            for tap in range(self.taps):
                at = place * self.step + tap * self.dilation + self.start
                if at % self.divide == 0 and 0 <= at // self.divide < self.size:
                    found.append((at // self.divide, place, tap))
        return sorted(found)


@kernel
def gather_channels(
    x: Any,
    c: Any,
    channels: Any,
    panels: Any,
    groups: Any,
    places: Any,
    x_outer: Any,
    x_group: Any,
    x_channel: Any,
    *,
    vectors: int,
    lanes: int,
    whole: bool,
) -> None:
    """Copy planes of ``places`` pixels to panels of channels; x counts images, groups, panels.

    A panel has ``vectors`` vectors of channels for each pixel, and repeats the last channel at its
    end. ``whole``: whether the pixels are whole vectors.
    """
    cube = cube_position(0)
    panel, image = cube % panels, cube // panels
    start = image // groups * x_outer + image % groups * x_group
    span = vectors * lanes
    for v in loop_range(0, vectors):
        first = panel * span + v * lanes
        rows = [start + min(first + i, channels - 1) * x_channel for i in range(lanes)]
        to = cube * places * span + v * lanes
        for place in loop_range(0, places, lanes):
            inside = (
                None if whole else iota(lanes) < splat((places - place).to(iota(1).dtype), lanes)
            )
            square = transpose([x.load(row + place, lanes, mask=inside) for row in rows])
            for i in range(lanes):
                write(c, to + (place + i) * span, square[i].to(c.dtype), place + i, places, whole)


@helper
def write(c: Any, to: Any, value: Any, place: Any, places: Any, whole: bool) -> None:
    """Write a vector if its pixel exists."""
    if whole or place < places:
        c.store(to, value)
