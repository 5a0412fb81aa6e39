"""Products by asynchronous warp-group matrix instructions, fed by TMA.

Requirements: one unit issues the TMA copies and the other warp groups only multiply, so that the
matrix units never wait for addresses. The products of a step still run when the next step begins. A
cube is persistent, so the next tile's copies run while TMA writes this one's sums, in whole lines.
Each warp group writes its own sums while the others' products continue. (Warp specialization after
CUTLASS's kernels for Hopper; the gain was measured by P. Shankhdhar, "Outperforming cuBLAS on H100:
a Worklog", 2024.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from calor.dtypes import int64
from calor_cuda.kernels.matmul.register_a import rows_in_registers
from calor_cuda.kernels.matmul.split_k import (
    Shares,
    Split,
    WholeTiles,
    hand_over,
    take_over,
)
from calor_cuda.kernels.matmul.tma_store import write_tile
from calor_cuda.kernels.matmul.warpgroup_tma_plan import PARTS, TmaPlan
from calor_cuda.kernels.warpgroup import ASKING, MULTIPLYING, Ring
from calor_kernel.language import (
    Fragment,
    In,
    Index,
    InOut,
    Layout,
    Mbarriers,
    Number,
    Out,
    Pointer,
    SharedMatrix,
    Size,
    SizeOf,
    Swizzled,
    cube_count,
    cube_position,
    fragment,
    helper,
    kernel,
    launch_attributes,
    max,
    min,
    range,
    role,
    shared,
    tensor_map,
    unit_index,
    wait_puts,
)
from calor_kernel.language.declared import Quantity
from calor_kernel.language.tensor_maps import TensorMap
from calor_kernel.library.matmul.task import Sizes

N = TypeVar("N")
Pair = tuple[Index, Index]
LeftFactor = Fragment | SharedMatrix


Wide = Annotated[Number, Quantity("Stride", dtype=int64)]
WideOf = Annotated[N, Quantity("Stride", dtype=int64)]


@dataclass(frozen=True, slots=True)
class Products(Generic[N]):
    """An operand's products along both batch axes, 1 if all products share it; their strides."""

    outer: SizeOf[N]
    inner: SizeOf[N]
    outer_stride: WideOf[N]
    inner_stride: WideOf[N]


