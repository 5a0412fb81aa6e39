"""Reductions over all pairs of two sets of short rows: a cube has a tile of pairs.

Requirements: each row of both sets is read by many pairs, such as the points of distances. A cube
reads some terms of its rows and columns into shared memory, across the order of their memory, and a
unit computes a tile of pairs from registers: vectors of adjacent columns, which it writes together.
The terms of a block are added before they join the others, for few rounding errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Generic, Literal, TypeVar

from calor_kernel import language as kl
from calor_kernel.library.elementwise.operations import Step
from calor_kernel.library.elementwise.values import load, store, stored
from calor_kernel.library.reduce.job import Strides
from calor_kernel.library.reduce.program import Fold, Program, Schedule, evaluated, real
from calor_kernel.library.reduce.row_state import spread_lanes

N = TypeVar("N")
_PRODUCT: Final = "mul"
# Elements between the terms of shared memory, so that neighbouring terms are in other banks.
PAD: Final = 4
Side = Literal["rows", "columns", "both", "neither"]


@dataclass(frozen=True, slots=True)
class PairPlan:
    """A plan of pairs.

    ``sides``: for each operand in memory the sets that it varies with. ``steps``: its stride along
    the row, −1 if the launch has it. ``width``: lanes of a vector along the row. ``rows`` of a
    unit, and ``columns``, which are a vector. ``across``: units beside each other. ``block``: terms
    in shared memory at a time; ``whole``: whether rows are whole blocks. ``dense``: for each result
    whether columns are adjacent; ``even``: whether they are whole, aligned vectors in each.
    """

    sides: tuple[Side, ...]
    steps: tuple[int, ...]
    width: int
    rows: int
    columns: int
    across: int
    block: int
    whole: bool
    dense: tuple[bool, ...]
    even: bool


@dataclass(frozen=True, slots=True)
class Pairs(Generic[N]):
    """The pairs of a launch: ``rows`` by ``columns``, for each position of the axes ``sizes``.

    ``across``, ``down``: the numbers of blocks. ``length``: terms of a pair.
    """

    rows: kl.SizeOf[N]
    columns: kl.SizeOf[N]
    across: kl.SizeOf[N]
    down: kl.SizeOf[N]
    length: kl.SizeOf[N]
    sizes: tuple[kl.SizeOf[N], ...]


@kl.kernel
def reduce_pairs(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    numbers: tuple[kl.Element, ...],
    over: Pairs[kl.Number],
    views: tuple[Strides[kl.Number], ...],
    *,
    program: Program,
    plan: PairPlan,
) -> None:
    """Run a program of one pass on pairs; ``views``: the strides of sources and targets."""
    rest, across = kl.divide(kl.cube_position(), over.across)
    outer, down = kl.divide(rest, over.down)
    position = kl.unravel(outer, over.sizes)
    starts = [kl.offset_of(position, view.kept[:-2]) for view in views]
    tile = _Tile(program, plan, over, (sources, views, starts), (down, across))
    tile.begin(dict(zip(program.numbers, numbers, strict=True)))
    folds = [program.fold(n) for n in program.folds]
    totals, sums = ([tile.registers(fold) for fold in folds] for _ in range(2))
    for first in kl.loop_range(0, over.length, plan.block):
        tile.fill(first)
        kl.barrier()
        if plan.whole:
            tile.add(folds, sums, plan.block)
        else:
            tile.add(folds, sums, kl.min(over.length - first, plan.block))
        for fold, total, block in zip(folds, totals, sums, strict=True):
            for r in range(plan.rows):
                total[r] = fold.op.combine(total[r], block[r])
                block[r] = fold.op.neutral(plan.columns)
        kl.barrier()
    for r in range(plan.rows):
        if tile.rows[r] < over.rows:
            values = dict(tile.single[r])
            values |= {n: total[r] for n, total in zip(program.folds, totals, strict=True)}
            made = evaluated(program, program.results, values)
            for k, (target, value) in enumerate(zip(targets, made, strict=True)):
                tile.write(target, len(sources) + k, r, value)


def added(program: Program, fold: Fold, total: kl.Number, known: dict[int, kl.Number]) -> kl.Number:
    """Return a reduction with the terms of some pairs; a product may be rounded with its sum."""
    step = program.step(fold.operands[0])
    if fold.op.kind == "sum" and isinstance(step, Step) and step.op == _PRODUCT:
        factors = evaluated(program, step.operands, known)
        if all(factor.dtype is fold.op.dtype is step.dtype for factor in factors):
            # Lane by lane, for devices without vectors contract numbers.
            lanes = [[kl.shuffle(v, [k]) for v in (total, *factors)] for k in range(total.width)]
            return kl.pack([last + a * b for last, a, b in lanes])
    return fold.op.combine(total, evaluated(program, fold.operands, known)[0])


class _Tile:
    """The pairs of a unit: their places, operands of one value a pair, and those along the rows."""

    def __init__(
        self,
        program: Program,
        plan: PairPlan,
        over: Pairs[kl.Number],
        memory: tuple[Sequence[kl.Pointer], Sequence[Strides[kl.Number]], Sequence[kl.Index]],
        block: tuple[kl.Number, kl.Number],
    ) -> None:
        self.program, self.plan, self.over = program, plan, over
        self.sources, self.views, self.outer = memory
        unit, down = kl.unit_position(), kl.cube_size() // plan.across
        self.spans = {"rows": plan.rows * down, "columns": plan.columns * plan.across}
        self.firsts = {
            "rows": block[0] * self.spans["rows"],
            "columns": block[1] * self.spans["columns"],
        }
        # Where a unit's rows and columns are in the tile, and among all.
        self.row, self.column = unit // plan.across * plan.rows, unit % plan.across * plan.columns
        self.rows = [self.firsts["rows"] + self.row + r for r in range(plan.rows)]
        self.columns = [self.firsts["columns"] + self.column + c for c in range(plan.columns)]
        self.single: list[dict[int, kl.Number]] = []
        self.rooms: dict[int, kl.Pointer] = {}

    def registers(self, fold: Fold) -> kl.Registers:
        """Return a reduction's values: a vector of columns for each row."""
        return kl.registers(self.plan.rows, fold.op.dtype, self.plan.columns, fold.op.identity)

    def start(self, view: int, row: kl.Index, column: kl.Index) -> kl.Index:
        """Return where a pair's values begin in a view."""
        *_, down, across = self.views[view].kept
        return self.outer[view] + row * down + column * across

    def begin(self, numbers: Mapping[int, kl.Number]) -> None:
        """Read operands of one value a pair, and take shared memory for those along the rows."""
        program, plan, over = self.program, self.plan, self.over
        wide = {n: kl.splat(value, plan.columns) for n, value in numbers.items()}
        self.single = [dict(wide) for _ in self.rows]
        rows = [kl.min(row, over.rows - 1) for row in self.rows]
        columns = [kl.min(column, over.columns - 1) for column in self.columns]
        for view, number in enumerate(program.memory):
            operand, side = program.operands[number], plan.sides[view]
            if operand.role == "along":
                size = plan.block * (self.spans.get(side, 1) + PAD)
                dtype = stored(operand.dtype)
                align = plan.columns * dtype.itemsize
                self.rooms[number] = kl.shared(size, dtype, align=align)
                continue
            read: dict[tuple[int, int], kl.Number] = {}
            for r, c in product(range(len(rows)), range(len(columns))):
                # Pairs of a row or column share what varies with the other set alone.
                place = r * (side in ("rows", "both")), c * (side in ("columns", "both"))
                if place not in read:
                    at = self.start(view, rows[place[0]], columns[place[1]])
                    read[place] = real(load(self.sources[view], operand.dtype, at, 1))
            for r, values in enumerate(self.single):
                line = r * (side in ("rows", "both"))
                places = [(line, c * (side in ("columns", "both"))) for c in range(plan.columns)]
                values[number] = kl.pack([read[place] for place in places])
        needed = Schedule(program).spread()
        for values in self.single:
            evaluated(program, needed, values)

    @kl.helper
    def fill(self, first: kl.Number) -> None:
        """Read the terms of all rows and columns of the cube from ``first`` on."""
        plan, over = self.plan, self.over
        for view, number in enumerate(self.program.memory):
            if number not in self.rooms:
                continue
            side, dtype = plan.sides[view], self.program.operands[number].dtype
            span, known = self.spans.get(side, 1), plan.steps[view]
            step = self.views[view].along[-1] if known < 0 else known
            across = plan.block // plan.width
            align = plan.width * dtype.itemsize if plan.width > 1 else 0
            for turn in range(0, span * across, kl.cube_size()):
                task = turn + kl.unit_position()
                line, term = task // across, task % across * plan.width
                if (task < span * across) & (first + term < over.length):
                    row = column = kl.constant(0, line.dtype)
                    if side == "columns":
                        column = kl.min(self.firsts[side] + line, over.columns - 1)
                    elif side == "rows":
                        row = kl.min(self.firsts[side] + line, over.rows - 1)
                    at = self.start(view, row, column) + (first + term) * step
                    value = real(load(self.sources[view], dtype, at, plan.width, align=align))
                    for k in range(plan.width):
                        one = kl.shuffle(value, [k]) if plan.width > 1 else value
                        self.rooms[number].store((term + k) * (span + PAD) + line, one)

    @kl.helper
    def add(self, folds: Sequence[Fold], sums: Sequence[kl.Registers], count: kl.Index) -> None:
        """Add the terms in shared memory to the sums."""
        for k in kl.range(count):
            vectors = self.terms(k)
            for r in range(self.plan.rows):
                known = dict(self.single[r]) | {n: rows[r] for n, rows in vectors.items()}
                for total, fold in zip(sums, folds, strict=True):
                    total[r] = added(self.program, fold, total[r], known)

    def terms(self, k: kl.Index) -> dict[int, list[kl.Number]]:
        """Return a term of each operand along the rows, as vectors of columns for each row."""
        plan, made = self.plan, {}
        for view, number in enumerate(self.program.memory):
            if number not in self.rooms:
                continue
            room, side = self.rooms[number], plan.sides[view]
            first = k * (self.spans.get(side, 1) + PAD)
            if side == "columns":
                size = plan.columns * room.dtype.itemsize
                vector = room.load(first + self.column, plan.columns, align=size)
                made[number] = [vector] * plan.rows
                continue
            places = [first + (self.row + r if side == "rows" else 0) for r in range(plan.rows)]
            made[number] = [kl.splat(room[place], plan.columns) for place in places]
        return made

    @kl.helper
    def write(self, target: kl.Pointer, view: int, row: int, value: kl.Number) -> None:
        """Write a result of a row's pairs."""
        plan, column = self.plan, self.columns[0]
        at, rest = self.start(view, self.rows[row], column), self.over.columns - column
        dtype = self.program.dtype(self.program.results[view - len(self.sources)])
        if not plan.dense[view - len(self.sources)]:
            spread_lanes(target, at, self.views[view].kept[-1], value, rest)
        elif plan.even:
            if rest > 0:
                store(target, dtype, at, value, align=plan.columns * dtype.itemsize)
        else:
            store(target, dtype, at, value, rest=rest)
