"""A tile of a row in the registers of a cube: reading it, scanning it, writing it.

Requirements: for cubes of many units along the scanned axis; neighbouring lanes of a plane read
neighbouring vectors, so that accesses are whole lines; within a plane shuffles say what comes
before a unit, between planes a few numbers of shared memory; without planes each unit is one, and
their totals are scanned in shared memory (Hillis and Steele, 1986).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, int64
from calor_kernel.language import (
    barrier,
    constant,
    cube_position,
    cube_size,
    helper,
    lane_position,
    plane_position,
    plane_scan,
    plane_shuffle,
    plane_size,
    select,
    shared,
    splat,
    unit_position,
)
from calor_kernel.library.scan.chunks import REDUCTIONS, inclusive, joined, start_of, turned

# Planes whose totals each unit joins one by one.
_FEW = 4


@dataclass(frozen=True, slots=True)
class TilePlan:
    """How a cube scans: what, in which type, and how much of a row at a time.

    ``width``: lanes of a vector; ``vectors``: those of a unit. ``wide``: whether a cube shares a
    row, else each plane has one. ``even``: whether rows are whole vectors, which begin where a
    vector may. ``parted``: whether rows are divided into parts, before which there is something.
    """

    kind: str
    accumulate: DType
    identity: float
    width: int
    vectors: int
    reverse: bool
    even: bool
    wide: bool = True
    parted: bool = False

    @property
    def nothing(self) -> Any:
        """The number that changes nothing."""
        return start_of(self.accumulate, self.identity, 1)


def planes_of(plan: TilePlan) -> int:
    """Return how many planes share a row."""
    return cube_size() // plane_size() if plan.wide else 1


def tile_of(plan: TilePlan) -> int:
    """Return the elements of a tile."""
    return planes_of(plan) * plane_size() * plan.width * plan.vectors


def places(first: Any, plan: TilePlan) -> list[Any]:
    """Return where a unit's vectors of a tile begin, in steps along the scan."""
    span = plane_size() * plan.width
    begin = first + lane_position() * plan.width
    if plan.wide:
        begin = begin + plane_position() * (span * plan.vectors)
    return [begin + v * span for v in range(plan.vectors)]


@helper
def taken(source: Any, at: Any, i: Any, n: Any, plan: TilePlan) -> Any:
    """Return the vector ``i`` steps along a row; what lies beyond its end changes nothing."""
    width = plan.width
    place = turned(i, n, width, plan.reverse)
    value = start_of(plan.accumulate, plan.identity, width)
    if plan.even:
        if i < n:
            align = width * source.dtype.itemsize
            value = source.load(at + place, width, align=align).to(plan.accumulate)
    else:
        if i + width <= n:
            value = source.load(at + place, width).to(plan.accumulate)
        else:
            mask = inside(place, n, plan)
            found = source.load(at + place, width, mask=mask).to(plan.accumulate)
            value = select(mask, found, value)
    return value


@helper
def put(target: Any, at: Any, i: Any, n: Any, value: Any, exists: Any, plan: TilePlan) -> None:
    """Write the vector ``i`` steps along a row that ``exists``, as far as the row reaches."""
    place = turned(i, n, plan.width, plan.reverse)
    made = value.to(target.dtype)
    if plan.even:
        if exists & (i < n):
            target.store(at + place, made, align=plan.width * target.dtype.itemsize)
    else:
        if exists & (i + plan.width <= n):
            target.store(at + place, made)
        else:
            target.store(at + place, made, mask=inside(place, n, plan) & exists)


def inside(place: Any, n: Any, plan: TilePlan) -> Any:
    """Return which lanes of a vector lie inside of a row."""
    lanes = place + constant(tuple(range(plan.width)), int64)
    return lanes >= 0 if plan.reverse else lanes < n


@helper
def in_plane(values: list[Any], plan: TilePlan) -> tuple[list[Any], Any]:
    """Return vectors scanned from the plane's first on, and the plane's total."""
    kind, plane = plan.kind, plane_size()
    run = plan.nothing
    made = []
    for value in values:
        own = inclusive(kind, value, plan.reverse)
        last = own[0 if plan.reverse else plan.width - 1]
        before, total = run, last
        if plane > 1:
            upto = plane_scan(REDUCTIONS[kind], last)
            ahead = plane_shuffle(upto, 1, "up")
            ahead = select(lane_position() == 0, plan.nothing, ahead)
            before = joined(kind, run, ahead)
            total = plane_shuffle(upto, plane - 1)
        made.append(joined(kind, splat(before, plan.width), own))
        run = joined(kind, run, total)
    return made, run


@helper
def between_planes(total: Any, plan: TilePlan) -> tuple[Any, Any]:
    """Return what comes before the plane in its row's tile, and the whole tile's total."""
    kind, planes = plan.kind, planes_of(plan)
    before, whole = plan.nothing, total
    if planes > 1:
        room = shared(planes, plan.accumulate)
        own = plane_position()
        if plane_size() > 1:
            if lane_position() == 0:
                room[own] = total
            barrier()
            if _FEW < planes <= plane_size():
                lane = lane_position()
                part = room[min(lane, planes - 1)]
                part = select(lane < planes, part, plan.nothing)
                upto = plane_scan(REDUCTIONS[kind], part)
                whole = plane_shuffle(upto, planes - 1)
                earlier = plane_shuffle(upto, select(own > 0, own - 1, own))
                before = select(own > 0, earlier, before)
            else:
                whole = plan.nothing
                for plane in range(planes):
                    whole = joined(kind, whole, room[plane])
                    if plane + 1 < planes:
                        before = select(own > plane, whole, before)
        else:
            room[own] = total
            upto = total
            distance = 1
            while distance < planes:
                barrier()
                other = room[select(own >= distance, own - distance, own)]
                upto = select(own >= distance, joined(kind, other, upto), upto)
                barrier()
                room[own] = upto
                distance *= 2
            barrier()
            whole = room[planes - 1]
            before = select(own > 0, room[select(own > 0, own - 1, own)], before)
        # The next tile writes here again.
        barrier()
    return before, whole


@helper
def row_item(plan: TilePlan) -> Any:
    """Return which row, or part of one, this unit is at."""
    if plan.wide:
        return cube_position()
    planes = cube_size() // plane_size()
    return cube_position() * planes + unit_position() // plane_size()
