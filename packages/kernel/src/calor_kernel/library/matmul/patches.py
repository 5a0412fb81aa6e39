"""Products in float32 by cubes of many units: each unit sums patches of four by four in registers.

Requirements: every access of memory is of four elements, also where an operand lies the other way;
the next step's tiles are on their way while this one's are multiplied; each sum is formed in the
order of the summed axis, by fused multiply-adds, as in every other way of computing products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import float32
from calor_kernel.language import (
    Layout,
    Pipeline,
    Tile,
    barrier,
    constant,
    cube_position,
    fma,
    helper,
    kernel,
    launch_attributes,
    loop_range,
    pack,
    registers,
    shared,
    unit_index,
)
from calor_kernel.library.panels import fill_ahead, work_through

# Elements of an access, and its bytes.
FOUR = 4
_ACCESS = 16
# Registers of a core, those of a unit beside sums, and the cubes that are enough for a core.
_REGISTERS, _OTHERS, _TOGETHER = 64 << 10, 64, 4


@dataclass(frozen=True, slots=True)
class Patches:
    """How a product is computed: ``down`` by ``across`` units, of ``high`` by ``wide`` patches.

    A tile takes ``depth`` of the summed axis at a time. ``a_along``, ``b_along``: whether the
    operand is dense along that axis; else it is dense along its rows or columns. ``stages``: of
    which all but one are on their way by asynchronous copies; 0: a step is loaded to registers.
    """

    down: int
    across: int
    high: int
    wide: int
    depth: int
    a_along: bool
    b_along: bool
    stages: int = 0

    @property
    def rows(self) -> int:
        """The rows of a tile."""
        return FOUR * self.down * self.high

    @property
    def columns(self) -> int:
        """The columns of a tile."""
        return FOUR * self.across * self.wide

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.down * self.across

    @property
    def together(self) -> int:
        """The cubes that a core has registers for: those of sums, and of all else."""
        each = (FOUR * FOUR * self.high * self.wide + _OTHERS) * self.units
        return max(1, min(_REGISTERS // each, _TOGETHER))

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return sum(tile.size for tile in self.tiles) * FOUR * (self.stages or 2)

    @property
    def tiles(self) -> tuple[Tile, Tile]:
        """What a step takes: lines of the summed axis, of which the next begins in other banks."""
        a, b = (
            Tile(float32, Layout((size, self.depth), (1, size + FOUR)), align=_ACCESS)
            for size in (self.rows, self.columns)
        )
        return a, b


@kernel
def matmul_patches(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_stride: Any,
    b_stride: Any,
    inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    *,
    plan: Patches,
) -> None:
    """Compute a tile of c. ``a_stride``, ``b_stride``: of the axis that is not dense."""
    launch_attributes(cubes_per_core=plan.together)
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    y, x = woven(plan)
    sums = registers((FOUR * plan.high, FOUR * plan.wide), float32)
    if plan.stages:
        operands = (a, a_start, a_stride, first_row, m), (b, b_start, b_stride, first_column, n)
        add_ahead(sums, operands, k, y, x, plan)
    else:
        add_loaded(
            sums, (a, a_start, a_stride, first_row, m), (b, b_start, b_stride, first_column, n), k,
            y, x, plan,
        )  # fmt: skip
    for i in range(FOUR * plan.high):
        row = first_row + y + i // FOUR * (FOUR * plan.down) + i % FOUR
        for j in range(plan.wide):
            column = first_column + x + j * (FOUR * plan.across)
            if (row < m) & (column < n):
                four = pack([sums[i, FOUR * j + q] for q in range(FOUR)])
                c.store((batch * m + row) * n + column, four)


@helper
def add_loaded(
    sums: Any, left_operand: Any, right_operand: Any, k: Any, y: Any, x: Any, plan: Any
) -> None:
    """Add a tile's products, while a later step is on its way to registers."""
    operands, sizes = (left_operand, right_operand), (plan.rows, plan.columns)
    pitches, along = (plan.rows + FOUR, plan.columns + FOUR), (plan.a_along, plan.b_along)
    tiles = [shared(2 * plan.depth * pitch, float32, align=_ACCESS) for pitch in pitches]
    held = [registers(pieces(size, plan), float32, FOUR) for size in sizes]
    for i in range(2):
        take(held[i], operands[i], 0, k, sizes[i], along[i], plan)
        put(held[i], tiles[i], 0, pitches[i], sizes[i], along[i], plan)
        take(held[i], operands[i], plan.depth, k, sizes[i], along[i], plan)
    barrier()
    side = constant(0, k.dtype)
    for begin in range(0, k, plan.depth):
        now = [side * (plan.depth * pitch) for pitch in pitches]
        add_step(sums, tiles[0].at(now[0] + y), tiles[1].at(now[1] + x), plan)
        # The other half was read a step ago, and all have met since.
        side = 1 - side
        for i in range(2):
            put(
                held[i], tiles[i], side * (plan.depth * pitches[i]), pitches[i], sizes[i], along[i],
                plan,
            )  # fmt: skip
        # Before the barrier, past which compilers do not put loads off: a whole step hides them.
        for i in range(2):
            take(held[i], operands[i], begin + 2 * plan.depth, k, sizes[i], along[i], plan)
        barrier()


