"""Implicit GEMM convolutions of any type and stride, for cubes of many units.

Requirements: no im2col copy of the input. Neighbouring units read neighbouring elements. Pixel
coordinates take multiplications and shifts. Parts of a long sum are added in a fixed order.
(Implicit GEMM, as in Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    FastDivmod,
    absolute_position,
    constant,
    cube_position,
    helper,
    kernel,
    quotient,
    unit_index,
    unravel,
)
from calor_kernel.library.gemm.generic import GenericPlan, generic_tile, multiply

# The count of numbers of a spatial axis, beside those that count pixels and taps.
AXIS = 6


@dataclass(frozen=True, slots=True)
class Places:
    """The spatial axes of a correlation: ``problem.Axis`` fields and fast divisors."""

    counts: Any
    terms: Any
    axes: Any
    divides: tuple[int, ...]

    def columns(self, column: Any) -> tuple[Any, list[Any], Any]:
        """Return a column's lead index, the starts of its window, and its offset in the result."""
        lead, *place = unravel(column, (0, *self.counts))
        starts = [p * axis[0] + axis[2] for p, axis in zip(place, self.axes, strict=True)]
        inner = place[0]
        for p, count in zip(place[1:], self.counts[1:], strict=True):
            inner = inner * count.divisor + p
        return lead, starts, inner

    def depths(self, k: Any) -> tuple[Any, Any]:
        """Return a term's channel, and its tap along each axis."""
        depth, *taps = unravel(k, (0, *self.terms))
        return depth, taps

    @helper
    def offset(self, starts: list[Any], taps: Any) -> tuple[Any, Any]:
        """Return the offset of a window's term in the image, and whether it is not padding."""
        at = starts[0] * 0
        valid = starts[0] == starts[0]
        for start, tap, axis, by in zip(starts, taps, self.axes, self.divides, strict=True):
            place = start + tap * axis[1]
            valid = valid & (place >= 0)
            if by > 1:
                whole = quotient(place, by)
                valid = valid & (whole * by == place)
                place = whole
            valid = valid & (place < axis[3])
            at = at + place * axis[4]
        return at, valid


@kernel
def tiled_correlation(
    a: Any,
    b: Any,
    c: Any,
    rows_total: Any,
    columns_total: Any,
    depth_total: Any,
    splits: Any,
    share: Any,
    part_step: Any,
    a_group: Any,
    a_column: Any,
    a_depth: Any,
    b_group: Any,
    b_row: Any,
    b_depth: Any,
    c_group: Any,
    c_row: Any,
    c_column: Any,
    *numbers: Any,
    plan: GenericPlan,
    divides: tuple[int, ...],
) -> None:
    """Compute a tile, its rows from y and its columns from x.

    Rows are the lead axis of b alone; columns are the lead axis of a alone by the output pixels. z
    counts groups and ``splits`` parts of the sum, of ``share`` terms each and ``part_step`` apart
    in the result. ``numbers``: fast divisors for the pixels and taps of three axes, then the axes.
    """
    counts, terms = FastDivmod.groups(numbers[:9]), FastDivmod.groups(numbers[9:18])
    axes = [numbers[18 + i * AXIS : 18 + (i + 1) * AXIS] for i in range(3)]
    places = Places(counts, terms, axes, divides)
    depth, height, width, units = plan.depth, plan.height, plan.width, plan.units
    accumulate = plan.accumulate
    group, split = cube_position(2) // splits, cube_position(2) % splits
    first_row, first_column = cube_position(1) * height, cube_position(0) * width
    unit = unit_index()
    tile = generic_tile(plan)
    # A unit fills one column of the right tile, and one term of the left tile.
    column = min(first_column + unit % width, columns_total - 1)
    lead, starts, _ = places.columns(column)
    a_start = group * a_group + lead * a_column
    b_start = group * b_group
    begin, end = split * share, min((split + 1) * share, depth_total)

    def load_image(side: Any, start: Any) -> None:
        for turn in range(depth * width // units):
            p = unit // width + turn * (units // width)
            k = min(start + p, end - 1)
            channel, taps = places.depths(k)
            at, valid = places.offset(starts, taps)
            value = constant(0, accumulate)
            if valid & (start + p < end):
                value = a[a_start + channel * a_depth + at].to(accumulate)
            tile.right[side * (depth * width) + p * width + unit % width] = value

    def load_weights(side: Any, start: Any) -> None:
        p = unit % depth
        channel, taps = places.depths(min(start + p, end - 1))
        of = b_start + channel * b_depth
        for tap, axis in zip(taps, axes, strict=True):
            of = of + tap * axis[5]
        for turn in range(height * depth // units):
            row = unit // depth + turn * (units // depth)
            value = constant(0, accumulate)
            if (first_row + row < rows_total) and (start + p < end):
                value = b[of + (first_row + row) * b_row].to(accumulate)
            tile.left[side * (height * depth) + p * height + row] = value

    multiply(tile, (load_image, load_weights), begin, end)
    for j, column in tile.columns(first_column):
        if column < columns_total:
            lead, _, inner = places.columns(column)
            to = split * part_step + group * c_group + lead * c_column + inner
            for i, row in tile.rows(first_row):
                if row < rows_total:
                    c[to + row * c_row] = tile.sums[i, j].to(c.dtype)


@kernel
def add_parts(parts: Any, c: Any, count: Any, splits: Any) -> None:
    """Add the parts of each element in order; parts are ``count`` apart."""
    i = absolute_position()
    if i < count:
        total = parts[i]
        for split in range(1, splits):
            total = total + parts[i + split * count]
        c[i] = total.to(c.dtype)
