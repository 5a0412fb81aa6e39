"""The choice of Winograd's algorithm: tiles, chunks of images and parts of sums, by their cycles.

Requirements: transforms move several times the bytes of a convolution and save most of its
operations, so they pay for many channels on both sides. Tiles of several sizes are compared, since
those at the edge of an image are filled up. What lies between the transforms takes a bounded amount
of memory: images are computed in chunks, as few as that allows, since products of few tiles leave
cores idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from calor.dtypes import float32
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.conv.implicit_gemm_operands import two_axes
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.winograd import FOUR, Tiles
from calor_kernel.library.conv.winograd_transforms import MOST_POINTS, Transforms, transforms
from calor_kernel.library.matmul.ranking import first_tile, last_is_done

# Bytes of an element.
ITEM: Final = float32.itemsize
# The most outputs of a tile along an axis, and the most taps, by whether they are of a weight
# gradient: of more, float32 has not enough digits.
_OUTPUTS: Final = 4
_TAPS: Final = {False: 7, True: 5}
# Multiplications of a core in a cycle by products, the bytes that it moves in a cycle, and the
# cycles of a launch, as measured on an H200; where launches are dear, one takes about as many
# cycles more as nanoseconds. Direct sums take longer than their estimate by the last factor.
_PRODUCTS, _MOVED, _LAUNCH = 140, 20, 4000
SLOWER: Final = 1.25
# Tiles of a product: rows, columns, rate, and the terms that a core loses with each.
_TILES: Final = (
    (256, 128, 1.0, 32.0),
    (128, 128, 0.96, 16.0),
    (64, 128, 0.92, 16.0),
    (64, 64, 0.867, 8.0),
)
# The most bytes between the transforms of a chunk: in all, and as a share of a device's memory.
BOUND, _SHARE = 256 << 20, 32
# The parts of a chunk's sums, and the least tiles of a part.
_PARTS, _TERMS = (1, 2, 4, 8, 16), 128
# Tiles at whose multiples each part begins: those of a memory line.
_LINE = 32
# The time of a product's tile that a core computes alone, where it has registers for two.
_ALONE = 1.8


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
        """Return the tiles of some images; each part of them begins at a memory line."""
        down, across = self.grid(plan)
        count, whole = images * down * across, _LINE * plan.parts
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
        """Return the bytes between the transforms of a chunk, in the layout of images."""
        room, points = self.tiles(plan, plan.images).room, self.points(plan)
        total: int = points * (self.channels + self.rows_room) * room * ITEM
        return total

    def sums(self, plan: Plan) -> int:
        """Return the bytes of a weight gradient's sums before they are transformed."""
        chunks = -(-self.images // plan.images)
        each: int = self.points(plan) * self.rows * self.channels * ITEM
        return chunks * plan.parts * each

    def weights(self, plan: Plan) -> int:
        """Return the bytes of the transformed weights."""
        if self.by_weight:
            return 0
        total: int = self.points(plan) * self.channels * self.rows_room * ITEM
        return total


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


def plans_of(layer: Layer, info: DeviceInfo, kept: bool, room: int | None = None) -> list[Plan]:
    """Return the plans that fit a bound of memory, the fastest of each tile, in order.

    ``kept``: whether transformed weights are kept from call to call. ``room``: the bytes that there
    are, None if only the device bounds them.
    """
    best: list[Plan] = []
    for outputs in product(_outputs(layer, 0), _outputs(layer, 1)):
        if outputs == (1, 1):
            continue
        found = [
            replace(plan, cycles=cycles_of(layer, plan, info, kept))
            for plan in _chunked(layer, outputs, info, room)
        ]
        best += sorted(found, key=lambda plan: plan.cycles)[:1]
    return sorted(best, key=lambda plan: plan.cycles)


def _outputs(layer: Layer, axis: int) -> list[int]:
    taps = layer.taps(axis)
    if taps == 1:
        return [1]
    return [n for n in range(2, _OUTPUTS + 1) if n + taps - 1 <= MOST_POINTS]


def bound_of(info: DeviceInfo, room: int | None, each: int) -> int:
    """Return the most bytes between launches that compute some images at a time.

    ``room``: the bytes that there are, None if only the device bounds them; of less, an image with
    ``each`` bytes at a time is the least.
    """
    bound = min(BOUND, (info.memory_bytes or BOUND * _SHARE) // _SHARE)
    return bound if room is None else min(bound, greatest(room, each))


def _chunked(
    layer: Layer, outputs: tuple[int, int], info: DeviceInfo, room: int | None
) -> Iterator[Plan]:
    """Yield plans of as few chunks as memory allows, with different parts; none if it is short."""
    each = layer.between(Plan(outputs, 1))
    bound = bound_of(info, room, each)
    if each > bound:
        return
    chunks = -(-layer.images // (bound // each))
    plan = Plan(outputs, -(-layer.images // chunks))
    if not layer.by_weight:
        yield plan
        return
    tiles = layer.tiles(plan, plan.images).count
    for parts in _PARTS:
        made = replace(plan, parts=parts)
        fits = layer.sums(made) <= max(bound, layer.sums(replace(plan, images=layer.images)))
        if fits and (parts == 1 or tiles >= parts * _TERMS):
            yield made


def cycles_of(layer: Layer, plan: Plan, info: DeviceInfo, kept: bool) -> float:
    """Return the cycles of all launches of a plan."""
    chunks = -(-layer.images // plan.images)
    points, tiles = layer.points(plan), layer.tiles(plan, plan.images)
    images = layer.images * (
        layer.channels * prod(axis.size for axis in layer.axes)
        + layer.rows * prod(layer.pixels(i) for i in (0, 1))
    )
    # What one launch writes and another reads.
    moved = images * ITEM + 2 * chunks * layer.between(plan)
    if layer.by_weight:
        moved += 2 * layer.sums(plan)
        parts = plan.parts
        asked = layer.rows, layer.channels, tiles.room // parts, points * parts
        launches = 3 * chunks + 1
    else:
        moved += layer.weights(plan) * (chunks + (not kept))
        asked = layer.rows_room, tiles.room, layer.channels, points
        launches = 3 * chunks + (not kept)
    work = chunks * _product(*asked, info.cores)
    cycles: float = work + moved / (_MOVED * info.cores) + launches * (_LAUNCH + info.launch_ns)
    return cycles


def _product(rows: int, columns: int, terms: int, batches: int, cores: int) -> float:
    """Return the cycles of the core with most tiles of a product."""
    asked = rows, columns, terms, batches, cores
    number = first_tile(_TILES, *asked)
    cycles = last_is_done(number, _TILES, *asked) / _PRODUCTS
    high, wide, *_ = _TILES[number]
    alone = number > 0 and -(-rows // high) * -(-columns // wide) * batches <= cores
    return cycles * _ALONE if alone else cycles
