"""Sliding windows of any kind, window by window: the general bodies.

Requirements: any rank, type, stride, view and device. The first of equal extremes in the window's
row-major order counts; NaN is an extreme, padding is not. The unit that writes an element gathers
its gradient, so that its sum has a fixed order and nothing is atomic. On a CPU a unit computes a
vector of results and gathers their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.pool.problem import Lead
from calor_kernel.library.reduce.reduction_ops import ReductionOp

Slides = Sequence[Slide[kl.Number]]


D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Sliding(Generic[N, D]):
    """``count`` results along leading and sliding axes, of ``sizes``.

    ``strides``: those of each operand along the sliding axes.
    """

    count: kl.SizeOf[N]
    sizes: tuple[kl.DivisorOf[D], ...]
    slides: tuple[Slide[N], ...]
    strides: tuple[tuple[kl.StrideOf[N], ...], ...]
    leads: tuple[Lead[N], ...]

    def results(
        self: Sliding[kl.Number, kl.FastDivmod], width: int
    ) -> tuple[kl.Number, kl.Number, kl.Mask, Sequence[kl.Number], Sequence[kl.Number]]:
        """Return the first result of this unit, the indices of all of them, and which exist.

        Then their positions along the sliding axes, and those of their planes in each operand.
        Indices beyond the end are clamped to the last one.
        """
        first = kl.absolute_position() * width
        index = first + kl.constant(tuple(kl.range(width)), first.dtype) if width > 1 else first
        inside = index < self.count
        index = kl.select(inside, index, self.count - 1)
        place = kl.unravel(index, self.sizes)
        lead = len(self.leads)
        steps = zip(*(a.strides for a in self.leads), strict=True)
        bases = [kl.offset_of(place[:lead], list(step), index * 0) for step in steps]
        return first, index, inside, place[lead:], bases

    def windows(
        self: Sliding[kl.Number, kl.FastDivmod], width: int
    ) -> tuple[kl.Number, kl.Mask, list[kl.Number], Sequence[kl.Number], kl.Number]:
        """Return the first window of this unit, and which exist.

        Then their starts along the sliding axes, those of their planes in each operand, and 0.
        """
        first, index, inside, place, bases = self.results(width)
        starts = [p * s.stride + s.start for p, s in zip(place, self.slides, strict=True)]
        return first, inside, starts, bases, index * 0


@dataclass(frozen=True, slots=True)
class Seeing(Generic[N, D]):
    """The windows that see an element, along an axis.

    ``turns``: how many at most. ``extent``: from a window's first position to its last. ``strides``
    and ``dilation``: those of the windows, as divisors.
    """

    turns: kl.SizeOf[N]
    extent: kl.SizeOf[N]
    stride: kl.DivisorOf[D]
    dilation: kl.DivisorOf[D]


@kl.helper
def each_position(
    slides: Slides,
    taps: Sequence[int],
    starts: Sequence[kl.Number],
    steps: Sequence[kl.Number],
    base: kl.Number,
    tap: kl.Index | None,
    inside: kl.Mask,
    body: Callable[[kl.Number, kl.Index | None, kl.Mask], None],
) -> None:
    """Call ``body`` for each position of a window: its place in the operand, and its index.

    ``taps``: the positions along each axis, 0 where the build does not know them. ``steps``: the
    strides of the operand along the axes. Indices are counted from ``tap`` over the whole window.
    """
    if not slides:
        body(base, tap, inside)
    else:
        slide = slides[0]
        window = taps[0] or slide.window
        for k in kl.range(window):
            at = starts[0] + k * slide.dilation
            valid = inside & (at >= 0) & (at < slide.size)
            index = None if tap is None else tap * window + k
            each_position(
                slides[1:],
                taps[1:],
                starts[1:],
                steps[1:],
                base + at * steps[0],
                index,
                valid,
                body,
            )


@kl.helper
def each_window(
    slides: Slides,
    taps: Sequence[int],
    seeing: Sequence[Seeing[kl.Number, kl.FastDivmod]],
    dilated: Sequence[bool],
    places: Sequence[kl.Number],
    steps: Sequence[Sequence[kl.Number]],
    bases: Sequence[kl.Number],
    tap: kl.Number,
    inside: kl.Mask,
    body: Callable[[Sequence[kl.Number], kl.Number, kl.Mask], None],
) -> None:
    """Call ``body`` for each window that sees an element, the last first: its places in operands.

    ``taps``: how many windows at most along each axis, 0 where the build does not know it.
    ``places``: the element's, counted from the first window's start. ``dilated``: whether windows
    have gaps. ``tap``: the index of the window's position that sees the element.
    """
    if not slides:
        body(bases, tap, inside)
    else:
        slide, seen, place = slides[0], seeing[0], places[0]
        last = kl.min(seen.stride.divide(kl.max(place, 0)), slide.count - 1)
        for turn in kl.range(taps[0] or seen.turns):
            i = last - turn
            position = place - i * slide.stride
            valid = inside & (i >= 0) & (i < slide.count)
            valid = valid & (position >= 0) & (position < seen.extent)
            if dilated[0]:
                position, rest = seen.dilation.divmod(kl.max(position, 0))
                valid = valid & (rest == 0)
            moved = [base + i * along[0] for base, along in zip(bases, steps, strict=True)]
            rests = [along[1:] for along in steps]
            each_window(
                slides[1:],
                taps[1:],
                seeing[1:],
                dilated[1:],
                places[1:],
                rests,
                moved,
                tap * slide.window + position,
                valid,
                body,
            )


@kl.kernel
def reduce_windows(
    x: kl.In,
    c: kl.Out,
    over: Sliding[kl.Number, kl.FastDivmod],
    *,
    width: int,
    taps: tuple[int, ...],
    by: ReductionOp,
) -> None:
    """Reduce ``width`` windows of x."""
    first, inside, starts, bases, _ = over.windows(width)
    total = kl.registers(1, by.dtype, width, by.identity)

    def take(place: kl.Number, tap: kl.Index | None, valid: kl.Mask) -> None:
        value = x.load(place, mask=valid, other=by.identity).to(by.dtype)
        total[0] = by.combine(total[0], value)

    each_position(over.slides, taps, starts, over.strides[0], bases[0], None, inside, take)
    c.store(first, total[0].to(c.dtype), mask=inside)


@kl.kernel
def choose_positions(
    x: kl.In,
    chosen: kl.Out,
    over: Sliding[kl.Number, kl.FastDivmod],
    *,
    width: int,
    taps: tuple[int, ...],
    by: ReductionOp,
) -> None:
    """Write the index of each window's extreme, counted from 1; 0 if all is padding."""
    first, inside, _, _, number = choice(x, over, width, taps, by)
    chosen.store(first, number.to(chosen.dtype), mask=inside)


