"""Implicit GEMM convolutions in float32 by SIMT register tiles.

Requirements: a unit loads the same pixel in all steps, and its neighbours load the adjacent ones,
so a pixel's coordinates are computed once and reads are contiguous. The copy fills padding with
zeros. A step's terms are channels of one tap where possible, and later steps are loaded while this
one is multiplied. (Implicit GEMM, as in Chetlur et al., "cuDNN: efficient primitives for deep
learning", 2014.)
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    Pipeline,
    assume_multiple,
    cube_position,
    helper,
    kernel,
    launch_attributes,
    unit_index,
    way_of_units,
)
from calor_kernel.library.conv.implicit_gemm_mma import phase_of, windows_of
from calor_kernel.library.gemm.simt import multiply, simt_tile
from calor_kernel.library.gemm.simt_plan import FOUR, Patches


@kernel
def conv_patches(
    w: Any,
    x: Any,
    c: Any,
    rows_total: Any,
    part_step: Any,
    c_row: Any,
    c_lead: Any,
    c_down: Any,
    c_across: Any,
    w_channel: Any,
    x_channel: Any,
    *numbers: Any,
    plan: Patches,
    phases: int,
    even: bool,
    run: int,
) -> None:
    """Compute a tile: output channels from y, output pixels and phase from x; a part from z.

    Numbers of phases are those of ``implicit_gemm_mma.conv_fragments``. In ``w`` output channels
    are dense; ``w_channel``, ``x_channel``: the strides of input channels. ``even``: whether a step
    has channels of one tap. ``run``: adjacent output pixels of one access.
    """
    launch_attributes(cubes_per_core=plan.together)
    # Neighbouring cubes have alternate phases, since these read and write neighbouring memory.
    split, phase = cube_position(2), cube_position(0) % phases
    first_row = cube_position(1) * plan.rows
    first_column = cube_position(0) // phases * plan.columns
    of_phase = phase_of(numbers[3:], phase, phases, 0, 1)
    columns_total, terms, share, c_start, *rest = of_phase
    windows = windows_of([*numbers[:3], *rest[4:]])
    begin, end = split * share, min((split + 1) * share, terms)
    near = min(plan.units, plan.columns)
    mine = [
        windows.start(first_column + far + unit_index() % near, columns_total)
        for far in range(0, plan.columns, near)
    ]
    operands = (w, first_row, rows_total, rest[:4], w_channel), (x, mine, x_channel)
    pipe = Pipeline(plan.stages, *plan.tiles, how=way_of_units())
    tile = simt_tile(plan)

    def load_weights(pipe: Any, at: Any) -> None:
        take_rows(pipe, operands[0], windows, at, end, plan, even)

    def load_image(pipe: Any, at: Any) -> None:
        take_places(pipe, operands[1], windows, at, end, plan, even)

    multiply(tile, pipe, (load_weights, load_image), begin, end)
    for j, place in tile.columns(first_column, run):
        lead, within = windows.counts[0].divmod(place)
        at = within
        if run == 1:
            high, wide = windows.counts[1].divmod(within)
            at = c_start + high * c_down + wide * c_across
        at = split * part_step + lead * c_lead + at
        if place < columns_total:
            for i, row in tile.rows(first_row):
                if row < rows_total:
                    found = tile.value(i, j, run)
                    c.store(assume_multiple(at + row * c_row, run), found.to(c.dtype))


@helper
def term_of(windows: Any, term: Any, depth: int, even: bool) -> Any:
    """Return the channel of a term, and the coordinates of its tap.

    Terms are a block of channels of each tap, then the next block: a step's channels if ``even``.
    """
    if even:
        step = term // depth
        some, tap = windows.taps[0].divmod(step)
        channel = some * depth
    else:
        tap, channel = windows.channels.divmod(term)
    down, across = windows.taps[1].divmod(tap)
    return channel, down, across


@helper
def take_rows(
    pipe: Any, operand: Any, windows: Any, begin: Any, end: Any, plan: Any, even: bool
) -> None:
    """Start copying a step's weights; neighbouring units copy neighbouring accesses."""
    w, first, count, (start, _, down_step, across_step), channel_step = operand
    lines = plan.rows // FOUR
    whole = lines * plan.depth
    base = start + first
    if even:
        channel, down, across = term_of(windows, begin, plan.depth, even)
        base = base + channel * channel_step + down * down_step + across * across_step
    for turn in range(-(-whole // plan.units)):
        piece = unit_index() + turn * plan.units
        place, deep = piece % lines * FOUR, piece // lines
        index = base + place
        if even:
            index = index + deep * channel_step
        else:
            channel, down, across = term_of(windows, begin + deep, plan.depth, even)
            index = index + channel * channel_step + down * down_step + across * across_step
        inside = (first + place < count) & (begin + (0 if even else deep) < end)
        if (whole % plan.units == 0) or (piece < whole):
            to = place + deep * (plan.rows + FOUR)
            pipe.copy(0, to, w, assume_multiple(index, FOUR), FOUR, inside)


@helper
def take_places(
    pipe: Any, operand: Any, windows: Any, begin: Any, end: Any, plan: Any, even: bool
) -> None:
    """Start copying a step's inputs; a unit copies those of the same pixels in each step."""
    x, mine, channel_step = operand
    near = min(plan.units, plan.columns)
    column, first = unit_index() % near, unit_index() // near
    apart = plan.units // near
    if even:
        channel, down, across = term_of(windows, begin, plan.depth, even)
        found = [seen(windows, one, channel_step, channel + first, down, across) for one in mine]
    for turn in range(0, plan.depth, apart):
        deep = first + turn
        last = begin
        if not even:
            last = begin + deep
            channel, down, across = term_of(windows, last, plan.depth, even)
            found = [seen(windows, one, channel_step, channel, down, across) for one in mine]
        for number, (index, inside) in enumerate(found):
            source = index + turn * channel_step if even else index
            to = column + number * near + deep * (plan.columns + FOUR)
            pipe.copy(1, to, x, source, 1, inside & (last < end), near=True)


@helper
def seen(
    windows: Any, place: Any, channel_step: Any, channel: Any, down: Any, across: Any
) -> tuple[Any, Any]:
    """Return the position of a term in a pixel's window, and whether it is not padding."""
    at, top, left = place
    y, x = down * windows.axes[0][1], across * windows.axes[1][1]
    far = y * windows.strides[1] + x * windows.strides[2] + channel * channel_step
    return at + far, windows.inside(top + y, left + x)
