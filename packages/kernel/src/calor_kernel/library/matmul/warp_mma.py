"""Products by matrix instructions of planes that load their operands from shared memory.

Requirements: any strides, sizes and float types. Operands are converted for the instruction when
they are stored to shared memory, where the elements of one lane are adjacent, so that a lane loads
them in one access. Sums are float32. A plane keeps a block of tiles of sums in registers, and reads
each operand once for a row or column of them. Two tiles in shared memory alternate: one is loaded
while the other is multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from calor.dtypes import DType, bfloat16, float16, float32, int64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import (
    barrier,
    constant,
    cube_position,
    fragment,
    helper,
    kernel,
    mma,
    plane_position,
    shared,
    splat,
    unit_index,
)
from calor_kernel.language.matrices import SHAPES, MatrixShape
from calor_kernel.library.gemm.mma import SQUARE, instruction_for
from calor_kernel.library.matmul.problem import Operand, Product

_FLOATS: Final = (float16, bfloat16, float32)
# Rows and columns of a tile, terms of a step, planes down and across.
PLANS: Final = {
    SQUARE: ((64, 64, 16, 2, 2), (32, 32, 16, 2, 2)),
    "mfma_32x32x2_float32": ((128, 128, 16, 2, 2), (64, 64, 16, 2, 2)),
    "mfma_32x32x8_float16": ((128, 128, 32, 2, 2), (64, 64, 32, 2, 2)),
    "mfma_32x32x8_bfloat16": ((128, 128, 32, 2, 2), (64, 64, 32, 2, 2)),
    "wmma_16x16x16_float16": ((128, 128, 32, 4, 2), (64, 64, 32, 2, 2)),
    "wmma_16x16x16_bfloat16": ((128, 128, 32, 4, 2), (64, 64, 32, 2, 2)),
}
# Elements of an access of 16 bytes, for two-byte types.
_ACCESS: Final = 8


@dataclass(frozen=True, slots=True)
class Squares:
    """A plan: ``down`` by ``across`` planes share a tile.

    A tile has ``rows`` by ``columns`` sums, and a step has ``depth`` terms. ``a_along``,
    ``b_along``: whether the operand is dense along the K axis; ``a_access``, ``b_access``: the
    elements of an access. ``instruction``: the name of the shape.
    """

    rows: int
    columns: int
    depth: int
    down: int
    across: int
    a_along: bool
    b_along: bool
    a_access: int = 1
    b_access: int = 1
    instruction: str = SQUARE

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return SHAPES[self.instruction]

    @property
    def factor(self) -> DType:
        """The dtype of its operands."""
        return self.shape.a_dtype

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.shape.lanes * self.down * self.across

    @property
    def deep(self) -> bool:
        """Whether a lane's elements are adjacent along the K axis, which is the dense one then."""
        a, b = self.shape.a[1], self.shape.b[1]
        return a.size > 1 and a(1) == self.shape.m and b(1) == 1

    def steps(self, size: int) -> tuple[int, int]:
        """Return the strides of a tile: of rows or columns, and of terms."""
        # A line is padded by an access, so that lines read together differ in banks.
        return (self.depth + _ACCESS, 1) if self.deep else (1, size)

    def elements(self, size: int) -> int:
        """Return the number of elements of a tile."""
        return size * (self.depth + _ACCESS if self.deep else self.depth)

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        count = self.elements(self.rows) + self.elements(self.columns)
        return 2 * int(self.factor.itemsize) * count


def instruction_of(product: Product, info: DeviceInfo) -> str | None:
    """Return the device's instruction for a product of floats, None if it has none."""
    types = {product.a.dtype, product.b.dtype}
    if not info.matrices or {*types, product.dtype} - {*_FLOATS}:
        return None
    return instruction_for(types, info) or None


def _access(operand: Operand, size: int, k: int) -> int:
    """Return the elements of an access of an operand: 16 bytes, or one element."""
    count = 16 // int(operand.dtype.itemsize)
    dense, other = (k, operand.free) if operand.depth == 1 else (size, operand.depth)
    if 1 not in (operand.depth, operand.free):
        return 1
    numbers = (dense, other, operand.offset, *operand.batch)
    return count if all(number % count == 0 for number in numbers) else 1


