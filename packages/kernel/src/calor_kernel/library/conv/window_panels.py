"""Convolutions as products of weights and windows, by dot instructions of half types on CPUs.

Requirements: an instruction adds two products a lane, so pairs of terms of a window are adjacent. A
cube packs the windows of a panel of pixels, which stay in its second-level cache, and multiplies
them with all weights (Goto and van de Geijn, 2008; Chellapilla et al., 2006: im2col). So memory for
windows is that of a few panels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final, Generic

from calor.dtypes import bfloat16, float32, int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Input, Output, View
from calor_kernel.language.declared import N
from calor_kernel.library.conv.padded_rows import adjacent, effort, three
from calor_kernel.library.conv.phase_planes import PlaneAxis, pad_planes
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.copying import as_bits
from calor_kernel.library.matmul.blueprints import Packed, packed
from calor_kernel.library.matmul.packed import Tile
from calor_kernel.library.matmul.packing import interleave
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.steps import Steps

# Terms of an instruction.
_PAIR: Final = 2
# Output channels and terms of a window from which packing pays.
_ROWS, _TERMS = 8, 16
# Pairs of terms of a panel that stay in the first-level cache.
_DEPTH = 128
# Panels in memory at a time, for each core.
_PANELS = 2


@dataclass(frozen=True, slots=True)
class Windows(Generic[N]):
    """Windows of all images, one after another: ``images`` of ``pixels`` each, of ``terms`` terms.

    ``rows`` of weights for each of ``groups``. ``high`` and ``wide``: pixels along two axes.
    ``steps``: their distances in the operand, with depth first; the first window begins at
    ``start``.
    """

    images: kl.SizeOf[N]
    groups: kl.SizeOf[N]
    rows: kl.SizeOf[N]
    pixels: kl.SizeOf[N]
    terms: kl.SizeOf[N]
    high: kl.SizeOf[N]
    wide: kl.SizeOf[N]
    steps: tuple[kl.StrideOf[N], ...]
    start: kl.StrideOf[N]

    @property
    def count(self: Windows[kl.Number]) -> kl.Number:
        """The number of windows of a group."""
        return self.images * self.pixels

    def seen(
        self: Windows[kl.Number], first: kl.Number, count: int, image_step: kl.Number
    ) -> list[kl.Number]:
        """Return the positions of adjacent windows; beyond the last that of the first."""
        image, pixel = first // self.pixels, first % self.pixels
        d, h, w = kl.unravel(pixel, (1, self.high, self.wide))
        found: list[kl.Number] = []
        for i in range(count):
            at = self.start + image * image_step
            at = at + d * self.steps[0] + h * self.steps[1] + w * self.steps[2]
            found.append(kl.select(first + i < self.count, at, found[0]) if i else at)
            # The next window, without a division.
            w, h = _carried(w + 1, h, self.wide)
            h, d = _carried(h, d, self.high)
            d, image = _carried(d, image, self.pixels // (self.high * self.wide))
        return found

    def result(self: Windows[kl.Number], window: kl.Number, group: kl.Number) -> kl.Number:
        """Return the position of a window's result for the first row of a group."""
        image, pixel = window // self.pixels, window % self.pixels
        return (image * self.groups + group) * self.rows * self.pixels + pixel


def _carried(
    digit: kl.Number, next_digit: kl.Number, size: kl.Number
) -> tuple[kl.Number, kl.Number]:
    """Return a digit that may be its size, and the next one, with the carry."""
    over = digit == size
    zero, one = kl.constant(0, digit.dtype), kl.constant(1, digit.dtype)
    return kl.select(over, zero, digit), next_digit + kl.select(over, one, zero)


@kl.kernel
def window_offsets(
    offsets: kl.Out,
    depth: kl.Size,
    channel: kl.Stride,
    taps: tuple[kl.Size, ...],
    steps: tuple[kl.Stride, ...],
) -> None:
    """Write where the terms of a window lie from its begin: channels, and their taps."""
    at = kl.constant(0, int64)
    for c in kl.loop_range(depth):
        for d in kl.loop_range(taps[0]):
            for h in kl.loop_range(taps[1]):
                for w in kl.loop_range(taps[2]):
                    offsets[at] = c * channel + d * steps[0] + h * steps[1] + w * steps[2]
                    at = at + 1


