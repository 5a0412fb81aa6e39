"""Sliding windows of any kind, window by window: the bodies that take everything.

Requirements: any rank, type, stride, view and device; of equal extremes the first in the window's
row-major order is the one that counts, NaN is an extreme, and padding is none; a gradient is
gathered by the element that gets it, so that its sum has one order and nothing is atomic. On a CPU
a unit computes a vector of results, whose operands it gathers.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    absolute_position,
    constant,
    helper,
    kernel,
    quotient,
    registers,
    select,
    splat,
    unravel,
)

# The numbers of an axis along which windows slide.
SLIDE = 6


def results(count: Any, width: int) -> tuple[Any, Any, Any]:
    """Return the first result of this unit, the places of all of them, and which there are.

    Places beyond the end are the last one.
    """
    first = absolute_position() * width
    index = first + constant(tuple(range(width)), first.dtype) if width > 1 else first
    inside = index < count
    return first, select(inside, index, count - 1), inside


def slides_of(numbers: Any, rank: int) -> list[Any]:
    """Return the numbers of each axis along which windows slide."""
    return [numbers[i * SLIDE : (i + 1) * SLIDE] for i in range(rank)]


def sum_of(places: Any, strides: Any, start: Any) -> Any:
    """Return start plus places times strides."""
    for place, stride in zip(places, strides, strict=True):
        start = start + place * stride
    return start


@kernel
def reduce_windows(
    x: Any,
    c: Any,
    count: Any,
    *numbers: Any,
    rank: int,
    width: int,
    kind: str,
    identity: float,
    wide: DType,
) -> None:
    """Reduce ``width`` windows. ``numbers``: the slides, strides along them, then lead axes."""
    slides = slides_of(numbers, rank)
    strides = numbers[rank * SLIDE : rank * (SLIDE + 1)]
    leads = numbers[rank * (SLIDE + 1) :]
    sizes, jumps = leads[::2], leads[1::2]
    first, index, inside = results(count, width)
    place = unravel(index, [*sizes, *(s[0] for s in slides)])
    base = sum_of(place[: len(sizes)], jumps, index * 0)
    starts = [p * s[2] + s[4] for p, s in zip(place[len(sizes) :], slides, strict=True)]
    total = registers(1, wide, width, identity)
    take_all(total, x, slides, starts, strides, base, inside, kind, identity)
    c.store(first, total[0].to(c.dtype), mask=inside)


@helper
def take_all(
    total: Any,
    x: Any,
    slides: list[Any],
    starts: list[Any],
    strides: Any,
    base: Any,
    inside: Any,
    kind: str,
    identity: float,
) -> None:
    """Take into the total what the windows see along the axes from the first one given on."""
    if not slides:
        value = x.load(base, mask=inside, other=identity).to(total.type.dtype)
        if kind == "sum":
            total[0] = total[0] + value
        elif kind == "max":
            total[0] = max(total[0], value)
        else:
            total[0] = min(total[0], value)
    else:
        _, window, _, dilation, _, size = slides[0]
        for k in range(window):
            at = starts[0] + k * dilation
            valid = inside & (at >= 0) & (at < size)
            take_all(
                total,
                x,
                slides[1:],
                starts[1:],
                strides[1:],
                base + at * strides[0],
                valid,
                kind,
                identity,
            )


@kernel
def choose_places(
    x: Any,
    chosen: Any,
    count: Any,
    *numbers: Any,
    rank: int,
    width: int,
    kind: str,
    wide: DType,
) -> None:
    """Write which place of each window is its extreme, counted from 1; 0 where all is padding."""
    slides = slides_of(numbers, rank)
    strides = numbers[rank * SLIDE : rank * (SLIDE + 1)]
    leads = numbers[rank * (SLIDE + 1) :]
    sizes, jumps = leads[::2], leads[1::2]
    first, index, inside = results(count, width)
    place = unravel(index, [*sizes, *(s[0] for s in slides)])
    base = sum_of(place[: len(sizes)], jumps, index * 0)
    starts = [p * s[2] + s[4] for p, s in zip(place[len(sizes) :], slides, strict=True)]
    best = registers(1, wide, width)
    number = registers(1, index.dtype, width)
    compare_all(best, number, x, slides, starts, strides, base, index * 0, inside, kind)
    chosen.store(first, number[0].to(chosen.dtype), mask=inside)


@kernel
def pick_places(
    u: Any,
    x: Any,
    c: Any,
    count: Any,
    *numbers: Any,
    rank: int,
    width: int,
    kind: str,
    wide: DType,
) -> None:
    """Write what u has at the extreme of each window of x, 0 where all is padding.

    ``numbers``: the slides, strides of x along them, those of u, then lead axes with both strides.
    """
    slides = slides_of(numbers, rank)
    strides = numbers[rank * SLIDE : rank * (SLIDE + 1)]
    others = numbers[rank * (SLIDE + 1) : rank * (SLIDE + 2)]
    leads = numbers[rank * (SLIDE + 2) :]
    sizes, jumps, leaps = leads[::3], leads[1::3], leads[2::3]
    first, index, inside = results(count, width)
    place = unravel(index, [*sizes, *(s[0] for s in slides)])
    base = sum_of(place[: len(sizes)], jumps, index * 0)
    at = sum_of(place[: len(sizes)], leaps, index * 0)
    starts = [p * s[2] + s[4] for p, s in zip(place[len(sizes) :], slides, strict=True)]
    best = registers(1, wide, width)
    number = registers(1, index.dtype, width)
    compare_all(best, number, x, slides, starts, strides, base, index * 0, inside, kind)
    some = number[0] > 0
    taps = unravel(select(some, number[0] - 1, 0), [s[1] for s in slides])
    seen = [start + k * s[3] for start, k, s in zip(starts, taps, slides, strict=True)]
    value = u.load(sum_of(seen, others, at), mask=inside & some)
    c.store(first, value, mask=inside)


@helper
def compare_all(
    best: Any,
    number: Any,
    x: Any,
    slides: list[Any],
    starts: list[Any],
    strides: Any,
    base: Any,
    tap: Any,
    inside: Any,
    kind: str,
) -> None:
    """Find the first extreme of windows along the axes from the first one given on.

    ``number`` counts places of the window from 1, and is 0 while nothing was seen.
    """
    if not slides:
        value = x.load(base, mask=inside).to(best.type.dtype)
        better = value > best[0] if kind == "max" else value < best[0]
        if value.dtype.kind == "float":
            better = better | ((value != value) & (best[0] == best[0]))
        better = inside & (better | (number[0] == 0))
        best[0] = select(better, value, best[0])
        number[0] = select(better, tap + 1, number[0])
    else:
        _, window, _, dilation, _, size = slides[0]
        for k in range(window):
            at = starts[0] + k * dilation
            valid = inside & (at >= 0) & (at < size)
            compare_all(
                best,
                number,
                x,
                slides[1:],
                starts[1:],
                strides[1:],
                base + at * strides[0],
                tap * window + k,
                valid,
                kind,
            )


@kernel
def gather_gradient(
    g: Any,
    chosen: Any,
    c: Any,
    count: Any,
    *numbers: Any,
    rank: int,
    width: int,
    all_places: bool,
    wide: DType,
) -> None:
    """Sum, for ``width`` elements, the gradients of the windows that see each of them.

    Where not ``all_places``, of those that have ``chosen`` it. ``numbers``: the slides, strides of
    g along them, strides of ``chosen``, then lead axes with both strides.
    """
    slides = slides_of(numbers, rank)
    strides = numbers[rank * SLIDE : rank * (SLIDE + 1)]
    others = numbers[rank * (SLIDE + 1) : rank * (SLIDE + 2)]
    leads = numbers[rank * (SLIDE + 2) :]
    sizes, jumps, leaps = leads[::3], leads[1::3], leads[2::3]
    first, index, inside = results(count, width)
    place = unravel(index, [*sizes, *(s[5] for s in slides)])
    base = sum_of(place[: len(sizes)], jumps, index * 0)
    at = sum_of(place[: len(sizes)], leaps, index * 0)
    starts = [p - s[4] for p, s in zip(place[len(sizes) :], slides, strict=True)]
    total = registers(1, wide, width)
    add_all(total, g, chosen, slides, starts, strides, others, base, at, 1, inside, all_places)
    c.store(first, total[0].to(c.dtype), mask=inside)


@helper
def add_all(
    total: Any,
    g: Any,
    chosen: Any,
    slides: list[Any],
    starts: list[Any],
    strides: Any,
    others: Any,
    base: Any,
    at: Any,
    tap: Any,
    inside: Any,
    all_places: bool,
) -> None:
    """Add what windows give to elements along the axes from the first one given on."""
    if not slides:
        valid = inside
        if not all_places:
            valid = valid & (chosen.load(at, mask=inside).to(base.dtype) == tap)
        total[0] = total[0] + g.load(base, mask=valid).to(total.type.dtype)
    else:
        windows, window, stride, dilation, _, _ = slides[0]
        for k in range(window):
            place = starts[0] - k * dilation
            i = quotient(place, splat(stride, place.width))
            valid = inside & (place >= 0) & (i < windows) & (i * stride == place)
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
                # Places are counted from 1 over the whole window.
                (tap - 1) * window + k + 1,
                valid,
                all_places,
            )
