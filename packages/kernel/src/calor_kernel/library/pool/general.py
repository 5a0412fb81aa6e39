"""Sliding windows of any kind, window by window: the general bodies.

Requirements: any rank, type, stride, view and device. The first of equal extremes in the window's
row-major order counts; NaN is an extreme, padding is not. The unit that writes an element gathers
its gradient, so that its sum has a fixed order and nothing is atomic. On a CPU a unit computes a
vector of results and gathers their operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import DType
from calor_kernel.language import (
    In,
    Index,
    Mask,
    Number,
    Out,
    Pointer,
    Registers,
    Size,
    Stride,
    absolute_position,
    constant,
    helper,
    kernel,
    max,
    min,
    offset_of,
    quotient,
    range,
    registers,
    select,
    splat,
    unravel,
)
from calor_kernel.library.pool.problem import Lead, Reduction, Slide

Slides = Sequence[Slide[Number]]


def results(count: Number, width: int) -> tuple[Number, Number, Mask]:
    """Return the first result of this unit, the indices of all of them, and which exist.

    Indices beyond the end are clamped to the last one.
    """
    first = absolute_position() * width
    index = first + constant(tuple(range(width)), first.dtype) if width > 1 else first
    inside = index < count
    return first, select(inside, index, count - 1), inside


def starts_of(places: Sequence[Number], slides: Slides) -> list[Number]:
    """Return the windows' starts along each sliding axis."""
    return [p * s.stride + s.start for p, s in zip(places, slides, strict=True)]


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
    first, index, inside = results(count, width)
    place = unravel(index, [*(a.size for a in leads), *(s.count for s in slides)])
    base = offset_of(place[: len(leads)], [a.strides[0] for a in leads], index * 0)
    starts = starts_of(place[len(leads) :], slides)
    total = registers(1, by.wide, width, by.identity)
    take_all(total, x, slides, starts, strides[0], base, inside, by)
    c.store(first, total[0].to(c.dtype), mask=inside)


@helper
def take_all(
    total: Registers,
    x: Pointer,
    slides: Slides,
    starts: list[Number],
    strides: Sequence[Number],
    base: Number,
    inside: Mask,
    by: Reduction,
) -> None:
    """Add the windows' elements to the total, along the axes from a given one on."""
    if not slides:
        value = x.load(base, mask=inside, other=by.identity).to(total.type.dtype)
        if by.kind == "sum":
            total[0] = total[0] + value
        elif by.kind == "max":
            total[0] = max(total[0], value)
        else:
            total[0] = min(total[0], value)
    else:
        slide = slides[0]
        for k in range(slide.window):
            at = starts[0] + k * slide.dilation
            valid = inside & (at >= 0) & (at < slide.size)
            take_all(
                total,
                x,
                slides[1:],
                starts[1:],
                strides[1:],
                base + at * strides[0],
                valid,
                by,
            )


@kernel
def choose_places(
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
    first, index, inside = results(count, width)
    place = unravel(index, [*(a.size for a in leads), *(s.count for s in slides)])
    base = offset_of(place[: len(leads)], [a.strides[0] for a in leads], index * 0)
    starts = starts_of(place[len(leads) :], slides)
    best = registers(1, by.wide, width)
    number = registers(1, index.dtype, width)
    compare_all(best, number, x, slides, starts, strides[0], base, index * 0, inside, by)
    chosen.store(first, number[0].to(chosen.dtype), mask=inside)


@kernel
def pick_places(
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
    first, index, inside = results(count, width)
    place = unravel(index, [*(a.size for a in leads), *(s.count for s in slides)])
    base = offset_of(place[: len(leads)], [a.strides[0] for a in leads], index * 0)
    at = offset_of(place[: len(leads)], [a.strides[1] for a in leads], index * 0)
    starts = starts_of(place[len(leads) :], slides)
    best = registers(1, by.wide, width)
    number = registers(1, index.dtype, width)
    compare_all(best, number, x, slides, starts, strides[0], base, index * 0, inside, by)
    some = number[0] > 0
    taps = unravel(select(some, number[0] - 1, 0), [s.window for s in slides])
    seen = [start + k * s.dilation for start, k, s in zip(starts, taps, slides, strict=True)]
    value = u.load(offset_of(seen, strides[1], at), mask=inside & some)
    c.store(first, value, mask=inside)


@helper
def compare_all(
    best: Registers,
    number: Registers,
    x: Pointer,
    slides: Slides,
    starts: list[Number],
    strides: Sequence[Number],
    base: Number,
    tap: Number,
    inside: Mask,
    by: Reduction,
) -> None:
    """Find the first extreme of windows along the axes from a given one on.

    ``number`` counts positions of the window from 1, and is 0 before the first element.
    """
    if not slides:
        value = x.load(base, mask=inside).to(best.type.dtype)
        better = value > best[0] if by.kind == "max" else value < best[0]
        if value.dtype.kind == "float":
            better = better | ((value != value) & (best[0] == best[0]))
        better = inside & (better | (number[0] == 0))
        best[0] = select(better, value, best[0])
        number[0] = select(better, tap + 1, number[0])
    else:
        slide = slides[0]
        for k in range(slide.window):
            at = starts[0] + k * slide.dilation
            valid = inside & (at >= 0) & (at < slide.size)
            compare_all(
                best,
                number,
                x,
                slides[1:],
                starts[1:],
                strides[1:],
                base + at * strides[0],
                tap * slide.window + k,
                valid,
                by,
            )


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
    all_places: bool,
    wide: DType,
) -> None:
    """Sum, for ``width`` elements, the gradients of the windows that contain each of them.

    Unless ``all_places``, only windows with this element as ``chosen`` count. ``strides``: those of
    g along the slides, and those of ``chosen``.
    """
    first, index, inside = results(count, width)
    place = unravel(index, [*(a.size for a in leads), *(s.size for s in slides)])
    base = offset_of(place[: len(leads)], [a.strides[0] for a in leads], index * 0)
    at = offset_of(place[: len(leads)], [a.strides[1] for a in leads], index * 0)
    starts = [p - s.start for p, s in zip(place[len(leads) :], slides, strict=True)]
    total = registers(1, wide, width)
    add_all(
        total, g, chosen, slides, starts, strides[0], strides[1], base, at, 1, inside, all_places
    )
    c.store(first, total[0].to(c.dtype), mask=inside)


@helper
def add_all(
    total: Registers,
    g: Pointer,
    chosen: Pointer,
    slides: Slides,
    starts: list[Number],
    strides: Sequence[Number],
    others: Sequence[Number],
    base: Number,
    at: Number,
    tap: Index,
    inside: Mask,
    all_places: bool,
) -> None:
    """Add the windows' gradients to elements along the axes from a given one on."""
    if not slides:
        valid = inside
        if not all_places:
            valid = valid & (chosen.load(at, mask=inside).to(base.dtype) == tap)
        total[0] = total[0] + g.load(base, mask=valid).to(total.type.dtype)
    else:
        slide = slides[0]
        for k in range(slide.window):
            place = starts[0] - k * slide.dilation
            i = quotient(place, splat(slide.stride, place.width))
            valid = inside & (place >= 0) & (i < slide.count) & (i * slide.stride == place)
            add_all(
                total,
                g,
                chosen,
                slides[1:],
                starts[1:],
                strides[1:],
                others[1:],
                base + i * strides[0],
                at + i * others[0],
                # Positions are counted from 1 over the whole window.
                (tap - 1) * slide.window + k + 1,
                valid,
                all_places,
            )
