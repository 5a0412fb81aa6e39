"""Steps of SIMT products whose tiles go through registers to shared memory.

Requirements: every access of memory has four elements. The next step's tiles are loaded while this
one's are multiplied. A step has few instructions beside its products.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import float32
from calor_kernel.language import (
    Index,
    Number,
    Pointer,
    Registers,
    barrier,
    constant,
    fma,
    helper,
    loop_range,
    registers,
    shared,
    unit_index,
)
from calor_kernel.library.gemm.lines import Lines
from calor_kernel.library.gemm.simt_plan import ACCESS, FOUR, SimtPlan

Operands = tuple[Lines, Lines]
Factors = tuple[Registers, Registers]


@helper
def add_loaded(
    sums: Registers, operands: Operands, k: Number, y: Number, x: Number, plan: SimtPlan
) -> None:
    """Add a tile's products while registers receive a later step."""
    sizes, pitches, along = sides(plan)
    tiles, held = begin_loaded(operands, k, plan)
    side = constant(0, k.dtype)
    for begin in range(0, k, plan.depth):
        now = [side * (plan.depth * pitch) for pitch in pitches]
        add_step(sums, tiles[0].at(now[0] + y), tiles[1].at(now[1] + x), plan)
        # All units finished the other half one barrier ago.
        side = 1 - side
        for i in range(2):
            put(
                held[i], tiles[i], side * (plan.depth * pitches[i]), pitches[i], sizes[i], along[i],
                plan,
            )  # fmt: skip
        # Compilers do not delay these loads past the barrier, so a whole step hides their latency.
        for i in range(2):
            take(held[i], operands[i], begin + 2 * plan.depth, k, sizes[i], along[i], plan)
        barrier()


@helper
def add_early(
    sums: Registers, operands: Operands, k: Number, y: Number, x: Number, plan: SimtPlan
) -> None:
    """Add a tile's products; a term's operands are loaded before the preceding products are added.

    The last term of a step is added after the barrier, while the next step's first operands are
    loaded, so that no unit waits for them. Read and write positions are carried from step to step,
    because compilers otherwise recompute them in each step, at a cost of one instruction in 40.
    """
    sizes, pitches, along = sides(plan)
    tiles, held = begin_loaded(operands, k, plan)
    index = k.dtype
    factors = registers(plan.high, float32, FOUR), registers(plan.wide, float32, FOUR)
    load_factors(factors, tiles[0].at(y), tiles[1].at(x), plan)
    reads = registers(2, index)
    reads[0], reads[1] = y.to(index), x.to(index)
    # Positions that a unit reads and writes, and the rest of the operand from there.
    froms, writes, lefts = (
        [registers(pieces(size, plan), index) for size in sizes] for _ in range(3)
    )
    for i in range(2):
        lines = operands[i]
        for turn in range(pieces(sizes[i], plan)):
            _, line, at = place_of(turn, sizes[i], along[i], plan)
            place, deep = (line, at) if along[i] else (at, line)
            later, across = deep + 2 * plan.depth, lines.first + place
            steps = (lines.stride, 1) if along[i] else (1, lines.stride)
            froms[i][turn] = (lines.start + across * steps[0] + later * steps[1]).to(index)
            writes[i][turn] = ((plan.depth + deep) * pitches[i] + place).to(index)
            left = constant(0, index)
            if across < lines.count:
                left = (k - later).to(index)
            lefts[i][turn] = left
    forth = constant(1, index)
    for _ in range(0, k, plan.depth):
        add_but_last(sums, factors, tiles[0].at(reads[0]), tiles[1].at(reads[1]), plan)
        for i in range(2):
            half = forth * (plan.depth * pitches[i])
            reads[i] = reads[i] + half
            number = sizes[i] * plan.depth // FOUR
            for turn in range(pieces(sizes[i], plan)):
                piece = unit_index() + turn * plan.units
                if (number % plan.units == 0) or (piece < number):
                    put_piece(held[i][turn], tiles[i], writes[i][turn], pitches[i], along[i])
                writes[i][turn] = writes[i][turn] - half
        forth = 0 - forth
        for i in range(2):
            lines = operands[i]
            for turn in range(pieces(sizes[i], plan)):
                four = constant((0.0,) * FOUR, float32)
                if lefts[i][turn] > 0:
                    four = lines.source.load(froms[i][turn], FOUR)
                held[i][turn] = four
                lefts[i][turn] = lefts[i][turn] - plan.depth
                further = froms[i][turn] + (plan.depth if along[i] else plan.depth * lines.stride)
                froms[i][turn] = further.to(index)
        barrier()
        add_and_load(sums, factors, tiles[0].at(reads[0]), tiles[1].at(reads[1]), plan)


