"""QR factors by Householder reflections (Golub and Van Loan, 5.2), with LAPACK's signs.

Requirements: a cube has a matrix, in shared memory if it fits, and its units share the products of
a reflection's vector with all columns behind it. Columns of Q do not depend on each other, so that
many cubes make them. Squares of small or large elements stay in the range of the dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from calor_kernel import language as kl
from calor_kernel.library.linalg.joins import Joined, joined, joined_size
from calor_kernel.library.linalg.matrices import keep_registers, minus_product


@dataclass(frozen=True, slots=True)
class ReflectionPlan:
    """Matrices of up to ``rows`` × ``columns`` elements, by cubes of ``units`` units.

    ``across``: units with neighbouring columns; the others have other rows. ``inside``: matrices
    are in shared memory.
    """

    rows: int
    columns: int
    units: int
    across: int
    inside: bool = True

    @property
    def parts(self) -> int:
        """The units that share a column."""
        return self.units // self.across

    @property
    def pitch(self) -> int:
        """The elements from row to row."""
        return self.columns + 1

    def shared(self) -> tuple[int, ...]:
        """Return the elements of the pieces of shared memory."""
        line = self.rows, self.parts * self.columns, self.columns, joined_size(self.units)
        return (self.rows * self.pitch, *line) if self.inside else line


@dataclass(frozen=True, slots=True)
class Block:
    """Columns of a matrix, the vector of a reflection, and memory for products with it."""

    plan: ReflectionPlan
    memory: kl.Pointer
    base: kl.Index
    vector: kl.Pointer
    shares: kl.Pointer
    products: kl.Pointer

    def at(self, row: kl.Index, column: kl.Index) -> kl.Index:
        """Return where an element is."""
        return self.base + row * self.plan.pitch + column


def block_of(plan: ReflectionPlan, memory: kl.Pointer, base: kl.Index) -> Block:
    """Return a block in memory, with new shared memory for reflections."""
    pieces = [kl.shared(size, memory.dtype) for size in plan.shared()[-4:-1]]
    return Block(plan, memory, base, *pieces)


@kl.kernel
def qr_reflections(
    x: kl.In,
    work: kl.InOut | None,
    vectors: kl.Out,
    scales: kl.Out,
    r: kl.Out,
    m: kl.Size,
    n: kl.Size,
    high: kl.Size,
    *,
    plan: ReflectionPlan,
) -> None:
    """Write ``high`` rows of R, the vectors of the reflections as rows, and their τ.

    ``work``: memory for a matrix where shared memory holds none.
    """
    keep_registers()
    dtype, unit, units, batch = x.dtype, kl.unit_index(), plan.units, kl.cube_position()
    count = kl.min(m, n)
    if plan.inside:
        memory, base = kl.shared(plan.rows * plan.pitch, dtype), 0 * batch
    else:
        assert work is not None
        memory, base = work, batch * (plan.rows * plan.pitch)
    block = block_of(plan, memory, base)
    team = joined(units, dtype)
    for i in kl.loop_range(unit, m * n, units):
        memory[block.at(i // n, i % n)] = x[batch * m * n + i]
    kl.barrier()
    for j in kl.loop_range(0, count):
        tau, beta = reflector(block, team, j, m)
        kl.barrier()
        reflect(block, tau, j, j + 1, m, n)
        for i in kl.loop_range(unit, m, units):
            vectors[(batch * count + j) * m + i] = kl.select(i < j, 0.0, block.vector[kl.max(i, j)])
        if unit == 0:
            scales[batch * count + j] = tau
            memory[block.at(j, j)] = beta
        kl.barrier()
    for i in kl.loop_range(unit, high * n, units):
        row, column = i // n, i % n
        value = kl.constant(0.0, dtype)
        if (row <= column) & (row < m):
            value = memory[block.at(row, column)]
        r[batch * high * n + i] = value


@kl.helper
def reflector(
    block: Block, team: Joined, j: kl.Number, m: kl.Number
) -> tuple[kl.Number, kl.Number]:
    """Write the vector of the reflection of column j, and return τ and β, as LAPACK's larfg."""
    unit, units, dtype = kl.unit_index(), block.plan.units, block.memory.dtype
    largest = kl.constant(0.0, dtype)
    for i in kl.loop_range(unit, m, units):
        if i >= j:
            largest = kl.max(largest, abs(block.memory[block.at(i, j)]))
    largest = team.of(largest, "max")
    scale = kl.select((largest > 0.0) & (largest < inf), largest, 1.0)
    rest = kl.constant(0.0, dtype)
    for i in kl.loop_range(unit, m, units):
        if i > j:
            value = block.memory[block.at(i, j)] / scale
            rest = kl.fma(value, value, rest)
    kl.barrier()
    rest = team.of(rest, "add")
    alpha = block.memory[block.at(j, j)] / scale
    size = kl.sqrt(kl.fma(alpha, alpha, rest))
    beta = kl.select(rest == 0.0, alpha, kl.select(alpha >= 0.0, -size, size))
    away = alpha - beta
    tau = kl.select(beta == 0.0, 0.0, -away / kl.select(beta == 0.0, 1.0, beta))
    for i in kl.loop_range(unit, m, units):
        if i == j:
            block.vector[i] = kl.constant(1.0, dtype)
        if i > j:
            value = block.memory[block.at(i, j)] / scale
            value = kl.select(away == 0.0, 0.0, value / kl.select(away == 0.0, 1.0, away))
            block.vector[i] = value
    return tau, beta * scale


