"""Sliding windows of any kind, window by window: the general bodies.

Requirements: any rank, type, stride, view and device. The first of equal extremes in the window's
row-major order counts; NaN is an extreme, padding is not. The unit that writes an element gathers
its gradient, so that its sum has a fixed order and nothing is atomic. On a CPU a unit computes a
vector of results and gathers their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calor.dtypes import DType
from calor_kernel.language import (
    In,
    Index,
    Mask,
    Number,
    Out,
    Pointer,
    Size,
    Stride,
    absolute_position,
    constant,
    helper,
    kernel,
    offset_of,
    quotient,
    range,
    registers,
    select,
    splat,
    unravel,
)
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.pool.problem import Lead, Reduction

Slides = Sequence[Slide[Number]]
Leads = Sequence[Lead[Number]]


def results(
    count: Number, width: int, leads: Leads, sizes: Sequence[Number]
) -> tuple[Number, Number, Mask, Sequence[Number], Sequence[Number]]:
    """Return the first result of this unit, the indices of all of them, and which exist.

    Then their positions along the sliding axes, and those of their planes in each operand. Indices
    beyond the end are clamped to the last one.
    """
    first = absolute_position() * width
    index = first + constant(tuple(range(width)), first.dtype) if width > 1 else first
    inside = index < count
    index = select(inside, index, count - 1)
    place = unravel(index, [*(a.size for a in leads), *sizes])
    steps = zip(*(a.strides for a in leads), strict=True)
    bases = [offset_of(place[: len(leads)], list(step), index * 0) for step in steps]
    return first, index, inside, place[len(leads) :], bases


def starts_of(places: Sequence[Number], slides: Slides) -> list[Number]:
    """Return the windows' starts along each sliding axis."""
    return [p * s.stride + s.start for p, s in zip(places, slides, strict=True)]


