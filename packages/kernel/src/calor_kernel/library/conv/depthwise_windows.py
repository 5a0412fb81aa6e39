"""Grouped convolutions of large windows and their gradients on GPUs, a column of taps at a time.

Requirements: a window of hundreds of taps fits neither the registers nor an unrolled loop. A cube
stages a tile of a channel of its groups with the factors that meet it: the windows, or for a weight
gradient the output gradient (see :class:`.depthwise_staging.Tile`). A unit then has a block of rows
and goes through the columns of the factors; it holds one column in registers, or a piece of a long
one, and reads each staged value of the column once for all its rows. Adjacent units have adjacent
columns. Depthwise convolutions have one channel a group; the others stage each in turn.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.depthwise_items import Operand, over_items
from calor_kernel.library.conv.depthwise_staging import Share, Tile
from calor_kernel.library.conv.direct_blocks import Block, Line, write_block
from calor_kernel.library.conv.exact_taps import Pixels, Reach
from calor_kernel.library.conv.split_sums import Items
from calor_kernel.library.conv.vector_tiles import Strides, multiply_add
from calor_kernel.library.conv.volume_axis import PlanesOnDevice
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer


@kl.helper
def add_columns(
    acc: kl.Registers,
    held: kl.Pointer,
    at: kl.Index,
    factors: kl.Pointer,
    of: kl.Index,
    blocks: tuple[Block, Block],
    tile: Tile,
    columns: int,
    pitch: int,
    lines: int,
) -> None:
    """Add the products of a block of rows with all columns of its factors.

    ``at``: where the staged rows of the block begin, ``of``: its first factor; ``pitch``: the
    distance of rows of factors, of which there are ``lines``. A column is added in pieces of as
    many factors as the block has taps.
    """
    down, across = blocks
    (rows, right), (line, _) = tile.spans, tile.pitches
    begin = across.start - right.low
    pieces, rest = lines // down.taps, lines % down.taps
    for first, count, taps in ((0, pieces, down.taps), (pieces * down.taps, 1, rest)):
        if not count * taps:
            continue
        block = replace(down, taps=taps, start=down.start + first * down.summed)
        beside = block.pairs()
        for piece in kl.loop_range(0, count):
            far = at + piece * (taps * down.summed * line) + begin
            base = of + first * pitch + piece * (taps * pitch)
            for column in kl.loop_range(0, columns):
                near = [factors[base + tap * pitch + column] for tap in kl.range(taps)]
                for row, uses in beside.items():
                    value = held[far + (row - rows.low) * line + column * across.summed]
                    for output, tap in uses:
                        acc[output, 0] = multiply_add(near[tap], value, acc[output, 0])


@kl.kernel
def depthwise_windows(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    groups: kl.Size,
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    depth: kl.Size,
    w_steps: Strides[kl.Number],
    c_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    planes: PlanesOnDevice | None,
    after: After | None,
    *,
    blocks: tuple[Block, Block],
    tile: Tile,
    taps: tuple[int, int],
    share: Share,
    units: int,
    together: int,
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of an output of a cube's groups; a convolution or its input gradient.

    ``parts``: the tiles of an image, by groups, outputs of a group, down and across. The axes of
    the strides are images, groups and summed channels, of which there are ``depth``; of ``w``:
    groups, outputs and summed channels; of ``c``: images, groups and outputs. With ``planes``,
    images are planes of volumes, and summed channels taps along the volumes' first axis.
    """
    kl.launch_attributes(cubes_per_core=together)
    image, chunk, output, *numbers = kl.unravel(kl.cube_position(0), (0, *parts))
    first = chunk * tile.channels
    tops = [number * by for number, by in zip(numbers, share.blocks, strict=True)]
    window = prod(taps) | 1
    held, factors = kl.shared(tile.size, accumulate), kl.shared(tile.channels * window, accumulate)
    near, *mine = share.of_unit()
    group = first + near
    acc = kl.registers((blocks[0].outputs, 1), accumulate)
    for d in kl.loop_range(0, depth):
        for e in kl.loop_range(kl.unit_index(), tile.channels * prod(taps), units):
            beside, tap = e // prod(taps), e % prod(taps)
            # Groups beyond the last are read as the first and not used.
            of = w_steps.at(first + kl.select(first + beside < groups, beside, 0), output)
            of = of + tap // taps[1] * lines[0].b + tap % taps[1] * lines[1].b
            factors[beside * window + tap] = w[of + d * w_steps.inner].to(accumulate)
        sizes = [line.size for line in lines]
        if planes is None:
            source = x_steps.at(image, first) + d * x_steps.inner
        else:
            volume, begin, there = planes.seen(image, d)
            source = x_steps.at(volume, first) + begin
            sizes[0] = kl.select(there, sizes[0], 0)
        tile.stage(
            held, x, source, x_steps.middle, groups - first, tops, sizes,
            [line.a for line in lines], units, accumulate,
        )  # fmt: skip
        kl.barrier()
        if (near < tile.channels) & (group < groups):
            add_columns(
                *(
                    acc,
                    held,
                    near * tile.plane + tile.at(mine),
                    factors,
                    near * window,
                    blocks,
                    tile,
                    taps[1],
                    taps[1],
                    taps[0],
                )
            )
        kl.barrier()
    if (near < tile.channels) & (group < groups):
        volume, before = image, None
        if planes is not None:
            volume, before, _ = planes.made(image)
        to = c_steps.at(volume, group) + output * c_steps.inner
        ends = writer(epilogue, after, c, volume)
        places = [top + number for top, number in zip(tops, mine, strict=True)]
        channel = group * parts[1].divisor + output
        write_block(acc, c, to, ends, channel, blocks, lines, places, before)


