"""Images read at positions that are numbers of a tensor: grids, maps, deformed windows.

Requirements: one pass, without a table of indices or of rows in between. The elements beside a
position, and their weights, are the same for all channels: a unit finds them once for several
channels, and neighbouring units have neighbouring positions, so that results are written as whole
lines and smooth grids read whole lines. An index is in range whatever the position is, NaN
included. Half types are summed in float32; positions are never in a half type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from operator import add, and_, mul

from calor.dtypes import DType, float32, int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work, lowering
from calor_kernel.library import math

_UNITS = 256
# Channels of a unit, and the units of a core from which on each takes more channels.
_RUNS, _BUSY = (8, 4, 2), 512
# Positions and channels of a cube of one unit, and channels that share a vector of positions.
_POINTS, _CHANNELS, _HEIGHT = 512, 32, 2
# Keys' parameter of cubic convolution, as for resizing.
_CUBIC = -0.75


@dataclass(frozen=True, slots=True)
class Sampler:
    """How positions are meant: the attributes of the row.

    ``small``: places in a plane are numbers of 32 bits.
    """

    mode: str
    outside: str
    align: bool
    relative: bool
    small: bool

    @property
    def taps(self) -> int:
        """The elements beside a position along an axis."""
        return {"nearest": 1, "linear": 2, "cubic": 4}[self.mode]


@dataclass(frozen=True, slots=True)
class Corner:
    """An element that a result is a weighted sum of: its place in the image, and if it is there."""

    place: kl.Number
    weight: kl.Number
    inside: kl.Number | None


@kl.kernel
def sample_points(
    x: kl.In,
    places: kl.In,
    y: kl.Out,
    count: kl.Size,
    groups: kl.FastDivmod,
    points: kl.FastDivmod,
    channels: kl.Size,
    plane: kl.Size,
    sizes: tuple[kl.Size, ...],
    *,
    by: Sampler,
    run: int,
    accumulate: DType,
) -> None:
    """Compute ``run`` channels of y (samples, channels, points) a unit; x has planes of sizes."""
    index = kl.absolute_position()
    if index < count:
        sample, group, point = kl.unravel(index, (0, groups, points))
        found = corners(_positions(places, sample * points.divisor + point, sizes, by), sizes, by)
        first = group * run
        left = channels - first
        base = sample * channels + first
        # Channels beyond the last are the last again.
        rows = [base + (kl.min(left - 1, c) if c else 0) for c in range(run)]
        sums = [weighted(x, row * plane, found, accumulate) for row in rows]
        for c in range(run):
            if left > c:
                y[(base + c) * points.divisor + point] = sums[c].to(y.dtype)


@kl.kernel
def sample_lanes(
    x: kl.In,
    places: kl.In,
    y: kl.Out,
    chunks: kl.Size,
    groups: kl.Size,
    points: kl.Size,
    channels: kl.Size,
    plane: kl.Size,
    sizes: tuple[kl.Size, ...],
    *,
    by: Sampler,
    span: int,
    run: int,
    height: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute ``span`` points of ``run`` channels of a sample.

    At a time ``lanes`` points of ``height`` channels are computed, which share places and weights.
    """
    sample, group, chunk = kl.unravel(kl.cube_position(), (0, groups, chunks))
    begin = chunk * span
    count = kl.min(points - begin, span)
    first = sample * channels + group * run
    last = sample * channels + kl.min(group * run + run, channels)
    table = Table.empty(by, len(sizes), span, accumulate)
    for point in kl.loop_range(0, count, lanes):
        # Lanes beyond the last point are the last again.
        at = kl.min(kl.constant(tuple(range(lanes)), int64) + point, count - 1)
        at = at + (sample * points + begin)
        table.keep(point, corners(_positions(places, at, sizes, by), sizes, by))
    whole = count // lanes * lanes
    for top in kl.loop_range(first, last, height):
        # Rows beyond the last are the last again.
        rows = [kl.min(top + i, last - 1) if i else top for i in range(height)]
        sources = [x.at(row * plane) for row in rows]
        targets = [y.at(row * points + begin) for row in rows]
        for point in kl.loop_range(0, whole, lanes):
            for target, total in zip(targets, table.sums(sources, point, lanes), strict=True):
                target.store(point, total.to(y.dtype))
        for point in kl.loop_range(whole, count):
            for target, total in zip(targets, table.sums(sources, point, 1), strict=True):
                target[point] = total.to(y.dtype)


