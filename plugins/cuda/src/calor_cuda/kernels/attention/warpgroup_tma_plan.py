"""Plans of attention by warp groups fed by TMA, and the division of work among them.

Requirements: one unit issues the TMA copies, and the consumer warp groups, each with its own rows,
never wait for addresses. Two warp groups alternate at the matrix units, so that one computes
exponentials while the other multiplies. A cube is persistent: the next tile's first copies run
while results are written. (Roles and alternation after Shah et al., "FlashAttention-3", 2024.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import DType, float32
from calor_cuda.kernels.matmul.tma_store import store_part
from calor_cuda.kernels.warpgroup import following
from calor_kernel import language as kl
from calor_kernel.library.attention.mma_plan import MmaPlan
from calor_kernel.library.attention.operands import KernelOperands
from calor_kernel.library.gemm.mma import Sums, add_products

N = TypeVar("N")

Weights = list[list[kl.Fragment]]
"""Weights of a block as operands, for each step of a product."""

# Rows of a warp group.
OWN = 64
# Bytes of a line, and of its pieces.
_LINE_BYTES, _PIECE = 128, 16
# Registers of producer units, by the number of consumer warp groups.
PRODUCER = {1: 56, 2: 24, 3: 32}
CONSUMER = {1: 240, 2: 240, 3: 160}


@dataclass(frozen=True, slots=True)
class TmaPlan(MmaPlan):
    """A plan: warp groups of 64 rows of queries; a step is a block of keys.

    ``stages``: the blocks of keys, and of values, in shared memory. ``alternating``: whether two
    warp groups alternate. ``own_tiles``: the number of tiles whose own rows are in shared memory.
    ``producer_registers``: registers of producers if they get more than usual; 0: as usual.
    """

    stages: int = 2
    alternating: bool = False
    own_tiles: int = 1
    producer_registers: int = 0

    @staticmethod
    def of(
        dtype: DType, groups: int, block: int, rooms: tuple[int, int], stages: int,
        alternating: bool, own_tiles: int = 1, producer_registers: int = 0,
    ) -> TmaPlan:  # fmt: skip
        """Return the plan of some consumer warp groups."""
        return TmaPlan(
            dtype, 4 * groups, 1, block, *rooms, grouped=True, stages=stages,
            alternating=alternating, own_tiles=own_tiles, producer_registers=producer_registers,
        )  # fmt: skip

    @property
    def registers(self) -> tuple[int, int]:
        """The registers of producers and of consumers."""
        producer, consumer = PRODUCER[self.groups], CONSUMER[self.groups]
        if not self.producer_registers:
            return producer, consumer
        # Registers are allocated by eights, and the sum over all warp groups is limited.
        return self.producer_registers, consumer - -(
            -(self.producer_registers - producer) // (8 * self.groups)
        ) * 8

    def place(self, turn: kl.Number) -> tuple[kl.Index, kl.Number]:
        """Return the position of a tile's own rows, and the parity of their barrier's phase."""
        return (0, turn % 2) if self.own_tiles == 1 else (turn % 2, turn // 2 % 2)

    @property
    def leading(self) -> int:
        """The warp groups before the consumers."""
        return 1

    @property
    def turning(self) -> int:
        """The registers of units that transpose blocks; 0 if none do."""
        return 0

    @property
    def staged(self) -> bool:
        """Whether results have shared memory of their own; else they replace a tile's own rows."""
        return True

    def turned(self, ring: Ring) -> Stages:
        """Return the stages of a ring as the instruction reads them to sum over rows."""
        return ring

    def turn(self, ring: Ring, turned: Stages, stage: kl.Number, parity: kl.Number) -> None:
        """Wait for a stage of a ring and transpose it, which half types do not need."""

    @property
    def groups(self) -> int:
        """The consumer warp groups."""
        return self.planes // 4

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 32 * self.planes + 128

    @kl.helper
    def weights(self, scores: Sums, room: int) -> Weights:
        """Return weights as operands, for each step of the products with rows of ``room``."""
        shape = self.shape(room)
        return [
            [kl.operand_of(scores[0], shape, "a", first=p)]
            for p in kl.range(0, self.block, shape.k)
        ]

    @kl.helper
    def multiply(self, sums: Sums, weights: Weights, rows: kl.Pointer, room: int) -> None:
        """Start adding weights times a block's rows."""
        add_products(sums, weights, self.panel(self.block, room).matrix(rows), self.block)

    @kl.helper
    def end(self, first: kl.Number, g: KernelOperands, causal: bool) -> kl.Number:
        """Return the end of the keys that a tile's queries attend to."""
        return kl.min(g.keys, first + self.rows) if causal else g.keys


