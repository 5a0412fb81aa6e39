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
from calor_cuda.kernels.matmul.epilogue import end_of, end_tile, start_tile
from calor_cuda.kernels.matmul.epilogue_operands import room_of
from calor_cuda.kernels.matmul.register_a import rows_in_registers
from calor_cuda.kernels.matmul.split_k import TileParts, WholeTiles, hand_over, take_over
from calor_cuda.kernels.matmul.summed_parts import Summed, SummedParts, add_slice
from calor_cuda.kernels.matmul.tma_store import write_tile
from calor_cuda.kernels.matmul.unit_store import write_rows
from calor_cuda.kernels.matmul.warpgroup_tma_plan import PARTS, TmaPlan
from calor_cuda.kernels.warpgroup import TURNERS, Ring, passed, release
from calor_kernel import language as kl
from calor_kernel.language.declared import Quantity
from calor_kernel.language.tensor_maps import TensorMap
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.matmul.task import Sizes

N = TypeVar("N")
D = TypeVar("D")
Pair = tuple[kl.Index, kl.Index]
LeftFactor = kl.Fragment | kl.SharedMatrix


Wide = Annotated[kl.Number, Quantity("Stride", dtype=int64)]
WideOf = Annotated[N, Quantity("Stride", dtype=int64)]


@dataclass(frozen=True, slots=True)
class Products(Generic[N]):
    """An operand's products along both batch axes, 1 if all products share it; their strides."""

    outer: kl.SizeOf[N]
    inner: kl.SizeOf[N]
    outer_stride: WideOf[N]
    inner_stride: WideOf[N]


@dataclass(frozen=True, slots=True)
class Places(Generic[D]):
    """Divisors that find a tile's place: before the first copies, quotients take long.

    ``product``: the tiles of a product. ``band``: those of a band of rows of tiles, of which
    ``last`` are in the last band. ``inner``: the products along the inner batch axis.
    """

    product: kl.DivisorOf[D]
    band: kl.DivisorOf[D]
    last: kl.DivisorOf[D]
    inner: kl.DivisorOf[D]


