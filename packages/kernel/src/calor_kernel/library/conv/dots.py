"""Gradients of weights as dot products of lines: vectors run along places, and are summed last.

Requirements: nothing is packed or transposed: a line of the result's gradient meets a line of the
input shifted by a tap; a tile of sums serves several channels of each, so that loads are few; the
order of a sum depends on the problem alone.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    cube_position,
    fma,
    helper,
    kernel,
    loop_range,
    registers,
    vreduce,
)
from calor_kernel.library.conv.line import Line, LineAxis, line_axes, near


@kernel
def list_seen(
    seen: Any,
    count: Any,
    length: Any,
    high: Any,
    step: Any,
    turns: Any,
    *axes: Any,
    lanes: int,
    strides: tuple[int, int, int],
    wraps: int,
) -> None:
    """Write, for each tap, which places see no padding: ``turns`` vectors of ``step`` a tap."""
    deep, tall, wide = line_axes(axes, strides)
    line = Line(deep, tall, wide, count, length, high, 0, 0, 1, 0)
    begin = cube_position(0) * (turns * lanes)
    for first in range(begin, min(begin + turns * lanes, step), lanes):
        plane, y, column = line.places(first, lanes, wraps)
        inside = near(first, count, lanes) & wide.has(column) & tall.has(y)
        at = first
        for kd in range(deep.taps):
            some = inside & deep.sees(plane, kd)
            for kh in range(tall.taps):
                more = some & tall.sees(y, kh)
                for kw in range(wide.taps):
                    seen.store(at, more & wide.sees(column, kw))
                    at += step


@kernel
def dot_lines(
    x: Any,
    g: Any,
    seen: Any,
    c: Any,
    images: Any,
    rows_total: Any,
    columns_total: Any,
    count: Any,
    x_outer: Any,
    x_group: Any,
    x_step: Any,
    g_outer: Any,
    g_group: Any,
    g_row: Any,
    c_group: Any,
    c_row: Any,
    c_step: Any,
    mask_step: Any,
    block_rows: Any,
    block_taps: Any,
    *axes: Any,
    rows: int,
    columns: int,
    lanes: int,
    accumulate: DType,
    strides: tuple[int, int, int],
    masked: bool,
) -> None:
    """Compute ``c[row, column, tap]``: columns from x, rows from y, and groups and taps from z.

    A row is a channel of g, a column one of x, both in a group. ``masked``: ``seen`` has, for each
    tap, ``mask_step`` bools that say which places see no padding.
    """
    deep, tall, wide = line_axes(axes, strides)
    taps = deep.taps * tall.taps * wide.taps
    blocks = (taps + block_taps - 1) // block_taps
    group, block = cube_position(2) // blocks, cube_position(2) % blocks
    first_column, last_column = share(cube_position(0), columns, columns_total)
    first_row, last_row = share(cube_position(1), block_rows, rows_total)
    whole = 0 if masked else count // lanes * lanes
    across = (last_column - first_column + (columns - 1)) // columns
    down = (last_row - first_row + (rows - 1)) // rows
    for tile in range(across * down):
        # The last tile of rows or columns computes some again, where no whole one is left.
        column = min(first_column + tile % across * columns, last_column - columns)
        row = min(first_row + tile // across * rows, last_row - rows)
        x_start = group * x_group + column * x_step
        g_start = group * g_group + row * g_row
        for tap in range(block * block_taps, min((block + 1) * block_taps, taps)):
            shift = begin_of(tap, deep, tall, wide)
            acc = registers((rows, columns), accumulate, lanes)
            for image in range(images):
                x_at = x_start + image * x_outer + shift
                g_at = g_start + image * g_outer
                x_lines = [x_at + j * x_step for j in range(columns)]
                g_lines = [g_at + r * g_row for r in range(rows)]
                for i in loop_range(0, whole, lanes):
                    add_places(acc, x, x_lines, g, g_lines, i, None)
                for i in loop_range(whole, count, lanes):
                    if masked:
                        inside = seen.load(tap * mask_step + i, lanes)
                    else:
                        inside = near(i, count, lanes)
                    add_places(acc, x, x_lines, g, g_lines, i, inside)
            at = group * c_group + row * c_row + column * c_step + tap
            for r in range(rows):
                for j in range(columns):
                    total = vreduce("add", acc[r, j])
                    c[at + r * c_row + j * c_step] = total.to(c.dtype)


@helper
def share(cube: Any, size: Any, total: Any) -> tuple[Any, Any]:
    """Return the first and the end of a cube's share; the last cube takes what is left too."""
    first = cube * size
    last = first + size
    if last + size > total:
        last = total
    return first, last


