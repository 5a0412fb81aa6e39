"""Sums of the windows that see each pixel (col2im), from what every window gives to its taps.

Requirements: any stride, padding, and part of an image without windows, which gets zeros. The unit
that writes a pixel gathers its terms, so that their order is fixed and nothing is atomic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.language.declared import N
from calor_kernel.library.conv.problem import Axis, Correlation, accumulator
from calor_kernel.library.conv.split_sums import ending, later
from calor_kernel.library.gemm.epilogue import After, Epilogue, Tail, writer
from calor_kernel.library.steps import Steps

# Units of a cube; the pixels of a cube of one unit.
_UNITS, _CHUNK = 256, 1 << 13
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class FoldAxis(Generic[N, D]):
    """An axis of ``windows`` with ``taps`` each, ``stride`` apart; the first begins at −``start``.

    ``count``: the pixels.
    """

    count: kl.DivisorOf[D]
    stride: kl.DivisorOf[D]
    start: kl.SizeOf[N]
    windows: kl.SizeOf[N]
    taps: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class PatchSteps(Generic[N]):
    """The strides of patches along images, channels and taps; the windows of a tap are adjacent."""

    image: kl.StrideOf[N]
    channel: kl.StrideOf[N]
    tap: kl.StrideOf[N]


@kl.kernel
def fold_windows(
    patches: kl.In,
    c: kl.Out,
    count: kl.Size,
    channels: kl.FastDivmod,
    steps: PatchSteps[kl.Number],
    axes: tuple[FoldAxis[kl.Number, kl.FastDivmod], ...],
    first: kl.Size,
    start: kl.Size,
    after: After | None,
    *,
    turns: tuple[int, ...],
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Sum patches to pixels (image, channel, pixel), one of each unit.

    ``channels``: of an image. ``turns``: how many windows see a pixel at most, along each axis.
    The images are those from number ``first`` on, whose pixels begin at element ``start``.
    """
    index = kl.absolute_position()
    if index < count:
        image, channel, *places = kl.unravel(index, (0, channels, *(axis.count for axis in axes)))
        lead = image * steps.image + channel * steps.channel
        seen = [
            axis.stride.divmod(place + axis.start) for place, axis in zip(places, axes, strict=True)
        ]
        total = kl.registers(1, accumulate)
        _add_windows(total, patches, axes, seen, turns, [], (lead, steps.tap, 0), index < count)
        ends = writer(epilogue, after, c, first + image)
        if ends is None:
            c[start + index] = total[0].to(c.dtype)
        else:
            pixel: kl.Index = 0
            for place, axis in zip(places, axes, strict=True):
                pixel = pixel * axis.count.divisor + place
            ends.write(start + index, total[0], channel, pixel)


@kl.kernel
def fold_rows(
    patches: kl.In,
    c: kl.Out,
    rows: kl.Size,
    chunk: kl.Size,
    channels: kl.FastDivmod,
    steps: PatchSteps[kl.Number],
    axes: tuple[FoldAxis[kl.Number, kl.FastDivmod], ...],
    *,
    turns: tuple[int, ...],
    width: int,
    accumulate: DType,
) -> None:
    """Sum patches as ``fold_windows`` does, in cubes of one unit with ``chunk`` rows of pixels.

    What a row's pixels have in common is computed once.
    """
    *outer, wide = axes
    begin = kl.cube_position() * chunk
    for row in kl.loop_range(begin, kl.min(begin + chunk, rows)):
        image, channel, *places = kl.unravel(row, (0, channels, *(axis.count for axis in outer)))
        lead = image * steps.image + channel * steps.channel
        seen = [
            axis.stride.divmod(place + axis.start)
            for place, axis in zip(places, outer, strict=True)
        ]
        for i in kl.loop_range(0, wide.count.divisor, width):
            index = i + kl.constant(tuple(range(width)), i.dtype) if width > 1 else i
            inside = index < wide.count.divisor
            last = wide.stride.divmod(kl.select(inside, index, wide.count.divisor - 1) + wide.start)
            total = kl.registers(1, accumulate, width)
            _add_windows(
                total, patches, axes, [*seen, last], turns, [], (lead, steps.tap, 0), inside
            )
            c.store(row * wide.count.divisor + i, total[0].to(c.dtype), mask=inside)


