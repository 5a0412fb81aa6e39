"""Transforms by tiles in private memory: one launch for all factors, or two for long ones.

Requirements: a length of which a vector of transforms fits private memory is read and written once;
a longer one is the product of two such lengths, with turns in between (Bailey, "FFTs in external or
hierarchical memory", 1990); a single long transform has vectors of its own parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import int32
from calor_kernel.ir.types import Buffer
from calor_kernel.library.fft.plan import End, Plan, Rows, digits_of, factors_of, flops_of
from calor_kernel.library.fft.real import bins_of_half, half_of_bins
from calor_kernel.library.fft.tile_sides import Mode
from calor_kernel.library.fft.tiles import transform_tiles

# The longest transform of a tile, and how many elements tiles have room for.
_LONGEST = 1024
_ROOMS = (64, 256, _LONGEST)
# Elements that a cube transforms at least, as far as there are enough.
_SHARE = 8192
# Factors that every kernel knows; others are known to those that need them.
_RADICES = (2, 4, 8)
# Lengths from which a transform of few lanes is better done in two steps.
_SPLIT = 256


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes of a launch: ``outer`` times ``middle`` times ``count``."""

    outer: int
    middle: int
    count: int


@dataclass(frozen=True, slots=True)
class Place:
    """An end of a launch: how far lanes are apart along each number, and elements of a lane."""

    end: End
    outer: int
    middle: int
    lane: int
    element: int


def transform_by_tiles(
    plan: Plan, shape: Rows, source: End, target: End, prepares: bool = False
) -> bool:
    """Add the launches of a transform; False where tiles do not serve it."""
    if plan.units > 1 or factors_of(shape.n) is None:
        return False
    n, lanes = shape.n, shape.rows * shape.inner
    few = lanes < plan.width and n >= _SPLIT
    if source.form == "real" or target.form == "real":
        if n <= _LONGEST and not few:
            _short(plan, shape, source, target, prepares)
            return True
        return shape.inner == 1 and n % 2 == 0 and _real(plan, shape, source, target)
    if n <= _LONGEST and not few:
        _short(plan, shape, source, target, prepares)
        return True
    return _long(plan, shape, source, target, prepares)


