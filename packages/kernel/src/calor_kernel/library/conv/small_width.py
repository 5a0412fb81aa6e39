"""Narrow images: the pairs of pixels and taps of a row, and operands with channels last.

Requirements: small images are mostly border, so nothing is multiplied with padding. A kernel is
built for the width and knows each tap's pairs of pixels. Vectors run along channels, since such
images have many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from calor.dtypes import DType, bool_
from calor_kernel import language as kl
from calor_kernel.library.conv.vector_tiles import (
    LineStrides,
    Slide,
    Strides,
    below,
    end_transposed,
    iota,
    multiply_add,
    share,
    store_transposed,
)
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.transposition import transpose


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


@kl.kernel
def pack_small_width(
    w: kl.In,
    c: kl.Out,
    rows: kl.Size,
    depth: kl.Size,
    panels: kl.Size,
    block: kl.Size,
    w_steps: Strides[kl.Number],
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
    panel = kl.cube_position(0)
    start = panel // panels * w_steps.outer
    span = vectors * lanes
    inside = kl.constant(tuple(lane < taps * along for lane in kl.range(lanes)), bool_)
    first, last = share(kl.cube_position(1), block, depth)
    for v in kl.loop_range(0, vectors):
        row = panel % panels * span + v * lanes
        places = [start + kl.min(row + i, rows - 1) * w_steps.middle for i in kl.range(lanes)]
        for k in kl.range(first, last):
            read = [w.load(place + k * w_steps.inner, lanes, mask=inside) for place in places]
            square = transpose(read)
            for number in kl.range(taps * along):
                tap = taps * along - 1 - number if back else number
                to = ((panel * taps + tap // along) * depth + k) * (along * span) + v * lanes
                c.store(to + tap % along * span, square[number].to(c.dtype))


@kl.kernel
def small_width_forward(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    images: kl.Size,
    panels: kl.Size,
    outputs: kl.Size,
    depth: kl.Size,
    block_images: kl.Size,
    x_steps: LineStrides[kl.Number],
    c_steps: Strides[kl.Number],
    down: Slide[kl.Number],
    after: After | None,
    *,
    along: Row,
    divide: int,
    together: int,
    vectors: int,
    lanes: int,
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute blocks of images from x, panels of channels from y, groups from z.

    A tile has a row of ``together`` images. Positions ``down`` an image are divided by ``divide``.
    """
    panel, group = kl.cube_position(1), kl.cube_position(2)
    first_image, last_image = share(kl.cube_position(0), block_images, images)
    width, span = along.of.count, vectors * lanes
    pairs = [(i, k, o) for i, o, k in along.pairs()]
    tap_size = depth * (along.of.window * span)
    w_start = (group * panels + panel) * down.window * tap_size
    # Rows of pixels that fill vectors of the result, or nearly so.
    lines = lanes // width
    held = None if epilogue is None else kl.private(lanes * lanes, epilogue.dtype, align=64)
    made = kl.private(together * lanes * span, accumulate, align=64)
    for place in kl.loop_range(0, together * lanes * span, lanes):
        made.store(place, kl.constant(0, accumulate, lanes))
    for first in kl.range(first_image, last_image, together):
        image = kl.min(first, last_image - together)
        for top in kl.range(0, down.count, lines):
            here = kl.min(lines, down.count - top)
            for y in kl.range(here):
                acc = kl.registers((together, width, vectors), accumulate, lanes)
                for k in kl.range(down.window):
                    place = (top + y) * down.stride + k * down.dilation + down.start
                    seen = place // divide
                    if (seen * divide == place) & (seen >= 0) & (seen < down.size):
                        x_at = x_steps.at(image, group) + seen * x_steps.line
                        w_at = w_start + k * tap_size
                        for _ in kl.range(depth):
                            add_row(acc, pairs, x, x_at, x_steps.outer, w, w_at)
                            x_at += x_steps.inner
                            w_at += along.of.window * span
                # The unit's memory has channels last.
                for i, o, v in product(kl.range(together), kl.range(width), kl.range(vectors)):
                    at = (i * lanes + o + y * width) * span
                    made.store(at + v * lanes, acc[i, o, v])
            to = c_steps.at(image, group) + panel * span * c_steps.inner + top * width
            inside = below(here * width, lanes)
            for i in kl.loop_range(0, together):
                ends = writer(epilogue, after, c, image + i)
                for v in kl.loop_range(0, vectors):
                    rows = [i * (lanes * span) + (r * vectors + v) * lanes for r in kl.range(lanes)]
                    square = [made.load(row, lanes) for row in rows]
                    if ends is not None and held is not None:
                        of = (c_steps.at(image + i, group) + top * width, c_steps.inner)
                        numbers = (panel * span + v * lanes, outputs, group * outputs)
                        end_transposed(ends, held, square, of, numbers, top * width, inside)
                    else:
                        store_transposed(
                            square, c, to + i * c_steps.outer, c_steps.inner, v * lanes,
                            outputs - panel * span, inside,
                        )  # fmt: skip


