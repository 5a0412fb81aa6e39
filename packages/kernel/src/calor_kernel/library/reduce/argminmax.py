"""Indices of extremes: argmax and argmin.

Requirements: the first of equal extremes, and a NaN before any number. A row is searched for its
extreme once that is known, which costs less than carrying indices; a block of a long row is
searched only if it holds a better one. Across rows, indices are carried as vectors of columns. Few
results of many terms are divided into parts, which leave values and indices for another launch.
These are the kernels of cubes of one unit; `argminmax_cooperative` has those of many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import DType, bool_, int64
from calor_kernel import language as kl
from calor_kernel.library.elementwise.conversions import converted
from calor_kernel.library.elementwise.values import lanes, load
from calor_kernel.library.reduce.columns import (
    Block,
    Blocks,
    Cells,
    ColumnPlan,
    Columns,
    Rest,
    all_blocks,
)
from calor_kernel.library.reduce.job import Strided, Strides
from calor_kernel.library.reduce.program import real
from calor_kernel.library.reduce.reduction_ops import ReductionOp

N = TypeVar("N")
Best = tuple[kl.Number, kl.Number]
"""The best value so far, and its index."""
Take = Callable[[int, kl.Number, kl.Mask | None], None]
After = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ArgPlan:
    """A plan of argmax or argmin.

    ``op``: the comparison; ``source``: the dtype of elements; ``index``: of indices. ``width``:
    lanes of a vector. ``unroll``: vectors of a row that are loaded together. ``size``: elements of
    a block of a row. ``single``: whether a row is one block. ``uneven``: whether a team's rows may
    begin and end within an aligned vector.
    """

    op: ReductionOp
    source: DType
    index: DType
    width: int = 1
    unroll: int = 1
    size: int = 0
    single: bool = False
    uneven: bool = False

    def element(
        self, x: kl.Pointer, at: kl.Number, rest: kl.Number | None = None, align: int = 0
    ) -> kl.Number:
        """Return a vector of elements in the type of the comparison."""
        value = load(x, self.source, at, self.width, rest=rest, align=align)
        return real(converted(value, self.source, self.op.dtype))


@dataclass(frozen=True, slots=True)
class ArgRows(Generic[N]):
    """Rows of ``length`` elements: ``results`` of them, ``tasks`` of ``chunk`` elements in all.

    A cube has ``turns`` tasks. ``kept``: the axes of the results.
    """

    results: kl.SizeOf[N]
    tasks: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    length: kl.SizeOf[N]
    chunk: kl.SizeOf[N]
    kept: Strided[N]


@kl.kernel
def argminmax_rows(
    x: kl.In, values: kl.Out | None, indices: kl.Out, over: ArgRows[kl.Number], *, plan: ArgPlan
) -> None:
    """Find indices along dense rows; ``values`` are written for parts of rows."""
    first = kl.cube_position() * over.turns
    for task in kl.loop_range(first, kl.min(first + over.turns, over.tasks)):
        row, begin, end = task, 0, over.length
        if values is not None:
            row, begin = task % over.results, task // over.results * over.chunk
            end = kl.min(begin + over.chunk, over.length)
        base = kl.offset_of(kl.unravel(row, over.kept.sizes), over.kept.strides)
        best = plan.op.neutral()
        index = kl.constant(0, plan.index)
        if plan.single:
            value, strange = extreme(x, plan, base, begin, end)
            best, index = found_at(x, plan, base, begin, end, value, strange)
        else:
            done = kl.constant(False, bool_)
            for b in kl.loop_range(begin, end, plan.size):
                stop = kl.min(b + plan.size, end)
                value, strange = extreme(x, plan, base, b, stop)
                over_best = value > best if plan.op.kind == "argmax" else value < best
                if (strange | over_best | (b == begin)) & ~done:
                    best, index = found_at(x, plan, base, b, stop, value, strange)
                    done = strange
        write_best(values, indices, task, (best, index), None)


def write_best(
    values: kl.Pointer | None,
    indices: kl.Pointer,
    at: kl.Number,
    best: Best,
    mask: kl.Number | None,
) -> None:
    """Write an index as a result, or a value and an index of a part."""
    value, index = best
    if values is not None:
        values.store(at, value, mask=mask)
    indices.store(at, kl.cast(index, indices.dtype), mask=mask)


@kl.helper
def found_at(
    x: kl.Pointer,
    plan: ArgPlan,
    base: kl.Number,
    begin: kl.Index,
    end: kl.Number,
    value: kl.Number,
    strange: kl.Mask,
) -> Best:
    """Return a block's extreme, NaN if it has any, and its first index."""
    index = kl.constant(0, plan.index)
    if strange:
        index = search(x, plan, base, begin, end, None)
        value = value * float("nan") if plan.op.dtype.kind == "float" else value
    else:
        index = search(x, plan, base, begin, end, value)
    return value, index


@kl.helper
def each_vector_in(
    x: kl.Pointer,
    plan: ArgPlan,
    base: kl.Number,
    begin: kl.Index,
    end: kl.Number,
    take: Take,
    after: After,
) -> None:
    """Call ``take`` for each vector of a block, and ``after`` for those loaded together."""
    width, unroll = plan.width, plan.unroll
    whole = (end - begin) // (width * unroll) * (width * unroll)
    for i in kl.loop_range(begin, begin + whole, width * unroll):
        for u in kl.range(unroll):
            take(u, plan.element(x, base + i + u * width), None)
        after(unroll)
    for i in kl.loop_range(begin + whole, end, width):
        value = plan.element(x, base + i, end - i)
        take(0, value, lanes(width, i) < end - i)
        after(1)


