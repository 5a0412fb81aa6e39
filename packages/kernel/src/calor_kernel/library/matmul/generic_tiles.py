"""Products by cubes of many units: tiles in shared memory, sums in registers.

Requirements: a cube reads each element of the operands from global memory once a step, with
neighbouring units along the contiguous axis. Any strides, sizes and types: this way serves the
products that no other way suits.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.contract.launching import Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.gemm.generic import GenericPlan, fill_tile, generic_tile, multiply
from calor_kernel.library.gemm.lines import StridedLines
from calor_kernel.library.matmul.blueprints import accumulator
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.task import Batches, Sizes, Strides, Task


@kl.kernel
def tiled_matmul(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    strides: Strides[kl.Number],
    batches: Batches[kl.Number],
    after: After | None,
    *,
    plan: GenericPlan,
    a_along: bool,
    b_along: bool,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of C, its rows from y and its columns from x.

    ``a_along``, ``b_along``: whether the operand is contiguous along the K axis.
    """
    m, n, k = sizes.m, sizes.n, sizes.k
    batch = kl.cube_position(2)
    a_start, b_start = batches.starts(batch)
    first_row, first_column = kl.cube_position(1) * plan.height, kl.cube_position(0) * plan.width
    left = StridedLines(a, a_start, first_row, m, strides.a_row, strides.a_depth)
    right = StridedLines(b, b_start, first_column, n, strides.b_column, strides.b_depth)
    tile = generic_tile(plan)
    units, depth = plan.units, plan.depth

    def load_a(side: kl.Index, begin: kl.Index) -> None:
        at = side * (plan.height * depth)
        fill_tile(tile.left, at, left, begin, k, units, plan.height, depth, a_along)

    def load_b(side: kl.Index, begin: kl.Index) -> None:
        at = side * (depth * plan.width)
        fill_tile(tile.right, at, right, begin, k, units, plan.width, depth, b_along)

    multiply(tile, (load_a, load_b), 0, k)
    ends = writer(epilogue, after, c, batch)
    for i, row in tile.rows(first_row):
        for j, column in tile.columns(first_column):
            if (row < m) and (column < n):
                if ends is None:
                    c[(batch * m + row) * n + column] = tile.sums[i, j].to(c.dtype)
                else:
                    ends.write((batch * m + row) * n + column, tile.sums[i, j], row, column)


def tiled(product: Product) -> GenericPlan:
    """Return the blueprint for cubes of many units."""
    accumulate = accumulator(product)
    small = product.m * product.n * product.batches < 128 * 128
    rows = columns = 2 if small else 4
    return GenericPlan(16, 8, rows, columns, 8 if accumulate.itemsize == 8 else 16, accumulate)


def tiled_launch(task: Task, plan: GenericPlan) -> Launch:
    """Return the launch for a blueprint."""
    a, b = task.operands()
    return launch(
        tiled_matmul,
        Grid(task.tiles(plan.height, plan.width), (plan.across, plan.down, 1), task.info.planes[0]),
        task.effort(f"matmul tiled {plan.height}x{plan.width}"),
        a=a, b=b, c=task.result(), sizes=task.sizes(), strides=task.strides(),
        batches=task.batches(), plan=plan, a_along=task.product.a.depth == 1,
        b_along=task.product.b.depth == 1, **task.following(),
    )  # fmt: skip
