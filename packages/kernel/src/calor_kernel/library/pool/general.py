"""Sliding windows of any kind, window by window: the general bodies.

Requirements: any rank, type, stride, view and device. The first of equal extremes in the window's
row-major order counts; NaN is an extreme, padding is not. The unit that writes an element gathers
its gradient, so that its sum has a fixed order and nothing is atomic. On a CPU a unit computes a
vector of results and gathers their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.pool.problem import Lead, Reduction

Slides = Sequence[Slide[kl.Number]]
Leads = Sequence[Lead[kl.Number]]


def results(
    count: kl.Number, width: int, leads: Leads, sizes: Sequence[kl.Number]
) -> tuple[kl.Number, kl.Number, kl.Mask, Sequence[kl.Number], Sequence[kl.Number]]:
    """Return the first result of this unit, the indices of all of them, and which exist.

    Then their positions along the sliding axes, and those of their planes in each operand. Indices
    beyond the end are clamped to the last one.
    """
    first = kl.absolute_position() * width
    index = first + kl.constant(tuple(kl.range(width)), first.dtype) if width > 1 else first
    inside = index < count
    index = kl.select(inside, index, count - 1)
    place = kl.unravel(index, [*(a.size for a in leads), *sizes])
    steps = zip(*(a.strides for a in leads), strict=True)
    bases = [kl.offset_of(place[: len(leads)], list(step), index * 0) for step in steps]
    return first, index, inside, place[len(leads) :], bases


def starts_of(places: Sequence[kl.Number], slides: Slides) -> list[kl.Number]:
    """Return the windows' starts along each sliding axis."""
    return [p * s.stride + s.start for p, s in zip(places, slides, strict=True)]


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
    x: kl.In,
    c: kl.Out,
    count: kl.Size,
    slides: tuple[Slide[kl.Number], ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    leads: tuple[Lead[kl.Number], ...],
    *,
    width: int,
    by: Reduction,
) -> None:
    """Reduce ``width`` windows. ``strides``: those of x along the slides."""
    first, _, inside, place, bases = results(count, width, leads, [s.count for s in slides])
    total = kl.registers(1, by.wide, width, by.identity)

    def take(places: Sequence[kl.Number], tap: kl.Index | None, valid: kl.Mask) -> None:
        value = x.load(places[0], mask=valid, other=by.identity).to(by.wide)
        total[0] = by.take(total[0], value)

    each_position(slides, starts_of(place, slides), strides, bases, None, inside, seen, take)
    c.store(first, total[0].to(c.dtype), mask=inside)


@kl.kernel
def choose_positions(
    x: kl.In,
    chosen: kl.Out,
    count: kl.Size,
    slides: tuple[Slide[kl.Number], ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    leads: tuple[Lead[kl.Number], ...],
    *,
    width: int,
    by: Reduction,
) -> None:
    """Write the index of each window's extreme, counted from 1; 0 if all is padding."""
    first, index, inside, place, bases = results(count, width, leads, [s.count for s in slides])
    starts = starts_of(place, slides)
    number = choice(x, slides, starts, strides[0], bases[0], index * 0, inside, by)
    chosen.store(first, number.to(chosen.dtype), mask=inside)


@kl.kernel
def pick_positions(
    u: kl.In,
    x: kl.In,
    c: kl.Out,
    count: kl.Size,
    slides: tuple[Slide[kl.Number], ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    leads: tuple[Lead[kl.Number], ...],
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
    taps = kl.unravel(kl.select(some, number - 1, 0), [s.window for s in slides])
    there = [start + k * s.dilation for start, k, s in zip(starts, taps, slides, strict=True)]
    value = u.load(kl.offset_of(there, strides[1], bases[1]), mask=inside & some)
    c.store(first, value, mask=inside)


def choice(
    x: kl.Pointer,
    slides: Slides,
    starts: Sequence[kl.Number],
    strides: Sequence[kl.Number],
    base: kl.Number,
    zero: kl.Number,
    inside: kl.Mask,
    by: Reduction,
) -> kl.Number:
    """Return the position of each window's first extreme, counted from 1; 0 if all is padding."""
    best = kl.registers(1, by.wide, zero.width)
    number = kl.registers(1, zero.dtype, zero.width)

    def compare(places: Sequence[kl.Number], tap: kl.Index | None, valid: kl.Mask) -> None:
        assert tap is not None
        value = x.load(places[0], mask=valid).to(by.wide)
        better = value > best[0] if by.kind == "max" else value < best[0]
        if value.dtype.kind == "float":
            better = better | ((value != value) & (best[0] == best[0]))
        better = valid & (better | (number[0] == 0))
        best[0] = kl.select(better, value, best[0])
        number[0] = kl.select(better, tap + 1, number[0])

    each_position(slides, starts, [strides], [base], zero, inside, seen, compare)
    return number[0]


@kl.kernel
def gather_gradient(
    g: kl.In,
    chosen: kl.In,
    c: kl.Out,
    count: kl.Size,
    slides: tuple[Slide[kl.Number], ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    leads: tuple[Lead[kl.Number], ...],
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
    total = kl.registers(1, wide, width)

    def add(places: Sequence[kl.Number], tap: kl.Index | None, valid: kl.Mask) -> None:
        if not all_positions:
            valid = valid & (chosen.load(places[1], mask=valid).to(places[0].dtype) == tap)
        total[0] = total[0] + g.load(places[0], mask=valid).to(wide)

    each_position(slides, starts, strides, bases, 1, inside, seeing, add)
    c.store(first, total[0].to(c.dtype), mask=inside)
