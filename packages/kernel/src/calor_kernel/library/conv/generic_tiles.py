"""Convolutions by cubes of many units: products of tiles whose operands are found on the fly.

Requirements: the input is never spread out to columns; units side by side read side by side; a
place is found by multiplications and shifts; what a long sum leaves in parts is added in one order.
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

# The numbers of a spatial axis, beside those that count places and terms.
AXIS = 6


@dataclass(frozen=True, slots=True)
class Places:
    """How the spatial axes of a correlation lie: as ``problem.Axis``, with quick divisors."""

    counts: Any
    terms: Any
    axes: Any
    divides: tuple[int, ...]

    def columns(self, column: Any) -> tuple[Any, list[Any], Any]:
        """Return the lead of a column, where its windows begin, and its place in the result."""
        lead, *place = unravel(column, (0, *self.counts))
        starts = [p * axis[0] + axis[2] for p, axis in zip(place, self.axes, strict=True)]
        inner = place[0]
        for p, count in zip(place[1:], self.counts[1:], strict=True):
            inner = inner * count.divisor + p
        return lead, starts, inner

    def depths(self, k: Any) -> tuple[Any, Any]:
        """Return the depth of a term, and its place along each axis."""
        depth, *taps = unravel(k, (0, *self.terms))
        return depth, taps

    @helper
    def offset(self, starts: list[Any], taps: Any) -> tuple[Any, Any]:
        """Return where a window's term lies in a plane, and whether it is no padding."""
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

    Rows are channels that b has alone; columns are those that a has alone, by the places of the
    result. z counts groups, and ``splits`` parts of the sum of ``share`` terms, ``part_step`` apart
    in the result. ``numbers``: quick divisors for the three axes' places and terms, then the axes.
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
    # A unit fills one column of the right tile, and one term of the left one.
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
    """Add the parts of each element, which are ``count`` apart, in their order."""
    i = absolute_position()
    if i < count:
        total = parts[i]
        for split in range(1, splits):
            total = total + parts[i + split * count]
        c[i] = total.to(c.dtype)
