"""Reductions of windows in blocks, for devices whose cubes have many units.

Requirements: neighbouring windows share most of their elements, so a unit has several windows along
the last axis and reads each of their elements once, in whole vectors where lines are aligned. Terms
are taken in the window's row-major order, as :func:`reduce_windows` takes them, so both give the
same bits, and the first of equal extremes counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, View
from calor_kernel.library.conv.row_windows import Along
from calor_kernel.library.copying.transfer import index_of
from calor_kernel.library.pool import blocks
from calor_kernel.library.pool.blocks import UNITS, Blocks, aligned, along_line, span_of
from calor_kernel.library.pool.long_rows import keep_better
from calor_kernel.library.pool.problem import Seen, Windows, leading, reduction
from calor_kernel.library.reduce.reduction_ops import ReductionOp

# Maximum of the terms of a unit's windows, which are unrolled.
_TERMS: Final = 128


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """A plan for blocks of windows.

    ``slides``: the taps by axis. ``start``: of the first window along the last axis. ``lanes``:
    windows of a unit. ``together``: whether the elements from their first window's place on are an
    aligned vector. ``whole``: whether results are aligned vectors. ``choose``: whether the place of
    each extreme is wanted, counted from 1, instead of the reduction.
    """

    slides: tuple[Along, ...]
    start: int
    lanes: int
    together: bool
    whole: bool
    choose: bool

    @property
    def reach(self) -> range:
        """The elements of a unit's windows, by distance from the first window's place."""
        along = self.slides[-1]
        last = (self.lanes - 1) * along.stride + (along.taps - 1) * along.dilation
        return range(self.start, self.start + last + 1)

    def taps(self) -> list[tuple[int, ...]]:
        """Return the taps along the first axes, in order."""
        return list(product(*(range(along.taps) for along in self.slides[:-1])))


@kl.kernel
def reduce_blocks(
    x: kl.In,
    c: kl.Out,
    over: Blocks[kl.Number, kl.FastDivmod],
    *,
    plan: WindowPlan,
    by: ReductionOp,
) -> None:
    """Reduce ``plan.lanes`` windows of x, or find their extremes."""
    number = kl.absolute_position()
    exists = number < over.count
    place = kl.unravel(kl.min(number, over.count - 1), over.sizes)
    lead, along, size = len(over.leads), plan.slides[-1], over.slides[-1].size
    base = kl.offset_of(place[:lead], [axis.strides[0] for axis in over.leads], number * 0)
    *outer, block = place[lead:]
    first, lanes = block * (plan.lanes * along.stride), plan.lanes * along.stride
    totals = [kl.registers(1, by.dtype, 1, by.identity) for _ in range(plan.lanes)]
    numbers = [kl.registers(1, int32) for _ in range(plan.lanes)]
    columns = {d: (first + d >= 0) & (first + d < size) for d in plan.reach}
    for line, taps in enumerate(plan.taps()):
        inside, at = exists, base
        for axis, (index, down) in enumerate(zip(outer, taps, strict=True)):
            slide = over.slides[axis]
            element = index * slide.stride + down * plan.slides[axis].dilation + slide.start
            inside = inside & (element >= 0) & (element < slide.size)
            at = at + element * over.strides[0][axis]
        step, vector = over.strides[0][-1], lanes if plan.together else 0
        found = along_line(x, at, first, inside, size, step, plan.reach, vector, by.identity)
        for window in range(plan.lanes):
            for tap in range(along.taps):
                distance = plan.start + window * along.stride + tap * along.dilation
                value = found[distance].to(by.dtype)
                total = totals[window]
                if plan.choose:
                    mark = kl.constant(line * along.taps + tap + 1, int32)
                    there = inside & columns[distance]
                    keep_better(total, numbers[window], value, mark, there, by)
                else:
                    total[0] = by.combine(total[0], value)
    made = [one[0].to(c.dtype) for one in (numbers if plan.choose else totals)]
    write_windows(made, c, place, block * plan.lanes, exists, over, plan)


@kl.helper
def write_windows(
    made: Sequence[kl.Number],
    c: kl.Pointer,
    place: Sequence[kl.Number],
    first: kl.Number,
    exists: kl.Mask,
    over: Blocks[kl.Number, kl.FastDivmod],
    plan: WindowPlan,
) -> None:
    """Write the results of a block of windows."""
    lead, count = len(over.leads), over.slides[-1].count
    to = first * 0
    for axis, index in zip(over.leads, place[:lead], strict=True):
        to = to * axis.size + index
    for slide, index in zip(over.slides[:-1], place[lead:-1], strict=True):
        to = to * slide.count + index
    to = to * count + first
    if plan.whole:
        if exists:
            c.store(to, kl.pack(made), align=len(made) * c.dtype.itemsize)
    else:
        for window, value in enumerate(made):
            c.store(to + window, value, mask=exists & (first + window < count))


def reduction_of_blocks(
    windows: Windows, seen: Seen, kind: str, result: Bound, choose: bool, info: DeviceInfo
) -> Launch | None:
    """Return the launch that reduces windows, or finds their extremes, by blocks; None for large.

    ``choose``: whether the result is the places of extremes, counted from 1.
    """
    x = seen.view
    plan = _plan(windows, x, choose, info)
    if plan is None or not windows.windows:
        return None
    lead, by = len(windows.lead), reduction(kind, x.dtype)
    leads = tuple(leading((x,), lead))
    counts = [s.count for s in windows.slides]
    counts[-1] = -(-counts[-1] // plan.lanes)
    sizes = (*(axis.size for axis in leads), *counts)
    blocks_of = prod(sizes)
    nbytes = windows.elements * x.dtype.itemsize + windows.windows * result.dtype.itemsize
    units = min(info.max_units, UNITS)
    ends = [windows.elements, 2 * windows.windows, blocks_of, span_of(x)]
    return launch(
        reduce_blocks,
        Grid.line(-(-blocks_of // units), units, index=index_of(ends, info)),
        Effort("window blocks", windows.windows * windows.places, nbytes),
        x=seen.bound,
        c=result,
        over=Blocks(blocks_of, sizes, windows.slides, (x.strides[lead:],), leads),
        plan=plan,
        by=by,
    )


def _plan(windows: Windows, x: View, choose: bool, info: DeviceInfo) -> WindowPlan | None:
    """Return the plan of the largest blocks that suit; None if there are none."""
    last = windows.slides[-1]
    if info.max_units == 1 or any(is_size(s.window) for s in windows.slides):
        return None
    lanes = 1
    while 2 * lanes * last.stride * x.dtype.itemsize <= info.vector_bytes:
        lanes *= 2
    while lanes > 1 and (
        lanes * windows.places > _TERMS
        or not exceeds(windows.windows, blocks.FILLING * lanes)
        or not exceeds(last.count, lanes)
    ):
        lanes //= 2
    if lanes * windows.places > _TERMS:
        return None
    across = lanes * last.stride
    together = across > 1 and across & (across - 1) == 0 and aligned(last.size, (x,), across)
    slides = tuple(Along(s.window, s.stride, s.dilation) for s in windows.slides)
    whole = lanes > 1 and not last.count % lanes
    return WindowPlan(slides, last.start, lanes, together, whole, choose)
