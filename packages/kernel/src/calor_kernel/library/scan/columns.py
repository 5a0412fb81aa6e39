"""Single-pass scans along an axis that is not the last: tiles of adjacent columns.

Requirements: for cubes of many units; every element is read once and written once, in whole cache
lines. A unit has a few rows of a few columns in registers; units of the same columns are combined
in shared memory. A cube loops over the tiles of its columns, or has one tile and looks back.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.library.arrivals import ticket
from calor_kernel.library.reduce.reduction_ops import ReductionOp
from calor_kernel.library.scan.chunks import scan_offset
from calor_kernel.library.scan.decoupled_look_back import Tickets, Words, look_back

# Words that a unit reads at a time while it looks back; their loads are in flight together.
AHEAD = 8


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The operation of a scan, and the tile of a cube.

    ``across``: adjacent units, each with ``width`` columns; a unit has ``items`` rows.
    """

    op: ReductionOp
    width: int
    across: int
    items: int
    reverse: bool

    @property
    def columns(self) -> int:
        """The columns of a cube."""
        return self.across * self.width


def rows_of(plan: ColumnPlan) -> int:
    """Return the rows of a tile."""
    return kl.cube_size() // plan.across * plan.items


@dataclass(frozen=True, slots=True)
class ColumnTile:
    """A tile: its array begins at ``begin``, its rows at ``first``, its columns at a cube's."""

    begin: kl.Number
    first: kl.Index
    column: kl.Number
    n: kl.Number
    inner: kl.Number

    def origin(self, plan: ColumnPlan) -> tuple[kl.Number, kl.Number]:
        """Return the first row and the first column of a unit."""
        unit = kl.unit_position()
        row = self.first + unit // plan.across * plan.items
        return row, self.column * plan.columns + unit % plan.across * plan.width


@kl.kernel
def scan_columns(
    source: kl.In, target: kl.Out, across: kl.Size, n: kl.Size, inner: kl.Size, *, plan: ColumnPlan
) -> None:
    """Scan ``[outer, n, inner]`` along n: ``across`` cubes share the columns of an outer index."""
    op = plan.op
    outer, column = kl.unravel(kl.cube_position(), (1, across))
    totals = kl.shared(kl.cube_size() * plan.width, op.dtype)
    carries, prefixes = kl.shared(plan.columns, op.dtype), kl.shared(plan.columns, op.dtype)
    for c in kl.loop_range(kl.unit_position(), plan.columns, kl.cube_size()):
        carries[c] = op.neutral()
    for first in kl.loop_range(0, n, rows_of(plan)):
        tile = ColumnTile(outer * n * inner, first, column, n, inner)
        values = load_rows(source, tile, plan)
        share_totals(totals, values[-1], plan)
        for c in kl.loop_range(kl.unit_position(), plan.columns, kl.cube_size()):
            whole = scan_column_totals(totals, c, plan)
            carry = carries[c]
            prefixes[c] = carry
            carries[c] = op.combine(carry, whole)
        kl.barrier()
        store_rows(target, tile, values, totals, prefixes, plan)
        kl.barrier()


@kl.kernel
def scan_columns_looking_back(
    source: kl.In,
    target: kl.Out,
    words: Words,
    tickets: Tickets,
    tiles: kl.Size,
    across: kl.Size,
    n: kl.Size,
    inner: kl.Size,
    *,
    plan: ColumnPlan,
) -> None:
    """As ``scan_columns``, a tile a cube; ``words`` and ``tickets`` are cleared before."""
    slot, prefixes = kl.shared(1, int32), kl.shared(plan.columns, plan.op.dtype)
    totals = kl.shared(kl.cube_size() * plan.width, plan.op.dtype)
    item = ticket(tickets, slot)
    outer, number, column = kl.unravel(item, (1, tiles, across))
    tile = ColumnTile(outer * n * inner, number * rows_of(plan), column, n, inner)
    values = load_rows(source, tile, plan)
    share_totals(totals, values[-1], plan)
    for c in kl.loop_range(kl.unit_position(), plan.columns, kl.cube_size()):
        whole = scan_column_totals(totals, c, plan)
        own, step = item * plan.columns + c, across * plan.columns
        prefixes[c] = look_back(words, own, number, step, whole, plan.op, AHEAD)
    kl.barrier()
    store_rows(target, tile, values, totals, prefixes, plan)


@kl.helper
def load_rows(source: kl.Pointer, tile: ColumnTile, plan: ColumnPlan) -> list[kl.Number]:
    """Return the rows of a unit, scanned from its first row on."""
    row, c = tile.origin(plan)
    n, op = tile.n, plan.op
    at = tile.begin + kl.min(c, tile.inner - plan.width)
    # Rows beyond the end load the last row instead, so all loads are in flight together.
    rows = [scan_offset(kl.min(row + i, n - 1), n, 1, plan.reverse) for i in range(plan.items)]
    align = plan.width * source.dtype.itemsize
    loaded = [source.load(at + r * tile.inner, plan.width, align=align) for r in rows]
    neutral = op.neutral(plan.width)
    scanned: list[kl.Number] = []
    for i, x in enumerate(loaded):
        value = kl.select(kl.splat(row + i < n, plan.width), x.to(op.dtype), neutral)
        scanned.append(op.combine(scanned[-1], value) if scanned else value)
    return scanned


@kl.helper
def share_totals(totals: kl.Pointer, total: kl.Number, plan: ColumnPlan) -> None:
    """Write the totals of a cube's units to shared memory, as rows of columns."""
    totals.store(kl.unit_position() * plan.width, total)
    kl.barrier()


@kl.helper
def scan_column_totals(totals: kl.Pointer, c: kl.Number, plan: ColumnPlan) -> kl.Number:
    """Replace the totals of a column by their exclusive scan; return the whole total."""
    run = plan.op.neutral()
    for y in range(kl.cube_size() // plan.across):
        at = y * plan.columns + c
        own = totals[at]
        totals[at] = run
        run = plan.op.combine(run, own)
    return run


@kl.helper
def store_rows(
    target: kl.Pointer,
    tile: ColumnTile,
    values: list[kl.Number],
    totals: kl.Pointer,
    prefixes: kl.Pointer,
    plan: ColumnPlan,
) -> None:
    """Store the rows of a unit, combined with the prefix of the tile and of the units above."""
    row, c = tile.origin(plan)
    above = totals.load(kl.unit_position() * plan.width, plan.width)
    prefix = prefixes.load(kl.unit_position() % plan.across * plan.width, plan.width)
    before = plan.op.combine(prefix, above)
    for i, value in enumerate(values):
        if (row + i < tile.n) & (c < tile.inner):
            at = tile.begin + c + scan_offset(row + i, tile.n, 1, plan.reverse) * tile.inner
            result = plan.op.combine(before, value).to(target.dtype)
            target.store(at, result, align=plan.width * target.dtype.itemsize)
