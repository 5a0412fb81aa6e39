"""Products by asynchronous warp-group matrix instructions, fed by TMA.

Requirements: one unit issues the TMA copies and the other warp groups only multiply, so that the
matrix units never wait for addresses. The products of a step still run when the next step begins. A
cube is persistent, so the next tile's copies run while TMA writes this one's sums, in whole lines.
Each warp group writes its own sums while the others' products continue. (Warp specialization after
CUTLASS's kernels for Hopper; the gain was measured by P. Shankhdhar, "Outperforming cuBLAS on H100:
a Worklog", 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    Layout,
    Mbarriers,
    SharedMatrix,
    Swizzle,
    Swizzled,
    cube_count,
    cube_position,
    fragment,
    helper,
    kernel,
    launch_attributes,
    role,
    shared,
    tensor_map,
    unit_index,
    wait_puts,
)
from calor_kernel.language.matrices import MatrixShape, wgmma_64
from calor_kernel.library.gemm.warpgroup import ASKING, LINE, MULTIPLYING, Ring
from calor_kernel.library.matmul.register_a import rows_in_registers
from calor_kernel.library.matmul.split_k import Shares, WholeTiles, hand_over, take_over
from calor_kernel.library.matmul.tma_store import PARTS, write_tile

# Itemsize of operands that the matrix unit reads from shared memory along the K axis alone.
FOUR = 4


@dataclass(frozen=True, slots=True)
class Boxes:
    """A plan: each warp group has 64 of the ``rows``, and all ``columns``.

    A step is a line of the K axis, and ``stages`` of them are in shared memory. ``a_along``,
    ``b_along``: whether the operand is dense along that axis. ``band``: the rows of tiles that are
    computed at the same time. ``result``: the dtype of c. ``formats``: the float8 formats of bytes.
    """

    dtype: DType
    result: DType
    rows: int
    columns: int
    stages: int
    a_along: bool
    b_along: bool
    band: int
    formats: tuple[DType, DType] | None = None

    @property
    def depth(self) -> int:
        """The elements of the K axis in a step."""
        return LINE // int(self.dtype.itemsize)

    @property
    def transposed(self) -> bool:
        """Whether a goes through registers; then the result is the transpose of the product."""
        return not self.a_along and int(self.dtype.itemsize) == FOUR

    @property
    def groups(self) -> int:
        """The consumer warp groups."""
        return self.rows // 64

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 128 * (self.groups + 1)

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return wgmma_64(self.columns, self.dtype, self.formats)

    @property
    def part(self) -> int:
        """The columns of sums that are written at a time."""
        return LINE // int(self.result.itemsize)

    @property
    def pending(self) -> int:
        """The number of copies that may be in flight when the next part is stored."""
        each = 64 // self.part if self.transposed else 1
        return 0 if self.columns // self.part % PARTS else (PARTS - 1) * each

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return LINE * (self.stages * (self.rows + self.columns) + PARTS * self.rows) + 1024

    def swizzle(self, dtype: DType) -> Swizzle:
        """Return the swizzle of a line's pieces of 16 bytes."""
        return Swizzle(3, {1: 4, 2: 3, 4: 2}[int(dtype.itemsize)], 3)

    def layout(self, first: bool) -> Swizzled:
        """Return the layout of (row, column) in the tile of a, or of b."""
        size, along = (self.rows, self.a_along) if first else (self.columns, self.b_along)
        line = self.depth
        deep: tuple[Any, Any] = (line, line)
        place: tuple[Any, Any] = ((line, size // line), (1, line * line))
        if along:
            deep, place = (line, 1), (size, line)
        sides = (place, deep) if first else (deep, place)
        return Swizzled(self.swizzle(self.dtype), Layout(*map(tuple, zip(*sides, strict=True))))

    def box(self, first: bool) -> tuple[int, int]:
        """Return the rows and columns of a copy, in the operand's own layout."""
        size, along = (self.rows, self.a_along) if first else (self.columns, self.b_along)
        return (size if along else self.depth, self.depth)


@kernel
def matmul_boxes(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_stride: Any,
    b_stride: Any,
    c_stride: Any,
    batches: Any,
    inner: Any,
    a_outer: Any,
    a_inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    b_outer: Any,
    b_inner: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    *memory: Any,
    plan: Boxes,
) -> None:
    """Compute tiles of c. ``a_stride``, ``b_stride``: of the axis that is not dense.

    ``a_outer``, ``a_inner``, ``b_outer``, ``b_inner``: the number of an operand's products along
    the two axes of ``batches`` and ``inner``, or 1 if all products share it. ``memory``: the memory
    of exchanged sums and the number of shared tiles, for split-K.
    """
    launch_attributes(cubes_per_core=1)
    left_at, right_at = plan.layout(True), plan.layout(False)
    a_map = operand_map(
        a, (a_outer, a_inner), (m, k) if plan.a_along else (k, m),
        (a_outer_stride, a_inner_stride, a_stride), plan.box(True), plan,
    )  # fmt: skip
    b_map = operand_map(
        b, (b_outer, b_inner), (n, k) if plan.b_along else (k, n),
        (b_outer_stride, b_inner_stride, b_stride), plan.box(False), plan,
    )  # fmt: skip
    box = (1, plan.part if plan.transposed else 64, plan.part)
    c_at = Swizzled(plan.swizzle(plan.result), Layout(box, (0, plan.part, 1)))
    sizes = (n, m) if plan.transposed else (m, n)
    c_map = tensor_map(c, (batches, *sizes), (c_stride, sizes[1], 1), box, c_at)
    a_size, b_size = plan.rows * plan.depth, plan.columns * plan.depth
    part_size = 64 * plan.part
    left = shared(plan.stages * a_size, plan.dtype, align=1024)
    right = shared(plan.stages * b_size, plan.dtype, align=1024)
    parts = shared(PARTS * plan.groups * part_size, plan.result, align=1024)
    full = Mbarriers(plan.stages, 1, meet=False)
    empty = Mbarriers(plan.stages, 4 * plan.groups)
    ring = Ring(
        left, right, (a_size, b_size), right_at, full, empty, plan.stages, plan.depth,
        plan.transposed,
    )  # fmt: skip
    down, across = -(-m // plan.rows), -(-n // plan.columns)
    whole = down * across
    first = cube_position(0)
    tiles, step = whole * batches, cube_count(0)
    # At least one step, so that sums always come from products. If the compiler sees another way to
    # them, it reads them early and serialises the products.
    deep = max(k, 1)
    with role(0, registers=ASKING[plan.groups]):
        if unit_index() == 0:
            nbytes = (a_size + b_size) * plan.dtype.itemsize

            def copy(
                stage: Any, a_from: Any, row: Any, b_from: Any, column: Any, begin: Any
            ) -> None:
                to = left.at(stage * a_size)
                fetch(a_map, to, a_from, row, begin, full, stage, plan, True)
                to = right.at(stage * b_size)
                fetch(b_map, to, b_from, column, begin, full, stage, plan, False)

            schedule = schedule_of(first, step, tiles, deep, memory, plan)
            stage, parity = first * 0, first * 0 + 1
            for turn in schedule.turns():
                piece = schedule.piece(turn)
                row, column, batch = place_of_tile(piece.tile, whole, down, across, plan)
                outer, within = batch // inner, batch % inner
                a_from = (min(outer, a_outer - 1), min(within, a_inner - 1))
                b_from = (min(outer, b_outer - 1), min(within, b_inner - 1))
                for ahead in range(0, piece.length, plan.depth):
                    begin = piece.start + ahead
                    stage, parity = ring.load(
                        stage, parity, nbytes, copy, a_from, row, b_from, column, begin
                    )
    with role(1, plan.groups, registers=MULTIPLYING[plan.groups]):
        shape = plan.shape
        unit = unit_index() % 128
        group = unit_index() // 128 - 1
        top = group * 64
        schedule = schedule_of(first, step, tiles, deep, memory, plan)
        stage, parity = first * 0, first * 0

        def left_of(stage: Any) -> Any:
            lefts = left_factors(left, stage * a_size, left_at, top, plan)
            return lambda p: lefts[p // shape.k]

        for turn in schedule.turns():
            piece = schedule.piece(turn)
            row, column, batch = place_of_tile(piece.tile, whole, down, across, plan)
            sums = fragment(shape, "c")
            stage, parity = ring.multiply(
                sums, shape, piece.length, plan.depth, stage, parity, left_of
            )
            if schedule.shared and not piece.ends:
                hand_over(schedule, sums, group, unit, plan)
            else:
                if schedule.shared:
                    take_over(schedule, sums, piece, group, unit, plan)
                write_tile(c_map, parts, sums, (batch, row, column), group, plan)
        wait_puts()


def schedule_of(
    first: Any, step: Any, tiles: Any, deep: Any, memory: tuple[Any, ...], plan: Any
) -> WholeTiles | Shares:
    """Return the schedule of cube ``first`` of ``step``; ``memory``: that of exchanged sums.

    Each role computes it anew, so that its numbers occupy no registers across both roles.
    """
    if memory:
        return Shares(first, step, deep, plan.depth, memory)
    return WholeTiles(first, step, tiles, deep)


@helper
def left_factors(left: Any, at: Any, placed: Any, top: Any, plan: Any) -> list[Any]:
    """Return a step's fragments of a warp group's rows, in shared memory or in registers."""
    if plan.transposed:
        return rows_in_registers(left, at + top * plan.depth, plan)
    lefts, shape = SharedMatrix(left.at(at), placed), plan.shape
    return [lefts.tile((shape.m, shape.k), (top, p)) for p in range(0, plan.depth, shape.k)]


@helper
def operand_map(operand: Any, batches: Any, sizes: Any, strides: Any, box: Any, plan: Any) -> Any:
    """Return an operand's tensor map: two axes of products, and two more, the last one dense."""
    whole = (1, 1, *box)
    at = Swizzled(plan.swizzle(plan.dtype), Layout(whole, (0, 0, box[1], 1)))
    rounded = plan.shape.tf32
    return tensor_map(operand, (*batches, *sizes), (*strides, 1), whole, at, rounded=rounded)


@helper
def fetch(
    source: Any,
    target: Any,
    batch: Any,
    across: Any,
    deep: Any,
    full: Any,
    stage: Any,
    plan: Any,
    first: bool,
) -> None:
    """Issue the copies of an operand for a step: one if it is dense along the K axis."""
    size, along = (plan.rows, plan.a_along) if first else (plan.columns, plan.b_along)
    if along:
        source.fetch(target, (*batch, across, deep), full, stage)
    else:
        for i in range(size // plan.depth):
            to = target.at(i * plan.depth * plan.depth)
            source.fetch(to, (*batch, deep, across + i * plan.depth), full, stage)


@helper
def place_of_tile(tile: Any, whole: Any, down: Any, across: Any, plan: Any) -> tuple[Any, Any, Any]:
    """Return a tile's row, column and product: bands of rows, from top to bottom."""
    batch, number = tile // whole, tile % whole
    of_band = across * plan.band
    first = number // of_band * plan.band
    rows = min(down - first, plan.band)
    place = number % of_band
    return (first + place % rows) * plan.rows, place // rows * plan.columns, batch
