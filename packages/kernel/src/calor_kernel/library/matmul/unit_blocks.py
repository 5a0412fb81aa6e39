"""Products of few terms: a unit for a block of the result, which memory's time decides.

Requirements: a result of few terms is much larger than its operands, so that it takes as long as
its elements take to be written, in whole accesses by neighbouring units. A tile of matrix
instructions would be empty along the K axis, and its copies take longer than its products. A unit
reads its columns of B once for several rows. Terms are added in the order of the K axis, as by
:mod:`.unit_sums`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calor.dtypes import DType, bfloat16, float16, float32, int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, writer
from calor_kernel.library.matmul.blueprints import accumulator
from calor_kernel.library.matmul.gemv_plan import access_of
from calor_kernel.library.matmul.problem import Operand, Product, narrow
from calor_kernel.library.matmul.task import Batches, Given, Strides, Task

_UNITS: Final = 256  # of a cube
# The most terms; those up to which operands in whole accesses have no faster way either; the fewest
# rows and columns, since few of them have a way of their own; and the fewest elements of a result.
_TERMS, _FEWEST, _SIDE, _RESULT = 8, 4, 8, 1 << 14
# Bytes of an access, and registers for the factors of a unit's columns, and of its rows.
_ACCESS, _HELD = 16, 32
# The most rows of a block, and units that a core has at least; columns of a unit where lines are
# odd, and the distance between them, so that neighbouring units write neighbouring elements.
_ROWS, _BUSY, _SPREAD, _APART = 8, 1024, 4, 32
_TYPES: Final = (float32, bfloat16, float16)


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Blocks of ``rows`` by ``width`` results of ``terms``.

    ``dense``: columns of a unit are adjacent, an access of the result; else they are those of as
    many planes of units. ``across``: B is read in accesses along its columns. ``deep_a``,
    ``deep_b``: the adjacent terms of an access of each operand.
    """

    rows: int
    width: int
    terms: int
    dense: bool
    across: bool
    deep_a: int
    deep_b: int
    accumulate: DType


