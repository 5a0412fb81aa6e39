"""Products by matrix instructions that run beside warp groups, on tiles in shared memory.

Requirements: as :mod:`fragments`, on devices whose matrix units read shared memory themselves; a
step's products are waited for within the step, because the compiler runs those that outlast it one
after another, so that two cubes share a core, of which one computes while the other waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    Layout,
    Pipeline,
    SharedMatrix,
    Swizzle,
    Swizzled,
    Tile,
    cube_count,
    cube_position,
    fragment,
    group_of,
    helper,
    issue_mma,
    kernel,
    wait_mma,
)
from calor_kernel.language.matrices import MatrixShape, wgmma_64
from calor_kernel.library.matmul.fragments import ACCESS, take_tiles

# Cubes that run at the same time take this many rows of tiles, so that they share what they read.
BAND = 8
# A line of shared memory is this many elements of two bytes, and eight lines are a block.
LINE = 64
_SWIZZLE = Swizzle(3, 3, 3)


@dataclass(frozen=True, slots=True)
class Groups:
    """How a product is computed: each warp group has 64 of the ``rows``, and all ``columns``.

    ``depth`` of the summed axis is a step, of which ``stages`` are in memory. ``a_along``,
    ``b_along``: whether the operand is dense along that axis.
    """

    dtype: DType
    rows: int
    columns: int
    depth: int
    stages: int
    a_along: bool
    b_along: bool

    @property
    def access(self) -> int:
        """The elements of an access."""
        return ACCESS // int(self.dtype.itemsize)

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 128 * (self.rows // 64)

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return wgmma_64(self.columns, self.dtype)

    def layout(self, first: bool) -> Swizzled:
        """Return where (row, column) of the tile of a, or of b, lie: in lines of 128 bytes."""
        size, along = (self.rows, self.a_along) if first else (self.columns, self.b_along)
        deep: tuple[Any, Any] = (self.depth, LINE)
        place: tuple[Any, Any] = ((LINE, size // LINE), (1, self.depth * LINE))
        if along:
            deep, place = (self.depth, 1), (size, LINE)
        sides = (place, deep) if first else (deep, place)
        return Swizzled(_SWIZZLE, Layout(*map(tuple, zip(*sides, strict=True))))

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return self.stages * self.depth * (self.rows + self.columns) * int(self.dtype.itemsize)


@kernel
def matmul_groups(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_stride: Any,
    b_stride: Any,
    inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    *,
    plan: Groups,
) -> None:
    """Compute a tile of c. ``a_stride``, ``b_stride``: of the axis that is not dense."""
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    down, across = tile_of_cube()
    first_row, first_column = down * plan.rows, across * plan.columns
    shape, left_at, right_at = plan.shape, plan.layout(True), plan.layout(False)
    tiles = [Tile(plan.dtype, at, align=1024) for at in (left_at, right_at)]
    pipe = Pipeline(plan.stages, *tiles, how="async")
    row = group_of(shape) * shape.m
    sums = fragment(shape, "c")
    ahead = plan.stages - 1
    for step in range(ahead):
        pipe.acquire()
        take_tiles(
            pipe, plan, a, b, a_start, b_start, a_stride, b_stride, first_row, first_column,
            m, n, k, step * plan.depth,
        )  # fmt: skip
        pipe.commit()
    for begin in range(0, k, plan.depth):
        pipe.wait()
        pipe.acquire()
        take_tiles(
            pipe, plan, a, b, a_start, b_start, a_stride, b_stride, first_row, first_column,
            m, n, k, begin + ahead * plan.depth,
        )  # fmt: skip
        pipe.commit()
        left, right = SharedMatrix(pipe.stage(0), left_at), SharedMatrix(pipe.stage(1), right_at)
        issue_mma(
            sums,
            [
                (left.tile((shape.m, shape.k), (row, p)), right.tile((shape.k, shape.n), (p, 0)))
                for p in range(0, plan.depth, shape.k)
            ],
        )
        wait_mma(sums)
        pipe.release()
    top = first_row + row
    place = c.at((batch * m + top) * n + first_column)
    if (first_row + plan.rows <= m) & (first_column + plan.columns <= n):
        sums.store(place, (n, 1))
    else:
        sums.store(place, (n, 1), limits=(m - top, n - first_column))


@helper
def tile_of_cube() -> tuple[Any, Any]:
    """Return the row and column of a cube's tile: along bands of rows, each from top to bottom."""
    number = cube_position(0) + cube_count(0) * cube_position(1)
    whole = cube_count(0) * BAND
    first = number // whole * BAND
    rows = min(cube_count(1) - first, BAND)
    place = number % whole
    return first + place % rows, place // rows
