"""Products by matrix instructions of planes that load their operands from shared memory.

Requirements: any strides, sizes and float types. Operands are converted for the instruction when
they are stored to shared memory, where the elements of one lane are adjacent, so that a lane loads
them in one access. Sums are float32. A plane keeps a block of tiles of sums in registers, and reads
each operand once for a row or column of them. Two tiles in shared memory alternate: one is loaded
while the other is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from calor.dtypes import DType, bfloat16, float16, float32
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.language.matrices import SHAPES, MatrixShape
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, end_sums
from calor_kernel.library.gemm.lines import StridedLines
from calor_kernel.library.gemm.mma import SQUARE, Sums, instruction_for, sums_of
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.task import Batches, Given, Sizes, Strides, Task

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
class WarpMmaPlan:
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
    return count if operand.in_accesses(count, size, k) else 1


def warp_mma_launch(task: Task) -> Launch:
    """Return the launch by the device's instruction."""
    product, info = task.product, task.info
    a, b = product.a, product.b
    instruction = instruction_of(product, info)
    assert instruction is not None
    by_a, by_b = _access(a, product.m, product.k), _access(b, product.n, product.k)
    for made in PLANS[instruction]:
        plan = WarpMmaPlan(*made, a.depth == 1, b.depth == 1, by_a, by_b, instruction)
        if prod(task.tiles(plan.rows, plan.columns)) >= info.cores:
            break
    a_rows, b_columns = Multiple(a.free, by_a), Multiple(b.free, by_b)
    a_terms, b_terms = Multiple(a.depth, by_a), Multiple(b.depth, by_b)
    strides: Strides[Given] = Strides(
        *((a_rows, a.depth) if a.depth == 1 else (a.free, a_terms)),
        *((b.depth, b_columns) if b.depth == 1 else (b_terms, b.free)),
    )
    left, right = task.operands(by_a * a.dtype.itemsize, by_b * b.dtype.itemsize)
    return launch(
        matmul_warp_mma,
        Grid(task.tiles(plan.rows, plan.columns), (plan.units, 1, 1), plan.shape.lanes),
        task.effort(f"matmul warp MMA {plan.rows}x{plan.columns}"),
        a=left, b=right, c=task.result(), sizes=task.sizes(), strides=strides,
        batches=task.batches(by_a, by_b), plan=plan, **task.following(),
    )  # fmt: skip


@kl.kernel
def matmul_warp_mma(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    strides: Strides[kl.Number],
    batches: Batches[kl.Number],
    after: After | None,
    *,
    plan: WarpMmaPlan,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of C; the units of a cube are planes along one axis."""
    m, n, k = sizes.m, sizes.n, sizes.k
    batch = kl.cube_position(2)
    a_start, b_start = batches.starts(batch)
    first_row, first_column = kl.cube_position(1) * plan.rows, kl.cube_position(0) * plan.columns
    l_size, r_size = plan.elements(plan.rows), plan.elements(plan.columns)
    left = kl.shared(2 * l_size, plan.factor, align=16)
    right = kl.shared(2 * r_size, plan.factor, align=16)
    plane = kl.plane_position()
    high, wide = plan.rows // plan.down, plan.columns // plan.across
    row, column = plane // plan.across * high, plane % plan.across * wide
    sums = sums_of(plan.shape, high // plan.shape.m, wide // plan.shape.n)
    a_tile = StridedLines(a, a_start, first_row, m, strides.a_row, strides.a_depth)
    b_tile = StridedLines(b, b_start, first_column, n, strides.b_column, strides.b_depth)
    side = 0
    for begin in kl.range(0, k, plan.depth):
        l_at, r_at = side * l_size, side * r_size
        fill_tile(left, l_at, a_tile, begin, k, plan, True)
        fill_tile(right, r_at, b_tile, begin, k, plan, False)
        kl.barrier()
        multiply_tiles(sums, left.at(l_at), right.at(r_at), row, column, plan)
        # The other tile is filled next. This one is overwritten only after the barrier.
        side = 1 - side
    if epilogue is not None and after is not None:
        ends = Writer(epilogue, after, c, batch)
        end_sums(ends, sums, batch, (first_row + row, first_column + column), (m, n))
        return
    for i in kl.range(high // plan.shape.m):
        for j in kl.range(wide // plan.shape.n):
            top = first_row + row + i * plan.shape.m
            start = first_column + column + j * plan.shape.n
            place = c.at((batch * m + top) * n + start)
            sums[i][j].store(place, (n, 1), limits=(m - top, n - start))


@kl.helper
def multiply_tiles(
    sums: Sums,
    left: kl.Pointer,
    right: kl.Pointer,
    row: kl.Index,
    column: kl.Index,
    plan: WarpMmaPlan,
) -> None:
    """Add the products of a plane's rows and columns of two tiles."""
    shape = plan.shape
    down, deep = plan.steps(plan.rows)
    across, deep_b = plan.steps(plan.columns)
    for p in kl.range(0, plan.depth, shape.k):
        lefts = [
            kl.fragment(shape, "a").load(
                left.at((row + i * shape.m) * down + p * deep), (down, deep)
            )
            for i in kl.range(len(sums))
        ]
        rights = [
            kl.fragment(shape, "b").load(
                right.at((column + j * shape.n) * across + p * deep_b), (deep_b, across)
            )
            for j in kl.range(len(sums[0]))
        ]
        for i in kl.range(len(sums)):
            for j in kl.range(len(sums[0])):
                kl.mma(lefts[i], rights[j], sums[i][j])


@kl.helper
def fill_tile(
    tile: kl.Pointer,
    at: kl.Index,
    lines: StridedLines,
    begin: kl.Index,
    k: kl.Index,
    plan: WarpMmaPlan,
    left: bool,
) -> None:
    """Fill a tile from an operand in accesses along its dense axis, with 0 beyond its end."""
    size, access, along = (
        (plan.rows, plan.a_access, plan.a_along)
        if left
        else (plan.columns, plan.b_access, plan.b_along)
    )
    source = lines.source
    depth, factor, (step, deep) = plan.depth, plan.factor, plan.steps(size)
    pieces = size * depth // access
    per_line = (depth if along else size) // access
    for turn in kl.range(-(-pieces // plan.units)):
        i = kl.unit_index() + turn * plan.units
        if along:
            place, p = i // per_line, i % per_line * access
        else:
            place, p = i % per_line * access, i // per_line
        if (pieces % plan.units == 0) or (i < pieces):
            inside = (lines.first + place < lines.count) & (begin + p < k)
            index = lines.index(lines.first + place, begin + p)
            read = kl.splat(kl.constant(0, source.dtype), access)
            # A whole access is inside or outside: if it has several elements, it divides the sizes.
            if inside:
                read = source.load(index, access)
            taken = read.to(factor)
            target = at + place * step + p * deep
            if access == 1 or (along and deep == 1) or (not along and step == 1):
                tile.store(target, taken)
            else:
                for lane in kl.range(access):
                    tile.store(target + lane * (deep if along else step), taken[lane])
