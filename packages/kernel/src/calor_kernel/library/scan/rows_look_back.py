"""Scans of long rows in one pass by decoupled look-back.

Requirements: every element is read once and written once; the units of a plane look back together,
because a row has many tiles with adjacent words.
"""

from __future__ import annotations

from calor.dtypes import int32
from calor_kernel.language import (
    In,
    Out,
    Size,
    barrier,
    kernel,
    lane_position,
    plane_position,
    shared,
    splat,
    unravel,
)
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
    scan_plane,
    scan_planes,
    store_vector,
    tile_of,
    vector_steps,
)


@kernel
def scan_looking_back(
    source: In, target: Out, words: Words, tickets: Tickets, tiles: Size, n: Size, *, plan: TilePlan
) -> None:
    """Scan rows of n elements, a tile a cube; ``words`` and ``tickets`` are cleared before."""
    op = plan.op
    slot = shared(1, int32)
    prefix_slot = shared(1, op.dtype)
    item = ticket(tickets, slot)
    row, tile = unravel(item, (1, tiles))
    at = row * n
    steps = vector_steps(tile * tile_of(plan), plan)
    values = [load_vector(source, at, i, n, plan) for i in steps]
    scanned, total = scan_plane(values, plan)
    before, whole = scan_planes(total, plan)
    if plane_position() == 0:
        if lane_position() == 0:
            publish(words, item, whole, tile == 0)
        prefix = look_back_by_plane(words, item, tile, op)
        if lane_position() == 0:
            prefix_slot[0] = prefix
            if tile > 0:
                publish(words, item, op.combine(prefix, whole), tile >= 0)
    barrier()
    prefix = splat(op.combine(prefix_slot[0], before), plan.width)
    for i, value in zip(steps, scanned, strict=True):
        store_vector(target, at, i, n, op.combine(prefix, value), i >= 0, plan)