@kl.helper
def _add_windows(
    total: kl.Registers,
    patches: kl.Pointer,
    axes: Sequence[FoldAxis[kl.Number, kl.FastDivmod]],
    seen: Sequence[tuple[kl.Number, kl.Number]],
    turns: Sequence[int],
    found: Sequence[kl.Number],
    before: tuple[kl.Number, kl.Number, kl.Index],
    valid: kl.Mask,
) -> None:
    """Add the terms of the windows along the axes from a given one on.

    ``seen``: the last window that sees a pixel, and the tap that does. ``found``: the windows along
    the axes before; ``before``: the first element of the lead, the stride of taps, and the number
    of the taps along these axes.
    """
    lead, step, number = before
    if len(found) == len(axes):
        window: kl.Index = 0
        for one, axis in zip(found, axes, strict=True):
            window = window * axis.windows + one
        at = lead + number * step + window
        # What a mask leaves out is zero.
        total[0] = total[0] + patches.load(at, mask=valid).to(total.type.dtype)
    else:
        axis, (last, first) = axes[len(found)], seen[len(found)]
        for turn in kl.range(turns[len(found)]):
            window, tap = last - turn, first + turn * axis.stride.divisor
            # Along outer axes of rows all lanes have one place.
            lanes = total.type.width if tap.width == 1 else 1
            there = (tap < axis.taps) & (window >= 0) & (window < axis.windows)
            there = valid & (kl.splat(there, lanes) if lanes > 1 else there)
            to = lead, step, number * axis.taps + tap
            _add_windows(total, patches, axes, seen, turns, [*found, window], to, there)


def folds(axis: Axis[int]) -> bool:
    """Return whether the windows of an axis of an input gradient can be folded."""
    return bool(axis.start >= 0 and (axis.summed == -1 or axis.terms == 1))


def turns_of(axis: Axis[int]) -> int:
    """Return how many windows see a pixel at most."""
    return -(-axis.terms // axis.divide)


def add_fold(
    problem: Correlation,
    patches: Bound,
    of: PatchSteps[int],
    target: Bound,
    steps: Steps,
    info: DeviceInfo,
    first: int = 0,
    tail: Tail | None = None,
) -> None:
    """Add the launch that folds patches with the strides ``of`` images, channels and taps.

    They are those of images from number ``first`` on. ``tail``: the epilogue, for cubes of many
    units.
    """
    p, axes = problem, problem.axes
    count, dtype = p.size, target.dtype
    leads = prod(lead.size for lead in p.leads)
    read = leads * prod(axis.terms * axis.size for axis in axes)
    start = first * (count // greatest(p.leads[0].size, 1))
    index = kl.index_dtype(start + count + _UNITS, read)
    units, accumulate = min(_UNITS, info.max_units), accumulator(dtype)
    given = {
        "patches": patches,
        "channels": p.leads[1].size * p.leads[2].size,
        "steps": of,
        "axes": [FoldAxis(a.count, a.divide, a.start, a.size, a.terms) for a in axes],
        "turns": tuple(map(turns_of, axes)),
        "accumulate": accumulate,
    }
    nbytes = read * patches.dtype.itemsize + count * dtype.itemsize
    effort = Effort("conv fold", count * prod(map(turns_of, axes)), nbytes)
    if units > 1:
        grid = Grid.line(-(-count // units), units, info.planes[0], index)
        to, following = ending(target, tail)
        steps.add(
            fold_windows, grid, effort, c=to, count=count, first=first, start=start,
            **given, **following,
        )  # fmt: skip
        return
    rows = count // axes[-1].count
    chunk = greatest(1, _CHUNK // axes[-1].count)
    width = max(1, info.vector_bytes // 8)
    grid = Grid.line(-(-rows // chunk), 1, 1, index)
    steps.add(
        fold_rows,
        grid,
        effort,
        c=later(target, start),
        rows=rows,
        chunk=chunk,
        width=width,
        **given,
    )