@helper
def begin_loaded(
    operands: Operands, k: Number, plan: SimtPlan
) -> tuple[list[Pointer], list[Registers]]:
    """Fill the first half of both tiles and load the next step; return tiles and registers."""
    sizes, pitches, along = sides(plan)
    tiles = [shared(2 * plan.depth * pitch, float32, align=ACCESS) for pitch in pitches]
    held = [registers(pieces(size, plan), float32, FOUR) for size in sizes]
    for i in range(2):
        take(held[i], operands[i], 0, k, sizes[i], along[i], plan)
        put(held[i], tiles[i], 0, pitches[i], sizes[i], along[i], plan)
        take(held[i], operands[i], plan.depth, k, sizes[i], along[i], plan)
    barrier()
    return tiles, held


@helper
def add_step(sums: Registers, left: Pointer, right: Pointer, plan: SimtPlan) -> None:
    """Add a step's products; the pointers are at the unit's first register tiles."""
    for p in loop_range(0, plan.depth, unroll=plan.depth):
        ls = [
            left.load(p * (plan.rows + FOUR) + i * (FOUR * plan.down), FOUR)
            for i in range(plan.high)
        ]
        rs = [
            right.load(p * (plan.columns + FOUR) + j * (FOUR * plan.across), FOUR)
            for j in range(plan.wide)
        ]
        add_part(sums, ls, rs, plan)


@helper
def add_but_last(
    sums: Registers, factors: Factors, left: Pointer, right: Pointer, plan: SimtPlan
) -> None:
    """Add the products of all terms of a step but the last; its operands stay loaded."""
    for p in loop_range(1, plan.depth, unroll=plan.depth):
        then = left.at(p * (plan.rows + FOUR)), right.at(p * (plan.columns + FOUR))
        add_and_load(sums, factors, then[0], then[1], plan)


@helper
def add_and_load(
    sums: Registers, factors: Factors, left: Pointer, right: Pointer, plan: SimtPlan
) -> None:
    """Load the next operands, then add the products of the operands loaded before."""
    ls, rs = ([side[i] for i in range(side.shape[0])] for side in factors)
    load_factors(factors, left, right, plan)
    add_part(sums, ls, rs, plan)


@helper
def load_factors(factors: Factors, left: Pointer, right: Pointer, plan: SimtPlan) -> None:
    """Load the operands of one term from the pointers."""
    for i in range(plan.high):
        factors[0][i] = left.load(i * (FOUR * plan.down), FOUR)
    for j in range(plan.wide):
        factors[1][j] = right.load(j * (FOUR * plan.across), FOUR)


@helper
def add_part(sums: Registers, ls: Sequence[Number], rs: Sequence[Number], plan: SimtPlan) -> None:
    """Add the products of one term in the plan's order."""
    for (i, j), number in plan.numbers.items():
        value, other = ls[i // FOUR][i % FOUR], rs[j // FOUR][j % FOUR]
        sums[number] = fma(value, other, sums[number])


def sides(plan: SimtPlan) -> tuple[tuple[int, int], tuple[int, int], tuple[bool, bool]]:
    """Return size, pitch and whether the operand is dense along K, for both tiles."""
    sizes = plan.rows, plan.columns
    return sizes, (sizes[0] + FOUR, sizes[1] + FOUR), (plan.a_along, plan.b_along)


def pieces(size: int, plan: SimtPlan) -> int:
    """Return the number of accesses of a unit to a tile."""
    return -(-size * plan.depth // (FOUR * plan.units))


def place_of(turn: int, size: int, along: bool, plan: SimtPlan) -> tuple[Number, Number, Number]:
    """Return an access of a unit: its index, the operand's line and the offset in the line."""
    piece = unit_index() + turn * plan.units
    lines = (plan.depth if along else size) // FOUR
    return piece, piece // lines, piece % lines * FOUR


@helper
def take(
    held: Registers, lines: Lines, begin: Index, k: Number, size: int, along: bool, plan: SimtPlan
) -> None:
    """Load a unit's part of a tile to registers, with zeros beyond the operand's end."""
    for turn in range(pieces(size, plan)):
        _, line, at = place_of(turn, size, along, plan)
        place, p = (line, at) if along else (at, line)
        across, deep = lines.first + place, begin + p
        index = lines.index(across, deep)
        four = constant((0.0,) * FOUR, float32)
        if lines.inside(across, deep, k):
            four = lines.source.load(index, FOUR)
        held[turn] = four


@helper
def put(
    held: Registers, tile: Pointer, at: Index, pitch: int, size: int, along: bool, plan: SimtPlan
) -> None:
    """Store a unit's part of a tile; lines of the tile run across the K axis."""
    for turn in range(pieces(size, plan)):
        piece, line, place = place_of(turn, size, along, plan)
        if piece < size * plan.depth // FOUR:
            if along:
                for q in range(FOUR):
                    tile[at + (place + q) * pitch + line] = held[turn][q]
            else:
                tile.store(at + line * pitch + place, held[turn])


@helper
def put_piece(held: Number, tile: Pointer, at: Index, pitch: int, along: bool) -> None:
    """Store one access; an operand dense along K is transposed to four lines."""
    if along:
        for q in range(FOUR):
            tile[at + q * pitch] = held[q]
    else:
        tile.store(at, held)
