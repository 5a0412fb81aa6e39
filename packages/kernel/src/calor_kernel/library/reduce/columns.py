"""One pass of a program across rows, with vectors along a dense kept axis.

Requirements: operands are read in memory order, some rows at a time. In a cube of one unit the
totals of a block of columns stay in the nearest cache, so that a processor sees few long streams.
In a cube of many, neighbouring units read neighbouring columns or short vectors of them, so that
enough bytes are on their way, and the units of one column join their totals in shared memory, in an
order that depends on their number alone. If terms are few, a
unit has all those of a vector of columns instead. Few columns with many terms are divided among
cubes, each of which leaves partial totals. Block sums are set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.elementwise.values import load, store
from calor_kernel.library.reduce.job import Strides
from calor_kernel.library.reduce.program import Program, evaluated, real
from calor_kernel.library.reduce.reduction_ops import ReductionOp, over_rows

N = TypeVar("N")
R = TypeVar("R")
Rest = kl.Number | None


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """A plan for a pass across rows.

    ``width``: lanes of a vector. ``span``: columns of a block. ``streams``: rows that are loaded
    together. ``steps``: for each operand in memory 1 if its columns are dense, 0 if they are one
    value, then 1 for each result along the reduced axes. ``block``: rows of a block, after which
    sums are set aside, 0 for all. ``alone``: whether each unit of a cube of many has all terms of a
    vector of columns. ``whole``: whether vectors are whole and aligned.
    """

    width: int
    span: int
    streams: int
    steps: tuple[int, ...]
    block: int = 0
    alone: bool = False
    whole: bool = False

    @property
    def across(self) -> int:
        """The vectors of a block."""
        return self.span // self.width

    def align(self, dtype: DType) -> int:
        """Return the alignment of a vector in bytes, 0 if it is not known."""
        return self.width * dtype.itemsize if self.whole else 0


@dataclass(frozen=True, slots=True)
class Blocks(Generic[N]):
    """The blocks of a launch: ``tasks`` of them, ``turns`` for each cube of one unit.

    ``blocks`` lie side by side, in ``outers`` rows. ``columns`` and ``terms`` of all; ``chunk``
    terms of a part; ``apart``: the distance of the parts' results. ``sizes``: of the other axes of
    the results; ``lengths``: of the reduced axes.
    """

    tasks: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    blocks: kl.SizeOf[N]
    outers: kl.SizeOf[N]
    columns: kl.SizeOf[N]
    terms: kl.SizeOf[N]
    chunk: kl.SizeOf[N]
    apart: kl.SizeOf[N]
    sizes: tuple[kl.SizeOf[N], ...]
    lengths: tuple[kl.SizeOf[N], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of columns: its terms, and where it begins in each view and in the results.

    ``inside``: whether a unit has a column, for cubes of many.
    """

    count: kl.Number
    begin: kl.Number
    end: kl.Number
    starts: list[kl.Number]
    target: kl.Number
    inside: kl.Number | None = None


@dataclass
class Columns(Generic[R]):
    """The state of a unit that computes blocks of columns; ``R``: the start of a row."""

    plan: ColumnPlan
    over: Blocks[kl.Number]
    views: Sequence[Strides[kl.Number]]

    def block(self, task: kl.Number) -> Block:
        """Return a block of columns."""
        over = self.over
        block, rest = task % over.blocks, task // over.blocks
        outer, part = rest % over.outers, rest // over.outers
        column = block * self.plan.span
        position = kl.unravel(outer, over.sizes)
        starts = [
            kl.offset_of(position, view.kept) + column * step
            for view, step in zip(self.views[:-1], self.plan.steps, strict=True)
        ]
        target = kl.offset_of(position, self.views[-1].kept) + part * over.apart + column
        begin = part * over.chunk
        count = kl.min(over.columns - column, self.plan.span)
        return Block(count, begin, kl.min(begin + over.chunk, over.terms), starts, target)

    def allocate(self) -> None:
        """Allocate the totals."""
        raise NotImplementedError

    def clear(self, block: Block, v: kl.Index) -> None:
        """Begin with the totals of a vector of columns."""
        raise NotImplementedError

    def row(self, block: Block, row: kl.Number) -> R:
        """Return the start of a row of a block."""
        raise NotImplementedError

    def add(self, block: Block, rows: Iterable[R], v: kl.Index, rest: Rest) -> None:
        """Add a vector of each of some rows to the totals."""
        raise NotImplementedError

    def settle(self, v: kl.Index) -> None:
        """Add the totals to those set aside, and reset them."""

    def write(self, block: Block, v: kl.Index, rest: Rest) -> None:
        """Write the results of a vector of columns."""
        raise NotImplementedError


