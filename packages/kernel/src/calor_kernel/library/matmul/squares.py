"""Products by matrix instructions of small squares, whose factors lie in shared memory as float32.

Requirements: any strides, sizes and float types, which become float32 on their way to shared
memory, so that products are exact and sums are of float32; a plane has squares of sums in
registers, and reads each factor once for a row or column of them; two tiles in turn, so that the
next is loaded while this one is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from calor.dtypes import bfloat16, float16, float32, int64
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import (
    barrier,
    cube_position,
    fragment,
    helper,
    kernel,
    mma,
    plane_position,
    shared,
    unit_index,
)
from calor_kernel.language.matrices import SHAPES, MatrixShape
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.tiled import fill_tile
from calor_kernel.library.work import Argument, Build, Launch, Output
from calor_kernel.runtime.device import DeviceInfo

# The instruction, which is in DeviceInfo.matrices of devices that have it.
SQUARE: Final = "simdgroup_8x8x8_float32"
_FLOATS: Final = (float16, bfloat16, float32)
# Rows and columns of a tile, what it takes of the summed axis, planes down and across.
_PLANS: Final = ((64, 64, 16, 2, 2), (32, 32, 16, 2, 2))


@dataclass(frozen=True, slots=True)
class Squares:
    """How a product is computed: ``down`` by ``across`` planes share a tile.

    A tile has ``rows`` by ``columns`` sums, and takes ``depth`` of the summed axis at a time.
    ``a_along``, ``b_along``: whether the operand is dense along that axis.
    """

    rows: int
    columns: int
    depth: int
    down: int
    across: int
    a_along: bool
    b_along: bool

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return SHAPES[SQUARE]

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.shape.lanes * self.down * self.across

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return 2 * int(float32.itemsize) * self.depth * (self.rows + self.columns)


def squares(product: Product, places: Sequence[Argument], info: DeviceInfo) -> list[Launch]:
    """Return the launch that computes a product of floats by squares, where a device has them."""
    a, b = product.a, product.b
    if SQUARE not in info.matrices or {a.dtype, b.dtype, product.dtype} - {*_FLOATS}:
        return []
    for number, made in enumerate(_PLANS):
        plan = Squares(*made, a.depth == 1, b.depth == 1)
        cubes = (-(-product.n // plan.columns), -(-product.m // plan.rows), product.batches)
        if cubes[0] * cubes[1] * cubes[2] >= info.cores or number == len(_PLANS) - 1:
            break
    size, stride = Scalar(int64, nonnegative=True), Scalar(int64)
    build = Build(
        matmul_squares,
        (
            *(Buffer(d, writable=False) for d in (a.dtype, b.dtype)),
            Buffer(product.dtype),
            *(size,) * 3,
            *(stride,) * 4,
            size,
            *(stride,) * 6,
        ),
        (("plan", plan),),
        cube=(plan.units, 1, 1),
        plane=plan.shape.lanes,
    )
    numbers = (product.m, product.n, product.k, a.free, a.depth, b.depth, b.free, product.batch[1])
    arguments = (*places, Output(0), *numbers, *a.batch, a.offset, *b.batch, b.offset)
    label = f"matmul squares {plan.rows}x{plan.columns}"
    return [Launch(build, cubes, arguments, product.flops, product.nbytes, label)]


@kernel
def matmul_squares(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_row: Any,
    a_depth: Any,
    b_depth: Any,
    b_column: Any,
    inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    *,
    plan: Squares,
) -> None:
    """Compute a tile of c, whose units are planes of one axis."""
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    left = shared(2 * plan.rows * plan.depth, float32)
    right = shared(2 * plan.columns * plan.depth, float32)
    unit, plane = unit_index(), plane_position()
    high, wide = plan.rows // plan.down, plan.columns // plan.across
    row, column = plane // plan.across * high, plane % plan.across * wide
    shape = plan.shape
    sums = [[fragment(shape, "c") for _ in range(wide // shape.n)] for _ in range(high // shape.m)]
    side = 0
    for begin in range(0, k, plan.depth):
        l_at, r_at = side * (plan.rows * plan.depth), side * (plan.columns * plan.depth)
        fill_tile(
            left, l_at, a, a_start, first_row, m, begin, k, a_row, a_depth,
            unit, plan.units, plan.rows, plan.depth, plan.a_along, float32,
        )  # fmt: skip
        fill_tile(
            right, r_at, b, b_start, first_column, n, begin, k, b_column, b_depth,
            unit, plan.units, plan.columns, plan.depth, plan.b_along, float32,
        )  # fmt: skip
        barrier()
        multiply_squares(sums, left, right, l_at + row, r_at + column, plan)
        # The other tile is filled next; this one is not written before all have passed the barrier.
        side = 1 - side
    for i in range(high // shape.m):
        for j in range(wide // shape.n):
            top, start = first_row + row + i * shape.m, first_column + column + j * shape.n
            place = c.at((batch * m + top) * n + start)
            sums[i][j].store(place, (n, 1), limits=(m - top, n - start))


@helper
def multiply_squares(
    sums: Any, left: Any, right: Any, left_at: Any, right_at: Any, plan: Any
) -> None:
    """Add the products of a plane's rows and columns of two tiles, of which ``depth`` is slow."""
    shape = plan.shape
    for p in range(0, plan.depth, shape.k):
        lefts = [
            fragment(shape, "a").load(
                left.at(left_at + p * plan.rows + i * shape.m), (1, plan.rows)
            )
            for i in range(len(sums))
        ]
        rights = [
            fragment(shape, "b").load(
                right.at(right_at + p * plan.columns + j * shape.n), (plan.columns, 1)
            )
            for j in range(len(sums[0]))
        ]
        for i in range(len(sums)):
            for j in range(len(sums[0])):
                mma(lefts[i], rights[j], sums[i][j])
