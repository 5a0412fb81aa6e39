"""Transforms by tiles in private memory: one launch for all factors, or two for long ones.

Requirements: if a vector of transforms fits private memory, they are read and written once. A
longer length is the product of two such lengths, with twiddle factors in between (Bailey, "FFTs in
external or hierarchical memory", 1990); the vectors of a single long transform run along its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from calor_kernel.library.fft.kernels import bins_of_half, half_of_bins
from calor_kernel.library.fft.plan import End, Plan, digits_of, factors_of, flops_of
from calor_kernel.library.fft.step_layout import Rows, Storage
from calor_kernel.library.fft.tile_sides import LaneCounts, Mode, Steps
from calor_kernel.library.fft.tiles import TileBuild, Twiddles, transform_tiles

# The longest transform of a tile, and the capacities of tiles.
_LONGEST = 1024
_ROOMS = (64, 256, _LONGEST)
# Elements of a cube at least, if there are enough for the device.
_SHARE = 8192
# Factors that every kernel knows; other factors are added when needed.
_RADICES = (2, 4, 8)
# The length from which two steps are faster for a transform of few lanes.
_SPLIT = 256


@dataclass(frozen=True, slots=True)
class LaneGrid:
    """Lanes of a launch: ``outer`` times ``middle`` times ``count``."""

    outer: int
    middle: int
    count: int


@dataclass(frozen=True, slots=True)
class LaneEnd:
    """An end of a launch, and the strides of its lanes."""

    end: End
    steps: Steps[int]

    def mode(self, n: int, flat: bool) -> Mode:
        """Return the layout of lanes of length n."""
        if flat:
            return "any"
        if self.steps.lane == 1:
            return "across"
        return "along" if self.steps.element == 1 or n == 1 else "any"


def transform_by_tiles(
    plan: Plan, shape: Rows[int], source: End, target: End, prepares: bool = False
) -> bool:
    """Add the launches of a transform; False where tiles do not serve it."""
    if plan.units > 1 or factors_of(shape.n) is None:
        return False
    n, lanes = shape.n, shape.rows * shape.inner
    few = lanes < plan.width and n >= _SPLIT
    if (n // 2 if _is_halved(n, source, target) else n) <= _LONGEST and not few:
        _short(plan, shape, source, target, prepares)
        return True
    if "real" in (source.storage.form, target.storage.form):
        return shape.inner == 1 and n % 2 == 0 and _real(plan, shape, source, target)
    return _long(plan, shape, source, target, prepares)


def _short(plan: Plan, shape: Rows[int], source: End, target: End, prepares: bool) -> None:
    """Transform lengths of which a vector fits private memory."""
    n, inner = shape.n, shape.inner
    halved = _is_halved(n, source, target)
    lanes = LaneGrid(1, 1, shape.rows) if inner == 1 else LaneGrid(shape.rows, 1, inner)

    def lane_end(end: End) -> LaneEnd:
        long = n // 2 + 1 if end.storage.form == "half" else n
        if halved and end.storage.form == "real" and inner == 1:
            # Adjacent real numbers are complex ones.
            end, long = replace(end, storage=replace(end.storage, form="pairs")), n // 2
        steps = Steps(0, 0, long, 1) if inner == 1 else Steps(long * inner, 0, 1, inner)
        return LaneEnd(end, steps)

    ends = lane_end(source), lane_end(target)
    _launch(plan, n // 2 if halved else n, lanes, *ends, prepares, halved=halved)


def _is_halved(n: int, source: End, target: End) -> bool:
    """Return whether a transform of real numbers is a complex one of half the length."""
    return "real" in (source.storage.form, target.storage.form) and n % 2 == 0 and n > 2


def _long(plan: Plan, shape: Rows[int], source: End, target: End, prepares: bool) -> bool:
    """Transform a length that is a product of two, along columns and then along rows."""
    split = split_of(shape.n, plan.width)
    if split is None:
        return False
    (a, b), n, inner, rows = split, shape.n, shape.inner, shape.rows
    between = plan.apart(shape)
    columns = b * inner
    _launch(
        plan,
        a,
        LaneGrid(rows, 1, columns),
        LaneEnd(source, Steps(n * inner, 0, 1, columns)),
        LaneEnd(between, Steps(n * inner, 0, 1, columns)),
        prepares,
        (n, inner),
    )
    if inner == 1:
        lanes = LaneGrid(rows, 1, a)
        first, last = LaneEnd(between, Steps(n, 0, b, 1)), LaneEnd(target, Steps(n, 0, 1, a))
    else:
        lanes = LaneGrid(rows, a, inner)
        first = LaneEnd(between, Steps(n * inner, columns, 1, inner))
        last = LaneEnd(target, Steps(n * inner, inner, 1, a * inner))
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


def _real(plan: Plan, shape: Rows[int], source: End, target: End) -> bool:
    """Transform real numbers as complex ones of half the length."""
    half = Rows(shape.rows, shape.n // 2, 1)
    forward = source.storage.form == "real"
    if half.n < 2 or (split_of(half.n, plan.width) is None and half.n > _LONGEST):
        return False
    spectrum = plan.apart(half)
    table = plan.table(shape.n)
    sizes = {"rows": half.rows, "half": half.n, "table": table}
    if forward:
        pairs = End(source.first, source.first, Storage("pairs", source.storage.swapped))
        if not transform_by_tiles(plan, half, pairs, spectrum):
            return False
        given = {"source": spectrum.read, "target": target.first, **sizes}
        plan.over(bins_of_half, half.n, half, **given)
        return True
    given = {"source": source.first, "target": spectrum.written, **sizes}
    plan.over(half_of_bins, half.n, half, **given)
    # The inverse transform is the forward one with real and imaginary parts exchanged.
    exchanged = End(spectrum.second, spectrum.first, Storage("apart"))
    pairs = End(target.first, target.first, Storage("pairs", True))
    return transform_by_tiles(plan, half, exchanged, pairs)


def _launch(
    plan: Plan,
    n: int,
    lanes: LaneGrid,
    source: LaneEnd,
    target: LaneEnd,
    prepares: bool,
    twiddles: tuple[int, int] | None = None,
    halved: bool = False,
) -> None:
    """Add the launch of all factors of a length."""
    factors = factors_of(n) or []
    width = plan.width
    total = lanes.outer * lanes.count
    flat = lanes.middle == 1 and lanes.outer > 1 and 2 * lanes.count <= width
    if flat:
        tiles = -(-total // width)
    else:
        tiles = lanes.outer * lanes.middle * -(-lanes.count // width)
    share = max(1, min(_SHARE // (n * width), tiles // (4 * plan.info.cores)))
    long, inner = twiddles or (1, 1)
    transforms = lanes.outer * lanes.middle * lanes.count
    build = TileBuild(
        lanes=plan.width,
        room=next(room for room in _ROOMS if n <= room),
        radices=(*_RADICES, *sorted(set(factors) - set(_RADICES))),
        read=source.end.storage,
        read_mode=source.mode(n, flat),
        write=target.end.storage,
        write_mode=target.mode(n, flat),
        flat=flat,
        twiddles=twiddles is not None,
        halved=halved,
    )
    plan.add_line(
        transform_tiles,
        -(-tiles // share),
        flops_of(Rows(transforms, n, 1)),
        4 * n * transforms * plan.dtype.itemsize,
        prepares,
        source=source.end.read,
        target=target.end.written,
        table=plan.table(n),
        turns=plan.table(2 * n if halved else n),
        order=plan.order(n, factors),
        n=n,
        factors=digits_of(factors),
        tiles=tiles,
        share=share,
        counts=LaneCounts(lanes.middle, lanes.count, total if flat else lanes.count),
        twiddles=Twiddles(long, inner, min(n.bit_length() // 2, 5)),
        steps=source.steps,
        to_steps=target.steps,
        build=build,
    )
