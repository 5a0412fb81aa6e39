"""Scans of long rows in one pass: each tile looks back at the totals of those before it.

Requirements: every element is read once and written once; the units of a plane look back together,
as a row's tiles are many and their words lie side by side.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import int32
from calor_kernel.language import (
    barrier,
    kernel,
    lane_position,
    plane_position,
    shared,
    splat,
    unravel,
)
from calor_kernel.library.scan.chunks import joined
from calor_kernel.library.scan.tickets import looked_back_together, say, ticket
from calor_kernel.library.scan.tiles import (
    TilePlan,
    between_planes,
    in_plane,
    places,
    put,
    taken,
    tile_of,
)


@kernel
def scan_looking_back(
    source: Any, target: Any, words: Any, tickets: Any, tiles: Any, n: Any, *, plan: TilePlan
) -> None:
    """Scan rows of n elements, a tile a cube; ``words`` and ``tickets`` are 0 before."""
    box = shared(1, int32)
    held = shared(1, plan.accumulate)
    item = ticket(tickets, box)
    row, tile = unravel(item, (1, tiles))
    at = row * n
    where = places(tile * tile_of(plan), plan)
    values = [taken(source, at, i, n, plan) for i in where]
    scanned, total = in_plane(values, plan)
    before, whole = between_planes(total, plan)
    if plane_position() == 0:
        if lane_position() == 0:
            say(words, item, whole, tile == 0)
        prefix = looked_back_together(words, item, tile, plan.accumulate, plan.kind, plan.nothing)
        if lane_position() == 0:
            held[0] = prefix
            if tile > 0:
                say(words, item, joined(plan.kind, prefix, whole), tile >= 0)
    barrier()
    prefix = splat(joined(plan.kind, held[0], before), plan.width)
    for i, value in zip(where, scanned, strict=True):
        put(target, at, i, n, joined(plan.kind, prefix, value), i >= 0, plan)