@kl.helper
def reflect(
    block: Block, tau: kl.Number, top: kl.Number, first: kl.Index, m: kl.Number, n: kl.Index
) -> None:
    """Subtract τ v vᵀ of the columns from ``first`` on; v is 0 above row ``top``."""
    plan, unit = block.plan, kl.unit_index()
    part, lane = unit // plan.across, unit % plan.across
    for column in kl.loop_range(lane, n, plan.across):
        if column >= first:
            share = kl.constant(0.0, block.memory.dtype)
            for i in kl.loop_range(top + part, m, plan.parts):
                share = kl.fma(block.vector[i], block.memory[block.at(i, column)], share)
            block.shares[part * plan.columns + column] = share
    kl.barrier()
    for column in kl.loop_range(unit, n, plan.units):
        if column >= first:
            whole = block.shares[column]
            for p in kl.loop_range(1, plan.parts):
                whole = whole + block.shares[p * plan.columns + column]
            block.products[column] = whole * tau
    kl.barrier()
    for column in kl.loop_range(lane, n, plan.across):
        if column >= first:
            product = block.products[column]
            for i in kl.loop_range(top + part, m, plan.parts):
                at = block.at(i, column)
                value = minus_product(product, block.vector[i], block.memory[at])
                block.memory[at] = value


@kl.kernel
def qr_columns(
    vectors: kl.In,
    scales: kl.In,
    q: kl.Out,
    m: kl.Size,
    count: kl.Size,
    wide: kl.Size,
    tiles: kl.Size,
    *,
    plan: ReflectionPlan,
) -> None:
    """Write some of the ``wide`` columns of Q, the product of ``count`` reflections."""
    keep_registers()
    dtype, unit, units, cube = q.dtype, kl.unit_index(), plan.units, kl.cube_position()
    batch, first = cube // tiles, cube % tiles * plan.columns
    block = block_of(plan, kl.shared(plan.rows * plan.pitch, dtype), 0 * cube)
    for i in kl.loop_range(unit, m * plan.columns, units):
        row, column = i // plan.columns, i % plan.columns
        value = kl.select(row == first + column, kl.constant(1.0, dtype), 0.0)
        block.memory[block.at(row, column)] = value
    for back in kl.loop_range(0, count):
        j = count - 1 - back
        for i in kl.loop_range(unit, m, units):
            block.vector[i] = vectors[(batch * count + j) * m + i]
        kl.barrier()
        reflect(block, scales[batch * count + j], j, 0, m, plan.columns)
        kl.barrier()
    for i in kl.loop_range(unit, m * plan.columns, units):
        row, column = i // plan.columns, i % plan.columns
        if first + column < wide:
            q[(batch * m + row) * wide + first + column] = block.memory[block.at(row, column)]
