"""Weight gradients by matrix instructions of planes.

Requirements: terms are the pixels of all images, so long sums are split into parts that are added
in a fixed order. Both operands have dense channels, so a copy is a whole access of one pixel, and
the instruction's loads transpose.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    Pipeline,
    assume_multiple,
    cube_position,
    helper,
    kernel,
    pack,
    unit_index,
    way_of_units,
)
from calor_kernel.library.conv.implicit_gemm_mma import columns_of, rows_of, run_of, windows_of
from calor_kernel.library.gemm.mma import Fragments

# Minimum of units that copy one pixel: with 16-byte accesses they read a line of 128 bytes.
_UNITS = 8


def units_of_place(plan: Fragments) -> int:
    """Return the units that copy one pixel; more if a cube has units to spare."""
    return max(_UNITS, plan.units // plan.depth)


@kernel
def conv_weight_fragments(
    g: Any,
    x: Any,
    c: Any,
    rows_total: Any,
    columns_total: Any,
    terms: Any,
    splits: Any,
    share: Any,
    part_step: Any,
    g_place: Any,
    *numbers: Any,
    plan: Fragments,
) -> None:
    """Compute a tile: g's channels from y, taps of x's channels from x, a part of pixels from z.

    ``g_place``: the stride of pixels of g, of all images. In the windows, columns are pixels of g,
    which are the terms of this product. A part is dense, and has an even number of columns.
    """
    windows = windows_of(numbers)
    split = cube_position(2)
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    begin, end = split * share, min((split + 1) * share, terms)
    pipe = Pipeline(plan.stages, *plan.tiles, how=way_of_units())
    sums, row, column = plan.sums()
    # A unit always copies the same columns, of different pixels; some units share a pixel's line.
    beside = units_of_place(plan)
    wide = beside * plan.access
    mine = unit_index() % beside * plan.access
    fars = [windows.tap(first_column + mine + c) for c in range(0, plan.columns, wide)]
    source = (g, x, windows, fars, rows_total, columns_total, g_place)

    def load(pipe: Any, at: Any) -> None:
        take_places(pipe, source, plan, first_row, first_column, mine, at, end)

    plan.accumulate(sums, pipe, (load,), row, column, begin, end)
    for j, far_in in columns_of(sums[0]):
        down, right = sums[0][j].lane_place()
        place = first_column + column + j * plan.shape.n + right + far_in
        run = run_of(plan.shape)
        for i in range(len(sums)):
            for r, *found in rows_of(sums[i][j], far_in):
                at = first_row + row + i * plan.shape.m + down + r
                to = split * part_step + at * columns_total + place
                if run > 1:
                    to = assume_multiple(to, run)
                there = (place < columns_total) & (at < rows_total)
                if there:
                    # A mask would apply to each element and split the access.
                    c.store(to, pack(found).to(c.dtype))


@helper
def take_places(
    pipe: Any,
    source: Any,
    plan: Fragments,
    first_row: Any,
    first_column: Any,
    mine: Any,
    begin: Any,
    end: Any,
) -> None:
    """Start copying both tiles for some pixels, with zeros for padding and beyond the end."""
    g, x, windows, fars, rows_total, columns_total, g_place = source
    left_at, right_at = plan.layout(True), plan.layout(False)
    beside = units_of_place(plan)
    wide, apart = beside * plan.access, plan.units // beside
    for turn in range(plan.depth // apart):
        deep = unit_index() // beside + turn * apart
        there = begin + deep < end
        for first in range(0, plan.rows, wide):
            row = mine + first
            of = (begin + deep) * g_place + first_row + row
            inside = there & (first_row + row < rows_total)
            pipe.copy(0, left_at(row, deep), g, of, plan.access, inside)
        at, y, place = windows.start(begin + deep, end)
        for c, (far_y, far_x, far) in enumerate(fars):
            column = mine + c * wide
            inside = windows.inside(y + far_y, place + far_x)
            inside = inside & (first_column + column < columns_total)
            pipe.copy(1, right_at(deep, column), x, at + far, plan.access, inside, near=True)
