"""Depthwise convolutions and their gradients on GPUs, from tiles in shared memory.

Requirements: a window of many taps reads each input many times, so a cube stages a tile of its
channels once, computed as it is summed and with zeros for padding; units then read at constant
distances, without masks. Units stage along the axis whose elements are adjacent, pixels or
channels, and compute along columns, whatever the layout. A unit has a block of rows, for which it
reads each staged value once (see :mod:`.direct_blocks`, whose blocks these are). A weight gradient
sums over a unit's pixels in registers, then over units and parts in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.direct_blocks import Block, Line, window_of, write_block
from calor_kernel.library.conv.split_sums import Items
from calor_kernel.library.conv.vector_tiles import Strides, multiply_add
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer

# Loads of a unit that are under way together while it stages.
_AHEAD = 8


@dataclass(frozen=True, slots=True)
class Span:
    """Staged positions along an axis: ``count`` from ``low`` on, and ``step`` for each block."""

    low: int
    count: int
    step: int

    @staticmethod
    def of(block: Block) -> Span:
        """Return what a block reads."""
        if block.divide == 1 and block.taps:
            reach = block.summed * (block.taps - 1)
            count = block.result * (block.outputs - 1) + abs(reach) + 1
            return Span(block.start + min(reach, 0), count, block.step)
        places = list(block.pairs())
        low = min(places, default=0)
        high = max(places, default=0)
        return Span(low, high - low + 1, block.step)

    @staticmethod
    def outputs(block: Block) -> Span:
        """Return the outputs of a block."""
        return Span(0, block.outputs, block.outputs)

    def along(self, blocks: int) -> Span:
        """Return what adjacent blocks read, or their outputs, if this is that of one."""
        return Span(self.low, (blocks - 1) * self.step + self.count, self.step)


@dataclass(frozen=True, slots=True)
class Tile:
    """A staged tile: channels with their spans of rows and columns.

    ``wide``: the adjacent channels of an access, which divide all channels; 1 if the channels of
    the operand are not adjacent.
    """

    channels: int
    rows: Span
    columns: Span
    wide: int = 1

    @property
    def plane(self) -> int:
        """The distance between channels: odd, so that adjacent channels meet other banks."""
        return self.rows.count * self.columns.count | 1

    @property
    def size(self) -> int:
        """The number of staged elements."""
        return self.channels * self.plane

    @property
    def area(self) -> int:
        """The staged positions of a channel."""
        return self.rows.count * self.columns.count

    def parts(self, units: int) -> int:
        """Return among how many units the channels of a position are shared."""
        return max(1, min(units // self.area, self.channels // self.wide))

    @kl.helper
    def stage(
        self,
        held: kl.Pointer,
        x: kl.Pointer,
        at: kl.Number,
        channel_step: kl.Number,
        channels: kl.Number,
        tops: tuple[kl.Number, kl.Number],
        limits: tuple[kl.Number, kl.Number],
        steps: tuple[kl.Number, kl.Number],
        units: int,
        wide: DType,
    ) -> None:
        """Copy the tile of the blocks at ``tops``; ``limits``: the sizes of the axes.

        ``at``: the first channel of the tile. There are ``channels`` from it on. A unit copies
        channels of a position, whose place is computed once.
        """
        first = [top * span.step + span.low for top, span in zip(tops, self.spans, strict=True)]
        parts, runs = self.parts(units), self.channels // self.wide
        each, total = -(-runs // parts), self.area * parts
        none = kl.constant(0, wide, self.wide)
        turns = max(1, min(_AHEAD // each, -(-total // units)))
        for begin in kl.loop_range(kl.unit_index(), total, units * turns):
            places = []
            for turn in kl.range(turns):
                e = begin + turn * units
                # Units beyond the end load the first position again and store nothing.
                e = kl.select(e < total, e, 0) if turns > 1 else e
                part, pixel = e // self.area, e % self.area
                row, column = first[0] + pixel // self.columns.count, pixel % self.columns.count
                column = first[1] + column
                inside = (row >= 0) & (column >= 0) & (row < limits[0]) & (column < limits[1])
                near = at + kl.select(inside, row * steps[0] + column * steps[1], 0)
                places.append((begin + turn * units < total, part * each, pixel, inside, near))
            for start in kl.range(0, each, _AHEAD):
                found = []
                for there, run, pixel, inside, near in places:
                    for k in kl.range(start, min(start + _AHEAD, each)):
                        channel = (run + k) * self.wide
                        # Channels beyond the last are read as the first and not used.
                        exists = channel < channels
                        if runs % each:
                            exists = exists & (channel < self.channels)
                        to = kl.assume_multiple(
                            near + kl.select(exists, channel * channel_step, 0), self.wide
                        )
                        value = x.load(to, self.wide).to(wide)
                        mask = exists & inside
                        mask = kl.splat(mask, self.wide) if self.wide > 1 else mask
                        found.append((there, channel, pixel, kl.select(mask, value, none)))
                for there, channel, pixel, value in found:
                    if there & (channel < self.channels):
                        for k in kl.range(self.wide):
                            to = (channel + k) * self.plane + pixel
                            held[to] = value[k] if self.wide > 1 else value

    @property
    def spans(self) -> tuple[Span, Span]:
        """The spans of both axes."""
        return self.rows, self.columns


@dataclass(frozen=True, slots=True)
class Share:
    """The blocks of a unit among those of a cube: down, across, for each channel."""

    down: int
    across: int

    @kl.helper
    def of_unit(self) -> tuple[kl.Number, kl.Number, kl.Number]:
        """Return the channel and the numbers of the unit's block down and across."""
        unit = kl.unit_index()
        here = unit % (self.down * self.across)
        return unit // (self.down * self.across), here // self.across, here % self.across


