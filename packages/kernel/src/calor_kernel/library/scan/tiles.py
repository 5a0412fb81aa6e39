"""A tile of a row in the registers of a cube: load, scan, store.

Requirements: for cubes of many units along the scanned axis. Neighbouring lanes of a plane access
neighbouring vectors, so accesses are coalesced. Within a plane, shuffles exchange prefixes; between
planes a few values go through shared memory. On a device without planes each unit counts as a
plane, and totals are scanned in shared memory (Hillis and Steele, 1986).
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import int64
from calor_kernel import language as kl
from calor_kernel.library.reduce.reduction_ops import LANES, ReductionOp
from calor_kernel.library.scan.chunks import scan_lanes, scan_offset

# At most so many planes have their totals combined one by one in each unit.
_FEW = 4


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The operation of a scan, and the tile of a row that a cube scans at a time.

    ``width``: lanes of a vector; ``vectors``: vectors of a unit. ``wide``: a cube shares a row;
    else each plane has its own row. ``even``: rows are whole, aligned vectors. ``skewed``: they are
    not, and the first vector of a row begins at an aligned address before it. ``parted``: rows are
    divided into parts, which begin with the total of the earlier parts.
    """

    op: ReductionOp
    width: int
    vectors: int
    reverse: bool
    even: bool
    wide: bool = True
    parted: bool = False
    skewed: bool = False


def planes_of(plan: TilePlan) -> int:
    """Return the number of planes that share a row."""
    return kl.cube_size() // kl.plane_size() if plan.wide else 1


def tile_of(plan: TilePlan) -> int:
    """Return the elements of a tile."""
    return planes_of(plan) * kl.plane_size() * plan.width * plan.vectors


def skew_of(row: kl.Number, n: kl.Number, plan: TilePlan) -> kl.Index:
    """Return how many elements of the first vector lie before a row, which begins at ``row``."""
    if not plan.skewed:
        return 0
    if plan.reverse:
        return (plan.width - (row + n) % plan.width) % plan.width
    return row % plan.width


def vector_steps(first: kl.Index, plan: TilePlan) -> list[kl.Number]:
    """Return the first step along the scan of each vector of a unit."""
    span = kl.plane_size() * plan.width
    begin = first + kl.lane_position() * plan.width
    if plan.wide:
        begin = begin + kl.plane_position() * (span * plan.vectors)
    return [begin + v * span for v in range(plan.vectors)]


@kl.helper
def load_vector(
    source: kl.Pointer, row: kl.Number, i: kl.Number, n: kl.Number, plan: TilePlan
) -> kl.Number:
    """Load the vector ``i`` steps along a row; lanes beyond the row are neutral."""
    width, accumulate = plan.width, plan.op.dtype
    at = scan_offset(i, n, width, plan.reverse)
    value = plan.op.neutral(width)
    if plan.even:
        if i < n:
            align = width * source.dtype.itemsize
            value = source.load(row + at, width, align=align).to(accumulate)
    else:
        if whole_vector(i, n, plan):
            align = width * source.dtype.itemsize if plan.skewed else 0
            value = source.load(row + at, width, align=align).to(accumulate)
        else:
            mask = inside_row(at, n, plan)
            found = source.load(row + at, width, mask=mask).to(accumulate)
            value = kl.select(mask, found, value)
    return value


@kl.helper
def store_vector(
    target: kl.Pointer,
    row: kl.Number,
    i: kl.Number,
    n: kl.Number,
    value: kl.Number,
    exists: kl.Mask,
    plan: TilePlan,
) -> None:
    """Store the lanes inside a row that ``exists`` of the vector ``i`` steps along it."""
    at = scan_offset(i, n, plan.width, plan.reverse)
    rounded = value.to(target.dtype)
    align = plan.width * target.dtype.itemsize
    if plan.even:
        if exists & (i < n):
            target.store(row + at, rounded, align=align)
    else:
        if exists & whole_vector(i, n, plan):
            target.store(row + at, rounded, align=align if plan.skewed else 0)
        else:
            target.store(row + at, rounded, mask=inside_row(at, n, plan) & exists)


def whole_vector(i: kl.Number, n: kl.Number, plan: TilePlan) -> kl.Mask:
    """Return whether all lanes of the vector ``i`` steps along a row are inside it."""
    whole = i + plan.width <= n
    return whole & (i >= 0) if plan.skewed else whole


def inside_row(at: kl.Index, n: kl.Number, plan: TilePlan) -> kl.Number:
    """Return the mask of a vector's lanes that are inside a row."""
    lanes = at + kl.constant(tuple(range(plan.width)), int64)
    if plan.skewed:
        return (lanes >= 0) & (lanes < n)
    return lanes >= 0 if plan.reverse else lanes < n


@kl.helper
def scan_plane(values: list[kl.Number], plan: TilePlan) -> tuple[list[kl.Number], kl.Number]:
    """Scan the vectors of a plane; return them, and the plane's total."""
    op, plane = plan.op, kl.plane_size()
    run = op.neutral()
    scanned = []
    for value in values:
        own = scan_lanes(op, value, plan.reverse)
        last = own[0 if plan.reverse else plan.width - 1]
        before, total = run, last
        if plane > 1:
            upto = kl.plane_scan(LANES[op.kind], last)
            ahead = kl.plane_shuffle(upto, 1, "up")
            ahead = kl.select(kl.lane_position() == 0, op.neutral(), ahead)
            before = op.combine(run, ahead)
            total = kl.plane_shuffle(upto, plane - 1)
        scanned.append(op.combine(kl.splat(before, plan.width), own))
        run = op.combine(run, total)
    return scanned, run


@kl.helper
def scan_planes(total: kl.Number, plan: TilePlan) -> tuple[kl.Number, kl.Number]:
    """Return the total of the planes before this one in the row's tile, and of the whole tile."""
    op, planes = plan.op, planes_of(plan)
    before, whole = op.neutral(), total
    if planes > 1:
        totals = kl.shared(planes, op.dtype)
        own = kl.plane_position()
        if kl.plane_size() > 1:
            if kl.lane_position() == 0:
                totals[own] = total
            kl.barrier()
            if _FEW < planes <= kl.plane_size():
                lane = kl.lane_position()
                part = totals[kl.min(lane, planes - 1)]
                part = kl.select(lane < planes, part, op.neutral())
                upto = kl.plane_scan(LANES[op.kind], part)
                whole = kl.plane_shuffle(upto, planes - 1)
                earlier = kl.plane_shuffle(upto, kl.select(own > 0, own - 1, own))
                before = kl.select(own > 0, earlier, before)
            else:
                whole = op.neutral()
                for plane in range(planes):
                    whole = op.combine(whole, totals[plane])
                    if plane + 1 < planes:
                        before = kl.select(own > plane, whole, before)
        else:
            totals[own] = total
            upto = total
            distance = 1
            while distance < planes:
                kl.barrier()
                other = totals[kl.select(own >= distance, own - distance, own)]
                upto = kl.select(own >= distance, op.combine(other, upto), upto)
                kl.barrier()
                totals[own] = upto
                distance *= 2
            kl.barrier()
            whole = totals[planes - 1]
            before = kl.select(own > 0, totals[kl.select(own > 0, own - 1, own)], before)
        # The next tile reuses the shared memory.
        kl.barrier()
    return before, whole


@kl.helper
def row_item(plan: TilePlan) -> kl.Number:
    """Return the number of this unit's row, or part of a row."""
    if plan.wide:
        return kl.cube_position()
    planes = kl.cube_size() // kl.plane_size()
    return kl.cube_position() * planes + kl.unit_position() // kl.plane_size()