@kl.kernel
def pick_positions(
    u: kl.In,
    x: kl.In,
    c: kl.Out,
    over: Sliding[kl.Number, kl.FastDivmod],
    *,
    width: int,
    taps: tuple[int, ...],
    by: ReductionOp,
) -> None:
    """Write the value of u at the extreme of each window of x, 0 if all is padding.

    ``over.strides``: those of x and of u.
    """
    first, inside, starts, bases, number = choice(x, over, width, taps, by)
    some = number > 0
    steps = kl.unravel(kl.select(some, number - 1, 0), [s.window for s in over.slides])
    there = [start + k * s.dilation for start, k, s in zip(starts, steps, over.slides, strict=True)]
    value = u.load(kl.offset_of(there, over.strides[1], bases[1]), mask=inside & some)
    c.store(first, value, mask=inside)


def choice(
    x: kl.Pointer,
    over: Sliding[kl.Number, kl.FastDivmod],
    width: int,
    taps: Sequence[int],
    by: ReductionOp,
) -> tuple[kl.Number, kl.Mask, Sequence[kl.Number], Sequence[kl.Number], kl.Number]:
    """Return the first result of this unit, which exist, their starts and those of their planes.

    Then the position of each window's first extreme, counted from 1; 0 if all is padding.
    """
    first, inside, starts, bases, zero = over.windows(width)
    best = kl.registers(1, by.dtype, zero.width)
    number = kl.registers(1, zero.dtype, zero.width)

    def compare(place: kl.Number, tap: kl.Index | None, valid: kl.Mask) -> None:
        assert tap is not None
        value = x.load(place, mask=valid).to(by.dtype)
        better = value > best[0] if by.kind == "max" else value < best[0]
        if value.dtype.kind == "float":
            better = better | ((value != value) & (best[0] == best[0]))
        better = valid & (better | (number[0] == 0))
        best[0] = kl.select(better, value, best[0])
        number[0] = kl.select(better, tap + 1, number[0])

    each_position(over.slides, taps, starts, over.strides[0], bases[0], zero, inside, compare)
    return first, inside, starts, bases, number[0]


@kl.kernel
def gather_gradient(
    g: kl.In,
    chosen: kl.In,
    c: kl.Out,
    over: Sliding[kl.Number, kl.FastDivmod],
    seeing: tuple[Seeing[kl.Number, kl.FastDivmod], ...],
    *,
    width: int,
    taps: tuple[int, ...],
    all_positions: bool,
    first_number: int,
    dilated: tuple[bool, ...],
    wide: DType,
) -> None:
    """Sum, for ``width`` elements, the gradients of the windows that contain each of them.

    Unless ``all_positions``, only windows with this element as ``chosen`` count, whose positions
    are counted from ``first_number``. ``over.strides``: those of g and of ``chosen``.
    """
    first, index, inside, place, bases = over.results(width)
    places = [p - s.start for p, s in zip(place, over.slides, strict=True)]
    total = kl.registers(1, wide, width)

    nothing = total[0]

    def add(found: Sequence[kl.Number], tap: kl.Number, valid: kl.Mask) -> None:
        value = g.load(found[0], mask=valid).to(wide)
        if not all_positions:
            number = chosen.load(found[1], mask=valid).to(found[1].dtype)
            value = kl.select(valid & (number == tap + first_number), value, nothing)
        total[0] = total[0] + value

    each_window(
        over.slides, taps, seeing, dilated, places, over.strides, bases, index * 0, inside, add
    )
    c.store(first, total[0].to(c.dtype), mask=inside)
