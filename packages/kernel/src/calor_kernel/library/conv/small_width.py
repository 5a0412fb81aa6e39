"""Rows of few places: what their taps see, pair by pair, and operands with channels side by side.

Requirements: images of few places are mostly border, so nothing is multiplied with padding: a
kernel is built for the width, and knows which pairs of places meet at which tap; vectors run along
channels, which such images have many of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor_kernel.language import cube_position, helper, kernel, loop_range, splat
from calor_kernel.library.conv.phase_planes import iota
from calor_kernel.library.matmul.packing import transpose


@dataclass(frozen=True, slots=True)
class Row:
    """A row of ``count`` places over one of ``size``, as the build knows them.

    Tap k of place o sees ``(o * step + k * dilation + start) / divide``, where that is whole.
    """

    count: int
    taps: int
    step: int
    dilation: int
    start: int
    divide: int
    size: int

    def pairs(self) -> list[tuple[int, int, int]]:
        """Return (place seen, place, tap) of all that is not padding, in order."""
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
    """Copy planes of ``places`` to panels of channels: cube x counts images, groups and panels.

    A panel has ``vectors`` vectors of channels for each place; what is beyond the last channel
    repeats it. ``whole``: whether places are whole vectors.
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
    """Write a vector, if its place is one."""
    if whole or place < places:
        c.store(to, value)
