"""Narrow images: the pairs of pixels and taps of a row, and operands with channels last.

Requirements: small images are mostly border, so nothing is multiplied with padding. A kernel is
built for the width and knows each tap's pairs of pixels. Vectors run along channels, since such
images have many.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor_kernel.language import (
    In,
    Number,
    Out,
    Size,
    cube_position,
    kernel,
    loop_range,
    min,
)
from calor_kernel.library.conv.vector_tiles import Slide, Strides, below
from calor_kernel.library.matmul.packing import transpose


@dataclass(frozen=True, slots=True)
class Row:
    """A row of output pixels over one of input pixels, known at build time.

    Tap k of output pixel o reads ``(o * stride + k * dilation + start) / divide``, if that is an
    integer.
    """

    of: Slide[int]
    divide: int

    def pairs(self) -> list[tuple[int, int, int]]:
        """Return (input pixel, output pixel, tap) of all products without padding, in order."""
        found = []
        for place in range(self.of.count):
            for tap in range(self.of.window):
                at = place * self.of.stride + tap * self.of.dilation + self.of.start
                if at % self.divide == 0 and 0 <= at // self.divide < self.of.size:
                    found.append((at // self.divide, place, tap))
        return sorted(found)


@kernel
def gather_channels(
    x: In,
    c: Out,
    channels: Size,
    panels: Size,
    groups: Size,
    places: Size,
    x_steps: Strides[Number],
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
    start = x_steps.at(image // groups, image % groups)
    span = vectors * lanes
    for v in loop_range(0, vectors):
        first = panel * span + v * lanes
        rows = [start + min(first + i, channels - 1) * x_steps.inner for i in range(lanes)]
        to = cube * places * span + v * lanes
        for place in loop_range(0, places, lanes):
            inside = None if whole else below(places - place, lanes)
            square = transpose([x.load(row + place, lanes, mask=inside) for row in rows])
            for i in range(lanes):
                if whole or place + i < places:
                    c.store(to + (place + i) * span, square[i].to(c.dtype))
