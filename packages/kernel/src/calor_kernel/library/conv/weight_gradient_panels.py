"""Weight gradients from packed panels on CPUs: sums over pixels, or pairs of half types.

Requirements: a dot instruction adds two products a lane, and pairs of adjacent pixels lie side by
side in both operands; FMA takes single pixels. The result's gradient is packed to panels of output
channels, whose lines are the rows of pixels; the input is read in place, a group for all channels
of a panel, shifted by a tap. So nothing is copied for each tap, and no vector reads padding. A row
of an odd number of pixels ends with a single one: a zero beside it would make NaN of an infinite
neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic

from calor.dtypes import int64, uint32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.conv.row_axes import AxisNumbers, LineAxis
from calor_kernel.library.conv.vector_tiles import below, store_transposed
from calor_kernel.library.conv.window_panels import add_last
from calor_kernel.library.matmul.blueprints import Packed
from calor_kernel.library.matmul.packed import Tile
from calor_kernel.library.transposition import transpose

ROOM: Final = 96
"""Maximum of weights of a channel that a cube computes: their sums are in memory of the unit."""


@dataclass(frozen=True, slots=True)
class Pixels(Generic[N]):
    """Rows of pixels of all images: ``lines`` of ``wide`` pixels, ``line`` groups in a panel.

    A panel has ``room`` lines. ``rows`` weights for each of ``columns`` channels of a group.
    ``x_group``: the stride of groups.
    """

    lines: kl.SizeOf[N]
    wide: kl.SizeOf[N]
    line: kl.SizeOf[N]
    room: kl.SizeOf[N]
    rows: kl.SizeOf[N]
    columns: kl.SizeOf[N]
    x_group: kl.StrideOf[N]

    def panels(self: Pixels[kl.Number], width: int) -> kl.Number:
        """Return the panels of a group, of ``width`` channels."""
        return (self.columns + (width - 1)) // width

    def start(
        self: Pixels[kl.Number], group: kl.Number, panel: kl.Number, width: int, together: int
    ) -> kl.Number:
        """Return where a panel of groups of ``together`` pixels begins in memory."""
        number = group * self.panels(width) + panel
        return number * self.room * self.line * (width * together)


@kl.kernel
def line_offsets(starts: kl.Out, sizes: tuple[kl.Size, ...], steps: tuple[kl.Stride, ...]) -> None:
    """Write where the rows of pixels begin: of images, and of two further axes."""
    at = kl.constant(0, int64)
    for i in kl.loop_range(sizes[0]):
        for d in kl.loop_range(sizes[1]):
            for h in kl.loop_range(sizes[2]):
                starts[at] = i * steps[0] + d * steps[1] + h * steps[2]
                at = at + 1


@kl.kernel
def tap_offsets(
    offsets: kl.Out,
    depth: kl.Size,
    channel: kl.Stride,
    axes: tuple[AxisNumbers[kl.Number], ...],
    *,
    strides: tuple[int, int, int],
) -> None:
    """Write what the weights of a channel read from the first pixel on: input channels, taps."""
    at = kl.constant(0, int64)
    deep, high, wide = map(LineAxis, axes, strides)
    for c in kl.loop_range(depth):
        for d in kl.loop_range(deep.of.taps):
            for h in kl.loop_range(high.of.taps):
                for w in kl.loop_range(wide.of.taps):
                    offsets[at] = c * channel + deep.at(d) + high.at(h) + wide.at(w)
                    at = at + 1


@kl.kernel
def pack_lines(
    g: kl.In,
    starts: kl.In,
    panels: kl.Out,
    of: Pixels[kl.Number],
    group_step: kl.Stride,
    step: kl.Stride,
    turns: kl.Size,
    *,
    width: int,
    lanes: int,
    together: int,
) -> None:
    """Pack ``turns`` rows of pixels from y on of panel x of channels, which are ``step`` apart.

    A row is groups of ``together`` pixels of each channel, and zeros up to the panel's line; lines
    beyond the last row are zeros. Elements of g are bits.
    """
    panel, group = kl.cube_position(0), kl.cube_position(2)
    first = kl.cube_position(1) * turns
    base = of.start(group, panel, width, together)
    for v in kl.loop_range(0, width, lanes):
        column = panel * width + v
        for number in kl.loop_range(first, kl.min(first + turns, of.room)):
            at = group * group_step + starts[kl.min(number, of.lines - 1)]
            to = base + number * of.line * (width * together) + v * together
            wide = kl.select(number < of.lines, of.wide, kl.constant(0, of.wide.dtype))
            for p in kl.loop_range(0, of.line, lanes):
                inside = below(wide - p * together, lanes * together)
                square = []
                for i in kl.range(lanes):
                    place = kl.min(column + i, of.columns - 1) * step
                    taken = g.load(at + place + p * together, lanes * together, mask=inside)
                    word = kl.bitcast(taken, uint32)
                    zero = kl.constant(0, uint32, lanes)
                    square.append(kl.select(column + i < of.columns, word, zero))
                square = transpose(square)
                for i in kl.range(lanes):
                    if p + i < of.line:
                        pair = kl.bitcast(square[i], panels.dtype)
                        panels.store(to + (p + i) * (width * together), pair)


@kl.kernel
def multiply_lines(
    x: kl.In,
    offsets: kl.In,
    starts: kl.In,
    panels: kl.In,
    c: kl.Out,
    of: Pixels[kl.Number],
    block: kl.Size,
    turns: kl.Size,
    *,
    plan: Packed,
    together: int,
    odd: bool,
) -> None:
    """Compute ``block`` weights from y on, for panel x of output channels of group z.

    ``turns`` rows of pixels are a pass. ``together``: the pixels of an instruction.
    """
    panel, group = kl.cube_position(0), kl.cube_position(2)
    rows, lanes, width = plan.rows, plan.lanes, plan.width
    sums = kl.private((ROOM + rows) * width, plan.accumulate, align=64)
    line = of.line * (width * together)
    right = of.start(group, panel, width, together)
    first = kl.cube_position(1) * block
    last = kl.min(first + block, of.rows)
    tile = Tile(x, panels, [None] * plan.vectors, lanes, together)
    for begin in kl.loop_range(0, kl.max(of.lines, 1), turns):
        end = kl.min(begin + turns, of.lines)
        for row in kl.loop_range(first, last, rows):
            shifts = [
                group * of.x_group + offsets[kl.min(row + r, last - 1)] for r in kl.range(rows)
            ]
            acc = kl.registers((rows, plan.vectors), plan.accumulate, lanes)
            if begin > 0:
                for r in kl.range(rows):
                    for v in kl.range(plan.vectors):
                        acc[r, v] = sums.load((row - first + r) * width + v * lanes, lanes)
            for number in kl.loop_range(begin, end):
                start = starts[number]
                at = [shift + start for shift in shifts]
                add_line(tile, acc, at, right + number * line, of.wide // together, plan, odd)
            for r in kl.range(rows):
                for v in kl.range(plan.vectors):
                    sums.store((row - first + r) * width + v * lanes, acc[r, v])
    store_weights(sums, c, of, (first, last), group, panel, width, lanes)


@kl.helper
def store_weights(
    sums: kl.Pointer,
    c: kl.Pointer,
    of: Pixels[kl.Number],
    rows: tuple[kl.Number, kl.Number],
    group: kl.Number,
    panel: kl.Number,
    width: int,
    lanes: int,
) -> None:
    """Write sums of a panel, rows of ``width`` channels, as the channels' rows of weights."""
    first, last = rows
    for row in kl.loop_range(first, last, lanes):
        for v in kl.loop_range(0, width, lanes):
            square = []
            for i in kl.range(lanes):
                near = kl.min(row + i, last - 1) - first
                square.append(sums.load(near * width + v, lanes))
            column = panel * width + v
            to = (group * of.columns + column) * of.rows + row
            inside = below(last - row, lanes)
            store_transposed(square, c, to, of.rows, 0, of.columns - column, inside)


@kl.helper
def add_line(
    tile: Tile,
    acc: kl.Registers,
    at: list[kl.Number],
    right: kl.Number,
    groups: kl.Number,
    plan: Packed,
    odd: bool,
) -> None:
    """Add the products of a row of pixels: of the input from ``at`` on, and a panel's lines."""
    group = tile.group
    step = plan.width * group
    main = groups // plan.unroll * plan.unroll
    for p in kl.loop_range(0, main, plan.unroll):
        tile.steps(acc, at, right, p, group, step, plan.unroll)
    if plan.unroll > 1:
        for p in kl.loop_range(main, groups):
            tile.steps(acc, at, right, p, group, step, 1)
    if odd:
        add_last(tile, acc, at, groups * group, right + groups * step)
