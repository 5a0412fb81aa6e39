"""LU factors with partial pivoting on processors: panels of columns, and what is behind them.

Requirements: the pivot of a column is the first of its largest elements, as in LAPACK. A launch for
each panel brings the rows of a tile of other columns in order, and subtracts the products with the
panel where they are behind it. The first tile behind the panel is the next panel, whose cube
factorizes it, so that no launch waits for a panel.
"""

from __future__ import annotations

import math

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.contract.choices import least
from calor_kernel.contract.launching import Bound, Effort
from calor_kernel.contract.work import Input, Output, Request, View
from calor_kernel.library.linalg.matrices import Matrices, minus_product
from calor_kernel.library.linalg.unit_tiles import (
    BLOCK,
    Coefficients,
    Rows,
    UnitTile,
    masks_of,
    no_masks,
    remainder,
    store_rows,
    substituted,
)
from calor_kernel.library.matmul.packing import iota
from calor_kernel.library.steps import Steps

# Columns of a panel that take the same steps.
_LANES = 16


@kl.kernel
def unit_lu_panel(
    packed: kl.InOut,
    order: kl.InOut,
    pivots: kl.InOut,
    m: kl.Size,
    n: kl.Size,
    *,
    tile: UnitTile,
) -> None:
    """Factorize the first panel of a matrix, and write all rows' order.

    ``pivots``: the row with which each row was exchanged.
    """
    matrix = kl.cube_position()
    for row in kl.loop_range(0, m):
        order[matrix * m + row] = row.to(order.dtype)
    a = Rows(packed, matrix * m * n, n)
    factor_panel(tile, a, order, pivots, matrix * m, kl.constant(0, m.dtype), m, n)


