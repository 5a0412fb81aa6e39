"""Products of few rows by matrix instructions: registers hold a cube's columns of B, read once.

Requirements: operands of half types, or of float32 that may be rounded, dense along the K axis. A
cube has some columns and all rows. Its planes divide the K axis, and lanes load their elements of B
from memory to registers, all at once if they fit; so no memory is shared but for the sums, and no
second launch adds parts. The order of terms within an instruction is that in which lanes have
whole accesses: four lanes of a column have adjacent ones. A matrix that registers hold is read
before the launch before ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calor.dtypes import DType, float32, int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.language.matrices import mma_16x8
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.gemm.mma import ACCESS, Sums, sums_of
from calor_kernel.library.matmul.predicated_mma import access_of, mma_parts, mma_plan
from calor_kernel.library.matmul.problem import Product, narrow
from calor_kernel.library.matmul.task import Batches, Sizes, Task

# Rows and tiles of columns at most, and the planes of a cube: of few cubes many divide the K axis.
# Of many cubes a core has several side by side, and fewer sums are added.
_ROWS, _TILES, _PLANES = 48, 4, (8, 4, 2)
# Lanes with adjacent accesses of a column, and instructions that use one access of each.
_LANES, _TIMES = 4, 2
# Registers of a unit for operands of the terms that are loaded at once.
_HELD: Final = 112
# Cycles of a launch; of terms that are loaded in several turns, or checked; of columns that are a
# single tile, which few loads precede; of a load, of a piece of a row of A, of an instruction and
# of a sum; bytes of B, and of A for all cubes, that a device reads in a cycle. Fitted to 68
# launches of 29 products on an H200 by least squares.
_LAUNCH, _TURNS, _CHECKED, _SINGLE = 1610, 1510, 2900, 620
_LOAD, _ROW_OF_A, _INSTRUCTION, _SUM = 11.4, 12, 18.4, 0.77
_READ_B, _READ_A = 6470, 11660
# Cycles of two launches, parts of the K axis and their sums; bytes of those parts in a cycle.
_DIVIDED, _PARTS = 6500, 260
# Bytes of B from which on it is not in the cache that all cores share. There cubes that read more
# of A than of B take about twice as long as whole tiles, if these fill the device.
_BEYOND: Final = 32 << 20
# Shorter accesses are too many.
_LEAST: Final = 4


@dataclass(frozen=True, slots=True)
class SkinnyPlan:
    """The plan of a product of few rows.

    ``down``, ``across``: tiles of rows, and of a cube's columns. ``terms``: of all planes of a cube
    that are loaded at once, ``unroll`` accesses of a lane. ``a_access``, ``b_access``: the elements
    of an access of each operand. ``whole``: whether these are all terms. ``even``: whether the
    terms are a multiple of those that are loaded at once, so that no lane is beyond them; ``full``:
    if these are all terms, the accesses of a lane that are not beyond them.
    """

    dtype: DType
    down: int
    across: int
    planes: int
    unroll: int
    a_access: int
    b_access: int
    whole: bool
    even: bool = False
    full: int = 0

    @property
    def shape(self) -> kl.MatrixShape:
        """The shape of the instruction."""
        return mma_16x8(self.dtype)

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.planes * self.shape.lanes

    @property
    def rows(self) -> int:
        """The rows of a cube."""
        return self.down * self.shape.m

    @property
    def columns(self) -> int:
        """The columns of a cube."""
        return self.across * self.shape.n

    @property
    def piece(self) -> int:
        """The elements of a lane's row or column that are loaded together."""
        return ACCESS // int(self.dtype.itemsize)

    @property
    def depth(self) -> int:
        """The terms of a plane's instructions on one piece of each lane."""
        return self.piece * _LANES

    @property
    def terms(self) -> int:
        """The terms of a cube that are loaded at once."""
        return self.depth * self.planes * self.unroll

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return self.planes * self.rows * self.columns * 4

    @property
    def title(self) -> str:
        """The plan's name among the candidates."""
        return f"skinny MMA {self.rows}x{self.columns} by {self.planes}, {self.unroll} ahead"


