"""Implicit GEMM convolutions of any type and stride, for cubes of many units.

Requirements: no im2col copy of the input. Neighbouring units read neighbouring elements. Pixel
coordinates take multiplications and shifts. Parts of a long sum are added in a fixed order.
(Implicit GEMM, as in Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic

from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Output, Request, Work, row_major
from calor_kernel.language.declared import N
from calor_kernel.library.conv.padded_rows import three
from calor_kernel.library.conv.problem import Convolution, accumulator
from calor_kernel.library.conv.split_sums import ending
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.gemm.generic import GenericPlan, generic_tile, multiply
from calor_kernel.library.steps import Steps

_ACROSS, _DOWN, _DEPTH = 16, 8, 16
_UNITS = _ACROSS * _DOWN
# Minimum of terms of a part of a long sum. A cube alone on its core waits for memory in each step,
# so adding the parts is expected to cost less than further steps.
_SHARE = 128


@dataclass(frozen=True, slots=True)
class TileAxis(Generic[N]):
    """The fields of ``problem.Axis`` beside the numbers of pixels, of taps and the divisor."""

    result: kl.SizeOf[N]
    summed: kl.StrideOf[N]
    start: kl.StrideOf[N]
    size: kl.SizeOf[N]
    a: kl.StrideOf[N]
    b: kl.StrideOf[N]


@dataclass(frozen=True, slots=True)
class Pixels:
    """The spatial axes of a correlation, and fast divisors for their pixels and taps."""

    counts: Sequence[kl.FastDivmod]
    terms: Sequence[kl.FastDivmod]
    axes: Sequence[TileAxis[kl.Number]]
    divides: tuple[int, ...]

    def columns(self, column: kl.Number) -> tuple[kl.Number, list[kl.Number], kl.Number]:
        """Return a column's lead index, the starts of its window, and its offset in the result."""
        lead, *place = kl.unravel(column, (0, *self.counts))
        starts = [p * axis.result + axis.start for p, axis in zip(place, self.axes, strict=True)]
        inner = place[0]
        for p, count in zip(place[1:], self.counts[1:], strict=True):
            inner = inner * count.divisor + p
        return lead, starts, inner

    def depths(self, k: kl.Number) -> tuple[kl.Number, list[kl.Number]]:
        """Return a term's channel, and its tap along each axis."""
        depth, *taps = kl.unravel(k, (0, *self.terms))
        return depth, taps

    @kl.helper
    def offset(self, starts: list[kl.Number], taps: list[kl.Number]) -> tuple[kl.Number, kl.Mask]:
        """Return the offset of a window's term in the image, and whether it is not padding."""
        at = starts[0] * 0
        valid = starts[0] == starts[0]
        for start, tap, axis, by in zip(starts, taps, self.axes, self.divides, strict=True):
            place = start + tap * axis.summed
            valid = valid & (place >= 0)
            if by > 1:
                whole = kl.quotient(place, by)
                valid = valid & (whole * by == place)
                place = whole
            valid = valid & (place < axis.size)
            at = at + place * axis.a
        return at, valid