def begin_of(tap: Any, deep: LineAxis, tall: LineAxis, wide: LineAxis) -> Any:
    """Return how many elements further on its line a tap begins."""
    rest, kw = tap // wide.taps, tap % wide.taps
    return deep.at(rest // tall.taps) + tall.at(rest % tall.taps) + wide.at(kw)


@helper
def add_places(
    acc: Any, x: Any, x_lines: list[Any], g: Any, g_lines: list[Any], i: Any, inside: Any
) -> None:
    """Add the products of one vector of places."""
    rows, columns = acc.shape
    lanes, wide = acc.type.width, acc.type.dtype
    seen = [x.load(at + i, lanes, mask=inside).to(wide) for at in x_lines]
    for r in range(rows):
        value = g.load(g_lines[r] + i, lanes, mask=inside).to(wide)
        for j in range(columns):
            if wide.kind == "float":
                acc[r, j] = fma(value, seen[j], acc[r, j])
            else:
                acc[r, j] = acc[r, j] + value * seen[j]


@kernel
def dot_taps(
    x: Any,
    g: Any,
    seen: Any,
    c: Any,
    images: Any,
    rows_total: Any,
    columns_total: Any,
    count: Any,
    x_outer: Any,
    x_group: Any,
    x_step: Any,
    g_outer: Any,
    g_group: Any,
    g_row: Any,
    c_group: Any,
    c_row: Any,
    c_step: Any,
    mask_step: Any,
    *axes: Any,
    taps: int,
    lanes: int,
    accumulate: DType,
    strides: tuple[int, int, int],
    masked: bool,
) -> None:
    """Compute ``taps`` taps from z on, of one row and column: the body for groups of few channels.

    Cubes are rows and columns of all groups, from x. Other arguments as for ``dot_lines``.
    """
    deep, tall, wide = line_axes(axes, strides)
    total = deep.taps * tall.taps * wide.taps
    pair, place = cube_position(0) // columns_total, cube_position(0) % columns_total
    group, row = pair // rows_total, pair % rows_total
    first_tap, last_tap = share(cube_position(2), taps, total)
    for step in range(first_tap, last_tap, taps):
        tap = min(step, last_tap - taps)
        shifts = [begin_of(tap + k, deep, tall, wide) for k in range(taps)]
        acc = registers(taps, accumulate, lanes)
        for image in range(images):
            x_at = image * x_outer + group * x_group + place * x_step
            g_at = image * g_outer + group * g_group + row * g_row
            for i in range(0, count, lanes):
                inside = near(i, count, lanes)
                value = g.load(g_at + i, lanes, mask=inside).to(accumulate)
                for k in range(taps):
                    if masked:
                        inside = seen.load((tap + k) * mask_step + i, lanes)
                    other = x.load(x_at + shifts[k] + i, lanes, mask=inside).to(accumulate)
                    if accumulate.kind == "float":
                        acc[k] = fma(value, other, acc[k])
                    else:
                        acc[k] = acc[k] + value * other
        at = group * c_group + row * c_row + place * c_step + tap
        for k in range(taps):
            c[at + k] = vreduce("add", acc[k]).to(c.dtype)
