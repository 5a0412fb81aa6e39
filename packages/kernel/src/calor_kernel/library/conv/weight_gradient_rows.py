"""Weight gradients as dot products of rows: vectors run along pixels and are summed last.

Requirements: nothing is packed or transposed. A line of the output gradient meets a line of the
input shifted by a tap. A tile of sums has several channels of each operand, so loads are few. The
order of a sum depends on the problem alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from calor.dtypes import DType, bool_
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Output
from calor_kernel.library.conv.blueprints import dot_tile
from calor_kernel.library.conv.padded_rows import (
    Lines,
    effort,
    is_plane,
    lines_copied,
    lines_in_place,
    pad,
    three,
    vectors,
)
from calor_kernel.library.conv.problem import Axis, Correlation, Lead
from calor_kernel.library.conv.row_axes import Line, LineNumbers
from calor_kernel.library.conv.vector_tiles import Strides, add_products, below, share, sums
from calor_kernel.library.steps import Steps


@kl.kernel
def list_masks(
    seen: kl.Out,
    pixels: LineNumbers[kl.Number],
    step: kl.Size,
    turns: kl.Size,
    *,
    lanes: int,
    strides: tuple[int, int, int],
    wraps: int,
) -> None:
    """Write the pixels without padding of each tap: ``turns`` vectors of ``step`` a tap."""
    line = Line(pixels, strides)
    _, tall, wide = line.axes
    begin = kl.cube_position(0) * (turns * lanes)
    for first in kl.range(begin, kl.min(begin + turns * lanes, step), lanes):
        places = line.places(first, lanes, wraps)
        inside = line.near(first, lanes) & wide.has(places[2]) & tall.has(places[1])
        line.list_masks(inside, places, seen, first, step)


@dataclass(frozen=True, slots=True)
class DotTiles:
    """Tiles of ``rows`` by ``columns`` channels of both operands by ``taps`` adjacent taps.

    ``masked``: whether taps read padding. ``skips``: whether rows that taps do not see are skipped.
    """

    rows: int
    columns: int
    taps: int
    lanes: int
    accumulate: DType
    strides: tuple[int, int, int]
    masked: bool
    skips: bool


@kl.kernel
def dot_rows(
    x: kl.In,
    g: kl.In,
    seen: kl.In,
    c: kl.Out,
    images: kl.Size,
    rows_total: kl.Size,
    columns_total: kl.Size,
    x_steps: Strides[kl.Number],
    g_steps: Strides[kl.Number],
    c_steps: Strides[kl.Number],
    mask_step: kl.Stride,
    block_rows: kl.Size,
    block_taps: kl.Size,
    pixels: LineNumbers[kl.Number],
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
    blocks = kl.max(taps_total // block_taps, 1)
    group, block = kl.cube_position(2) // blocks, kl.cube_position(2) % blocks
    first_column, last_column = share(kl.cube_position(0), columns, columns_total)
    first_row, last_row = share(kl.cube_position(1), block_rows, rows_total)
    first_tap, last_tap = share(block, block_taps, taps_total)
    whole = 0 if how.masked else count // lanes * lanes
    across = (last_column - first_column + (columns - 1)) // columns
    down = (last_row - first_row + (rows - 1)) // rows

    def load(p: kl.Pointer, at: kl.Number, mask: kl.Mask | None) -> kl.Number:
        return p.load(at, lanes, mask=mask).to(how.accumulate)

    for tile in kl.range(across * down):
        # The last tile of rows, columns or taps overlaps the one before.
        column = kl.min(first_column + tile % across * columns, last_column - columns)
        row = kl.min(first_row + tile // across * rows, last_row - rows)
        x_start = group * x_steps.middle + column * x_steps.inner
        g_start = group * g_steps.middle + row * g_steps.inner
        for step in kl.range(first_tap, last_tap, taps):
            tap = kl.min(step, last_tap - taps)
            shifts = []
            for t in kl.range(taps):
                rest, kw = (tap + t) // wide.taps, (tap + t) % wide.taps
                shifts.append(line.shift(rest // tall.taps, rest % tall.taps, kw))
            begin, end = whole, count
            if how.skips:
                begin, end = line.pixels_seen(tap, tap + (taps - 1), lanes)
            acc = kl.registers((rows, columns * taps), how.accumulate, lanes)
            for image in kl.range(images):
                x_at, g_at = x_start + image * x_steps.outer, g_start + image * g_steps.outer
                x_lines = [x_at + j * x_steps.inner + t for j in kl.range(columns) for t in shifts]
                g_lines = [g_at + r * g_steps.inner for r in kl.range(rows)]
                for i in kl.loop_range(0, whole, lanes):
                    others = [load(x, at + i, None) for at in x_lines]
                    add_products(acc, (load(g, at + i, None) for at in g_lines), others)
                for i in kl.loop_range(begin, end, lanes):
                    there = below(count - i, lanes)
                    inside = [there] * taps
                    if how.masked:
                        inside = [
                            seen.load((tap + t) * mask_step + i, lanes) for t in kl.range(taps)
                        ]
                    others = [load(x, at + i, inside[j % taps]) for j, at in enumerate(x_lines)]
                    add_products(acc, (load(g, at + i, there) for at in g_lines), others)
            to = group * c_steps.outer + row * c_steps.middle + column * c_steps.inner + tap
            for number, total in enumerate(sums(list(acc))):
                r, j = number // (columns * taps), number % (columns * taps)
                at = to + r * c_steps.middle + j // taps * c_steps.inner + j % taps
                c[at] = total.to(c.dtype)


# Bytes of masks, for all taps and pixels.
_MASKS = 1 << 26


def forward_of(problem: Correlation) -> Correlation:
    """Return the convolution whose weight gradient a problem is: taps and pixels change sides."""
    groups, rows, columns = problem.leads
    images = problem.depth
    return Correlation(
        (
            Lead(images.size, images.a, images.b),
            Lead(groups.size, groups.a, groups.b),
            Lead(rows.size, 0, rows.b),
        ),
        Lead(columns.size, columns.a, 0),
        tuple(
            Axis(a.terms, a.count, a.summed, a.result, a.start, 1, a.size, a.a, a.b)
            for a in problem.axes
        ),
        problem.a,
        problem.b,
    )


def weight_rows_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why dot products of rows do not suit a weight gradient, None if they do.

    ``problem`` is the result of ``for_weight``.
    """
    forward = forward_of(problem)
    lines, _, step, taps = _seen_lines(forward, three(forward), info)
    if step * taps > _MASKS:
        return f"masks of its taps take more than {_MASKS >> 20} MiB"
    return None if all(n < 1 << 31 for n in lines.inside) else "its images have too many pixels"


