"""Attention by boxes: warp groups that are fed by the device's copy engine, and how they share.

Requirements: one unit asks for boxes, and other warp groups, of which each has its own rows, never
wait for addresses; two warp groups take turns at the matrix units, so that one computes powers
while the other multiplies; a cube computes tile after tile, whose first boxes come while results
are written. (Roles and turns after Shah et al., "FlashAttention-3", 2024.)
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

# Elements of a line of shared memory as the instructions read it, and rows of a warp group.
LINE, OWN = 64, 64
# Registers of the units that ask for boxes, and of those that multiply, by their warp groups.
ASKING = {1: 56, 2: 24, 3: 32}
MULTIPLYING = {1: 240, 2: 240, 3: 160}


@dataclass(frozen=True, slots=True)
class AttentionBoxes:
    """How attention is computed: warp groups of 64 rows of queries, by steps of a block of keys.

    ``tiles``: how rows of scores lie, and how many warp groups there are. ``stages``: the blocks of
    keys, and of values, that are in memory. ``turns``: whether two warp groups multiply in turn.
    ``own``: the tiles of which the rows that warp groups own are in memory. ``asking``: registers
    of the units that ask, where those that multiply leave them more than usual; 0: as usual.
    """

    tiles: Fragments
    stages: int
    turns: bool = False
    own: int = 1
    asking: int = 0

    @property
    def registers(self) -> tuple[int, int]:
        """The registers of units that ask for boxes, and of those that multiply."""
        asking, multiplying = ASKING[self.groups], MULTIPLYING[self.groups]
        if not self.asking:
            return asking, multiplying
        # Registers are given by eights, and no group of warps has more than the others leave.
        return self.asking, multiplying - -(-(self.asking - asking) // (8 * self.groups)) * 8

    def place(self, turn: Any) -> tuple[Any, Any]:
        """Return where a tile's own rows are, and the parity of the phase in which they come."""
        return (0, turn % 2) if self.own == 1 else (turn % 2, turn // 2 % 2)

    @property
    def groups(self) -> int:
        """The warp groups that multiply."""
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
        """The columns of results that lie in a line of shared memory."""
        return LINE

    @property
    def result(self) -> DType:
        """The type of results."""
        return self.tiles.dtype

    def swizzle(self, dtype: DType) -> Swizzle:
        """Return how pieces of 16 bytes of a line are swizzled."""
        return Swizzle(3, 3, 3)


@dataclass(frozen=True, slots=True)
class Ring:
    """Panels of an operand in shared memory, which boxes fill and warp groups give back."""

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
        """Ask for ``count`` rows from ``first`` on, box by box of a line's width."""
        self.empty.wait(stage, parity)
        self.full.expect(stage, self.size * self.memory.dtype.itemsize)
        for line in range(self.size // (count * LINE)):
            to = self.at(stage).at(line * count * LINE)
            source.fetch(to, (*place, first, line * LINE), self.full, stage)
        self.full.arrive(stage)

    @helper
    def release(self, stage: Any) -> None:
        """Say that a plane has done with a stage."""
        barrier("plane")
        if lane_position() == 0:
            self.empty.arrive(stage)


def ring(memory: Any, stages: int, size: int, plan: AttentionBoxes, arrivals: int = 1) -> Ring:
    """Return stages of ``size`` elements each, that many arrivals fill."""
    full = Mbarriers(stages, arrivals, meet=False)
    empty = Mbarriers(stages, 4 * plan.groups, meet=False)
    return Ring(memory, size, full, empty)


@helper
def lines_map(operand: Any, sizes: Any, strides: Any, count: int) -> Any:
    """Return the map of an operand of four axes: boxes of ``count`` rows of a line each."""
    whole = (1, 1, count, LINE)
    at = Swizzled(Swizzle(3, 3, 3), Layout(whole, (0, 0, LINE, 1)))
    return tensor_map(operand, sizes, (*strides, 1), whole, at)


@dataclass(frozen=True, slots=True)
class Order:
    """In which order cubes take tiles: ``down`` tiles of each of ``heads``, of all batches.

    Of a ``band`` of heads the first tiles are taken first, and so on, so that these heads stay in
    the cache. Cubes go through them forth and back, so that all have as much to do.
    """

    down: Any
    heads: Any
    band: Any

    @helper
    def count(self) -> Any:
        """Return how many tiles this cube takes."""
        cube, cubes = cube_position(0), cube_count(0)
        whole, rest = self.down * self.heads // cubes, self.down * self.heads % cubes
        last = select(whole % 2 == 1, cubes - 1 - cube, cube)
        return whole + select(last < rest, 1, 0)

    @helper
    def place(self, turn: Any) -> tuple[Any, Any]:
        """Return the head, of all batches, and the number of this cube's tile among its head's."""
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
    """Ask for the rows of this cube's tiles of queries, and for the keys that each of them sees.

    ``own``, ``steps``: rings of what a tile has of its own, and of what comes block by block, each
    with its map. ``told``: where the place of a tile is left for the warp groups.
    """
    stage, parity = count * 0, count * 0 + 1
    for turn in range(count):
        number, down = order.place(turn)
        # The last rows of a head are the longest.
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
    """Set weights to others, once products with them are done."""
    for old, new in zip(weights, others, strict=True):
        old[0].parts[0] = new[0].parts[0]


@helper
def add_weighted(sums: Any, weights: Any, rows: Any, tiles: Fragments, room: int) -> None:
    """Start adding weights times a block's rows."""
    add_products(sums, weights, tiles.panel(tiles.block, room).matrix(rows), tiles.block)


@helper
def put_rows(sums: Any, results: Any, to: Any, place: Any, row: Any, plan: AttentionBoxes) -> None:
    """Write a warp group's rows, by its own lines of ``results``, to a place and rows from one on.

    Lines are free once ``wait_puts(read=True)`` came before, which the first barrier tells all.
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
    """Return the key that none of a tile's queries sees any more."""
    return min(g.keys, first + plan.rows) if causal else g.keys


# Two warp groups take turns by a barrier for each, at which the other one arrives.
@helper
def begin_turns(group: Any, plan: AttentionBoxes) -> None:
    """Let the first warp group begin."""
    if plan.turns and (group == 1):
        arrive(1, 256)


@helper
def take_turn(group: Any, plan: AttentionBoxes) -> None:
    """Wait until the other warp group's products are on their way."""
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
    """Take the turn that is left, so that nobody waits at a barrier."""
    if plan.turns and (group == 0):
        barrier(name=1, count=256)
