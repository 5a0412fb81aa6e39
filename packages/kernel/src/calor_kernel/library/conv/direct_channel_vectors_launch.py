"""Launches of direct convolutions over channels: padding, packed weights and tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from calor.dtypes import DType
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.blueprints import across_tile
from calor_kernel.library.conv.direct_channel_vectors import across_channels
from calor_kernel.library.conv.padded_rows import (
    SIZE,
    STRIDE,
    Placement,
    Steps,
    lines_copied,
    moved,
    pad_launch,
    three,
)
from calor_kernel.library.conv.problem import Axis, Correlation, accumulator
from calor_kernel.library.matmul.lowering import pack_operand
from calor_kernel.library.matmul.problem import Operand

# Maximum of the input stride that a kernel is built for, and of taps in a unit's list.
_STEPS, _TAPS = 4, 512
# With fewer output channels or pixels in a row, tiles would be partly empty.
_CHANNELS, _PLACES = 32, 4


def channel_vectors_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why vectors along output channels do not suit a convolution, None if they do."""
    if len(problem.axes) > 3:
        return "it has more than three spatial axes"
    if any(a.divide != 1 or a.summed < 1 for a in problem.axes):
        return "its windows are those of a gradient"
    axes = three(problem)
    wide, taps = axes[2], prod(a.terms for a in axes)
    lanes = info.vector_bytes // accumulator(problem.a.dtype).itemsize
    if lanes < 4 or lanes & (lanes - 1):
        return f"the device has no vectors of {problem.a.dtype} for it"
    if problem.leads[2].size < _CHANNELS:
        return f"it has fewer than {_CHANNELS} output channels"
    if wide.count < _PLACES:
        return f"an output row has fewer than {_PLACES} pixels"
    if wide.a != 1:
        return "the rows of the input are not contiguous"
    if wide.result > _STEPS:
        return f"its stride is more than {_STEPS}"
    if taps > _TAPS:
        return f"its window has more than {_TAPS} taps"
    return None if ordered(problem, axes) else "the weights of a channel are not contiguous"


def channel_vectors_steps(
    problem: Correlation,
    places: Sequence[Argument],
    to: Placement,
    steps: Steps,
    info: DeviceInfo,
) -> None:
    """Add the launches of a convolution that :func:`channel_vectors_refusal` accepts."""
    axes = three(problem)
    images, groups, rows = problem.leads
    wide, taps = axes[2], prod(a.terms for a in axes)
    accumulate = accumulator(problem.a.dtype)
    lanes = info.vector_bytes // accumulate.itemsize
    p = across_tile(
        wide.count, rows.size, problem.terms, prod(a.count for a in axes[:2]), images.size, info
    )
    seen = within(problem, places[0], steps, info)
    panels = -(-rows.size // (p.vectors * lanes))
    packed = steps.memory(
        groups.size * panels * p.vectors * lanes * problem.terms * accumulate.itemsize
    )
    weights = Operand((0, groups.b), rows.b, 1, problem.b.offset, problem.b.dtype)
    width = p.vectors * lanes
    pack = pack_operand(
        rows.size, problem.terms, (1, groups.size), weights, width, lanes, 1, accumulate,
        places[1], packed,
    )  # fmt: skip
    steps.launches.append(replace(pack, label="conv pack", prepares=True))
    numbers = [
        rows.size,
        problem.depth.size,
        groups.size,
        panels,
        seen.image,
        seen.group,
        seen.channel,
        *to.leads,
        axes[1].count,
        wide.count,
        axes[0].count * axes[1].count,
        axes[0].result * seen.strides[0],
        axes[1].result * seen.strides[1],
        *(a.terms for a in axes),
        *(a.summed * s for a, s in zip(axes, seen.strides, strict=True)),
        p.block_panels,
        p.block_lines,
    ]
    keywords: dict[str, Any] = {
        "rows": p.rows,
        "vectors": p.vectors,
        "lanes": lanes,
        "accumulate": accumulate,
        "room": 1 if taps == 1 else max(16, 1 << (taps - 1).bit_length()),
        "step": wide.result * seen.strides[2],
        "unroll": 2,
    }
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(seen.dtype, writable=False),
        Buffer(accumulate, writable=False),
        Buffer(problem.a.dtype),
        *(SIZE if n >= 0 else STRIDE for n in numbers),
    )
    build = Build(across_channels, signature, tuple(sorted(keywords.items())))
    cubes = (
        -(-panels // p.block_panels),
        -(-axes[0].count * axes[1].count // p.block_lines),
        images.size * groups.size,
    )
    flops = 2 * problem.size * problem.terms
    nbytes = (problem.a.size + problem.b.size + problem.size) * problem.a.dtype.itemsize
    label = f"conv across {p.rows}x{width}"
    arguments = (seen.place, packed, to.memory, *numbers)
    steps.launches.append(Launch(build, cubes, arguments, flops, nbytes, label))


@dataclass(frozen=True, slots=True)
class Seen:
    """The windows' operand without padding: strides of images, groups, channels and three axes."""

    place: Argument
    dtype: DType
    image: int
    group: int
    channel: int
    strides: tuple[int, ...]


def within(problem: Correlation, place: Argument, steps: Steps, info: DeviceInfo) -> Seen:
    """Return the operand if all windows lie within it, else a padded copy and its launch."""
    axes = three(problem)
    images, groups, _ = problem.leads
    source = moved(place, problem.a.offset)
    if all(a.start >= 0 and _reach(a) < a.size for a in axes):
        source = moved(source, sum(a.start * a.a for a in axes))
        strides = tuple(axis.a for axis in axes)
        return Seen(source, problem.a.dtype, images.a, groups.a, problem.depth.a, strides)
    accumulate = accumulator(problem.a.dtype)
    lanes = info.vector_bytes // accumulate.itemsize
    other = replace(problem, axes=tuple(_padded(a) for a in axes))
    lines = lines_copied(other, other.axes, accumulate, False)
    memory = steps.memory(images.size * lines.image * accumulate.itemsize)
    steps.launches.append(pad_launch(other, other.axes, lines, source, memory, lanes))
    return Seen(memory, accumulate, lines.image, lines.group, lines.channel, lines.units)


def _reach(axis: Axis) -> int:
    """Return the last input index that a window reads."""
    return axis.start + (axis.count - 1) * axis.result + (axis.terms - 1) * axis.summed


def _padded(axis: Axis) -> Axis:
    """Return the axis of a copy that covers all windows, from the first index to the last."""
    extent = _reach(axis) - axis.start + 1
    return Axis(extent, 1, 1, 1, axis.start, 1, axis.size, axis.a, 0)


def ordered(problem: Correlation, axes: Sequence[Axis]) -> bool:
    """Return whether the weights of an output channel are adjacent."""
    step = 1
    for size, stride in [(a.terms, a.b) for a in reversed(axes)] + [
        (problem.depth.size, problem.depth.b)
    ]:
        if size > 1 and stride != step:
            return False
        step *= size
    return True