class Cells:
    """Vectors by column: in private memory, or in registers of a unit with one column."""

    def __init__(self, op: ReductionOp, plan: ColumnPlan, copies: int) -> None:
        self.plan, self.op, self.copies = plan, op, copies
        self.registers: kl.Registers | None = None
        self.memory: kl.Pointer | None = None
        if kl.cube_size() > 1:
            self.registers = kl.registers(copies, op.dtype, plan.width, op.identity)
        else:
            self.memory = kl.private(copies * plan.span, op.dtype, align=64)

    def get(self, v: kl.Index, copy: int = 0) -> kl.Number:
        """Return the vector at a column."""
        if self.memory is None:
            assert self.registers is not None
            return self.registers[copy]
        return self.memory.load(copy * self.plan.span + v, self.plan.width)

    def put(self, v: kl.Index, value: kl.Number, copy: int = 0) -> None:
        """Replace the vector at a column."""
        if self.memory is None:
            assert self.registers is not None
            self.registers[copy] = value
        else:
            self.memory.store(copy * self.plan.span + v, value)


@dataclass
class ColumnProgram(Columns[dict[int, kl.Number]]):
    """A program's pass across rows; the start of a row in each view that varies along the terms.

    ``along``: the results that are written along the reduced axes, by their indices.
    """

    program: Program
    sources: Sequence[kl.Pointer]
    targets: Sequence[kl.Pointer]
    numbers: Sequence[kl.Number]
    along: tuple[int, ...]
    sums: list[Cells] = field(default_factory=list)
    # The totals set aside, and their rounding errors.
    aside: list[Cells] = field(default_factory=list)

    def allocate(self) -> None:
        ops = [self.program.fold(n).op for n in self.program.folds]
        self.sums = [Cells(op, self.plan, 1) for op in ops]
        if self.plan.block or kl.cube_size() > 1:
            self.aside = [Cells(op, self.plan, 2) for op in ops]

    def clear(self, block: Block, v: kl.Index) -> None:
        for one in (*self.sums, *self.aside):
            for copy in range(one.copies):
                one.put(v, one.op.neutral(self.plan.width), copy)

    def row(self, block: Block, row: kl.Number) -> dict[int, kl.Number]:
        position = kl.unravel(row, self.over.lengths)
        views = [(k, view.along) for k, view in enumerate(self.views[:-1]) if view.along]
        return {k: block.starts[k] + kl.offset_of(position, along) for k, along in views}

    def _known(self, block: Block, v: kl.Index, rest: Rest) -> dict[int, kl.Number]:
        """Return values that do not vary along the reduced axes: scalars, one value a column."""
        numbers = zip(self.program.numbers, self.numbers, strict=True)
        made = {i: kl.splat(n, self.plan.width) for i, n in numbers}
        for k, i in enumerate(self.program.memory):
            if self.program.operands[i].role == "row":
                made[i] = self._read(k, block.starts[k], v, rest)
        return made

    def _read(self, view: int, at: kl.Number, v: kl.Index, rest: Rest) -> kl.Number:
        """Return an operand's values of the columns from v on."""
        step, dtype = self.plan.steps[view], self.program.dtype(self.program.memory[view])
        width, source, align = self.plan.width, self.sources[view], self.plan.align(dtype)
        return real(load(source, dtype, at + v * step, width, step=step, rest=rest, align=align))

    def _terms(
        self, block: Block, row: dict[int, kl.Number], v: kl.Index, rest: Rest
    ) -> list[kl.Number]:
        """Return the terms of a row for each reduction."""
        memory = self.program.memory

        def read(number: int) -> kl.Number | None:
            if self.program.step(number) is not None:
                return None
            view = memory.index(number)
            return self._read(view, row[view], v, rest)

        wanted = [self.program.fold(n).operands[0] for n in self.program.folds]
        known = self._known(block, v, rest)
        terms = evaluated(self.program, wanted, known, read)
        results = [self.program.results[k] for k in self.along]
        values = evaluated(self.program, results, known, read)
        for view, (k, value) in enumerate(zip(self.along, values, strict=True), len(memory)):
            dtype = self.program.dtype(self.program.results[k])
            if block.inside is None:
                store(self.targets[k], dtype, row[view] + v, value, rest=rest)
            else:
                _keep(self.targets[k], row[view], value, block.inside, self.plan.align(dtype))
        return terms

    def add(
        self, block: Block, rows: Iterable[dict[int, kl.Number]], v: kl.Index, rest: Rest
    ) -> None:
        made = [self._terms(block, row, v, rest) for row in rows]
        for k, sums in enumerate(self.sums):
            added = sums.op.tree([terms[k] for terms in made])
            sums.put(v, sums.op.combine(sums.get(v), added))

    def settle(self, v: kl.Index) -> None:
        for sums, aside in zip(self.sums, self.aside, strict=True):
            total, rest = sums.op.put_aside(aside.get(v), aside.get(v, 1), sums.get(v))
            aside.put(v, total)
            aside.put(v, rest, 1)
            sums.put(v, sums.op.neutral(self.plan.width))

    def results(self, block: Block, v: kl.Index, rest: Rest, down: int = 1) -> list[kl.Number]:
        """Return the results of a vector of columns, of which ``down`` units have totals."""
        known = self._known(block, v, rest)
        for k, n in enumerate(self.program.folds):
            op, sums = self.sums[k].op, self.sums[k]
            if self.plan.block:
                aside = self.aside[k]
                total = op.taken_together(aside.get(v), aside.get(v, 1))
            else:
                total = sums.get(v)
            known[n] = over_rows(op, total, down)
        return evaluated(self.program, [self.program.results[k] for k in self._columns], known)

    @property
    def _columns(self) -> list[int]:
        """The results with one value a column, by their indices."""
        return [k for k in range(len(self.program.results)) if k not in self.along]

    def put(self, results: Sequence[kl.Number], at: kl.Number, rest: Rest) -> None:
        """Write the results of a vector of columns."""
        for k, value in zip(self._columns, results, strict=True):
            dtype = self.program.dtype(self.program.results[k])
            store(self.targets[k], dtype, at, value, rest=rest, align=self.plan.align(dtype))

    def write(self, block: Block, v: kl.Index, rest: Rest) -> None:
        self.put(self.results(block, v, rest), block.target + v, rest)