@kl.kernel
def tiled_correlation(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    rows_total: kl.Size,
    columns_total: kl.Size,
    depth_total: kl.Size,
    splits: kl.Size,
    share: kl.Size,
    part_step: kl.Size,
    a_group: kl.Stride,
    a_column: kl.Stride,
    a_depth: kl.Stride,
    b_group: kl.Stride,
    b_row: kl.Stride,
    b_depth: kl.Stride,
    c_group: kl.Size,
    c_row: kl.Size,
    c_column: kl.Size,
    counts: tuple[kl.FastDivmod, ...],
    terms: tuple[kl.FastDivmod, ...],
    axes: tuple[TileAxis[kl.Number], ...],
    after: After | None,
    *,
    plan: GenericPlan,
    divides: tuple[int, ...],
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile, its rows from y and its columns from x.

    Rows are the lead axis of b alone; columns are the lead axis of a alone by the output pixels. z
    counts groups and ``splits`` parts of the sum, of ``share`` terms each and ``part_step`` apart
    in the result. ``counts``, ``terms``: the pixels and taps of three axes.
    """
    pixels = Pixels(counts, terms, axes, divides)
    depth, height, width, units = plan.depth, plan.height, plan.width, plan.units
    accumulate = plan.accumulate
    group, split = kl.cube_position(2) // splits, kl.cube_position(2) % splits
    first_row, first_column = kl.cube_position(1) * height, kl.cube_position(0) * width
    unit = kl.unit_index()
    tile = generic_tile(plan)
    # A unit fills one column of the right tile, and one term of the left tile.
    column = kl.min(first_column + unit % width, columns_total - 1)
    lead, starts, _ = pixels.columns(column)
    a_start = group * a_group + lead * a_column
    b_start = group * b_group
    begin, end = split * share, kl.min((split + 1) * share, depth_total)

    def load_image(side: kl.Index, start: kl.Number) -> None:
        for turn in kl.range(depth * width // units):
            p = unit // width + turn * (units // width)
            k = kl.min(start + p, end - 1)
            channel, taps = pixels.depths(k)
            at, valid = pixels.offset(starts, taps)
            value = kl.constant(0, accumulate)
            if valid & (start + p < end):
                value = a[a_start + channel * a_depth + at].to(accumulate)
            tile.right[side * (depth * width) + p * width + unit % width] = value

    def load_weights(side: kl.Index, start: kl.Number) -> None:
        p = unit % depth
        channel, taps = pixels.depths(kl.min(start + p, end - 1))
        of = b_start + channel * b_depth
        for tap, axis in zip(taps, axes, strict=True):
            of = of + tap * axis.b
        for turn in kl.range(height * depth // units):
            row = unit // depth + turn * (units // depth)
            value = kl.constant(0, accumulate)
            if (first_row + row < rows_total) and (start + p < end):
                value = b[of + (first_row + row) * b_row].to(accumulate)
            tile.left[side * (height * depth) + p * height + row] = value

    multiply(tile, (load_image, load_weights), begin, end)
    for j, column in tile.columns(first_column):
        if column < columns_total:
            lead, _, inner = pixels.columns(column)
            to = split * part_step + group * c_group + lead * c_column + inner
            ends = writer(epilogue, after, c, lead)
            for i, row in tile.rows(first_row):
                if row < rows_total:
                    if ends is None:
                        c[to + row * c_row] = tile.sums[i, j].to(c.dtype)
                    else:
                        channel = group * rows_total + row
                        ends.write(to + row * c_row, tile.sums[i, j], channel, inner)


@kl.kernel
def add_each_part(parts: kl.In, c: kl.Out, count: kl.Stride, splits: kl.Stride) -> None:
    """Add the parts of each element in order; parts are ``count`` apart."""
    i = kl.absolute_position()
    if i < count:
        total = parts[i]
        for split in kl.range(1, splits):
            total = total + parts[i + split * count]
        c[i] = total.to(c.dtype)


def tiles_refusal(one: Convolution, request: Request) -> str | None:
    """Return why tiles of any strides and types do not suit a correlation, None if they do."""
    if len(one.problem.axes) > 3:
        return "it has more than three spatial axes"
    if one.info.max_units < _UNITS or not one.info.has("barrier"):
        return f"cubes have no {_UNITS} units that meet"
    return None


def tiles_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a correlation that :func:`tiles_refusal` accepts."""
    p, info, steps, axes = one.problem, one.info, Steps(), three(one.problem)
    # Lead axes of b alone, of a alone, and of both.
    strides = row_major([*(lead.size for lead in p.leads), prod(a.count for a in axes)])
    group, row, column = (p.leads[i] for i in p.roles)
    result, accumulate = p.a.dtype, accumulator(p.a.dtype)
    depth = p.depth.size * prod(a.terms for a in axes)
    columns = column.size * prod(a.count for a in axes)
    tile = 2 if row.size * columns * group.size < 128 * 128 else 4
    plan = GenericPlan(_ACROSS, _DOWN, tile, tile, _DEPTH, accumulate)
    if plan.shared_bytes > info.shared_bytes:
        plan = GenericPlan(_ACROSS, _DOWN, 2, 2, _DEPTH, accumulate)
    across, down = -(-columns // plan.width), -(-row.size // plan.height)
    # Few tiles with long sums leave cores idle; each part of a sum is another tile.
    wanted = max(1, 4 * info.cores // (across * down * group.size))
    splits = kl.min(wanted, max(1, depth // _SHARE))
    share = -(-depth // (splits * _DEPTH)) * _DEPTH
    splits = max(1, -(-depth // share))
    spans = [
        sum((n - 1) * abs(s) for n, s in zip(v.shape, v.strides, strict=True)) for v in (p.a, p.b)
    ]
    index = kl.index_dtype(*spans, p.size * splits, depth, columns)
    target = Bound(Output(0), result)
    if splits > 1:
        target = Bound(steps.memory(splits * p.size * accumulate.itemsize), accumulate)
    into, following = ending(target, one.tail)
    cubes = (across, down, group.size * splits)
    nbytes = (p.a.size + p.b.size + p.size) * result.itemsize
    c_group, c_row, c_column = (strides[i] for i in p.roles)
    steps.add(
            tiled_correlation,
            Grid(cubes, (_ACROSS, _DOWN, 1), info.planes[0], index),
            Effort(f"conv tiled {plan.height}x{plan.width}", 2 * p.size * p.terms, nbytes),
            a=operand(0, p.a), b=operand(1, p.b), c=into,
            rows_total=row.size, columns_total=columns, depth_total=depth,
            splits=splits, share=share, part_step=p.size,
            a_group=group.a, a_column=column.a, a_depth=p.depth.a,
            b_group=group.b, b_row=row.b, b_depth=p.depth.b,
            c_group=c_group, c_row=c_row, c_column=c_column,
            counts=[a.count for a in axes], terms=[a.terms for a in axes],
            axes=[TileAxis(a.result, a.summed, a.start, a.size, a.a, a.b) for a in axes],
            plan=plan, divides=tuple(a.divide for a in axes), **following,
        )  # fmt: skip
    if splits > 1:
        grid = Grid.line(-(-p.size // _UNITS), _UNITS, info.planes[0])
        effort = Effort("conv parts", p.size * splits, p.size * splits * accumulate.itemsize)
        bounds = {"parts": target, "c": Bound(Output(0), result)}
        steps.add(add_each_part, grid, effort, count=p.size, splits=splits, **bounds)
    return [steps.work()]