@helper
def each_position(
    slides: Slides,
    starts: Sequence[Number],
    steps: Sequence[Sequence[Number]],
    bases: Sequence[Number],
    tap: Index | None,
    inside: Mask,
    step: Callable[[Slide[Number], Number, Number, Mask], tuple[Number, Mask]],
    body: Callable[[Sequence[Number], Index | None, Mask], None],
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
        for k in range(slide.window):
            at, valid = step(slide, starts[0], k, inside)
            moved = [base + at * along[0] for base, along in zip(bases, steps, strict=True)]
            index = None
            if tap is not None and step is seen:
                index = tap * slide.window + k
            elif tap is not None:
                index = (tap - 1) * slide.window + k + 1
            rest = [along[1:] for along in steps]
            each_position(slides[1:], starts[1:], rest, moved, index, valid, step, body)


def seen(slide: Slide[Number], start: Number, k: Number, inside: Mask) -> tuple[Number, Mask]:
    """Return the element that position k of a window sees; see ``each_position``."""
    at = start + k * slide.dilation
    return at, inside & (at >= 0) & (at < slide.size)


def seeing(slide: Slide[Number], place: Number, k: Number, inside: Mask) -> tuple[Number, Mask]:
    """Return the window whose position k sees an element; see ``each_position``."""
    at = place - k * slide.dilation
    i = quotient(at, splat(slide.stride, at.width))
    return i, inside & (at >= 0) & (i < slide.count) & (i * slide.stride == at)


@kernel
def reduce_windows(
    x: In,
    c: Out,
    count: Size,
    slides: tuple[Slide[Number], ...],
    strides: tuple[tuple[Stride, ...], ...],
    leads: tuple[Lead[Number], ...],
    *,
    width: int,
    by: Reduction,
) -> None:
    """Reduce ``width`` windows. ``strides``: those of x along the slides."""
    first, _, inside, place, bases = results(count, width, leads, [s.count for s in slides])
    total = registers(1, by.wide, width, by.identity)

    def take(places: Sequence[Number], tap: Index | None, valid: Mask) -> None:
        value = x.load(places[0], mask=valid, other=by.identity).to(by.wide)
        total[0] = by.take(total[0], value)

    each_position(slides, starts_of(place, slides), strides, bases, None, inside, seen, take)
    c.store(first, total[0].to(c.dtype), mask=inside)


@kernel
def choose_positions(
    x: In,
    chosen: Out,
    count: Size,
    slides: tuple[Slide[Number], ...],
    strides: tuple[tuple[Stride, ...], ...],
    leads: tuple[Lead[Number], ...],
    *,
    width: int,
    by: Reduction,
) -> None:
    """Write the index of each window's extreme, counted from 1; 0 if all is padding."""
    first, index, inside, place, bases = results(count, width, leads, [s.count for s in slides])
    starts = starts_of(place, slides)
    number = choice(x, slides, starts, strides[0], bases[0], index * 0, inside, by)
    chosen.store(first, number.to(chosen.dtype), mask=inside)


@kernel
def pick_positions(
    u: In,
    x: In,
    c: Out,
    count: Size,
    slides: tuple[Slide[Number], ...],
    strides: tuple[tuple[Stride, ...], ...],
    leads: tuple[Lead[Number], ...],
    *,
    width: int,
    by: Reduction,
) -> None:
    """Write the value of u at the extreme of each window of x, 0 if all is padding.

    ``strides``: those of x along the slides, and those of u.
    """
    first, index, inside, place, bases = results(count, width, leads, [s.count for s in slides])
    starts = starts_of(place, slides)
    number = choice(x, slides, starts, strides[0], bases[0], index * 0, inside, by)
    some = number > 0
    taps = unravel(select(some, number - 1, 0), [s.window for s in slides])
    there = [start + k * s.dilation for start, k, s in zip(starts, taps, slides, strict=True)]
    value = u.load(offset_of(there, strides[1], bases[1]), mask=inside & some)
    c.store(first, value, mask=inside)


def choice(
    x: Pointer,
    slides: Slides,
    starts: Sequence[Number],
    strides: Sequence[Number],
    base: Number,
    zero: Number,
    inside: Mask,
    by: Reduction,
) -> Number:
    """Return the position of each window's first extreme, counted from 1; 0 if all is padding."""
    best = registers(1, by.wide, zero.width)
    number = registers(1, zero.dtype, zero.width)

    def compare(places: Sequence[Number], tap: Index | None, valid: Mask) -> None:
        assert tap is not None
        value = x.load(places[0], mask=valid).to(by.wide)
        better = value > best[0] if by.kind == "max" else value < best[0]
        if value.dtype.kind == "float":
            better = better | ((value != value) & (best[0] == best[0]))
        better = valid & (better | (number[0] == 0))
        best[0] = select(better, value, best[0])
        number[0] = select(better, tap + 1, number[0])

    each_position(slides, starts, [strides], [base], zero, inside, seen, compare)
    return number[0]


@kernel
def gather_gradient(
    g: In,
    chosen: In,
    c: Out,
    count: Size,
    slides: tuple[Slide[Number], ...],
    strides: tuple[tuple[Stride, ...], ...],
    leads: tuple[Lead[Number], ...],
    *,
    width: int,
    all_positions: bool,
    wide: DType,
) -> None:
    """Sum, for ``width`` elements, the gradients of the windows that contain each of them.

    Unless ``all_positions``, only windows with this element as ``chosen`` count. ``strides``: those
    of g along the slides, and those of ``chosen``.
    """
    first, _, inside, place, bases = results(count, width, leads, [s.size for s in slides])
    starts = [p - s.start for p, s in zip(place, slides, strict=True)]
    total = registers(1, wide, width)

    def add(places: Sequence[Number], tap: Index | None, valid: Mask) -> None:
        if not all_positions:
            valid = valid & (chosen.load(places[1], mask=valid).to(places[0].dtype) == tap)
        total[0] = total[0] + g.load(places[0], mask=valid).to(wide)

    each_position(slides, starts, strides, bases, 1, inside, seeing, add)
    c.store(first, total[0].to(c.dtype), mask=inside)
