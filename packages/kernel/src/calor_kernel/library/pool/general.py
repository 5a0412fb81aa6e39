"""Sliding windows of any kind, window by window: the general bodies.

Requirements: any rank, type, stride, view and device. The first of equal extremes in the window's
row-major order counts; NaN is an extreme, padding is not. The unit that writes an element gathers
its gradient, so that its sum has a fixed order and nothing is atomic. On a CPU a unit computes a
vector of results and gathers their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.pool.problem import Lead
from calor_kernel.library.reduce.reduction_ops import ReductionOp

Slides = Sequence[Slide[kl.Number]]


@dataclass(frozen=True, slots=True)
class Sliding(Generic[N]):
    """``count`` results along sliding and leading axes.

    ``strides``: those of each operand along the sliding axes.
    """

    count: kl.SizeOf[N]
    slides: tuple[Slide[N], ...]
    strides: tuple[tuple[kl.StrideOf[N], ...], ...]
    leads: tuple[Lead[N], ...]

    def results(
        self: Sliding[kl.Number], width: int, sizes: Sequence[kl.Number]
    ) -> tuple[kl.Number, kl.Number, kl.Mask, Sequence[kl.Number], Sequence[kl.Number]]:
        """Return the first result of this unit, the indices of all of them, and which exist.

        Then their positions along the sliding axes, of ``sizes``, and those of their planes in each
        operand. Indices beyond the end are clamped to the last one.
        """
        first = kl.absolute_position() * width
        index = first + kl.constant(tuple(kl.range(width)), first.dtype) if width > 1 else first
        inside = index < self.count
        index = kl.select(inside, index, self.count - 1)
        place = kl.unravel(index, [*(a.size for a in self.leads), *sizes])
        lead = len(self.leads)
        steps = zip(*(a.strides for a in self.leads), strict=True)
        bases = [kl.offset_of(place[:lead], list(step), index * 0) for step in steps]
        return first, index, inside, place[lead:], bases

    def windows(
        self: Sliding[kl.Number], width: int
    ) -> tuple[kl.Number, kl.Mask, list[kl.Number], Sequence[kl.Number], kl.Number]:
        """Return the first window of this unit, and which exist.

        Then their starts along the sliding axes, those of their planes in each operand, and 0.
        """
        first, index, inside, place, bases = self.results(width, [s.count for s in self.slides])
        starts = [p * s.stride + s.start for p, s in zip(place, self.slides, strict=True)]
        return first, inside, starts, bases, index * 0


@kl.helper
def each_position(
    slides: Slides,
    starts: Sequence[kl.Number],
    steps: Sequence[Sequence[kl.Number]],
    bases: Sequence[kl.Number],
    tap: kl.Index | None,
    inside: kl.Mask,
    step: Callable[[Slide[kl.Number], kl.Number, kl.Number, kl.Mask], tuple[kl.Number, kl.Mask]],
    body: Callable[[Sequence[kl.Number], kl.Index | None, kl.Mask], None],
) -> None:
    """Call ``body`` for each position of a window: its places in the operands, and its index.

    ``step`` returns the place along an axis and which results have it. ``steps``: the strides of
    each operand along the axes. Indices are counted over the whole window: from 0 of positions that
    are seen, from 1 of those that see an element.
    """
    if not slides:
        body(bases, tap, inside)
    else:
        slide = slides[0]
        for k in kl.range(slide.window):
            at, valid = step(slide, starts[0], k, inside)
            moved = [base + at * along[0] for base, along in zip(bases, steps, strict=True)]
            index = None
            if tap is not None and step is seen:
                index = tap * slide.window + k
            elif tap is not None:
                index = (tap - 1) * slide.window + k + 1
            rest = [along[1:] for along in steps]
            each_position(slides[1:], starts[1:], rest, moved, index, valid, step, body)


def seen(
    slide: Slide[kl.Number], start: kl.Number, k: kl.Number, inside: kl.Mask
) -> tuple[kl.Number, kl.Mask]:
    """Return the element that position k of a window sees; see ``each_position``."""
    at = start + k * slide.dilation
    return at, inside & (at >= 0) & (at < slide.size)


def seeing(
    slide: Slide[kl.Number], place: kl.Number, k: kl.Number, inside: kl.Mask
) -> tuple[kl.Number, kl.Mask]:
    """Return the window whose position k sees an element; see ``each_position``."""
    at = place - k * slide.dilation
    i = kl.quotient(at, kl.splat(slide.stride, at.width))
    return i, inside & (at >= 0) & (i < slide.count) & (i * slide.stride == at)


@kl.kernel
def reduce_windows(
    x: kl.In, c: kl.Out, over: Sliding[kl.Number], *, width: int, by: ReductionOp
) -> None:
    """Reduce ``width`` windows of x."""
    first, inside, starts, bases, _ = over.windows(width)
    total = kl.registers(1, by.dtype, width, by.identity)

    def take(places: Sequence[kl.Number], tap: kl.Index | None, valid: kl.Mask) -> None:
        value = x.load(places[0], mask=valid, other=by.identity).to(by.dtype)
        total[0] = by.combine(total[0], value)

    each_position(over.slides, starts, over.strides, bases, None, inside, seen, take)
    c.store(first, total[0].to(c.dtype), mask=inside)


@kl.kernel
def choose_positions(
    x: kl.In, chosen: kl.Out, over: Sliding[kl.Number], *, width: int, by: ReductionOp
) -> None:
    """Write the index of each window's extreme, counted from 1; 0 if all is padding."""
    first, inside, _, _, number = choice(x, over, width, by)
    chosen.store(first, number.to(chosen.dtype), mask=inside)


