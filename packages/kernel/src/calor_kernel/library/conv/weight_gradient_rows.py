"""Weight gradients as dot products of rows: vectors run along pixels and are summed last.

Requirements: nothing is packed or transposed. A line of the output gradient meets a line of the
input shifted by a tap. A tile of sums has several channels of each operand, so loads are few. The
order of a sum depends on the problem alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel.language import (
    In,
    Mask,
    Number,
    Out,
    Pointer,
    Size,
    Stride,
    cube_position,
    kernel,
    loop_range,
    max,
    min,
    range,
    registers,
    shuffle,
)
from calor_kernel.library.conv.row_axes import Line, LineNumbers
from calor_kernel.library.conv.vector_tiles import Strides, add_products, below, share


@kernel
def list_seen(
    seen: Out,
    pixels: LineNumbers[Number],
    step: Size,
    turns: Size,
    *,
    lanes: int,
    strides: tuple[int, int, int],
    wraps: int,
) -> None:
    """Write the pixels without padding of each tap: ``turns`` vectors of ``step`` a tap."""
    line = Line(pixels, strides)
    deep, tall, wide = line.axes
    begin = cube_position(0) * (turns * lanes)
    for first in range(begin, min(begin + turns * lanes, step), lanes):
        plane, y, column = line.places(first, lanes, wraps)
        inside = line.near(first, lanes) & wide.has(column) & tall.has(y)
        at = first
        for kd in range(deep.of.taps):
            some = inside & deep.sees(plane, kd)
            for kh in range(tall.of.taps):
                more = some & tall.sees(y, kh)
                for kw in range(wide.of.taps):
                    seen.store(at, more & wide.sees(column, kw))
                    at += step


@dataclass(frozen=True, slots=True)
class DotTiles:
    """Tiles of ``rows`` by ``columns`` channels of both operands by ``taps`` adjacent taps.

    ``masked``: whether taps read padding.
    """

    rows: int
    columns: int
    taps: int
    lanes: int
    accumulate: DType
    strides: tuple[int, int, int]
    masked: bool


@kernel
def dot_lines(
    x: In,
    g: In,
    seen: In,
    c: Out,
    images: Size,
    rows_total: Size,
    columns_total: Size,
    x_steps: Strides[Number],
    g_steps: Strides[Number],
    c_steps: Strides[Number],
    mask_step: Stride,
    block_rows: Size,
    block_taps: Size,
    pixels: LineNumbers[Number],
    *,
    how: DotTiles,
) -> None:
    """Compute ``c[row, column, tap]``: columns from x, rows from y, taps and groups from z.

    A row is a channel of g, a column one of x, both in a group; the axes of c are groups, rows and
    columns. If masked, ``seen`` has, for each tap, ``mask_step`` bools, True for pixels without
    padding.
    """
    lanes, rows, columns, taps, count = how.lanes, how.rows, how.columns, how.taps, pixels.count
    line = Line(pixels, how.strides)
    tall, wide = pixels.axes[1], pixels.axes[2]
    taps_total = line.taps
    blocks = max(taps_total // block_taps, 1)
    group, block = cube_position(2) // blocks, cube_position(2) % blocks
    first_column, last_column = share(cube_position(0), columns, columns_total)
    first_row, last_row = share(cube_position(1), block_rows, rows_total)
    first_tap, last_tap = share(block, block_taps, taps_total)
    whole = 0 if how.masked else count // lanes * lanes
    across = (last_column - first_column + (columns - 1)) // columns
    down = (last_row - first_row + (rows - 1)) // rows

    def load(p: Pointer, at: Number, mask: Mask | None) -> Number:
        return p.load(at, lanes, mask=mask).to(how.accumulate)

    for tile in range(across * down):
        # The last tile of rows, columns or taps overlaps the one before.
        column = min(first_column + tile % across * columns, last_column - columns)
        row = min(first_row + tile // across * rows, last_row - rows)
        x_start = group * x_steps.middle + column * x_steps.inner
        g_start = group * g_steps.middle + row * g_steps.inner
        for step in range(first_tap, last_tap, taps):
            tap = min(step, last_tap - taps)
            shifts = []
            for t in range(taps):
                rest, kw = (tap + t) // wide.taps, (tap + t) % wide.taps
                shifts.append(line.shift(rest // tall.taps, rest % tall.taps, kw))
            acc = registers((rows, columns * taps), how.accumulate, lanes)
            for image in range(images):
                x_at, g_at = x_start + image * x_steps.outer, g_start + image * g_steps.outer
                x_lines = [x_at + j * x_steps.inner + t for j in range(columns) for t in shifts]
                g_lines = [g_at + r * g_steps.inner for r in range(rows)]
                for i in loop_range(0, whole, lanes):
                    others = [load(x, at + i, None) for at in x_lines]
                    add_products(acc, (load(g, at + i, None) for at in g_lines), others)
                for i in loop_range(whole, count, lanes):
                    there = below(count - i, lanes)
                    inside = [there] * taps
                    if how.masked:
                        inside = [seen.load((tap + t) * mask_step + i, lanes) for t in range(taps)]
                    others = [load(x, at + i, inside[j % taps]) for j, at in enumerate(x_lines)]
                    add_products(acc, (load(g, at + i, there) for at in g_lines), others)
            to = group * c_steps.outer + row * c_steps.middle + column * c_steps.inner + tap
            for number, total in enumerate(sums(list(acc))):
                r, j = number // (columns * taps), number % (columns * taps)
                at = to + r * c_steps.middle + j // taps * c_steps.inner + j % taps
                c[at] = total.to(c.dtype)


def sums(vectors: list[Number]) -> list[Number]:
    """Return the sum of the lanes of each vector, halves first, for as many vectors as lanes."""
    lanes = vectors[0].width
    found: list[Number] = []
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


def _halved(a: Number, b: Number, half: int) -> Number:
    """Return the segments of two vectors, each as the sum of its halves of ``half`` lanes."""
    lanes = a.width
    low = [i for i in range(2 * lanes) if i % (2 * half) < half]
    return shuffle(a, low, b) + shuffle(a, [i + half for i in low], b)
