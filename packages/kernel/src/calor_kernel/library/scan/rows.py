"""Scans along rows by cubes of many units: whole rows, or parts of them that know what is before.

Requirements: a row that is not divided is read once and written once, however long it is; the order
of the operations depends on sizes alone; parts are long, so that few totals are scanned between.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import cube_size, kernel, loop_range, splat, unit_position, unravel
from calor_kernel.library.reduce.team_reduction import over_lanes, over_team
from calor_kernel.library.scan.chunks import joined, start_of
from calor_kernel.library.scan.tiles import (
    TilePlan,
    between_planes,
    in_plane,
    places,
    put,
    row_item,
    taken,
    tile_of,
)


@kernel
def scan_rows(
    source: Any,
    totals: Any,
    target: Any,
    rows: Any,
    parts: Any,
    n: Any,
    chunk: Any,
    *,
    plan: TilePlan,
) -> None:
    """Scan rows of n elements, or parts of ``chunk``, a multiple of the tile.

    ``totals``: of parts, scanned along each row.
    """
    item = row_item(plan)
    exists = item < rows * parts
    item = min(item, rows * parts - 1)
    row, part = unravel(item, (1, parts)) if plan.parted else (item, 0)
    begin = part * chunk if plan.parted else 0
    at = row * n
    carry = plan.nothing
    if plan.parted and part > 0:
        carry = totals[item - 1].to(plan.accumulate)
    for first in loop_range(begin, min(begin + chunk, n) if plan.parted else n, tile_of(plan)):
        where = places(first, plan)
        values = [taken(source, at, i, n, plan) for i in where]
        scanned, total = in_plane(values, plan)
        before, whole = between_planes(total, plan)
        before = splat(joined(plan.kind, carry, before), plan.width)
        for i, value in zip(where, scanned, strict=True):
            put(target, at, i, n, joined(plan.kind, before, value), exists, plan)
        carry = joined(plan.kind, carry, whole)


@kernel
def total_parts(
    source: Any, totals: Any, parts: Any, n: Any, chunk: Any, *, plan: TilePlan
) -> None:
    """Write the total of each part of ``chunk`` elements of rows of n: ``totals[row, part]``."""
    item = row_item(plan)
    row, part = unravel(item, (1, parts))
    begin = part * chunk
    sums = [start_of(plan.accumulate, plan.identity, plan.width) for _ in range(plan.vectors)]
    for first in loop_range(begin, min(begin + chunk, n), tile_of(plan)):
        where = places(first, plan)
        values = [taken(source, row * n, i, n, plan) for i in where]
        sums = [joined(plan.kind, a, b) for a, b in zip(sums, values, strict=True)]
    total = sums[0]
    for more in sums[1:]:
        total = joined(plan.kind, total, more)
    whole = over_team(plan.kind, over_lanes(plan.kind, total), cube_size())
    if unit_position() == 0:
        totals[item] = whole
