"""Launches of direct convolutions over rows: copies, and the layouts of lines and result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output, Scratch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.blueprints import shift
from calor_kernel.library.conv.depthwise_launch import input_rows, row_launch
from calor_kernel.library.conv.direct_rows import shifted
from calor_kernel.library.conv.padded_rows import (
    LINE_AXIS,
    SIZE,
    STRIDE,
    Lines,
    Placement,
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
from calor_kernel.library.conv.phase_planes import merge_planes
from calor_kernel.library.conv.problem import Axis, Correlation, accumulator, undivided

# Maximum of image rows in one vector of pixels.
_MOST_PIECES = 4
# Maximum of weight strides that a kernel is built for.
_SHORT = 64
# Bytes of masks of a unit.
_MASKS = 1 << 14


def phases_refusal(
    problem: Correlation, places: Sequence[Argument], info: DeviceInfo
) -> str | None:
    """Return why an input gradient is not computed phase by phase, None if it may be."""
    parts = undivided(problem)
    if len(parts) == 1 and all(axis.divide == 1 for axis in problem.axes):
        return rows_refusal(parts[0].problem, places, Placement.dense(problem), info)
    if len(problem.axes) > 3:
        return "it has more than three spatial axes"
    if input_rows(problem, places, info) is not None:
        return None
    to = _of_phases(problem, Scratch(0))
    reasons = (rows_refusal(part.problem, places, to, info) for part in parts)
    return next((reason for reason in reasons if reason is not None), None)


def _of_phases(problem: Correlation, memory: Scratch) -> Placement:
    """Return the layout of a phase's result: phases of a plane are side by side."""
    axes = three(problem)
    _, groups, rows = (lead.size for lead in problem.leads)
    extents = tuple(-(-a.count // a.divide) for a in axes)
    plane = prod(a.divide for a in axes) * prod(extents)
    leads = (groups * rows * plane, rows * plane, plane)
    return Placement(leads, (extents[1] * extents[2], extents[2], 1), memory)


def phases_steps(
    problem: Correlation, places: Sequence[Argument], steps: Steps, info: DeviceInfo
) -> None:
    """Add the launches of an input gradient that :func:`phases_refusal` accepts."""
    parts = undivided(problem)
    if len(parts) == 1 and all(axis.divide == 1 for axis in problem.axes):
        rows_steps(parts[0].problem, places, Placement.dense(problem), steps, info)
        return
    by_row = input_rows(problem, places, info)
    if by_row is not None:
        steps.launches.append(by_row)
        return
    axes = three(problem)
    strides = tuple(a.divide for a in axes)
    extents = tuple(-(-a.count // a.divide) for a in axes)
    volume = prod(extents)
    images, groups, rows = (lead.size for lead in problem.leads)
    plane = prod(strides) * volume
    dtype = problem.a.dtype
    memory = steps.memory(images * groups * rows * plane * dtype.itemsize)
    for part in parts:
        number = 0
        for offset, stride in zip(part.offsets, part.steps, strict=True):
            number = number * stride + offset
        start = Scratch(memory.number, number * volume)
        rows_steps(part.problem, places, _of_phases(problem, start), steps, info)
    numbers = [n for pair in zip((a.count for a in axes), extents, strict=True) for n in pair]
    lanes = max(1, info.vector_bytes // accumulator(dtype).itemsize)
    build = Build(
        merge_planes,
        (Buffer(dtype, writable=False), Buffer(dtype), *(SIZE,) * 6),
        (("lanes", lanes), ("strides", strides)),
    )
    cubes = (images * groups * rows, 1, 1)
    nbytes = 2 * problem.size * dtype.itemsize
    steps.launches.append(
        Launch(build, cubes, (memory, Output(0), *numbers), 0, nbytes, "conv phases")
    )


def rows_refusal(
    problem: Correlation, places: Sequence[Argument], to: Placement, info: DeviceInfo
) -> str | None:
    """Return why vectors along output rows do not suit a convolution, None if they do."""
    if len(problem.axes) > 3:
        return "it has more than three spatial axes"
    axes = three(problem)
    if any(a.divide != 1 or a.summed < 1 for a in axes):
        return "its windows are those of a gradient"
    if row_launch(problem, axes, places, to, info) is not None:
        return None
    found = _rows(problem, axes, to, info)
    if found.pieces > _MOST_PIECES:
        return f"a vector of output pixels meets more than {_MOST_PIECES} rows"
    return None if max(found.lines.inside) < 1 << 31 else "its images have too many pixels"


@dataclass(frozen=True, slots=True)
class _Rows:
    """A problem as rows: their layout, whether they are copied, and the rows in a vector."""

    lines: Lines
    copied: bool
    pieces: int
    room: int


def _rows(problem: Correlation, axes: Sequence[Axis], to: Placement, info: DeviceInfo) -> _Rows:
    accumulate = accumulator(problem.a.dtype)
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    taps = prod(a.terms for a in axes)
    room = 1 if taps == 1 else max(16, 1 << (taps - 1).bit_length())
    masks = room * 8 * lanes <= _MASKS
    lines = lines_in_place(problem, axes) if masks else None
    copied = lines is None
    if lines is None:
        lines = lines_copied(problem, axes, accumulate, masks)
    return _Rows(lines, copied, _pieces(lines, axes, to, lanes), room)


def rows_steps(
    problem: Correlation,
    places: Sequence[Argument],
    to: Placement,
    steps: Steps,
    info: DeviceInfo,
) -> None:
    """Add the launches of a convolution that :func:`rows_refusal` accepts."""
    axes = three(problem)
    by_row = row_launch(problem, axes, places, to, info)
    if by_row is not None:
        steps.launches.append(by_row)
        return
    accumulate = accumulator(problem.a.dtype)
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    found = _rows(problem, axes, to, info)
    lines, copied, pieces, room = found.lines, found.copied, found.pieces, found.room
    source = moved(places[0], problem.a.offset)
    if copied:
        spare = (lanes + 1) * 16 + lines.channel
        nbytes = (problem.leads[0].size * lines.image + spare) * accumulate.itemsize
        memory = steps.memory(nbytes)
        steps.launches.append(pad_launch(problem, axes, lines, source, memory, lanes))
        source = memory
    weights = moved(places[1], problem.b.offset)
    masked = sees_padding(lines, axes)
    steps.launches.append(
        _shifted(problem, axes, lines, (source, weights), to, info, pieces, room, masked, copied)
    )


def _pieces(lines: Lines, axes: Sequence[Axis], to: Placement, lanes: int) -> int:
    """Return the maximum of rows in a vector of pixels, 0 if the result has the line's layout."""
    deep, high, wide = axes
    if deep.count == 1 and high.count == 1:
        return 0
    along = lines.length == wide.count and (deep.count == 1 or lines.rows == high.count)
    rows = to.axes[1] == wide.count * to.axes[2]
    planes = deep.count == 1 or to.axes[0] == high.count * to.axes[1]
    return 0 if along and rows and planes else wraps(lines, axes, lanes) + 1


def _ordered(axes: Sequence[Axis]) -> bool:
    """Return whether the weights of a channel are adjacent."""
    step = 1
    for axis in reversed(axes):
        if axis.terms > 1 and axis.b != step:
            return False
        step *= axis.terms
    return True


def _shifted(
    problem: Correlation,
    axes: Sequence[Axis],
    lines: Lines,
    places: tuple[Argument, Argument],
    to: Placement,
    info: DeviceInfo,
    pieces: int,
    room: int,
    masked: bool,
    copied: bool,
) -> Launch:
    images, groups, rows = problem.leads
    depth, count = problem.depth, lines.count(axes)
    p = shift(
        rows.size,
        count,
        problem.terms,
        images.size * groups.size,
        accumulator(problem.a.dtype),
        info,
    )
    numbers = [
        rows.size,
        depth.size,
        p.panels,
        p.whole,
        groups.size,
        lines.image,
        lines.group,
        lines.channel,
        groups.b,
        rows.b,
        depth.b,
        *to.leads,
        p.block_rows,
        p.block_panels,
        count,
        lines.length,
        lines.rows,
        to.axes[0],
        to.axes[1],
    ]
    signs = [SIZE if n >= 0 else STRIDE for n in numbers]
    numbers += line_numbers(lines, axes)
    signs += LINE_AXIS * 3
    keywords: dict[str, Any] = {
        "tile": p.tile,
        "rest": p.rest,
        "lanes": p.lanes,
        "accumulate": p.accumulate,
        "strides": tuple(a.result for a in axes),
        "room": room,
        "ordered": depth.b == 1 if room == 1 else _ordered(axes),
        "row_step_of_weights": rows.b if 0 < rows.b <= _SHORT else 0,
        "masked": masked,
        "ragged": not masked and not copied,
        "pieces": pieces,
        "wraps": wraps(lines, axes, p.lanes) if masked else 0,
        "element_step": to.axes[2] if axes[2].count > 1 else 1,
        "unroll": 1 if masked else p.unroll,
    }
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(lines.dtype, writable=False),
        Buffer(problem.b.dtype, writable=False),
        Buffer(problem.a.dtype),
        *signs,
    )
    build = Build(shifted, signature, tuple(sorted(keywords.items())))
    cubes = (
        -(-p.panels // p.block_panels),
        max(1, rows.size // p.block_rows),
        images.size * groups.size,
    )
    flops = 2 * problem.size * problem.terms
    nbytes = (problem.a.size + problem.b.size + problem.size) * problem.a.dtype.itemsize
    label = f"conv shifted {p.tile[0]}x{p.tile[1] * p.lanes}"
    arguments = (*places, to.memory, *numbers)
    return Launch(build, cubes, arguments, flops, nbytes, label)
