"""Reductions over all pairs of two sets of short rows: a unit has a tile of pairs.

Requirements: each row of both sets is read by many pairs, such as the points of distances, so a
unit reads some rows of each set and computes all their pairs from registers. Rows are read in whole
vectors if they have some. Neighbouring units have neighbouring columns, which they write together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Generic, Literal, TypeVar

from calor_kernel import language as kl
from calor_kernel.library.elementwise.operations import Step
from calor_kernel.library.elementwise.values import load, store
from calor_kernel.library.reduce.job import Strides
from calor_kernel.library.reduce.program import Fold, Program, Schedule, evaluated, real

N = TypeVar("N")
_PRODUCT: Final = "mul"
Side = Literal["rows", "columns", "both", "neither"]


@dataclass(frozen=True, slots=True)
class PairPlan:
    """A plan of pairs.

    ``sides``: for each operand in memory the sets that it varies with. ``steps``: its stride along
    the row, −1 if the launch has it. ``width``: lanes of a vector along the row. ``rows`` and
    ``columns``: of a unit. ``across``: units beside each other.
    """

    sides: tuple[Side, ...]
    steps: tuple[int, ...]
    width: int
    rows: int
    columns: int
    across: int


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
    rest, column = kl.divide(kl.cube_position(), over.across)
    outer, row = kl.divide(rest, over.down)
    unit, down = kl.unit_position(), kl.cube_size() // plan.across
    row = row * (plan.rows * down) + unit // plan.across
    column = column * (plan.columns * plan.across) + unit % plan.across
    rows = [row + r * down for r in range(plan.rows)]
    columns = [column + c * plan.across for c in range(plan.columns)]
    position = kl.unravel(outer, over.sizes)
    tile = _Tile(program, plan, sources, views, dict(zip(program.numbers, numbers, strict=True)))
    tile.place(
        [kl.offset_of(position, view.kept[:-2]) for view in views],
        [kl.min(row, over.rows - 1) for row in rows],
        [kl.min(column, over.columns - 1) for column in columns],
    )
    folds = [program.fold(n) for n in program.folds]
    shape = plan.rows, plan.columns
    sums = [kl.registers(shape, f.op.dtype, plan.width, f.op.identity) for f in folds]
    for k in kl.loop_range(0, over.length, plan.width):
        tile.read(k)
        for r in range(plan.rows):
            for c in range(plan.columns):
                known = tile.known(r, c)
                for total, fold in zip(sums, folds, strict=True):
                    total[r, c] = added(program, fold, total[r, c], known)
    for r in range(plan.rows):
        for c in range(plan.columns):
            if (rows[r] < over.rows) & (columns[c] < over.columns):
                values = dict(tile.single[r][c])
                for n, fold, total in zip(program.folds, folds, sums, strict=True):
                    values[n] = fold.op.over_lanes(total[r, c])
                made = evaluated(program, program.results, values)
                for k, (target, value) in enumerate(zip(targets, made, strict=True)):
                    at = tile.start(len(sources) + k, rows[r], columns[c])
                    store(target, program.dtype(program.results[k]), at, value)


def added(program: Program, fold: Fold, total: kl.Number, known: dict[int, kl.Number]) -> kl.Number:
    """Return a reduction with a pair's vector; a product may be rounded with the sum of it."""
    step = program.step(fold.operands[0])
    if fold.op.kind == "sum" and isinstance(step, Step) and step.op == _PRODUCT:
        factors = evaluated(program, step.operands, known)
        if all(factor.dtype is fold.op.dtype is step.dtype for factor in factors):
            # Lane by lane, for devices without vectors contract numbers.
            lanes = [
                [kl.shuffle(v, [k]) if v.width > 1 else v for v in (total, *factors)]
                for k in range(total.width)
            ]
            made = [last + a * b for last, a, b in lanes]
            return kl.pack(made) if len(made) > 1 else made[0]
    return fold.op.combine(total, evaluated(program, fold.operands, known)[0])


class _Tile:
    """The operands of a unit's pairs: ``single`` values of a pair, and vectors along the rows."""

    def __init__(
        self,
        program: Program,
        plan: PairPlan,
        sources: Sequence[kl.Pointer],
        views: Sequence[Strides[kl.Number]],
        numbers: Mapping[int, kl.Number],
    ) -> None:
        self.program, self.plan, self.sources, self.views = program, plan, sources, views
        self.numbers = numbers
        self.outer: Sequence[kl.Index] = ()
        # For each operand along the row: its starts by place of a row or column, and its vectors.
        self.starts: dict[int, list[kl.Index]] = {}
        self.vectors: dict[int, list[kl.Number]] = {}
        self.single: list[list[dict[int, kl.Number]]] = []
        self.wide: list[list[dict[int, kl.Number]]] = []

    def start(self, view: int, row: kl.Number, column: kl.Number) -> kl.Index:
        """Return where a pair's values begin in a view."""
        *_, down, across = self.views[view].kept
        return self.outer[view] + row * down + column * across

    def place(
        self, outer: Sequence[kl.Index], rows: Sequence[kl.Number], columns: Sequence[kl.Number]
    ) -> None:
        """Compute the starts of rows and columns, and read operands of one value a pair."""
        program, self.outer = self.program, outer
        self.single = [[dict(self.numbers) for _ in columns] for _ in rows]
        for view, number in enumerate(program.memory):
            operand, side = program.operands[number], self.plan.sides[view]
            if operand.role == "along":
                if side == "columns":
                    self.starts[number] = [self.start(view, rows[0], c) for c in columns]
                else:
                    self.starts[number] = [self.start(view, r, columns[0]) for r in rows]
                continue
            read: dict[tuple[int, int], kl.Number] = {}
            for r, c in product(range(len(rows)), range(len(columns))):
                # Pairs of a row or column share what varies with the other set alone.
                place = r * (side in ("rows", "both")), c * (side in ("columns", "both"))
                if place not in read:
                    at = self.start(view, rows[place[0]], columns[place[1]])
                    read[place] = real(load(self.sources[view], operand.dtype, at, 1))
                self.single[r][c][number] = read[place]
        needed = set(Schedule(program).spread())
        self.wide = []
        for line in self.single:
            found = []
            for values in line:
                rowwise = sorted(needed - set(values))
                evaluated(program, rowwise, values)
                found.append({n: kl.splat(values[n], self.plan.width) for n in needed})
            self.wide.append(found)

    def read(self, k: kl.Number) -> None:
        """Read a vector of each row and column, from position ``k`` on."""
        plan = self.plan
        for view, number in enumerate(self.program.memory):
            if number not in self.starts:
                continue
            dtype, step = self.program.operands[number].dtype, plan.steps[view]
            stride = self.views[view].along[-1] if step < 0 else step
            align = plan.width * dtype.itemsize if plan.width > 1 else 0
            self.vectors[number] = [
                real(
                    load(
                        self.sources[view],
                        dtype,
                        start + k * stride,
                        plan.width,
                        step=stride,
                        align=align,
                    )
                )
                for start in self.starts[number]
            ]

    def known(self, row: int, column: int) -> dict[int, kl.Number]:
        """Return the values of the operands of a pair."""
        made = dict(self.wide[row][column])
        for view, number in enumerate(self.program.memory):
            if number in self.vectors:
                place = column if self.plan.sides[view] == "columns" else row
                made[number] = self.vectors[number][place]
        return made
