"""Convolutions of narrow images: output channels by pixels of several images.

Requirements: a tile of sums is a pixel row of some images by vectors of channels. So an input
element serves all its taps and channels, and a weight serves all pixels and images. Tiles are
transposed in registers, because the result has channels first.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, bool_
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
from calor_kernel.library.conv.phase_planes import iota
from calor_kernel.library.conv.small_width import Row
from calor_kernel.library.conv.weight_gradient_rows import share
from calor_kernel.library.matmul.packing import transpose


@kernel
def pack_narrow(
    w: Any,
    c: Any,
    rows: Any,
    depth: Any,
    panels: Any,
    block: Any,
    w_group: Any,
    w_row: Any,
    w_depth: Any,
    *,
    taps: int,
    along: int,
    back: bool,
    vectors: int,
    lanes: int,
) -> None:
    """Pack weights to panels of output channels: cube x is a panel of a group.

    A panel has the taps down an image, then the input channels, ``block`` of them for each y, then
    the ``along`` taps of a row. It repeats the last output channel at its end. All taps are
    adjacent, at most a vector of them; ``back``: in reverse order.
    """
    panel = cube_position(0)
    start = panel // panels * w_group
    span = vectors * lanes
    inside = constant(tuple(lane < taps * along for lane in range(lanes)), bool_)
    first, last = share(cube_position(1), block, depth)
    for v in loop_range(0, vectors):
        row = panel % panels * span + v * lanes
        places = [start + min(row + i, rows - 1) * w_row for i in range(lanes)]
        for k in range(first, last):
            square = transpose([w.load(p + k * w_depth, lanes, mask=inside) for p in places])
            for number in range(taps * along):
                tap = taps * along - 1 - number if back else number
                to = ((panel * taps + tap // along) * depth + k) * (along * span) + v * lanes
                c.store(to + tap % along * span, square[number].to(c.dtype))


@kernel
def convolve_narrow(
    x: Any,
    w: Any,
    c: Any,
    images: Any,
    panels: Any,
    outputs: Any,
    depth: Any,
    block_images: Any,
    x_image: Any,
    x_group: Any,
    x_channel: Any,
    x_line: Any,
    c_image: Any,
    c_group: Any,
    c_row: Any,
    taps: Any,
    step: Any,
    dilation: Any,
    start: Any,
    count: Any,
    size: Any,
    *,
    along: Row,
    divide: int,
    together: int,
    vectors: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute blocks of images from x, panels of channels from y, groups from z.

    A tile has a row of ``together`` images. Down an image, tap k of ``taps`` of output row o of
    ``count`` reads ``(o * step + k * dilation + start) / divide`` of ``size``.
    """
    panel, group = cube_position(1), cube_position(2)
    first_image, last_image = share(cube_position(0), block_images, images)
    span = vectors * lanes
    tap_size = depth * (along.taps * span)
    w_start = (group * panels + panel) * taps * tap_size
    # Rows of pixels that fill vectors of the result, or nearly so.
    lines = lanes // along.count
    made = private(together * lanes * span, accumulate, align=64)
    for place in loop_range(0, together * lanes * span, lanes):
        made.store(place, constant(0, accumulate, lanes))
    for first in range(first_image, last_image, together):
        image = min(first, last_image - together)
        for top in range(0, count, lines):
            here = min(lines, count - top)
            for y in range(here):
                acc = registers((together, along.count, vectors), accumulate, lanes)
                for k in range(taps):
                    place = (top + y) * step + k * dilation + start
                    seen = place // divide
                    if (seen * divide == place) & (seen >= 0) & (seen < size):
                        x_at = image * x_image + group * x_group + seen * x_line
                        w_at = w_start + k * tap_size
                        for _ in range(depth):
                            add_line(acc, x, x_at, x_image, w, w_at, along)
                            x_at += x_channel
                            w_at += along.taps * span
                keep_line(acc, made, y * along.count)
            to = image * c_image + group * c_group + panel * span * c_row + top * along.count
            for i in loop_range(0, together):
                write_lines(
                    made, i * (lanes * span), c, to + i * c_image, c_row, outputs - panel * span,
                    here * along.count, vectors, lanes,
                )  # fmt: skip


def add_line(acc: Any, x: Any, x_at: Any, x_image: Any, w: Any, w_at: Any, along: Row) -> None:
    """Add the products of a channel's row and the weights of a row of taps."""
    together, _, vectors = acc.shape
    lanes, wide = acc.type.width, acc.type.dtype
    weights = [
        [w.load(w_at + (k * vectors + v) * lanes, lanes) for v in range(vectors)]
        for k in range(along.taps)
    ]
    pairs = along.pairs()
    for place in sorted({seen for seen, _, _ in pairs}):
        meet = [(o, k) for seen, o, k in pairs if seen == place]
        for i in range(together):
            value = splat(x[x_at + i * x_image + place].to(wide), lanes)
            for o, k in meet:
                for v in range(vectors):
                    if wide.kind == "float":
                        acc[i, o, v] = fma(value, weights[k][v], acc[i, o, v])
                    else:
                        acc[i, o, v] = acc[i, o, v] + value * weights[k][v]


def keep_line(acc: Any, made: Any, first: Any) -> None:
    """Write a tile to memory of the unit, with channels last."""
    together, places, vectors = acc.shape
    lanes = acc.type.width
    for i in range(together):
        for o in range(places):
            at = (i * lanes + o + first) * (vectors * lanes)
            for v in range(vectors):
                made.store(at + v * lanes, acc[i, o, v])


@helper
def write_lines(
    made: Any,
    at: Any,
    c: Any,
    to: Any,
    c_row: Any,
    outputs: Any,
    places: Any,
    vectors: int,
    lanes: int,
) -> None:
    """Write the first stored pixels, one output channel at a time."""
    inside = iota(lanes) < splat(places.to(iota(1).dtype), lanes)
    for v in loop_range(0, vectors):
        square = [made.load(at + (r * vectors + v) * lanes, lanes) for r in range(lanes)]
        square = transpose(square)
        for lane in range(lanes):
            if v * lanes + lane < outputs:
                c.store(to + (v * lanes + lane) * c_row, square[lane].to(c.dtype), mask=inside)
