"""Attention and its gradients by cubes of many units, with tiles in shared memory.

Requirements: only one tile of scores exists at a time. An online softmax follows the keys block by
block (Dao et al., "FlashAttention", 2022). Sums have a fixed order and nothing is atomic, so the
gradients of queries and of keys take two passes over the scores. A cube reads operands from global
memory once a step. Neighbouring units read along the contiguous axis, and write neighbouring
elements. Any strides and sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.attention.operands import (
    KernelOperands,
    Rows,
    ScoreForm,
    Upstream,
    finite,
    key_rows,
    query_rows,
    upstream_rows,
    value_rows,
    visible,
)
from calor_kernel.library.gemm.generic import fill_tile
from calor_kernel.library.gemm.lines import StridedLines
from calor_kernel.library.math import exp, log


@dataclass(frozen=True, slots=True)
class SimtPlan:
    """Cubes of ``across`` by ``down`` units; a unit has ``rows`` by ``keys`` scores of a tile.

    ``values``: its columns of sums. A tile has ``depth`` features of the operands.
    """

    across: int
    down: int
    depth: int
    rows: int
    keys: int
    values: int

    @property
    def height(self) -> int:
        """The queries of a tile."""
        return self.rows * self.down

    @property
    def block(self) -> int:
        """The keys of a tile."""
        return self.keys * self.across

    @property
    def width(self) -> int:
        """The columns of sums of a cube."""
        return self.values * self.across

    @property
    def pitch(self) -> int:
        """The distance of rows of scores in shared memory."""
        return self.block + 1

    def row(self, i: int) -> kl.Number:
        """Return the row of a unit's i-th results."""
        return kl.unit_position(1) + i * self.down

    def column(self, j: int) -> kl.Number:
        """Return the column of a unit's j-th results."""
        return kl.unit_position(0) + j * self.across


def cube_memory(count: int, dtype: DType) -> kl.Pointer:
    """Return memory shared by the units of a cube; private memory for a cube of one unit."""
    alone = kl.cube_size(0) * kl.cube_size(1) == 1
    return kl.private(count, dtype) if alone else kl.shared(count, dtype)


