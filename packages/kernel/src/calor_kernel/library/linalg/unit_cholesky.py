"""Cholesky factors on processors: L's transpose row by row, in panels of rows.

Requirements: vectors are along rows, so the work is on U = Lᵀ, which is copied there and back. A
matrix is one cube if there are enough of them; else a launch for each panel has the columns behind
it in tiles, and the first tile's cube goes on with the diagonal block of the next panel, so that no
launch waits for one. A matrix that is not positive definite gives NaN from its first bad
pivot on.
"""

from __future__ import annotations

import math

from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.launching import Effort
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

# Matrices up to this order are one cube each.
_WHOLE = 2 * BLOCK


@kl.kernel
def unit_cholesky(work: kl.InOut, n: kl.Size, end: kl.Size, *, tile: UnitTile) -> None:
    """Factorize the rows up to ``end`` of a matrix within its columns up to ``end``."""
    u = Rows(work, kl.cube_position() * n * n, n)
    factor_block(tile, u, kl.constant(0, n.dtype), end)


@kl.kernel
def unit_cholesky_panel(
    work: kl.InOut, n: kl.Size, first: kl.Size, tiles: kl.Size, *, tile: UnitTile
) -> None:
    """Write a tile of the rows from ``first`` on, whose diagonal block is factorized.

    ``tiles``: for each matrix. The first of them factorizes the next diagonal block.
    """
    cube = kl.cube_position()
    matrix, place = cube // tiles, cube % tiles
    u = Rows(work, matrix * n * n, n)
    behind = first + BLOCK
    begin = behind + place * BLOCK
    for part in range(0, BLOCK, tile.width):
        solve_panel(tile, u, first, behind, begin + part, n)
    if place == 0:
        factor_block(tile, u, behind, kl.min(behind + BLOCK, n))


@kl.helper
def solve_panel(
    tile: UnitTile,
    u: Rows,
    first: kl.Number,
    behind: kl.Number,
    column: kl.Number,
    end: kl.Number,
) -> None:
    """Write a tile of the rows from ``first`` on, in columns behind their diagonal block."""

    def solve(masks: list[kl.Number | None]) -> None:
        for row in kl.loop_range(first, behind, tile.rows):
            solve_rows(tile, u, row, behind - 1, column, masks)

    if column + tile.width <= end:
        solve(no_masks(tile))
    else:
        if column < end:
            solve(masks_of(tile, column, end))


@kl.helper
def solve_rows(
    tile: UnitTile,
    u: Rows,
    row: kl.Number,
    last: kl.Number,
    column: kl.Number,
    masks: list[kl.Number | None],
) -> None:
    """Write some rows in columns behind their own diagonal block."""
    left = Coefficients(u.memory, u.start, 1, u.pitch)
    sums = remainder(tile, left, u, u, row, last, column, 0, row, masks)
    substituted(tile, sums, left, row, last, False)
    store_rows(tile, sums, u, row, last, column, masks)


@kl.helper
def factor_block(tile: UnitTile, u: Rows, first: kl.Number, end: kl.Number) -> None:
    """Factorize the diagonal block from ``first`` to ``end``, and write zeros before it."""
    rows, lanes, last = tile.rows, tile.lanes, end - 1
    left = Coefficients(u.memory, u.start, 1, u.pitch)
    for row in kl.loop_range(first, end, rows):
        masks = masks_of(tile, row, end)
        sums = remainder(tile, left, u, u, row, last, row, 0, row, masks)
        eliminate_rows(tile, sums)
        for r in range(rows):
            for v in range(-(-rows // lanes)):
                kept = iota(lanes, row) >= r - v * lanes
                sums[r, v] = kl.select(kept, sums[r, v], 0.0)
        store_rows(tile, sums, u, row, last, row, masks)
        for column in kl.loop_range(row + tile.width, end, tile.width):
            solve_rows(tile, u, row, last, column, masks_of(tile, column, end))
        for r in range(rows):
            if row + r <= last:
                for column in kl.loop_range(0, row, lanes):
                    inside = column + iota(lanes, row) < row
                    zeros = kl.constant(0.0, u.memory.dtype, lanes)
                    u.memory.store(u.at(row + r, column), zeros, mask=inside)


@kl.helper
def eliminate_rows(tile: UnitTile, sums: kl.Registers) -> None:
    """Factorize the square at the begin of a tile, and divide the rows behind it alike."""
    lanes = tile.lanes
    for r in range(tile.rows):
        pivot = lane_of(sums, r, r, lanes)
        root = kl.select(pivot > 0.0, kl.sqrt(pivot), math.nan)
        for v in range(tile.vectors):
            sums[r, v] = sums[r, v] / root
        for below in range(r + 1, tile.rows):
            value = lane_of(sums, r, below, lanes)
            for v in range(tile.vectors):
                sums[below, v] = minus_product(value, sums[r, v], sums[below, v])


def lane_of(sums: kl.Registers, row: int, column: int, lanes: int) -> kl.Number:
    """Return an element of a row of a tile in all lanes."""
    vector = sums[row, column // lanes]
    return kl.shuffle(vector, (column % lanes,) * lanes)


def add_factor(request: Request, over: Matrices, steps: Steps) -> None:
    """Add the launches that factorize the matrices of a request."""
    (x,) = request.inputs
    n, tile = over.rows, UnitTile.of(over.info, over.dtype)
    dense = (over.batch, n, n)
    turned = View(dense, (n * n, 1, n), x.dtype, x.offset)
    work = steps.room(over.batch * n * n, x.dtype)
    steps.copy(turned, Input(0), work.place, over.info)
    alone = n <= _WHOLE or exceeds(over.batch, 2 * over.info.cores)
    end = n if alone else BLOCK
    steps.add(
        unit_cholesky,
        over.grid(over.batch, 1),
        Effort("cholesky block", over.batch * end**3 // 3, over.batch * end * end * 2),
        work=work,
        n=n,
        end=end,
        tile=tile,
    )
    for first in range(0, n - end, BLOCK):
        tiles = -(-(n - first - BLOCK) // BLOCK)
        items = over.batch * (n - first) * BLOCK
        steps.add(
            unit_cholesky_panel,
            over.grid(over.batch * tiles, 1),
            Effort("cholesky panel", items * (2 * first + BLOCK), 2 * items * x.dtype.itemsize),
            work=work,
            n=n,
            first=first,
            tiles=tiles,
            tile=tile,
        )
    steps.copy(View(dense, (n * n, 1, n), x.dtype), work.place, Output(), over.info)
