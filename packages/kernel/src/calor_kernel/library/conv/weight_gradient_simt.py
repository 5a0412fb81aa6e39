"""Weight gradients as implicit GEMM by SIMT register tiles in float32.

Requirements: both operands are read in place along the summed pixels, and neighbouring units read
neighbouring elements. A unit has the same lines of both operands in all steps, so their tap
coordinates are computed once, and a step's pixel once for all lines of a unit.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    FastDivmod,
    Pipeline,
    assume_multiple,
    cube_position,
    helper,
    kernel,
    launch_attributes,
    unit_index,
    way_of_units,
)
from calor_kernel.library.gemm.simt import multiply, simt_tile
from calor_kernel.library.gemm.simt_plan import FOUR, Patches


@kernel
def conv_weight_patches(
    g: Any,
    x: Any,
    c: Any,
    rows_total: Any,
    columns_total: Any,
    terms: Any,
    share: Any,
    part_step: Any,
    c_row: Any,
    g_row: Any,
    x_channel: Any,
    channels: Any,
    *numbers: Any,
    plan: Patches,
    alike: int,
    ragged: tuple[bool, bool],
    padded: bool,
    run: int,
) -> None:
    """Compute a tile: g's channels from y, taps of x's channels from x, a part of pixels from z.

    Columns are the channels of a tap, without those from ``channels`` on, then those of the next
    tap; each ``alike`` adjacent columns share a tap. If ``alike`` is 0, columns are the taps of a
    channel, then those of the next. ``numbers``: for each axis result, summed, start, size, and the
    strides of x and g; both strides of images; the divisors of pixels, columns and taps.
    ``ragged``: whether tiles have rows beyond the last one, and ``alike`` columns channels beyond
    it. ``padded``: whether windows reach padding. ``run``: the result's columns of one access.
    """
    launch_attributes(cubes_per_core=plan.together)
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    split = cube_position(2)
    begin, end = split * share, min((split + 1) * share, terms)
    deep, line = unit_index() % plan.depth, unit_index() // plan.depth
    apart = plan.units // plan.depth
    axes, steps = (numbers[:6], numbers[6:12]), numbers[12:14]
    image, across, columns, taps = FastDivmod.groups(numbers[14:26])
    together = alike or apart
    mine = []
    for begun in range(0, plan.columns, together):
        column = first_column + begun + line
        outer, inner = columns.divmod(first_column + begun if alike else column)
        tap, channel = (outer, inner + line) if alike else (inner, outer)
        down, right = taps.divmod(tap)
        y = down * axes[0][0] + axes[0][2]
        z = right * axes[1][0] + axes[1][2]
        at = channel * x_channel + y * axes[0][4] + z * axes[1][4]
        left = min(columns_total - column, channels - channel)
        mine.append((y, z, at, left))
    pipe = Pipeline(plan.stages, *plan.tiles, how=way_of_units())
    tile = simt_tile(plan)
    g_start = (first_row + line) * g_row

    def load(pipe: Any, at: Any) -> None:
        term = at + deep
        there = term < end
        lead, place = image.divmod(term)
        down, right = across.divmod(place)
        source = g_start + lead * steps[1] + down * axes[0][5] + right * axes[1][5]
        for turn in range(0, plan.rows, apart):
            inside = there
            if ragged[0]:
                inside = inside & (first_row + line + turn < rows_total)
            to = line + turn + deep * (plan.rows + FOUR)
            pipe.copy(0, to, g, source + turn * g_row, 1, inside, near=True)
        y, z = down * axes[0][1], right * axes[1][1]
        source = lead * steps[0] + y * axes[0][4] + z * axes[1][4]
        for number, (top, far, start, left) in enumerate(mine):
            inside = there & (left > 0)
            if padded:
                inside = inside & within(y + top, axes[0][3]) & within(z + far, axes[1][3])
            for turn in range(0, together, apart):
                seen = inside
                if ragged[1] and turn:
                    seen = seen & (left > turn)
                to = line + turn + number * together + deep * (plan.columns + FOUR)
                pipe.copy(1, to, x, source + start + turn * x_channel, 1, seen, near=True)

    # Both operands have the same pixels: one loader computes their coordinates for both.
    multiply(tile, pipe, (load,), begin, end)
    to = split * part_step
    for i, row in tile.rows(first_row):
        for j, column in tile.columns(first_column, run):
            if (row < rows_total) & (column < columns_total):
                found = tile.value(i, j, run)
                c.store(assume_multiple(to + row * c_row + column, run), found.to(c.dtype))


@helper
def within(place: Any, size: Any) -> Any:
    """Return whether a position is not padding."""
    return (place >= 0) & (place < size)