@kl.kernel
def matmul_tma(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    a_stride: Wide,
    b_stride: Wide,
    c_stride: Wide,
    c_pitch: kl.Size | None,
    batches: kl.Size,
    places: Places[kl.FastDivmod],
    of_a: Products[kl.Number],
    of_b: Products[kl.Number],
    sums: kl.InOut | None,
    flags: kl.InOut | None,
    split: kl.Size | None,
    summed: Summed[kl.Number] | None,
    after: After | None,
    *,
    plan: TmaPlan,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute tiles of c. ``a_stride``, ``b_stride``: of the axis that is not dense.

    ``c_pitch``: the elements from row to row of c, if it is not dense. ``batches``: the products.
    ``sums``, ``flags``, ``split``: the memory of
    split-K, and the parts of each tile. ``summed``: parts of the sum over all products, which
    the last cubes add.
    """
    kl.launch_attributes(cubes_per_core=1)
    m, n, k = sizes.m, sizes.n, sizes.k
    left_at, right_at = plan.layout(True), plan.layout(False)
    a_map = operand_map(
        a, of_a, (m, k) if plan.a_along else (k, m), a_stride, plan.box(True), plan
    )  # fmt: skip
    b_map = operand_map(
        b, of_b, (n, k) if plan.b_along else (k, n), b_stride, plan.box(False), plan
    )  # fmt: skip
    box = (1, plan.part if plan.transposed else 64, plan.part)
    c_at = kl.Swizzled(plan.swizzle(plan.result), kl.Layout(box, (0, plan.part, 1)))
    down, across = (n, m) if plan.transposed else (m, n)
    whole_c = (down, across)
    c_map: TensorMap | None = None
    if epilogue is None and not plan.by_units and summed is None:
        line = across if c_pitch is None else c_pitch
        c_map = kl.tensor_map(c, (batches, down, across), (c_stride, line, 1), box, c_at)
    a_size, b_size = plan.rows * plan.depth, plan.columns * plan.depth
    part_size = 64 * plan.part
    left = kl.shared(plan.stages * a_size, plan.dtype, align=1024)
    right = kl.shared(plan.stages * b_size, plan.dtype, align=1024)
    parts = kl.shared(PARTS * plan.groups * part_size, plan.result, align=1024)
    room = room_of(epilogue, after, plan)
    full = kl.Mbarriers(plan.stages, 1, meet=False)
    # Of two warp groups in turns: the other one has taken all stages of its tile. A stage's parity
    # does not tell apart phases two rounds from each other.
    own_turn = kl.Mbarriers(2, 4, meet=False) if plan.pingpong else None
    turned = kl.Mbarriers(plan.stages, TURNERS, meet=False) if plan.turning else None
    empty = kl.Mbarriers(plan.stages, 4 * plan.sharing)
    ring = Ring(
        left, right, (a_size, b_size), right_at, full, empty, plan.stages, plan.depth,
        plan.transposed, turned,
    )  # fmt: skip
    down = -(-m // plan.rows)
    first = kl.cube_position(0)
    tiles, step = places.product.divisor * batches, kl.cube_count(0)
    # At least one step, so that sums always come from products. If the compiler sees another way to
    # them, it reads them early and serialises the products.
    deep = kl.max(k, 1)
    kl.await_launches()
    asking, multiplying = plan.registers

    def ask() -> None:
        nbytes = (a_size + b_size) * plan.dtype.itemsize

        def copy(
            stage: kl.Index,
            a_from: Pair,
            row: kl.Index,
            b_from: Pair,
            column: kl.Index,
            begin: kl.Index,
        ) -> None:
            to = left.at(stage * a_size)
            fetch(a_map, to, a_from, row, begin, full, stage, plan, True)
            to = right.at(stage * b_size)
            fetch(b_map, to, b_from, column, begin, full, stage, plan, False)

        schedule = schedule_of(first, step, tiles, deep, sums, flags, split, summed, plan)
        stage, parity = first * 0, first * 0 + 1
        for turn in schedule.turns():
            piece = schedule.piece(turn)
            row, column, batch = place_of_tile(piece.tile, down, places, plan)
            outer, within = places.inner.divmod(batch)
            a_from = (kl.min(outer, of_a.outer - 1), kl.min(within, of_a.inner - 1))
            b_from = (kl.min(outer, of_b.outer - 1), kl.min(within, of_b.inner - 1))
            for ahead in kl.range(0, piece.length, plan.depth):
                begin = piece.start + ahead
                if isinstance(schedule, SummedParts):
                    batch, begin = schedule.term(piece.start + kl.quotient(ahead, plan.depth))
                    a_from = b_from = places.inner.divmod(batch)
                stage, parity = ring.load(
                    stage, parity, nbytes, copy, a_from, row, b_from, column, begin
                )

    with kl.role(0, registers=asking):
        if plan.turning:
            with kl.role(0, scope="plane"):
                if kl.unit_index() == 0:
                    ask()
            with kl.role(1, TURNERS, scope="plane"):
                schedule = schedule_of(first, step, tiles, deep, sums, flags, split, summed, plan)
                stage, parity = first * 0, first * 0
                for turn in schedule.turns():
                    for _ in range(0, schedule.piece(turn).length, plan.depth):
                        stage, parity = ring.turn(stage, parity, plan.columns)
        elif kl.unit_index() == 0:
            ask()
    with kl.role(1, plan.groups, registers=multiplying, apart=plan.pingpong):
        shape = plan.shape
        unit = kl.unit_index() % 128
        group = kl.unit_index() // 128 - 1
        top = plan.top(group)
        schedule = schedule_of(first, step, tiles, deep, sums, flags, split, summed, plan)
        stage, parity = first * 0, first * 0
        steps = kl.quotient(deep + (plan.depth - 1), plan.depth)
        waited = 1 - group
        if plan.pingpong:
            schedule = WholeTiles(first + group * step, 2 * step, tiles, deep)
            stage, parity = passed(stage, parity, group * steps, plan.stages)

        def left_of(stage: kl.Number) -> Callable[[int], LeftFactor]:
            lefts = left_factors(left, stage * a_size, left_at, top, plan)
            return lambda p: lefts[p // shape.k]

        def hand_on() -> None:
            if own_turn is not None:
                release(own_turn, 1 - group, True)

        for turn in schedule.turns():
            piece = schedule.piece(turn)
            row, column, batch = place_of_tile(piece.tile, down, places, plan)
            made = kl.fragment(shape, "c")
            ends = writer(epilogue, after, c, batch)
            end, numbers = end_of(ends, room, plan, (batch, row, column), whole_c, group, unit), []
            if end is not None and not isinstance(schedule, TileParts):
                numbers = start_tile(end)
            if own_turn is not None:
                own_turn.wait(group, waited)
                waited = waited ^ 1
            stage, parity = ring.multiply(
                made, shape, piece.length, plan.depth, stage, parity, left_of, hand_on
            )
            if isinstance(schedule, SummedParts | TileParts) and not piece.ends:
                hand_over(schedule, made, group, unit, plan)
            else:
                if isinstance(schedule, TileParts):
                    take_over(schedule, made, group, unit, plan)
                if end is not None:
                    if isinstance(schedule, TileParts):
                        numbers = start_tile(end)
                    end_tile(end, parts, made, numbers)
                elif c_map is None:
                    write_rows(c, (m, n), parts, made, (batch, row, column), group, plan, ends)
                else:
                    write_tile(c_map, parts, made, (batch, row, column), group, plan)
            if plan.pingpong:
                stage, parity = passed(stage, parity, steps, plan.stages)
        if isinstance(schedule, SummedParts):
            number = first - schedule.parts
            if number >= 0:
                tile = kl.quotient(number, schedule.of.slices)
                row, column, _ = place_of_tile(tile, down, places, plan)
                add_slice(schedule, c, (m, n), (number, row, column), group, unit)
        if c_map is not None:
            kl.wait_puts()


def schedule_of(
    first: kl.Number,
    step: kl.Number,
    tiles: kl.Number,
    deep: kl.Number,
    sums: kl.Pointer | None,
    flags: kl.Pointer | None,
    split: kl.Number | None,
    summed: Summed[kl.Number] | None,
    plan: TmaPlan,
) -> WholeTiles | TileParts | SummedParts:
    """Return the schedule of cube ``first`` of ``step``.

    Each role computes it anew, so that its numbers occupy no registers across both roles.
    """
    if sums is not None and flags is not None and summed is not None:
        return SummedParts(first, summed, sums, flags, plan)
    if sums is not None and flags is not None and split is not None:
        return TileParts(first, deep, plan.depth, sums, flags, split)
    return WholeTiles(first, step, tiles, deep)


@kl.helper
def left_factors(
    left: kl.Pointer, at: kl.Index, placed: kl.Swizzled, top: kl.Index, plan: TmaPlan
) -> Sequence[LeftFactor]:
    """Return a step's fragments of a warp group's rows, in shared memory or in registers."""
    if plan.transposed:
        return rows_in_registers(left, at + top * plan.depth, plan)
    lefts, shape = kl.SharedMatrix(left.at(at), placed), plan.shape
    return [lefts.tile((shape.m, shape.k), (top, p)) for p in kl.range(0, plan.depth, shape.k)]


@kl.helper
def operand_map(
    operand: kl.Pointer,
    of: Products[kl.Number],
    sizes: Pair,
    stride: kl.Number,
    box: tuple[int, int],
    plan: TmaPlan,
) -> TensorMap:
    """Return an operand's tensor map: two axes of products, and two more, the last one dense."""
    whole = (1, 1, *box)
    at = kl.Swizzled(plan.swizzle(plan.dtype), kl.Layout(whole, (0, 0, box[1], 1)))
    rounded = plan.shape.tf32
    strides = (of.outer_stride, of.inner_stride, stride, 1)
    return kl.tensor_map(operand, (of.outer, of.inner, *sizes), strides, whole, at, rounded=rounded)


@kl.helper
def fetch(
    source: TensorMap,
    target: kl.Pointer,
    batch: Pair,
    across: kl.Index,
    deep: kl.Index,
    full: kl.Mbarriers,
    stage: kl.Index,
    plan: TmaPlan,
    first: bool,
) -> None:
    """Issue the copies of an operand for a step: one if it is dense along the K axis."""
    size, along = (plan.rows, plan.a_along) if first else (plan.columns, plan.b_along)
    if along:
        source.fetch(target, (*batch, across, deep), full, stage)
    else:
        for i in kl.range(size // plan.depth):
            to = target.at(i * plan.depth * plan.depth)
            source.fetch(to, (*batch, deep, across + i * plan.depth), full, stage)


@kl.helper
def place_of_tile(
    tile: kl.Index, down: kl.Index, places: Places[kl.FastDivmod], plan: TmaPlan
) -> tuple[kl.Index, kl.Index, kl.Index]:
    """Return a tile's row, column and product: bands of rows, from top to bottom."""
    batch, number = places.product.divmod(tile)
    band, place = places.band.divmod(number)
    first = band * plan.band
    column, row = kl.divide(place, plan.band)
    if first + plan.band > down:
        column, row = places.last.divmod(place)
    return (first + row) * plan.rows, column * plan.columns, batch
