"""Attention and its gradients on a CPU: register tiles over blocks of queries and keys.

Requirements: the scores of a few queries and a block of keys stay in the first-level cache, and the
matrix of scores is never stored. An online softmax follows the keys, which are transposed and
packed in panels, as in the library's matrix products. The gradients recompute the scores once, for
query, key and value in one pass. A cube owns a range of keys, so nothing is atomic and every sum
has a fixed order. The parts of a query's gradient, one for each range of keys, are added
afterwards. (Dao et al., "FlashAttention", 2022; Goto and van de Geijn, 2008.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.attention.cpu_tiles import (
    Columns,
    Left,
    Scores,
    Tiles,
    VisibleKeys,
    along,
    copy_rows,
    multiply,
    score,
    score_rows,
    scores_of,
    weight,
)
from calor_kernel.library.attention.operands import (
    KernelOperands,
    ScoreForm,
    Upstream,
    finite,
    key_rows,
    query_rows,
    upstream_rows,
    value_rows,
)
from calor_kernel.library.attention.problem import dropped
from calor_kernel.library.math import exp, log

N = TypeVar("N")
# Keys of a register tile of the gradients of key and value; a divisor of a vector's lanes.
_DOWN = 4


@dataclass(frozen=True, slots=True)
class PanelSteps(Generic[N]):
    """The strides of batch, head, panel and row in an operand with vectors along its rows."""

    batch: kl.StrideOf[N]
    head: kl.StrideOf[N]
    panel: kl.StrideOf[N]
    row: kl.StrideOf[N]


def columns_of(
    memory: kl.Pointer,
    steps: PanelSteps[kl.Number],
    n: kl.Number,
    head: kl.Number,
    width: kl.Number,
    span: int,
    layout: tuple[bool, bool],
) -> Columns:
    """Return a head's rows; ``layout``: whether they are in panels of ``span``, and ragged."""
    packed, ragged = layout
    at = n * steps.batch + head * steps.head
    return Columns(memory, at, steps.panel, span if packed else steps.row, width, ragged)


