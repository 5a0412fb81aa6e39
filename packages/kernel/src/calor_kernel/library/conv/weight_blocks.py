"""Weight gradients by blocks of pixels: of small groups and few filters.

Requirements: those of :mod:`.direct_blocks`, whose blocks these are. Sums over pixels are in
registers, then over the units of a cube, and the parts of cubes are added by another launch in a
fixed order.
"""

from __future__ import annotations

from itertools import product
from math import prod

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.direct_blocks import (
    Block,
    Line,
    place_of,
    reads_of,
    seen_by,
    unraveled,
)
from calor_kernel.library.conv.exact_taps import Pixels, Reach
from calor_kernel.library.conv.split_sums import Items
from calor_kernel.library.conv.vector_tiles import Strides, multiply_add


@kl.kernel
def direct_weight_blocks(
    x: kl.In,
    g: kl.In,
    c: kl.Out,
    items: Items[kl.Number],
    pair: tuple[kl.FastDivmod, ...],
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    g_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    *,
    blocks: tuple[Block, ...],
    units: int,
    together: int,
    accumulate: DType,
) -> None:
    """Compute a part of the weight gradient of a pair of channels: pairs from x, parts from y.

    ``pair``: output and input channels of a group. An item is a block of pixels of g; ``parts``:
    blocks along each axis. The axes of the strides are images, groups and channels.
    """
    kl.launch_attributes(cubes_per_core=together)
    channel, split = kl.cube_position(0), kl.cube_position(1)
    group, output, input = kl.unravel(channel, (0, *pair))
    unit = kl.unit_index()
    taps = tuple(block.taps for block in blocks)
    acc, reads = kl.registers(taps, accumulate), reads_of(blocks)
    begin, end = items.ends(split)
    for item in kl.range(begin + unit, end, units):
        image, *tops = kl.unravel(item, (0, *parts))
        seen = seen_by(blocks, lines, tops, accumulate)
        at = x_steps.at(image, group) + input * x_steps.inner
        of = g_steps.at(image, group) + output * g_steps.inner
        given = {}
        for pixel in product(*(range(block.outputs) for block in blocks)):
            there, near = place_of(pixel, blocks, lines, tops)
            value = g[of + kl.select(there, near, 0)].to(accumulate)
            given[pixel] = kl.select(there, value, kl.constant(0, accumulate))
        for place, uses in reads:
            value = seen.read(x, at, place, accumulate)
            for pixel, weight in uses:
                acc[weight] = multiply_add(given[pixel], value, acc[weight])
    pixels = Pixels(
        (begin + unit, end, units), parts, tuple(block.outputs for block in blocks),
        lambda tops: [top * block.outputs for top, block in zip(tops, blocks, strict=True)],
        lambda image: (
            x_steps.at(image, group) + input * x_steps.inner,
            g_steps.at(image, group) + output * g_steps.inner,
            True,
        ),
    )  # fmt: skip
    reach = [Reach(block.result, block.summed, block.start) for block in blocks]
    pixels.repair(acc, taps, x, g, lines, reach, lambda number: unraveled(number, taps))
    planes, count = units // kl.plane_size(), prod(taps)
    sums = kl.shared(planes * count, accumulate)
    for number, mine in enumerate(list(acc)):
        whole = kl.plane_reduce("add", mine)
        if kl.lane_position() == 0:
            sums[unit // kl.plane_size() * count + number] = whole
    kl.barrier()
    for tap in kl.range(unit, count, units):
        total = sums[tap]
        for plane in kl.range(1, planes):
            total = total + sums[plane * count + tap]
        c[split * items.part_step + channel * count + tap] = total.to(c.dtype)
