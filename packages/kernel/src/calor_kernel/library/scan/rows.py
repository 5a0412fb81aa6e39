"""Scans along rows by cubes of many units: whole rows, or parts with the totals of earlier parts.

Requirements: an undivided row of any length is read once and written once; the order of the
operations depends on sizes alone; the cube of a part adds the totals of the parts before, so that
two launches scan a divided row. Tiles of a row that look back are cubes; the units of a plane look
back together, because a row has many tiles with adjacent words.
"""

from __future__ import annotations

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.library.arrivals import ticket
from calor_kernel.library.reduce.reduction_ops import ReductionOp, over_team
from calor_kernel.library.scan.decoupled_look_back import (
    Tickets,
    Words,
    look_back_by_plane,
    publish,
)
from calor_kernel.library.scan.tiles import (
    TilePlan,
    load_vector,
    row_item,
    scan_plane,
    scan_planes,
    skew_of,
    store_vector,
    tile_of,
    vector_steps,
)

# Units of a core whose registers hold tiles.
_UNITS = 1024


@kl.kernel
def scan_rows(
    source: kl.In,
    totals: kl.In,
    target: kl.Out,
    rows: kl.Size,
    parts: kl.Size,
    n: kl.Size,
    length: kl.Size,
    *,
    plan: TilePlan,
) -> None:
    """Scan rows of n elements, or parts of ``length``, a multiple of the tile.

    ``totals``: the totals of the parts of each row.
    """
    # Without a bound the compiler would keep values of a tile in memory for a few more cubes.
    kl.launch_attributes(cubes_per_core=max(1, _UNITS // kl.cube_size()))
    op, item = plan.op, row_item(plan)
    exists = item < rows * parts
    item = kl.min(item, rows * parts - 1)
    row, part = kl.unravel(item, (1, parts)) if plan.parted else (item, item * 0)
    begin = part * length
    at = row * n
    carry = op.neutral()
    if plan.parted:
        carry = total_before(totals, item - part, part, op)
    skew = skew_of(at, n, plan)
    end = n + skew
    for first in kl.loop_range(
        begin, kl.min(begin + length, end) if plan.parted else end, tile_of(plan)
    ):
        steps = vector_steps(first - skew, plan)
        values = [load_vector(source, at, i, n, plan) for i in steps]
        scanned, total = scan_plane(values, plan)
        before, whole = scan_planes(total, plan)
        before = kl.splat(op.combine(carry, before), plan.width)
        for i, value in zip(steps, scanned, strict=True):
            store_vector(target, at, i, n, op.combine(before, value), exists, plan)
        carry = op.combine(carry, whole)


@kl.kernel
def scan_short_rows(
    source: kl.In, target: kl.Out, rows: kl.Size, n: kl.Size, *, plan: TilePlan, together: int
) -> None:
    """Scan rows of one tile of a plane; each plane has ``together`` of them on their way."""
    kl.launch_attributes(cubes_per_core=max(1, _UNITS // kl.cube_size()))
    first = row_item(plan) * together
    items = [first + r for r in range(together)]
    starts = [kl.min(item, rows - 1) * n for item in items]
    steps = [vector_steps(-skew_of(at, n, plan), plan) for at in starts]
    values = [
        [load_vector(source, at, i, n, plan) for i in row]
        for at, row in zip(starts, steps, strict=True)
    ]
    scanned = [scan_plane(row, plan)[0] for row in values]
    for item, at, row, made in zip(items, starts, steps, scanned, strict=True):
        for i, value in zip(row, made, strict=True):
            store_vector(target, at, i, n, value, item < rows, plan)


@kl.helper
def total_before(
    totals: kl.Pointer, first: kl.Number, count: kl.Number, op: ReductionOp
) -> kl.Number:
    """Return the total of ``count`` parts from one on; the units of a cube share them."""
    mine = op.neutral()
    for i in kl.loop_range(kl.unit_position(), count, kl.cube_size()):
        mine = op.combine(mine, totals[first + i].to(op.dtype))
    return over_team(op, mine, kl.cube_size())


@kl.kernel
def total_parts(
    source: kl.In, totals: kl.Out, parts: kl.Size, n: kl.Size, length: kl.Size, *, plan: TilePlan
) -> None:
    """Write the total of each part of ``length`` elements of rows of n: ``totals[row, part]``."""
    op, item = plan.op, row_item(plan)
    row, part = kl.unravel(item, (1, parts))
    begin, at = part * length, row * n
    skew = skew_of(at, n, plan)
    sums = [op.neutral(plan.width) for _ in range(plan.vectors)]
    for first in kl.loop_range(begin, kl.min(begin + length, n + skew), tile_of(plan)):
        steps = vector_steps(first - skew, plan)
        values = [load_vector(source, at, i, n, plan) for i in steps]
        sums = [op.combine(a, b) for a, b in zip(sums, values, strict=True)]
    total = sums[0]
    for more in sums[1:]:
        total = op.combine(total, more)
    whole = over_team(op, op.over_lanes(total), kl.cube_size())
    if kl.unit_position() == 0:
        totals[item] = whole


@kl.kernel
def scan_looking_back(
    source: kl.In,
    target: kl.Out,
    words: Words,
    tickets: Tickets,
    tiles: kl.Size,
    n: kl.Size,
    *,
    plan: TilePlan,
) -> None:
    """Scan rows of n elements, a tile a cube; ``words`` and ``tickets`` are cleared before."""
    op = plan.op
    slot = kl.shared(1, int32)
    prefix_slot = kl.shared(1, op.dtype)
    item = ticket(tickets, slot)
    row, tile = kl.unravel(item, (1, tiles))
    at = row * n
    steps = vector_steps(tile * tile_of(plan) - skew_of(at, n, plan), plan)
    values = [load_vector(source, at, i, n, plan) for i in steps]
    scanned, total = scan_plane(values, plan)
    before, whole = scan_planes(total, plan)
    if kl.plane_position() == 0:
        if kl.lane_position() == 0:
            publish(words, item, whole, tile == 0)
        prefix = look_back_by_plane(words, item, tile, op)
        if kl.lane_position() == 0:
            prefix_slot[0] = prefix
            if tile > 0:
                publish(words, item, op.combine(prefix, whole), tile >= 0)
    kl.barrier()
    prefix = kl.splat(op.combine(prefix_slot[0], before), plan.width)
    for i, value in zip(steps, scanned, strict=True):
        store_vector(target, at, i, n, op.combine(prefix, value), item >= 0, plan)
