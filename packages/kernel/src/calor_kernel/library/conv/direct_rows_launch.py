"""Launches of direct convolutions over rows: copies, and the layouts of lines and result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Input, Output, Scratch, View, row_major
from calor_kernel.library.conv.blueprints import shift
from calor_kernel.library.conv.depthwise import (
    depthwise_forward,
    depthwise_input,
    depthwise_input_refusal,
    depthwise_refusal,
)
from calor_kernel.library.conv.direct_rows import RowTiles, direct_rows
from calor_kernel.library.conv.padded_rows import (
    Lines,
    Placement,
    adjacent,
    effort,
    is_plane,
    lines_copied,
    lines_in_place,
    pad,
    three,
    vectors,
)
from calor_kernel.library.conv.phase_planes import merge_planes
from calor_kernel.library.conv.problem import Axis, Correlation, undivided
from calor_kernel.library.conv.split_sums import ending
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.steps import Steps

# Maximum of image rows in one vector of pixels.
_MOST_PIECES = 4
# Maximum of weight strides that a kernel is built for.
_SHORT = 64
# Bytes of masks of a unit.
_MASKS = 1 << 14


def phases_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why an input gradient is not computed phase by phase, None if it may be."""
    parts = undivided(problem)
    if len(parts) == 1 and all(axis.divide == 1 for axis in problem.axes):
        return rows_refusal(parts[0].problem, Placement.dense(problem), info)
    if depthwise_input_refusal(problem) is None:
        return None
    to = of_phases(problem, Scratch(0))
    reasons = (rows_refusal(part.problem, to, info) for part in parts)
    return next((reason for reason in reasons if reason is not None), None)