@kl.kernel
def attend_cpu(
    panels: kl.In,
    values: kl.In,
    out: kl.Out,
    total: kl.Out,
    rest: kl.Out | None,
    block_rows: kl.Size,
    block: kl.Size,
    value_width: kl.Size,
    value_steps: PanelSteps[kl.Number],
    g: KernelOperands,
    *,
    tiles: Tiles,
    form: ScoreForm,
    layout: tuple[bool, bool],
    few: bool,
) -> None:
    """Compute ``block_rows`` rows from x on, of query head y of batch z.

    ``panels``: the keys transposed, in panels of ``tiles.panel``. ``values`` has rows and panels by
    ``value_steps``. ``few``: with few queries keys are read in place, and there are no panels.
    """
    dtype, rows, lanes, width = total.dtype, tiles.rows, tiles.lanes, tiles.panel
    head, n = kl.cube_position(1), kl.cube_position(2)
    key_head = head // g.group
    panel_count = (g.keys + width - 1) // width
    key_at = (n * g.key_heads + key_head) * panel_count * g.features * width
    keys = key_rows(g, n, key_head)
    span = tiles.value_vectors * lanes
    columns = columns_of(values, value_steps, n, key_head, value_width, span, layout)
    first = kl.cube_position(0) * block_rows
    last = kl.min(first + block_rows, g.queries)
    row_at = (n * g.heads + head) * g.queries
    room = tiles.feature_room
    queries = kl.private(tiles.query_room * room, dtype, align=64)
    scores = scores_of(tiles, rows, dtype)
    sums = kl.private(tiles.query_room * tiles.value_room, dtype, align=64)
    state = State(
        kl.private(tiles.query_room, dtype, align=64),
        kl.private(tiles.query_room * lanes, dtype, align=64),
        lanes,
    )
    source = query_rows(g, n, head, form.contiguous[0])
    for row in kl.loop_range(first, last, rows):
        local = row - first
        places = [kl.min(row + r, last - 1) for r in range(rows)]
        tile = queries.at(local * room)
        copy_rows(source, tile, room, places, lanes, g.scale, tiles.feature_vectors)
        state.begin(local, rows)
    for begin in kl.loop_range(0, g.keys, block):
        for row in kl.loop_range(first, last, rows):
            end = kl.min(g.keys, row + rows) if form.causal else g.keys
            count = kl.min(end - begin, block)
            if count > 0:
                local = row - first
                tile = queries.at(local * room)
                if few:
                    score_rows(scores, tile, room, keys, begin, count)
                else:
                    at = key_at + begin * g.features
                    score(scores, tile, room, panels.at(at), g.features, count, tiles.vectors)
                places = [kl.min(row + r, last - 1) for r in range(rows)]
                seen = VisibleKeys(g, form, n, head, places, begin, count)
                factors = softmax_block(scores, state, local, seen)
                for panel in kl.loop_range(0, value_width, span):
                    acc = kl.registers((rows, tiles.value_vectors), dtype, lanes)
                    columns.multiply(acc, scores.left, panel, begin, count)
                    for r in range(rows):
                        for v in range(tiles.value_vectors):
                            at = (local + r) * tiles.value_room + panel + v * lanes
                            made = acc[r, v]
                            if begin > 0:
                                made = kl.fma(
                                    sums.load(at, lanes), kl.splat(factors[r], lanes), made
                                )
                            sums.store(at, made)
    for row in kl.loop_range(first, last):
        local, at = row - first, row_at + row
        power = kl.vreduce("add", state.powers.load(local * lanes, lanes))
        under = 1.0 / kl.select(power > 0.0, power, 1.0)
        total[at] = finite(state.largest[local]) + log(power)
        for p in kl.loop_range(0, value_width, lanes):
            inside = along(p, lanes) < value_width
            # Without keys there are no sums.
            made = sums.load(
                local * tiles.value_room + p, lanes, mask=inside & kl.splat(g.keys > 0, lanes)
            )
            value = made * under
            store_part(out.at(at * value_width), p, value.to(out.dtype), value_width)
            if rest is not None:
                store_part(rest.at(at * value_width), p, dropped(value, out.dtype), value_width)


@kl.helper
def store_part(row: kl.Pointer, column: kl.Number, value: kl.Number, width: kl.Number) -> None:
    """Write a vector of a row of ``width`` elements; only the last one may need a mask.

    Without lanes of AVX-512, processors take long for a store of selected lanes.
    """
    if column + value.width <= width:
        row.store(column, value)
    else:
        row.store(column, value, mask=along(column, value.width) < width)


@dataclass(frozen=True, slots=True)
class State:
    """The online softmax of each row: its maximum, and its sum of weights in lanes."""

    largest: kl.Pointer
    powers: kl.Pointer
    lanes: int

    def begin(self, row: kl.Number, rows: int) -> None:
        """Start some rows: no key has been read yet."""
        dtype = self.largest.dtype
        for r in range(rows):
            self.largest[row + r] = kl.constant(-math.inf, dtype)
            self.powers.store((row + r) * self.lanes, kl.constant(0, dtype, self.lanes))


