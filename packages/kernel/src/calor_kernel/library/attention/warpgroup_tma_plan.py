"""Plans of attention by warp groups fed by TMA, and the division of work among them.

Requirements: one unit issues the TMA copies, and the consumer warp groups, each with its own rows,
never wait for addresses. Two warp groups alternate at the matrix units, so that one computes
exponentials while the other multiplies. A cube is persistent: the next tile's first copies run
while results are written. (Roles and alternation after Shah et al., "FlashAttention-3", 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    Layout,
    Mbarriers,
    Swizzle,
    Swizzled,
    arrive,
    barrier,
    cube_count,
    cube_position,
    helper,
    lane_position,
    operand_of,
    select,
    tensor_map,
    unit_index,
)
from calor_kernel.library.attention.mma_plan import Fragments
from calor_kernel.library.attention.problem import Given
from calor_kernel.library.gemm.mma import add_products
from calor_kernel.library.gemm.warpgroup import following
from calor_kernel.library.matmul.tma_store import store_part

# Elements of a line of shared memory for the instructions, and rows of a warp group.
LINE, OWN = 64, 64
# Registers of producer units, by the number of consumer warp groups.
ASKING = {1: 56, 2: 24, 3: 32}
MULTIPLYING = {1: 240, 2: 240, 3: 160}


@dataclass(frozen=True, slots=True)
class AttentionBoxes:
    """A plan: warp groups of 64 rows of queries; a step is a block of keys.

    ``tiles``: the layout of rows of scores, and the number of warp groups. ``stages``: the blocks
    of keys, and of values, in shared memory. ``turns``: whether two warp groups alternate. ``own``:
    the number of tiles whose own rows are in shared memory. ``asking``: registers of producers if
    they get more than usual; 0: as usual.
    """

    tiles: Fragments
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

    def place(self, turn: Any) -> tuple[Any, Any]:
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
class Ring:
    """Panels of an operand in shared memory; TMA fills them and warp groups release them."""

    memory: Any
    size: int
    full: Mbarriers
    empty: Mbarriers

    def at(self, stage: Any) -> Any:
        """Return the memory of a stage."""
        return self.memory.at(stage * self.size)

    @helper
    def fetch(
        self, source: Any, place: Any, first: Any, count: int, stage: Any, parity: Any
    ) -> None:
        """Issue copies of ``count`` rows from ``first`` on, each of a line's width."""
        self.empty.wait(stage, parity)
        self.full.expect(stage, self.size * self.memory.dtype.itemsize)
        for line in range(self.size // (count * LINE)):
            to = self.at(stage).at(line * count * LINE)
            source.fetch(to, (*place, first, line * LINE), self.full, stage)
        self.full.arrive(stage)

    @helper
    def release(self, stage: Any) -> None:
        """Release a stage for a plane."""
        barrier("plane")
        if lane_position() == 0:
            self.empty.arrive(stage)


def ring(memory: Any, stages: int, size: int, plan: AttentionBoxes, arrivals: int = 1) -> Ring:
    """Return stages of ``size`` elements; ``arrivals`` fill each of them."""
    full = Mbarriers(stages, arrivals, meet=False)
    empty = Mbarriers(stages, 4 * plan.groups, meet=False)
    return Ring(memory, size, full, empty)


@helper
def lines_map(operand: Any, sizes: Any, strides: Any, count: int) -> Any:
    """Return the tensor map of an operand of four axes: boxes of ``count`` rows of a line each."""
    whole = (1, 1, count, LINE)
    at = Swizzled(Swizzle(3, 3, 3), Layout(whole, (0, 0, LINE, 1)))
    return tensor_map(operand, sizes, (*strides, 1), whole, at)


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which cubes take tiles: ``down`` tiles of each of ``heads``, of all batches.

    The first tiles of a ``band`` of heads come first, then the second ones, so that these heads
    stay in the cache. Cubes take them in serpentine order, so that all have equal work.
    """

    down: Any
    heads: Any
    band: Any

    @helper
    def count(self) -> Any:
        """Return the number of tiles of this cube."""
        cube, cubes = cube_position(0), cube_count(0)
        whole, rest = self.down * self.heads // cubes, self.down * self.heads % cubes
        last = select(whole % 2 == 1, cubes - 1 - cube, cube)
        return whole + select(last < rest, 1, 0)

    @helper
    def place(self, turn: Any) -> tuple[Any, Any]:
        """Return the head, of all batches, and the index of this cube's tile in its head."""
        cube, cubes = cube_position(0), cube_count(0)
        number = turn * cubes + select(turn % 2 == 1, cubes - 1 - cube, cube)
        of_band = self.down * self.band
        begin = number // of_band * self.band
        within, wide = number % of_band, min(self.heads - begin, self.band)
        return begin + within % wide, within // wide


@helper
def ask_for_tiles(
    order: Order,
    count: Any,
    told: Any,
    own: Any,
    steps: Any,
    g: Given,
    plan: AttentionBoxes,
    causal: bool,
) -> None:
    """Issue the copies of this cube's tiles of queries, and of the keys that each attends to.

    ``own``, ``steps``: the rings of a tile's own rows and of its blocks, each with its map.
    ``told``: shared memory for a tile's coordinates, for the consumers.
    """
    stage, parity = count * 0, count * 0 + 1
    for turn in range(count):
        number, down = order.place(turn)
        # The last rows of a head attend to most keys.
        n, head, first = number // g.heads, number % g.heads, (order.down - 1 - down) * plan.rows
        tile, phase = plan.place(turn)
        own[0][0].empty.wait(tile, phase ^ 1)
        place = told.at(tile * 4)
        place[0], place[1], place[2] = n, head, first
        for rows, of_rows in own:
            rows.fetch(of_rows, (n, head), first, plan.rows, tile, phase ^ 1)
        at = (n, head // g.group)
        for begin in range(0, end_of(first, g, causal, plan), plan.block):
            for step, of_step in steps:
                step.fetch(of_step, at, begin, plan.block, stage, parity)
            stage, parity = following(stage, parity, plan.stages)


@helper
def weights_of(scores: Any, tiles: Fragments, room: int) -> Any:
    """Return weights as operands, for each step of the products with rows of ``room`` elements."""
    shape = tiles.shape(room)
    return [[operand_of(scores[0], shape, "a", first=p)] for p in range(0, tiles.block, shape.k)]


@helper
def take_over(weights: Any, others: Any) -> None:
    """Set weights to others once the products with them are done."""
    for old, new in zip(weights, others, strict=True):
        old[0].parts[0] = new[0].parts[0]


@helper
def add_weighted(sums: Any, weights: Any, rows: Any, tiles: Fragments, room: int) -> None:
    """Start adding weights times a block's rows."""
    add_products(sums, weights, tiles.panel(tiles.block, room).matrix(rows), tiles.block)


@helper
def put_rows(sums: Any, results: Any, to: Any, place: Any, row: Any, plan: AttentionBoxes) -> None:
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
def end_of(first: Any, g: Given, causal: bool, plan: AttentionBoxes) -> Any:
    """Return the end of the keys that a tile's queries attend to."""
    return min(g.keys, first + plan.rows) if causal else g.keys


# Two warp groups alternate with one barrier each; the other warp group arrives at it.
@helper
def begin_turns(group: Any, plan: AttentionBoxes) -> None:
    """Let the first warp group begin."""
    if plan.turns and (group == 1):
        arrive(1, 256)


@helper
def take_turn(group: Any, plan: AttentionBoxes) -> None:
    """Wait until the other warp group has issued its products."""
    if plan.turns:
        if group == 0:
            barrier(name=1, count=256)
        else:
            barrier(name=2, count=256)


@helper
def give_turn(group: Any, plan: AttentionBoxes) -> None:
    """Let the other warp group go on."""
    if plan.turns:
        if group == 0:
            arrive(2, 256)
        else:
            arrive(1, 256)


@helper
def end_turns(group: Any, plan: AttentionBoxes) -> None:
    """Take the last turn, so that no unit waits at a barrier."""
    if plan.turns and (group == 0):
        barrier(name=1, count=256)