@kl.kernel
def unit_blocks(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    count: kl.Size,
    rows: kl.Size,
    columns: kl.Size,
    blocks: tuple[kl.FastDivmod, ...],
    strides: Strides[kl.Number],
    batches: Batches[kl.Number],
    after: After | None,
    *,
    plan: BlockPlan,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a block of ``rows`` by ``columns``; ``blocks``: of a result, down and across."""
    width, wide = plan.width, plan.accumulate
    unit = kl.absolute_position()
    if unit < count:
        batch, down, across = kl.unravel(unit, (0, *blocks))
        left, right = batches.starts(batch)
        first = down * plan.rows
        if plan.dense:
            places = [across * width + j for j in range(width)]
        else:
            begin = across // _APART * (_APART * width) + across % _APART
            places = [begin + j * _APART for j in range(width)]
        if plan.across:
            factors = [
                b.load(
                    kl.assume_multiple(right + p * strides.b_depth + places[0], width), width
                ).to(wide)
                for p in range(plan.terms)
            ]
        else:
            near = [kl.min(place, columns - 1) * strides.b_column + right for place in places]
            lines = [terms_of(b, at, strides.b_depth, plan.terms, plan.deep_b) for at in near]
            several = [[line[p].to(wide) for line in lines] for p in range(plan.terms)]
            factors = [kl.pack(ones) if width > 1 else ones[0] for ones in several]
        # All elements of A are on their way before the first result.
        values = []
        for r in range(plan.rows):
            at = left + kl.min(first + r, rows - 1) * strides.a_row
            values.append(terms_of(a, at, strides.a_depth, plan.terms, plan.deep_a))
        ends = writer(epilogue, after, c, batch)
        for r in range(plan.rows):
            row = first + r
            if row < rows:
                total = kl.splat(kl.constant(0, wide), width)
                for value, factor in zip(values[r], factors, strict=True):
                    total = kl.fma(kl.splat(value.to(wide), width), factor, total)
                line = (batch * rows + row) * columns
                if plan.dense:
                    put(c, ends, line, total, row, places[0])
                else:
                    for j, place in enumerate(places):
                        if place < columns:
                            put(c, ends, line, total[j] if width > 1 else total, row, place)


@kl.helper
def terms_of(
    source: kl.Pointer, at: kl.Number, step: kl.Number, terms: int, deep: int
) -> list[kl.Number]:
    """Return the terms of a row or column, ``deep`` of an access."""
    if deep == 1:
        return [source[at + p * step] for p in range(terms)]
    accesses = [source.load(kl.assume_multiple(at + p, deep), deep) for p in range(0, terms, deep)]
    return [access[i] for access in accesses for i in range(deep)]


@kl.helper
def put(
    c: kl.Pointer,
    ends: Writer | None,
    line: kl.Number,
    total: kl.Number,
    row: kl.Number,
    column: kl.Number,
) -> None:
    """Write adjacent results of a row, or what follows them."""
    if ends is None:
        c.store(line + column, total.to(c.dtype), align=total.width * c.dtype.itemsize)
    else:
        ends.write(line + column, total, row, column)


def refusal(product: Product) -> str | None:
    """Return why units do not compute blocks of a product, None if they may."""
    p = product
    if p.formats is not None or p.a.dtype not in _TYPES or p.b.dtype not in _TYPES:
        return "its types are not those of sums in float32"
    if is_size(p.k) or not 0 < p.k <= _TERMS:
        return f"it has more than {_TERMS} terms"
    if p.k > _FEWEST and p.b.in_accesses(_ACCESS // p.b.dtype.itemsize, p.n, p.k):
        return "it is read in whole accesses, by tiles"
    if min(p.m, p.n) < _SIDE or p.batches * p.m * p.n < _RESULT:
        return "its result is small"
    return None


@choice(low=1)
def _rows_of(size: int, columns: int, most: int, cores: int) -> int:
    """Return the rows of a block of some columns: many, but with units for each core.

    >>> _rows_of(1 << 22, 4, 8, 132), _rows_of(1 << 19, 8, 8, 132)
    (4, 1)
    """
    rows = most
    while rows > 1 and size < _BUSY * cores * rows * columns:
        rows //= 2
    return rows


def plan_of(product: Product, info: DeviceInfo) -> BlockPlan:
    """Return the blocks of units: whole accesses of the result, for rows that registers hold."""
    p = product
    most = max(1, min(_ACCESS // int(p.dtype.itemsize), _HELD // p.k))
    width = most = 1 << (most.bit_length() - 1)
    while p.n % width:
        width //= 2
    dense = width > 1
    if not dense:
        width = min(most, _SPREAD)
    high = _ROWS
    while high * p.k > _HELD:
        high //= 2
    rows = int(_rows_of(p.batches * p.m * p.n, width, high, info.cores))
    across = dense and p.b.free == 1 and p.b.in_accesses(width, p.n, p.k)
    deep_a, deep_b = _deep(p.a, p.m, p.k), 1 if across else _deep(p.b, p.n, p.k)
    return BlockPlan(rows, width, p.k, dense, across, deep_a, deep_b, accumulator(p))


def _deep(operand: Operand, size: int, terms: int) -> int:
    """Return the adjacent terms of an access of an operand."""
    return access_of(operand, size, terms) if operand.depth == 1 else 1


def unit_blocks_launch(task: Task) -> Launch:
    """Return the launch."""
    p, plan = task.product, plan_of(task.product, task.info)
    by_a, by_b = plan.deep_a, plan.width if plan.across else plan.deep_b
    a, b = task.operands(by_a * p.a.dtype.itemsize, by_b * p.b.dtype.itemsize)
    down, across = -(-p.m // plan.rows), -(-p.n // plan.width)
    if not plan.dense:
        across = -(-p.n // (_APART * plan.width)) * _APART
    count = p.batches * down * across
    units = min(_UNITS, task.info.max_units)
    size = p.batches * p.m * p.n
    reach = size if task.tail is None else task.tail.reach(p.batches, p.m, p.n)
    index = int32 if narrow(p) and kl.index_dtype(reach, count) is int32 else int64
    of_rows, of_columns = (by_b, 1) if plan.across else (1, by_b)
    strides: Strides[Given] = Strides(
        Multiple(p.a.free, by_a), p.a.depth,
        Multiple(p.b.depth, of_rows), Multiple(p.b.free, of_columns),
    )  # fmt: skip
    step = plan.width if plan.dense else 1
    return launch(
        unit_blocks,
        Grid.line(-(-count // units), units, index=index),
        task.effort(f"matmul unit blocks {plan.rows}x{plan.width}"),
        a=a, b=b, c=task.result(step * p.dtype.itemsize), count=count, rows=p.m,
        columns=Multiple(p.n, step), blocks=(down, across), strides=strides,
        batches=task.batches(by_a, by_b), plan=plan, **task.following(step),
    )  # fmt: skip
