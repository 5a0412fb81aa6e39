"""Scans along rows by cubes of many units: whole rows, or parts with the totals of earlier parts.

Requirements: an undivided row of any length is read once and written once; the order of the
operations depends on sizes alone; parts are long, so that few totals are scanned between. Tiles of
a row that look back are cubes; the units of a plane look back together, because a row has many
tiles with adjacent words.
"""

from __future__ import annotations

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.library.reduce.reduction_ops import over_team
from calor_kernel.library.scan.decoupled_look_back import (
    Tickets,
    Words,
    look_back_by_plane,
    publish,
    ticket,
)
from calor_kernel.library.scan.tiles import (
    TilePlan,
    load_vector,
    row_item,
    scan_plane,
    scan_planes,
    store_vector,
    tile_of,
    vector_steps,
)


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

    ``totals``: the totals of parts, scanned along each row.
    """
    op, item = plan.op, row_item(plan)
    exists = item < rows * parts
    item = kl.min(item, rows * parts - 1)
    row, part = kl.unravel(item, (1, parts)) if plan.parted else (item, 0)
    begin = part * length if plan.parted else 0
    at = row * n
    carry = op.neutral()
    if plan.parted and part > 0:
        carry = totals[item - 1].to(op.dtype)
    for first in kl.loop_range(
        begin, kl.min(begin + length, n) if plan.parted else n, tile_of(plan)
    ):
        steps = vector_steps(first, plan)
        values = [load_vector(source, at, i, n, plan) for i in steps]
        scanned, total = scan_plane(values, plan)
        before, whole = scan_planes(total, plan)
        before = kl.splat(op.combine(carry, before), plan.width)
        for i, value in zip(steps, scanned, strict=True):
            store_vector(target, at, i, n, op.combine(before, value), exists, plan)
        carry = op.combine(carry, whole)


@kl.kernel
def total_parts(
    source: kl.In, totals: kl.Out, parts: kl.Size, n: kl.Size, length: kl.Size, *, plan: TilePlan
) -> None:
    """Write the total of each part of ``length`` elements of rows of n: ``totals[row, part]``."""
    op, item = plan.op, row_item(plan)
    row, part = kl.unravel(item, (1, parts))
    begin = part * length
    sums = [op.neutral(plan.width) for _ in range(plan.vectors)]
    for first in kl.loop_range(begin, kl.min(begin + length, n), tile_of(plan)):
        values = [load_vector(source, row * n, i, n, plan) for i in vector_steps(first, plan)]
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
    steps = vector_steps(tile * tile_of(plan), plan)
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
        store_vector(target, at, i, n, op.combine(prefix, value), i >= 0, plan)