@dataclass(frozen=True, slots=True)
class HeadSteps(Generic[N]):
    """The strides of heads and batches of an operand, and of rows unless these are dense."""

    head: kl.SizeOf[N]
    batch: kl.SizeOf[N]
    row: kl.SizeOf[N] | None = None

    def rows(self, width: N) -> tuple[N, N, N]:
        """Return the strides of batches, heads and rows of a width."""
        return self.batch, self.head, width if self.row is None else self.row


@dataclass(frozen=True, slots=True)
class Stages:
    """Stages of ``size`` elements in shared memory; producers fill and warp groups release them."""

    memory: kl.Pointer
    size: int
    full: kl.Mbarriers
    empty: kl.Mbarriers

    def at(self, stage: kl.Index) -> kl.Pointer:
        """Return the memory of a stage."""
        return self.memory.at(stage * self.size)

    @kl.helper
    def release(self, stage: kl.Index) -> None:
        """Release a stage for a plane."""
        kl.barrier("plane")
        if kl.lane_position() == 0:
            self.empty.arrive(stage)


@dataclass(frozen=True, slots=True)
class Ring(Stages):
    """Stages of panels of ``count`` rows that TMA fills from a ``source``."""

    count: int
    source: kl.TensorMap

    @kl.helper
    def fetch(
        self,
        place: tuple[kl.Number, kl.Number],
        first: kl.Number,
        stage: kl.Index,
        parity: kl.Number,
    ) -> None:
        """Issue copies of a panel of a batch and head, from row ``first`` on, line by line."""
        self.empty.wait(stage, parity)
        self.full.expect(stage, self.size * self.memory.dtype.itemsize)
        wide = line_of(self.memory.dtype)
        for line in kl.range(self.size // (self.count * wide)):
            to = self.at(stage).at(line * self.count * wide)
            self.source.fetch(to, (*place, first, line * wide), self.full, stage)
        self.full.arrive(stage)


@kl.helper
def lines_map(
    operand: kl.Pointer, sizes: Sequence[kl.Number], strides: Sequence[kl.Number], count: int
) -> kl.TensorMap:
    """Return the tensor map of an operand of four axes: boxes of ``count`` rows of a line each.

    Elements of float32 are rounded to TF32.
    """
    wide = line_of(operand.dtype)
    whole = (1, 1, count, wide)
    at = kl.Swizzled(swizzle_of(operand.dtype), kl.Layout(whole, (0, 0, wide, 1)))
    return kl.tensor_map(operand, sizes, (*strides, 1), whole, at, rounded=operand.dtype is float32)


def line_of(dtype: DType) -> int:
    """Return the elements of a line of shared memory."""
    return _LINE_BYTES // int(dtype.itemsize)


def swizzle_of(dtype: DType) -> kl.Swizzle:
    """Return the swizzle of the pieces of a line."""
    return kl.Swizzle(3, (_PIECE // int(dtype.itemsize)).bit_length() - 1, 3)


@dataclass(frozen=True, slots=True)
class TileOrder:
    """The order in which cubes take tiles: ``down`` tiles of each of ``heads``, of all batches.

    The first tiles of a ``band`` of heads come first, then the second ones, so that these heads
    stay in the cache. Cubes take them in serpentine order, so that all have equal work.
    """

    down: kl.Number
    heads: kl.Number
    band: kl.Number

    @kl.helper
    def count(self) -> kl.Number:
        """Return the number of tiles of this cube."""
        cube, cubes = kl.cube_position(0), kl.cube_count(0)
        whole, rest = self.down * self.heads // cubes, self.down * self.heads % cubes
        last = kl.select(whole % 2 == 1, cubes - 1 - cube, cube)
        return whole + kl.select(last < rest, 1, 0)

    @kl.helper
    def place(self, turn: kl.Number) -> tuple[kl.Number, kl.Number]:
        """Return the head, of all batches, and the index of this cube's tile in its head."""
        cube, cubes = kl.cube_position(0), kl.cube_count(0)
        number = turn * cubes + kl.select(turn % 2 == 1, cubes - 1 - cube, cube)
        of_band = self.down * self.band
        begin = number // of_band * self.band
        within, wide = number % of_band, kl.min(self.heads - begin, self.band)
        return begin + within % wide, within // wide


@dataclass(frozen=True, slots=True)
class Cube:
    """A persistent cube: its memory, its tiles in order, and their number.

    ``own``, ``steps``: the rings of a tile's own rows and of its blocks. ``numbers``: stages of
    numbers of a block's rows. ``coordinates``: those of tiles, from the producer, so that other
    units need not divide. ``turned``: blocks as products read them that sum over their rows.
    """

    plan: TmaPlan
    results: Sequence[kl.Pointer]
    own: Sequence[Ring]
    steps: Sequence[Ring]
    numbers: Stages
    order: TileOrder
    count: kl.Number
    coordinates: kl.Pointer
    turned: Sequence[Stages]

    def matrices(self, tile: kl.Index) -> list[kl.SharedMatrix]:
        """Return a tile's own rows of each operand as matrices."""
        plan, rooms = self.plan, self.plan.rooms[: len(self.own)]
        return [
            plan.panel(plan.rows, room).matrix(ring.at(tile))
            for room, ring in zip(rooms, self.own, strict=True)
        ]

    @kl.helper
    def issue(self, g: KernelOperands, causal: bool) -> None:
        """Issue the copies of the tiles of queries, and of the keys that each attends to."""
        plan, order, own = self.plan, self.order, self.own
        stage, parity = self.count * 0, self.count * 0 + 1
        for turn in kl.range(self.count):
            number, down = order.place(turn)
            # The last rows of a head attend to most keys.
            n, head, first = (
                number // g.heads,
                number % g.heads,
                (order.down - 1 - down) * plan.rows,
            )
            tile, phase = plan.place(turn)
            own[0].empty.wait(tile, phase ^ 1)
            place = self.coordinates.at(tile * 4)
            place[0], place[1], place[2] = n, head, first
            for ring in own:
                ring.fetch((n, head), first, tile, phase ^ 1)
            at = (n, head // g.group)
            # Of a loop that is not unrolled, compilers leave planes that multiply a register less.
            for begin in kl.loop_range(0, plan.end(first, g, causal), plan.block, unroll=2):
                for step in self.steps:
                    step.fetch(at, begin, stage, parity)
                stage, parity = following(stage, parity, plan.stages)

    @kl.helper
    def turn(self, number: int, g: KernelOperands, causal: bool) -> None:
        """Transpose a step's operand of a number, for all steps that :meth:`issue` copies."""
        plan, ring, (turned,) = self.plan, self.steps[number], self.turned
        stage, parity = self.count * 0, self.count * 0
        for turn in kl.range(self.count):
            _, down = self.order.place(turn)
            first = (self.order.down - 1 - down) * plan.rows
            for _ in kl.range(0, plan.end(first, g, causal), plan.block):
                plan.turn(ring, turned, stage, parity)
                stage, parity = following(stage, parity, plan.stages)


@kl.helper
def cube_of(
    plan: TmaPlan, own: Sequence[kl.TensorMap], steps: Sequence[kl.TensorMap],
    results: Sequence[int], rows: kl.Number, heads: kl.Number, batches: kl.Number,
    band: kl.Number, summed: Sequence[int], numbers: bool = False,
) -> Cube:  # fmt: skip
    """Return the cube of a kernel with tiles of some rows and heads.

    ``own``, ``steps``: the maps of a tile's own rows and of its blocks. ``results``: the widths of
    results with memory of their own. ``summed``: the operands of a step over whose rows products
    sum. ``numbers``: whether a step has two numbers for each row.
    """
    block, stages = plan.block, plan.stages
    results_at = [kl.shared(plan.rows * room, plan.dtype, align=1024) for room in results]
    own_sizes = [plan.rows * room for room in plan.rooms[: len(own)]]
    step_sizes = [block * room for room in plan.rooms]
    own_at = [kl.shared(plan.own_tiles * size, plan.dtype, align=1024) for size in own_sizes]
    steps_at = [kl.shared(stages * size, plan.dtype, align=1024) for size in step_sizes]
    numbers_at = kl.shared(stages * 2 * block, float32, align=16) if numbers else None

    def barriers(count: int, arrivals: int = 1) -> tuple[kl.Mbarriers, kl.Mbarriers]:
        full = kl.Mbarriers(count, arrivals, meet=False)
        return full, kl.Mbarriers(count, 4 * plan.groups, meet=False)

    own_rings = [
        Ring(memory, size, *barriers(plan.own_tiles), plan.rows, source)
        for memory, size, source in zip(own_at, own_sizes, own, strict=True)
    ]
    step_rings = [
        Ring(memory, size, *barriers(stages), block, source)
        for memory, size, source in zip(steps_at, step_sizes, steps, strict=True)
    ]
    sides: Stages = step_rings[0]
    if numbers_at is not None:
        sides = Stages(numbers_at, 2 * block, *barriers(stages, 32))
    turned = [plan.turned(step_rings[number]) for number in summed]
    kl.barrier()
    order = TileOrder((rows + plan.rows - 1) // plan.rows, heads * batches, band)
    count = order.count()
    coordinates = kl.shared(4 * plan.own_tiles, count.dtype)
    return Cube(plan, results_at, own_rings, step_rings, sides, order, count, coordinates, turned)


@kl.helper
def set_weights(weights: Weights, others: Weights) -> None:
    """Set weights to others once the products with them are done."""
    for old, new in zip(weights, others, strict=True):
        old[0].parts[0] = new[0].parts[0]


@kl.helper
def store_rows(
    sums: Sums, results: kl.Pointer, to: kl.TensorMap, place: tuple[kl.Number, kl.Number],
    row: kl.Number, plan: TmaPlan,
) -> None:  # fmt: skip
    """Write a warp group's rows through its own rows of each line of ``results``.

    The lines are free after ``wait_puts(read=True)``; the first barrier passes this on to all.
    """
    wide = line_of(results.dtype)
    group, lines = kl.unit_index() // 128 - plan.leading, sums[0][0].shape.n // wide
    own = results.at(group * OWN * wide)
    kl.barrier("warpgroup")
    for line in kl.range(lines):
        part = own.at(line * plan.rows * wide)
        store_part(sums[0][0], part, line * wide, wide, swizzle_of(results.dtype))
    kl.barrier("warpgroup")
    for line in kl.range(lines):
        part = own.at(line * plan.rows * wide)
        to.put(part, (*place, row, line * wide), kl.unit_index() % 128, 128)


# Two warp groups alternate with one barrier each; the other warp group arrives at it.
@kl.helper
def begin_turns(group: kl.Number, plan: TmaPlan) -> None:
    """Let the first warp group begin."""
    if plan.alternating and (group == 1):
        kl.arrive(1, 256)


@kl.helper
def take_turn(group: kl.Number, plan: TmaPlan) -> None:
    """Wait until the other warp group has issued its products."""
    if plan.alternating:
        if group == 0:
            kl.barrier(name=1, count=256)
        else:
            kl.barrier(name=2, count=256)


@kl.helper
def give_turn(group: kl.Number, plan: TmaPlan) -> None:
    """Let the other warp group go on."""
    if plan.alternating:
        if group == 0:
            kl.arrive(2, 256)
        else:
            kl.arrive(1, 256)


@kl.helper
def end_turns(group: kl.Number, plan: TmaPlan) -> None:
    """Take the last turn, so that no unit waits at a barrier."""
    if plan.alternating and (group == 0):
        kl.barrier(name=1, count=256)
