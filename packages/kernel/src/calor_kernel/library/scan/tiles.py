"""A tile of a row in the registers of a cube: load, scan, store.

Requirements: for cubes of many units along the scanned axis. Neighbouring lanes of a plane access
neighbouring vectors, so accesses are coalesced. Within a plane, shuffles exchange prefixes; between
planes a few values go through shared memory. On a device without planes each unit counts as a
plane, and totals are scanned in shared memory (Hillis and Steele, 1986).
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import int64
from calor_kernel.language import (
    Index,
    Mask,
    Number,
    Pointer,
    barrier,
    constant,
    cube_position,
    cube_size,
    helper,
    lane_position,
    min,
    plane_position,
    plane_scan,
    plane_shuffle,
    plane_size,
    select,
    shared,
    splat,
    unit_position,
)
from calor_kernel.library.reduce.reduction_ops import LANES, ReductionOp
from calor_kernel.library.scan.chunks import scan_lanes, scan_offset

# At most so many planes have their totals combined one by one in each unit.
_FEW = 4


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The operation of a scan, and the tile of a row that a cube scans at a time.

    ``width``: lanes of a vector; ``vectors``: vectors of a unit. ``wide``: a cube shares a row;
    else each plane has its own row. ``even``: rows are whole, aligned vectors. ``parted``: rows are
    divided into parts, which begin with the scanned totals of earlier parts.
    """

    op: ReductionOp
    width: int
    vectors: int
    reverse: bool
    even: bool
    wide: bool = True
    parted: bool = False


def planes_of(plan: TilePlan) -> int:
    """Return the number of planes that share a row."""
    return cube_size() // plane_size() if plan.wide else 1


def tile_of(plan: TilePlan) -> int:
    """Return the elements of a tile."""
    return planes_of(plan) * plane_size() * plan.width * plan.vectors


def vector_steps(first: Index, plan: TilePlan) -> list[Number]:
    """Return the first step along the scan of each vector of a unit."""
    span = plane_size() * plan.width
    begin = first + lane_position() * plan.width
    if plan.wide:
        begin = begin + plane_position() * (span * plan.vectors)
    return [begin + v * span for v in range(plan.vectors)]


@helper
def load_vector(source: Pointer, row: Number, i: Number, n: Number, plan: TilePlan) -> Number:
    """Load the vector ``i`` steps along a row; lanes beyond the row are neutral."""
    width, accumulate = plan.width, plan.op.dtype
    at = scan_offset(i, n, width, plan.reverse)
    value = plan.op.neutral(width)
    if plan.even:
        if i < n:
            align = width * source.dtype.itemsize
            value = source.load(row + at, width, align=align).to(accumulate)
    else:
        if i + width <= n:
            value = source.load(row + at, width).to(accumulate)
        else:
            mask = inside_row(at, n, plan)
            found = source.load(row + at, width, mask=mask).to(accumulate)
            value = select(mask, found, value)
    return value


@helper
def store_vector(
    target: Pointer, row: Number, i: Number, n: Number, value: Number, exists: Mask, plan: TilePlan
) -> None:
    """Store the lanes inside a row that ``exists`` of the vector ``i`` steps along it."""
    at = scan_offset(i, n, plan.width, plan.reverse)
    rounded = value.to(target.dtype)
    if plan.even:
        if exists & (i < n):
            target.store(row + at, rounded, align=plan.width * target.dtype.itemsize)
    else:
        if exists & (i + plan.width <= n):
            target.store(row + at, rounded)
        else:
            target.store(row + at, rounded, mask=inside_row(at, n, plan) & exists)


def inside_row(at: Index, n: Number, plan: TilePlan) -> Number:
    """Return the mask of a vector's lanes that are inside a row."""
    lanes = at + constant(tuple(range(plan.width)), int64)
    return lanes >= 0 if plan.reverse else lanes < n


@helper
def scan_plane(values: list[Number], plan: TilePlan) -> tuple[list[Number], Number]:
    """Scan the vectors of a plane; return them, and the plane's total."""
    op, plane = plan.op, plane_size()
    run = op.neutral()
    scanned = []
    for value in values:
        own = scan_lanes(op, value, plan.reverse)
        last = own[0 if plan.reverse else plan.width - 1]
        before, total = run, last
        if plane > 1:
            upto = plane_scan(LANES[op.kind], last)
            ahead = plane_shuffle(upto, 1, "up")
            ahead = select(lane_position() == 0, op.neutral(), ahead)
            before = op.combine(run, ahead)
            total = plane_shuffle(upto, plane - 1)
        scanned.append(op.combine(splat(before, plan.width), own))
        run = op.combine(run, total)
    return scanned, run


@helper
def scan_planes(total: Number, plan: TilePlan) -> tuple[Number, Number]:
    """Return the total of the planes before this one in the row's tile, and of the whole tile."""
    op, planes = plan.op, planes_of(plan)
    before, whole = op.neutral(), total
    if planes > 1:
        totals = shared(planes, op.dtype)
        own = plane_position()
        if plane_size() > 1:
            if lane_position() == 0:
                totals[own] = total
            barrier()
            if _FEW < planes <= plane_size():
                lane = lane_position()
                part = totals[min(lane, planes - 1)]
                part = select(lane < planes, part, op.neutral())
                upto = plane_scan(LANES[op.kind], part)
                whole = plane_shuffle(upto, planes - 1)
                earlier = plane_shuffle(upto, select(own > 0, own - 1, own))
                before = select(own > 0, earlier, before)
            else:
                whole = op.neutral()
                for plane in range(planes):
                    whole = op.combine(whole, totals[plane])
                    if plane + 1 < planes:
                        before = select(own > plane, whole, before)
        else:
            totals[own] = total
            upto = total
            distance = 1
            while distance < planes:
                barrier()
                other = totals[select(own >= distance, own - distance, own)]
                upto = select(own >= distance, op.combine(other, upto), upto)
                barrier()
                totals[own] = upto
                distance *= 2
            barrier()
            whole = totals[planes - 1]
            before = select(own > 0, totals[select(own > 0, own - 1, own)], before)
        # The next tile reuses the shared memory.
        barrier()
    return before, whole


@helper
def row_item(plan: TilePlan) -> Number:
    """Return the number of this unit's row, or part of a row."""
    if plan.wide:
        return cube_position()
    planes = cube_size() // plane_size()
    return cube_position() * planes + unit_position() // plane_size()