@dataclass(frozen=True, slots=True)
class Cube:
    """A cube's scores of heads of batch ``n``, and its tiles of both operands of a product."""

    plan: SimtPlan
    form: ScoreForm
    g: KernelOperands
    value_width: kl.Number
    dtype: DType
    left: kl.Pointer
    right: kl.Pointer

    def heads(self, n: kl.Number, head: kl.Number) -> tuple[Rows, Rows, Rows]:
        """Return the queries, keys and values of a query head."""
        query = query_rows(self.g, n, head, self.form.contiguous[0])
        return query, *self.key_heads(n, head // self.g.group)

    def key_heads(self, n: kl.Number, key_head: kl.Number) -> tuple[Rows, Rows]:
        """Return the keys and values of a key head."""
        _, keys, values = self.form.contiguous
        return (
            key_rows(self.g, n, key_head, keys),
            value_rows(self.g, n, key_head, self.value_width, values),
        )

    def fill(
        self, tile: kl.Pointer, source: Rows, first: kl.Index, begin: kl.Index, size: int
    ) -> None:
        """Fill a tile, transposed: ``tile[p, i]`` is element begin + p of row first + i."""
        lines = StridedLines(
            source.memory, source.at, first, source.count, source.row_step, source.step
        )
        units, along = self.plan.across * self.plan.down, source.contiguous
        fill_tile(tile, 0, lines, begin, source.width, units, size, self.plan.depth, along)

    def fill_rows(
        self, tile: kl.Pointer, source: Rows, first: kl.Index, begin: kl.Index, depth: int
    ) -> None:
        """Fill a tile: ``tile[p, i]`` is element first + i of row begin + p."""
        lines = StridedLines(
            source.memory, source.at, first, source.width, source.step, source.row_step
        )
        units, along = self.plan.across * self.plan.down, not source.contiguous
        fill_tile(tile, 0, lines, begin, source.count, units, self.plan.width, depth, along)

    @kl.helper
    def products(self, a: Rows, b: Rows, first: kl.Index, begin: kl.Index) -> kl.Registers:
        """Return the products of rows of a from ``first`` on and rows of b from ``begin`` on."""
        plan = self.plan
        acc = kl.registers((plan.rows, plan.keys), self.dtype)
        for p in kl.loop_range(0, a.width, plan.depth):
            kl.barrier()
            self.fill(self.left, a, first, p, plan.height)
            self.fill(self.right, b, begin, p, plan.block)
            kl.barrier()
            self.multiply(acc, self.left, 1, plan.height, self.right, plan.depth)
        return acc

    @kl.helper
    def multiply(
        self,
        acc: kl.Registers,
        left: kl.Pointer,
        row_step: int,
        step: int,
        right: kl.Pointer,
        depth: int,
    ) -> None:
        """Add products of tiles: row i of the left begins at i · row_step, the right is dense."""
        rows, columns = acc.shape
        width = columns * self.plan.across
        for p in kl.loop_range(depth):
            xs = [right[p * width + self.plan.column(j)] for j in range(columns)]
            for i in range(rows):
                value = left[self.plan.row(i) * row_step + p * step]
                for j in range(columns):
                    acc[i, j] = kl.fma(value, xs[j], acc[i, j])

    @kl.helper
    def score(
        self, x: kl.Number, n: kl.Index, head: kl.Index, i: kl.Number, j: kl.Number
    ) -> kl.Number:
        """Return a product as a score: scaled, with biases, and −inf if hidden or beyond it."""
        x = x * self.g.scale
        there = (i < self.g.queries) & (j < self.g.keys)
        return visible(x, there, self.g, self.form, n, head, i, j)

    @kl.helper
    def gradients(
        self,
        query: Rows,
        key: Rows,
        value: Rows,
        upstream: Rows,
        up: Upstream[kl.Pointer],
        n: kl.Index,
        head: kl.Index,
        first: kl.Index,
        begin: kl.Index,
    ) -> tuple[kl.Registers, kl.Registers]:
        """Return a unit's weights and the gradients of its scores, 0 beyond the last score."""
        g, plan = self.g, self.plan
        weights = self.products(query, key, first, begin)
        inner = self.products(upstream, value, first, begin)
        row_at = (n * g.heads + head) * g.queries
        for i in range(plan.rows):
            place = first + plan.row(i)
            there = place < g.queries
            shift = finite(up.total.load(row_at + place, mask=there))
            along = up.delta.load(row_at + place, mask=there)
            for j in range(plan.keys):
                x = self.score(weights[i, j], n, head, place, begin + plan.column(j))
                weights[i, j] = exp(x - shift)
                inner[i, j] = weights[i, j] * (inner[i, j] - along)
        return weights, inner

    def keep(self, tile: kl.Pointer, scores: kl.Registers) -> None:
        """Write a unit's scores to a tile in shared memory."""
        for i in range(self.plan.rows):
            for j in range(self.plan.keys):
                tile[self.plan.row(i) * self.plan.pitch + self.plan.column(j)] = scores[i, j]


def cube_of(
    plan: SimtPlan, form: ScoreForm, g: KernelOperands, value_width: kl.Number, dtype: DType
) -> Cube:
    """Return a cube with memory for its tiles."""
    left, right = (cube_memory(plan.depth * n, dtype) for n in (plan.height, plan.block))
    return Cube(plan, form, g, value_width, dtype, left, right)


def panel_of_cube(panels: kl.Number) -> tuple[kl.Number, kl.Number, kl.Number]:
    """Return the batch, the head and the panel of features of a cube."""
    return kl.cube_position(2), kl.cube_position(1) // panels, kl.cube_position(1) % panels


@kl.kernel
def attend_simt(
    out: kl.Out,
    total: kl.Out,
    value_width: kl.Size,
    panels: kl.Size,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
) -> None:
    """Compute a tile: rows from x, a head and a panel of the values' features from y, batch z."""
    dtype, rows, pitch, height = total.dtype, plan.rows, plan.pitch, plan.height
    n, head, panel = panel_of_cube(panels)
    first = kl.cube_position(0) * height
    cube = cube_of(plan, form, g, value_width, dtype)
    query, key, value = cube.heads(n, head)
    weights = cube_memory(height * pitch, dtype)
    value_tile = cube_memory(plan.block * plan.width, dtype)
    largest, powers, factors = (cube_memory(height, dtype) for _ in range(3))
    unit = kl.unit_index()
    if unit < height:
        largest[unit] = kl.constant(-math.inf, dtype)
        powers[unit] = kl.constant(0, dtype)
    sums = kl.registers((rows, plan.values), dtype)
    stop = kl.min(g.keys, first + height) if form.causal else g.keys
    for begin in kl.loop_range(0, stop, plan.block):
        scores = cube.products(query, key, first, begin)
        # All units have finished with the weights and values of the preceding block.
        kl.barrier()
        for i in range(rows):
            for j in range(plan.keys):
                row, column = plan.row(i), plan.column(j)
                scores[i, j] = cube.score(scores[i, j], n, head, first + row, begin + column)
                weights[row * pitch + column] = scores[i, j]
        cube.fill_rows(value_tile, value, panel * plan.width, begin, plan.block)
        kl.barrier()
        if unit < height:
            top = largest[unit]
            before = top
            for column in kl.loop_range(plan.block):
                x = weights[unit * pitch + column]
                top = kl.select(x > top, x, top)
            factors[unit] = exp(before - finite(top))
            largest[unit] = top
        kl.barrier()
        for i in range(rows):
            for j in range(plan.keys):
                row, column = plan.row(i), plan.column(j)
                weights[row * pitch + column] = exp(scores[i, j] - finite(largest[row]))
        kl.barrier()
        if unit < height:
            power = powers[unit] * factors[unit]
            for column in kl.loop_range(plan.block):
                power = power + weights[unit * pitch + column]
            powers[unit] = power
        for i in range(rows):
            for j in range(plan.values):
                sums[i, j] = sums[i, j] * factors[plan.row(i)]
        cube.multiply(sums, weights, pitch, 1, value_tile, plan.block)
    kl.barrier()
    row_at = (n * g.heads + head) * g.queries + first
    for i in range(rows):
        row = plan.row(i)
        under = powers[row]
        under = kl.select(under > 0.0, under, 1.0)
        for j in range(plan.values):
            column = panel * plan.width + plan.column(j)
            if (first + row < g.queries) and (column < value_width):
                out[(row_at + row) * value_width + column] = (sums[i, j] / under).to(out.dtype)
    if (panel == 0) and (unit < height) and (first + unit < g.queries):
        total[row_at + unit] = finite(largest[unit]) + log(powers[unit])


@kl.kernel
def query_gradient_simt(
    up: Upstream[kl.Pointer],
    for_query: kl.Out,
    value_width: kl.Size,
    panels: kl.Size,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
) -> None:
    """Compute the gradient of a tile of queries, one panel of their features a cube."""
    dtype = up.total.dtype
    n, head, panel = panel_of_cube(panels)
    first = kl.cube_position(0) * plan.height
    cube = cube_of(plan, form, g, value_width, dtype)
    query, key, value = cube.heads(n, head)
    row_at = (n * g.heads + head) * g.queries
    upstream = upstream_rows(up, row_at, g, value_width)
    slopes = cube_memory(plan.height * plan.pitch, dtype)
    key_tile = cube_memory(plan.block * plan.width, dtype)
    sums = kl.registers((plan.rows, plan.values), dtype)
    stop = kl.min(g.keys, first + plan.height) if form.causal else g.keys
    for begin in kl.loop_range(0, stop, plan.block):
        _, inner = cube.gradients(query, key, value, upstream, up, n, head, first, begin)
        kl.barrier()
        cube.keep(slopes, inner)
        cube.fill_rows(key_tile, key, panel * plan.width, begin, plan.block)
        kl.barrier()
        cube.multiply(sums, slopes, plan.pitch, 1, key_tile, plan.block)
    for i in range(plan.rows):
        row = first + plan.row(i)
        for j in range(plan.values):
            column = panel * plan.width + plan.column(j)
            if (row < g.queries) and (column < g.features):
                made = sums[i, j] * g.scale
                for_query[(row_at + row) * g.features + column] = made.to(for_query.dtype)


@kl.kernel
def key_gradient_simt(
    up: Upstream[kl.Pointer],
    for_key: kl.Out,
    for_value: kl.Out,
    value_width: kl.Size,
    panels: kl.Size,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
) -> None:
    """Compute the gradients of a tile of keys and values, one panel of their features a cube."""
    dtype, height, width = up.total.dtype, plan.height, plan.width
    n, key_head, panel = panel_of_cube(panels)
    begin = kl.cube_position(0) * plan.block
    cube = cube_of(plan, form, g, value_width, dtype)
    key, value = cube.key_heads(n, key_head)
    tile, right = cube_memory(height * plan.pitch, dtype), cube_memory(height * width, dtype)
    held = plan.block // plan.down
    key_sums = kl.registers((held, plan.values), dtype)
    value_sums = kl.registers((held, plan.values), dtype)
    for head in kl.loop_range(key_head * g.group, (key_head + 1) * g.group):
        row_at = (n * g.heads + head) * g.queries
        query = query_rows(g, n, head, form.contiguous[0])
        upstream = upstream_rows(up, row_at, g, value_width)
        start = begin // height * height if form.causal else begin * 0
        for first in kl.loop_range(start, g.queries, height):
            weights, inner = cube.gradients(query, key, value, upstream, up, n, head, first, begin)
            for factors, rows, sums in (
                (weights, upstream, value_sums),
                (inner, query, key_sums),
            ):
                kl.barrier()
                cube.keep(tile, factors)
                cube.fill_rows(right, rows, panel * width, first, height)
                kl.barrier()
                cube.multiply(sums, tile, 1, plan.pitch, right, height)
    key_at = (n * g.key_heads + key_head) * g.keys
    for i in range(held):
        row = begin + plan.row(i)
        for j in range(plan.values):
            column = panel * width + plan.column(j)
            if row < g.keys:
                if column < g.features:
                    made = key_sums[i, j] * g.scale
                    for_key[(key_at + row) * g.features + column] = made.to(for_key.dtype)
                if column < value_width:
                    made = value_sums[i, j]
                    for_value[(key_at + row) * value_width + column] = made.to(for_value.dtype)
