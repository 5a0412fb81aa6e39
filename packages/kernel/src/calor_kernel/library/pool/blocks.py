"""Gradients of windows' elements in blocks, for devices whose cubes have many units.

Requirements: an element takes few instructions, since the images are as large as memory is fast.
So a unit has a block of adjacent elements of each axis: as many as windows are apart along the
first ones, and whole vectors along the last one. Which windows read an element of a block, and at
which position, is then known at build time; a window's gradient is read once for all of them. Terms
are added with the last window first, as :func:`gather_gradient` does, so both give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final, Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, View
from calor_kernel.language.declared import N
from calor_kernel.library.conv.row_windows import Back
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.copying.transfer import index_of
from calor_kernel.library.pool.problem import Lead, Seen, Windows, leading, reduction

# Maximum of the elements of a block, and of the terms of all its elements, which are unrolled.
_ELEMENTS: Final = 32
_TERMS: Final = 256
# Units of a cube, and how many units fill a device.
UNITS: Final = 128
FILLING: Final = 1 << 16

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Blocks(Generic[N, D]):
    """``count`` blocks along leading and sliding axes, of ``sizes``.

    ``strides``: those of the windows' gradients and of their chosen positions along sliding axes.
    """

    count: kl.SizeOf[N]
    sizes: tuple[kl.DivisorOf[D], ...]
    slides: tuple[Slide[N], ...]
    strides: tuple[tuple[kl.StrideOf[N], ...], ...]
    leads: tuple[Lead[N], ...]


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """A plan for blocks of elements.

    ``backs``: how windows lie, by axis. ``lanes``: windows along the last axis from whose starts
    on a block has elements. ``together``: whether their gradients are aligned vectors. ``whole``:
    whether each block along the last axis is an aligned vector. ``all_positions``: whether all
    elements of a window take its gradient, not only the chosen one.
    """

    backs: tuple[Back, ...]
    lanes: int
    together: bool
    whole: bool
    all_positions: bool

    @property
    def across(self) -> int:
        """The elements of a block along the last axis."""
        return self.lanes * self.backs[-1].stride

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The positions of a block's rows along the first axes."""
        return list(product(*(range(back.stride) for back in self.backs[:-1])))

    def lines(self) -> list[tuple[int, ...]]:
        """Return the lines of windows that read a block, by their distances from it, last first."""
        reaches = [back.reach() for back in self.backs[:-1]]
        return list(product(*(range(high, low - 1, -1) for low, high in reaches)))

    def tap(self, row: Sequence[int], line: Sequence[int]) -> int | None:
        """Return which of a window's rows of positions reads a row; None if none does."""
        tap = 0
        for back, position, window in zip(self.backs[:-1], row, line, strict=True):
            found = [k for k, further in back.phase(position) if further == window]
            if not found:
                return None
            tap = tap * back.taps + found[0]
        return tap * self.backs[-1].taps

    def terms(self, element: int) -> list[tuple[int, int]]:
        """Return the windows of a line that read an element, last first, and their positions."""
        back = self.backs[-1]
        cell, phase = divmod(element, back.stride)
        found = [(cell + further, k) for k, further in back.phase(phase)]
        return sorted(found, reverse=True)