@kl.kernel
def depthwise_weight_windows(
    x: kl.In,
    g: kl.In,
    c: kl.Out,
    groups: kl.Size,
    items: Items[kl.Number],
    pair: tuple[kl.FastDivmod, ...],
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    g_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    planes: PlanesOnDevice | None,
    *,
    blocks: tuple[Block, Block],
    tile: Tile,
    given: Tile,
    taps: tuple[int, int],
    apart: tuple[int, int],
    share: Share,
    units: int,
    together: int,
    accumulate: DType,
) -> None:
    """Compute a part of the weight gradients of a cube's groups: channels from x, parts from y.

    ``pair``: the output and input channels of a group, of which a cube has one. An item is a tile
    of the output gradient, ``given``; ``parts``: those of an image down and across. A unit
    has a block of the ``taps``, which are ``apart`` in the result. The axes of the strides are
    images, groups and channels. With ``planes``, images are planes of volumes, and input channels
    taps along their first axis.
    """
    kl.launch_attributes(cubes_per_core=together)
    chunk, output, input = kl.unravel(kl.cube_position(0), (0, *pair))
    first, split = chunk * tile.channels, kl.cube_position(1)
    held, factors = kl.shared(tile.size, accumulate), kl.shared(given.size, accumulate)
    near, down, across = share.of_unit()
    acc = kl.registers((blocks[0].outputs, 1), accumulate)

    def add() -> None:
        if near < tile.channels:
            at = near * tile.plane + down * (blocks[0].step * tile.pitches[0])
            at = at + across * blocks[1].step
            of, (tall, wide) = near * given.plane, given.counts
            add_columns(acc, held, at, factors, of, blocks, tile, wide, wide, tall)

    both = Operand(tile, held, x, x_steps, input), Operand(given, factors, g, g_steps, output)
    if planes is not None:
        both = (
            Operand(tile, held, x, x_steps, 0, lambda image: planes.seen(image, input)),
            Operand(given, factors, g, g_steps, 0, planes.made),
        )
    over_items(items, split, parts, (1, 1), both, first, groups, lines, units, accumulate, add)
    if (near < tile.channels) & (first + near < groups):
        channel = ((first + near) * pair[0].divisor + output) * pair[1].divisor + input
        to = split * items.part_step + channel * prod(taps) + across * apart[1]

        def places(image: kl.Number) -> tuple[kl.Number, kl.Number, kl.Mask]:
            if planes is None:
                at, of = x_steps.at(image, first + near), g_steps.at(image, first + near)
                return at + input * x_steps.inner, of + output * g_steps.inner, True
            volume, begin, there = planes.seen(image, input)
            made, low, _ = planes.made(image)
            at, of = x_steps.at(volume, first + near), g_steps.at(made, first + near)
            return at + begin, of + low, there

        tall, wide = given.counts
        pixels = Pixels(
            (*items.ends(split), 1), parts, (tall, wide),
            lambda numbers: (numbers[0] * tall, numbers[1] * wide), places,
        )  # fmt: skip
        # Taps are the outputs of the blocks here.
        reach = [Reach(block.summed, block.result, block.start) for block in blocks]
        pixels.repair(
            acc, (blocks[0].outputs, 1), x, g, lines, reach,
            lambda number: (down * blocks[0].outputs + number, across),
        )  # fmt: skip
        for r in kl.range(blocks[0].outputs):
            row = down * blocks[0].outputs + r
            if row < taps[0]:
                c[to + row * apart[0]] = acc[r, 0].to(c.dtype)
