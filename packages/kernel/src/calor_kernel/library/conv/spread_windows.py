"""Lines of few windows, from images with channels last.

Requirements: vectors run along channels, since such images are narrow and have many. A product
reads a line of the channels and taps of each window, in the order of weights. Taps that see padding
are zeros, so images are not padded first.
"""

from __future__ import annotations

from math import prod

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.contract.work import Input, View
from calor_kernel.library.conv.fold_taps import SeenAxis, places, seen_axes
from calor_kernel.library.conv.padded_rows import three, vectors
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.conv.vector_tiles import below
from calor_kernel.library.steps import Steps

# Elements of the lines that a cube writes at least.
_BLOCK = 1 << 14


@kl.kernel
def spread_windows(
    x: kl.In,
    lines: kl.Out,
    channels: kl.Size,
    windows: kl.Size,
    block: kl.Size,
    axes: tuple[SeenAxis[kl.Number, kl.FastDivmod], ...],
    *,
    lanes: int,
) -> None:
    """Write ``block`` lines from x on, of the windows of one image, y of all groups and images.

    ``x``: groups, images, pixels and channels. A line has channels and taps. The axes count the
    windows, and their taps see pixels.
    """
    deep, high, wide = axes
    taps = deep.taps * high.taps * wide.taps
    image = x.at(kl.cube_position(1) * deep.windows * high.windows * wide.windows * channels)
    out = lines.at(kl.cube_position(1) * windows * channels * taps)
    apart = kl.constant(tuple(kl.range(lanes)), int32) * kl.splat(kl.cast(taps, int32), lanes)
    begin = kl.cube_position(0) * block
    for window in kl.loop_range(begin, kl.min(begin + block, windows)):
        z, y, i = places(window, axes)
        line = out.at(window * channels * taps)
        for d in kl.loop_range(0, deep.taps):
            plane, in_planes = deep.seen(z, d)
            for h in kl.loop_range(0, high.taps):
                up, in_rows = high.seen(y, h)
                for w in kl.loop_range(0, wide.taps):
                    along, in_row = wide.seen(i, w)
                    inside = in_planes & in_rows & in_row
                    pixel = (plane * high.windows + up) * wide.windows + along
                    tap = (d * high.taps + h) * wide.taps + w
                    for channel in kl.loop_range(0, channels, lanes):
                        exists = below(channels - channel, lanes)
                        seen = exists & kl.splat(inside, lanes)
                        value = image.load(pixel * channels + channel, lanes, mask=seen)
                        line.at(channel * taps + tap).store(apart, value, mask=exists)


def add_windows(forward: Correlation, steps: Steps, info: DeviceInfo) -> Bound:
    """Add the launches that write the windows of a convolution as lines, and return their memory.

    The lines are of groups, images, output pixels, channels and taps.
    """
    axes, dtype = three(forward), forward.a.dtype
    images, groups, _ = forward.leads
    channels = forward.depth
    shape = (groups.size, images.size, *(axis.size for axis in axes), channels.size)
    moves = (groups.a, images.a, *(axis.a for axis in axes), channels.a)
    last = steps.room(prod(shape), dtype)
    steps.copy(View(shape, moves, dtype, forward.a.offset), Input(0), last.place, info)
    windows, taps = prod(axis.count for axis in axes), prod(axis.terms for axis in axes)
    size = groups.size * images.size * windows * channels.size * taps
    lines = steps.room(size, dtype)
    block = greatest(1, _BLOCK // greatest(1, channels.size * taps))
    steps.add(
        spread_windows,
        Grid((-(-windows // block), groups.size * images.size, 1)),
        Effort("conv windows", nbytes=(prod(shape) + size) * dtype.itemsize),
        x=last,
        lines=lines,
        channels=channels.size,
        windows=windows,
        block=block,
        axes=seen_axes(axes),
        lanes=vectors(forward, info)[1],
    )
    return lines