@kl.kernel
def reduce_columns(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    numbers: tuple[kl.Element, ...],
    over: Blocks[kl.Number],
    views: tuple[Strides[kl.Number], ...],
    *,
    program: Program,
    plan: ColumnPlan,
    along: tuple[int, ...] = (),
) -> None:
    """Compute blocks of columns; ``along``: the results that are written along the reduced axes.

    ``views``: the strides of the sources, of those results, and of the others. A cube of many units
    has one block, with a vector for each of its first units, or one for so many units as have its
    vectors, if each is alone.
    """
    run = ColumnProgram(plan, over, views, program, sources, targets, numbers, along)
    if plan.alone:
        own_columns(run)
    elif kl.cube_size() > 1:
        one_block(run, kl.cube_position())
    else:
        all_blocks(run)


@kl.helper
def _keep(
    target: kl.Pointer, at: kl.Number, value: kl.Number, inside: kl.Number, align: int
) -> None:
    """Write a vector of a result along the reduced axes, if it exists."""
    if value.width == 1:
        target.store(at, value, mask=inside)
    elif inside:
        target.store(at, value, align=align)


@kl.helper
def one_block(run: ColumnProgram, task: kl.Number) -> None:
    """Compute a block of a cube of many units."""
    across, width = run.plan.across, run.plan.width
    down = kl.cube_size() // across
    x, y = kl.unit_position() % across * width, kl.unit_position() // across
    block = run.block(task)
    # Units beyond the last vector repeat its work, and write nothing.
    column = kl.min(x, block.count - width)
    pairs = zip(block.starts, run.plan.steps, strict=True)
    starts = [start + column * step for start, step in pairs]
    block = replace(block, starts=starts, inside=x < block.count)
    run.allocate()
    all_terms(run, block, y, down)
    made = run.results(block, 0, None, down)
    if (y == 0) & (x < block.count):
        run.put(made, block.target + column, None)


