"""The gradients of attention on a CPU: register tiles over blocks of queries and keys.

Requirements: the scores are recomputed once, for the gradients of query, key and value in one pass.
A cube owns a range of keys, so nothing is atomic and every sum has a fixed order. The parts of a
query's gradient, one for each range of keys, are added afterwards (Dao et al., "FlashAttention",
2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    absolute_position,
    constant,
    cube_position,
    fma,
    helper,
    kernel,
    loop_range,
    private,
    registers,
    splat,
)
from calor_kernel.library.attention.cpu_register_tiles import Columns, Rows, along, multiply
from calor_kernel.library.attention.problem import finite, given
from calor_kernel.library.attention.scores import Scores, Seen, score
from calor_kernel.library.math import exp

# Keys of a register tile of the gradients of key and value; a divisor of a vector's lanes.
_DOWN = 4


@kernel
def gradient_tiles(
    upstream: Any,
    delta: Any,
    total: Any,
    key_panels: Any,
    value_panels: Any,
    key_rows: Any,
    for_query: Any,
    for_key: Any,
    for_value: Any,
    block_queries: Any,
    block_keys: Any,
    split: Any,
    split_step: Any,
    value_width: Any,
    key_batch: Any,
    key_head_step: Any,
    key_panel: Any,
    key_row: Any,
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
    packed: bool,
    ragged: bool,
    causal: bool,
) -> None:
    """Compute gradients of ``split`` keys from x on, of key head y of batch z.

    ``key_panels`` and ``value_panels`` are transposed, ``key_rows`` are not; as in
    ``attend_tiles``. ``for_query`` has a piece of ``split_step`` elements for each x.
    """
    g = given(numbers)
    dtype = total.dtype
    width = vectors * lanes
    n, key_head = cube_position(2), cube_position(1)
    start = cube_position(0) * split
    stop = min(start + split, g.keys)
    head_number = n * g.key_heads + key_head
    panel_count = (g.keys + width - 1) // width
    keys_at = head_number * panel_count * g.features * width
    values_at = head_number * panel_count * value_width * width
    columns = Columns(
        key_rows,
        n * key_batch + key_head * key_head_step,
        key_panel,
        feature_vectors * lanes if packed else key_row,
        g.features,
        ragged,
    )
    stride = key_room + lanes
    queries = private(query_room * feature_room, dtype, align=64)
    upward = private(query_room * value_room, dtype, align=64)
    weights = Scores(private(query_room * stride, dtype, align=64), stride, rows, lanes)
    inner = Scores(private(query_room * stride, dtype, align=64), stride, rows, lanes)
    key_sums = private((key_room + lanes) * feature_room, dtype, align=64)
    value_sums = private((key_room + lanes) * value_room, dtype, align=64)
    for begin in loop_range(start, stop, block_keys):
        count = min(stop - begin, block_keys)
        clear(key_sums, count, feature_room, lanes)
        clear(value_sums, count, value_room, lanes)
        for head in loop_range(key_head * g.group, (key_head + 1) * g.group):
            row_at = (n * g.heads + head) * g.queries
            query_rows = Rows(
                g.query,
                n * g.query_strides[0] + head * g.query_strides[1],
                g.query_strides[2],
                g.query_strides[3],
                g.features,
                contiguous,
            )
            upstream_rows = Rows(upstream, row_at * value_width, value_width, 1, value_width, True)
            first = begin // block_queries * block_queries if causal else begin * 0
            for base in loop_range(first, g.queries, block_queries):
                height = min(block_queries, g.queries - base)
                for row in loop_range(0, height, rows):
                    places = [base + min(row + r, height - 1) for r in range(rows)]
                    tile = queries.at(row * feature_room)
                    query_rows.copy(tile, feature_room, places, lanes, g.scale, feature_vectors)
                    up = upward.at(row * value_room)
                    upstream_rows.copy(up, value_room, places, lanes, 1.0, value_vectors)
                    # The keys before the causal limit of a row of the tile.
                    reach = min(count, base + row + rows - begin) if causal else count
                    if reach > 0:
                        mine, along_mine = weights.at(row), inner.at(row)
                        at = keys_at + begin * g.features
                        score(
                            mine, tile, feature_room, key_panels.at(at), g.features, reach, vectors
                        )
                        at = values_at + begin * value_width
                        score(
                            along_mine,
                            up,
                            value_room,
                            value_panels.at(at),
                            value_width,
                            reach,
                            vectors,
                        )
                        seen = Seen(g, n, head, places, begin, reach, kinds, steps, causal)
                        weigh(mine, along_mine, seen, delta, total, row_at)
                        for panel in loop_range(0, g.features, feature_vectors * lanes):
                            acc = registers((rows, feature_vectors), dtype, lanes)
                            memory, starts = along_mine.memory, along_mine.starts
                            columns.multiply(acc, memory, starts, 1, panel, begin, reach)
                            at = cube_position(0) * split_step
                            for r in range(rows):
                                if row + r < height:
                                    add_row(
                                        for_query,
                                        at + (row_at + places[r]) * g.features,
                                        [acc[r, v] for v in range(feature_vectors)],
                                        panel,
                                        g.features,
                                        g.scale,
                                        begin > start,
                                    )
                block = Block(base, begin, height, count, causal)
                gather(value_sums, value_room, value_width, value_vectors, weights, upward, block)
                gather(key_sums, feature_room, g.features, feature_vectors, inner, queries, block)
        row = head_number * g.keys + begin
        write(for_key, row, key_sums, feature_room, g.features, count, lanes)
        write(for_value, row, value_sums, value_room, value_width, count, lanes)


@helper
def clear(sums: Any, count: Any, room: int, lanes: int) -> None:
    """Write zeros to the sums of some keys, up to whole vectors of keys."""
    for i in loop_range(0, (count + lanes - 1) // lanes * lanes * room, lanes):
        sums.store(i, constant(0, sums.dtype, lanes))


@helper
def weigh(weights: Scores, inner: Scores, seen: Seen, delta: Any, total: Any, row_at: Any) -> None:
    """Turn scores into weights, and products with the values into gradients of the scores."""
    rows, lanes = weights.rows, weights.lanes
    shifts = [splat(finite(total[row_at + seen.places[r]]), lanes) for r in range(rows)]
    deltas = [splat(delta[row_at + seen.places[r]], lanes) for r in range(rows)]
    free = seen.clear(lanes)
    for column in loop_range(0, free, lanes):
        for r in range(rows):
            x = exp(weights.load(r, column) - shifts[r])
            weights.store(r, column, x)
            inner.store(r, column, x * (inner.load(r, column) - deltas[r]))
    for column in loop_range(free, seen.count, lanes):
        for r in range(rows):
            x = exp(seen.adjust(weights.load(r, column), r, column) - shifts[r])
            weights.store(r, column, x)
            inner.store(r, column, x * (inner.load(r, column) - deltas[r]))


@helper
def add_row(
    memory: Any, at: Any, values: list[Any], column: Any, width: Any, scale: Any, more: Any
) -> None:
    """Write a part of a row, scaled; add it to the earlier parts if there is ``more`` before."""
    lanes = values[0].width
    for v, value in enumerate(values):
        place = column + v * lanes
        inside = along(place, lanes) < width
        before = memory.load(at + place, lanes, mask=inside & splat(more, lanes))
        memory.store(at + place, fma(value, splat(scale, lanes), before), mask=inside)


@dataclass(frozen=True, slots=True)
class Block:
    """A block: ``height`` queries from ``base`` on, and ``count`` keys from ``begin`` on."""

    base: Any
    begin: Any
    height: Any
    count: Any
    causal: bool

    @helper
    def first(self, key: Any) -> Any:
        """Return the first query of the block that attends to a key of the block."""
        return max(self.begin + key - self.base, 0) if self.causal else key * 0


@helper
def gather(
    sums: Any, room: int, width: Any, vectors: int, left: Scores, right: Any, block: Block
) -> None:
    """Add the products of a block's queries to the sums of each key, by weights or gradients."""
    lanes = left.lanes
    down = min(_DOWN, lanes)
    for key in loop_range(0, block.count, down):
        skip = block.first(key)
        depth = block.height - skip
        if depth > 0:
            for column in loop_range(0, width, vectors * lanes):
                acc = registers((down, vectors), sums.dtype, lanes)
                for r in range(down):
                    for v in range(vectors):
                        acc[r, v] = sums.load((key + r) * room + column + v * lanes, lanes)
                multiply(
                    acc,
                    left.memory,
                    [skip * left.stride + key + r for r in range(down)],
                    left.stride,
                    right,
                    skip * room + column,
                    room,
                    depth,
                    [None] * vectors,
                )
                for r in range(down):
                    for v in range(vectors):
                        sums.store((key + r) * room + column + v * lanes, acc[r, v])


@helper
def write(target: Any, row: Any, sums: Any, room: int, width: Any, count: Any, lanes: int) -> None:
    """Write the sums of some keys in the result's layout."""
    for i in loop_range(count):
        for p in loop_range(0, width, lanes):
            value = sums.load(i * room + p, lanes).to(target.dtype)
            target.store((row + i) * width + p, value, mask=along(p, lanes) < width)


@kernel
def add_parts(
    parts: Any,
    target: Any,
    count: Any,
    features: Any,
    queries: Any,
    number: Any,
    split: Any,
    *,
    width: int,
    share: int,
    causal: bool,
    accumulate: DType,
) -> None:
    """Add the parts of the queries from all ranges of ``split`` keys; ``causal``: visible ones."""
    start = absolute_position() * (width * share)
    for i in loop_range(start, min(start + width * share, count), width):
        places = along(i, width)
        inside = places < count
        sums = constant(0, accumulate, width)
        for part in loop_range(number):
            there = inside
            if causal:
                row = places // features % queries
                there = inside & (row >= part * split)
            sums = sums + parts.load(part * count + i, width, mask=there)
        target.store(i, sums.to(target.dtype), mask=inside)
