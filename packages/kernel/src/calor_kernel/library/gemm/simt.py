"""The main loop of float32 products by FMA: each unit sums register tiles of 4 x 4.

Requirements: every access of memory has four elements. The tiles of the next step are copied, or
loaded to registers, while those of this one are multiplied. A step has few instructions beside its
products. Each sum adds its terms in the order of the K axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calor.dtypes import float32
from calor_kernel import language as kl
from calor_kernel.library.gemm.lines import Lines
from calor_kernel.library.gemm.pipeline import Loader, accumulate
from calor_kernel.library.gemm.simt_plan import ACCESS, FOUR, SimtPlan

Factors = tuple[kl.Registers, kl.Registers]


@dataclass(frozen=True, slots=True)
class SimtTile:
    """A unit's sums of a tile, for an epilogue; ``y``, ``x``: its first row and column.

    Sums are numbered in the order of the plan's updates and carried through loops, so that
    compilers keep them in registers.
    """

    plan: SimtPlan
    sums: kl.Registers
    y: kl.Number
    x: kl.Number

    def rows(self, first: kl.Index) -> Iterator[tuple[int, kl.Number]]:
        """Yield indices and positions of the unit's rows; ``first``: the first row of the tile."""
        for i in range(FOUR * self.plan.high):
            yield i, first + self.y + i // FOUR * (FOUR * self.plan.down) + i % FOUR

    def columns(self, first: kl.Index, run: int) -> Iterator[tuple[int, kl.Number]]:
        """Yield index and position of every ``run``-th column of the unit."""
        for j in range(0, FOUR * self.plan.wide, run):
            yield j, first + self.x + j // FOUR * (FOUR * self.plan.across) + j % FOUR

    def value(self, row: int, column: int, run: int) -> kl.Number:
        """Return ``run`` sums of a row, from a column on, as a vector."""
        return kl.pack([self.sums[self.plan.numbers[row, column + q]] for q in range(run)])


def simt_tile(plan: SimtPlan) -> SimtTile:
    """Return sums of 0 for a unit's part of a tile.

    Each group of 32 units covers four rows by eight columns of register tiles, numbered down the
    columns. So its accesses of shared memory have few bank conflicts (Gray, maxas, 2014).
    """
    unit = kl.unit_index()
    if plan.down % 4 or plan.across % 8:
        y, x = unit // plan.across, unit % plan.across
    else:
        group, place = unit // 32, unit % 32
        wide = plan.across // 8
        y = group // wide * 4 + (place % 2 + place // 16 * 2)
        x = group % wide * 8 + place // 2 % 8
    return SimtTile(plan, kl.registers(len(plan.numbers), float32), y * FOUR, x * FOUR)


@kl.helper
def multiply(
    tile: SimtTile, pipe: kl.Pipeline, loaders: Sequence[Loader], begin: kl.Index, end: kl.Index
) -> None:
    """Add the products of the terms from ``begin`` to ``end``, which the loaders copy."""
    plan = tile.plan

    def work(at: kl.Number) -> None:
        add_step(tile.sums, pipe.stage(0).at(tile.y), pipe.stage(1).at(tile.x), plan)

    accumulate(pipe, loaders, work, begin, end, plan.depth)


