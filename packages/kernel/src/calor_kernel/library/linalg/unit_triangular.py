"""Triangular systems on processors, one launch: a cube has a tile of the right-hand sides' columns.

Requirements: only the triangle is read. Some rows at a time: their products with the rows that are
solved, and then their own triangle, in registers. Rows are in the order in which they are solved,
by strides with signs, so that an upper triangle is a lower one.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, operand
from calor_kernel.contract.work import Output, Request
from calor_kernel.library.linalg.matrices import Matrices
from calor_kernel.library.linalg.unit_tiles import (
    Coefficients,
    Rows,
    UnitTile,
    masks_of,
    no_masks,
    remainder,
    store_rows,
    substituted,
)
from calor_kernel.library.steps import Steps


@kl.kernel
def unit_solve_triangular(
    a: kl.In,
    b: kl.In,
    x: kl.InOut,
    n: kl.Size,
    count: kl.Size,
    tiles: kl.Size,
    *,
    tile: UnitTile,
    backward: bool,
    transpose: bool,
    unit: bool,
) -> None:
    """Solve the systems of a tile of ``count`` columns, in ``tiles`` tiles for each matrix.

    ``backward``: from the last row on. ``transpose``: rows of the triangle are columns in memory.
    ``unit``: the diagonal has ones.
    """
    cube = kl.cube_position()
    matrix, column = cube // tiles, cube % tiles * tile.width
    down, along = (1, n) if transpose else (n, 1)
    start, sides, pitch = matrix * n * n, matrix * n * count, count
    if backward:
        start, sides = start + (n - 1) * (down + along), sides + (n - 1) * pitch
        down, along, pitch = -down, -along, -pitch
    left = Coefficients(a, start, down, along)
    found, given = Rows(x, sides, pitch), Rows(b, sides, pitch)

    def solve(masks: list[kl.Number | None]) -> None:
        for row in kl.loop_range(0, n, tile.rows):
            sums = remainder(tile, left, found, given, row, n - 1, column, 0, row, masks)
            substituted(tile, sums, left, row, n - 1, unit)
            store_rows(tile, sums, found, row, n - 1, column, masks)

    if column + tile.width <= count:
        solve(no_masks(tile))
    else:
        solve(masks_of(tile, column, count))


def add_solution(request: Request, over: Matrices, steps: Steps) -> None:
    """Add the launch that solves the systems of a request."""
    a, b = request.inputs
    n, count = over.rows, b.shape[-1]
    tile = UnitTile.of(over.info, over.dtype).for_columns(count)
    tiles = -(-count // tile.width)
    said = request.attributes
    nbytes = (a.size // 2 + 2 * b.size) * a.dtype.itemsize
    steps.add(
        unit_solve_triangular,
        over.grid(over.batch * tiles, 1, [b.size]),
        Effort("triangular solve", over.batch * n * n * count, nbytes),
        a=operand(0, a),
        b=operand(1, b),
        x=Bound(Output(), b.dtype),
        n=n,
        count=count,
        tiles=tiles,
        tile=tile,
        backward=bool(said["lower"]) == bool(said["transpose"]),
        transpose=bool(said["transpose"]),
        unit=bool(said["unit_diagonal"]),
    )