@kl.kernel
def unit_lu_update(
    packed: kl.InOut,
    order: kl.InOut,
    pivots: kl.InOut,
    m: kl.Size,
    n: kl.Size,
    first: kl.Size,
    tiles: kl.Size,
    *,
    tile: UnitTile,
    panel: UnitTile,
) -> None:
    """Update a tile of columns by the panel from column ``first`` on; ``tiles`` for each matrix.

    The tiles behind the panel come first, and the first of them is the next ``panel``.
    """
    cube = kl.cube_position()
    matrix, place = cube // tiles, cube % tiles
    a = Rows(packed, matrix * m * n, n)
    end = kl.min(first + BLOCK, m)
    column = first + BLOCK + place * BLOCK
    if column < n:
        exchange_rows(a, pivots, matrix * m, first, end, column, n, tile)
        for part in range(0, BLOCK, tile.width):
            update_tile(tile, a, first, end, m, column + part, n)
        if (place == 0) & (end < m):
            factor_panel(panel, a, order, pivots, matrix * m, column, m, n)
    else:
        before = (place - (n - first - 1) // BLOCK) * BLOCK
        exchange_rows(a, pivots, matrix * m, first, kl.min(end, n), before, first, tile)


@kl.helper
def exchange_rows(
    a: Rows,
    pivots: kl.Pointer,
    start: kl.Number,
    first: kl.Number,
    end: kl.Number,
    column: kl.Number,
    last: kl.Number,
    tile: UnitTile,
) -> None:
    """Exchange rows from ``first`` on with their pivots, in a block of columns before ``last``."""
    lanes = tile.lanes
    for row in kl.loop_range(first, end):
        other = pivots[start + row].to(row.dtype)
        if other != row:
            for at in kl.range(0, BLOCK, lanes):
                inside = column + at + iota(lanes, row) < last
                here, there = a.at(row, column + at), a.at(other, column + at)
                upper = a.memory.load(here, lanes, mask=inside)
                lower = a.memory.load(there, lanes, mask=inside)
                a.memory.store(here, lower, mask=inside)
                a.memory.store(there, upper, mask=inside)


@kl.helper
def update_tile(
    tile: UnitTile,
    a: Rows,
    first: kl.Number,
    end: kl.Number,
    m: kl.Number,
    column: kl.Number,
    n: kl.Number,
) -> None:
    """Solve for the rows of U, and subtract their products with L from the rows behind them."""
    left = Coefficients(a.memory, a.start, a.pitch, 1)

    def update(masks: list[kl.Number | None]) -> None:
        for row in kl.loop_range(first, end, tile.rows):
            sums = remainder(tile, left, a, a, row, end - 1, column, first, row, masks)
            substituted(tile, sums, left, row, end - 1, True)
            store_rows(tile, sums, a, row, end - 1, column, masks)
        for row in kl.loop_range(end, m, tile.rows):
            sums = remainder(tile, left, a, a, row, m - 1, column, first, end, masks)
            store_rows(tile, sums, a, row, m - 1, column, masks)

    if column + tile.width <= n:
        update(no_masks(tile))
    else:
        if column < n:
            update(masks_of(tile, column, n))


@kl.helper
def factor_panel(
    panel: UnitTile,
    a: Rows,
    order: kl.Pointer,
    pivots: kl.Pointer,
    start: kl.Number,
    first: kl.Number,
    m: kl.Number,
    n: kl.Number,
) -> None:
    """Factorize the columns of a panel from ``first`` on, and note its exchanges."""

    def factor(masks: list[kl.Number | None]) -> None:
        memory, lanes = a.memory, panel.lanes
        here = [first + v * lanes + iota(lanes, first) for v in range(panel.vectors)]
        last = kl.min(first + panel.width, kl.min(m, n))
        size, best = magnitude(memory[a.at(first, first)]), first
        for row in kl.loop_range(first + 1, m):
            size, best = better_of(size, best, magnitude(memory[a.at(row, first)]), row)
        for part in range(panel.vectors):
            begin = first + part * lanes
            for column in kl.loop_range(begin, kl.min(begin + lanes, last)):
                exchange_pivot(panel, a, order, pivots, start, first, column, best, masks)
                pivot = memory[a.at(column, column)]
                upper = kl.registers((panel.vectors,), memory.dtype, lanes)
                for v in range(part, panel.vectors):
                    value = memory.load(a.at(column, first + v * lanes), lanes, mask=masks[v])
                    upper[v] = kl.select(here[v] > column, value, 0.0)
                size, best = kl.constant(-1.0, memory.dtype), column + 1
                following = kl.min(column + 1, last - 1)
                for row in kl.loop_range(column + 1, m):
                    value = memory[a.at(row, column)]
                    factor = kl.splat(kl.select(pivot == 0.0, value, value / pivot), lanes)
                    for v in range(part, panel.vectors):
                        at = a.at(row, first + v * lanes)
                        values = memory.load(at, lanes, mask=masks[v])
                        rest = minus_product(factor, upper[v], values)
                        if v == part:
                            rest = kl.select(here[v] < column, values, rest)
                            rest = kl.select(here[v] == column, factor, rest)
                        memory.store(at, rest, mask=masks[v])
                    found = magnitude(memory[a.at(row, following)])
                    size, best = better_of(size, best, found, row)

    if first + panel.width <= n:
        factor(no_masks(panel))
    else:
        factor(masks_of(panel, first, n))


@kl.helper
def exchange_pivot(
    panel: UnitTile,
    a: Rows,
    order: kl.Pointer,
    pivots: kl.Pointer,
    start: kl.Number,
    first: kl.Number,
    row: kl.Number,
    best: kl.Number,
    masks: list[kl.Number | None],
) -> None:
    """Exchange a row with that of its pivot, in the columns of a panel, and note it."""
    pivots[start + row] = best.to(pivots.dtype)
    if best != row:
        places = order[start + row], order[start + best]
        order[start + row], order[start + best] = places[1], places[0]
        for v in range(panel.vectors):
            here = a.at(row, first + v * panel.lanes)
            there = a.at(best, first + v * panel.lanes)
            upper = a.memory.load(here, panel.lanes, mask=masks[v])
            lower = a.memory.load(there, panel.lanes, mask=masks[v])
            a.memory.store(here, lower, mask=masks[v])
            a.memory.store(there, upper, mask=masks[v])


def magnitude(value: kl.Number) -> kl.Number:
    """Return the size of a candidate for a pivot: a NaN is larger than any number."""
    return kl.select(value == value, abs(value), math.inf)


def better_of(
    size: kl.Number, best: kl.Number, found: kl.Number, row: kl.Number
) -> tuple[kl.Number, kl.Number]:
    """Return the better of two candidates: of equal ones the first."""
    better = found > size
    return kl.select(better, found, size), kl.select(better, row, best)


def add_factors(request: Request, over: Matrices, steps: Steps) -> None:
    """Add the launches that factorize the matrices of a request."""
    (x,) = request.inputs
    m, n, tile = over.rows, over.columns, UnitTile.of(over.info, over.dtype)
    panel = UnitTile(1, BLOCK // _LANES, _LANES).for_columns(n)
    packed = Bound(Output(0), x.dtype)
    order = Bound(Output(1), request.outputs[1].dtype)
    pivots = steps.room(over.batch * m, int32)
    steps.copy(View(x.shape, x.strides, x.dtype, x.offset), Input(0), packed.place, over.info)
    memory = {"packed": packed, "order": order, "pivots": pivots}
    items = over.batch * m * BLOCK
    steps.add(
        unit_lu_panel,
        over.grid(over.batch, 1),
        Effort("lu panel", items * BLOCK, 2 * items * x.dtype.itemsize),
        m=m,
        n=n,
        tile=panel,
        **memory,
    )
    blocks = -(-n // BLOCK)
    for first in range(0, least(m, n), BLOCK):
        if blocks > 1:
            items = over.batch * (m - first) * n
            steps.add(
                unit_lu_update,
                over.grid(over.batch * (blocks - 1), 1),
                Effort("lu update", 2 * items * BLOCK, 2 * items * x.dtype.itemsize),
                m=m,
                n=n,
                first=first,
                tiles=blocks - 1,
                tile=tile,
                panel=panel,
                **memory,
            )