def plans_of(product: Product, info: DeviceInfo) -> Iterable[SkinnyPlan]:
    """Return the plans of a product, by tiles of columns and planes."""
    accesses = _accesses(product)
    down = -(-product.m // mma_16x8(product.a.dtype).m)
    for across, planes in itertools.product(range(1, _TILES + 1), _PLANES):
        made = SkinnyPlan(product.a.dtype, down, across, planes, 1, *accesses, False)
        each = -(-product.k // (made.depth * made.planes))
        # A piece has four registers, of two rows of a tile.
        most = (_HELD - 4 * down * across) // (4 * across + 8 * down)
        if most < min(each, 2):
            # Turns of one piece each wait for memory too often.
            continue
        unroll = min(each, most)
        # Turns of one length need no checks, if they are not much shorter.
        even = (n for n in range(unroll, unroll // 2, -1) if each % n == 0)
        plan = replace(made, unroll=next(even, unroll), whole=each <= most)
        full = product.k // (made.depth * made.planes) if plan.whole else 0
        yield replace(plan, even=product.k % plan.terms == 0, full=full)


def cycles_of(plan: SkinnyPlan, product: Product, info: DeviceInfo) -> float:
    """Return the cycles of a product."""
    cubes = -(-product.n // plan.columns) * product.batches
    each = -(-cubes // (info.cores * _PLANES[0] // plan.planes))
    turns = -(-product.k // plan.terms)
    pieces, lines = turns * plan.unroll, 2 * plan.down
    loads = pieces * plan.piece * (plan.across / plan.b_access + lines / plan.a_access)
    own = loads * _LOAD + pieces * lines * (_ROW_OF_A + plan.across * _INSTRUCTION)
    line = product.k * int(plan.dtype.itemsize)
    read = cubes * product.m * line / _READ_A + product.batches * product.n * line / _READ_B
    once = _LAUNCH + _SINGLE * (plan.across == 1) + _TURNS * (not plan.whole)
    checked = 0 if plan.even else _CHECKED * (1 - plan.full / plan.unroll)
    return once + checked + each * (own + product.m * plan.columns * _SUM) + read


def divided_cycles(product: Product, info: DeviceInfo) -> float | None:
    """Return the cycles of parts of the K axis and their sums, None if there is one part."""
    parts = mma_parts(product, mma_plan(product, info)[0], info)
    sums = product.batches * product.m * product.n * parts * 4
    return _DIVIDED + sums / _PARTS if parts > 1 else None


def skinny_plan(product: Product, info: DeviceInfo) -> SkinnyPlan | None:
    """Return the plan that takes least; None if no cube can have one, or other ways take less.

    These are two launches with parts of the K axis, and whole tiles of many rows.
    """
    able = [plan for plan in plans_of(product, info) if plan.shared_bytes <= info.shared_bytes]
    best = min(able, key=lambda plan: cycles_of(plan, product, info), default=None)
    divided = divided_cycles(product, info)
    if best is None or divided is None:
        again = best is not None and best.columns < product.m
        return None if again and is_beyond(product) else best
    return best if cycles_of(best, product, info) <= divided else None


def is_beyond(product: Product) -> bool:
    """Return whether the cache that all cores share does not hold B."""
    nbytes = product.batches * product.n * product.k * int(product.b.dtype.itemsize)
    return exceeds(nbytes, _BEYOND)


def refusal(product: Product) -> str | None:
    """Return why no plan has the rows or the lines of a product, None if one has."""
    item = int(product.a.dtype.itemsize)
    if any(map(is_size, (product.m, product.n, product.k))):
        return "its sizes are not known"
    if not 0 < product.m <= min(_ROWS, product.n):
        return f"it has no rows, more than columns, or more than {_ROWS}"
    if product.along != (True, True):
        return "an operand is not dense along the K axis"
    if min(_accesses(product)) * item < _LEAST:
        return f"its lines are of accesses below {_LEAST} bytes"
    return None


def _accesses(product: Product) -> tuple[int, int]:
    """Return the elements of an access of each operand."""
    a, b, k = product.a, product.b, product.k
    return access_of(a, product.m, k), access_of(b, product.n, k)


@kl.kernel
def skinny_mma(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    a_stride: kl.Stride,
    b_stride: kl.Stride,
    batches: Batches[kl.Number],
    after: After | None,
    *,
    plan: SkinnyPlan,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute columns from x of a product z, of all its rows."""
    kl.launch_attributes(cubes_per_core=1)
    m, n, k = sizes.m, sizes.n, sizes.k
    batch = kl.cube_position(2)
    a_start, b_start = batches.starts(batch)
    first_column = kl.cube_position(0) * plan.columns
    lane, plane = kl.lane_position(), kl.plane_position()
    # A lane's line in a tile, and the first of its terms.
    line, begin = lane // _LANES, lane % _LANES * plan.piece + plane * plan.depth
    right = [
        b_start + kl.min(first_column + j * plan.shape.n + line, n - 1) * b_stride
        for j in range(plan.across)
    ]
    left = [
        a_start + kl.min(i * (plan.shape.m // 2) + line, m - 1) * a_stride
        for i in range(2 * plan.down)
    ]
    sums = sums_of(plan.shape, plan.down, plan.across)
    if plan.whole:
        ahead = taken_all(b, right, begin, k, plan.b_access, plan)
        if kl.has("overlap"):
            kl.await_launches()
        multiply(sums, ahead, taken_all(a, left, begin, k, plan.a_access, plan), plan)
    else:
        for p in kl.loop_range(0, k, plan.terms):
            some = taken_all(b, right, p + begin, k, plan.b_access, plan)
            multiply(sums, some, taken_all(a, left, p + begin, k, plan.a_access, plan), plan)
    memory = kl.shared(plan.planes * plan.rows * plan.columns, float32, align=16)
    for i in range(plan.down):
        for j in range(plan.across):
            corner = (plane * plan.rows + i * plan.shape.m) * plan.columns + j * plan.shape.n
            sums[i][j].store(memory.at(corner), (plan.columns, 1))
    kl.barrier()
    ends = writer(epilogue, after, c, batch)
    whole = plan.rows * plan.columns
    for turn in range(-(-whole // plan.units)):
        at = kl.unit_index() + turn * plan.units
        row, column = at // plan.columns, first_column + at % plan.columns
        if (at < whole) & (row < m) & (column < n):
            total = memory[at]
            for one in range(1, plan.planes):
                total = total + memory[one * whole + at]
            to = (batch * m + row) * n + column
            if ends is None:
                c[to] = total.to(c.dtype)
            else:
                ends.write(to, total, row, column)


Pieces = list[list[list[kl.Number]]]
"""A lane's elements by turn, line and number."""


@kl.helper
def taken_all(
    source: kl.Pointer,
    lines: Sequence[kl.Number],
    begin: kl.Number,
    k: kl.Number,
    access: int,
    plan: SkinnyPlan,
) -> Pieces:
    """Return the pieces of a lane's lines from a term on, 0 beyond the last one."""
    found = []
    for turn in range(plan.unroll):
        term = begin + turn * plan.depth * plan.planes
        limit = None if plan.even or turn < plan.full else k
        found.append([taken(source, at, term, limit, access, plan.piece) for at in lines])
    return found


@kl.helper
def taken(
    source: kl.Pointer,
    line: kl.Number,
    term: kl.Number,
    k: kl.Number | None,
    access: int,
    piece: int,
) -> list[kl.Number]:
    """Return adjacent elements of a line, 0 beyond an end ``k``, which accesses divide."""
    made = []
    zero = kl.splat(kl.constant(0, float32).to(source.dtype), access)
    for part in range(0, piece, access):
        if k is None:
            value = source.load(kl.assume_multiple(line + term + part, access), access)
            made += [value[i] for i in range(access)] if access > 1 else [value]
            continue
        inside = term + part < k
        # A masked access of several elements would be a branch.
        at = kl.assume_multiple(line + kl.select(inside, term + part, 0), access)
        value = kl.select(inside, source.load(at, access), zero)
        made += [value[i] for i in range(access)] if access > 1 else [value]
    return made


@kl.helper
def multiply(sums: Sums, rights: Pieces, lefts: Pieces, plan: SkinnyPlan) -> None:
    """Add the products of pieces, the terms of an instruction being a part of each lane's."""
    shape = plan.shape
    half = plan.piece // (2 * _TIMES)
    for some, others in zip(rights, lefts, strict=True):
        for time in range(_TIMES):
            first = 2 * time * half
            tiles = []
            for column in some:
                tile = kl.fragment(shape, "b")
                tile.parts[0] = kl.pack(column[first : first + 2 * half])
                tiles.append(tile)
            for i in range(plan.down):
                rows = others[2 * i], others[2 * i + 1]
                tile = kl.fragment(shape, "a")
                # The two halves of the terms, each of both rows.
                parts = [row[at : at + half] for at in (first, first + half) for row in rows]
                tile.parts[0] = kl.pack([value for part in parts for value in part])
                for j in range(plan.across):
                    kl.mma(tile, tiles[j], sums[i][j])


def skinny_launches(task: Task, plan: SkinnyPlan) -> tuple[Task, list[Launch]]:
    """Return the launch of a product of few rows."""
    product, item = task.product, int(plan.dtype.itemsize)
    a, b = product.a, product.b
    by = plan.a_access, plan.b_access
    left, right = task.operands(by[0] * item, by[1] * item)
    columns, _, _ = task.tiles(plan.rows, plan.columns)
    made = launch(
        skinny_mma,
        Grid(
            (columns, 1, product.batches), (plan.units, 1, 1), plan.shape.lanes,
            int32 if narrow(product) else int64,
        ),
        task.effort(f"matmul skinny {plan.rows}x{plan.columns}"),
        a=left, b=right, c=task.result(),
        sizes=Sizes(product.m, product.n, Multiple(product.k, max(by))),
        a_stride=Multiple(a.free, by[0]), b_stride=Multiple(b.free, by[1]),
        batches=task.batches(*by), plan=plan, **task.following(),
    )  # fmt: skip
    return task, [made]