def of_phases(problem: Correlation, memory: Scratch) -> Placement:
    """Return the layout of a phase's result: phases of a plane are side by side."""
    axes = three(problem)
    _, groups, rows = (lead.size for lead in problem.leads)
    extents = tuple(-(-a.count // a.divide) for a in axes)
    plane = prod(a.divide for a in axes) * prod(extents)
    leads = (groups * rows * plane, rows * plane, plane)
    return Placement(leads, (extents[1] * extents[2], extents[2], 1), memory)


def phases_steps(problem: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of an input gradient that :func:`phases_refusal` accepts."""
    parts = undivided(problem)
    if len(parts) == 1 and all(axis.divide == 1 for axis in problem.axes):
        rows_steps(parts[0].problem, Placement.dense(problem), steps, info)
        return
    if depthwise_input_refusal(problem) is None:
        steps.launches.append(depthwise_input(problem, info))
        return
    axes = three(problem)
    strides = tuple(a.divide for a in axes)
    extents = tuple(-(-a.count // a.divide) for a in axes)
    planes = prod(lead.size for lead in problem.leads)
    dtype = problem.a.dtype
    memory = steps.memory(planes * (prod(strides) * prod(extents)) * dtype.itemsize)
    for part in parts:
        number = 0
        for offset, stride in zip(part.offsets, part.steps, strict=True):
            number = number * stride + offset
        start = Scratch(memory.number, number * prod(extents))
        rows_steps(part.problem, of_phases(problem, start), steps, info)
    merge_phases(problem, memory, steps, info)


def merge_phases(problem: Correlation, memory: Scratch, steps: Steps, info: DeviceInfo) -> None:
    """Add the launch that writes the result from its phases, which :func:`of_phases` places."""
    axes, dtype = three(problem), problem.a.dtype
    planes = prod(lead.size for lead in problem.leads)
    steps.add(
        merge_planes,
        Grid.line(planes),
        Effort("conv phases", nbytes=2 * problem.size * dtype.itemsize),
        parts=Bound(memory, dtype),
        c=Bound(Output(), dtype),
        sizes=[a.count for a in axes],
        extents=tuple(-(-a.count // a.divide) for a in axes),
        strides=tuple(a.divide for a in axes),
        lanes=vectors(problem, info)[1],
    )


def rows_refusal(problem: Correlation, to: Placement, info: DeviceInfo) -> str | None:
    """Return why vectors along output rows do not suit a convolution, None if they do."""
    axes = three(problem)
    if any(a.divide != 1 or a.summed < 1 for a in axes):
        return "its windows are those of a gradient"
    if depthwise_refusal(_of_dense_images(problem), to) is None:
        return None
    found = _rows(problem, to, info)
    if found.pieces > _MOST_PIECES:
        return f"a vector of output pixels meets more than {_MOST_PIECES} rows"
    return None if max(found.lines.inside) < 1 << 31 else "its images have too many pixels"


def _of_dense_images(problem: Correlation) -> Correlation:
    """Return a problem of the same images in dense memory, such as those with channels last."""
    images, groups, outputs = problem.leads
    shape = problem.a.shape
    steps = row_major(shape)
    leads = (
        replace(images, a=steps[0]),
        replace(groups, a=problem.depth.size * steps[1]),
        outputs,
    )
    axes = tuple(replace(a, a=step) for a, step in zip(problem.axes, steps[2:], strict=True))
    depth = replace(problem.depth, a=steps[1])
    a = View(shape, steps, problem.a.dtype)
    return replace(problem, leads=leads, depth=depth, axes=axes, a=a)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A problem as rows: their layout, whether they are copied, and the rows in a vector."""

    lines: Lines
    copied: bool
    pieces: int
    room: int


def _rows(problem: Correlation, to: Placement, info: DeviceInfo) -> _Rows:
    axes, (_, lanes) = three(problem), vectors(problem, info)
    taps = prod(a.terms for a in axes)
    room = 1 if taps == 1 else max(16, 1 << (taps - 1).bit_length())
    masks = room * 8 * lanes <= _MASKS
    in_place = lines_in_place(problem, axes) if masks else None
    lines = in_place or lines_copied(problem, axes, masks)
    return _Rows(lines, in_place is None, _pieces(lines, axes, to, lanes), room)


def rows_steps(
    problem: Correlation,
    to: Placement,
    steps: Steps,
    info: DeviceInfo,
    tail: Tail | None = None,
) -> None:
    """Add the launches of a convolution that :func:`rows_refusal` accepts, with its epilogue."""
    axes = three(problem)
    if depthwise_refusal(problem, to) is None:
        steps.launches.append(depthwise_forward(problem, to, info))
        return
    dense = _of_dense_images(problem)
    if depthwise_refusal(dense, to) is None:
        memory = steps.memory(problem.a.size * problem.a.dtype.itemsize)
        steps.copy(problem.a, Input(0), memory, info)
        source = Bound(memory, problem.a.dtype)
        steps.launches.append(depthwise_forward(dense, to, info, source))
        return
    images, groups, rows = problem.leads
    accumulate, lanes = vectors(problem, info)
    found = _rows(problem, to, info)
    lines = found.lines
    x = operand(0, problem.a)
    if found.copied:
        x = pad(problem, axes, lines, x, steps, info, (lanes + 1) * 16 + lines.steps.inner)
    masked = lines.sees_padding(axes)
    p = shift(
        rows.size,
        lines.count(axes),
        problem.terms,
        images.size * groups.size,
        accumulate,
        info,
    )
    how = RowTiles(
        tile=p.tile,
        rest=p.rest,
        lanes=p.lanes,
        accumulate=p.accumulate,
        strides=(axes[0].result, axes[1].result, axes[2].result),
        room=found.room,
        ordered=problem.depth.b == 1 if found.room == 1 else adjacent(axes),
        row_step_of_weights=rows.b if 0 < rows.b <= _SHORT else 0,
        masked=masked,
        skips=masked and is_plane(axes),
        ragged=not masked and not found.copied,
        pieces=found.pieces,
        wraps=lines.wraps(axes, lanes) if masked else 0,
        element_step=to.axes[2] if axes[2].count > 1 else 1,
        unroll=1 if masked else p.unroll,
    )
    target, following = ending(Bound(to.memory, problem.a.dtype), tail)
    steps.add(
        direct_rows,
        Grid(
            (
                -(-p.panels // p.block_panels),
                greatest(1, rows.size // p.block_rows),
                images.size * groups.size,
            )
        ),
        effort(problem, f"conv rows {p.tile[0]}x{p.tile[1] * p.lanes}"),
        x=x,
        w=operand(1, problem.b),
        c=target,
        rows_total=rows.size,
        channels=problem.depth.size,
        panels=p.panels,
        whole=p.whole,
        groups=groups.size,
        x_steps=lines.steps,
        w_steps=Strides(groups.b, rows.b, problem.depth.b),
        c_steps=Strides(*to.leads),
        c_plane=to.axes[0],
        c_row=to.axes[1],
        block_rows=p.block_rows,
        block_panels=p.block_panels,
        pixels=lines.numbers(axes),
        how=how,
        **following,
    )


def _pieces(lines: Lines, axes: Sequence[Axis[int]], to: Placement, lanes: int) -> int:
    """Return the maximum of rows in a vector of pixels, 0 if the result has the line's layout."""
    deep, high, wide = axes
    if deep.count == 1 and high.count == 1:
        return 0
    along = lines.length == wide.count and (deep.count == 1 or lines.rows == high.count)
    rows = to.axes[1] == wide.count * to.axes[2]
    planes = deep.count == 1 or to.axes[0] == high.count * to.axes[1]
    return 0 if along and rows and planes else lines.wraps(axes, lanes) + 1
