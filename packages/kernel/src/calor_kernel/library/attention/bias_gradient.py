"""The gradient of a bias: gradients of scores, summed over the broadcast axes of the bias.

Requirements: a cube holds no more than one tile of scores. The owner of a bias element sums over
all batches and heads in a fixed order. Parts of broadcast rows and keys are added afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final, Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice
from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.contract.work import Output, Request
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.attention.cpu import weigh
from calor_kernel.library.attention.cpu_tiles import (
    Tiles,
    VisibleKeys,
    along,
    copy_rows,
    score,
    scores_of,
)
from calor_kernel.library.attention.operands import (
    KernelOperands,
    ScoreForm,
    Upstream,
    least_bytes,
    operands_of,
    query_rows,
    upstream_of,
    upstream_rows,
)
from calor_kernel.library.attention.problem import Attention
from calor_kernel.library.attention.simt_cube import SimtPlan, cube_of
from calor_kernel.library.steps import Steps

N = TypeVar("N")
# Cubes of a core that shares of the batches fill, the least batches that are shared, since another
# launch adds the shares, and most shares.
_CUBES: Final = 2
_LEAST: Final = 8
_MOST: Final = 64


@dataclass(frozen=True, slots=True)
class BiasShape(Generic[N]):
    """The batch of the scores, and the shape of the parts of the bias.

    ``parts`` has a matrix of ``height`` by ``width`` for each batch and head of the bias, and as
    many for each of ``shares`` of the batches, which cubes of their own add; None for one share.
    """

    batch: kl.SizeOf[N]
    own_batch: kl.SizeOf[N]
    own_heads: kl.SizeOf[N]
    height: kl.SizeOf[N]
    width: kl.SizeOf[N]
    shares: kl.SizeOf[N] | None = None


@choice(low=1)
def shares_of(tiles: int, batches: int, cores: int) -> int:
    """Return the shares of the batches of tiles that leave cores idle.

    >>> shares_of(54, 64, 132), shares_of(54, 6, 132), shares_of(300, 64, 132)
    (5, 1, 1)
    >>> shares_of(2, 64, 132), shares_of(40, 9, 132)
    (64, 5)
    """
    if tiles >= _CUBES * cores or batches < _LEAST:
        return 1
    each = -(-batches // min(-(-_CUBES * cores // max(tiles, 1)), batches, _MOST))
    return -(-batches // each)


@dataclass(frozen=True, slots=True)
class BiasParts:
    """The gradient of a bias of a shape, with 1 for each axis that broadcasts over the scores."""

    problem: Attention
    shape: tuple[int, ...]
    dtype: DType

    @property
    def summed(self) -> tuple[bool, bool]:
        """Whether all queries share a row of the bias, and all keys a column."""
        return self.shape[2] != self.problem.queries, self.shape[3] != self.problem.keys

    def shares(self, tiles: int, cores: int) -> int:
        """Return how many cubes share the batches of each of so many tiles."""
        return shares_of(tiles, self.problem.batch, cores) if self.shape[0] == 1 else 1

    def parts(self, height: int, width: int, shares: int) -> BiasShape[int]:
        """Return the shape of parts of ``height`` by ``width`` for each share of the batches."""
        batch, (batches, heads) = self.problem.batch, self.shape[:2]
        several = shares if shares > 1 else None
        return BiasShape(batch, batches, heads, height, width, several)

    def add(
        self,
        steps: Steps,
        kernel: KernelFunction,
        block: tuple[int, int],
        grid: Grid,
        tile: str,
        request: Request,
        **own: object,
    ) -> None:
        """Add the launch of a kernel for each block of queries and keys, and what follows.

        ``grid``: that of one block; there is such a grid for each block of each matrix.
        """
        p, matrices = self.problem, self.shape[0] * self.shape[1]
        down, across = -(-p.queries // block[0]), -(-p.keys // block[1])
        sum_rows, sum_keys = self.summed
        height, width = down if sum_rows else p.queries, across if sum_keys else p.keys
        result = Bound(Output(0), self.dtype)
        shares = self.shares(down * across * matrices, request.info.cores)
        whole = (height, width) == self.shape[2:] and shares == 1
        added = shares * matrices * height * width
        parts = result if whole else steps.room(added, p.accumulate)
        flops = 2 * p.pairs * (p.features + p.values)
        steps.add(
            kernel,
            replace(grid, cubes=(down, across, matrices * shares)),
            Effort(f"attention bias gradient {tile}", flops, least_bytes(p)),
            up=upstream_of(request),
            parts=parts,
            shape=self.parts(height, width, shares),
            value_width=p.values,
            g=operands_of(p),
            summed=self.summed,
            **own,
        )
        if not whole:
            count, units = prod(self.shape), min(request.info.max_units, 64)
            steps.add(
                sum_parts,
                Grid.line(-(-count // units), units),
                Effort("attention bias gradient sum", added, added * p.accumulate.itemsize),
                parts=parts,
                target=result,
                count=count,
                shares=shares,
                height=height,
                width=width,
                own_height=self.shape[2],
                own_width=self.shape[3],
                accumulate=p.accumulate,
            )


Span = tuple[kl.Number, kl.Number]


def share_of(
    position: kl.Number, shape: BiasShape[kl.Number], heads: kl.Number
) -> tuple[Span, Span, kl.Number]:
    """Return the batches and heads that share a matrix of the bias, and where its part begins.

    ``position``: the number of the matrix, after those of the shares before.
    """
    number, share = position, None
    if shape.shares is not None:
        matrices = shape.own_batch * shape.own_heads
        share = position // matrices
        number = position - share * matrices
    n, head = number // shape.own_heads, number % shape.own_heads

    def span(own: kl.Number, count: kl.Number, place: kl.Number) -> Span:
        return kl.select(own == count, place, 0), kl.select(own == count, place + 1, count)

    batches, members = span(shape.own_batch, shape.batch, n), span(shape.own_heads, heads, head)
    if share is not None and shape.shares is not None:
        each = (shape.batch + shape.shares - 1) // shape.shares
        batches = share * each, kl.min(shape.batch, (share + 1) * each)
    return batches, members, position * shape.height * shape.width


@kl.kernel
def bias_gradient_cpu(
    up: Upstream[kl.Pointer],
    key_panels: kl.In,
    value_panels: kl.In,
    parts: kl.Out,
    block_queries: kl.Size,
    block_keys: kl.Size,
    shape: BiasShape[kl.Number],
    value_width: kl.Size,
    g: KernelOperands,
    *,
    tiles: Tiles,
    form: ScoreForm,
    summed: tuple[bool, bool],
) -> None:
    """Compute a block of queries from x and keys from y, of matrix z of the bias.

    ``summed``: whether the block gives one row, and one column, of the matrix of parts.
    """
    dtype, rows, lanes = up.total.dtype, tiles.rows, tiles.lanes
    sum_rows, sum_keys = summed
    batches, heads, part_at = share_of(kl.cube_position(2), shape, g.heads)
    base, begin = kl.cube_position(0) * block_queries, kl.cube_position(1) * block_keys
    rows_here, count = kl.min(block_queries, g.queries - base), kl.min(block_keys, g.keys - begin)
    padded = (count + lanes - 1) // lanes * lanes
    query_tile = kl.private(rows * tiles.feature_room, dtype, align=64)
    above = kl.private(rows * tiles.value_room, dtype, align=64)
    weights, inner = (scores_of(tiles, rows, dtype) for _ in range(2))
    sums = scores_of(tiles, tiles.query_room, dtype)
    for r in kl.loop_range((rows_here + rows - 1) // rows * rows):
        for column in kl.loop_range(0, padded, lanes):
            sums.memory.store(r * sums.stride + column, kl.constant(0, dtype, lanes))
    panel_count = (g.keys + tiles.panel - 1) // tiles.panel
    for n in kl.loop_range(*batches):
        for head in kl.loop_range(*heads):
            row_at = (n * g.heads + head) * g.queries
            keys = (n * g.key_heads + head // g.group) * panel_count * tiles.panel + begin
            query = query_rows(g, n, head, form.contiguous[0])
            upstream = upstream_rows(up, row_at, g, value_width)
            for row in kl.loop_range(0, rows_here, rows):
                places = [base + kl.min(row + r, rows_here - 1) for r in range(rows)]
                copy_rows(query, query_tile, tiles.feature_room, places, lanes, g.scale)
                copy_rows(upstream, above, tiles.value_room, places, lanes)
                for made, tile, room, panels, width in (
                    (weights, query_tile, tiles.feature_room, key_panels, g.features),
                    (inner, above, tiles.value_room, value_panels, value_width),
                ):
                    at = keys * width
                    score(made, tile, room, panels.at(at), width, count, tiles.vectors)
                weigh(
                    weights, inner, VisibleKeys(g, form, n, head, places, begin, count), up, row_at
                )
                for column in kl.loop_range(0, count, lanes):
                    for r in range(rows):
                        at = (row + r) * sums.stride + column
                        value = sums.memory.load(at, lanes) + inner.load(r, column)
                        sums.memory.store(at, value)
    if sum_rows:
        for column in kl.loop_range(0, padded, lanes):
            value = kl.constant(0, dtype, lanes)
            for r in kl.loop_range(rows_here):
                value = value + sums.load(r, column)
            sums.memory.store(column, value)
    first_row = kl.cube_position(0) if sum_rows else base
    for r in kl.loop_range(1 if sum_rows else rows_here):
        at = part_at + (first_row + r) * shape.width
        if sum_keys:
            value = kl.constant(0, dtype, lanes)
            for column in kl.loop_range(0, padded, lanes):
                value = value + sums.load(r, column)
            parts[at + kl.cube_position(1)] = kl.vreduce("add", value).to(parts.dtype)
        else:
            for column in kl.loop_range(0, count, lanes):
                inside = along(column, lanes) < count
                value = sums.load(r, column).to(parts.dtype)
                parts.store(at + begin + column, value, mask=inside)


@kl.kernel
def bias_gradient_simt(
    up: Upstream[kl.Pointer],
    parts: kl.Out,
    shape: BiasShape[kl.Number],
    value_width: kl.Size,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
    summed: tuple[bool, bool],
) -> None:
    """Compute a tile of queries from x and keys from y, of matrix z of the bias."""
    dtype, tall, block, pitch = up.total.dtype, plan.height, plan.block, plan.pitch
    sum_rows, sum_keys = summed
    batches, heads, part_at = share_of(kl.cube_position(2), shape, g.heads)
    first, begin = kl.cube_position(0) * tall, kl.cube_position(1) * block
    cube = cube_of(plan, form, g, value_width, dtype)
    sums = kl.registers((plan.rows, plan.keys), dtype)
    for n in kl.loop_range(*batches):
        for head in kl.loop_range(*heads):
            row_at = (n * g.heads + head) * g.queries
            query, key, value = cube.heads(n, head)
            upstream = upstream_rows(up, row_at, g, value_width)
            _, inner = cube.gradients(query, key, value, upstream, up, n, head, first, begin)
            for i in range(plan.rows):
                for j in range(plan.keys):
                    sums[i, j] = sums[i, j] + inner[i, j]
    if sum_rows or sum_keys:
        tile = cube.scores
        kl.barrier()
        cube.keep(sums)
        kl.barrier()
        unit = kl.unit_index()
        if sum_rows:
            if unit < block:
                tile[unit] = sum_of(tile, unit, pitch, tall)
            kl.barrier()
        at = part_at + (kl.cube_position(0) if sum_rows else first) * shape.width
        if sum_keys:
            if (unit < (1 if sum_rows else tall)) and (first + unit < g.queries):
                made = sum_of(tile, unit * pitch, 1, block)
                parts[at + unit * shape.width + kl.cube_position(1)] = made.to(parts.dtype)
        elif (unit < block) and (begin + unit < g.keys):
            parts[at + begin + unit] = tile[unit].to(parts.dtype)
    else:
        for i in range(plan.rows):
            for j in range(plan.keys):
                row, column = first + plan.row(i), begin + plan.column(j)
                if (row < g.queries) and (column < g.keys):
                    parts[part_at + row * shape.width + column] = sums[i, j].to(parts.dtype)


@kl.helper
def sum_of(tile: kl.Pointer, start: kl.Index, step: int, count: int) -> kl.Number:
    """Return the sum of some elements of a tile."""
    value = kl.constant(0, tile.dtype)
    for i in kl.loop_range(count):
        value = value + tile[start + i * step]
    return value


@kl.kernel
def sum_parts(
    parts: kl.In,
    target: kl.Out,
    count: kl.Size,
    shares: kl.Size,
    height: kl.Size,
    width: kl.Size,
    own_height: kl.Size,
    own_width: kl.Size,
    *,
    accumulate: DType,
) -> None:
    """Sum the parts of each element of the bias, in all shares, one element a unit."""
    i = kl.absolute_position()
    if i < count:
        column, rest = i % own_width, i // own_width
        row, matrix = rest % own_height, rest // own_height
        value = kl.constant(0, accumulate)
        stop_row = kl.select(own_height == height, row + 1, height)
        stop_column = kl.select(own_width == width, column + 1, width)
        matrices = count // (own_height * own_width)
        for share in kl.loop_range(shares):
            place = (share * matrices + matrix) * height
            for r in kl.loop_range(row, stop_row):
                for c in kl.loop_range(column, stop_column):
                    value = value + parts[(place + r) * width + c]
        target[i] = value.to(target.dtype)
