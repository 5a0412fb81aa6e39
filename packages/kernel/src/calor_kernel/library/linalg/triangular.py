"""Triangular systems, one launch: a cube has some columns of the right-hand sides.

Requirements: only the triangle is read, and its elements once by each cube. Blocks of rows follow
each other: units share the products of the rows with what is solved, and then a unit solves the
block of a column in registers, where no step waits for other units. Rows are in the order in which
they are solved, so that an upper triangle is a lower one.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.linalg.matrices import keep_registers, lanes_of
from calor_kernel.library.linalg.substitution import substitute

# Terms that a unit has on their way.
_TERMS = 4


@dataclass(frozen=True, slots=True)
class TriangularPlan:
    """How a cube solves ``columns`` columns of up to ``room`` rows, in blocks of ``block`` rows.

    ``parts``: the units that share the sum of a row. ``backward``: from the last row on.
    ``transpose``: rows of the triangle are columns in memory. ``unit``: the diagonal has ones.
    """

    block: int
    parts: int
    columns: int
    room: int
    backward: bool
    transpose: bool
    unit: bool

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.block * self.parts

    def shared(self, dtype: DType) -> tuple[int, int, int]:
        """Return the elements of the pieces of shared memory: solved, sums, a diagonal block."""
        pitch = self.block + lanes_of(dtype)
        return self.room * self.columns, self.units * self.columns, self.block * pitch

    def wide(self, dtype: DType) -> int:
        """Return the columns of an access of shared memory."""
        return min(self.columns, lanes_of(dtype))


@dataclass(frozen=True, slots=True)
class Triangle:
    """The triangle of a matrix in memory, by the order in which rows are solved."""

    memory: kl.Pointer
    base: kl.Number
    n: kl.Number
    plan: TriangularPlan

    def place(self, row: kl.Index) -> kl.Index:
        """Return where a row is in memory."""
        return self.n - 1 - row if self.plan.backward else row

    def element(self, row: kl.Index, column: kl.Index) -> kl.Number:
        """Return an element."""
        i, j = self.place(row), self.place(column)
        if self.plan.transpose:
            i, j = j, i
        return self.memory[self.base + i * self.n + j]


@kl.kernel
def solve_triangular(
    a: kl.In,
    b: kl.In,
    x: kl.Out,
    n: kl.Size,
    count: kl.Size,
    tiles: kl.Size,
    *,
    plan: TriangularPlan,
) -> None:
    """Solve the systems of some of ``count`` columns, in ``tiles`` of columns."""
    keep_registers()
    dtype = x.dtype
    block, columns, wide = plan.block, plan.columns, plan.wide(dtype)
    cube, unit = kl.cube_position(), kl.unit_index()
    matrix, column = cube // tiles, cube % tiles * columns
    triangle = Triangle(a, matrix * (n * n), n, plan)
    solved, shares, corner = [kl.shared(size, dtype, align=16) for size in plan.shared(dtype)]
    # Neighbouring units read neighbouring elements of the triangle.
    part, row = unit % plan.parts, unit // plan.parts
    if plan.transpose:
        part, row = unit // block, unit % block
    for start in kl.loop_range(0, n, block):
        share_sums(triangle, solved, shares, start, row, part)
        share_corner(triangle, corner, start, row, part)
        kl.barrier()
        for place in kl.loop_range(unit, block * columns, plan.units):
            r, c = place // columns, place % columns
            value = kl.constant(0.0, dtype)
            if (start + r < n) & (column + c < count):
                at = (matrix * n + triangle.place(start + r)) * count + column + c
                value = b[at]
                for p in range(plan.parts):
                    value = value - shares[p * (block * columns) + place]
            solved[place_of(start + r, c, plan, wide)] = value
        kl.barrier()
        if unit < columns:
            first = place_of(start, unit, plan, wide)
            pitch = block + lanes_of(dtype)
            substitute(solved, first, wide, corner, pitch, block, not plan.unit)
        kl.barrier()
        for place in kl.loop_range(unit, block * columns, plan.units):
            r, c = place // columns, place % columns
            if (start + r < n) & (column + c < count):
                at = (matrix * n + triangle.place(start + r)) * count + column + c
                x[at] = solved[place_of(start + r, c, plan, wide)]


def place_of(row: kl.Index, column: kl.Index, plan: TriangularPlan, wide: int) -> kl.Index:
    """Return where an element of the solution is in shared memory: in planes of some columns."""
    return column // wide * (plan.room * wide) + row * wide + column % wide


@kl.helper
def share_sums(
    triangle: Triangle,
    solved: kl.Pointer,
    shares: kl.Pointer,
    start: kl.Number,
    row: kl.Number,
    part: kl.Number,
) -> None:
    """Write a unit's share of the products of a row with the rows before ``start``."""
    plan, dtype = triangle.plan, solved.dtype
    wide = plan.wide(dtype)
    groups = plan.columns // wide
    sums = kl.registers(groups, dtype, wide)
    known = kl.min(start + row, triangle.n - 1)
    step = plan.parts * _TERMS
    for begin in kl.loop_range(0, start, step):
        terms = [begin + part + plan.parts * t for t in range(_TERMS)]
        factors = [triangle.element(known, term) for term in terms]
        for t in range(_TERMS):
            for g in range(groups):
                at = kl.assume_multiple(place_of(terms[t], g * wide, plan, wide), wide)
                values = solved.load(at, wide)
                sums[g] = kl.fma(kl.splat(factors[t], wide), values, sums[g])
    for g in range(groups):
        at = (part * plan.block + row) * plan.columns + g * wide
        shares.store(kl.assume_multiple(at, wide), sums[g])


@kl.helper
def share_corner(
    triangle: Triangle, corner: kl.Pointer, start: kl.Number, row: kl.Number, part: kl.Number
) -> None:
    """Write a unit's elements of the diagonal block, column by column.

    The diagonal has inverses, and a block beyond the end is an identity.
    """
    plan, dtype, n = triangle.plan, corner.dtype, triangle.n
    pitch = plan.block + lanes_of(dtype)
    for turn in range(plan.block // plan.parts):
        column = part + turn * plan.parts
        value = kl.select(row == column, kl.constant(1.0, dtype), 0.0)
        inside = start + row < n
        if inside & (column < row):
            value = triangle.element(start + row, start + column)
        if not plan.unit and inside & (column == row):
            value = 1.0 / triangle.element(start + row, start + column)
        corner[column * pitch + row] = value
