"""Direct convolutions with vectors along output channels, for small images and strides.

Requirements: every computed pixel is needed, whatever the image size. Each input element is
broadcast, at any stride, so only padding needs a copy. Weights are packed to panels, once for
constant weights (the roles of Zhang, Franchetti and Low, "High performance zero-memory overhead
direct convolutions", 2018). Tiles are transposed in registers, because the result has channels
first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import DType, bool_, int64
from calor_kernel.language import (
    In,
    Number,
    Out,
    Registers,
    Size,
    SizeOf,
    Stride,
    StrideOf,
    constant,
    cube_position,
    kernel,
    min,
    private,
    range,
    registers,
)
from calor_kernel.library.conv.vector_tiles import (
    Strides,
    add_products,
    store_transposed,
    unrolled,
)

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class TapAxis(Generic[N]):
    """An axis of ``taps``; their input pixels are ``tap`` elements apart."""

    taps: SizeOf[N]
    tap: StrideOf[N]


@kernel
def across_channels(
    x: In,
    w: In,
    c: Out,
    outputs: Size,
    channels: Size,
    groups: Size,
    panels: Size,
    x_steps: Strides[Number],
    c_steps: Strides[Number],
    height: Size,
    width: Size,
    lines: Size,
    line_steps: tuple[Stride, ...],
    axes: tuple[TapAxis[Number], ...],
    block_panels: Size,
    block_lines: Size,
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
    of channels. z counts images and groups. Planes and rows of input pixels are ``line_steps``
    apart, pixels ``step``. ``axes``: depth, height and width. ``room``: the taps that memory holds
    (1 for a window of one tap).
    """
    image = cube_position(2)
    outer, group = image // groups, image % groups
    deep, high, wide = axes
    taps = deep.taps * high.taps * wide.taps
    span = vectors * lanes
    at = private(room, int64) if room > 1 else None
    if at is not None:
        tap = 0
        for kd in range(deep.taps):
            for kh in range(high.taps):
                for kw in range(wide.taps):
                    at[tap] = kd * deep.tap + kh * high.tap + kw * wide.tap
                    tap += 1
    x_start, c_start = x_steps.at(outer, group), c_steps.at(outer, group)
    inside = constant(tuple(lane < rows for lane in range(lanes)), bool_) if rows < lanes else None

    def add(acc: Registers, x_at: Number, w_at: Number) -> None:
        """Add the products of one term to a tile of sums."""
        columns = [w.load(w_at + v * lanes, lanes) for v in range(vectors)]
        add_products(acc, (x[x_at + r * step] for r in range(rows)), columns)

    def add_terms(acc: Registers, x_at: Number, w_at: Number) -> None:
        """Add the products of all terms to a tile of sums."""
        if at is None:
            unrolled(
                channels, unroll, lambda k: add(acc, x_at + k * x_steps.inner, w_at + k * span)
            )
        else:
            for channel in range(channels):
                x_channel = x_at + channel * x_steps.inner
                for k in range(taps):
                    add(acc, x_channel + at[k], w_at + k * span)
                w_at += taps * span

    first_panel = cube_position(0) * block_panels
    first_line = cube_position(1) * block_lines
    last_line = min(first_line + block_lines, lines)
    for panel in range(first_panel, min(first_panel + block_panels, panels)):
        w_start = (group * panels + panel) * (channels * taps * span)
        for line in range(first_line, last_line):
            x_line = x_start + line // height * line_steps[0] + line % height * line_steps[1]
            for place in range(0, width, rows):
                # The last tile overlaps the one before where no whole tile is left.
                first = min(place, width - rows)
                acc = registers((rows, vectors), accumulate, lanes)
                add_terms(acc, x_line + first * step, w_start)
                to = c_start + line * width + first
                for v in range(vectors):
                    square = [acc[min(r, rows - 1), v] for r in range(lanes)]
                    output = panel * span + v * lanes
                    store_transposed(square, c, to, c_steps.inner, output, outputs, inside)
