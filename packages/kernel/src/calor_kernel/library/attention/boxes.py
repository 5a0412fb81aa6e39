"""Attention by warp groups that are fed by the device's copy engine.

Requirements: as :mod:`fragment_forward`, on devices that copy boxes by themselves; one unit asks
for boxes, and other warp groups, of which each has its own rows of queries, never wait for
addresses; the scores of a block are on their way before the weights of the block before it meet
their values, so that the powers of one block are computed beside the products of the other; two
warp groups take turns at the matrix units, so that one computes powers while the other multiplies;
a cube computes tile after tile, whose first boxes come while sums are written. (Roles, the order
within a warp group, and the turns of two after Shah et al., "FlashAttention-3", 2024.)
"""

from __future__ import annotations

import math
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
    kernel,
    lane_position,
    launch_attributes,
    operand_of,
    role,
    select,
    shared,
    tensor_map,
    unit_index,
    wait_mma,
    wait_puts,
)
from calor_kernel.library.attention.fragment_plan import Fragments
from calor_kernel.library.attention.fragments import Hidden, exponent, finish, follow
from calor_kernel.library.attention.problem import Given, given
from calor_kernel.library.matmul.boxes import following, store_part
from calor_kernel.library.panels import add_products

# Elements of a line of shared memory as the instructions read it, and rows of a warp group.
LINE, OWN = 64, 64
# Registers of the units that ask for boxes, and of those that multiply, by their warp groups.
_ASKING = {1: 56, 2: 24, 3: 32}
_MULTIPLYING = {1: 240, 2: 240, 3: 160}