@kl.helper
def softmax_block(
    scores: Scores, state: State, local: kl.Number, seen: VisibleKeys
) -> list[kl.Number]:
    """Turn a block of scores into weights, and return the correction factors of earlier sums.

    The state of the rows from ``local`` on is updated.
    """
    rows, lanes, dtype = scores.rows, scores.lanes, scores.memory.dtype
    tops = kl.registers((rows,), dtype, lanes, fill=-math.inf)
    clear = seen.clear(lanes)
    for column in kl.loop_range(0, clear, lanes):
        for r in range(rows):
            x = scores.load(r, column)
            tops[r] = kl.select(x > tops[r], x, tops[r])
    for column in kl.loop_range(clear, seen.count, lanes):
        for r in range(rows):
            x = seen.adjust(scores.load(r, column), r, column)
            scores.store(r, column, x)
            tops[r] = kl.select(x > tops[r], x, tops[r])
    factors, shifts = [], []
    powers = kl.registers((rows,), dtype, lanes)
    for r in range(rows):
        top, before = kl.vreduce("max", tops[r]), state.largest[local + r]
        top = kl.select(top > before, top, before)
        shift = finite(top)
        factor = weight(before - shift)
        powers[r] = state.powers.load((local + r) * lanes, lanes) * factor
        state.largest[local + r] = top
        factors.append(factor)
        shifts.append(kl.splat(shift, lanes))
    for column in kl.loop_range(0, seen.count, lanes):
        for r in range(rows):
            x = weight(scores.load(r, column) - shifts[r])
            powers[r] = powers[r] + x
            scores.store(r, column, x)
    for r in range(rows):
        state.powers.store((local + r) * lanes, powers[r])
    return factors