@kernel
def matmul_tma(
    a: In,
    b: In,
    c: Out,
    sizes: Sizes[Number],
    a_stride: Wide,
    b_stride: Wide,
    c_stride: Wide,
    batches: Size,
    inner: Size,
    of_a: Products[Number],
    of_b: Products[Number],
    sums: InOut | None,
    flags: InOut | None,
    split: Split[Number] | None,
    *,
    plan: TmaPlan,
) -> None:
    """Compute tiles of c. ``a_stride``, ``b_stride``: of the axis that is not dense.

    ``batches``: the products, ``inner`` of them along the inner batch axis. ``sums``,
    ``flags``, ``split``: the memory and the shares of split-K.
    """
    launch_attributes(cubes_per_core=1)
    m, n, k = sizes.m, sizes.n, sizes.k
    left_at, right_at = plan.layout(True), plan.layout(False)
    a_map = operand_map(
        a, of_a, (m, k) if plan.a_along else (k, m), a_stride, plan.box(True), plan
    )  # fmt: skip
    b_map = operand_map(
        b, of_b, (n, k) if plan.b_along else (k, n), b_stride, plan.box(False), plan
    )  # fmt: skip
    box = (1, plan.part if plan.transposed else 64, plan.part)
    c_at = Swizzled(plan.swizzle(plan.result), Layout(box, (0, plan.part, 1)))
    down, across = (n, m) if plan.transposed else (m, n)
    c_map = tensor_map(c, (batches, down, across), (c_stride, across, 1), box, c_at)
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
                stage: Index, a_from: Pair, row: Index, b_from: Pair, column: Index, begin: Index
            ) -> None:
                to = left.at(stage * a_size)
                fetch(a_map, to, a_from, row, begin, full, stage, plan, True)
                to = right.at(stage * b_size)
                fetch(b_map, to, b_from, column, begin, full, stage, plan, False)

            schedule = schedule_of(first, step, tiles, deep, sums, flags, split, plan)
            stage, parity = first * 0, first * 0 + 1
            for turn in schedule.turns():
                piece = schedule.piece(turn)
                row, column, batch = place_of_tile(piece.tile, whole, down, across, plan)
                outer, within = batch // inner, batch % inner
                a_from = (min(outer, of_a.outer - 1), min(within, of_a.inner - 1))
                b_from = (min(outer, of_b.outer - 1), min(within, of_b.inner - 1))
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
        schedule = schedule_of(first, step, tiles, deep, sums, flags, split, plan)
        stage, parity = first * 0, first * 0

        def left_of(stage: Number) -> Callable[[int], LeftFactor]:
            lefts = left_factors(left, stage * a_size, left_at, top, plan)
            return lambda p: lefts[p // shape.k]

        for turn in schedule.turns():
            piece = schedule.piece(turn)
            row, column, batch = place_of_tile(piece.tile, whole, down, across, plan)
            made = fragment(shape, "c")
            stage, parity = ring.multiply(
                made, shape, piece.length, plan.depth, stage, parity, left_of
            )
            if isinstance(schedule, Shares) and not piece.ends:
                hand_over(schedule, made, group, unit, plan)
            else:
                if isinstance(schedule, Shares):
                    take_over(schedule, made, piece, group, unit, plan)
                write_tile(c_map, parts, made, (batch, row, column), group, plan)
        wait_puts()


def schedule_of(
    first: Number,
    step: Number,
    tiles: Number,
    deep: Number,
    sums: Pointer | None,
    flags: Pointer | None,
    split: Split[Number] | None,
    plan: TmaPlan,
) -> WholeTiles | Shares:
    """Return the schedule of cube ``first`` of ``step``.

    Each role computes it anew, so that its numbers occupy no registers across both roles.
    """
    if sums is not None and flags is not None and split is not None:
        return Shares(first, step, deep, plan.depth, sums, flags, split)
    return WholeTiles(first, step, tiles, deep)


@helper
def left_factors(
    left: Pointer, at: Index, placed: Swizzled, top: Index, plan: TmaPlan
) -> Sequence[LeftFactor]:
    """Return a step's fragments of a warp group's rows, in shared memory or in registers."""
    if plan.transposed:
        return rows_in_registers(left, at + top * plan.depth, plan)
    lefts, shape = SharedMatrix(left.at(at), placed), plan.shape
    return [lefts.tile((shape.m, shape.k), (top, p)) for p in range(0, plan.depth, shape.k)]


@helper
def operand_map(
    operand: Pointer,
    of: Products[Number],
    sizes: Pair,
    stride: Number,
    box: tuple[int, int],
    plan: TmaPlan,
) -> TensorMap:
    """Return an operand's tensor map: two axes of products, and two more, the last one dense."""
    whole = (1, 1, *box)
    at = Swizzled(plan.swizzle(plan.dtype), Layout(whole, (0, 0, box[1], 1)))
    rounded = plan.shape.tf32
    strides = (of.outer_stride, of.inner_stride, stride, 1)
    return tensor_map(operand, (of.outer, of.inner, *sizes), strides, whole, at, rounded=rounded)


@helper
def fetch(
    source: TensorMap,
    target: Pointer,
    batch: Pair,
    across: Index,
    deep: Index,
    full: Mbarriers,
    stage: Index,
    plan: TmaPlan,
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
def place_of_tile(
    tile: Index, whole: Index, down: Index, across: Index, plan: TmaPlan
) -> tuple[Index, Index, Index]:
    """Return a tile's row, column and product: bands of rows, from top to bottom."""
    batch, number = tile // whole, tile % whole
    of_band = across * plan.band
    first = number // of_band * plan.band
    rows = min(down - first, plan.band)
    place = number % of_band
    return (first + place % rows) * plan.rows, place // rows * plan.columns, batch