@kl.helper
def own_columns(run: ColumnProgram) -> None:
    """Compute a vector of columns in each unit of a cube of many."""
    width, across, tasks = run.plan.width, run.plan.across, run.over.tasks
    unit = kl.absolute_position()
    task, x = unit // across, unit % across * width
    block = run.block(kl.min(task, tasks - 1))
    # Units beyond the last vector repeat its work, and write nothing.
    column, inside = kl.min(x, block.count - width), (task < tasks) & (x < block.count)
    pairs = zip(block.starts, run.plan.steps, strict=True)
    starts = [start + column * step for start, step in pairs]
    block = replace(block, starts=starts, inside=inside)
    run.allocate()
    all_terms(run, block, None, 1)
    made = run.results(block, 0, None)
    if inside:
        run.put(made, block.target + column, None)


@kl.helper
def all_blocks(run: Columns[R]) -> None:
    """Compute the blocks of a cube of one unit."""
    over = run.over
    run.allocate()
    first = kl.cube_position() * over.turns
    for task in kl.loop_range(first, kl.min(first + over.turns, over.tasks)):
        block = run.block(task)
        for v in kl.loop_range(0, block.count, run.plan.width):
            run.clear(block, v)
        all_terms(run, block, None, 1)
        each_vector(run, block, partial(run.write, block))


@kl.helper
def each_vector(run: Columns[R], block: Block, body: Callable[[kl.Index, Rest], None]) -> None:
    """Call a function for each vector of columns; the last one has ``rest`` of them."""
    count, width = block.count, run.plan.width
    whole = count // width * width
    for v in kl.loop_range(0, whole, width):
        body(v, None)
    if whole < count:
        body(whole, count - whole)


@kl.helper
def all_terms(run: Columns[R], block: Block, y: kl.Number | None, down: int) -> None:
    """Add every ``down``-th row of a block from row y on to the totals, in blocks of rows."""
    size = run.plan.block
    if size:
        for b in kl.loop_range(block.begin, block.end, size):
            some_terms(run, block, b if y is None else b + y, kl.min(b + size, block.end), down)
            if y is None:
                for v in kl.loop_range(0, block.count, run.plan.width):
                    run.settle(v)
            else:
                run.settle(0)
    else:
        first = block.begin if y is None else block.begin + y
        some_terms(run, block, first, block.end, down)


@kl.helper
def some_terms(run: Columns[R], block: Block, first: kl.Number, end: kl.Number, down: int) -> None:
    """Add every ``down``-th row of a range to the totals, several at a time."""
    streams = run.plan.streams
    step = streams * down
    many = kl.cube_size() > 1
    last = end - (streams - 1) * down if many else first + (end - first) // streams * streams
    for r in kl.loop_range(first, last, step):
        add_rows(run, block, [r + s * down for s in range(streams)])
    rest = last
    if many:
        # As many rounds as the loop above, in the units' own rows.
        rest = first + (kl.max(last - first, 0) + step - 1) // step * step
    for r in kl.loop_range(rest, end, down):
        add_rows(run, block, [r])


@kl.helper
def add_rows(run: Columns[R], block: Block, rows: Sequence[kl.Number]) -> None:
    """Add some rows to the totals."""
    if kl.cube_size() > 1:
        run.add(block, (run.row(block, row) for row in rows), 0, None)
    else:
        starts = [run.row(block, row) for row in rows]
        each_vector(run, block, partial(run.add, block, starts))
