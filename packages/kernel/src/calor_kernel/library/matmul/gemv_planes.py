"""Products of few rows by cubes of many units: B is read once, at the speed of memory.

Requirements: any types, strides and sizes. Lanes of a plane read adjacent accesses of B, along the
K axis or along the columns, wherever it is dense; the other lanes and the planes of a cube divide
the K axis, and so do cubes if there are few columns. Several accesses of a unit are in flight. A
matrix that the registers hold is read before the launch before this one ends. What follows the
product is read with A, not behind the sums. The order of a sum depends on the plan and on the parts
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from calor.dtypes import int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.launching import Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.matmul.gemv_plan import GemvPlan
from calor_kernel.library.matmul.problem import narrow
from calor_kernel.library.matmul.row_prologue import Prologue, Sources, rows_in_shared
from calor_kernel.library.matmul.split_sums import Parts, SplitK, in_parts
from calor_kernel.library.matmul.task import Batches, Given, Sizes, Strides, Task

# Bytes of a line of the cache, the cubes of a core that fetch B early, since later ones start when
# nothing is left to wait for, and the most lines of a unit.
_LINE, _EARLY, _FETCHED = 128, 6, 4
# Planes of a cube from which compilers let units have too many registers for another cube.
_FEW_PLANES = 8


@kl.kernel
def gemv_planes(
    a: kl.In | None,
    b: kl.In,
    c: kl.Out,
    sizes: Sizes[kl.Number],
    strides: Strides[kl.Number],
    batches: Batches[kl.Number],
    split: SplitK[kl.Number],
    early: kl.Size,
    c_row: kl.Size,
    c_column: kl.Size,
    before: Sources[kl.Pointer, kl.Number] | None,
    after: After | None,
    *,
    plan: GemvPlan,
    turned: bool = False,
    prologue: Prologue | None = None,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute columns from x and rows from y of a part of a product z.

    ``early``: the cubes that run at a time, which fetch B while the launch before this one ends.
    ``before``: of what A is computed, which then has no memory. ``c_row``, ``c_column``: the
    strides of the result. ``turned``: whether an epilogue has columns where this product has rows.
    """
    if plan.held or prologue is not None:
        # The compiler otherwise spills some registers, or loads one access after another, rather
        # than take more.
        kl.launch_attributes(cubes_per_core=max(1, (512 if plan.rows == 1 else 256) // plan.units))
    elif plan.planes > _FEW_PLANES:
        # There are hardly more of these cubes than cores, which run at a time.
        kl.launch_attributes(cubes_per_core=2)
    m, n = sizes.m, sizes.n
    number = kl.cube_position(2)
    batch, begin, end = split.terms(number, sizes.k)
    a_start, b_start = batches.starts(batch)
    lane, plane = kl.lane_position(), kl.plane_position()
    deep, across = (lane % plan.deep, lane // plan.deep) if plan.along else (
        lane // plan.wide, lane % plan.wide
    )  # fmt: skip
    group, share = plane // plan.shares, plane % plan.shares
    first_row = kl.cube_position(1) * plan.rows
    column = kl.cube_position(0) * plan.columns + group * plan.span + across * plan.each
    right = Right(b, b_start, column, n, strides.b_depth, strides.b_column, plan)
    step, reach = plan.step, plan.reach
    first = begin + (share * plan.deep + deep) * plan.adjacent
    beyond = None if plan.even else end
    ahead: list[list[kl.Number]] = []
    if plan.held:
        ahead = [right.take(first + u * step, beyond) for u in range(plan.unroll)]
        kl.await_launches()
    elif kl.has("overlap"):
        first_column = kl.cube_position(0) * plan.columns
        line = kl.cube_position(1) + kl.cube_count(1) * number
        if kl.cube_position(0) + kl.cube_count(0) * line < early:
            fetch_columns(right, first_column, begin, end)
        kl.await_launches()
    ends = writer(epilogue, after, c, batch)
    whole = plan.groups * plan.rows * plan.span
    turns = -(-whole // plan.units)
    read: list[kl.Number] | None = None
    if ends is not None and turns == 1:
        # Units without a result read that of another.
        *_, row, there = result_of(plan, first_row, kl.unit_index())
        row, there = kl.min(row, m - 1), kl.min(there, n - 1)
        read = ends.operands(*((there, row) if turned else (row, there)), 1)
    sums = kl.registers((plan.rows, plan.each), plan.accumulate)
    if before is None or prologue is None:
        assert a is not None
        rows = [a_start + kl.min(first_row + r, m - 1) * strides.a_row for r in range(plan.rows)]
        left = Left(a, rows, strides.a_depth, plan)
    else:
        if not ahead:
            # The first accesses of B are on their way while the rows are computed.
            ahead = [right.take(first + u * step, end) for u in range(plan.unroll)]
        room = rows_in_shared(before, prologue, first_row, m, plan.rows)
        lines = [0] + [kl.min(first_row + r, m - 1) - first_row for r in range(1, plan.rows)]
        left = Left(room, [line * prologue.capacity for line in lines], 1, plan)
    if ahead:
        add_taken(sums, left, right, ahead, first, step, beyond)
        first = first + reach
    if not plan.held:
        rest: kl.Number = first
        for p in kl.loop_range(first, end - (plan.unroll - 1) * step, reach):
            add_terms(sums, left, right, p, step, None)
            rest = p + reach
        for p in kl.loop_range(rest, end, reach):
            add_terms(sums, left, right, p, step, end)
    add_lanes(sums, plan)
    memory = kl.shared(plan.planes * plan.rows * plan.span, plan.accumulate)
    if deep == 0:
        for r in range(plan.rows):
            for j in range(plan.each):
                memory[(plane * plan.rows + r) * plan.span + across * plan.each + j] = sums[r, j]
    kl.barrier()
    for turn in range(turns):
        at = kl.unit_index() + turn * plan.units
        of, line, place, row, there = result_of(plan, first_row, at)
        if (at < whole) & (row < m) & (there < n):
            total = kl.constant(0, plan.accumulate)
            for one in range(plan.shares):
                source = (of * plan.shares + one) * plan.rows + line
                total = total + memory[source * plan.span + place]
            to = number * (m * n) + row * c_row + there * c_column
            if ends is None:
                c[to] = total.to(c.dtype)
            elif read is None:
                ends.write(to, total, *((there, row) if turned else (row, there)))
            else:
                ends.store(to, ends.results(total, read))


@kl.helper
def result_of(
    plan: GemvPlan, first_row: kl.Number, at: kl.Number
) -> tuple[kl.Number, kl.Number, kl.Number, kl.Number, kl.Number]:
    """Return a cube's sum by its number: group, line, place, and the result's row and column."""
    place, line = at % plan.span, at // plan.span % plan.rows
    of = at // (plan.span * plan.rows)
    column = kl.cube_position(0) * plan.columns + of * plan.span + place
    return of, line, place, first_row + line, column


@dataclass(frozen=True, slots=True)
class Left:
    """Rows of A: where each begins, and the stride along the K axis."""

    source: kl.Pointer
    rows: Sequence[kl.Index]
    depth: kl.Index
    plan: GemvPlan

    @kl.helper
    def take(self, p: kl.Number, end: kl.Number | None) -> list[list[kl.Number]]:
        """Return each row's elements of an access of B at a term, 0 from ``end`` on."""
        plan, source = self.plan, self.source
        if plan.along and plan.a_width > 1:
            vectors = [taken(source, row + p, plan.a_width, p, end) for row in self.rows]
            wide = [vector.to(plan.accumulate) for vector in vectors]
            return [[vector[i] for i in range(plan.a_width)] for vector in wide]
        places = [[row + (p + i) * self.depth for i in range(plan.terms)] for row in self.rows]
        return [[taken(source, at, 1, p, end) for at in row] for row in places]

    @kl.helper
    def several(self, p: kl.Number, end: kl.Number | None) -> list[list[list[kl.Number]]]:
        """Return each row's element of each of the adjacent terms from a term on."""
        plan, wide = self.plan, self.plan.a_width
        made: list[list[list[kl.Number]]] = []
        for first in range(0, plan.unroll, wide):
            vectors = [
                taken(self.source, row + p + first, wide, p + first, end) for row in self.rows
            ]
            made += [
                [[vector[i] if wide > 1 else vector] for vector in vectors] for i in range(wide)
            ]
        return made


@dataclass(frozen=True, slots=True)
class Right:
    """Columns of B from ``column`` on, of ``count``."""

    source: kl.Pointer
    start: kl.Number
    column: kl.Number
    count: kl.Number
    depth: kl.Number
    stride: kl.Number
    plan: GemvPlan

    @kl.helper
    def take(self, p: kl.Number, end: kl.Number | None) -> list[kl.Number]:
        """Return the unit's accesses at a term, each of ``width`` elements, 0 from ``end`` on."""
        plan, last = self.plan, self.count - 1
        if not plan.along:
            # A whole access is inside or outside of the columns.
            inside = kl.min(self.column, self.count - plan.width)
            at = kl.assume_multiple(self.start + p * self.depth + inside, plan.width)
            return [taken(self.source, at, plan.width, p, end)]
        places = [kl.min(self.column + j, last) * self.stride for j in range(plan.each)]
        moved = p if plan.width > 1 else p * self.depth
        return [taken(self.source, self.start + at + moved, plan.width, p, end) for at in places]


@kl.helper
def fetch_columns(right: Right, first: kl.Number, begin: kl.Number, end: kl.Number) -> None:
    """Fetch a cube's columns of B into the cache that all cores share, a line a unit.

    What is there is what memory holds, also if the launch before this one still writes it.
    """
    plan, source = right.plan, right.source
    most = _FETCHED * plan.units
    line = _LINE // int(source.dtype.itemsize)
    if plan.along:
        lines = (end - begin + (line - 1)) // line
        for i in kl.loop_range(kl.unit_index(), kl.min(lines * plan.columns, most), plan.units):
            column = kl.min(first + i // lines, right.count - 1)
            at = right.start + column * right.stride
            source.prefetch(at + kl.min(begin + i % lines * line, end - 1) * right.depth)
    else:
        wide = -(-plan.columns // line)
        for i in kl.loop_range(kl.unit_index(), kl.min((end - begin) * wide, most), plan.units):
            column = kl.min(first + i % wide * line, right.count - 1)
            source.prefetch(right.start + (begin + i // wide) * right.depth + column * right.stride)


@kl.helper
def taken(
    source: kl.Pointer, at: kl.Number, width: int, p: kl.Number, end: kl.Number | None
) -> kl.Number:
    """Return the elements of an access at a term, 0 if the term is not before an ``end``."""
    if end is None:
        return source.load(at, width)
    value = kl.splat(kl.constant(0, source.dtype), width)
    if p < end:
        value = source.load(at, width)
    return value


@kl.helper
def add_terms(
    sums: kl.Registers,
    left: Left,
    right: Right,
    p: kl.Number,
    step: int,
    end: kl.Number | None,
) -> None:
    """Add the products of some accesses ``step`` terms apart; those of B are loaded first."""
    rights = [right.take(p + u * step, end) for u in range(right.plan.unroll)]
    add_taken(sums, left, right, rights, p, step, end)


@kl.helper
def add_taken(
    sums: kl.Registers,
    left: Left,
    right: Right,
    rights: Sequence[Sequence[kl.Number]],
    p: kl.Number,
    step: int,
    end: kl.Number | None,
) -> None:
    """Add the products of accesses of B that were loaded before."""
    plan, wide = right.plan, right.plan.accumulate
    # Of few rows all accesses are issued before the first is used.
    several = [left.take(p + u * step, end) for u in range(len(rights) if plan.held else 0)]
    if plan.a_width > 1 and not plan.along:
        several = left.several(p, end)
    for u, vectors in enumerate(rights):
        term = p + u * step
        if plan.along:
            factors = [[v[i] for i in range(plan.width)] for v in [x.to(wide) for x in vectors]]
        else:
            across = vectors[0].to(wide)
            factors = [[across[j]] for j in range(plan.width)]
        for r, row in enumerate(several[u] if several else left.take(term, end)):
            values = [value.to(wide) for value in row]
            for j, column in enumerate(factors):
                for value, factor in zip(values, column, strict=True):
                    sums[r, j] = scaled(value, factor, sums[r, j])


def scaled(value: kl.Number, factor: kl.Number, total: kl.Number) -> kl.Number:
    """Return total + value · factor."""
    if total.dtype.kind == "float":
        return kl.fma(value, factor, total)
    return total + value * factor


def add_lanes(sums: kl.Registers, plan: GemvPlan) -> None:
    """Add the sums of the lanes that divide the K axis."""
    distance = 1 if plan.along else plan.wide
    for _ in range(plan.deep.bit_length() - 1):
        for r in range(plan.rows):
            for j in range(plan.each):
                sums[r, j] = sums[r, j] + kl.plane_shuffle(sums[r, j], distance, "xor")
        distance *= 2


def gemv_launches(
    task: Task,
    plan: GemvPlan,
    count: int,
    turned: bool,
    before: Mapping[str, object] | None = None,
) -> tuple[Task, list[Launch]]:
    """Return the launches of a plan in parts; ``turned``: the result is that of the transposes.

    ``before``: the arguments of a prologue that computes A.
    """
    product = task.product
    parts = Parts.of(product.k, count, plan.adjacent)
    # A part has fewer terms than a row.
    plan = replace(plan, even=plan.even and parts.count == 1)
    task, target, after = in_parts(task, parts, turned)
    a, b = product.a, product.b
    by_b, by_a = plan.width, plan.a_width
    a_row, a_depth = Multiple(a.free, by_a), a.depth
    b_column, b_depth = (Multiple(b.free, by_b), b.depth) if plan.along else (
        b.free, Multiple(b.depth, by_b)
    )  # fmt: skip
    strides: Strides[Given] = Strides(a_row, a_depth, b_depth, b_column)
    left, right = task.operands(by_a * a.dtype.itemsize, by_b * b.dtype.itemsize)
    c_row, c_column = (1, product.m) if turned else (product.n, 1)
    columns, rows, _ = task.tiles(plan.rows, plan.columns)
    following = task.following()
    if turned and task.tail is not None:
        following["turned"] = True
    name = f"matmul {'prologue ' if before else ''}gemv {plan.rows} rows"
    made = launch(
        gemv_planes,
        Grid(
            (columns, rows, parts.count * product.batches), (plan.units, 1, 1), plan.lanes,
            int32 if narrow(product) else int64,
        ),
        task.effort(name),
        a=left if before is None else None, b=right, c=target,
        sizes=Sizes(product.m, product.n, Multiple(product.k, plan.whole)), strides=strides,
        batches=task.batches(by_a, by_b), split=parts.across(product.batches, plan.adjacent),
        early=_EARLY * task.info.cores,
        c_row=c_row, c_column=c_column, plan=plan,
        **(before or {"before": None}), **following,
    )  # fmt: skip
    return task, [made, *after]