@kl.kernel
def multiply_windows(
    x: kl.In,
    offsets: kl.In,
    w: kl.In,
    panels: kl.Out,
    sums: kl.Out,
    c: kl.Out,
    of: Windows[kl.Number],
    of_x: Strides[kl.Number],
    of_w: Strides[kl.Number],
    cubes: kl.Size,
    *,
    plan: Packed,
    odd: bool,
) -> None:
    """Compute panels x, x + ``cubes``, … of all groups.

    ``of_x`` and ``of_w``: strides of images, groups and, for weights, rows. Elements of x are bits.
    ``odd``: the last term of a window has no partner.
    """
    lanes, width = plan.lanes, plan.width
    pairs = of.terms // _PAIR
    mine = kl.cube_position(0) * ((pairs + odd) * width * _PAIR)
    line = (of.rows + (plan.rows - 1)) // plan.rows * (plan.rows * width)
    panel_count = (of.count + (width - 1)) // width
    for item in kl.loop_range(kl.cube_position(0), of.groups * panel_count, cubes):
        group, panel = item // panel_count, item % panel_count
        seen = x.at(group * of_x.middle)
        windows = of.seen(panel * width, width, of_x.outer)
        places = [windows[v * lanes : (v + 1) * lanes] for v in kl.range(plan.vectors)]
        for p in kl.loop_range(pairs):
            ends = [seen.at(offsets[p * _PAIR + i]) for i in kl.range(_PAIR)]
            for v in kl.range(plan.vectors):
                parts = [kl.pack([end[place] for place in places[v]]) for end in ends]
                packed_pairs = kl.bitcast(interleave(parts), panels.dtype)
                panels.store(mine + (p * width + v * lanes) * _PAIR, packed_pairs)
        if odd:
            end = seen.at(offsets[of.terms - 1])
            for v in kl.range(plan.vectors):
                alone = kl.pack([end[place] for place in places[v]])
                parts = [alone, kl.constant(0, x.dtype, lanes)]
                packed_pairs = kl.bitcast(interleave(parts), panels.dtype)
                panels.store(mine + (pairs * width + v * lanes) * _PAIR, packed_pairs)
        place = mine, kl.cube_position(0) * line, group, panel
        add_rows(w, panels, sums, c, of, of_w.at(0, group), of_w.inner, place, plan, odd)


@kl.helper
def add_rows(
    w: kl.Pointer,
    panels: kl.Pointer,
    sums: kl.Pointer,
    c: kl.Pointer,
    of: Windows[kl.Number],
    start: kl.Number,
    step: kl.Number,
    place: tuple[kl.Number, ...],
    plan: Packed,
    odd: bool,
) -> None:
    """Write the products of a packed panel with all rows of weights, which are ``step`` apart.

    ``place``: the starts of the panel and of the sums in memory, the numbers of group and panel.
    Sums of all rows are in memory between parts of the terms.
    """
    m, rows, lanes, width = of.rows, plan.rows, plan.lanes, plan.width
    mine, to, group, panel = place
    pairs = of.terms // _PAIR
    tile = Tile(w, panels, [None] * plan.vectors, lanes, _PAIR)
    for begin in kl.loop_range(0, kl.max(pairs, 1), plan.depth):
        end = kl.min(begin + plan.depth, pairs)
        for row in kl.loop_range(0, m, rows):
            a_at = [start + kl.min(row + r, m - 1) * step for r in kl.range(rows)]
            acc = kl.registers((rows, plan.vectors), plan.accumulate, lanes)
            if begin > 0:
                for r in kl.range(rows):
                    for v in kl.range(plan.vectors):
                        acc[r, v] = sums.load(to + (row + r) * width + v * lanes, lanes)
            main = begin + (end - begin) // plan.unroll * plan.unroll
            for p in kl.loop_range(begin, main, plan.unroll):
                for u in kl.range(plan.unroll):
                    tile.multiply(acc, a_at, (p + u) * _PAIR, mine + (p + u) * (width * _PAIR))
            for p in kl.loop_range(main, end):
                tile.multiply(acc, a_at, p * _PAIR, mine + p * (width * _PAIR))
            if end < pairs:
                for r in kl.range(rows):
                    for v in kl.range(plan.vectors):
                        sums.store(to + (row + r) * width + v * lanes, acc[r, v])
            else:
                if odd:
                    add_last(tile, acc, a_at, of.terms - 1, mine + pairs * (width * _PAIR))
                for v in kl.range(plan.vectors):
                    column = [acc[r, v] for r in kl.range(rows)]
                    store_rows(column, c, of, group, row, panel * width + v * lanes, lanes)