@dataclass(frozen=True, slots=True)
class Table:
    """What is read for each of ``span`` points; ``there`` is None where everything exists."""

    index: kl.Pointer
    weight: kl.Pointer
    there: kl.Pointer | None
    span: int
    corners: int

    @staticmethod
    def empty(by: Sampler, rank: int, span: int, accumulate: DType) -> Table:
        """Return a table of one unit."""
        size = by.taps**rank * span
        index = kl.private(size, int32 if by.small else int64)
        there = kl.private(size, _masks(accumulate)) if by.outside == "zeros" else None
        return Table(index, kl.private(size, accumulate), there, span, by.taps**rank)

    def keep(self, point: kl.Number, found: Sequence[Corner]) -> None:
        """Store the corners of points from a given one on."""
        for k, corner in enumerate(found):
            at = point + k * self.span
            self.index.store(at, corner.place)
            self.weight.store(at, corner.weight.to(self.weight.dtype))
            if self.there is not None:
                assert corner.inside is not None
                some = kl.constant(-1, self.there.dtype, corner.place.width)
                self.there.store(at, kl.select(corner.inside, some, 0))

    def sums(self, sources: Sequence[kl.Pointer], point: kl.Number, lanes: int) -> list[kl.Number]:
        """Return the sums of the corners of points in each of some planes."""
        dtype = self.weight.dtype
        terms: list[list[kl.Number]] = [[] for _ in sources]
        for k in range(self.corners):
            at = point + k * self.span
            where = [self.index[at + lane].to(int64) for lane in range(lanes)]
            weight = self.weight.load(at, lanes)
            there = None if self.there is None else self.there.load(at, lanes)
            for source, given in zip(sources, terms, strict=True):
                # Processors' gathers are slower than loads of single elements, or no faster.
                found = [source[place] for place in where]
                value = (kl.pack(found) if lanes > 1 else found[0]).to(dtype)
                if there is not None:
                    # What a clamped position reads is no part of the sum, whatever it is.
                    value = kl.bitcast(kl.bitcast(value, there.dtype) & there, dtype)
                given.append(value * weight)
        return [reduce(add, given) for given in terms]


def _masks(accumulate: DType) -> DType:
    return int64 if accumulate.itemsize == 8 else int32


def weighted(
    x: kl.Pointer, first: kl.Number, found: Sequence[Corner], accumulate: DType
) -> kl.Number:
    """Return the sum of the corners in the plane of x that begins at ``first``."""
    source, terms = x.at(first), []
    for corner in found:
        value = source[corner.place].to(accumulate)
        if corner.inside is not None:
            value = kl.select(corner.inside, value, 0.0)
        terms.append(value * corner.weight.to(accumulate))
    return reduce(add, terms)


def _positions(
    places: kl.Pointer, at: kl.Number, sizes: Sequence[kl.Number], by: Sampler
) -> list[kl.Number]:
    """Return the position along each axis in elements, of the points ``at``."""
    rank, found = len(sizes), []
    for axis, size in enumerate(sizes):
        number = rank - 1 - axis if by.relative else axis
        place = places.load(at * rank + number)
        place = place.to(float32) if place.dtype.itemsize == 2 else place
        if by.relative:
            span = size.to(place.dtype)
            place = (place + 1.0) * ((span - 1.0 if by.align else span) * 0.5)
            place = place if by.align else place - 0.5
        found.append(place)
    return found


def corners(
    positions: Sequence[kl.Number], sizes: Sequence[kl.Number], by: Sampler
) -> list[Corner]:
    """Return what is read for positions along the axes, the last axis running fastest."""
    axes = [_taps(place, size, by) for place, size in zip(positions, sizes, strict=True)]
    made = []
    for chosen in product(*axes):
        flat = chosen[0][0]
        for (index, _, _), size in zip(chosen[1:], sizes[1:], strict=True):
            flat = flat * size.to(index.dtype) + index
        weight = reduce(mul, [weight for _, weight, _ in chosen])
        inside = [there for _, _, there in chosen if there is not None]
        made.append(Corner(flat, weight, reduce(and_, inside) if inside else None))
    return made


