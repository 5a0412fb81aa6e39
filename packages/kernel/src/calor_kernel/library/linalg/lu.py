"""LU factors with partial pivoting: panels of columns, and updates of what is behind each.

Requirements: the pivot of a column is the first of its largest elements in the order that earlier
exchanges left, as in LAPACK. Rows stay in place in memory, and an order of the rows takes the
exchanges, so that none moves a row of a large matrix; the last launch brings factors in order. A
cube has a whole panel in shared memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calor.dtypes import DType, int32
from calor_kernel import language as kl
from calor_kernel.library.linalg.matrices import keep_registers, minus_product
from calor_kernel.library.linalg.substitution import substitute

# Units that join the candidates of all units for a pivot, each those of as many.
_JOIN = 16
# Columns of a row that are read together.
_RUN = 8


@dataclass(frozen=True, slots=True)
class LuPlan:
    """Panels of ``width`` columns and up to ``rows`` rows, by cubes of ``units`` units.

    ``alone``: one panel has all columns, and is a result as it is. ``begins``: the panel is the
    first of a matrix, so that its rows are in their order.
    """

    width: int
    rows: int
    units: int
    alone: bool = False
    begins: bool = True

    @property
    def pitch(self) -> int:
        """Elements from column to column in shared memory: neighbours lie in different banks."""
        return self.rows + 1

    @property
    def joins(self) -> int:
        """The groups of units whose candidates are joined first."""
        return -(-self.units // _JOIN)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel in shared memory, column by column, the memory rows, and candidates for a pivot."""

    plan: LuPlan
    values: kl.Pointer
    places: kl.Pointer
    sizes: kl.Pointer
    rows: kl.Pointer


def panel_of(plan: LuPlan, dtype: DType) -> Panel:
    """Return a panel in new shared memory."""
    candidates = plan.units + plan.joins
    return Panel(
        plan,
        kl.shared(plan.width * plan.pitch, dtype),
        kl.shared(plan.rows, int32),
        kl.shared(candidates, dtype),
        kl.shared(candidates, int32),
    )


@kl.kernel
def lu_panel(
    x: kl.In | None,
    work: kl.InOut | None,
    packed: kl.Out | None,
    order: kl.InOut | None,
    sorted_rows: kl.Out | None,
    m: kl.Size,
    n: kl.Size,
    first: kl.Size,
    *,
    plan: LuPlan,
) -> None:
    """Factorize the columns from ``first`` on, of the rows that are no pivots yet.

    ``x``: the matrices, if no update wrote them to ``work`` yet. ``order``: the memory rows in the
    order of the exchanges. A panel that is ``alone`` writes results, another one ``work``.
    """
    keep_registers()
    batch, unit = kl.cube_position(), kl.unit_index()
    base, height = batch * m * n, m - first
    width = kl.min(plan.width, n - first)
    source = x if x is not None else work
    assert source is not None
    panel = panel_of(plan, source.dtype)
    for i in kl.loop_range(unit, height, plan.units):
        place = (first + i).to(int32)
        if order is not None and not plan.begins:
            place = order[batch * m + first + i]
        panel.places[i] = place
    kl.barrier()
    for at in kl.loop_range(unit, height * plan.width, plan.units):
        i, c = at // plan.width, at % plan.width
        value = kl.constant(0.0, source.dtype)
        if c < width:
            value = source[base + panel.places[i].to(base.dtype) * n + first + c]
        panel.values[c * plan.pitch + i] = value
    kl.barrier()
    for column in kl.loop_range(0, kl.min(width, height)):
        best = pivot_of(panel, column, height)
        exchange(panel, column, best, width)
        kl.barrier()
        eliminate(panel, column, height, width)
    kl.barrier()
    for at in kl.loop_range(unit, height * plan.width, plan.units):
        i, c = at // plan.width, at % plan.width
        if c < width:
            value = panel.values[c * plan.pitch + i]
            if packed is not None:
                packed[base + i * n + c] = value
            if work is not None:
                work[base + panel.places[i].to(base.dtype) * n + first + c] = value
    for i in kl.loop_range(unit, height, plan.units):
        if order is not None:
            order[batch * m + first + i] = panel.places[i]
        if sorted_rows is not None:
            sorted_rows[batch * m + i] = panel.places[i].to(sorted_rows.dtype)


@kl.helper
def pivot_of(panel: Panel, column: kl.Number, height: kl.Number) -> kl.Number:
    """Return the row of the first of the largest elements of a column, from the diagonal on.

    A NaN is larger than any number. The same row in all units.
    """
    plan, unit = panel.plan, kl.unit_index()
    dtype = panel.values.dtype
    size, row = kl.constant(-1.0, dtype), kl.constant(0, int32)
    for i in kl.loop_range(unit, height, plan.units):
        value = abs(panel.values[column * plan.pitch + i])
        value = kl.select(value == value, value, math.inf)
        better = (i >= column) & (value > size)
        size, row = kl.select(better, value, size), kl.select(better, i.to(int32), row)
    panel.sizes[unit] = size
    panel.rows[unit] = row
    kl.barrier()
    if unit < plan.joins:
        size, row = joined(panel, unit * _JOIN, min(_JOIN, plan.units))
        panel.sizes[plan.units + unit] = size
        panel.rows[plan.units + unit] = row
    kl.barrier()
    _, row = joined(panel, plan.units, plan.joins)
    return row.to(column.dtype)