@dataclass(frozen=True, slots=True)
class AttentionBoxes:
    """How attention is computed: warp groups of 64 rows of queries, by steps of a block of keys.

    ``tiles``: how rows of scores lie, and how many warp groups there are. ``stages``: the blocks of
    keys, and of values, that are in memory. ``turns``: whether two warp groups multiply in turn.
    """

    tiles: Fragments
    stages: int
    turns: bool = False

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

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube: queries, results, the stages, and their barriers."""
        made = self.tiles
        lines = (self.rows + self.stages * made.block) * (made.features + made.values)
        return lines * int(made.dtype.itemsize) + 1024

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

    @helper
    def fetch(
        self, source: Any, place: Any, first: Any, count: int, stage: Any, parity: Any
    ) -> None:
        """Ask for ``count`` rows from ``first`` on, box by box of a line's width."""
        self.empty.wait(stage, parity)
        self.full.expect(stage, self.size * self.memory.dtype.itemsize)
        for line in range(self.size // (count * LINE)):
            to = self.memory.at(stage * self.size + line * count * LINE)
            source.fetch(to, (*place, first, line * LINE), self.full, stage)
        self.full.arrive(stage)

    @helper
    def release(self, stage: Any) -> None:
        """Say that a plane has done with a stage."""
        barrier("plane")
        if lane_position() == 0:
            self.empty.arrive(stage)


def ring(memory: Any, stages: int, size: int, plan: AttentionBoxes) -> Ring:
    """Return stages of ``size`` elements each."""
    full = Mbarriers(stages, 1, meet=False)
    empty = Mbarriers(stages, 4 * plan.groups, meet=False)
    return Ring(memory, size, full, empty)


@helper
def lines_map(operand: Any, sizes: Any, strides: Any, count: int) -> Any:
    """Return the map of an operand of four axes: boxes of ``count`` rows of a line each."""
    whole = (1, 1, count, LINE)
    at = Swizzled(Swizzle(3, 3, 3), Layout(whole, (0, 0, LINE, 1)))
    return tensor_map(operand, sizes, (*strides, 1), whole, at)


@kernel
def attend_boxes(
    out: Any,
    total: Any,
    value_width: Any,
    batches: Any,
    band: Any,
    head_step: Any,
    batch_step: Any,
    *numbers: Any,
    plan: AttentionBoxes,
    kinds: tuple[str, ...],
    causal: bool,
    adjusted: bool,
) -> None:
    """Compute tiles of rows of the result, of heads in bands, the longest rows first.

    ``head_step``, ``batch_step``: how far heads and batches of results are apart. ``band``: the
    heads, of all batches, whose tiles are computed at the same time.
    """
    launch_attributes(cubes_per_core=1)
    g, tiles = given(numbers), plan.tiles
    q_map = lines_map(
        g.query, (batches, g.heads, g.queries, g.features), g.query_strides[:3], plan.rows
    )
    k_map = lines_map(
        g.key, (batches, g.key_heads, g.keys, g.features), g.key_strides[:3], tiles.block
    )
    v_map = lines_map(
        g.value, (batches, g.key_heads, g.keys, value_width), g.value_strides[:3], tiles.block
    )
    o_map = lines_map(
        out, (batches, g.heads, g.queries, value_width), (batch_step, head_step, value_width), OWN
    )
    sizes = plan.rows * tiles.features, tiles.block * tiles.features, tiles.block * tiles.values
    results = shared(plan.rows * tiles.values, plan.result, align=1024)
    queries_at = shared(sizes[0], plan.result, align=1024)
    keys_at, values_at = (shared(plan.stages * n, plan.result, align=1024) for n in sizes[1:])
    queries = ring(queries_at, 1, sizes[0], plan)
    keys = ring(keys_at, plan.stages, sizes[1], plan)
    values = ring(values_at, plan.stages, sizes[2], plan)
    barrier()
    down = (g.queries + plan.rows - 1) // plan.rows
    cube, cubes = cube_position(0), cube_count(0)
    # Cubes take tiles forth and back, so that all have as much to do.
    whole, rest = down * g.heads * batches // cubes, down * g.heads * batches % cubes
    last = select(whole % 2 == 1, cubes - 1 - cube, cube)
    count = whole + select(last < rest, 1, 0)

    def place_of(turn: Any) -> Any:
        number = turn * cubes + select(turn % 2 == 1, cubes - 1 - cube, cube)
        return place_of_tile(number, down, g, batches, band)

    with role(0, registers=_ASKING[plan.groups]):
        if unit_index() == 0:
            stage, parity = cube * 0, cube * 0 + 1
            for turn in range(count):
                n, head, first = place_of(turn)
                first = first * plan.rows
                queries.fetch(q_map, (n, head), first, plan.rows, 0, turn % 2 ^ 1)
                at = (n, head // g.group)
                for begin in range(0, end_of(first, g, causal, plan), tiles.block):
                    keys.fetch(k_map, at, begin, tiles.block, stage, parity)
                    values.fetch(v_map, at, begin, tiles.block, stage, parity)
                    stage, parity = following(stage, parity, plan.stages)
    with role(1, plan.groups, registers=_MULTIPLYING[plan.groups], apart=plan.turns):
        group = unit_index() // 128 - 1
        row = group * OWN
        factor = exponent(g, adjusted)
        mine = tiles.panel(plan.rows, tiles.features).matrix(queries.memory)
        stage, parity = cube * 0, cube * 0
        begin_turns(group, plan)
        for turn in range(count):
            n, head, first = place_of(turn)
            first = first * plan.rows
            hidden = Hidden(g, kinds, causal, adjusted, n, head, False)
            reach = min(g.keys, first + row + 1) if causal else g.keys
            stop = end_of(first, g, causal, plan)
            queries.full.wait(0, turn % 2)
            keys.full.wait(stage, parity)
            opening, sums = tiles.sums(tiles.block), tiles.sums(tiles.values)
            largest = sums[0][0].band(tiles.axis, -math.inf)
            powers = sums[0][0].band(tiles.axis)
            tiles.add_scores(opening, mine, row, keys.memory.at(stage * keys.size), tiles.features)
            wait_mma(opening[0][0])
            keys.release(stage)
            hidden.adjust_some(opening, first + row, 0, reach, tiles)
            follow(opening[0], largest, powers, factor, tiles.axis)
            weights = weights_of(opening, tiles)
            for begin in range(tiles.block, stop, tiles.block):
                before, phase = stage, parity
                stage, parity = following(stage, parity, plan.stages)
                keys.full.wait(stage, parity)
                take_turn(group, plan)
                scores = tiles.sums(tiles.block)
                at = keys.memory.at(stage * keys.size)
                tiles.add_scores(scores, mine, row, at, tiles.features)
                values.full.wait(before, phase)
                add_weighted(sums, weights, values.memory.at(before * values.size), tiles)
                give_turn(group, plan)
                wait_mma(scores[0][0], pending=1)
                keys.release(stage)
                hidden.adjust_some(scores, first + row, begin, reach, tiles)
                # Beside the products of the block before, which its values are free after.
                fade = follow(scores[0], largest, powers, factor, tiles.axis)
                wait_mma(sums[0][0], after=sum(powers.items.items))
                values.release(before)
                sums[0][0].map_band(lambda x, f: x * f, fade)
                for old, new in zip(weights, weights_of(scores, tiles), strict=True):
                    old[0].parts[0] = new[0].parts[0]
            queries.release(0)
            values.full.wait(stage, parity)
            add_weighted(sums, weights, values.memory.at(stage * values.size), tiles)
            wait_mma(sums[0][0])
            values.release(stage)
            stage, parity = following(stage, parity, plan.stages)
            row_at = (n * g.heads + head) * g.queries
            finish(sums[0], largest, powers, total, row_at, first + row, g, adjusted, tiles)
            wait_puts(read=True)
            barrier("warpgroup")
            for part in range(tiles.values // LINE):
                place = results.at((part * plan.groups + group) * OWN * LINE)
                store_part(sums[0][0], place, part * LINE, plan)
            barrier("warpgroup")
            for part in range(tiles.values // LINE):
                place = results.at((part * plan.groups + group) * OWN * LINE)
                o_map.put(place, (n, head, first + row, part * LINE), unit_index() % 128, 128)
        end_turns(group, plan)
        wait_puts()


@helper
def weights_of(scores: Any, tiles: Fragments) -> Any:
    """Return weights as operands, for each step of the products with values."""
    shape = tiles.shape(tiles.values)
    return [[operand_of(scores[0], shape, "a", first=p)] for p in range(0, tiles.block, shape.k)]


@helper
def add_weighted(sums: Any, weights: Any, values: Any, tiles: Fragments) -> None:
    """Start adding weights times a block's values."""
    add_products(sums, weights, tiles.panel(tiles.block, tiles.values).matrix(values), tiles.block)


@helper
def end_of(first: Any, g: Given, causal: bool, plan: AttentionBoxes) -> Any:
    """Return the key that none of a tile's queries sees any more."""
    return min(g.keys, first + plan.rows) if causal else g.keys


@helper
def place_of_tile(number: Any, down: Any, g: Given, batches: Any, band: Any) -> Any:
    """Return batch, head and number of a tile among its head's, of which the last come first."""
    heads = g.heads * batches
    begin = number // (down * band) * band
    within, wide = number % (down * band), min(heads - begin, band)
    head = begin + within % wide
    return head // g.heads, head % g.heads, down - 1 - within // wide


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