@dataclass(frozen=True, slots=True)
class Side:
    """An operand: two halves of shared memory with a step each, and registers for a later step.

    Lines of a half run across the K axis and have ``size`` elements.
    """

    plan: SimtPlan
    lines: Lines
    size: int
    memory: kl.Pointer
    held: kl.Registers

    @property
    def half(self) -> int:
        """The elements of a half."""
        return self.plan.depth * (self.size + FOUR)

    def place_of(self, turn: int) -> tuple[kl.Number, kl.Number, kl.Number]:
        """Return an access of a unit: its index, the operand's line and the offset in the line."""
        piece = kl.unit_index() + turn * self.plan.units
        lines = (self.plan.depth if self.lines.along else self.size) // FOUR
        return piece, piece // lines, piece % lines * FOUR

    @kl.helper
    def take(self, begin: kl.Index, k: kl.Number) -> None:
        """Load the step that begins at a term to registers, with 0 beyond the operand."""
        for turn in range(len(self.held)):
            _, line, at = self.place_of(turn)
            place, p = (line, at) if self.lines.along else (at, line)
            across, deep = self.lines.first + place, begin + p
            index = self.lines.index(across, deep)
            four = kl.constant((0.0,) * FOUR, float32)
            if self.lines.inside(across, deep, k):
                four = self.lines.source.load(index, FOUR)
            self.held[turn] = four

    @kl.helper
    def put(self, at: kl.Index) -> None:
        """Store the registers to a half."""
        pitch = self.size + FOUR
        for turn in range(len(self.held)):
            piece, line, place = self.place_of(turn)
            if piece < self.size * self.plan.depth // FOUR:
                if self.lines.along:
                    for q in range(FOUR):
                        self.memory[at + (place + q) * pitch + line] = self.held[turn][q]
                else:
                    self.memory.store(at + line * pitch + place, self.held[turn])

    @kl.helper
    def put_piece(self, turn: int, at: kl.Index) -> None:
        """Store one access; an operand dense along K is transposed to four lines."""
        if self.lines.along:
            for q in range(FOUR):
                self.memory[at + q * (self.size + FOUR)] = self.held[turn][q]
        else:
            self.memory.store(at, self.held[turn])


@kl.helper
def begin_loaded(left: Lines, right: Lines, k: kl.Number, plan: SimtPlan) -> list[Side]:
    """Return both operands with the first step in shared memory and the next in registers."""
    both = (left, plan.rows), (right, plan.columns)
    halves = [kl.shared(2 * plan.depth * (size + FOUR), float32, align=ACCESS) for _, size in both]
    sides = [
        Side(plan, *one, halves[i], kl.registers(plan.pieces(one[1]), float32, FOUR))
        for i, one in enumerate(both)
    ]
    for side in sides:
        side.take(0, k)
        side.put(0)
        side.take(plan.depth, k)
    kl.barrier()
    return sides


@kl.helper
def add_loaded(tile: SimtTile, left: Lines, right: Lines, k: kl.Number) -> None:
    """Add a tile's products while registers receive a later step."""
    plan = tile.plan
    a, b = sides = begin_loaded(left, right, k, plan)
    turn = kl.constant(0, k.dtype)
    for begin in range(0, k, plan.depth):
        now = [turn * side.half for side in sides]
        add_step(tile.sums, a.memory.at(now[0] + tile.y), b.memory.at(now[1] + tile.x), plan)
        # All units finished the other half one barrier ago.
        turn = 1 - turn
        for side in sides:
            side.put(turn * side.half)
        # Compilers do not delay these loads past the barrier, so a whole step hides their latency.
        for side in sides:
            side.take(begin + 2 * plan.depth, k)
        kl.barrier()