@kl.helper
def joined(panel: Panel, first: kl.Index, count: int) -> tuple[kl.Number, kl.Number]:
    """Return the best of some candidates: of equal ones that of the first row."""
    found = [(panel.sizes[first + k], panel.rows[first + k]) for k in range(count)]
    # Pair by pair, so that a few comparisons follow each other.
    while len(found) > 1:
        pairs = zip(found[0::2], found[1::2], strict=False)
        found = [better_of(a, b) for a, b in pairs] + found[len(found) // 2 * 2 :]
    return found[0]


def better_of(
    a: tuple[kl.Number, kl.Number], b: tuple[kl.Number, kl.Number]
) -> tuple[kl.Number, kl.Number]:
    """Return the better of two candidates."""
    other = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
    return kl.select(other, b[0], a[0]), kl.select(other, b[1], a[1])


@kl.helper
def exchange(panel: Panel, column: kl.Number, best: kl.Number, width: kl.Number) -> None:
    """Exchange two rows of a panel, an element by each unit."""
    plan = panel.plan
    for c in kl.loop_range(kl.unit_index(), width, plan.units):
        upper, lower = c * plan.pitch + column, c * plan.pitch + best
        values = panel.values[upper], panel.values[lower]
        panel.values[upper], panel.values[lower] = values[1], values[0]
    if kl.unit_index() == 0:
        rows = panel.places[column], panel.places[best]
        panel.places[column], panel.places[best] = rows[1], rows[0]


@kl.helper
def eliminate(panel: Panel, column: kl.Number, height: kl.Number, width: kl.Number) -> None:
    """Divide the column below the diagonal by the pivot, and subtract from those behind it."""
    plan, values = panel.plan, panel.values
    pivot = values[column * plan.pitch + column]
    for i in kl.loop_range(kl.unit_index(), height, plan.units):
        if i > column:
            value = values[column * plan.pitch + i]
            factor = kl.select(pivot == 0.0, value, value / pivot)
            # All of a run is read before any is written, so that no read waits for a write.
            run = min(_RUN, plan.width)
            for first in kl.loop_range(column // run * run, width, run):
                starts = [(first + c) * plan.pitch for c in range(run)]
                above = [values[at + column] for at in starts]
                here = [values[at + i] for at in starts]
                for c in range(run):
                    made = minus_product(factor, above[c], here[c])
                    made = kl.select(first + c > column, made, here[c])
                    values[starts[c] + i] = kl.select(first + c == column, factor, made)


@kl.kernel
def lu_update(
    x: kl.In | None,
    work: kl.InOut,
    packed: kl.Out,
    order: kl.In,
    m: kl.Size,
    n: kl.Size,
    first: kl.Size,
    high: kl.Size,
    wide: kl.Size,
    *,
    width: int,
    tile: int,
) -> None:
    """Write the rows of U of a panel to ``packed``, and update what is below and right of it.

    Cubes have tiles of ``tile`` rows and columns, ``high`` × ``wide`` for each matrix; ``x``: as
    for a panel. Each solves the rows of U itself, which takes no longer than to wait for them. Its
    units are a square, and have two rows by two columns each.
    """
    keep_registers()
    dtype, half = work.dtype, tile // 2
    unit, cube = kl.unit_index(), kl.cube_position()
    batch, place = cube // (high * wide), cube % (high * wide)
    base, pitch = batch * m * n, tile + 1
    top, left = first + width + place // wide * tile, first + width + place % wide * tile
    corner = kl.shared(width * width, dtype, align=16)
    above = kl.shared(width * pitch, dtype)
    beside = kl.shared(width * pitch, dtype)
    units = half * half

    def start(row: kl.Index) -> kl.Number:
        """Return where a row begins in memory."""
        known = order[batch * m + kl.min(row, m - 1)].to(base.dtype)
        return base + known * n

    for at in kl.loop_range(unit, width * width, units):
        k, row = at % width, at // width
        corner[k * width + row] = work[start(first + row) + first + k]
    for at in kl.loop_range(unit, width * tile, units):
        k, c = at // tile, kl.min(left + at % tile, n - 1)
        index = start(first + k) + c
        above[k * pitch + at % tile] = x[index] if x is not None else work[index]
        k, row = at % width, at // width
        beside[k * pitch + row] = work[start(top + row) + first + k]
    kl.barrier()
    if unit < tile:
        substitute(above, unit, pitch, corner, width, width, False)
    kl.barrier()
    rows = [unit // half + i * half for i in range(2)]
    columns = [unit % half + j * half for j in range(2)]
    for i in range(2):
        index = start(top + rows[i])
        for j in range(2):
            row, column = top + rows[i], left + columns[j]
            if (row < m) & (column < n):
                value = x[index + column] if x is not None else work[index + column]
                for k in range(width):
                    lower, upper = beside[k * pitch + rows[i]], above[k * pitch + columns[j]]
                    value = minus_product(lower, upper, value)
                work[index + column] = value
    if place // wide == 0:
        for at in kl.loop_range(unit, width * tile, units):
            row, column = first + at // tile, left + at % tile
            if (row < m) & (column < n):
                value = above[at // tile * pitch + at % tile]
                packed[base + row * n + column] = value


@kl.kernel
def lu_sorted(
    work: kl.In,
    order: kl.In,
    packed: kl.Out,
    sorted_rows: kl.Out,
    m: kl.Size,
    n: kl.Size,
    count: kl.Size,
    *,
    width: int,
) -> None:
    """Bring the columns of ``count`` panels' rows in order: of L, and of U within a panel.

    A cube has a row.
    """
    cube, unit = kl.cube_position(), kl.unit_index()
    batch, row = cube // m, cube % m
    place = order[cube]
    source = (batch * m + place.to(cube.dtype)) * n
    # The panels whose rows begin above this row.
    end = kl.min((row // width + 1) * width, count)
    for c in kl.loop_range(unit, end, kl.cube_size()):
        packed[cube * n + c] = work[source + c]
    if unit == 0:
        sorted_rows[cube] = place.to(sorted_rows.dtype)
