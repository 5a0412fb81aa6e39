"""Launches of weight gradients over rows: copies, masks and tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from calor.dtypes import DType, bool_
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.blueprints import dot_tile
from calor_kernel.library.conv.depthwise_launch import weight_rows
from calor_kernel.library.conv.padded_rows import (
    LINE_AXIS,
    SIZE,
    STRIDE,
    Lines,
    Steps,
    line_numbers,
    lines_copied,
    lines_in_place,
    moved,
    pad_launch,
    sees_padding,
    three,
    wraps,
)
from calor_kernel.library.conv.problem import Axis, Correlation, Lead, accumulator
from calor_kernel.library.conv.small_width_launch import (
    small_width_weight_refusal,
    small_width_weight_steps,
)
from calor_kernel.library.conv.weight_gradient_rows import dot_lines, list_seen

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


def weight_rows_refusal(
    problem: Correlation, places: Sequence[Argument], info: DeviceInfo
) -> str | None:
    """Return why dot products of rows do not suit a weight gradient, None if they do.

    ``problem`` is the result of ``for_weight``.
    """
    if len(problem.axes) > 3:
        return "it has more than three spatial axes"
    forward = forward_of(problem)
    axes = three(forward)
    if small_width_weight_refusal(forward, places, info) is None:
        return None
    if weight_rows(forward, axes, places, info) is not None:
        return None
    lines, _, step, taps = _seen_lines(forward, axes, info)
    if step * taps > _MASKS:
        return f"masks of its taps take more than {_MASKS >> 20} MiB"
    return None if max(lines.inside) < 1 << 31 else "its images have too many pixels"


def _seen_lines(
    forward: Correlation, axes: Sequence[Axis], info: DeviceInfo
) -> tuple[Lines, bool, int, int]:
    """Return the input's rows, whether they are copied, pixels in whole vectors, and the taps."""
    accumulate = accumulator(forward.a.dtype)
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    lines = lines_in_place(forward, axes)
    copied = lines is None
    if lines is None:
        lines = lines_copied(forward, axes, accumulate, True)
    step = -(-lines.count(axes) // lanes) * lanes
    return lines, copied, step, prod(a.terms for a in axes)


def weight_rows_steps(
    problem: Correlation, places: Sequence[Argument], steps: Steps, info: DeviceInfo
) -> None:
    """Add the launches of a weight gradient that :func:`weight_rows_refusal` accepts."""
    forward, images = forward_of(problem), problem.depth
    axes = three(forward)
    if small_width_weight_refusal(forward, places, info) is None:
        small_width_weight_steps(forward, axes, places, steps, info)
        return
    by_row = weight_rows(forward, axes, places, info)
    if by_row is not None:
        steps.launches.append(by_row)
        return
    accumulate = accumulator(problem.a.dtype)
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    lines, copied, step, taps = _seen_lines(forward, axes, info)
    count = lines.count(axes)
    x, g = moved(places[0], problem.a.offset), moved(places[1], problem.b.offset)
    if copied:
        memory = steps.memory(images.size * lines.image * accumulate.itemsize)
        steps.launches.append(pad_launch(forward, axes, lines, x, memory, lanes))
        x = memory
    g_lines = _gradient_lines(forward, axes, lines)
    g_dtype = problem.b.dtype
    if g_lines is None:
        other = _as_input(forward, axes, lines)
        g_lines = lines_copied(other, other.axes, accumulate, True)
        memory = steps.memory(images.size * g_lines.image * accumulate.itemsize)
        steps.launches.append(pad_launch(other, other.axes, g_lines, g, memory, lanes))
        g, g_dtype = memory, accumulate
    gaps = count != prod(a.count for a in axes)
    masked = gaps or sees_padding(lines, axes)
    seen: Argument = Output(0)
    if masked:
        seen = steps.memory(step * taps)
        steps.launches.append(_list(lines, axes, seen, count, step, lanes))
    steps.launches.append(
        _dots(problem, axes, lines, (x, g, seen), g_lines, g_dtype, step, masked, info)
    )


def _gradient_lines(forward: Correlation, axes: Sequence[Axis], lines: Lines) -> Lines | None:
    """Return the output gradient as lines if its rows have the input's layout, else None."""
    deep, high, wide = axes
    images, groups, rows = forward.leads
    fits = wide.b == 1 or wide.count == 1
    fits = fits and (high.count == 1 or high.b == lines.length)
    if not fits or (deep.count > 1 and deep.b != lines.rows * lines.length):
        return None
    return replace(lines, image=images.b, group=groups.b, channel=rows.b)


def _as_input(forward: Correlation, axes: Sequence[Axis], lines: Lines) -> Correlation:
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
        replace(forward.b),
        forward.b,
    )


