"""Padded copies: each element of the result is written once, from the operand or with the value.

Requirements: low, high and interior padding on any axes, of any view; axes without padding merge
with the ones before, so that the gradient of a slice has two axes; the speed of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Input, Launch, Output, View
from calor_kernel.library.copying.rows import ANY, GRAIN, copy_run, few_long, step_of
from calor_kernel.library.copying.transfer import (
    UNITS,
    aligned_lanes,
    as_bits,
    index_of,
    turns_of,
)
from calor_kernel.library.copying.vectors import own_vectors

N = TypeVar("N")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a padded copy: the sizes of result and operand, and the operand's stride.

    ``low``: the elements before the operand's first; ``gap``: between two of its elements.
    """

    size: int
    low: int
    length: int
    gap: int
    stride: int

    @property
    def extent(self) -> int:
        """The elements from the operand's first to its last."""
        return (self.length - 1) * (self.gap + 1) + 1

    @property
    def padded(self) -> bool:
        """Whether not all elements are the operand's."""
        return self.size != self.length


@dataclass(frozen=True, slots=True)
class Padded(Generic[N, D]):
    """Axes of a padded copy in a kernel; see :class:`Axis`. ``steps``: of elements, for gaps."""

    sizes: tuple[kl.DivisorOf[D], ...]
    low: tuple[kl.SizeOf[N], ...]
    extents: tuple[kl.SizeOf[N], ...]
    steps: tuple[kl.DivisorOf[D], ...]
    strides: tuple[kl.StrideOf[N], ...]

    @staticmethod
    def of(axes: Sequence[Axis], width: int = 1) -> Padded[int, int]:
        """Return the axes of a launch; the last one is counted in vectors."""
        sizes = [a.size for a in axes]
        sizes[-1] = sizes[-1] // width
        return Padded(
            tuple(sizes),
            tuple(a.low for a in axes),
            tuple(a.extent for a in axes),
            tuple(a.gap + 1 for a in axes),
            tuple(a.stride for a in axes),
        )


@dataclass(frozen=True, slots=True)
class Form:
    """What a kernel is built for: for each axis, whether it has padding, and gaps."""

    padded: tuple[bool, ...]
    spaced: tuple[bool, ...]

    @staticmethod
    def of(axes: Sequence[Axis]) -> Form:
        """Return the form of axes."""
        return Form(tuple(a.padded for a in axes), tuple(a.gap > 0 for a in axes))


@kl.helper
def found(
    place: Sequence[kl.Number], over: Padded[kl.Number, kl.FastDivmod], form: Form
) -> tuple[kl.Mask, kl.Index]:
    """Return whether an element is the operand's, and its offset there if it is."""
    inside: kl.Mask = True
    offset: kl.Index = 0
    for axis, at in enumerate(place):
        if form.padded[axis]:
            at = at - over.low[axis]
            inside = inside & (at >= 0) & (at < over.extents[axis])
        if form.spaced[axis]:
            at, rest = over.steps[axis].divmod(kl.max(at, 0))
            inside = inside & (rest == 0)
        offset = offset + at * over.strides[axis]
    return inside, offset


@kl.kernel
def pad_vectors(
    source: kl.In,
    value: kl.In,
    target: kl.Out,
    count: kl.Size,
    over: Padded[kl.Number, kl.FastDivmod],
    *,
    form: Form,
    width: int,
    turns: int,
    fill: bool,
    parts: int,
) -> None:
    """Write vectors of ``width`` elements, ``turns`` of them a unit, by cubes of many units.

    A vector is the operand's as a whole, or has its value only, which is of ``parts`` elements.
    ``fill``: the elements of a vector are one in the operand.
    """
    align = width * source.dtype.itemsize if width > 1 else 0
    whole = width % parts == 0
    ones = [value[k] for k in range(parts)] if whole else []
    made = []
    for i in own_vectors(turns):
        # Units beyond the end read the last vector, and those outside the operand its first.
        *rows, last = kl.unravel(kl.min(i, count - 1), over.sizes)
        inside, offset = found((*rows, last * width), over, form)
        offset = kl.select(inside, offset, 0)
        if fill:
            vector = kl.splat(source[offset], width)
        else:
            vector = source.load(offset, width, align=align)
        if not inside:
            vector = (
                kl.pack([ones[lane % parts] for lane in range(width)])
                if whole
                else value[i % parts]
            )
        made.append(vector)
    for i, vector in zip(own_vectors(turns), made, strict=True):
        if i < count:
            target.store(i * width, vector, align=align)


@kl.helper
def fill_run(
    value: kl.Pointer,
    target: kl.Pointer,
    written: kl.Index,
    length: kl.Number,
    width: int,
    parts: int,
) -> None:
    """Write the value to adjacent elements; it is of ``parts`` elements."""
    if parts == 1:
        copy_run(value, 0, target, written, length, 0, 1, width, 0, True)
    else:
        for i in kl.loop_range(0, length, parts):
            for k in range(parts):
                target[written + i + k] = value[k]


