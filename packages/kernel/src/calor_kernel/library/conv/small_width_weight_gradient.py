"""Weight gradients of narrow images: channels of one operand by vectors of the other's.

Requirements: a tile of sums has all taps of a row, so that an element serves several of them. One
operand is read in place, an element at a time. The order of a sum depends on the problem alone.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language import cube_position, fma, kernel, registers, splat
from calor_kernel.library.conv.phase_planes import iota
from calor_kernel.library.conv.small_width import Row
from calor_kernel.library.conv.weight_gradient_rows import share


@kernel
def weigh_narrow(
    panel_memory: Any,
    s: Any,
    c: Any,
    images: Any,
    groups: Any,
    panels: Any,
    rows_total: Any,
    columns_total: Any,
    block_rows: Any,
    panel_size: Any,
    s_outer: Any,
    s_group: Any,
    s_channel: Any,
    s_line: Any,
    c_group: Any,
    c_row: Any,
    c_column: Any,
    taps: Any,
    step: Any,
    dilation: Any,
    start: Any,
    count: Any,
    size: Any,
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
    Rows are channels of the other. Down an image, tap k of ``taps`` of output row o of ``count``
    reads ``o * step + k * dilation + start`` of ``size``.
    """
    panel, group = cube_position(0), cube_position(2)
    first_row, last_row = share(cube_position(1), block_rows, rows_total)
    span = vectors * lanes
    line = (along.size if of_input else along.count) * span
    for first in range(first_row, last_row, rows):
        row = min(first, last_row - rows)
        for k in range(taps):
            shift = k * dilation + start
            low = max((step - 1 - shift) // step, 0)
            high = min((size - 1 - shift) // step + 1, count)
            acc = registers((rows, along.taps, vectors), accumulate, lanes)
            for image in range(images):
                v_at = ((image * groups + group) * panels + panel) * panel_size
                s_at = image * s_outer + group * s_group + row * s_channel
                for y in range(low, high):
                    seen = y * step + shift
                    v_line = v_at + (seen if of_input else y) * line
                    s_place = s_at + (y if of_input else seen) * s_line
                    add_lines(acc, panel_memory, v_line, s, s_place, s_channel, along, of_input)
            at = group * c_group + row * c_row + k * along.taps
            for v in range(vectors):
                column = panel * span + v * lanes
                inside = iota(lanes) < splat((columns_total - column).to(iota(1).dtype), lanes)
                lane = (iota(lanes).to(at.dtype) + splat(column, lanes)) * splat(c_column, lanes)
                for r in range(rows):
                    for tap in range(along.taps):
                        value = acc[r, tap, v].to(c.dtype)
                        c.store(lane + splat(at + r * c_row + tap, lanes), value, mask=inside)


def add_lines(
    acc: Any, panel: Any, v_line: Any, s: Any, s_line: Any, step: Any, along: Row, of_input: bool
) -> None:
    """Add the products of a row of each operand."""
    rows, _, vectors = acc.shape
    lanes, wide = acc.type.width, acc.type.dtype
    found = [(i, o, k) if of_input else (o, i, k) for i, o, k in along.pairs()]
    read: dict[int, list[Any]] = {}
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
                    if wide.kind == "float":
                        acc[r, tap, v] = fma(value, read[far][v], acc[r, tap, v])
                    else:
                        acc[r, tap, v] = acc[r, tap, v] + value * read[far][v]