@kl.kernel
def depthwise_tiles(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    groups: kl.Size,
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    w_step: kl.Stride,
    c_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    after: After | None,
    *,
    blocks: tuple[Block, Block],
    tile: Tile,
    share: Share,
    units: int,
    together: int,
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of each of a cube's channels; a convolution or its input gradient.

    ``parts``: the tiles of an image, by channels, down and across. The axes of the strides are
    images, channels, and none.
    """
    kl.launch_attributes(cubes_per_core=together)
    image, chunk, *numbers = kl.unravel(kl.cube_position(0), (0, *parts))
    first = chunk * tile.channels
    tops = numbers[0] * share.down, numbers[1] * share.across
    held = kl.shared(tile.size, accumulate)
    tile.stage(
        held, x, x_steps.at(image, first), x_steps.middle, groups - first, tops,
        (lines[0].size, lines[1].size), (lines[0].a, lines[1].a), units, accumulate,
    )  # fmt: skip
    kl.barrier()
    near, down, across = share.of_unit()
    channel = first + near
    if (near < tile.channels) & (channel < groups):
        weights = window_of(w, channel * w_step, lines, blocks, accumulate)
        acc = kl.registers((blocks[0].outputs, blocks[1].outputs), accumulate)
        at = near * tile.plane + down * (tile.rows.step * tile.columns.count)
        at = at + across * tile.columns.step
        beside = blocks[1].pairs()
        for row, rows in blocks[0].pairs().items():
            for column, columns in beside.items():
                far = (row - tile.rows.low) * tile.columns.count + column - tile.columns.low
                value = held[at + far]
                for r, i in rows:
                    for s, j in columns:
                        acc[r, s] = multiply_add(weights[i][j], value, acc[r, s])
        to = c_steps.at(image, channel)
        ends = writer(epilogue, after, c, image)
        places = tops[0] + down, tops[1] + across
        write_block(acc, c, to, ends, channel, blocks, lines, places)


@dataclass(frozen=True, slots=True)
class Operand:
    """An image of a weight gradient, and where its tile is held; ``channel``: of each group."""

    tile: Tile
    held: kl.Pointer
    image: kl.Pointer
    steps: Strides[kl.Number]
    channel: kl.Index


@kl.helper
def over_items(
    items: Items[kl.Number],
    split: kl.Number,
    parts: tuple[kl.FastDivmod, ...],
    by: tuple[int, int],
    operands: tuple[Operand, Operand],
    first: kl.Number,
    groups: kl.Number,
    lines: tuple[Line[kl.Number], ...],
    units: int,
    wide: DType,
    add: Callable[[], None],
) -> None:
    """Stage the items of a part one after another: the image, the output gradient; add each.

    ``by``: the blocks of an item along each axis; ``first``: the first of a cube's groups.
    """
    for item in kl.loop_range(*items.ends(split)):
        image, *numbers = kl.unravel(item, (0, *parts))
        tops = numbers[0] * by[0], numbers[1] * by[1]
        for k, one in enumerate(operands):
            at = one.steps.at(image, first) + one.channel * one.steps.inner
            sizes = [line.count if k else line.size for line in lines]
            moves = [line.c if k else line.a for line in lines]
            one.tile.stage(
                one.held, one.image, at, one.steps.middle, groups - first, tops,
                (sizes[0], sizes[1]), (moves[0], moves[1]), units, wide,
            )  # fmt: skip
        kl.barrier()
        add()
        kl.barrier()


@kl.kernel
def depthwise_weight_tiles(
    x: kl.In,
    g: kl.In,
    c: kl.Out,
    groups: kl.Size,
    items: Items[kl.Number],
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    g_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    *,
    blocks: tuple[Block, Block],
    tile: Tile,
    given: Tile,
    share: Share,
    units: int,
    together: int,
    accumulate: DType,
) -> None:
    """Compute a part of the weight gradients of a cube's channels: channels from x, parts from y.

    An item is a tile of an image, ``parts``: tiles down and across. ``given``: the tile of the
    output gradient. The axes of the strides are images, channels, and none.
    """
    kl.launch_attributes(cubes_per_core=together)
    first, split = kl.cube_position(0) * tile.channels, kl.cube_position(1)
    taps = blocks[0].taps, blocks[1].taps
    held, outputs = kl.shared(tile.size, accumulate), kl.shared(given.size, accumulate)
    near, down, across = share.of_unit()
    acc = kl.registers(taps, accumulate)
    line, pitch = tile.columns.count, given.columns.count

    def add() -> None:
        if near < tile.channels:
            at = near * tile.plane + down * (tile.rows.step * line) + across * tile.columns.step
            of = near * given.plane + down * (given.rows.step * pitch) + across * given.columns.step
            factors = [
                [outputs[of + r * pitch + s] for s in kl.range(blocks[1].outputs)]
                for r in kl.range(blocks[0].outputs)
            ]
            beside = blocks[1].pairs()
            for row, rows in blocks[0].pairs().items():
                for column, columns in beside.items():
                    far = (row - tile.rows.low) * line + column - tile.columns.low
                    value = held[at + far]
                    for r, i in rows:
                        for s, j in columns:
                            acc[i, j] = multiply_add(factors[r][s], value, acc[i, j])

    both = Operand(tile, held, x, x_steps, 0), Operand(given, outputs, g, g_steps, 0)
    by = share.down, share.across
    over_items(items, split, parts, by, both, first, groups, lines, units, accumulate, add)
    # Units' sums of a row of taps at a time.
    mine = share.down * share.across
    sums = kl.shared(units * taps[1], accumulate)
    for i in kl.range(taps[0]):
        for j in kl.range(taps[1]):
            sums[j * units + kl.unit_index()] = acc[i, j]
        kl.barrier()
        for e in kl.loop_range(kl.unit_index(), tile.channels * taps[1], units):
            channel, tap = e // taps[1], e % taps[1]
            place = tap * units + channel * mine
            total = sums[place]
            for unit in kl.loop_range(1, mine):
                total = total + sums[place + unit]
            if first + channel < groups:
                to = split * items.part_step + (first + channel) * prod(taps) + i * taps[1] + tap
                c[to] = total.to(c.dtype)
        kl.barrier()
