"""Depthwise convolutions of large windows and their gradients on GPUs, a column of taps at a time.

Requirements: a window of hundreds of taps fits neither the registers nor an unrolled loop. A cube
stages a tile of its channels with the factors that meet it: the windows, or for a weight gradient
the output gradient (see :class:`.depthwise_tiles.Tile`). A unit then has a block of rows and goes
through the columns of the factors; it holds one column in registers, and reads each staged value of
the column once for all its rows. Adjacent units have adjacent columns.
"""

from __future__ import annotations

from math import prod

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.depthwise_tiles import Share, Tile
from calor_kernel.library.conv.direct_blocks import Block, Line, write_block
from calor_kernel.library.conv.vector_tiles import Strides, multiply_add
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer


@kl.helper
def add_columns(
    acc: kl.Registers,
    held: kl.Pointer,
    at: kl.Number,
    factors: kl.Pointer,
    of: kl.Number,
    blocks: tuple[Block, Block],
    pitches: tuple[int, int],
    columns: int,
) -> None:
    """Add the products of a block of rows with all columns of its factors.

    ``at``: what the block reads first, ``of``: its first factor; ``pitches``: the distances of
    staged rows, and of rows of factors.
    """
    down, across = blocks
    beside = down.pairs()
    low, start = min(beside), across.start - min(across.pairs())
    for column in kl.loop_range(0, columns):
        near = [factors[of + tap * pitches[1] + column] for tap in kl.range(down.taps)]
        for row, uses in beside.items():
            value = held[at + (row - low) * pitches[0] + start + column * across.summed]
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
    taps = blocks[0].taps, blocks[1].taps
    window = prod(taps) | 1
    held, factors = kl.shared(tile.size, accumulate), kl.shared(tile.channels * window, accumulate)
    for e in kl.loop_range(kl.unit_index(), tile.channels * prod(taps), units):
        near, tap = e // prod(taps), e % prod(taps)
        # Channels beyond the last are read as the first and not used.
        of = (first + kl.select(first + near < groups, near, 0)) * w_step
        of = of + tap // taps[1] * lines[0].b + tap % taps[1] * lines[1].b
        factors[near * window + tap] = w[of].to(accumulate)
    tile.stage(
        held, x, x_steps.at(image, first), x_steps.middle, groups - first, tops,
        (lines[0].size, lines[1].size), (lines[0].a, lines[1].a), units, accumulate,
    )  # fmt: skip
    kl.barrier()
    near, down, across = share.of_unit()
    channel = first + near
    if (near < tile.channels) & (channel < groups):
        acc = kl.registers((blocks[0].outputs, 1), accumulate)
        at = near * tile.plane + down * (tile.rows.step * tile.columns.count)
        at = at + across * tile.columns.step
        pitches = tile.columns.count, taps[1]
        add_columns(acc, held, at, factors, near * window, blocks, pitches, taps[1])
        to = c_steps.at(image, channel)
        ends = writer(epilogue, after, c, image)
        places = tops[0] + down, tops[1] + across
        write_block(acc, c, to, ends, channel, blocks, lines, places)


@kl.kernel
def depthwise_weight_windows(
    x: kl.In,
    g: kl.In,
    c: kl.Out,
    groups: kl.Size,
    items: kl.Size,
    turns: kl.Size,
    part_step: kl.Size,
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    g_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    *,
    blocks: tuple[Block, Block],
    tile: Tile,
    given: Tile,
    taps: tuple[int, int],
    share: Share,
    units: int,
    together: int,
    accumulate: DType,
) -> None:
    """Compute a part of the weight gradients of a cube's channels: channels from x, parts from y.

    An item is a tile of the output gradient, ``given``; ``parts``: those of an image down and
    across. A cube adds ``turns`` of all ``items``, and a unit has a block of the ``taps``. The axes
    of the strides are images, channels, and none.
    """
    kl.launch_attributes(cubes_per_core=together)
    first, split = kl.cube_position(0) * tile.channels, kl.cube_position(1)
    held, factors = kl.shared(tile.size, accumulate), kl.shared(given.size, accumulate)
    near, down, across = share.of_unit()
    acc = kl.registers((blocks[0].outputs, 1), accumulate)
    for item in kl.loop_range(split * turns, kl.min((split + 1) * turns, items)):
        image, *tops = kl.unravel(item, (0, *parts))
        tile.stage(
            held, x, x_steps.at(image, first), x_steps.middle, groups - first, (tops[0], tops[1]),
            (lines[0].size, lines[1].size), (lines[0].a, lines[1].a), units, accumulate,
        )  # fmt: skip
        given.stage(
            factors, g, g_steps.at(image, first), g_steps.middle, groups - first,
            (tops[0], tops[1]), (lines[0].count, lines[1].count), (lines[0].c, lines[1].c), units,
            accumulate,
        )  # fmt: skip
        kl.barrier()
        if near < tile.channels:
            at = near * tile.plane + down * (blocks[0].step * tile.columns.count)
            at = at + across * blocks[1].step
            pitches = tile.columns.count, given.columns.count
            of = near * given.plane
            add_columns(acc, held, at, factors, of, blocks, pitches, given.columns.count)
        kl.barrier()
    if (near < tile.channels) & (first + near < groups):
        to = split * part_step + (first + near) * prod(taps) + across
        for r in kl.range(blocks[0].outputs):
            row = down * blocks[0].outputs + r
            if row < taps[0]:
                c[to + row * taps[1]] = acc[r, 0].to(c.dtype)