@kl.kernel
def pick_positions(
    u: kl.In, x: kl.In, c: kl.Out, over: Sliding[kl.Number], *, width: int, by: ReductionOp
) -> None:
    """Write the value of u at the extreme of each window of x, 0 if all is padding.

    ``over.strides``: those of x and of u.
    """
    first, inside, starts, bases, number = choice(x, over, width, by)
    some = number > 0
    taps = kl.unravel(kl.select(some, number - 1, 0), [s.window for s in over.slides])
    there = [start + k * s.dilation for start, k, s in zip(starts, taps, over.slides, strict=True)]
    value = u.load(kl.offset_of(there, over.strides[1], bases[1]), mask=inside & some)
    c.store(first, value, mask=inside)


def choice(
    x: kl.Pointer, over: Sliding[kl.Number], width: int, by: ReductionOp
) -> tuple[kl.Number, kl.Mask, Sequence[kl.Number], Sequence[kl.Number], kl.Number]:
    """Return the first result of this unit, which exist, their starts and those of their planes.

    Then the position of each window's first extreme, counted from 1; 0 if all is padding.
    """
    first, inside, starts, bases, zero = over.windows(width)
    best = kl.registers(1, by.dtype, zero.width)
    number = kl.registers(1, zero.dtype, zero.width)

    def compare(places: Sequence[kl.Number], tap: kl.Index | None, valid: kl.Mask) -> None:
        assert tap is not None
        value = x.load(places[0], mask=valid).to(by.dtype)
        better = value > best[0] if by.kind == "max" else value < best[0]
        if value.dtype.kind == "float":
            better = better | ((value != value) & (best[0] == best[0]))
        better = valid & (better | (number[0] == 0))
        best[0] = kl.select(better, value, best[0])
        number[0] = kl.select(better, tap + 1, number[0])

    each_position(over.slides, starts, over.strides[:1], bases[:1], zero, inside, seen, compare)
    return first, inside, starts, bases, number[0]


@kl.kernel
def gather_gradient(
    g: kl.In,
    chosen: kl.In,
    c: kl.Out,
    over: Sliding[kl.Number],
    *,
    width: int,
    all_positions: bool,
    wide: DType,
) -> None:
    """Sum, for ``width`` elements, the gradients of the windows that contain each of them.

    Unless ``all_positions``, only windows with this element as ``chosen`` count. ``over.strides``:
    those of g and of ``chosen``.
    """
    first, _, inside, place, bases = over.results(width, [s.size for s in over.slides])
    starts = [p - s.start for p, s in zip(place, over.slides, strict=True)]
    total = kl.registers(1, wide, width)

    def add(places: Sequence[kl.Number], tap: kl.Index | None, valid: kl.Mask) -> None:
        if not all_positions:
            valid = valid & (chosen.load(places[1], mask=valid).to(places[0].dtype) == tap)
        total[0] = total[0] + g.load(places[0], mask=valid).to(wide)

    each_position(over.slides, starts, over.strides, bases, 1, inside, seeing, add)
    c.store(first, total[0].to(c.dtype), mask=inside)
