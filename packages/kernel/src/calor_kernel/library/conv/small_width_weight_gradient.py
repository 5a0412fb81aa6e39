"""Weight gradients of narrow images: channels of one operand by vectors of the other's.

Requirements: a tile of sums has all taps of a row, so that an element serves several of them. One
operand is read in place, an element at a time. The order of a sum depends on the problem alone.
"""

from __future__ import annotations

from calor.dtypes import DType
from calor_kernel.language import (
    In,
    Number,
    Out,
    Pointer,
    Registers,
    Size,
    Stride,
    cube_position,
    kernel,
    max,
    min,
    range,
    registers,
    splat,
)
from calor_kernel.library.conv.small_width import Row
from calor_kernel.library.conv.vector_tiles import Slide, Strides, below, iota, multiply_add, share


@kernel
def weigh_narrow(
    panel_memory: In,
    s: In,
    c: Out,
    images: Size,
    groups: Size,
    panels: Size,
    rows_total: Size,
    columns_total: Size,
    block_rows: Size,
    panel_size: Size,
    s_steps: Strides[Number],
    s_line: Stride,
    c_steps: Strides[Number],
    down: Slide[Number],
    *,
    along: Row,
    of_input: bool,
    rows: int,
    vectors: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute ``c[row, column, tap]``: panels of columns from x, blocks of rows from y, groups z.

    Columns are channels of the packed operand: the input if ``of_input``, else the output gradient.
    Rows are channels of the other. The axes of c are groups, rows and columns. ``down``: the
    windows down an image.
    """
    panel, group = cube_position(0), cube_position(2)
    first_row, last_row = share(cube_position(1), block_rows, rows_total)
    span, taps = vectors * lanes, along.of.window
    line = (along.of.size if of_input else along.of.count) * span
    for first in range(first_row, last_row, rows):
        row = min(first, last_row - rows)
        for k in range(down.window):
            shift = k * down.dilation + down.start
            low = max((down.stride - 1 - shift) // down.stride, 0)
            high = min((down.size - 1 - shift) // down.stride + 1, down.count)
            acc = registers((rows, taps, vectors), accumulate, lanes)
            for image in range(images):
                v_at = ((image * groups + group) * panels + panel) * panel_size
                s_at = s_steps.at(image, group) + row * s_steps.inner
                for y in range(low, high):
                    seen = y * down.stride + shift
                    v_line = v_at + (seen if of_input else y) * line
                    s_place = s_at + (y if of_input else seen) * s_line
                    add_lines(acc, panel_memory, v_line, s, s_place, s_steps.inner, along, of_input)
            at = group * c_steps.outer + row * c_steps.middle + k * taps
            for v in range(vectors):
                column = panel * span + v * lanes
                inside = below(columns_total - column, lanes)
                lane = iota(lanes).to(at.dtype) + splat(column, lanes)
                lane = lane * splat(c_steps.inner, lanes)
                for r in range(rows):
                    for tap in range(taps):
                        value = acc[r, tap, v].to(c.dtype)
                        to = splat(at + r * c_steps.middle + tap, lanes)
                        c.store(lane + to, value, mask=inside)


def add_lines(
    acc: Registers,
    panel: Pointer,
    v_line: Number,
    s: Pointer,
    s_line: Number,
    step: Number,
    along: Row,
    of_input: bool,
) -> None:
    """Add the products of a row of each operand."""
    rows, _, vectors = acc.shape
    lanes, wide = acc.type.width, acc.type.dtype
    found = [(i, o, k) if of_input else (o, i, k) for i, o, k in along.pairs()]
    read: dict[int, list[Number]] = {}
    for place in sorted({p for _, p, _ in found}):
        meet = [(far, tap) for far, p, tap in found if p == place]
        for far, _ in meet:
            if far not in read:
                at = v_line + far * vectors * lanes
                read[far] = [panel.load(at + v * lanes, lanes) for v in range(vectors)]
        for r in range(rows):
            value = splat(s[s_line + r * step + place].to(wide), lanes)
            for far, tap in meet:
                for v in range(vectors):
                    acc[r, tap, v] = multiply_add(value, read[far][v], acc[r, tap, v])