@kl.kernel
def small_width_weights(
    panel_memory: kl.In,
    s: kl.In,
    c: kl.Out,
    images: kl.Size,
    groups: kl.Size,
    panels: kl.Size,
    rows_total: kl.Size,
    columns_total: kl.Size,
    block_rows: kl.Size,
    panel_size: kl.Size,
    s_steps: LineStrides[kl.Number],
    c_steps: Strides[kl.Number],
    down: Slide[kl.Number],
    *,
    along: Row,
    of_input: bool,
    rows: int,
    vectors: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute ``c[row, column, tap]``: panels of columns from x, blocks of rows from y, groups z.

    Columns are channels of the packed operand: the input if ``of_input``, else the output gradient.
    Rows are channels of the other. The axes of c are groups, rows and columns. ``down``: the
    windows down an image.
    """
    panel, group = kl.cube_position(0), kl.cube_position(2)
    first_row, last_row = share(kl.cube_position(1), block_rows, rows_total)
    span, taps = vectors * lanes, along.of.window
    pairs = [(o, i, k) if of_input else (i, o, k) for i, o, k in along.pairs()]
    line = (along.of.size if of_input else along.of.count) * span
    for first in kl.range(first_row, last_row, rows):
        row = kl.min(first, last_row - rows)
        for k in kl.range(down.window):
            shift = k * down.dilation + down.start
            low = kl.max((down.stride - 1 - shift) // down.stride, 0)
            high = kl.min((down.size - 1 - shift) // down.stride + 1, down.count)
            acc = kl.registers((rows, taps, vectors), accumulate, lanes)
            for image in kl.range(images):
                v_at = ((image * groups + group) * panels + panel) * panel_size
                s_at = s_steps.at(image, group) + row * s_steps.inner
                for y in kl.range(low, high):
                    seen = y * down.stride + shift
                    v_line = v_at + (seen if of_input else y) * line
                    s_place = s_at + (y if of_input else seen) * s_steps.line
                    add_row(acc, pairs, s, s_place, s_steps.inner, panel_memory, v_line)
            at = group * c_steps.outer + row * c_steps.middle + k * taps
            for v in kl.range(vectors):
                column = panel * span + v * lanes
                inside = below(columns_total - column, lanes)
                lane = iota(lanes).to(at.dtype) + kl.splat(column, lanes)
                lane = lane * kl.splat(c_steps.inner, lanes)
                for r in kl.range(rows):
                    for tap in kl.range(taps):
                        value = acc[r, tap, v].to(c.dtype)
                        to = kl.splat(at + r * c_steps.middle + tap, lanes)
                        c.store(lane + to, value, mask=inside)


def add_row(
    acc: kl.Registers,
    pairs: Sequence[tuple[int, int, int]],
    s: kl.Pointer,
    s_at: kl.Number,
    s_step: kl.Number,
    w: kl.Pointer,
    w_at: kl.Number,
) -> None:
    """Add the products of a row of each operand: ``pairs`` of pixels of s, of w, and of the tile.

    A row of the tile reads a row of s, and all of them the same vectors of w.
    """
    rows, _, vectors = acc.shape
    lanes, wide = acc.type.width, acc.type.dtype
    read: dict[int, list[kl.Number]] = {}
    for pixel in sorted({p for p, _, _ in pairs}):
        meet = [(other, to) for p, other, to in pairs if p == pixel]
        for other, _ in meet:
            if other not in read:
                at = w_at + other * vectors * lanes
                read[other] = [w.load(at + v * lanes, lanes) for v in kl.range(vectors)]
        for r in kl.range(rows):
            value = kl.splat(s[s_at + r * s_step + pixel].to(wide), lanes)
            for other, to in meet:
                for v in kl.range(vectors):
                    acc[r, to, v] = multiply_add(value, read[other][v], acc[r, to, v])
