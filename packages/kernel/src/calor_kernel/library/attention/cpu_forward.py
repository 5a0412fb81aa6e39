"""Attention on a CPU: register tiles, and an online softmax over blocks of keys.

Requirements: the scores of a few queries and a block of keys stay in the first-level cache. Their
weights are computed by vectors and multiply the values there; the matrix of scores is never stored.
Keys are transposed and packed in panels, as in the library's matrix products (Dao et al.,
"FlashAttention", 2022; Goto and van de Geijn, 2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    constant,
    cube_position,
    fma,
    helper,
    kernel,
    loop_range,
    private,
    registers,
    select,
    splat,
    vreduce,
)
from calor_kernel.library.attention.cpu_register_tiles import Columns, Rows, along
from calor_kernel.library.attention.problem import finite, given
from calor_kernel.library.attention.scores import Scores, Seen, score, score_rows
from calor_kernel.library.attention.weights import weight
from calor_kernel.library.math import log


@kernel
def attend_tiles(
    panels: Any,
    values: Any,
    out: Any,
    total: Any,
    block_rows: Any,
    block: Any,
    value_width: Any,
    value_batch: Any,
    value_head: Any,
    value_panel: Any,
    value_row: Any,
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
    few: bool,
) -> None:
    """Compute ``block_rows`` rows from x on, of query head y of batch z.

    ``panels``: the keys transposed, in panels of ``vectors`` vectors. ``values`` has rows
    ``value_row`` apart and panels of ``value_vectors`` vectors ``value_panel`` apart; ``ragged``:
    the last panel is masked. Rooms are sizes in private memory: keys of a block, queries of a cube,
    features of a query and of a sum of values. ``steps``: the strides of the extras along the keys,
    0 or 1, and −1 for others. ``contiguous``: whether the query's last stride is 1. ``few``: with
    few queries keys are read in place, and there are no panels.
    """
    g = given(numbers)
    dtype = total.dtype
    width = vectors * lanes
    head, n = cube_position(1), cube_position(2)
    key_head = head // g.group
    panel_count = (g.keys + width - 1) // width
    key_at = (n * g.key_heads + key_head) * panel_count * g.features * width
    keys = Rows(
        g.key,
        n * g.key_strides[0] + key_head * g.key_strides[1],
        g.key_strides[2],
        1,
        g.features,
        True,
    )
    columns = Columns(
        values,
        n * value_batch + key_head * value_head,
        value_panel,
        value_vectors * lanes if packed else value_row,
        value_width,
        ragged,
    )
    first = cube_position(0) * block_rows
    last = min(first + block_rows, g.queries)
    row_at = (n * g.heads + head) * g.queries
    queries = private(query_room * feature_room, dtype, align=64)
    # One more vector, so that rows do not share sets of the cache.
    stride = key_room + lanes
    scores = Scores(private(rows * stride, dtype, align=64), stride, rows, lanes)
    sums = private(query_room * value_room, dtype, align=64)
    state = State(
        private(query_room, dtype, align=64), private(query_room * lanes, dtype, align=64), lanes
    )
    source = Rows(
        g.query,
        n * g.query_strides[0] + head * g.query_strides[1],
        g.query_strides[2],
        g.query_strides[3],
        g.features,
        contiguous,
    )
    for row in loop_range(first, last, rows):
        local = row - first
        places = [min(row + r, last - 1) for r in range(rows)]
        tile = queries.at(local * feature_room)
        source.copy(tile, feature_room, places, lanes, g.scale, feature_vectors)
        state.begin(local, rows)
    for begin in loop_range(0, g.keys, block):
        for row in loop_range(first, last, rows):
            end = min(g.keys, row + rows) if causal else g.keys
            count = min(end - begin, block)
            if count > 0:
                local = row - first
                tile = queries.at(local * feature_room)
                if few:
                    score_rows(scores, tile, feature_room, keys, begin, count)
                else:
                    at = key_at + begin * g.features
                    score(scores, tile, feature_room, panels.at(at), g.features, count, vectors)
                places = [min(row + r, last - 1) for r in range(rows)]
                seen = Seen(g, n, head, places, begin, count, kinds, steps, causal)
                factors = soften(scores, state, local, seen)
                for panel in loop_range(0, value_width, value_vectors * lanes):
                    acc = registers((rows, value_vectors), dtype, lanes)
                    columns.multiply(acc, scores.memory, scores.starts, 1, panel, begin, count)
                    for r in range(rows):
                        for v in range(value_vectors):
                            at = (local + r) * value_room + panel + v * lanes
                            made = acc[r, v]
                            if begin > 0:
                                made = fma(sums.load(at, lanes), splat(factors[r], lanes), made)
                            sums.store(at, made)
    for row in loop_range(first, last):
        finish(out, total, sums, value_room, state, row - first, row_at + row, value_width, g.keys)


@dataclass(frozen=True, slots=True)
class State:
    """The online softmax of each row: its maximum, and its sum of weights in lanes."""

    largest: Any
    powers: Any
    lanes: int

    def begin(self, row: Any, rows: int) -> None:
        """Start some rows: no key has been read yet."""
        dtype = self.largest.dtype
        for r in range(rows):
            self.largest[row + r] = constant(-math.inf, dtype)
            self.powers.store((row + r) * self.lanes, constant(0, dtype, self.lanes))


@helper
def soften(scores: Scores, state: State, local: Any, seen: Seen) -> list[Any]:
    """Turn a block of scores into weights, and return the correction factors of earlier sums.

    The state of the rows from ``local`` on is updated.
    """
    rows, lanes, dtype = scores.rows, scores.lanes, scores.memory.dtype
    tops = registers((rows,), dtype, lanes, fill=-math.inf)
    clear = seen.clear(lanes)
    for column in loop_range(0, clear, lanes):
        for r in range(rows):
            x = scores.load(r, column)
            tops[r] = select(x > tops[r], x, tops[r])
    for column in loop_range(clear, seen.count, lanes):
        for r in range(rows):
            x = seen.adjust(scores.load(r, column), r, column)
            scores.store(r, column, x)
            tops[r] = select(x > tops[r], x, tops[r])
    factors, shifts = [], []
    powers = registers((rows,), dtype, lanes)
    for r in range(rows):
        top, before = vreduce("max", tops[r]), state.largest[local + r]
        top = select(top > before, top, before)
        shift = finite(top)
        factor = weight(before - shift)
        powers[r] = state.powers.load((local + r) * lanes, lanes) * factor
        state.largest[local + r] = top
        factors.append(factor)
        shifts.append(splat(shift, lanes))
    for column in loop_range(0, seen.count, lanes):
        for r in range(rows):
            x = weight(scores.load(r, column) - shifts[r])
            powers[r] = powers[r] + x
            scores.store(r, column, x)
    for r in range(rows):
        state.powers.store((local + r) * lanes, powers[r])
    return factors


@helper
def finish(
    out: Any,
    total: Any,
    sums: Any,
    room: int,
    state: State,
    local: Any,
    row: Any,
    value_width: Any,
    keys: Any,
) -> None:
    """Write a row of the result, divided by its sum of weights, and its log-sum-exp."""
    lanes = state.lanes
    power = vreduce("add", state.powers.load(local * lanes, lanes))
    under = 1.0 / select(power > 0.0, power, 1.0)
    total[row] = finite(state.largest[local]) + log(power)
    for p in loop_range(0, value_width, lanes):
        inside = along(p, lanes) < value_width
        # Without keys there are no sums.
        value = sums.load(local * room + p, lanes, mask=inside & splat(keys > 0, lanes)) * under
        out.store(row * value_width + p, value.to(out.dtype), mask=inside)