@kl.kernel
def pad_rows(
    source: kl.In,
    value: kl.In,
    target: kl.Out,
    rows: kl.Size,
    turns: kl.Size,
    span: kl.Size,
    over: Padded[kl.Number, kl.FastDivmod],
    *,
    form: Form,
    width: int,
    step: int,
    pieces: bool,
    parts: int,
) -> None:
    """Write rows, ``turns`` of them a cube of one unit, or ``pieces`` of ``span`` elements.

    ``step``: the stride of the operand in a row if it is in STEPS, else ANY. ``parts``: the
    elements of the value.
    """
    length = over.sizes[-1].divisor
    low, gap = over.low[-1], over.steps[-1].divisor
    extent, stride = over.extents[-1], over.strides[-1]
    count = (length + span - 1) // span if pieces else 1
    begin = kl.absolute_position() // count if pieces else kl.absolute_position() * turns
    end = kl.min(begin + 1, rows) if pieces else kl.min(begin + turns, rows)
    first = (kl.absolute_position() - begin * count) * span if pieces else 0
    stop = kl.min(first + span, length) if pieces else length
    for row in kl.loop_range(begin, end):
        place = kl.unravel(row, over.sizes[:-1])
        inside, offset = found(place, over, form)
        base = row * length
        # The row's parts: before the operand, of it, and behind it.
        left, right = stop, stop
        if inside:
            left = kl.min(kl.max(low, first), stop)
            right = kl.min(kl.max(low + extent, first), stop)
        if form.spaced[-1]:
            fill_run(value, target, base + first, stop - first, width, parts)
            if inside:
                copy_run(
                    source,
                    offset,
                    target,
                    base + low,
                    extent // gap + 1,
                    stride,
                    gap,
                    1,
                    ANY,
                    False,
                )
        else:
            fill_run(value, target, base + first, left - first, width, parts)
            if left < right:
                at = offset + (left - low) * stride
                copy_run(
                    source, at, target, base + left, right - left, stride, 1, width, step, True
                )
            fill_run(value, target, base + right, stop - right, width, parts)


def padded_axes(
    view: View, shape: Sequence[int], low: Sequence[int], gaps: Sequence[int]
) -> list[Axis]:
    """Return the axes of a padded copy, merged as far as possible; the view has elements."""
    axes: list[Axis] = []
    for n, a, m, gap, stride in zip(shape, low, view.shape, gaps, view.strides, strict=True):
        if n == 1:
            continue
        axis = Axis(n, a, m, gap if m != 1 else 0, stride if m != 1 else 0)
        if axes and not axis.padded and not axes[-1].gap:
            before = axes[-1]
            if before.stride == m * stride or before.length == 1:
                size, length = before.size * n, before.length * m
                axes[-1] = Axis(size, before.low * n, length, 0, stride)
                continue
        axes.append(axis)
    return axes or [Axis(1, 0, 1, 0, 1)]


def padding_launch(
    view: View,
    value: View,
    shape: Sequence[int],
    low: Sequence[int],
    gaps: Sequence[int],
    info: DeviceInfo,
) -> Launch:
    """Return the launch that pads a view with elements; operand 1 is the value."""
    bits, one = as_bits(view, info), as_bits(value, info)
    if len(bits.shape) > len(view.shape):
        parts = bits.shape[-1]
        shape, low, gaps = (*shape, parts), (*low, 0), (*gaps, 0)
    axes = padded_axes(bits, shape, low, gaps)
    count, size = prod(a.size for a in axes), bits.dtype.itemsize
    read = prod(a.length for a in axes)
    given: dict[str, object] = {
        "source": operand(0, bits),
        "value": Bound(Input(1, one.offset), bits.dtype),
        "target": Bound(Output(), bits.dtype),
        "form": Form.of(axes),
        "parts": bits.shape[-1] if len(bits.shape) > len(view.shape) else 1,
    }
    effort = Effort("pad", 0, (count + read) * size)
    last = axes[-1]
    if info.max_units > 1:
        width = 1
        if not last.gap and last.stride in (0, 1):
            numbers = [last.size, last.low, last.length]
            if last.stride:
                numbers += [bits.offset, *(a.stride for a in axes[:-1])]
            width = aligned_lanes(bits.dtype, numbers, info)
        vectors, units = count // width, min(info.max_units, UNITS)
        turns = turns_of(vectors, units, info)
        ends = [count, sum(abs(a.stride) * a.length for a in axes) + 1]
        grid = Grid.line(-(-vectors // (units * turns)), units, index=index_of(ends, info))
        given |= {"count": vectors, "over": Padded.of(axes, width), "width": width, "turns": turns}
        return launch(pad_vectors, grid, effort, fill=last.stride == 0, **given)
    if len(axes) == 1:
        axes = [Axis(1, 0, 1, 0, 0), *axes]
        given["form"] = Form.of(axes)
    rows, length = count // last.size, last.size
    pieces = not last.gap and few_long(rows, length * size, info)
    span, turns = GRAIN // size, greatest(GRAIN // (length * size), 1)
    units = rows * -(-length // span) if pieces else -(-rows // turns)
    given |= {"rows": rows, "turns": turns, "span": span, "over": Padded.of(axes)}
    return launch(
        pad_rows,
        Grid.line(units),
        effort,
        width=max(info.vector_bytes // size, 1),
        step=step_of(last.stride, length, size, info),
        pieces=pieces,
        **given,
    )
