"""The gradient of a bias: gradients of scores, summed over the broadcast axes of the bias.

Requirements: a cube holds no more than one tile of scores. The owner of a bias element sums over
all batches and heads in a fixed order. Parts of broadcast rows and keys are added afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    absolute_position,
    barrier,
    constant,
    cube_position,
    helper,
    kernel,
    loop_range,
    private,
    registers,
    select,
    unit_index,
    vreduce,
)
from calor_kernel.library.attention.cpu_gradients import weigh
from calor_kernel.library.attention.cpu_register_tiles import Rows, along
from calor_kernel.library.attention.problem import given
from calor_kernel.library.attention.scores import Scores, Seen, score
from calor_kernel.library.attention.simt import tile_gradient
from calor_kernel.library.attention.simt_tiles import Matrix, common, head_of, team


@dataclass(frozen=True, slots=True)
class Share:
    """A cube's work: heads ``first`` to ``stop`` of batches, and where its part is written.

    ``parts`` has a matrix of ``height`` by ``width`` for each batch and head of the bias.
    """

    batch: tuple[Any, Any]
    heads: tuple[Any, Any]
    at: Any
    width: Any


def share_of(
    number: Any, batch: Any, heads: Any, own_batch: Any, own_heads: Any, height: Any, width: Any
) -> Share:
    """Return the share of a matrix of the bias, which may broadcast over batches or heads."""
    n, head = number // own_heads, number % own_heads
    return Share(
        (select(own_batch == batch, n, 0), select(own_batch == batch, n + 1, batch)),
        (select(own_heads == heads, head, 0), select(own_heads == heads, head + 1, heads)),
        number * height * width,
        width,
    )


@kernel
def bias_gradient_tiles(
    upstream: Any,
    delta: Any,
    total: Any,
    key_panels: Any,
    value_panels: Any,
    parts: Any,
    block_queries: Any,
    block_keys: Any,
    batch: Any,
    own_batch: Any,
    own_heads: Any,
    height: Any,
    width: Any,
    value_width: Any,
    *numbers: Any,
    rows: int,
    lanes: int,
    vectors: int,
    feature_vectors: int,
    value_vectors: int,
    query_room: int,
    key_room: int,
    feature_room: int,
    value_room: int,
    kinds: tuple[str, ...],
    steps: tuple[int, ...],
    contiguous: bool,
    sum_rows: bool,
    sum_keys: bool,
    causal: bool,
) -> None:
    """Compute a block of queries from x and keys from y, of matrix z of the bias.

    ``sum_rows``, ``sum_keys``: the block gives one row, or one column, of the matrix of parts.
    """
    g = given(numbers)
    dtype = total.dtype
    panel = vectors * lanes
    stride = key_room + lanes
    share = share_of(cube_position(2), batch, g.heads, own_batch, own_heads, height, width)
    base, begin = cube_position(0) * block_queries, cube_position(1) * block_keys
    rows_here, count = min(block_queries, g.queries - base), min(block_keys, g.keys - begin)
    padded = (count + lanes - 1) // lanes * lanes
    query_tile = private(rows * feature_room, dtype, align=64)
    up = private(rows * value_room, dtype, align=64)
    weights = Scores(private(rows * stride, dtype, align=64), stride, rows, lanes)
    inner = Scores(private(rows * stride, dtype, align=64), stride, rows, lanes)
    sums = private(query_room * stride, dtype, align=64)
    for r in loop_range((rows_here + rows - 1) // rows * rows):
        for column in loop_range(0, padded, lanes):
            sums.store(r * stride + column, constant(0, dtype, lanes))
    panel_count = (g.keys + panel - 1) // panel
    for n in loop_range(*share.batch):
        for head in loop_range(*share.heads):
            row_at = (n * g.heads + head) * g.queries
            keys = (n * g.key_heads + head // g.group) * panel_count * panel + begin
            query = Rows(
                g.query,
                n * g.query_strides[0] + head * g.query_strides[1],
                g.query_strides[2],
                g.query_strides[3],
                g.features,
                contiguous,
            )
            above = Rows(upstream, row_at * value_width, value_width, 1, value_width, True)
            for row in loop_range(0, rows_here, rows):
                places = [base + min(row + r, rows_here - 1) for r in range(rows)]
                query.copy(query_tile, feature_room, places, lanes, g.scale)
                above.copy(up, value_room, places, lanes, 1.0)
                at = keys * g.features
                score(
                    weights, query_tile, feature_room, key_panels.at(at), g.features, count, vectors
                )
                at = keys * value_width
                score(inner, up, value_room, value_panels.at(at), value_width, count, vectors)
                seen = Seen(g, n, head, places, begin, count, kinds, steps, causal)
                weigh(weights, inner, seen, delta, total, row_at)
                for column in loop_range(0, count, lanes):
                    for r in range(rows):
                        at = (row + r) * stride + column
                        sums.store(at, sums.load(at, lanes) + inner.load(r, column))
    if sum_rows:
        for column in loop_range(0, padded, lanes):
            value = constant(0, dtype, lanes)
            for r in loop_range(rows_here):
                value = value + sums.load(r * stride + column, lanes)
            sums.store(column, value)
    first_row = cube_position(0) if sum_rows else base
    for r in loop_range(1 if sum_rows else rows_here):
        at = share.at + (first_row + r) * share.width
        if sum_keys:
            value = constant(0, dtype, lanes)
            for column in loop_range(0, padded, lanes):
                value = value + sums.load(r * stride + column, lanes)
            parts[at + cube_position(1)] = vreduce("add", value).to(parts.dtype)
        else:
            for column in loop_range(0, count, lanes):
                inside = along(column, lanes) < count
                value = sums.load(r * stride + column, lanes).to(parts.dtype)
                parts.store(at + begin + column, value, mask=inside)


@kernel
def bias_gradient_team(
    upstream: Any,
    delta: Any,
    total: Any,
    parts: Any,
    batch: Any,
    own_batch: Any,
    own_heads: Any,
    height: Any,
    width: Any,
    value_width: Any,
    *numbers: Any,
    across: int,
    down: int,
    depth: int,
    rows: int,
    keys: int,
    along: tuple[bool, bool, bool],
    kinds: tuple[str, ...],
    sum_rows: bool,
    sum_keys: bool,
    causal: bool,
) -> None:
    """Compute a tile of queries from x and keys from y, of matrix z of the bias."""
    g = given(numbers)
    dtype = total.dtype
    tall, block = rows * down, keys * across
    pitch = block + 1
    share = share_of(cube_position(2), batch, g.heads, own_batch, own_heads, height, width)
    first, begin = cube_position(0) * tall, cube_position(1) * block
    units = team(across, down, depth, dtype, rows, keys)
    sums = registers((rows, keys), dtype)
    for n in loop_range(*share.batch):
        for head in loop_range(*share.heads):
            row_at = (n * g.heads + head) * g.queries
            query = head_of(g.query, g.query_strides, n, head, g.queries, g.features, along[0])
            key_head = head // g.group
            key = head_of(g.key, g.key_strides, n, key_head, g.keys, g.features, along[1])
            value = head_of(g.value, g.value_strides, n, key_head, g.keys, value_width, along[2])
            up = Matrix(
                upstream, row_at * value_width, g.queries, value_width, value_width, 1, True
            )
            _, inner = tile_gradient(
                units, g, query, key, value, up, delta, total, kinds, causal, n, head, first,
                begin, (rows, keys),
            )  # fmt: skip
            for i in range(rows):
                for j in range(keys):
                    sums[i, j] = sums[i, j] + inner[i, j]
    if sum_rows or sum_keys:
        tile = common(tall * pitch, dtype)
        for i in range(rows):
            for j in range(keys):
                tile[units.row(i) * pitch + units.column(j)] = sums[i, j]
        barrier()
        unit = unit_index()
        if sum_rows:
            if unit < block:
                tile[unit] = line(tile, unit, pitch, tall)
            barrier()
        at = share.at + (cube_position(0) if sum_rows else first) * share.width
        if sum_keys:
            if (unit < (1 if sum_rows else tall)) and (first + unit < g.queries):
                made = line(tile, unit * pitch, 1, block)
                parts[at + unit * share.width + cube_position(1)] = made.to(parts.dtype)
        elif (unit < block) and (begin + unit < g.keys):
            parts[at + begin + unit] = tile[unit].to(parts.dtype)
    else:
        for i in range(rows):
            for j in range(keys):
                row, column = first + units.row(i), begin + units.column(j)
                if (row < g.queries) and (column < g.keys):
                    parts[share.at + row * share.width + column] = sums[i, j].to(parts.dtype)


@helper
def line(tile: Any, start: Any, step: int, count: int) -> Any:
    """Return the sum of some elements of a tile."""
    value = constant(0, tile.dtype)
    for i in loop_range(count):
        value = value + tile[start + i * step]
    return value


@kernel
def sum_parts(
    parts: Any,
    target: Any,
    count: Any,
    height: Any,
    width: Any,
    own_height: Any,
    own_width: Any,
    *,
    accumulate: DType,
) -> None:
    """Sum the parts of each element of the bias, one element a unit."""
    i = absolute_position()
    if i < count:
        column, rest = i % own_width, i // own_width
        row, matrix = rest % own_height, rest // own_height
        value = constant(0, accumulate)
        stop_row = select(own_height == height, row + 1, height)
        stop_column = select(own_width == width, column + 1, width)
        for r in loop_range(row, stop_row):
            for c in loop_range(column, stop_column):
                value = value + parts[(matrix * height + r) * width + c]
        target[i] = value.to(target.dtype)