@kl.kernel
def gather_blocks(
    g: kl.In,
    chosen: kl.In,
    c: kl.Out,
    over: Blocks[kl.Number, kl.FastDivmod],
    *,
    plan: BlockPlan,
    wide: DType,
) -> None:
    """Write a block of elements: sums of the gradients of the windows that contain each of them.

    Unless ``plan.all_positions``, only windows with an element as ``chosen`` count, whose positions
    are counted from 1.
    """
    number = kl.absolute_position()
    exists = number < over.count
    place = kl.unravel(kl.min(number, over.count - 1), over.sizes)
    lead = len(over.leads)
    steps = zip(*(axis.strides for axis in over.leads), strict=True)
    bases = [kl.offset_of(place[:lead], list(step), number * 0) for step in steps]
    *outer, block = place[lead:]
    first = block * plan.lanes
    sums = kl.registers((len(plan.rows), plan.across), wide, 1)
    for line in plan.lines():
        inside = exists
        at = list(bases)
        for axis, (cell, distance) in enumerate(zip(outer, line, strict=True)):
            window = cell + distance
            inside = inside & (window >= 0) & (window < over.slides[axis].count)
            at = [
                start + window * along[axis] for start, along in zip(at, over.strides, strict=True)
            ]
        add_line(sums, g, chosen, at, first, inside, line, over, plan)
    write_block(sums, c, place[:lead], outer, first, exists, over, plan)


def add_line(
    sums: kl.Registers,
    g: kl.Pointer,
    chosen: kl.Pointer,
    at: Sequence[kl.Number],
    first: kl.Number,
    inside: kl.Mask,
    line: Sequence[int],
    over: Blocks[kl.Number, kl.FastDivmod],
    plan: BlockPlan,
) -> None:
    """Add the gradients of a line of windows, which begins ``at`` a place of g and of chosen."""
    wide = sums.type.dtype
    low, high = plan.backs[-1].reach()
    reach, lanes = range(low, plan.lanes + high), plan.lanes if plan.together else 0
    count = over.slides[-1].count
    steps = [along[-1] for along in over.strides]
    given = along_line(g, at[0], first, inside, count, steps[0], reach, lanes, 0)
    values = {window: value.to(wide) for window, value in given.items()}
    marks: dict[int, kl.Number] = {}
    if not plan.all_positions:
        found = along_line(chosen, at[1], first, inside, count, steps[1], reach, lanes, 0)
        marks = {window: mark.to(first.dtype) for window, mark in found.items()}
    nothing = kl.constant(0, wide)
    for r, row in enumerate(plan.rows):
        tap = plan.tap(row, line)
        if tap is None:
            continue
        for element in range(plan.across):
            for window, k in plan.terms(element):
                value = values[window]
                if not plan.all_positions:
                    value = kl.select(marks[window] == tap + k + 1, value, nothing)
                sums[r, element] = sums[r, element] + value


@kl.helper
def along_line(
    source: kl.Pointer,
    at: kl.Number,
    first: kl.Number,
    inside: kl.Mask,
    count: kl.Number,
    step: kl.Number,
    reach: range,
    lanes: int,
    other: float,
) -> dict[int, kl.Number]:
    """Return the values of a line by their distances from the first, ``other`` where none is.

    ``lanes``: how many from the first on are an aligned vector, 0 if none are.
    """
    found: dict[int, kl.Number] = {}
    if lanes > 1:
        vector = kl.constant(other, source.dtype, lanes)
        if inside & (first < count):
            vector = source.load(at + first, lanes, align=lanes * source.dtype.itemsize)
        for lane in kl.range(lanes):
            if lane in reach:
                found[lane] = vector[lane]
    for distance in reach:
        if distance not in found:
            place = first + distance
            valid = inside & (place >= 0) & (place < count)
            found[distance] = source.load(at + place * step, mask=valid, other=other)
    return found


@kl.helper
def write_block(
    sums: kl.Registers,
    c: kl.Pointer,
    lead: Sequence[kl.Number],
    outer: Sequence[kl.Number],
    first: kl.Number,
    exists: kl.Mask,
    over: Blocks[kl.Number, kl.FastDivmod],
    plan: BlockPlan,
) -> None:
    """Write the rows of a block."""
    plane = first * 0
    for axis, index in zip(over.leads, lead, strict=True):
        plane = plane * axis.size + index
    size = over.slides[-1].size
    begin = first * plan.backs[-1].stride
    for r, row in enumerate(plan.rows):
        at, inside = plane, exists
        pairs = zip(plan.backs[:-1], over.slides[:-1], outer, row, strict=True)
        for back, slide, cell, position in pairs:
            place = cell * back.stride + position
            inside = inside & (place < slide.size)
            at = at * slide.size + place
        to = at * size + begin
        values = [sums[r, element].to(c.dtype) for element in range(plan.across)]
        if plan.whole:
            if inside:
                c.store(to, kl.pack(values), align=plan.across * c.dtype.itemsize)
        else:
            for element, value in enumerate(values):
                c.store(to + element, value, mask=inside & (begin + element < size))