def _seen_lines(
    forward: Correlation, axes: Sequence[Axis[int]], info: DeviceInfo
) -> tuple[Lines, bool, int, int]:
    """Return the input's rows, whether they are copied, pixels in whole vectors, and the taps."""
    _, lanes = vectors(forward, info)
    in_place = lines_in_place(forward, axes)
    lines = in_place or lines_copied(forward, axes, True)
    step = -(-lines.count(axes) // lanes) * lanes
    return lines, in_place is None, step, prod(a.terms for a in axes)


def weight_rows_steps(problem: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a weight gradient that :func:`weight_rows_refusal` accepts."""
    forward = forward_of(problem)
    axes = three(forward)
    accumulate, lanes = vectors(problem, info)
    images, (groups, rows, columns) = problem.depth, problem.leads
    lines, copied, step, taps = _seen_lines(forward, axes, info)
    count = lines.count(axes)
    x, g = operand(0, problem.a), operand(1, problem.b)
    if copied:
        x = pad(forward, axes, lines, x, steps, info)
    g_steps = _gradient_steps(forward, axes, lines)
    if g_steps is None:
        other = _as_input(forward, axes, lines)
        g_lines = lines_copied(other, other.axes, True)
        g_steps, g = g_lines.steps, pad(other, other.axes, g_lines, g, steps, info)
    masked = count != prod(a.count for a in axes) or lines.sees_padding(axes)
    seen = Bound(steps.memory(step * taps) if masked else Output(0), bool_)
    strides = (axes[0].result, axes[1].result, axes[2].result)
    if masked:
        turns = 64
        listed = launch(
            list_masks,
            Grid.line(-(-step // (turns * lanes))),
            Effort("conv masks", nbytes=step * taps),
            seen=seen,
            pixels=lines.numbers(axes),
            step=step,
            turns=turns,
            lanes=lanes,
            strides=strides,
            wraps=lines.wraps(axes, lanes),
        )
        steps.launches.append(replace(listed, prepares=True))
    near = axes[2].terms if axes[2].terms > 1 else taps
    p = dot_tile(rows.size, columns.size, taps, near, images.size * count, groups.size, info)
    steps.add(
        dot_rows,
        Grid(
            (
                columns.size // p.columns,
                rows.size // p.block_rows,
                groups.size * (taps // p.block_taps),
            )
        ),
        effort(problem, f"conv weight rows {p.rows}x{p.columns}x{p.taps}"),
        x=x,
        g=g,
        seen=seen,
        c=Bound(Output(), problem.a.dtype),
        images=images.size,
        rows_total=rows.size,
        columns_total=columns.size,
        x_steps=lines.steps,
        g_steps=g_steps,
        c_steps=Strides(rows.size * columns.size * taps, columns.size * taps, taps),
        mask_step=step,
        block_rows=p.block_rows,
        block_taps=p.block_taps,
        pixels=lines.numbers(axes),
        how=DotTiles(
            p.rows, p.columns, p.taps, lanes, accumulate, strides, masked, masked and is_plane(axes)
        ),
    )


def _gradient_steps(
    forward: Correlation, axes: Sequence[Axis[int]], lines: Lines
) -> Strides[int] | None:
    """Return the strides of the output gradient if its rows have the input's layout, else None."""
    deep, high, wide = axes
    images, groups, rows = forward.leads
    fits = wide.b == 1 or wide.count == 1
    fits = fits and (high.count == 1 or high.b == lines.length)
    if not fits or (deep.count > 1 and deep.b != lines.rows * lines.length):
        return None
    return Strides(images.b, groups.b, rows.b)


def _as_input(forward: Correlation, axes: Sequence[Axis[int]], lines: Lines) -> Correlation:
    """Return the problem of copying the result's gradient to rows as long as the input's."""
    images, groups, rows = forward.leads
    extents = (axes[0].count, lines.rows, lines.length)
    moved_axes = tuple(
        Axis(extent, 1, 1, 1, 0, 1, axis.count, axis.b, 0)
        for axis, extent in zip(axes, extents, strict=True)
    )
    return Correlation(
        (Lead(images.size, images.b, 0), Lead(groups.size, groups.b, 0), Lead(1, 0, 0)),
        Lead(rows.size, rows.b, 0),
        moved_axes,
        forward.b,
        forward.b,
    )
