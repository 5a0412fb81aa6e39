"""Weight gradients as dot products of rows: vectors run along pixels and are summed last.

Requirements: nothing is packed or transposed. A line of the output gradient meets a line of the
input shifted by a tap. A tile of sums has several channels of each operand, so loads are few. The
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
    shuffle,
)
from calor_kernel.library.conv.row_axes import Line, LineAxis, line_axes, near


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
    """Write the pixels without padding of each tap: ``turns`` vectors of ``step`` a tap."""
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
    taps: int,
    lanes: int,
    accumulate: DType,
    strides: tuple[int, int, int],
    masked: bool,
) -> None:
    """Compute ``c[row, column, tap]``: columns from x, rows from y, taps and groups from z.

    A row is a channel of g, a column one of x, both in a group. A tile has ``rows`` by ``columns``
    of them, and ``taps`` adjacent taps. ``masked``: ``seen`` has, for each tap, ``mask_step``
    bools, True for pixels without padding.
    """
    deep, tall, wide = line_axes(axes, strides)
    taps_total = deep.taps * tall.taps * wide.taps
    blocks = max(taps_total // block_taps, 1)
    group, block = cube_position(2) // blocks, cube_position(2) % blocks
    first_column, last_column = share(cube_position(0), columns, columns_total)
    first_row, last_row = share(cube_position(1), block_rows, rows_total)
    first_tap, last_tap = share(block, block_taps, taps_total)
    whole = 0 if masked else count // lanes * lanes
    across = (last_column - first_column + (columns - 1)) // columns
    down = (last_row - first_row + (rows - 1)) // rows
    for tile in range(across * down):
        # The last tile of rows, columns or taps overlaps the one before.
        column = min(first_column + tile % across * columns, last_column - columns)
        row = min(first_row + tile // across * rows, last_row - rows)
        x_start = group * x_group + column * x_step
        g_start = group * g_group + row * g_row
        for step in range(first_tap, last_tap, taps):
            tap = min(step, last_tap - taps)
            shifts = [begin_of(tap + t, deep, tall, wide) for t in range(taps)]
            acc = registers((rows, columns * taps), accumulate, lanes)
            for image in range(images):
                x_at, g_at = x_start + image * x_outer, g_start + image * g_outer
                x_lines = [x_at + j * x_step + shift for j in range(columns) for shift in shifts]
                g_lines = [g_at + r * g_row for r in range(rows)]
                for i in loop_range(0, whole, lanes):
                    add_places(acc, x, x_lines, g, g_lines, i, [None] * taps, None)
                for i in loop_range(whole, count, lanes):
                    there = near(i, count, lanes)
                    inside = [there] * taps
                    if masked:
                        inside = [seen.load((tap + t) * mask_step + i, lanes) for t in range(taps)]
                    add_places(acc, x, x_lines, g, g_lines, i, inside, there)
            at = group * c_group + row * c_row + column * c_step + tap
            totals = sums([acc[r, j] for r in range(rows) for j in range(columns * taps)])
            for number, total in enumerate(totals):
                r, j = number // (columns * taps), number % (columns * taps)
                c[at + r * c_row + j // taps * c_step + j % taps] = total.to(c.dtype)


def sums(vectors: list[Any]) -> list[Any]:
    """Return the sum of the lanes of each vector, halves first, for as many vectors as lanes."""
    lanes = vectors[0].width
    found: list[Any] = []
    for start in range(0, len(vectors), lanes):
        some = vectors[start : start + lanes]
        count = len(some)
        width = lanes
        while width > 1:
            if len(some) % 2:
                some.append(some[-1])
            half = width // 2
            pairs = list(zip(some[::2], some[1::2], strict=True)) or [(some[0], some[0])]
            some = [_halved(a, b, half) for a, b in pairs]
            width = half
        found += [some[i // lanes][i % lanes] for i in range(count)]
    return found


def _halved(a: Any, b: Any, half: int) -> Any:
    """Return the segments of two vectors, each as the sum of its halves of ``half`` lanes."""
    lanes = a.width
    low = [i for i in range(2 * lanes) if i % (2 * half) < half]
    return shuffle(a, low, b) + shuffle(a, [i + half for i in low], b)


@helper
def share(cube: Any, size: Any, total: Any) -> tuple[Any, Any]:
    """Return the start and end of a cube's share; the last cube takes the rest too."""
    first = cube * size
    last = first + size
    if last + size > total:
        last = total
    return first, last


def begin_of(tap: Any, deep: LineAxis, tall: LineAxis, wide: LineAxis) -> Any:
    """Return the shift of a tap on its line, in elements."""
    rest, kw = tap // wide.taps, tap % wide.taps
    return deep.at(rest // tall.taps) + tall.at(rest % tall.taps) + wide.at(kw)


def add_places(
    acc: Any,
    x: Any,
    x_lines: list[Any],
    g: Any,
    g_lines: list[Any],
    i: Any,
    inside: list[Any],
    there: Any,
) -> None:
    """Add the products of one vector of pixels; masks: ``inside`` for each tap, ``there`` for g."""
    rows, columns = acc.shape
    lanes, wide = acc.type.width, acc.type.dtype
    taps = len(inside)
    seen = [x.load(at + i, lanes, mask=inside[j % taps]).to(wide) for j, at in enumerate(x_lines)]
    for r in range(rows):
        value = g.load(g_lines[r] + i, lanes, mask=there).to(wide)
        for j in range(columns):
            if wide.kind == "float":
                acc[r, j] = fma(value, seen[j], acc[r, j])
            else:
                acc[r, j] = acc[r, j] + value * seen[j]
