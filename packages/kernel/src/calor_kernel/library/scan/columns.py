"""Scans along an axis that is not the last, in one pass: columns side by side, tiles of their rows.

Requirements: for cubes of many units; every element is read once and written once, in whole lines;
a unit has a few rows of a few columns in registers, the units below each other are joined in shared
memory, and tiles follow each other in one cube, or look back at those before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, int32
from calor_kernel.language import (
    Pointer,
    barrier,
    cube_position,
    cube_size,
    helper,
    kernel,
    loop_range,
    select,
    shared,
    splat,
    unit_position,
    unravel,
)
from calor_kernel.library.scan.chunks import joined, start_of, turned
from calor_kernel.library.scan.tickets import looked_back, ticket

# Tiles that a unit asks at a time what they say: as many answers are under way together.
AHEAD = 8


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How a cube scans columns: what, in which type, and how large a tile is.

    ``across``: units side by side, each with ``width`` columns; a unit has ``items`` rows.
    """

    kind: str
    accumulate: DType
    identity: float
    width: int
    across: int
    items: int
    reverse: bool

    @property
    def columns(self) -> int:
        """The columns of a cube."""
        return self.across * self.width

    @property
    def nothing(self) -> Any:
        """The number that changes nothing."""
        return start_of(self.accumulate, self.identity, 1)


def rows_of(plan: ColumnPlan) -> int:
    """Return the rows of a tile."""
    return cube_size() // plan.across * plan.items


@kernel
def scan_columns(
    source: Any, target: Any, across: Any, n: Any, inner: Any, *, plan: ColumnPlan
) -> None:
    """Scan ``[outer, n, inner]`` along n: ``across`` cubes share the columns of an outer index."""
    outer, column = unravel(cube_position(), (1, across))
    totals, carried = shared(cube_size() * plan.width, plan.accumulate), Carried.of(plan)
    for c in loop_range(unit_position(), plan.columns, cube_size()):
        carried.before[c] = plan.nothing
    for first in loop_range(0, n, rows_of(plan)):
        begin = outer * n * inner
        values = taken(source, begin, first, column, n, inner, plan)
        settle(totals, values[-1], plan)
        for c in loop_range(unit_position(), plan.columns, cube_size()):
            whole = summed(totals, c, plan)
            before = carried.before[c]
            carried.given[c] = before
            carried.before[c] = joined(plan.kind, before, whole)
        barrier()
        put(target, begin, first, column, n, inner, values, totals, carried.given, plan)
        barrier()


@kernel
def scan_columns_looking_back(
    source: Any,
    target: Any,
    words: Any,
    tickets: Any,
    tiles: Any,
    across: Any,
    n: Any,
    inner: Any,
    *,
    plan: ColumnPlan,
) -> None:
    """As ``scan_columns``, of which a cube does a tile; ``words`` and ``tickets`` are 0 before."""
    box, given = shared(1, int32), shared(plan.columns, plan.accumulate)
    totals = shared(cube_size() * plan.width, plan.accumulate)
    item = ticket(tickets, box)
    outer, tile, column = unravel(item, (1, tiles, across))
    begin, first = outer * n * inner, tile * rows_of(plan)
    values = taken(source, begin, first, column, n, inner, plan)
    settle(totals, values[-1], plan)
    for c in loop_range(unit_position(), plan.columns, cube_size()):
        whole = summed(totals, c, plan)
        own, step = item * plan.columns + c, across * plan.columns
        given[c] = looked_back(words, own, tile, step, whole, plan.kind, plan.nothing, AHEAD)
    barrier()
    put(target, begin, first, column, n, inner, values, totals, given, plan)


@dataclass(slots=True)
class Carried:
    """What comes before the next tile of each column, and before this one."""

    before: Pointer
    given: Pointer

    @staticmethod
    def of(plan: ColumnPlan) -> Carried:
        """Return the shared memory of a cube."""
        return Carried(shared(plan.columns, plan.accumulate), shared(plan.columns, plan.accumulate))


def place_of(first: Any, column: Any, plan: ColumnPlan) -> tuple[Any, Any]:
    """Return the first row of a unit, and its first column."""
    unit = unit_position()
    row = first + unit // plan.across * plan.items
    return row, column * plan.columns + unit % plan.across * plan.width


@helper
def taken(
    source: Any, begin: Any, first: Any, column: Any, n: Any, inner: Any, plan: ColumnPlan
) -> list[Any]:
    """Return the rows of a unit, scanned from its first on."""
    row, c = place_of(first, column, plan)
    at = begin + min(c, inner - plan.width)
    # What lies beyond the end is read elsewhere, so that all accesses are under way together.
    rows = [turned(min(row + i, n - 1), n, 1, plan.reverse) for i in range(plan.items)]
    align = plan.width * source.dtype.itemsize
    found = [source.load(at + r * inner, plan.width, align=align) for r in rows]
    nothing = start_of(plan.accumulate, plan.identity, plan.width)
    made: list[Any] = []
    for i, x in enumerate(found):
        value = select(splat(row + i < n, plan.width), x.to(plan.accumulate), nothing)
        made.append(joined(plan.kind, made[-1], value) if made else value)
    return made


@helper
def settle(totals: Any, total: Any, plan: ColumnPlan) -> None:
    """Write the totals of the units of a cube: rows of columns."""
    totals.store(unit_position() * plan.width, total)
    barrier()


@helper
def summed(totals: Any, c: Any, plan: ColumnPlan) -> Any:
    """Turn a column's totals into what comes before each unit; return the whole total."""
    run = plan.nothing
    for y in range(cube_size() // plan.across):
        at = y * plan.columns + c
        own = totals[at]
        totals[at] = run
        run = joined(plan.kind, run, own)
    return run


@helper
def put(
    target: Any,
    begin: Any,
    first: Any,
    column: Any,
    n: Any,
    inner: Any,
    values: list[Any],
    totals: Any,
    given: Any,
    plan: ColumnPlan,
) -> None:
    """Write the rows of a unit, joined with what comes before them."""
    row, c = place_of(first, column, plan)
    above = totals.load(unit_position() * plan.width, plan.width)
    own = given.load(unit_position() % plan.across * plan.width, plan.width)
    before = joined(plan.kind, own, above)
    for i, value in enumerate(values):
        if (row + i < n) & (c < inner):
            place = begin + c + turned(row + i, n, 1, plan.reverse) * inner
            made = joined(plan.kind, before, value).to(target.dtype)
            target.store(place, made, align=plan.width * target.dtype.itemsize)
