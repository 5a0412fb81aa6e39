"""What a group of columns of a Cholesky factor subtracts from the matrix behind it.

Requirements: the product has the rate of products of float32, by register tiles of many sums. Only
tiles of the lower triangle are computed.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.library.gemm.lines import StridedLines
from calor_kernel.library.gemm.simt import multiply, simt_tile
from calor_kernel.library.gemm.simt_plan import SimtPlan
from calor_kernel.library.matmul.predicated_simt import copy_pieces


@kl.kernel
def cholesky_update(
    x: kl.In | None,
    factor: kl.In,
    work: kl.InOut,
    n: kl.Size,
    begin: kl.Size,
    end: kl.Size,
    tiles: kl.Size,
    *,
    plan: SimtPlan,
) -> None:
    """Subtract the products of columns from ``begin`` to ``end`` from a tile behind them.

    ``x``: the matrices, which are in ``work`` if an update was before. ``tiles``: down and across.
    """
    kl.launch_attributes(cubes_per_core=plan.together)
    cube = kl.cube_position()
    base, number = cube // (tiles * tiles) * (n * n), cube % (tiles * tiles)
    down, across = number // tiles, number % tiles
    if across <= down:
        first_row, first_column = end + down * plan.rows, end + across * plan.columns
        left = StridedLines(factor, base, first_row, n, n, 1)
        right = StridedLines(factor, base, first_column, n, n, 1)
        tile = simt_tile(plan)
        pipe = kl.Pipeline(plan.stages, *plan.tiles, how=kl.way_of_units())

        def load(pipe: kl.Pipeline, at: kl.Index) -> None:
            copy_pieces(pipe, 0, left, end, at, plan, 1)
            copy_pieces(pipe, 1, right, end, at, plan, 1)

        multiply(tile, pipe, (load,), begin, end)
        for i, row in tile.rows(first_row):
            for j, column in tile.columns(first_column, 1):
                if (row < n) & (column <= row):
                    at = base + row * n + column
                    before = work[at] if x is None else x[at]
                    work[at] = before - tile.sums[plan.numbers[i, j]]
