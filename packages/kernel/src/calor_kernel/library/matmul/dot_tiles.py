"""Products of some rows and a B that is dense along the K axis: tiles of dot products.

Requirements: weights that change at each step are read once, as they lie, by few long streams,
since transposing them to panels reads short parts of many rows. So vectors run along the K axis.
A pass over a part of it multiplies all rows with some columns, whose parts stay in the first-level
cache, while the terms of the next pass are prefetched. The sums of passes are added in memory of
the unit, so that the roundings of thousands of terms do not add up, and their lanes last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from calor.dtypes import DType, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.matmul.blueprints import accumulator, registers_of
from calor_kernel.library.matmul.packing import iota
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.task import Batches, Sizes, Task
from calor_kernel.library.transposition import transpose

# Rows and columns of a tile, for 32 vector registers; those of fewer are read too often.
_ROWS, _COLUMNS = 6, 4
# Columns whose next terms a tile prefetches; the tiles of all rows share those of a pass.
_ASKED: Final = 2
# Columns of a pass, in tiles.
_SIDE: Final = 2
# Rows from which a column is read for enough products, and up to which B is read longer than
# products take.
_FEWEST, _MOST = 13, 24
# Elements of B from which panels take longer, and the least terms, of few rows and of more: sums of
# lanes take long, and the last tiles of more rows may be half empty.
_LARGE, _TERMS = 1 << 16, ((18, 192), (_MOST, 384))


@dataclass(frozen=True, slots=True)
class DotTiles:
    """Tiles of ``rows`` by ``columns`` sums; ``side`` tiles of columns are computed together.

    ``room``: the rows of A for whose sums there is memory, in whole tiles.
    """

    accumulate: DType
    lanes: int
    rows: int
    columns: int
    side: int
    room: int


@kl.kernel
def pack_rows(
    a: kl.In,
    packed: kl.Out,
    m: kl.Size,
    k: kl.Size,
    a_row: kl.Stride,
    batches: Batches[kl.Number],
    *,
    rows: int,
    lanes: int,
) -> None:
    """Pack tile x of rows of product z: the vectors of all rows lie side by side.

    Rows beyond the last one are copies of it, and terms beyond the last one zeros.
    """
    batch, tile = kl.cube_position(2), kl.cube_position(0)
    start, _ = batches.starts(batch)
    steps = (k + (lanes - 1)) // lanes
    first = (batch * ((m + (rows - 1)) // rows) + tile) * steps * (rows * lanes)
    at = [start + kl.min(tile * rows + r, m - 1) * a_row for r in kl.range(rows)]
    for p in kl.loop_range(0, k // lanes):
        for r in kl.range(rows):
            vector = a.load(at[r] + p * lanes, lanes)
            packed.store(first + (p * rows + r) * lanes, vector)
    if k % lanes > 0:
        last = k // lanes * lanes
        inside = last + iota(lanes, k) < k
        for r in kl.range(rows):
            vector = a.load(at[r] + last, lanes, mask=inside)
            packed.store(first + (last * rows) + r * lanes, vector)


@kl.kernel
def dot_tiles(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    b_column: kl.Stride,
    batches: Batches[kl.Number],
    block: kl.Size,
    part: kl.Size,
    *,
    plan: DotTiles,
) -> None:
    """Compute ``block`` columns of c from x on, of batch z; a pass has ``part`` terms.

    ``a``: the panels of :func:`pack_rows`.
    """
    m, n, k = sizes.m, sizes.n, sizes.k
    rows, columns, lanes, accumulate = plan.rows, plan.columns, plan.lanes, plan.accumulate
    batch = kl.cube_position(2)
    _, b_start = batches.starts(batch)
    steps = (k + (lanes - 1)) // lanes
    a_start = batch * ((m + (rows - 1)) // rows) * steps * (rows * lanes)
    first = kl.cube_position(0) * block
    last = kl.min(first + block, n)
    tile, span = rows * columns * lanes, columns * plan.side
    sums = kl.private(plan.room // rows * plan.side * tile, accumulate, align=64)
    whole = k // lanes * lanes
    for column in kl.loop_range(first, last, span):
        for begin in kl.loop_range(0, k, part):
            end = kl.min(begin + part, k)
            main = kl.min(end, whole)
            # From the terms of a pass to those of the next one: of these columns, or of the next.
            further = kl.select(end < k, part, span * b_column - begin)
            for row in kl.loop_range(0, m, rows):
                a_at = a_start + row * steps * lanes
                for s in kl.loop_range(0, plan.side):
                    at = (row // rows * plan.side + s) * tile
                    b_at = [
                        b_start + kl.min(column + s * columns + j, last - 1) * b_column
                        for j in kl.range(columns)
                    ]
                    asked = kl.min(row // rows * _ASKED, columns - _ASKED) + column + s * columns
                    next_at = b_start + asked * b_column + further
                    acc = kl.registers((rows, columns), accumulate, lanes)
                    for p in kl.loop_range(begin, main, lanes):
                        for j in kl.range(_ASKED):
                            b.prefetch(next_at + j * b_column + p, locality=2)
                        add_dots(acc, a, a_at, b, b_at, p, None)
                    if main < end:
                        add_dots(acc, a, a_at, b, b_at, main, main + iota(lanes, k) < k)
                    add_sums(acc, sums, at, begin > 0)
        for row in kl.loop_range(0, m):
            for s in kl.loop_range(0, plan.side):
                at = ((row // rows * plan.side + s) * rows + row % rows) * columns * lanes
                to = (batch * m + row) * n + column + s * columns
                made = [sums.load(at + j * lanes, lanes) for j in kl.range(columns)]
                total = lanes_added(made)
                inside = column + s * columns + iota(columns, n) < last
                c.store(to, total.to(c.dtype), mask=inside)


@kl.helper
def add_dots(
    acc: kl.Registers,
    a: kl.Pointer,
    a_at: kl.Number,
    b: kl.Pointer,
    b_at: list[kl.Number],
    p: kl.Number,
    inside: kl.Number | None,
) -> None:
    """Add the products of one vector of the K axis."""
    (rows, _), lanes = acc.shape, acc.type.width
    first = a_at + p * rows
    right = [b.load(at + p, lanes, mask=inside) for at in b_at]
    for r in kl.range(rows):
        left = a.load(first + r * lanes, lanes)
        for j, one in enumerate(right):
            acc[r, j] = kl.fma(left, one, acc[r, j])


@kl.helper
def add_sums(acc: kl.Registers, sums: kl.Pointer, at: kl.Number, begun: kl.Mask) -> None:
    """Add the sums of a pass to those of the passes before, if there are some."""
    (rows, columns), lanes = acc.shape, acc.type.width
    for r in kl.range(rows):
        for j in kl.range(columns):
            to = at + (r * columns + j) * lanes
            if begun:
                acc[r, j] = acc[r, j] + sums.load(to, lanes)
            sums.store(to, acc[r, j])


def lanes_added(vectors: list[kl.Number]) -> kl.Number:
    """Return a vector of the sums of the lanes of each of the vectors."""
    count, lanes = len(vectors), vectors[0].width
    width = lanes
    while width > count:
        width //= 2
        low, high = list(range(width)), list(range(width, 2 * width))
        vectors = [kl.shuffle(v, low) + kl.shuffle(v, high) for v in vectors]
    made = transpose(vectors)
    total = made[0]
    for one in made[1:]:
        total = total + one
    return total


def dot_tiles_plan(product: Product, info: DeviceInfo) -> DotTiles | str:
    """Return the plan of a product, or why panels of B are faster."""
    accumulate = accumulator(product)
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    if product.dtype is not float32 or product.a.dtype is not float32:
        return "it is not of float32"
    if product.a.depth != 1 or product.b.depth != 1 or product.b.free == 1:
        return "an operand is not dense along the K axis"
    if lanes < 4 or lanes & (lanes - 1):
        return "the device has no vectors of float32"
    if registers_of(info) < 32:
        return "its tiles need 32 vector registers"
    if product.m < _FEWEST or product.m > _MOST:
        return f"it has fewer than {_FEWEST} rows, or more than {_MOST}"
    terms = next(terms for most, terms in _TERMS if product.m <= most)
    if exceeds(terms, product.k) or not exceeds(product.n * product.k, _LARGE):
        return f"its sums have fewer than {terms} terms, or a cache holds B"
    return DotTiles(accumulate, lanes, _ROWS, _COLUMNS, _SIDE, _MOST)


def dot_tiles_launches(task: Task, plan: DotTiles) -> tuple[Task, list[Launch]]:
    """Return the launches of a product without its epilogue, and the task with their memory."""
    (a, b), p, info = task.operands(), task.product, task.info
    tiles, steps = -(-p.m // plan.rows), -(-p.k // plan.lanes)
    size = p.batches * tiles * plan.rows * steps * plan.lanes * plan.accumulate.itemsize
    target, task = task.room(size)
    packed = Bound(target, plan.accumulate)
    first = launch(
        pack_rows,
        Grid((tiles, 1, p.batches)),
        Effort("matmul pack", nbytes=2 * size),
        a=a,
        packed=packed,
        m=p.m,
        k=p.k,
        a_row=p.a.free,
        batches=task.batches(),
        rows=plan.rows,
        lanes=plan.lanes,
    )
    span = plan.columns * plan.side
    # The first-level cache has a part of the columns of a pass, and of most rows. A pass as long as
    # others saves the sums of a short one.
    near = (info.caches[0] if info.caches else 1 << 15) * 3 // 2 // plan.accumulate.itemsize
    part = greatest(1, near // (p.m + span) // plan.lanes) * plan.lanes
    passes = greatest(1, -(-p.k // part))
    part = greatest(1, -(-p.k // passes // plan.lanes)) * plan.lanes
    block = greatest(1, -(-p.n // span) // (4 * info.cores)) * span
    plain = replace(task, tail=None)
    second = launch(
        dot_tiles,
        Grid((-(-p.n // block), 1, p.batches)),
        plain.effort(f"matmul dots {plan.rows}x{plan.columns} in parts"),
        a=packed,
        b=b,
        c=plain.result(),
        sizes=task.sizes(),
        b_column=p.b.free,
        batches=task.batches(),
        block=block,
        part=part,
        plan=plan,
    )
    return task, [first, second]