def _taps(
    place: kl.Number, size: kl.Number, by: Sampler
) -> list[tuple[kl.Number, kl.Number, kl.Number | None]]:
    """Return the elements along an axis: their index, clamped, their weight, and if they exist."""
    last = size.to(place.dtype) - 1.0
    if by.mode == "nearest":
        place = kl.rint(place)
    # A cubic sample keeps its position, and its neighbours are clamped.
    if by.outside == "border" and by.mode != "cubic":
        place = kl.max(kl.min(place, last), 0.0)
    elif by.outside == "reflection":
        place = _reflected(place, last, by.align)
    low = kl.trunc(place) if by.mode == "nearest" else kl.floor(place)
    made = []
    for step, weight in _weights(place - low, by.mode):
        at, inside = low + float(step), None
        if by.outside == "reflection":
            at = kl.trunc(_reflected(at, last, by.align))
        elif by.outside == "zeros":
            inside = (at >= 0.0) & (at <= last)
            weight = kl.select(inside, weight, 0.0)
        # NaN is no greater than 0, so its index is 0.
        at = kl.select(at > 0.0, kl.select(at < last, at, last), 0.0)
        made.append((at.to(int32 if by.small else size.dtype), weight, inside))
    return made


def _reflected(place: kl.Number, last: kl.Number, align: bool) -> kl.Number:
    """Return positions reflected at the centres of the outer elements, or at their edges."""
    low, span = (0.0, last) if align else (-0.5, last + 1.0)
    twice = span * 2.0
    turn = math.remainder(place - low, kl.splat(twice, place.width))
    made = kl.min(turn, twice - turn) + low
    # An axis of one element reflects everything to it.
    return kl.select(kl.splat(span > 0.0, place.width), made, place * 0.0) if align else made


def _weights(share: kl.Number, mode: str) -> list[tuple[int, kl.Number]]:
    """Return the steps from the lower neighbour, and their weights for a share of the way."""
    if mode == "nearest":
        return [(0, share * 0.0 + 1.0)]
    if mode == "linear":
        return [(0, 1.0 - share), (1, share)]

    def near(d: kl.Number) -> kl.Number:
        return (d * (_CUBIC + 2) - (_CUBIC + 3)) * d * d + 1.0

    def far(d: kl.Number) -> kl.Number:
        return ((d * _CUBIC - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC

    return [
        (-1, far(share + 1.0)),
        (0, near(share)),
        (1, near(1.0 - share)),
        (2, far(2.0 - share)),
    ]


@lowering("nn.sample")
def lower_sample(request: Request) -> Sequence[Work] | Refusal:
    """Lower the row of reads at positions, of the package for neural networks."""
    x, places = request.inputs
    (made,), info = request.outputs, request.info
    if not made.size:
        return [Work(())]
    if not x.size:
        return Refusal("there is nothing to read")
    samples, channels, *sizes = x.shape
    points = made.shape[2]
    accumulate = float32 if x.dtype.itemsize == 2 else x.dtype
    small = kl.index_dtype(prod(sizes)) is int32
    by = Sampler(**request.attributes, small=small)
    taps = by.taps ** len(sizes)
    nbytes = x.size * x.dtype.itemsize + places.size * places.dtype.itemsize + made.nbytes
    effort = Effort("sample", 2 * taps * made.size, nbytes)
    given: dict[str, object] = {
        "x": operand(0, x),
        "places": operand(1, places),
        "y": Bound(Output(), made.dtype),
        "points": points,
        "channels": channels,
        "plane": prod(sizes),
        "sizes": sizes,
        "by": by,
        "accumulate": accumulate,
    }
    if info.max_units == 1:
        lanes = max(1, info.vector_bytes // max(accumulate.itemsize, places.dtype.itemsize, 4))
        chunks, groups = -(-points // _POINTS), -(-channels // _CHANNELS)
        given |= {"chunks": chunks, "groups": groups, "span": _POINTS, "run": _CHANNELS}
        few = (n for n in range(1, _HEIGHT) if channels == n)
        given["height"] = next(few, _HEIGHT)
        made_launch = launch(
            sample_lanes, Grid.line(samples * groups * chunks), effort, lanes=lanes, **given
        )
        return [Work((made_launch,))]
    units, run = min(info.max_units, _UNITS), _run(made.size, channels, info)
    groups = -(-channels // run)
    count = samples * groups * points
    index = kl.index_dtype(count + units, x.size, made.size, places.size)
    grid = Grid.line(-(-count // units), units, info.planes[0], index)
    return [
        Work((launch(sample_points, grid, effort, count=count, groups=groups, run=run, **given),))
    ]


def _run(results: int, channels: int, info: DeviceInfo) -> int:
    """Return the channels of a unit: as many as leave all cores busy."""
    for run in _RUNS:
        if exceeds(results, run * info.cores * _BUSY) and exceeds(2 * channels, run):
            return run
    return 1