@kl.helper
def extreme(x: kl.Pointer, plan: ArgPlan, base: kl.Number, begin: kl.Index, end: kl.Number) -> Best:
    """Return the extreme of a block without its NaNs, and whether it has any."""
    largest = plan.op.kind == "argmax"
    best = kl.registers(plan.unroll, plan.op.dtype, plan.width, plan.op.identity)
    strange = kl.registers(plan.unroll, bool_, plan.width, False)

    def chosen(a: kl.Number, b: kl.Number) -> kl.Number:
        # A NaN b is never chosen.
        return kl.select(b > a if largest else b < a, b, a)

    def take(u: int, value: kl.Number, inside: kl.Mask | None) -> None:
        if inside is not None:
            value = kl.select(inside, value, plan.op.identity)
        best[u] = chosen(best[u], value)
        strange[u] = strange[u] | (value != value)

    each_vector_in(x, plan, base, begin, end, take, lambda count: None)
    found = ReductionOp("any", bool_).tree(list(strange))
    whole = best[0]
    for u in kl.range(1, plan.unroll):
        whole = chosen(whole, best[u])
    return kl.vreduce("max" if largest else "min", whole), kl.vreduce("or", found)


@kl.helper
def search(
    x: kl.Pointer,
    plan: ArgPlan,
    base: kl.Number,
    begin: kl.Index,
    end: kl.Number,
    value: kl.Number | None,
) -> kl.Number:
    """Return the index of the first occurrence of a value in a block; of NaN for None."""
    width, first = plan.width, ReductionOp("min", plan.index)
    found = kl.registers(plan.unroll, plan.index, width, first.identity)
    numbers = kl.registers(1, plan.index, width)
    numbers[0] = kl.constant(tuple(kl.range(width)), plan.index)

    def take(u: int, taken: kl.Number, inside: kl.Mask | None) -> None:
        hit = taken != taken if value is None else taken == value
        if inside is not None:
            hit = hit & inside
        found[u] = kl.min(found[u], kl.select(hit, numbers[0] + u * width, first.identity))

    def after(count: int) -> None:
        numbers[0] = numbers[0] + count * width

    each_vector_in(x, plan, base, begin, end, take, after)
    return kl.vreduce("min", first.tree(list(found))) + kl.cast(begin, plan.index)


@dataclass
class _ArgColumns(Columns[Best]):
    """A pass across rows that finds indices; the start of a row, and its index in each lane."""

    arg: ArgPlan
    x: kl.Pointer
    results: tuple[kl.Pointer | None, kl.Pointer]

    def allocate(self) -> None:
        self.best = Cells(self.arg.op, self.plan, 1)
        self.index = Cells(ReductionOp("min", self.arg.index), self.plan, 1)

    def clear(self, block: Block, v: kl.Index) -> None:
        self.best.put(v, self.arg.op.neutral(self.plan.width))
        self.index.put(v, kl.splat(kl.cast(block.begin, self.arg.index), self.plan.width))

    def row(self, block: Block, row: kl.Number) -> Best:
        (step,) = self.views[0].along
        return block.starts[0] + row * step, kl.splat(kl.cast(row, self.arg.index), self.plan.width)

    def add(self, block: Block, rows: Iterable[Best], v: kl.Index, rest: Rest) -> None:
        value, number = self.best.get(v), self.index.get(v)
        for start, row in rows:
            taken = self.arg.element(self.x, start + v, rest)
            better = self.arg.op.beats(taken, value)
            value, number = kl.select(better, taken, value), kl.select(better, row, number)
        self.best.put(v, value)
        self.index.put(v, number)

    def write(self, block: Block, v: kl.Index, rest: Rest) -> None:
        inside = None if rest is None else lanes(self.plan.width, rest) < rest
        best = self.best.get(v), self.index.get(v)
        write_best(*self.results, block.target + v, best, inside)


@kl.kernel
def argminmax_columns(
    x: kl.In,
    values: kl.Out | None,
    indices: kl.Out,
    over: Blocks[kl.Number],
    views: tuple[Strides[kl.Number], ...],
    *,
    plan: ArgPlan,
    columns: ColumnPlan,
) -> None:
    """Find indices along an axis, for vectors of adjacent results; ``values`` as for rows."""
    all_blocks(_ArgColumns(columns, over, views, plan, x, (values, indices)))


@kl.kernel
def join_indices(
    values: kl.In, indices: kl.In, out: kl.Out, results: kl.Size, parts: kl.Size, *, plan: ArgPlan
) -> None:
    """Write the index of the best of ``parts`` values; parts follow one another."""
    first, width = kl.cube_position() * plan.width, plan.width
    rest = results - first
    inside = lanes(width, first) < rest
    best = values.load(first, width, mask=inside)
    index = indices.load(first, width, mask=inside)
    for part in kl.loop_range(1, parts):
        at = part * results + first
        value = values.load(at, width, mask=inside)
        better = plan.op.beats(value, best)
        best = kl.select(better, value, best)
        index = kl.select(better, indices.load(at, width, mask=inside), index)
    out.store(first, kl.cast(index, int64), mask=inside)
