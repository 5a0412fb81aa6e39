"""Launches of direct convolutions over channels: padding, packed weights and tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Grid, launch, operand
from calor_kernel.contract.work import Input, Output
from calor_kernel.library.conv.blueprints import across_tile
from calor_kernel.library.conv.direct_channel_vectors import TapAxis, across_channels
from calor_kernel.library.conv.padded_rows import (
    Placement,
    Steps,
    effort,
    lines_copied,
    pad,
    three,
    vectors,
)
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.vector_tiles import Strides
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
    _, lanes = vectors(problem, info)
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


def channel_vectors_steps(problem: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a convolution that :func:`channel_vectors_refusal` accepts."""
    axes = three(problem)
    images, groups, rows = problem.leads
    deep, high, wide = axes
    taps, lines = prod(a.terms for a in axes), deep.count * high.count
    accumulate, lanes = vectors(problem, info)
    p = across_tile(wide.count, rows.size, problem.terms, lines, images.size, info)
    seen = within_padding(problem, steps, info)
    width = p.vectors * lanes
    panels = -(-rows.size // width)
    packed = steps.memory(groups.size * panels * width * problem.terms * accumulate.itemsize)
    weights = Operand((0, groups.b), rows.b, 1, problem.b.offset, problem.b.dtype)
    pack = pack_operand(
        rows.size, problem.terms, (1, groups.size), weights, width, lanes, 1, accumulate,
        Input(1), packed,
    )  # fmt: skip
    steps.launches.append(replace(pack, label="conv pack", prepares=True))
    steps.launches.append(
        launch(
            across_channels,
            Grid(
                (
                    -(-panels // p.block_panels),
                    -(-lines // p.block_lines),
                    images.size * groups.size,
                )
            ),
            effort(problem, f"conv across {p.rows}x{width}"),
            x=seen.memory,
            w=Bound(packed, accumulate),
            c=Bound(Output(), problem.a.dtype),
            outputs=rows.size,
            channels=problem.depth.size,
            groups=groups.size,
            panels=panels,
            x_steps=seen.steps,
            c_steps=Strides(*Placement.dense(problem).leads),
            height=high.count,
            width=wide.count,
            lines=lines,
            line_steps=(deep.result * seen.strides[0], high.result * seen.strides[1]),
            axes=[TapAxis(a.terms, a.summed * s) for a, s in zip(axes, seen.strides, strict=True)],
            block_panels=p.block_panels,
            block_lines=p.block_lines,
            rows=p.rows,
            vectors=p.vectors,
            lanes=lanes,
            accumulate=accumulate,
            room=1 if taps == 1 else max(16, 1 << (taps - 1).bit_length()),
            step=wide.result * seen.strides[2],
            unroll=2,
        )
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """The windows' operand without padding: strides of images, groups, channels and three axes."""

    memory: Bound
    steps: Strides[int]
    strides: tuple[int, ...]


def within_padding(problem: Correlation, steps: Steps, info: DeviceInfo) -> Seen:
    """Return the operand if all windows lie within it, else a padded copy and its launch."""
    axes = three(problem)
    images, groups, _ = problem.leads
    source = operand(0, problem.a)
    if all(a.start >= 0 and _reach(a) < a.size for a in axes):
        first = problem.a.offset + sum(a.start * a.a for a in axes)
        source = replace(source, place=Input(0, first))
        strides = tuple(axis.a for axis in axes)
        return Seen(source, Strides(images.a, groups.a, problem.depth.a), strides)
    other = replace(problem, axes=tuple(_padded(a) for a in axes))
    lines = lines_copied(other, other.axes, False)
    memory = pad(other, other.axes, lines, source, steps, info)
    return Seen(memory, lines.steps, lines.units)


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