@helper
def add_ahead(sums: Any, operands: Any, k: Any, y: Any, x: Any, plan: Any) -> None:
    """Add a tile's products, while later steps are copied to shared memory.

    No registers hold them, and no compiler puts off what hides the way to memory.
    """
    pipe = Pipeline(plan.stages, *plan.tiles, how="async")

    def take(begin: Any) -> None:
        for tile in range(2):
            copy_tile(pipe, tile, operands[tile], k, begin, plan)

    def work(begin: Any) -> None:
        add_step(sums, pipe.stage(0).at(y), pipe.stage(1).at(x), plan)

    fill_ahead(pipe, take, 0, plan.depth)
    work_through(pipe, take, work, 0, k, plan.depth)


@helper
def copy_tile(pipe: Any, tile: int, operand: Any, k: Any, begin: Any, plan: Any) -> None:
    """Copy an operand's part of a step, of which neighbours take what lies dense."""
    source, start, stride, first, count = operand
    size, along = (plan.rows, plan.a_along) if tile == 0 else (plan.columns, plan.b_along)
    # What is turned on its way is copied one by one.
    wide = 1 if along else FOUR
    whole = size * plan.depth // wide
    for turn in range(-(-whole // plan.units)):
        piece = unit_index() + turn * plan.units
        if along:
            place, deep = piece // plan.depth, piece % plan.depth
            index = start + (first + place) * stride + (begin + deep)
        else:
            place, deep = piece % (size // FOUR) * FOUR, piece // (size // FOUR)
            index = start + (begin + deep) * stride + (first + place)
        inside = (first + place < count) & (begin + deep < k)
        if (whole % plan.units == 0) or (piece < whole):
            pipe.copy(tile, place + deep * (size + FOUR), source, index, wide, inside)


@helper
def add_step(sums: Any, left: Any, right: Any, plan: Any) -> None:
    """Add the products of a step, of which a unit's patches begin at the pointers."""
    for p in loop_range(0, plan.depth, unroll=plan.depth):
        ls = [
            left.load(p * (plan.rows + FOUR) + i * (FOUR * plan.down), FOUR)
            for i in range(plan.high)
        ]
        rs = [
            right.load(p * (plan.columns + FOUR) + j * (FOUR * plan.across), FOUR)
            for j in range(plan.wide)
        ]
        for i in range(FOUR * plan.high):
            for j in range(FOUR * plan.wide):
                value, other = ls[i // FOUR][i % FOUR], rs[j // FOUR][j % FOUR]
                sums[i, j] = fma(value, other, sums[i, j])


def woven(plan: Patches) -> tuple[Any, Any]:
    """Return the row and column of a unit's first patch.

    Units that go together are four down by eight across, neighbours below each other, so that
    accesses of shared memory by all of them meet few banks twice (Gray, maxas, 2014).
    """
    unit = unit_index()
    if plan.down % 4 or plan.across % 8:
        return unit // plan.across * FOUR, unit % plan.across * FOUR
    group, place = unit // 32, unit % 32
    wide = plan.across // 8
    y = group // wide * 4 + (place % 2 + place // 16 * 2)
    x = group % wide * 8 + place // 2 % 8
    return y * FOUR, x * FOUR


def pieces(size: int, plan: Patches) -> int:
    """Return the accesses of a unit to a tile; those of all are the tile's."""
    return -(-size * plan.depth // (FOUR * plan.units))


def place_of(turn: int, size: int, along: bool, plan: Patches) -> tuple[Any, Any, Any]:
    """Return an access of a unit: its number, the line of the operand, and the place in it."""
    piece = unit_index() + turn * plan.units
    lines = (plan.depth if along else size) // FOUR
    return piece, piece // lines, piece % lines * FOUR


@helper
def take(
    held: Any,
    operand: Any,
    begin: Any,
    k: Any,
    size: int,
    along: bool,
    plan: Any,
) -> None:
    """Load a unit's part of a tile to registers, zeros where the operand ends."""
    source, start, stride, first, count = operand
    for turn in range(pieces(size, plan)):
        _, line, at = place_of(turn, size, along, plan)
        if along:
            across, deep = first + line, begin + at
            index = start + across * stride + deep
        else:
            across, deep = first + at, begin + line
            index = start + deep * stride + across
        four = constant((0.0,) * FOUR, float32)
        if (across < count) & (deep < k):
            four = source.load(index, FOUR)
        held[turn] = four


@helper
def put(held: Any, tile: Any, at: Any, pitch: int, size: int, along: bool, plan: Any) -> None:
    """Store a unit's part of a tile, by lines of the summed axis."""
    for turn in range(pieces(size, plan)):
        piece, line, place = place_of(turn, size, along, plan)
        if piece < size * plan.depth // FOUR:
            if along:
                for q in range(FOUR):
                    tile[at + (place + q) * pitch + line] = held[turn][q]
            else:
                tile.store(at + line * pitch + place, held[turn])