def squares(product: Product, places: Sequence[Argument], info: DeviceInfo) -> list[Launch]:
    """Return the launch by warp MMA, if the device has an instruction."""
    a, b = product.a, product.b
    instruction = instruction_of(product, info)
    if instruction is None:
        return []
    for number, made in enumerate(PLANS[instruction]):
        plan = Squares(
            *made,
            a.depth == 1,
            b.depth == 1,
            _access(a, product.m, product.k),
            _access(b, product.n, product.k),
            instruction,
        )
        cubes = (-(-product.n // plan.columns), -(-product.m // plan.rows), product.batches)
        if cubes[0] * cubes[1] * cubes[2] >= info.cores or number == len(PLANS[instruction]) - 1:
            break
    size, one = Scalar(int64, nonnegative=True), Scalar(int64)
    by_a, by_b = (Scalar(int64, divisible=access) for access in (plan.a_access, plan.b_access))
    build = Build(
        matmul_squares,
        (
            Buffer(a.dtype, writable=False, align=plan.a_access * a.dtype.itemsize),
            Buffer(b.dtype, writable=False, align=plan.b_access * b.dtype.itemsize),
            Buffer(product.dtype),
            *(size,) * 3,
            *((by_a, one) if a.depth == 1 else (one, by_a)),
            *((one, by_b) if b.depth == 1 else (by_b, one)),
            size,
            *(by_a,) * 3,
            *(by_b,) * 3,
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
    """Compute a tile of C; the units of a cube are planes along one axis."""
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    l_size, r_size = plan.elements(plan.rows), plan.elements(plan.columns)
    left = shared(2 * l_size, plan.factor, align=16)
    right = shared(2 * r_size, plan.factor, align=16)
    plane = plane_position()
    high, wide = plan.rows // plan.down, plan.columns // plan.across
    row, column = plane // plan.across * high, plane % plan.across * wide
    shape = plan.shape
    sums = [[fragment(shape, "c") for _ in range(wide // shape.n)] for _ in range(high // shape.m)]
    side = 0
    for begin in range(0, k, plan.depth):
        l_at, r_at = side * l_size, side * r_size
        fill_square(left, l_at, a, a_start, first_row, m, begin, k, a_row, a_depth, plan, True)
        fill_square(
            right, r_at, b, b_start, first_column, n, begin, k, b_column, b_depth, plan, False
        )
        barrier()
        multiply_squares(sums, left.at(l_at), right.at(r_at), row, column, plan)
        # The other tile is filled next. This one is overwritten only after the barrier.
        side = 1 - side
    for i in range(high // shape.m):
        for j in range(wide // shape.n):
            top, start = first_row + row + i * shape.m, first_column + column + j * shape.n
            place = c.at((batch * m + top) * n + start)
            sums[i][j].store(place, (n, 1), limits=(m - top, n - start))


@helper
def multiply_squares(
    sums: Any, left: Any, right: Any, row: Any, column: Any, plan: Squares
) -> None:
    """Add the products of a plane's rows and columns of two tiles."""
    shape = plan.shape
    down, deep = plan.steps(plan.rows)
    across, deep_b = plan.steps(plan.columns)
    for p in range(0, plan.depth, shape.k):
        lefts = [
            fragment(shape, "a").load(left.at((row + i * shape.m) * down + p * deep), (down, deep))
            for i in range(len(sums))
        ]
        rights = [
            fragment(shape, "b").load(
                right.at((column + j * shape.n) * across + p * deep_b), (deep_b, across)
            )
            for j in range(len(sums[0]))
        ]
        for i in range(len(sums)):
            for j in range(len(sums[0])):
                mma(lefts[i], rights[j], sums[i][j])


@helper
def fill_square(
    tile: Any,
    at: Any,
    source: Any,
    start: Any,
    first: Any,
    count: Any,
    begin: Any,
    k: Any,
    stride: Any,
    depth_stride: Any,
    plan: Squares,
    left: bool,
) -> None:
    """Fill a tile from an operand in accesses along its dense axis, with 0 beyond its end."""
    size, access, along = (
        (plan.rows, plan.a_access, plan.a_along)
        if left
        else (plan.columns, plan.b_access, plan.b_along)
    )
    depth, factor, (step, deep) = plan.depth, plan.factor, plan.steps(size)
    lines = (depth if along else size) // access
    pieces = size * depth // access
    for turn in range(-(-pieces // plan.units)):
        i = unit_index() + turn * plan.units
        if along:
            place, p = i // lines, i % lines * access
        else:
            place, p = i % lines * access, i // lines
        if (pieces % plan.units == 0) or (i < pieces):
            inside = (first + place < count) & (begin + p < k)
            index = start + (first + place) * stride + (begin + p) * depth_stride
            read = splat(constant(0, source.dtype), access)
            # A whole access is inside or outside: if it has several elements, it divides the sizes.
            if inside:
                read = source.load(index, access)
            taken = read.to(factor)
            target = at + place * step + p * deep
            if access == 1 or (along and deep == 1) or (not along and step == 1):
                tile.store(target, taken)
            else:
                for lane in range(access):
                    tile.store(target + lane * (deep if along else step), taken[lane])
