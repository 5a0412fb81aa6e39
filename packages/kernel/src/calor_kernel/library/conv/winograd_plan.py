"""The choice of Winograd's algorithm: tiles, chunks of images and parts of sums, by their cycles.

Requirements: transforms move several times the bytes of a convolution and save most of its
operations, so they pay for many channels on both sides. Tiles of several sizes are compared, since
those at the edge of an image are filled up. Images are computed in chunks, so that what lies
between the transforms stays in the device's cache, and takes a bounded amount of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from calor.dtypes import float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.conv.implicit_gemm_operands import two_axes
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.winograd import Tiles
from calor_kernel.library.conv.winograd_transforms import MOST_POINTS, Transforms, transforms

# Elements of an access, and bytes of an element.
FOUR, ITEM = 4, float32.itemsize
# The most outputs of a tile along an axis, and the most taps, of a weight gradient and of others: of
# more, float32 has not enough digits.
_OUTPUTS: Final = 4
_TAPS: Final = {False: 7, True: 5}
# Multiplications of a core in a cycle at the rate of products, bytes that it moves in a cycle to
# memory and to a cache, and the cycles of a launch, those of :mod:`implicit_gemm_simt_launch`.
_PRODUCTS, _MOVED, _CACHED, _LAUNCH = 160, 20, 40, 5000
# Rows and columns of a product's tile with their rates, and the cycles of a tile beside its sums.
_TILES: Final = ((256, 128, 1.0), (128, 128, 0.96), (64, 128, 0.92), (64, 64, 0.867))
_TILE = 2500
# The share of a cache that is left to what lies between transforms, and the bytes where the cache
# is not known.
_SHARE, _CACHE = 0.7, 32 << 20
# The most bytes between transforms, as a share of the operands and the result, and the least bound.
_MEMORY, _LEAST = 2, 32 << 20
# The most chunks of images, parts of a chunk's sums, and the least tiles of a part.
_CHUNKS, _PARTS, _TERMS = 32, 16, 128


@dataclass(frozen=True, slots=True)
class Plan:
    """Tiles of ``outputs`` elements down and across, of ``images`` at a time.

    ``parts``: the parts of a chunk's sums, of a weight gradient. ``cycles``: the estimate.
    """

    outputs: tuple[int, int]
    images: int
    parts: int = 1
    cycles: float = 0.0

    @property
    def title(self) -> str:
        """The plan's name among the candidates."""
        down, across = self.outputs
        return f"Winograd {down}x{across}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution without stride, as tiles see it.

    ``rows`` and ``channels``: of the product between the transforms, of a weight gradient both
    channels of its result. ``axes``: down and across, with taps in ascending order.
    """

    images: int
    rows: int
    channels: int
    axes: tuple[Axis[int], Axis[int]]
    by_weight: bool

    def taps(self, axis: int) -> int:
        """Return the taps of an axis."""
        one = self.axes[axis]
        return one.count if self.by_weight else one.terms

    def pixels(self, axis: int) -> int:
        """Return the elements of an axis that are cut into tiles."""
        one = self.axes[axis]
        return one.terms if self.by_weight else one.count

    def filters(self, plan: Plan) -> tuple[Transforms, Transforms]:
        """Return the transforms down and across."""
        down, across = (
            transforms(self.taps(i), n) if self.by_weight else transforms(n, self.taps(i))
            for i, n in enumerate(plan.outputs)
        )
        return down, across

    def points(self, plan: Plan) -> int:
        """Return the products of a tile."""
        return prod(one.points for one in self.filters(plan))

    def grid(self, plan: Plan) -> tuple[int, int]:
        """Return the tiles of an image, down and across."""
        down, across = (-(-self.pixels(i) // n) for i, n in enumerate(plan.outputs))
        return down, across

    def tiles(self, plan: Plan, images: int) -> Tiles[int, int]:
        """Return the tiles of some images; each part of them begins at a whole access."""
        down, across = self.grid(plan)
        count, whole = images * down * across, FOUR * plan.parts
        return Tiles(count, -(-count // whole) * whole, down * across, across)

    def chunks(self, plan: Plan) -> Iterator[tuple[int, int]]:
        """Yield the first image of each chunk, and the number of its images."""
        for first in range(0, self.images, plan.images):
            yield first, min(plan.images, self.images - first)

    @property
    def rows_room(self) -> int:
        """The rows, filled up to whole accesses."""
        return -(-self.rows // FOUR) * FOUR

    def between(self, plan: Plan) -> int:
        """Return the bytes between the transforms of a chunk, without those of weights."""
        room, points = self.tiles(plan, plan.images).room, self.points(plan)
        if not self.by_weight:
            return points * (self.channels + self.rows_room) * room * ITEM
        chunks = -(-self.images // plan.images)
        sums = chunks * plan.parts * self.rows * self.channels
        return points * ((self.channels + self.rows) * room + sums) * ITEM

    def weights(self, plan: Plan) -> int:
        """Return the bytes of the transformed weights."""
        if self.by_weight:
            return 0
        return self.points(plan) * self.channels * self.rows_room * ITEM


def layer_of(problem: Correlation) -> Layer | str:
    """Return a problem as tiles see it, or the reason why there are none."""
    p = problem
    numbers = [n for lead in (*p.leads, p.depth) for n in (lead.size, lead.a, lead.b)]
    numbers += [n for a in p.axes for n in (a.count, a.terms, a.size, a.start, a.a, a.b)]
    if not all(type(n) is int for n in numbers):
        return "its sizes are not known yet"
    if p.a.dtype is not float32 or p.b.dtype is not float32:
        return "it is not of float32"
    groups, rows, columns = (p.leads[i].size for i in p.roles)
    if len(p.axes) > 2 or groups != 1:
        return "it has more than two spatial axes, or groups"
    axes = two_axes(p)
    for axis in axes:
        step, move = (axis.summed, axis.result) if p.by_weight else (axis.result, axis.summed)
        taps = axis.count if p.by_weight else axis.terms
        pixels = axis.terms if p.by_weight else axis.count
        if axis.divide != 1 or (step != 1 and pixels > 1) or (abs(move) != 1 and taps > 1):
            return "its windows have a stride, or are dilated"
        most = _TAPS[p.by_weight]
        if taps > most:
            return f"its windows have more than {most} taps along an axis"
    down, across = (_ascending(axis, p.by_weight) for axis in axes)
    if p.by_weight:
        return Layer(p.depth.size, rows, columns, (down, across), True)
    return Layer(p.leads[0].size, rows, p.depth.size, (down, across), False)


def _ascending(axis: Axis[int], by_weight: bool) -> Axis[int]:
    """Return an axis with steps of one; its taps begin with the first that a pixel reads.

    Taps in descending order are reversed; their first element is then the last one.
    """
    if by_weight:
        return replace(axis, result=1, summed=1)
    if axis.summed > 0 or axis.terms == 1:
        return replace(axis, result=1, summed=1)
    start = axis.start - (axis.terms - 1)
    return replace(axis, result=1, summed=1, start=start, b=-axis.b)


def plans_of(layer: Layer, info: DeviceInfo, kept: bool) -> list[Plan]:
    """Return the plans that fit a bound of memory, the fastest of each tile, in order.

    ``kept``: whether transformed weights are kept from call to call.
    """
    choices = [_outputs(layer, i) for i in (0, 1)]
    best: list[Plan] = []
    for outputs in product(*choices):
        if outputs == (1, 1):
            continue
        found = [
            replace(plan, cycles=cycles_of(layer, plan, info, kept))
            for plan in _chunked(layer, outputs, info)
        ]
        best += sorted(found, key=lambda plan: plan.cycles)[:1]
    return sorted(best, key=lambda plan: plan.cycles)


def _outputs(layer: Layer, axis: int) -> list[int]:
    taps = layer.taps(axis)
    if taps == 1:
        return [1]
    return [n for n in range(2, _OUTPUTS + 1) if n + taps - 1 <= MOST_POINTS]


def _chunked(layer: Layer, outputs: tuple[int, int], info: DeviceInfo) -> Iterator[Plan]:
    """Yield plans of different chunks and parts."""
    sizes = {-(-layer.images // n) for n in range(1, min(_CHUNKS, layer.images) + 1)}
    axes = layer.axes
    operands = (
        layer.images * prod(a.size for a in axes),
        layer.images * prod(layer.pixels(i) for i in (0, 1)),
    )
    own = (operands[0] * layer.channels + operands[1] * layer.rows) * ITEM
    for images in sorted(sizes, reverse=True):
        plan = Plan(outputs, images)
        for parts in _parts(layer, plan):
            made = replace(plan, parts=parts)
            if layer.between(made) <= max(_LEAST, _MEMORY * own):
                yield made


def _parts(layer: Layer, plan: Plan) -> Sequence[int]:
    if not layer.by_weight:
        return (1,)
    most = layer.tiles(plan, plan.images).count // _TERMS
    return [parts for parts in (1, 2, 3, 4, 6, 8, 12, 16) if parts <= max(1, min(most, _PARTS))]


def cycles_of(layer: Layer, plan: Plan, info: DeviceInfo, kept: bool) -> float:
    """Return the cycles of all launches of a plan."""
    chunks = -(-layer.images // plan.images)
    points, tiles = layer.points(plan), layer.tiles(plan, plan.images)
    near = _CACHED if _fits(layer.between(plan), info) else _MOVED
    pixels = prod(axis.size for axis in layer.axes) * plan.images
    made = prod(layer.pixels(i) for i in (0, 1)) * plan.images
    written = points * layer.channels * tiles.room * ITEM
    if layer.by_weight:
        read = (layer.channels * pixels + layer.rows * made) * ITEM
        written += points * layer.rows * tiles.room * ITEM
        sums = points * layer.rows * layer.channels * plan.parts * ITEM
        work = _product(
            layer.rows, layer.channels, tiles.room // plan.parts, points * plan.parts, info
        )
        moved = read / _MOVED + 2 * written / near + sums / near
        total = chunks * (work + moved / info.cores + 3 * _LAUNCH)
        after = points * layer.rows * layer.channels * plan.parts * chunks * ITEM
        return total + after / (near * info.cores) + _LAUNCH
    sums = points * layer.rows_room * tiles.room * ITEM
    work = _product(layer.rows_room, tiles.room, layer.channels, points, info)
    moved = (layer.channels * pixels + layer.rows * made) * ITEM / _MOVED
    moved += (2 * written + 2 * sums) / near
    weights = layer.weights(plan)
    moved += weights / (_CACHED if _fits(weights, info) else _MOVED)
    total = chunks * (work + moved / info.cores + 3 * _LAUNCH)
    if not kept:
        total += _LAUNCH + weights / (_MOVED * info.cores)
    return total


def _fits(nbytes: int, info: DeviceInfo) -> bool:
    cache = info.caches[-1] if info.caches else 0
    return nbytes <= max(_SHARE * cache, _CACHE)


def _product(rows: int, columns: int, terms: int, batches: int, info: DeviceInfo) -> float:
    """Return the cycles of the core with most tiles of a product."""
    found = []
    for high, wide, rate in _TILES:
        mine = -(-(-(-rows // high) * -(-columns // wide) * batches) // info.cores)
        found.append(mine * (high * wide * terms / (_PRODUCTS * rate) + _TILE))
    return min(found)
