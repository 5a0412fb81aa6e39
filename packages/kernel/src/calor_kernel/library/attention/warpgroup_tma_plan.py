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

from calor.dtypes import DType
from calor_kernel.language import (
    Fragment,
    Index,
    Layout,
    Mbarriers,
    Number,
    Pointer,
    SharedMatrix,
    SizeOf,
    Swizzle,
    Swizzled,
    TensorMap,
    arrive,
    barrier,
    cube_count,
    cube_position,
    helper,
    lane_position,
    min,
    operand_of,
    range,
    select,
    shared,
    tensor_map,
    unit_index,
)
from calor_kernel.library.attention.mma_plan import MmaPlan
from calor_kernel.library.attention.operands import KernelOperands, Upstream
from calor_kernel.library.gemm.mma import Sums, add_products
from calor_kernel.library.gemm.warpgroup import following
from calor_kernel.library.matmul.tma_store import store_part

N = TypeVar("N")

# Elements of a line of shared memory for the instructions, and rows of a warp group.
LINE, OWN = 64, 64
# Registers of producer units, by the number of consumer warp groups.
ASKING = {1: 56, 2: 24, 3: 32}
MULTIPLYING = {1: 240, 2: 240, 3: 160}


@dataclass(frozen=True, slots=True)
class TmaPlan:
    """A plan: warp groups of 64 rows of queries; a step is a block of keys.

    ``tiles``: the layout of rows of scores, and the number of warp groups. ``stages``: the blocks
    of keys, and of values, in shared memory. ``turns``: whether two warp groups alternate. ``own``:
    the number of tiles whose own rows are in shared memory. ``asking``: registers of producers if
    they get more than usual; 0: as usual.
    """

    tiles: MmaPlan
    stages: int
    turns: bool = False
    own: int = 1
    asking: int = 0

    @property
    def registers(self) -> tuple[int, int]:
        """The registers of producers and of consumers."""
        asking, multiplying = ASKING[self.groups], MULTIPLYING[self.groups]
        if not self.asking:
            return asking, multiplying
        # Registers are allocated by eights, and the sum over all warp groups is limited.
        return self.asking, multiplying - -(-(self.asking - asking) // (8 * self.groups)) * 8

    def place(self, turn: Number) -> tuple[Index, Number]:
        """Return the position of a tile's own rows, and the parity of their barrier's phase."""
        return (0, turn % 2) if self.own == 1 else (turn % 2, turn // 2 % 2)

    @property
    def groups(self) -> int:
        """The consumer warp groups."""
        return self.tiles.planes // 4

    @property
    def rows(self) -> int:
        """The rows of queries of a tile."""
        return self.tiles.rows

    @property
    def block(self) -> int:
        """The keys of a step."""
        return self.tiles.block

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.tiles.units + 128

    @property
    def part(self) -> int:
        """The columns of results in a line of shared memory."""
        return LINE

    @property
    def result(self) -> DType:
        """The type of results."""
        return self.tiles.dtype

    def swizzle(self, dtype: DType) -> Swizzle:
        """Return the swizzle of a line's pieces of 16 bytes."""
        return Swizzle(3, 3, 3)


@dataclass(frozen=True, slots=True)
class HeadSteps(Generic[N]):
    """The strides of heads and batches of a dense operand."""

    head: SizeOf[N]
    batch: SizeOf[N]


@dataclass(frozen=True, slots=True)
class Stages:
    """Stages of ``size`` elements in shared memory; producers fill and warp groups release them."""

    memory: Pointer
    size: int
    full: Mbarriers
    empty: Mbarriers

    def at(self, stage: Index) -> Pointer:
        """Return the memory of a stage."""
        return self.memory.at(stage * self.size)

    @helper
    def release(self, stage: Index) -> None:
        """Release a stage for a plane."""
        barrier("plane")
        if lane_position() == 0:
            self.empty.arrive(stage)


def barriers_of(plan: TmaPlan, stages: int, arrivals: int = 1) -> tuple[Mbarriers, Mbarriers]:
    """Return the barriers of full stages, each filled by ``arrivals``, and of empty ones."""
    full = Mbarriers(stages, arrivals, meet=False)
    return full, Mbarriers(stages, 4 * plan.groups, meet=False)


@dataclass(frozen=True, slots=True)
class Ring(Stages):
    """Stages of panels of ``count`` rows that TMA fills from a ``source``."""

    count: int
    source: TensorMap

    @helper
    def fetch(
        self, place: tuple[Number, Number], first: Number, stage: Index, parity: Number
    ) -> None:
        """Issue copies of a panel of a batch and head, from row ``first`` on, line by line."""
        self.empty.wait(stage, parity)
        self.full.expect(stage, self.size * self.memory.dtype.itemsize)
        for line in range(self.size // (self.count * LINE)):
            to = self.at(stage).at(line * self.count * LINE)
            self.source.fetch(to, (*place, first, line * LINE), self.full, stage)
        self.full.arrive(stage)


def panels_of(plan: TmaPlan, stages: int, rows: int, rooms: Sequence[int]) -> list[Pointer]:
    """Return shared memory for stages of panels of rows."""
    return [shared(stages * rows * room, plan.result, align=1024) for room in rooms]


def rings_of(
    plan: TmaPlan, panels: Sequence[Pointer], stages: int, rows: int, rooms: Sequence[int],
    sources: Sequence[TensorMap],
) -> list[Ring]:  # fmt: skip
    """Return the rings of operands whose panels have as many rows and stages."""
    made = []
    for memory, room, source in zip(panels, rooms, sources, strict=True):
        full, empty = barriers_of(plan, stages)
        made.append(Ring(memory, rows * room, full, empty, rows, source))
    return made


@helper
def lines_map(
    operand: Pointer, sizes: Sequence[Number], strides: Sequence[Number], count: int
) -> TensorMap:
    """Return the tensor map of an operand of four axes: boxes of ``count`` rows of a line each."""
    whole = (1, 1, count, LINE)
    at = Swizzled(Swizzle(3, 3, 3), Layout(whole, (0, 0, LINE, 1)))
    return tensor_map(operand, sizes, (*strides, 1), whole, at)


@dataclass(frozen=True, slots=True)
class Maps:
    """The tensor maps of an attention of so many ``batches``."""

    g: KernelOperands
    batches: Number
    value_width: Number

    def queries(self, count: int) -> TensorMap:
        """Return the map of panels of queries."""
        g = self.g
        sizes = self.batches, g.heads, g.queries, g.features
        return lines_map(g.query, sizes, g.query_strides[:3], count)

    def upstream(self, up: Upstream[Pointer], steps: HeadSteps[Number], count: int) -> TensorMap:
        """Return the map of panels of upstream gradients."""
        return self.of_queries(up.gradient, self.value_width, steps, count)

    def keys(self, count: int) -> tuple[TensorMap, TensorMap]:
        """Return the maps of panels of keys and of values."""
        g = self.g
        rows = self.batches, g.key_heads, g.keys
        return (
            lines_map(g.key, (*rows, g.features), g.key_strides[:3], count),
            lines_map(g.value, (*rows, self.value_width), g.value_strides[:3], count),
        )

    def of_queries(
        self, memory: Pointer, width: Number, steps: HeadSteps[Number], count: int
    ) -> TensorMap:
        """Return the map of a dense operand or result with a row for each query."""
        sizes = self.batches, self.g.heads, self.g.queries, width
        return lines_map(memory, sizes, (steps.batch, steps.head, width), count)

    def of_keys(self, memory: Pointer, width: Number, steps: HeadSteps[Number]) -> TensorMap:
        """Return the map of a dense result with a row for each key."""
        sizes = self.batches, self.g.key_heads, self.g.keys, width
        return lines_map(memory, sizes, (steps.batch, steps.head, width), OWN)


@dataclass(frozen=True, slots=True)
class TileOrder:
    """The order in which cubes take tiles: ``down`` tiles of each of ``heads``, of all batches.

    The first tiles of a ``band`` of heads come first, then the second ones, so that these heads
    stay in the cache. Cubes take them in serpentine order, so that all have equal work.
    """

    down: Number
    heads: Number
    band: Number

    @helper
    def count(self) -> Number:
        """Return the number of tiles of this cube."""
        cube, cubes = cube_position(0), cube_count(0)
        whole, rest = self.down * self.heads // cubes, self.down * self.heads % cubes
        last = select(whole % 2 == 1, cubes - 1 - cube, cube)
        return whole + select(last < rest, 1, 0)

    @helper
    def place(self, turn: Number) -> tuple[Number, Number]:
        """Return the head, of all batches, and the index of this cube's tile in its head."""
        cube, cubes = cube_position(0), cube_count(0)
        number = turn * cubes + select(turn % 2 == 1, cubes - 1 - cube, cube)
        of_band = self.down * self.band
        begin = number // of_band * self.band
        within, wide = number % of_band, min(self.heads - begin, self.band)
        return begin + within % wide, within // wide


@helper
def issue_tiles(
    order: TileOrder, count: Number, told: Pointer, own: Sequence[Ring], steps: Sequence[Ring],
    g: KernelOperands, plan: TmaPlan, causal: bool,
) -> None:  # fmt: skip
    """Issue the copies of this cube's tiles of queries, and of the keys that each attends to.

    ``own``, ``steps``: the rings of a tile's own rows and of its blocks. ``told``: shared memory
    for a tile's coordinates, for the consumers.
    """
    stage, parity = count * 0, count * 0 + 1
    for turn in range(count):
        number, down = order.place(turn)
        # The last rows of a head attend to most keys.
        n, head, first = number // g.heads, number % g.heads, (order.down - 1 - down) * plan.rows
        tile, phase = plan.place(turn)
        own[0].empty.wait(tile, phase ^ 1)
        place = told.at(tile * 4)
        place[0], place[1], place[2] = n, head, first
        for ring in own:
            ring.fetch((n, head), first, tile, phase ^ 1)
        at = (n, head // g.group)
        for begin in range(0, end_of(first, g, causal, plan), plan.block):
            for step in steps:
                step.fetch(at, begin, stage, parity)
            stage, parity = following(stage, parity, plan.stages)


def own_matrices(own: Sequence[Ring], tile: Index, plan: TmaPlan) -> list[SharedMatrix]:
    """Return a tile's own rows of some operands as matrices."""
    return [
        plan.tiles.panel(plan.rows, room).matrix(ring.at(tile))
        for room, ring in zip(plan.tiles.rooms, own, strict=False)
    ]


@helper
def weights_of(scores: Sums, tiles: MmaPlan, room: int) -> list[list[Fragment]]:
    """Return weights as operands, for each step of the products with rows of ``room`` elements."""
    shape = tiles.shape(room)
    return [[operand_of(scores[0], shape, "a", first=p)] for p in range(0, tiles.block, shape.k)]


@helper
def take_over(weights: list[list[Fragment]], others: list[list[Fragment]]) -> None:
    """Set weights to others once the products with them are done."""
    for old, new in zip(weights, others, strict=True):
        old[0].parts[0] = new[0].parts[0]


@helper
def add_weighted(
    sums: Sums, weights: list[list[Fragment]], rows: Pointer, tiles: MmaPlan, room: int
) -> None:
    """Start adding weights times a block's rows."""
    add_products(sums, weights, tiles.panel(tiles.block, room).matrix(rows), tiles.block)


@helper
def put_rows(
    sums: Sums, results: Pointer, to: TensorMap, place: tuple[Number, Number], row: Number,
    plan: TmaPlan,
) -> None:  # fmt: skip
    """Write a warp group's rows through its own lines of ``results``, to a position on.

    The lines are free after ``wait_puts(read=True)``; the first barrier passes this on to all.
    """
    group, lines = unit_index() // 128 - 1, sums[0][0].shape.n // LINE
    own = results.at(group * OWN * LINE * lines)
    barrier("warpgroup")
    for line in range(lines):
        store_part(sums[0][0], own.at(line * OWN * LINE), line * LINE, plan)
    barrier("warpgroup")
    for line in range(lines):
        to.put(own.at(line * OWN * LINE), (*place, row, line * LINE), unit_index() % 128, 128)


@helper
def end_of(first: Number, g: KernelOperands, causal: bool, plan: TmaPlan) -> Number:
    """Return the end of the keys that a tile's queries attend to."""
    return min(g.keys, first + plan.rows) if causal else g.keys


# Two warp groups alternate with one barrier each; the other warp group arrives at it.
@helper
def begin_turns(group: Number, plan: TmaPlan) -> None:
    """Let the first warp group begin."""
    if plan.turns and (group == 1):
        arrive(1, 256)


@helper
def take_turn(group: Number, plan: TmaPlan) -> None:
    """Wait until the other warp group has issued its products."""
    if plan.turns:
        if group == 0:
            barrier(name=1, count=256)
        else:
            barrier(name=2, count=256)


@helper
def give_turn(group: Number, plan: TmaPlan) -> None:
    """Let the other warp group go on."""
    if plan.turns:
        if group == 0:
            arrive(2, 256)
        else:
            arrive(1, 256)


@helper
def end_turns(group: Number, plan: TmaPlan) -> None:
    """Take the last turn, so that no unit waits at a barrier."""
    if plan.turns and (group == 0):
        barrier(name=1, count=256)