def _list(
    lines: Lines, axes: Sequence[Axis], seen: Argument, count: int, step: int, lanes: int
) -> Launch:
    turns = 64
    numbers = [count, lines.length, lines.rows, step, turns, *line_numbers(lines, axes)]
    keywords: dict[str, Any] = {
        "lanes": lanes,
        "strides": tuple(a.result for a in axes),
        "wraps": wraps(lines, axes, lanes),
    }
    build = Build(
        list_seen,
        (Buffer(bool_), *(SIZE,) * 5, *LINE_AXIS * 3),
        tuple(sorted(keywords.items())),
    )
    nbytes = step * prod(a.terms for a in axes)
    cubes = (-(-step // (turns * lanes)), 1, 1)
    return Launch(build, cubes, (seen, *numbers), 0, nbytes, "conv masks", prepares=True)


def _dots(
    problem: Correlation,
    axes: Sequence[Axis],
    lines: Lines,
    places: tuple[Argument, Argument, Argument],
    g_lines: Lines,
    g_dtype: DType,
    step: int,
    masked: bool,
    info: DeviceInfo,
) -> Launch:
    groups, rows, columns = problem.leads
    images = problem.depth
    taps, count = prod(a.terms for a in axes), lines.count(axes)
    accumulate = accumulator(problem.a.dtype)
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    near = axes[2].terms if axes[2].terms > 1 else taps
    p = dot_tile(rows.size, columns.size, taps, near, images.size * count, groups.size, info)
    numbers = [
        images.size,
        rows.size,
        columns.size,
        count,
        lines.image,
        lines.group,
        lines.channel,
        g_lines.image,
        g_lines.group,
        g_lines.channel,
        rows.size * columns.size * taps,
        columns.size * taps,
        taps,
        step,
    ]
    keywords: dict[str, Any] = {
        "lanes": lanes,
        "accumulate": accumulate,
        "strides": tuple(a.result for a in axes),
        "masked": masked,
    }
    numbers += [p.block_rows, p.block_taps]
    keywords |= {"rows": p.rows, "columns": p.columns, "taps": p.taps}
    cubes = (
        columns.size // p.columns,
        rows.size // p.block_rows,
        groups.size * (taps // p.block_taps),
    )
    signs: tuple[Scalar, ...] = tuple(SIZE if n >= 0 else STRIDE for n in numbers)
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(lines.dtype, writable=False),
        Buffer(g_dtype, writable=False),
        Buffer(bool_, writable=False),
        Buffer(problem.a.dtype),
        *signs,
        *LINE_AXIS * 3,
    )
    build = Build(dot_lines, signature, tuple(sorted(keywords.items())))
    flops = 2 * problem.size * problem.terms
    nbytes = (problem.a.size + problem.b.size + problem.size) * problem.a.dtype.itemsize
    arguments = (*places, Output(0), *numbers, *line_numbers(lines, axes))
    label = f"conv dots {p.rows}x{p.columns}x{p.taps}"
    return Launch(build, cubes, arguments, flops, nbytes, label)