def gradient_of_blocks(
    windows: Windows,
    given: Seen,
    chosen: Seen,
    result: Bound,
    all_positions: bool,
    info: DeviceInfo,
) -> Launch | None:
    """Return the launch of the elements' gradients by blocks; None where these are large.

    ``given``: the windows' gradients. ``chosen``: their positions, counted from 1.
    """
    g, views = given.view, (given.view, chosen.view)
    plan = _plan(windows, views, all_positions, info)
    if plan is None or not windows.windows:
        return None
    lead = len(windows.lead)
    leads = tuple(leading(views, lead))
    cells = [-(-s.size // s.stride) for s in windows.slides]
    cells[-1] = -(-windows.slides[-1].size // plan.across)
    sizes = (*(axis.size for axis in leads), *cells)
    count = prod(sizes)
    nbytes = (windows.elements + windows.windows) * g.dtype.itemsize
    nbytes += 0 if all_positions else windows.windows * chosen.view.dtype.itemsize
    units = min(info.max_units, UNITS)
    ends = [2 * windows.elements, count, *(span_of(view) for view in views)]
    return launch(
        gather_blocks,
        Grid.line(-(-count // units), units, index=index_of(ends, info)),
        Effort("window gradient blocks", windows.windows * windows.places, nbytes),
        g=given.bound,
        chosen=chosen.bound,
        c=result,
        over=Blocks(
            count, sizes, windows.slides, tuple(view.strides[lead:] for view in views), leads
        ),
        plan=plan,
        wide=reduction("sum", g.dtype).dtype,
    )


def _plan(
    windows: Windows, views: Sequence[View], all_positions: bool, info: DeviceInfo
) -> BlockPlan | None:
    """Return the plan of the largest blocks that suit; None if there are none."""
    if info.max_units == 1:
        return None
    backs = tuple(Back(s.window, s.stride, s.dilation, s.start) for s in windows.slides)
    last, size = windows.slides[-1], windows.slides[-1].size
    rows, itemsize = prod(back.stride for back in backs[:-1]), views[0].dtype.itemsize
    lanes = 1
    while 2 * lanes * last.stride * itemsize <= info.vector_bytes:
        lanes *= 2
    # Rows that are no whole vectors are written by neighbours, an element each.
    while lanes > 1 and (
        size % (lanes * last.stride)
        or rows * lanes * last.stride > _ELEMENTS
        or not exceeds(windows.elements, FILLING * rows * lanes * last.stride)
    ):
        lanes //= 2
    across = lanes * last.stride
    plan = BlockPlan(backs, lanes, False, False, all_positions)
    terms = windows.places * lanes
    if rows * across > _ELEMENTS or exceeds(terms, _TERMS):
        return None
    whole = across & (across - 1) == 0 and not size % across and across > 1
    return replace(plan, whole=whole, together=lanes > 1 and aligned(last.count, views, lanes))


def aligned(count: int, views: Sequence[View], lanes: int) -> bool:
    """Return whether lines of ``count`` elements are aligned vectors in each view."""
    return not count % lanes and all(
        view.strides[-1] == 1
        and not view.offset % lanes
        and not any(s % lanes for s in view.strides[:-1])
        for view in views
    )


def span_of(view: View) -> int:
    pairs = zip(view.shape, view.strides, strict=True)
    span: int = sum((n - 1) * abs(s) for n, s in pairs) + 1
    return span
