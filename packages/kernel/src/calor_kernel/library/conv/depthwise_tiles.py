"""Depthwise convolutions and their gradients on GPUs, from tiles in shared memory.

Requirements: a window of many taps reads each input many times, so a cube stages a tile of its
channels once, computed as it is summed and with zeros for padding; units then read at constant
distances, without masks. Units stage along the axis whose elements are adjacent, pixels or
channels, and compute along columns, whatever the layout. A unit has a block of rows, for which it
reads each staged value once (see :mod:`.direct_blocks`, whose blocks these are). A weight gradient
sums over a unit's pixels in registers, then over units and parts in a fixed order.
"""

from __future__ import annotations

import math
from itertools import product
from math import prod

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.depthwise_items import Operand, over_items
from calor_kernel.library.conv.depthwise_staging import Share, Tile
from calor_kernel.library.conv.direct_blocks import (
    Block,
    Line,
    reads_of,
    unraveled,
    window_of,
    write_block,
)
from calor_kernel.library.conv.exact_taps import Pixels, Reach
from calor_kernel.library.conv.split_sums import Items
from calor_kernel.library.conv.vector_tiles import Strides, multiply_add
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer


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
    blocks: tuple[Block, ...],
    tile: Tile,
    share: Share,
    units: int,
    together: int,
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of each of a cube's channels; a convolution or its input gradient.

    ``parts``: the tiles of an image, by channels and along each axis. The axes of the strides are
    images, channels, and none.
    """
    kl.launch_attributes(cubes_per_core=together)
    image, chunk, *numbers = kl.unravel(kl.cube_position(0), (0, *parts))
    first = chunk * tile.channels
    tops = [number * by for number, by in zip(numbers, share.blocks, strict=True)]
    held = kl.shared(tile.size, accumulate)
    tile.clear(held, units, accumulate)
    tile.stage(
        held, x, x_steps.at(image, first), x_steps.middle, groups - first, tops,
        [line.size for line in lines], [line.a for line in lines], units, accumulate,
    )  # fmt: skip
    kl.barrier()
    near, *mine = share.of_unit()
    channel = first + near
    if (near < tile.channels) & (channel < groups):
        weights = window_of(w, channel * w_step, lines, blocks, accumulate)
        acc = kl.registers(tuple(block.outputs for block in blocks), accumulate)
        at = near * tile.plane + tile.at(mine)
        for place, uses in reads_of(blocks):
            value = held[at + tile.far(place)]
            for output, tap in uses:
                acc[output] = multiply_add(weights[tap], value, acc[output])
        to = c_steps.at(image, channel)
        ends = writer(epilogue, after, c, image)
        places = [top + number for top, number in zip(tops, mine, strict=True)]
        write_block(acc, c, to, ends, channel, blocks, lines, places)


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
    blocks: tuple[Block, ...],
    tile: Tile,
    given: Tile,
    share: Share,
    units: int,
    together: int,
    accumulate: DType,
) -> None:
    """Compute a part of the weight gradients of a cube's channels: channels from x, parts from y.

    An item is a tile of an image, ``parts``: tiles along each axis. ``given``: the tile of the
    output gradient. The axes of the strides are images, channels, and none.
    """
    kl.launch_attributes(cubes_per_core=together)
    first, split = kl.cube_position(0) * tile.channels, kl.cube_position(1)
    taps = tuple(block.taps for block in blocks)
    held, outputs = kl.shared(tile.size, accumulate), kl.shared(given.size, accumulate)
    tile.clear(held, units, accumulate)
    given.clear(outputs, units, accumulate)
    near, *mine = share.of_unit()
    acc = kl.registers(taps, accumulate)

    def add() -> None:
        if near < tile.channels:
            at, of = near * tile.plane + tile.at(mine), near * given.plane + given.at(mine)
            pixels = product(*(range(block.outputs) for block in blocks))
            factors = {pixel: outputs[of + given.far(pixel)] for pixel in pixels}
            for place, uses in reads_of(blocks):
                value = held[at + tile.far(place)]
                for pixel, tap in uses:
                    acc[tap] = multiply_add(factors[pixel], value, acc[tap])

    both = Operand(tile, held, x, x_steps, 0), Operand(given, outputs, g, g_steps, 0)
    over_items(
        items, split, parts, share.blocks, both, first, groups, lines, units, accumulate, add
    )
    pixels = Pixels(
        (*items.ends(split), 1), parts, tuple(block.outputs for block in blocks),
        lambda numbers: [
            (number * by + own) * block.outputs
            for number, by, own, block in zip(numbers, share.blocks, mine, blocks, strict=True)
        ],
        lambda image: (x_steps.at(image, first + near), g_steps.at(image, first + near), True),
    )  # fmt: skip
    reach = [Reach(block.result, block.summed, block.start) for block in blocks]
    if (near < tile.channels) & (first + near < groups):
        pixels.repair(acc, taps, x, g, lines, reach, lambda number: unraveled(number, taps))
    # Units' sums of a row of taps at a time; several units add those of a channel and a tap.
    wide, sums = taps[-1], kl.shared(units * taps[-1], accumulate)
    each = math.isqrt(share.size - 1) + 1
    some = -(-share.size // each)
    for i, row in enumerate(product(*(range(n) for n in taps[:-1]))):
        for j in kl.range(wide):
            sums[j * units + kl.unit_index()] = acc[(*row, j)]
        kl.barrier()
        for e in kl.loop_range(kl.unit_index(), tile.channels * wide * some, units):
            own, part = e // some, e % some * each
            place = own % wide * units + own // wide * share.size + part
            total = sums[place]
            for unit in kl.loop_range(1, kl.min(each, share.size - part)):
                total = total + sums[place + unit]
            # No other unit reads what this one has added.
            sums[place] = total
        kl.barrier()
        for e in kl.loop_range(kl.unit_index(), tile.channels * wide, units):
            channel, tap = e // wide, e % wide
            place = tap * units + channel * share.size
            total = sums[place]
            for part in kl.range(each, share.size, each):
                total = total + sums[place + part]
            if first + channel < groups:
                to = split * items.part_step + (first + channel) * prod(taps) + i * wide + tap
                c[to] = total.to(c.dtype)
        kl.barrier()