@kl.helper
def add_early(tile: SimtTile, left: Lines, right: Lines, k: kl.Number) -> None:
    """Add a tile's products; a term's operands are loaded before the preceding products are added.

    The last term of a step is added after the barrier, while the next step's first operands are
    loaded, so that no unit waits for them. Read and write positions are carried from step to step,
    because compilers otherwise recompute them in each step, at a cost of one instruction in 40.
    """
    plan, sums, index = tile.plan, tile.sums, k.dtype
    a, b = sides = begin_loaded(left, right, k, plan)
    factors = kl.registers(plan.high, float32, FOUR), kl.registers(plan.wide, float32, FOUR)
    load_factors(factors, a.memory.at(tile.y), b.memory.at(tile.x), plan)
    reads = kl.registers(2, index)
    reads[0], reads[1] = tile.y.to(index), tile.x.to(index)
    # Positions that a unit reads and writes, and the rest of the operand from there.
    froms, writes, lefts = (
        [kl.registers(len(side.held), index) for side in sides] for _ in range(3)
    )
    for i, side in enumerate(sides):
        lines = side.lines
        for turn in range(len(side.held)):
            _, line, at = side.place_of(turn)
            place, deep = (line, at) if lines.along else (at, line)
            later, across = deep + 2 * plan.depth, lines.first + place
            steps = (lines.stride, 1) if lines.along else (1, lines.stride)
            froms[i][turn] = (lines.start + across * steps[0] + later * steps[1]).to(index)
            writes[i][turn] = ((plan.depth + deep) * (side.size + FOUR) + place).to(index)
            rest = kl.constant(0, index)
            if across < lines.count:
                rest = (k - later).to(index)
            lefts[i][turn] = rest
    forth = kl.constant(1, index)
    for _ in range(0, k, plan.depth):
        add_but_last(sums, factors, a.memory.at(reads[0]), b.memory.at(reads[1]), plan)
        for i, side in enumerate(sides):
            half = forth * side.half
            reads[i] = reads[i] + half
            number = side.size * plan.depth // FOUR
            for turn in range(len(side.held)):
                piece = kl.unit_index() + turn * plan.units
                if (number % plan.units == 0) or (piece < number):
                    side.put_piece(turn, writes[i][turn])
                writes[i][turn] = writes[i][turn] - half
        forth = 0 - forth
        for i, side in enumerate(sides):
            lines = side.lines
            for turn in range(len(side.held)):
                four = kl.constant((0.0,) * FOUR, float32)
                if lefts[i][turn] > 0:
                    four = lines.source.load(froms[i][turn], FOUR)
                side.held[turn] = four
                lefts[i][turn] = lefts[i][turn] - plan.depth
                further = froms[i][turn] + plan.depth * (1 if lines.along else lines.stride)
                froms[i][turn] = further.to(index)
        kl.barrier()
        add_and_load(sums, factors, a.memory.at(reads[0]), b.memory.at(reads[1]), plan)


@kl.helper
def add_step(sums: kl.Registers, left: kl.Pointer, right: kl.Pointer, plan: SimtPlan) -> None:
    """Add a step's products; the pointers are at the unit's first register tiles."""
    for p in kl.loop_range(0, plan.depth, unroll=plan.depth):
        at = p * (plan.rows + FOUR)
        ls = [left.load(at + i * (FOUR * plan.down), FOUR) for i in range(plan.high)]
        at = p * (plan.columns + FOUR)
        rs = [right.load(at + j * (FOUR * plan.across), FOUR) for j in range(plan.wide)]
        add_part(sums, ls, rs, plan)


@kl.helper
def add_but_last(
    sums: kl.Registers, factors: Factors, left: kl.Pointer, right: kl.Pointer, plan: SimtPlan
) -> None:
    """Add the products of all terms of a step but the last; its operands stay loaded."""
    for p in kl.loop_range(1, plan.depth, unroll=plan.depth):
        then = left.at(p * (plan.rows + FOUR)), right.at(p * (plan.columns + FOUR))
        add_and_load(sums, factors, then[0], then[1], plan)


@kl.helper
def add_and_load(
    sums: kl.Registers, factors: Factors, left: kl.Pointer, right: kl.Pointer, plan: SimtPlan
) -> None:
    """Load the next operands, then add the products of the operands loaded before."""
    ls, rs = ([side[i] for i in range(side.shape[0])] for side in factors)
    load_factors(factors, left, right, plan)
    add_part(sums, ls, rs, plan)


@kl.helper
def load_factors(factors: Factors, left: kl.Pointer, right: kl.Pointer, plan: SimtPlan) -> None:
    """Load the operands of one term from the pointers."""
    for i in range(plan.high):
        factors[0][i] = left.load(i * (FOUR * plan.down), FOUR)
    for j in range(plan.wide):
        factors[1][j] = right.load(j * (FOUR * plan.across), FOUR)


@kl.helper
def add_part(
    sums: kl.Registers, ls: Sequence[kl.Number], rs: Sequence[kl.Number], plan: SimtPlan
) -> None:
    """Add the products of one term in the plan's order."""
    for (i, j), number in plan.numbers.items():
        value, other = ls[i // FOUR][i % FOUR], rs[j // FOUR][j % FOUR]
        sums[number] = kl.fma(value, other, sums[number])
