"""Direct convolutions with vectors along output channels, for small images and strides.

Requirements: every computed pixel is needed, whatever the image size. Each input element is
broadcast, at any stride, so only padding needs a copy. Weights are packed to panels, once for
constant weights (the roles of Zhang, Franchetti and Low, "High performance zero-memory overhead
direct convolutions", 2018). Tiles are transposed in registers, because the result has channels
first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, bool_, int64
from calor_kernel.language import (
    constant,
    cube_position,
    fma,
    helper,
    kernel,
    loop_range,
    private,
    registers,
    splat,
)
from calor_kernel.library.matmul.packing import transpose


@dataclass(frozen=True, slots=True)
class Tile:
    """Parameters of a tile: ``rows`` pixels ``step`` apart, panels ``width`` wide."""

    x: Any
    w: Any
    step: int
    width: int

    def multiply(self, acc: Any, x_at: Any, w_at: Any) -> None:
        """Add the products of one term to a tile of sums."""
        rows, vectors = acc.shape
        lanes, wide = acc.type.width, acc.type.dtype
        columns = [self.w.load(w_at + v * lanes, lanes) for v in range(vectors)]
        for r in range(rows):
            value = splat(self.x[x_at + r * self.step].to(wide), lanes)
            for v in range(vectors):
                if wide.kind == "float":
                    acc[r, v] = fma(value, columns[v], acc[r, v])
                else:
                    acc[r, v] = acc[r, v] + value * columns[v]


@kernel
def across_channels(
    x: Any,
    w: Any,
    c: Any,
    outputs: Any,
    channels: Any,
    groups: Any,
    panels: Any,
    x_outer: Any,
    x_group: Any,
    x_step: Any,
    c_outer: Any,
    c_group: Any,
    c_row: Any,
    height: Any,
    width: Any,
    lines: Any,
    depth_step: Any,
    height_step: Any,
    depth_taps: Any,
    height_taps: Any,
    width_taps: Any,
    depth_tap: Any,
    height_tap: Any,
    width_tap: Any,
    block_panels: Any,
    block_lines: Any,
    *,
    rows: int,
    vectors: int,
    lanes: int,
    accumulate: DType,
    room: int,
    step: int,
    unroll: int,
) -> None:
    """Compute a block of the result: panels of channels from x, lines from y.

    A line is a row of ``width`` output pixels; a tile has ``rows`` of them by ``vectors`` vectors
    of channels. z counts images and groups. Input pixels are ``step`` apart, and taps ``width_tap``
    and so on. ``room``: the taps that memory holds (1 for a window of one tap).
    """
    image = cube_position(2)
    outer, group = image // groups, image % groups
    taps = depth_taps * height_taps * width_taps
    span = vectors * lanes
    at = private(room, int64) if room > 1 else None
    if at is not None:
        tap = 0
        for kd in range(depth_taps):
            for kh in range(height_taps):
                for kw in range(width_taps):
                    at[tap] = kd * depth_tap + kh * height_tap + kw * width_tap
                    tap += 1
    tile = Tile(x, w, step, span)
    x_start = outer * x_outer + group * x_group
    c_start = outer * c_outer + group * c_group
    first_panel = cube_position(0) * block_panels
    first_line = cube_position(1) * block_lines
    last_line = min(first_line + block_lines, lines)
    for panel in range(first_panel, min(first_panel + block_panels, panels)):
        w_start = (group * panels + panel) * (channels * taps * span)
        for line in range(first_line, last_line):
            x_line = x_start + line // height * depth_step + line % height * height_step
            for place in range(0, width, rows):
                # The last tile overlaps the one before where no whole tile is left.
                first = min(place, width - rows)
                x_at = x_line + first * step
                acc = registers((rows, vectors), accumulate, lanes)
                if at is None:
                    main = channels // unroll * unroll
                    for k in loop_range(0, main, unroll):
                        for u in range(unroll):
                            tile.multiply(acc, x_at + (k + u) * x_step, w_start + (k + u) * span)
                    for k in range(main, channels):
                        tile.multiply(acc, x_at + k * x_step, w_start + k * span)
                else:
                    w_at = w_start
                    for channel in range(channels):
                        x_channel = x_at + channel * x_step
                        for k in range(taps):
                            tile.multiply(acc, x_channel + at[k], w_at + k * span)
                        w_at += taps * span
                to = c_start + line * width + first
                write_tile(acc, c, to, c_row, panel * span, outputs)


@helper
def write_tile(acc: Any, c: Any, to: Any, c_row: Any, first: Any, outputs: Any) -> None:
    """Write a tile, one output channel at a time."""
    rows, vectors = acc.shape
    lanes = acc.type.width
    inside = constant(tuple(lane < rows for lane in range(lanes)), bool_) if rows < lanes else None
    for v in range(vectors):
        square = [acc[min(r, rows - 1), v] for r in range(lanes)]
        square = transpose(square)
        for lane in range(lanes):
            output = first + v * lanes + lane
            if output < outputs:
                c.store(to + output * c_row, square[lane].to(c.dtype), mask=inside)
