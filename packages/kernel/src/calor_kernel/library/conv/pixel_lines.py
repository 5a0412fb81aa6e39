"""The pixels that windows read: without padding, and as few long lines.

Requirements: tiles across channels take pixels that are equally far apart. A window of one tap
makes one line of all pixels of an image. A copy is made only of padding, and of pixels that are
dropped by a stride where rows are short.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, operand
from calor_kernel.contract.work import Input, View, row_major
from calor_kernel.library.conv.padded_rows import lines_copied, pad, three
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.steps import Steps

# Rows of fewer pixels, of windows of one tap with a stride, are copied to dense images.
_ROW = 8


def in_few_lines(problem: Correlation) -> Correlation:
    """Return a problem whose rows of pixels are one line, if windows have one tap.

    Pixels of the line are equally far apart, and none is padding.
    """
    seen = _alone(problem)
    if seen is None:
        return problem
    made: list[Axis[int]] = []
    for axis in seen.axes:
        count, far = axis.count, made[-1] if made else None
        if far is not None and far.a == axis.a * count:
            count *= far.count
            made.pop()
        made.append(replace(axis, count=count, size=count))
    return replace(seen, axes=tuple(made)) if len(made) < len(seen.axes) else problem


def of_single_pixels(problem: Correlation) -> Correlation | None:
    """Return a problem with images as the pixels of one, if each has one pixel and one group.

    Its result has channels last.
    """
    images, groups, outputs = problem.leads
    if groups.size != 1 or any(axis.count != 1 or axis.divide != 1 for axis in problem.axes):
        return None
    if any(axis.start < 0 or _reach(axis) >= axis.size for axis in problem.axes):
        return None
    if any(axis.terms != 1 for axis in problem.axes):
        return None
    start = problem.a.offset + sum(axis.start * axis.a for axis in problem.axes)
    line = Axis(images.size, 1, 1, 1, 0, 1, images.size, images.a, 0)
    leads = (replace(images, size=1), groups, outputs)
    return replace(problem, leads=leads, axes=(line,), a=replace(problem.a, offset=start))


def _alone(problem: Correlation) -> Correlation | None:
    """Return a problem of windows of one tap without stride or padding, None if there are taps."""
    made = []
    start = problem.a.offset
    for axis in problem.axes:
        last = axis.start + (axis.count - 1) * axis.result
        if axis.terms != 1 or axis.divide != 1 or axis.start < 0 or last >= axis.size:
            return None
        start += axis.start * axis.a
        made.append(Axis(axis.count, 1, 1, 1, 0, 1, axis.count, axis.result * axis.a, 0))
    return replace(problem, axes=tuple(made), a=replace(problem.a, offset=start))


def dense_pixels(problem: Correlation) -> Correlation | None:
    """Return a problem of a dense copy of the pixels that are read, None if that does not pay.

    Rows of so few pixels leave tiles partly empty; all pixels of an image fill them.
    """
    seen = _alone(problem)
    if seen is None or in_few_lines(problem) is not problem:
        return None
    if len(seen.axes) < 2 or seen.axes[-1].count >= _ROW:
        return None
    images, groups, outputs = problem.leads
    channels, pixels = groups.size * problem.depth.size, [a.count for a in seen.axes]
    steps = row_major((images.size, channels, *pixels))
    group = replace(groups, a=steps[1] * problem.depth.size)
    leads = (replace(images, a=steps[0]), group, outputs)
    axes = tuple(replace(a, a=step) for a, step in zip(seen.axes, steps[2:], strict=True))
    view = View((images.size, channels, *pixels), steps, problem.a.dtype)
    return replace(seen, leads=leads, depth=replace(problem.depth, a=steps[1]), axes=axes, a=view)


def with_dense_pixels(
    problem: Correlation, steps: Steps, info: DeviceInfo
) -> tuple[Correlation, Bound | None]:
    """Return the problem to compute, and the memory of its images if they are copied."""
    made, seen = dense_pixels(problem), _alone(problem)
    if made is None or seen is None:
        return problem, None
    strides = problem.leads[0].a, problem.depth.a, *(axis.a for axis in seen.axes)
    view = View(made.a.shape, strides, problem.a.dtype, seen.a.offset)
    memory = steps.memory(view.size * view.dtype.itemsize)
    steps.copy(view, Input(0), memory, info)
    return made, Bound(memory, view.dtype)


@dataclass(frozen=True, slots=True)
class Seen:
    """The windows' operand without padding: strides of images, groups, channels and three axes."""

    memory: Bound
    steps: Strides[int]
    strides: tuple[int, ...]


def within_padding(
    problem: Correlation, steps: Steps, info: DeviceInfo, source: Bound | None = None
) -> Seen:
    """Return the operand if all windows lie within it, else a padded copy and its launch.

    ``source``: the memory of the images, by default the first operand.
    """
    axes = three(problem)
    images, groups, _ = problem.leads
    if all(a.start >= 0 and _reach(a) < a.size for a in axes):
        first = problem.a.offset + sum(a.start * a.a for a in axes)
        source = source or replace(operand(0, problem.a), place=Input(0, first))
        strides = tuple(axis.a for axis in axes)
        return Seen(source, Strides(images.a, groups.a, problem.depth.a), strides)
    other = replace(problem, axes=tuple(_padded(a) for a in axes))
    lines = lines_copied(other, other.axes, False)
    memory = pad(other, other.axes, lines, source or operand(0, problem.a), steps, info)
    return Seen(memory, lines.steps, lines.units)


def _reach(axis: Axis[int]) -> int:
    """Return the last input index that a window reads."""
    return axis.start + (axis.count - 1) * axis.result + (axis.terms - 1) * axis.summed


def _padded(axis: Axis[int]) -> Axis[int]:
    """Return the axis of a copy that covers all windows, from the first index to the last."""
    extent = _reach(axis) - axis.start + 1
    return Axis(extent, 1, 1, 1, axis.start, 1, axis.size, axis.a, 0)
