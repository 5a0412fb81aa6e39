"""Convolutions of narrow images: output channels by pixels of several images.

Requirements: a tile of sums is a pixel row of some images by vectors of channels. So an input
element serves all its taps and channels, and a weight serves all pixels and images. Tiles are
transposed in registers, because the result has channels first.
"""

from __future__ import annotations

from itertools import product

from calor.dtypes import DType, bool_
from calor_kernel.language import (
    In,
    Number,
    Out,
    Pointer,
    Registers,
    Size,
    Stride,
    constant,
    cube_position,
    kernel,
    loop_range,
    min,
    private,
    range,
    registers,
    splat,
)
from calor_kernel.library.conv.small_width import Row
from calor_kernel.library.conv.vector_tiles import (
    Slide,
    Strides,
    below,
    multiply_add,
    share,
    store_transposed,
)
from calor_kernel.library.matmul.packing import transpose


@kernel
def pack_narrow(
    w: In,
    c: Out,
    rows: Size,
    depth: Size,
    panels: Size,
    block: Size,
    w_steps: Strides[Number],
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
    adjacent, at most a vector of them; ``back``: in reverse order. The axes of w are groups, output
    channels and input channels.
    """
    panel = cube_position(0)
    start = panel // panels * w_steps.outer
    span = vectors * lanes
    inside = constant(tuple(lane < taps * along for lane in range(lanes)), bool_)
    first, last = share(cube_position(1), block, depth)
    for v in loop_range(0, vectors):
        row = panel % panels * span + v * lanes
        places = [start + min(row + i, rows - 1) * w_steps.middle for i in range(lanes)]
        for k in range(first, last):
            read = [w.load(place + k * w_steps.inner, lanes, mask=inside) for place in places]
            square = transpose(read)
            for number in range(taps * along):
                tap = taps * along - 1 - number if back else number
                to = ((panel * taps + tap // along) * depth + k) * (along * span) + v * lanes
                c.store(to + tap % along * span, square[number].to(c.dtype))


@kernel
def convolve_narrow(
    x: In,
    w: In,
    c: Out,
    images: Size,
    panels: Size,
    outputs: Size,
    depth: Size,
    block_images: Size,
    x_steps: Strides[Number],
    x_line: Stride,
    c_steps: Strides[Number],
    down: Slide[Number],
    *,
    along: Row,
    divide: int,
    together: int,
    vectors: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute blocks of images from x, panels of channels from y, groups from z.

    A tile has a row of ``together`` images. Positions ``down`` an image are divided by ``divide``.
    """
    panel, group = cube_position(1), cube_position(2)
    first_image, last_image = share(cube_position(0), block_images, images)
    width, span = along.of.count, vectors * lanes
    tap_size = depth * (along.of.window * span)
    w_start = (group * panels + panel) * down.window * tap_size
    # Rows of pixels that fill vectors of the result, or nearly so.
    lines = lanes // width
    made = private(together * lanes * span, accumulate, align=64)
    for place in loop_range(0, together * lanes * span, lanes):
        made.store(place, constant(0, accumulate, lanes))
    for first in range(first_image, last_image, together):
        image = min(first, last_image - together)
        for top in range(0, down.count, lines):
            here = min(lines, down.count - top)
            for y in range(here):
                acc = registers((together, width, vectors), accumulate, lanes)
                for k in range(down.window):
                    place = (top + y) * down.stride + k * down.dilation + down.start
                    seen = place // divide
                    if (seen * divide == place) & (seen >= 0) & (seen < down.size):
                        x_at = x_steps.at(image, group) + seen * x_line
                        w_at = w_start + k * tap_size
                        for _ in range(depth):
                            add_line(acc, x, x_at, x_steps.outer, w, w_at, along)
                            x_at += x_steps.inner
                            w_at += along.of.window * span
                # The unit's memory has channels last.
                for i, o, v in product(range(together), range(width), range(vectors)):
                    at = (i * lanes + o + y * width) * span
                    made.store(at + v * lanes, acc[i, o, v])
            to = c_steps.at(image, group) + panel * span * c_steps.inner + top * width
            inside = below(here * width, lanes)
            for i in loop_range(0, together):
                for v in loop_range(0, vectors):
                    rows = [i * (lanes * span) + (r * vectors + v) * lanes for r in range(lanes)]
                    square = [made.load(row, lanes) for row in rows]
                    store_transposed(
                        square, c, to + i * c_steps.outer, c_steps.inner, v * lanes,
                        outputs - panel * span, inside,
                    )  # fmt: skip


def add_line(
    acc: Registers, x: Pointer, x_at: Number, x_image: Number, w: Pointer, w_at: Number, along: Row
) -> None:
    """Add the products of a channel's row and the weights of a row of taps."""
    together, _, vectors = acc.shape
    lanes, wide = acc.type.width, acc.type.dtype
    weights = [
        [w.load(w_at + (k * vectors + v) * lanes, lanes) for v in range(vectors)]
        for k in range(along.of.window)
    ]
    pairs = along.pairs()
    for place in sorted({seen for seen, _, _ in pairs}):
        meet = [(o, k) for seen, o, k in pairs if seen == place]
        for i in range(together):
            value = splat(x[x_at + i * x_image + place].to(wide), lanes)
            for o, k in meet:
                for v in range(vectors):
                    acc[i, o, v] = multiply_add(value, weights[k][v], acc[i, o, v])