@kl.helper
def store_rows(
    column: list[kl.Number],
    c: kl.Pointer,
    of: Windows[kl.Number],
    group: kl.Number,
    row: kl.Number,
    window: kl.Number,
    lanes: int,
) -> None:
    """Write vectors of adjacent windows to rows of the result; they may be of several images."""
    last = kl.min(window + (lanes - 1), of.count - 1)
    first = of.result(window, group)
    if (window + lanes <= of.count) and (window // of.pixels == last // of.pixels):
        for r, value in enumerate(column):
            if row + r < of.rows:
                c.store(first + (row + r) * of.pixels, value.to(c.dtype))
    else:
        numbers = kl.constant(tuple(kl.range(lanes)), int64)
        inside = numbers < kl.splat(of.count - window, lanes)
        to = kl.pack([of.result(window + lane, group) for lane in kl.range(lanes)])
        for r, value in enumerate(column):
            if row + r < of.rows:
                c.store(to + (row + r) * of.pixels, value.to(c.dtype), mask=inside)


@kl.helper
def add_last(
    tile: Tile, acc: kl.Registers, a_at: list[kl.Number], term: kl.Number, at: kl.Number
) -> None:
    """Add the products of a term without a partner, of which the panel has zeros."""
    rows, vectors = acc.shape
    w, span = tile.a, tile.lanes * _PAIR
    columns = [tile.b.load(at + v * span, span) for v in kl.range(vectors)]
    for r in kl.range(rows):
        alone = kl.pack([w[a_at[r] + term], kl.constant(0, w.dtype)])
        value = kl.bitcast(kl.splat(kl.bitcast(alone, int32), tile.lanes), w.dtype)
        for v in kl.range(vectors):
            acc[r, v] = tile.add(value, columns[v], acc[r, v])


def windows_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why dot products of windows do not suit a convolution or input gradient, or None."""
    dtype = problem.a.dtype
    if dtype is not bfloat16 or problem.b.dtype is not dtype or not info.has("dot_bfloat16"):
        return "the device has no dot products of its dtype"
    if any(axis.divide != 1 for axis in problem.axes):
        return "output pixels of a strided image have different taps"
    rows = problem.leads[2].size
    if rows < _ROWS or problem.terms < _TERMS:
        return f"it has fewer than {_ROWS} rows of weights, or windows of {_TERMS} terms"
    lanes = info.vector_bytes // 4
    if problem.leads[0].size * prod(axis.count for axis in problem.axes) < lanes:
        return f"its images have fewer than {lanes} pixels"
    return None


def windows_steps(problem: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a problem that :func:`windows_refusal` takes."""
    images, groups, rows = problem.leads
    axes, depth = three(problem), problem.depth
    pixels, terms = prod(a.count for a in axes), problem.terms
    weights, (w_group, w_row) = _weights(problem, axes, steps, info)
    source, axes, x_image, x_group, channel = _padded(problem, axes, steps, info)
    a = Operand((0, w_group), w_row, 1, 0, bfloat16)
    b = Operand((0, 0), 1, 0, 0, bfloat16)
    columns = images.size * pixels
    product = Product((1, groups.size), rows.size, columns, terms, a, b, bfloat16)
    plan = packed(product, info)
    panels = groups.size * -(-columns // plan.width)
    cubes = least(panels, _PANELS * info.cores)
    offsets = Bound(steps.memory(terms * int64.itemsize), int64)
    table = launch(
        window_offsets,
        Grid((1, 1, 1)),
        Effort("conv offsets", nbytes=terms * int64.itemsize),
        offsets=offsets,
        depth=depth.size,
        channel=channel,
        taps=tuple(a.terms for a in axes),
        steps=tuple(a.summed * a.a for a in axes),
    )
    steps.launches.append(replace(table, prepares=True))
    odd = terms % _PAIR
    lines = -(-rows.size // plan.rows) * plan.rows
    room = cubes * (terms + odd) * plan.width
    steps.add(
        multiply_windows,
        Grid((cubes, 1, 1)),
        effort(problem, f"conv windows {plan.rows}x{plan.width}"),
        x=source,
        offsets=offsets,
        w=weights,
        panels=Bound(steps.memory(room * bfloat16.itemsize), bfloat16),
        sums=Bound(steps.memory(cubes * lines * plan.width * float32.itemsize), float32),
        c=Bound(Output(), bfloat16),
        of=Windows(
            images=images.size,
            groups=groups.size,
            rows=rows.size,
            pixels=pixels,
            terms=terms,
            high=axes[1].count,
            wide=axes[2].count,
            steps=tuple(a.result * a.a for a in axes),
            start=sum(a.start * a.a for a in axes),
        ),
        of_x=Strides(x_image, x_group, 0),
        of_w=Strides(0, w_group, w_row),
        cubes=cubes,
        plan=replace(plan, pack_a=False, pack_b=True, depth=_DEPTH, block_rows=0, block_panels=0),
        odd=bool(odd),
    )


def _weights(
    problem: Correlation, axes: tuple[Axis[int], ...], steps: Steps, info: DeviceInfo
) -> tuple[Bound, tuple[int, int]]:
    """Return weights with adjacent terms, and the strides of groups and rows."""
    _, groups, rows = problem.leads
    if adjacent(axes, problem.depth):
        return operand(1, problem.b), (groups.b, rows.b)
    sizes = (groups.size, rows.size, problem.depth.size, *(a.terms for a in axes))
    strides = (groups.b, rows.b, problem.depth.b, *(a.b for a in axes))
    target = steps.memory(prod(sizes) * bfloat16.itemsize)
    before = len(steps.launches)
    view = View(sizes, strides, bfloat16, problem.b.offset)
    steps.copy(view, Input(1), target, info)
    made = [replace(one, prepares=True) for one in steps.launches[before:]]
    steps.launches[before:] = made
    return Bound(target, bfloat16), (rows.size * problem.terms, problem.terms)


def _padded(
    problem: Correlation, axes: tuple[Axis[int], ...], steps: Steps, info: DeviceInfo
) -> tuple[Bound, tuple[Axis[int], ...], int, int, int]:
    """Return the operand with all that windows read, its axes, and its strides.

    The strides are those of images, groups and channels.
    """
    images, groups, _ = problem.leads
    depth, ends = problem.depth, [_reach(axis) for axis in axes]
    seen = as_bits(problem.a, info)
    if all(low >= 0 and high < a.size for (low, high), a in zip(ends, axes, strict=True)):
        return operand(0, seen), axes, images.a, groups.a, depth.a
    lows = [min(low, 0) for low, _ in ends]
    extents = [
        max(high + 1, a.size) - low for (_, high), low, a in zip(ends, lows, axes, strict=True)
    ]
    plane = prod(extents)
    channels = groups.size * depth.size
    size = images.size * channels * plane * bfloat16.itemsize
    memory = Bound(steps.memory(size), seen.dtype)
    unit = 1 if axes[2].a == 1 else 0
    lanes = max(1, info.vector_bytes // 4)
    steps.add(
        pad_planes,
        Grid((channels, images.size, 1)),
        Effort("conv planes", nbytes=2 * size),
        x=operand(0, seen),
        lines=memory,
        channels=channels,
        outer=images.a,
        step=depth.a,
        axes=[
            PlaneAxis(1, extent, low, 1, 0, a.size, a.a)
            for a, low, extent in zip(axes, lows, extents, strict=True)
        ],
        strides=(1, 1, 1),
        lanes=lanes if unit else max(lanes // 2, 1),
        unit=unit,
        both=False,
    )
    distances = (extents[1] * extents[2], extents[2], 1)
    moved = tuple(
        replace(a, start=a.start - low, size=extent, a=distance)
        for a, low, extent, distance in zip(axes, lows, extents, distances, strict=True)
    )
    return memory, moved, channels * plane, depth.size * plane, plane


def _reach(axis: Axis[int]) -> tuple[int, int]:
    """Return the first and the last position that a window reads, padding included."""
    last = axis.result * (axis.count - 1)
    ends = axis.start, axis.start + axis.summed * (axis.terms - 1)
    return min(ends), max(ends) + last
