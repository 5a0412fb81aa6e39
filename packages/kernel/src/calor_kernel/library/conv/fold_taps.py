"""Sums of what few windows give to each pixel, from lines of channels.

Requirements: a product of few windows has a line of the channels and taps of each window, so
vectors run along channels, whatever the image size. Any stride, dilation and padding; pixels that
no window sees get zeros. The terms of a pixel are added in the order of taps. Tiles are transposed
in registers, because the result has channels first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar

from calor.dtypes import DType, int32
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.contract.work import Output, View
from calor_kernel.language.declared import N
from calor_kernel.library.conv.padded_rows import three, vectors
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.vector_tiles import below, share, store_transposed
from calor_kernel.library.steps import Steps

# Elements of the lines that a cube sums at least.
_BLOCK = 1 << 14
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class SeenAxis(Generic[N, D]):
    """An axis of ``count`` pixels, which ``windows`` see by their ``taps``.

    Pixel i is seen by tap j of window ``(result * i + summed * j + start) / divide``, if that is an
    integer. For what a convolution reads, pixels and windows change places.
    """

    count: kl.DivisorOf[D]
    taps: kl.SizeOf[N]
    result: kl.SizeOf[N]
    summed: kl.StrideOf[N]
    start: kl.StrideOf[N]
    divide: kl.DivisorOf[D]
    windows: kl.SizeOf[N]

    def seen(
        self: SeenAxis[kl.Number, kl.FastDivmod], pixel: kl.Number, tap: kl.Number
    ) -> tuple[kl.Number, kl.Mask]:
        """Return the window whose tap sees a pixel, and whether there is one."""
        place = pixel * self.result + tap * self.summed + self.start
        window = self.divide.divide(kl.max(place, 0))
        return window, (window * self.divide.divisor == place) & (window < self.windows)


def places(
    number: kl.Number, axes: Sequence[SeenAxis[kl.Number, kl.FastDivmod]]
) -> tuple[kl.Number, ...]:
    """Return the places along three axes of a pixel with a number."""
    found: tuple[kl.Number, ...] = kl.unravel(number, (0, axes[1].count, axes[2].count))
    return found


@kl.kernel
def fold_taps(
    lines: kl.In,
    c: kl.Out,
    images: kl.Size,
    groups: kl.Size,
    channels: kl.Size,
    block: kl.Size,
    axes: tuple[SeenAxis[kl.Number, kl.FastDivmod], ...],
    *,
    lanes: int,
    accumulate: DType,
    alone: bool,
) -> None:
    """Sum a block of channels from x, of group y and image z.

    ``lines``: groups, images, windows, channels and taps. ``alone``: whether a window has one tap,
    so that channels are adjacent.
    """
    group, image = kl.cube_position(1), kl.cube_position(2)
    deep, high, wide = axes
    pixels = deep.count.divisor * high.count.divisor * wide.count.divisor
    taps = deep.taps * high.taps * wide.taps
    line = channels * taps
    windows = deep.windows * high.windows * wide.windows
    image_lines = lines.at((group * images + image) * windows * line)
    result = (image * groups + group) * channels * pixels
    apart = kl.constant(tuple(kl.range(lanes)), int32) * kl.splat(kl.cast(taps, int32), lanes)
    square = kl.private(lanes * lanes, accumulate, align=64)
    for row in kl.loop_range(0, lanes * lanes, lanes):
        square.store(row, kl.constant(0, accumulate, lanes))
    first, last = share(kl.cube_position(0), block, channels)
    for channel in kl.range(first, last, lanes):
        inside = below(last - channel, lanes)
        for begin in kl.loop_range(0, pixels, lanes):
            here = kl.min(pixels - begin, lanes)
            for i in kl.loop_range(0, here):
                z, y, x = places(begin + i, axes)
                total = kl.registers(1, accumulate, lanes)
                for d in kl.loop_range(0, deep.taps):
                    plane, in_planes = deep.seen(z, d)
                    if in_planes:
                        for h in kl.loop_range(0, high.taps):
                            up, in_rows = high.seen(y, h)
                            if in_rows:
                                for w in kl.loop_range(0, wide.taps):
                                    along, in_row = wide.seen(x, w)
                                    if in_row:
                                        window = (plane * high.windows + up) * wide.windows + along
                                        tap = (d * high.taps + h) * wide.taps + w
                                        at = window * line + channel * taps + tap
                                        if alone:
                                            term = image_lines.load(at, lanes, mask=inside)
                                        else:
                                            term = image_lines.at(at).load(apart, mask=inside)
                                        total[0] = total[0] + term.to(accumulate)
                square.store(i * lanes, total[0])
            rows = [square.load(r * lanes, lanes) for r in kl.range(lanes)]
            to = result + begin
            store_transposed(rows, c, to, pixels, channel, last, below(here, lanes))


def seen_axes(axes: Sequence[Axis[int]]) -> list[SeenAxis[int, int]]:
    """Return the numbers of axes for kernels."""
    return [SeenAxis(a.count, a.terms, a.result, a.summed, a.start, a.divide, a.size) for a in axes]


def _is_one_tap(axis: Axis[int]) -> bool:
    """Return whether each pixel of an axis has one window, at its own place."""
    return bool(axis.terms == axis.divide == 1 and axis.start == 0 and axis.count == axis.size)


def add_fold(problem: Correlation, lines: Bound, steps: Steps, info: DeviceInfo) -> None:
    """Add the launch that sums ``lines`` to the result of a problem whose taps they have."""
    axes = three(problem)
    images, groups, channels = problem.leads
    dtype = problem.a.dtype
    if all(map(_is_one_tap, axes)):
        pixels = prod(axis.count for axis in axes)
        shape = (images.size, groups.size, channels.size, pixels)
        image = pixels * channels.size
        moves = (image, images.size * image, 1, channels.size)
        steps.copy(View(shape, moves, dtype), lines.place, Output(0), info)
        return
    accumulate, lanes = vectors(problem, info)
    taps = prod(axis.terms for axis in axes)
    seen = images.size * prod(axis.size for axis in axes) * taps
    panels = -(-channels.size // lanes)
    # A cube has whole vectors of channels, and all images share the cores.
    each = greatest(1, seen // greatest(images.size, 1) * lanes)
    block = least(panels, greatest(1, _BLOCK // each)) * lanes
    nbytes = groups.size * channels.size * seen * lines.dtype.itemsize
    steps.add(
        fold_taps,
        Grid((greatest(1, channels.size // block), groups.size, images.size)),
        Effort(
            "conv fold",
            groups.size * channels.size * seen,
            nbytes + problem.size * dtype.itemsize,
        ),
        lines=lines,
        c=Bound(Output(), dtype),
        images=images.size,
        groups=groups.size,
        channels=channels.size,
        block=block,
        axes=seen_axes(axes),
        lanes=lanes,
        accumulate=accumulate,
        alone=all(axis.terms == 1 for axis in axes),
    )