@kl.kernel
def gradient_cpu(
    up: Upstream[kl.Pointer],
    key_panels: kl.In,
    value_panels: kl.In,
    key_columns: kl.In,
    for_query: kl.InOut,
    for_key: kl.Out,
    for_value: kl.Out,
    block_queries: kl.Size,
    block_keys: kl.Size,
    split: kl.Size,
    split_step: kl.Size,
    value_width: kl.Size,
    key_steps: PanelSteps[kl.Number],
    g: KernelOperands,
    *,
    tiles: Tiles,
    form: ScoreForm,
    layout: tuple[bool, bool],
    few: bool = False,
    once: bool = False,
) -> None:
    """Compute gradients of ``split`` keys from x on, of key head y of batch z.

    ``key_panels`` and ``value_panels`` are transposed, ``key_columns`` are not; as in
    ``attend_cpu``. ``for_query`` has a piece of ``split_step`` elements for each x. ``few``: with
    few queries keys and values are read in place, and there are no panels. ``once``: all queries
    of a key are in one block, so that its gradients are written as they are computed.
    """
    dtype, rows, lanes = up.total.dtype, tiles.rows, tiles.lanes
    feature_room, value_room = tiles.feature_room, tiles.value_room
    high, deep = tiles.feature_vectors, tiles.value_vectors
    n, key_head = kl.cube_position(2), kl.cube_position(1)
    start = kl.cube_position(0) * split
    stop = kl.min(start + split, g.keys)
    head_number = n * g.key_heads + key_head
    panel_count = (g.keys + tiles.panel - 1) // tiles.panel
    keys_at = head_number * panel_count * g.features * tiles.panel
    values_at = head_number * panel_count * value_width * tiles.panel
    span = high * lanes
    columns = columns_of(key_columns, key_steps, n, key_head, g.features, span, layout)
    queries = kl.private(tiles.query_room * feature_room, dtype, align=64)
    upward = kl.private(tiles.query_room * value_room, dtype, align=64)
    weights, inner = (scores_of(tiles, tiles.query_room, dtype) for _ in range(2))
    keys, values = key_rows(g, n, key_head), value_rows(g, n, key_head, value_width)
    kept = 0 if once else tiles.key_room + lanes
    key_sums = kl.private(max(kept * feature_room, 1), dtype, align=64)
    value_sums = kl.private(max(kept * value_room, 1), dtype, align=64)
    for begin in kl.loop_range(start, stop, block_keys):
        count = kl.min(stop - begin, block_keys)
        for sums, room in () if once else ((key_sums, feature_room), (value_sums, value_room)):
            # Zeros, up to whole vectors of keys.
            for i in kl.loop_range(0, (count + lanes - 1) // lanes * lanes * room, lanes):
                sums.store(i, kl.constant(0, dtype, lanes))
        for head in kl.loop_range(key_head * g.group, (key_head + 1) * g.group):
            row_at = (n * g.heads + head) * g.queries
            source = query_rows(g, n, head, form.contiguous[0])
            upstream = upstream_rows(up, row_at, g, value_width)
            first = begin // block_queries * block_queries if form.causal else begin * 0
            for base in kl.loop_range(first, g.queries, block_queries):
                height = kl.min(block_queries, g.queries - base)
                for row in kl.loop_range(0, height, rows):
                    places = [base + kl.min(row + r, height - 1) for r in range(rows)]
                    tile = queries.at(row * feature_room)
                    copy_rows(source, tile, feature_room, places, lanes, g.scale, high)
                    above = upward.at(row * value_room)
                    copy_rows(upstream, above, value_room, places, lanes, 1.0, deep)
                    # The keys before the causal limit of a row of the tile.
                    reach = kl.min(count, base + row + rows - begin) if form.causal else count
                    if reach > 0:
                        mine, slopes = weights.at(row), inner.at(row)
                        if few:
                            score_rows(mine, tile, feature_room, keys, begin, reach)
                            score_rows(slopes, above, value_room, values, begin, reach)
                        else:
                            at = keys_at + begin * g.features
                            part, width = key_panels.at(at), g.features
                            score(mine, tile, feature_room, part, width, reach, tiles.vectors)
                            at = values_at + begin * value_width
                            part, width = value_panels.at(at), value_width
                            score(slopes, above, value_room, part, width, reach, tiles.vectors)
                        seen = VisibleKeys(g, form, n, head, places, begin, reach)
                        weigh(mine, slopes, seen, up, row_at)
                        for panel in kl.loop_range(0, g.features, span):
                            acc = kl.registers((rows, high), dtype, lanes)
                            columns.multiply(acc, slopes.left, panel, begin, reach)
                            at = kl.cube_position(0) * split_step
                            for r in range(rows):
                                if row + r < height:
                                    to = for_query.at(at + (row_at + places[r]) * g.features)
                                    made = [acc[r, v] for v in range(high)]
                                    add_row(to, made, panel, g.features, g.scale, begin > start)
                if once:
                    row, shape = head_number * g.keys + begin, (height, count)
                    to = for_value.at(row * value_width)
                    write_keys(to, value_width, deep, weights, upward, value_room, shape)
                    to = for_key.at(row * g.features)
                    write_keys(to, g.features, high, inner, queries, feature_room, shape)
                else:
                    block = (base, begin, height, count), form.causal
                    gather(value_sums, value_room, value_width, deep, weights, upward, *block)
                    gather(key_sums, feature_room, g.features, high, inner, queries, *block)
        row = head_number * g.keys + begin
        results = (
            (for_key, key_sums, feature_room, g.features),
            (for_value, value_sums, value_room, value_width),
        )
        for target, sums, room, width in () if once else results:
            for i in kl.loop_range(count):
                for p in kl.loop_range(0, width, lanes):
                    value = sums.load(i * room + p, lanes).to(target.dtype)
                    store_part(target.at((row + i) * width), p, value, width)


@kl.helper
def weigh(
    weights: Scores, inner: Scores, seen: VisibleKeys, up: Upstream[kl.Pointer], row_at: kl.Number
) -> None:
    """Turn scores into weights, and products with the values into gradients of the scores."""
    rows, lanes = weights.rows, weights.lanes
    shifts = [kl.splat(finite(up.total[row_at + seen.places[r]]), lanes) for r in range(rows)]
    deltas = [kl.splat(up.delta[row_at + seen.places[r]], lanes) for r in range(rows)]
    free = seen.clear(lanes)
    for begin, end in ((0, free), (free, seen.count)):
        for column in kl.loop_range(begin, end, lanes):
            for r in range(rows):
                x = weights.load(r, column)
                if begin is free:
                    x = seen.adjust(x, r, column)
                x = exp(x - shifts[r])
                weights.store(r, column, x)
                inner.store(r, column, x * (inner.load(r, column) - deltas[r]))


@kl.helper
def add_row(
    to: kl.Pointer,
    values: Sequence[kl.Number],
    column: kl.Number,
    width: kl.Number,
    scale: kl.Number,
    more: kl.Mask,
) -> None:
    """Write a part of a row, scaled; add it to the earlier parts if there is ``more`` before."""
    lanes = values[0].width
    for v, value in enumerate(values):
        place = column + v * lanes
        inside = along(place, lanes) < width
        before = to.load(place, lanes, mask=inside & kl.splat(more, lanes))
        store_part(to, place, kl.fma(value, kl.splat(scale, lanes), before), width)


@kl.helper
def gather(
    sums: kl.Pointer, room: int, width: kl.Index, vectors: int, left: Scores, right: kl.Pointer,
    block: tuple[kl.Number, kl.Number, kl.Number, kl.Number], causal: bool,
) -> None:  # fmt: skip
    """Add the products of a block's queries to the sums of each key, by weights or gradients.

    ``block``: its first query and first key, and the numbers of queries and keys.
    """
    base, begin, height, count = block
    lanes = left.lanes
    down = kl.min(_DOWN, lanes)
    for key in kl.loop_range(0, count, down):
        # The first query of the block that attends to the key.
        skip = kl.max(begin + key - base, 0) if causal else key * 0
        depth = height - skip
        if depth > 0:
            for column in kl.loop_range(0, width, vectors * lanes):
                acc = kl.registers((down, vectors), sums.dtype, lanes)
                for r in range(down):
                    for v in range(vectors):
                        acc[r, v] = sums.load((key + r) * room + column + v * lanes, lanes)
                starts = [skip * left.stride + key + r for r in range(down)]
                by_key = Left(left.memory, starts, left.unroll, left.stride)
                multiply(acc, by_key, right, skip * room + column, room, depth)
                for r in range(down):
                    for v in range(vectors):
                        sums.store((key + r) * room + column + v * lanes, acc[r, v])


@kl.helper
def write_keys(
    target: kl.Pointer, width: kl.Number, vectors: int, left: Scores, right: kl.Pointer, room: int,
    shape: tuple[kl.Number, kl.Number],
) -> None:  # fmt: skip
    """Write the products of all queries with each key of a block, by weights or gradients.

    ``shape``: the numbers of queries and keys.
    """
    (height, count), lanes = shape, left.lanes
    down = kl.min(_DOWN, lanes)
    for key in kl.loop_range(0, count, down):
        for column in kl.loop_range(0, width, vectors * lanes):
            acc = kl.registers((down, vectors), left.memory.dtype, lanes)
            starts = [key + r for r in range(down)]
            by_key = Left(left.memory, starts, left.unroll, left.stride)
            multiply(acc, by_key, right, column, room, height)
            for r in range(down):
                if key + r < count:
                    to = target.at((key + r) * width)
                    for v in range(vectors):
                        made = acc[r, v].to(target.dtype)
                        store_part(to, column + v * lanes, made, width)


@kl.kernel
def add_parts(
    parts: kl.In,
    target: kl.Out,
    rows: kl.Size,
    features: kl.Size,
    queries: kl.Size,
    number: kl.Size,
    split: kl.Size,
    share: kl.Size,
    *,
    width: int,
    causal: bool,
    accumulate: DType,
) -> None:
    """Add the parts of ``share`` query rows from all ranges of ``split`` keys.

    ``causal``: only of ranges with keys that a query sees; others have no part of it.
    """
    count = rows * features
    first = kl.cube_position(0) * share
    for row in kl.loop_range(first, kl.min(first + share, rows)):
        seen = kl.min(number, row % queries // split + 1) if causal else number
        for p in kl.loop_range(0, features, width):
            inside = along(p, width) < features
            sums = kl.constant(0, accumulate, width)
            for part in kl.loop_range(seen):
                at = part * count + row * features + p
                sums = sums + parts.load(at, width, mask=inside)
            store_part(target.at(row * features), p, sums.to(target.dtype), features)