def _short(plan: Plan, shape: Rows, source: End, target: End, prepares: bool) -> None:
    """Transform lengths of which a vector fits private memory."""
    n, inner = shape.n, shape.inner
    lengths = [n // 2 + 1 if end.form == "half" else n for end in (source, target)]
    if inner == 1:
        lanes = Lanes(1, 1, shape.rows)
        places = [
            Place(end, 0, 0, long, 1) for end, long in zip((source, target), lengths, strict=True)
        ]
    else:
        lanes = Lanes(shape.rows, 1, inner)
        places = [
            Place(end, long * inner, 0, 1, inner)
            for end, long in zip((source, target), lengths, strict=True)
        ]
    _launch(plan, n, lanes, places[0], places[1], prepares)


def _long(plan: Plan, shape: Rows, source: End, target: End, prepares: bool) -> bool:
    """Transform a length that is a product of two, along columns and then along rows."""
    split = split_of(shape.n, plan.width)
    if split is None:
        return False
    (a, b), n, inner, rows = split, shape.n, shape.inner, shape.rows
    between = plan.apart(shape.size)
    columns = b * inner
    _launch(
        plan,
        a,
        Lanes(rows, 1, columns),
        Place(source, n * inner, 0, 1, columns),
        Place(between, n * inner, 0, 1, columns),
        prepares,
        (n, inner),
    )
    if inner == 1:
        lanes = Lanes(rows, 1, a)
        first, last = Place(between, n, 0, b, 1), Place(target, n, 0, 1, a)
    else:
        lanes = Lanes(rows, a, inner)
        first = Place(between, n * inner, columns, 1, inner)
        last = Place(target, n * inner, inner, 1, a * inner)
    _launch(plan, b, lanes, first, last, prepares)
    return True


def split_of(n: int, lanes: int) -> tuple[int, int] | None:
    """Return two lengths of tiles whose product is n, None where there are none.

    >>> split_of(4096, 16), split_of(1 << 30, 16)
    ((64, 64), None)
    """
    pairs = [
        (a, n // a)
        for a in range(2, _LONGEST + 1)
        if n % a == 0 and n // a <= _LONGEST and n // a > 1
    ]
    if not pairs:
        return None
    # Vectors are full where lengths are whole numbers of them; else about equal lengths are best.
    return min(pairs, key=lambda p: (sum(-(-m // lanes) * lanes / m for m in p), sum(p)))


def _real(plan: Plan, shape: Rows, source: End, target: End) -> bool:
    """Transform real numbers as complex ones of half the length."""
    half = Rows(shape.rows, shape.n // 2, 1)
    forward = source.form == "real"
    if half.n < 2 or (split_of(half.n, plan.width) is None and half.n > _LONGEST):
        return False
    spectrum = plan.apart(half.size)
    table = plan.table(shape.n)
    numbers = (half.rows, half.n)
    if forward:
        seen = End(source.first, source.first, "pairs", source.swapped)
        if not transform_by_tiles(plan, half, seen, spectrum):
            return False
        parts = (spectrum.first, spectrum.second)
        plan.over(
            bins_of_half, half.n, half.rows, parts, (target.first,), (table,), numbers, {},
        )  # fmt: skip
        return True
    parts = (spectrum.first, spectrum.second)
    plan.over(half_of_bins, half.n, half.rows, (source.first,), parts, (table,), numbers, {})
    # The inverse transform is the forward one of exchanged parts.
    given = End(spectrum.second, spectrum.first, "apart")
    made = End(target.first, target.first, "pairs", True)
    return transform_by_tiles(plan, half, given, made)


def _launch(
    plan: Plan,
    n: int,
    lanes: Lanes,
    source: Place,
    target: Place,
    prepares: bool,
    turned: tuple[int, int] | None = None,
) -> None:
    """Add the launch of all factors of a length."""
    factors = factors_of(n) or []
    both = "half" in (source.end.form, target.end.form)
    width = 2 * plan.width if both else plan.width
    total = lanes.outer * lanes.count
    flat = lanes.middle == 1 and lanes.outer > 1 and 2 * lanes.count <= width
    if flat:
        tiles = -(-total // width)
    else:
        tiles = lanes.outer * lanes.middle * -(-lanes.count // width)
    share = max(1, min(_SHARE // (n * width), tiles // (4 * plan.info.cores)))
    modes = [_mode(place, n, flat) for place in (source, target)]
    long, inner = turned or (1, 1)
    bits = min(n.bit_length() // 2, 5)
    table = plan.table(n)
    buffers = plan.reads((table, table)), [Buffer(plan.dtype)] * 2, plan.reads((table,))
    said = {
        "lanes": plan.width,
        "room": next(room for room in _ROOMS if n <= room),
        "radices": (*_RADICES, *sorted(set(factors) - set(_RADICES))),
        "read": source.end.form,
        "write": target.end.form,
        "read_mode": modes[0],
        "write_mode": modes[1],
        "swap_read": source.end.swapped,
        "swap_write": target.end.swapped,
        "flat": flat,
        "turned": turned is not None,
    }
    plan.add(
        transform_tiles,
        (-(-tiles // share), 1, 1),
        (
            *(source.end.first, source.end.second, target.end.first, target.end.second),
            *(table, plan.order(n, factors), n, digits_of(factors), tiles, share),
            *(lanes.middle, lanes.count, total if flat else lanes.count, long, inner, bits),
            *(source.outer, source.middle, source.lane, source.element),
            *(target.outer, target.middle, target.lane, target.element),
        ),
        (*buffers[0], *buffers[1], *buffers[2], Buffer(int32, writable=False)),
        said,
        flops_of(Rows(lanes.outer * lanes.middle * lanes.count, n, 1)),
        4 * n * lanes.outer * lanes.middle * lanes.count * plan.dtype.itemsize,
        prepares,
    )


def _mode(place: Place, n: int, flat: bool) -> Mode:
    if flat:
        return "any"
    if place.lane == 1:
        return "across"
    return "along" if place.element == 1 or n == 1 else "any"
