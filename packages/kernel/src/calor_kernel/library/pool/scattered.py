"""Gradients of large windows' extremes on a CPU: each window adds to its chosen element.

Requirements: the work is that of the windows, not of their positions. Planes of windows are the
parts, so nothing is atomic, and an element's terms are added in the order of its windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Launch, Output, View
from calor_kernel.language.declared import N
from calor_kernel.library.conv.vector_tiles import Slide, below
from calor_kernel.library.pool.problem import Windows, leading, reduction

# Elements of a cube, and positions of a window from which its elements gather for longer than from
# rows, of which there are up to so many axes.
_GRAIN: Final = 1 << 15
_POSITIONS: Final = 32
_AXES: Final = 2
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Plane(Generic[N, D]):
    """A plane of windows: its axes, their windows and taps as divisors, and strides of gradients.

    ``size``: the elements of the plane; ``count``: its windows.
    """

    slides: tuple[Slide[N], ...]
    counts: tuple[kl.DivisorOf[D], ...]
    taps: tuple[kl.DivisorOf[D], ...]
    strides: tuple[kl.StrideOf[N], ...]
    size: kl.SizeOf[N]
    count: kl.SizeOf[N]


@kl.kernel
def scatter_gradient(
    g: kl.In,
    chosen: kl.In,
    c: kl.Out,
    planes: kl.Size,
    turns: kl.Size,
    step: kl.Stride,
    over: Plane[kl.Number, kl.FastDivmod],
    *,
    lanes: int,
    wide: DType,
) -> None:
    """Write ``turns`` planes from x on: zeros, and sums of g at the chosen elements.

    ``wide``: the dtype of sums; of a narrower g an element is given one term at most.
    """
    first = kl.cube_position(0) * turns
    zero = kl.constant(0, c.dtype, lanes)
    for plane in kl.loop_range(first, kl.min(first + turns, planes)):
        to = plane * over.size
        for i in kl.loop_range(0, over.size, lanes):
            c.store(to + i, zero, mask=below(over.size - i, lanes))
        for window in kl.loop_range(over.count):
            number = chosen[plane * over.count + window].to(window.dtype)
            if number > 0:
                places = kl.unravel(window, over.counts)
                taps = kl.unravel(number - 1, over.taps)
                at, of = to * 0, plane * step
                for slide, place, tap, along in zip(
                    over.slides, places, taps, over.strides, strict=True
                ):
                    position = place * slide.stride + tap * slide.dilation + slide.start
                    at, of = at * slide.size + position, of + place * along
                c[to + at] = (c[to + at].to(wide) + g[of].to(wide)).to(c.dtype)


def scattered(windows: Windows, g: View, chosen: Bound, info: DeviceInfo) -> Launch | None:
    """Return the launch of the elements' gradients; None if they had better gather them.

    Sums of half types are rounded once, so they are gathered, unless windows lie apart.
    """
    leads = leading((g,), len(windows.lead))
    if info.max_units > 1 or len(leads) > 1:
        return None
    if windows.rank <= _AXES and not exceeds(windows.places, _POSITIONS - 1):
        return None
    apart = all(s.stride >= (s.window - 1) * s.dilation + 1 for s in windows.slides)
    wide = reduction("sum", g.dtype).dtype
    if not apart and wide is not g.dtype:
        return None
    planes, size = prod(windows.lead), prod(s.size for s in windows.slides)
    count = prod(s.count for s in windows.slides)
    turns = greatest(1, _GRAIN // (size + count))
    nbytes = (windows.elements + windows.windows) * g.dtype.itemsize
    return launch(
        scatter_gradient,
        Grid.line(-(-planes // turns)),
        Effort("window gradient scatter", windows.elements, nbytes),
        g=operand(0, g),
        chosen=chosen,
        c=Bound(Output(), g.dtype),
        planes=planes,
        turns=turns,
        step=leads[0].strides[0],
        over=Plane(
            windows.slides,
            tuple(s.count for s in windows.slides),
            tuple(s.window for s in windows.slides),
            g.strides[len(windows.lead) :],
            size,
            count,
        ),
        lanes=max(1, info.vector_bytes // g.dtype.itemsize),
        wide=wide,
    )
