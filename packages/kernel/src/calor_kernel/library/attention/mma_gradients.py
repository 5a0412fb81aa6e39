"""The gradients of attention by matrix instructions of planes, from the stored log-sum-exp.

Requirements: nothing is atomic and each sum has a fixed order. So one pass over the scores computes
the query gradient, and another the gradients of keys and values. The second pass computes the
scores transposed, keys by queries, so that in both passes a plane's scores are in the layout of the
next product's operand. Rows and columns beyond the last contribute zeros.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    Pipeline,
    cube_position,
    helper,
    kernel,
    registers,
    select,
    unit_index,
    way_of_units,
)
from calor_kernel.library.attention.mma_plan import Fragments
from calor_kernel.library.attention.mma_tiles import (
    LOG2_E,
    Hidden,
    Lines,
    exponent,
    lines_of,
    own_rows,
    queries_of_cube,
    weigh,
)
from calor_kernel.library.attention.problem import finite, given
from calor_kernel.library.gemm.mma import settle
from calor_kernel.library.gemm.pipeline import fill_ahead, work_through


@kernel
def query_gradient_fragments(
    upstream: Any,
    delta: Any,
    total: Any,
    for_query: Any,
    value_width: Any,
    *numbers: Any,
    plan: Fragments,
    kinds: tuple[str, ...],
    causal: bool,
    adjusted: bool,
) -> None:
    """Compute the gradient of a cube's queries: rows from x, the longest first, head y, batch z."""
    q = queries_of_cube(numbers, value_width, causal, plan)
    g, factor, rooms = q.g, exponent(q.g, adjusted), (plan.features, plan.values)
    up = Lines(upstream, q.row_at * value_width, g.queries, value_width, value_width)
    own = own_rows((q.query, up), rooms, q.first, plan)
    pipe = Pipeline(2, *(plan.panel(plan.block, room).tile for room in rooms), how=way_of_units())

    def take(begin: Any) -> None:
        q.take_keys(pipe, begin, plan)

    fill_ahead(pipe, take, 0, plan.block)
    row = plan.first_row()
    mine = plan.own_operands(own, rooms, row)
    sums = plan.sums(plan.features)
    shifts = [sums[i][0].band(plan.axis) for i in range(plan.high)]
    alongs = [sums[i][0].band(plan.axis) for i in range(plan.high)]
    down, _ = plan.places(sums[0][0])
    for i in range(plan.high):
        for k in range(len(shifts[i].keys)):
            place = q.first + row + i * plan.own + down + shifts[i].keys[k]
            there = place < g.queries
            shifts[i].items[k] = finite(total.load(q.row_at + place, mask=there)) * -LOG2_E
            alongs[i].items[k] = delta.load(q.row_at + place, mask=there)
    hidden = Hidden(g, kinds, causal, adjusted, q.n, q.head, False)

    def work(begin: Any) -> None:
        # Both are initialised before either product is issued, so that the products run in order.
        scores, inner = plan.sums(plan.block), plan.sums(plan.block)
        plan.add_scores(scores, mine[0], row, pipe.stage(0), plan.features)
        plan.add_scores(inner, mine[1], row, pipe.stage(1), plan.values)
        settle(scores, inner)
        # Keys beyond the last are hidden: their rows are zeros, and the weight may be infinite.
        hidden.adjust_some(scores, q.first + row, begin, q.reach(row, causal), plan)
        for i in range(plan.high):
            for weights, slope in zip(scores[i], inner[i], strict=True):
                weigh(weights, factor, shifts[i])
                slope.map_band(lambda x, d: x - d, alongs[i])
                slope.map(lambda x, p: p * x, weights)
        plan.add_weighted(sums, inner, pipe.stage(0), plan.features)
        settle(sums)

    work_through(pipe, take, work, 0, q.stop, plan.block)
    for tiles in sums:
        for tile in tiles:
            tile.map(lambda x: x * g.scale)
    top = q.first + row
    plan.store(sums, for_query, (q.row_at + top) * g.features, g.features, g.queries - top)


@kernel
def key_gradient_fragments(
    upstream: Any,
    delta: Any,
    total: Any,
    for_key: Any,
    for_value: Any,
    value_width: Any,
    *numbers: Any,
    plan: Fragments,
    kinds: tuple[str, ...],
    causal: bool,
    adjusted: bool,
) -> None:
    """Compute the gradients of a cube's keys and values: rows from x, key head y, batch z."""
    g = given(numbers)
    n, key_head = cube_position(2), cube_position(1)
    first = cube_position(0) * plan.rows
    factor, rooms = exponent(g, adjusted), (plan.features, plan.values)
    key = lines_of(g.key, g.key_strides, n, key_head, g.keys, g.features)
    value = lines_of(g.value, g.value_strides, n, key_head, g.keys, value_width)
    own = own_rows((key, value), rooms, first, plan)
    panels = [plan.panel(plan.block, room).tile for room in rooms]
    pipe = Pipeline(2, *panels, plan.numbers, plan.numbers, how=way_of_units())
    # Steps: for each head of the group, the blocks of queries that attend to the cube's keys.
    start = first // plan.block if causal else first * 0
    blocks = max((g.queries + plan.block - 1) // plan.block - start, 0)
    steps = blocks * g.group
    source = (upstream, delta, total, value_width)
    # The head and the block of the next copy, and of the current work.
    ahead, here = registers(2, key_head.dtype), registers(2, key_head.dtype)
    for place in (ahead, here):
        place[0], place[1] = key_head * g.group, start

    def take(step: Any) -> None:
        if step < steps:
            take_queries(pipe, source, g, n, ahead[0], ahead[1] * plan.block, plan)
        next_block(ahead, start, blocks)

    fill_ahead(pipe, take, 0, 1)
    row = plan.first_row()
    mine = plan.own_operands(own, rooms, row)
    key_sums, value_sums = (plan.sums(room) for room in rooms)

    def work(step: Any) -> None:
        base = here[1] * plan.block
        # Both are initialised before either product is issued, so that the products run in order.
        scores, inner = plan.sums(plan.block), plan.sums(plan.block)
        plan.add_scores(scores, mine[0], row, pipe.stage(0), plan.features)
        plan.add_scores(inner, mine[1], row, pipe.stage(1), plan.values)
        settle(scores, inner)
        hidden = Hidden(g, kinds, causal, adjusted, n, here[0], True)
        # Whether all queries of the block attend to all keys of the plane.
        clear = first + row + plan.high * plan.own <= base + 1
        hidden.adjust_turned(scores, first + row, base, clear, plan)
        for j in range(len(scores[0])):
            shift, along = (scores[0][j].band(1 - plan.axis) for _ in range(2))
            _, right = plan.places(scores[0][j])
            for k in range(len(shift.keys)):
                place = j * plan.other + right + shift.keys[k]
                shift.items[k] = finite(pipe.stage(2)[place]) * -LOG2_E
                along.items[k] = pipe.stage(3)[place]
            for i in range(plan.high):
                weigh(scores[i][j], factor, shift)
                inner[i][j].map_band(lambda x, d: x - d, along)
                inner[i][j].map(lambda x, p: p * x, scores[i][j])
        plan.add_weighted(value_sums, scores, pipe.stage(1), plan.values)
        plan.add_weighted(key_sums, inner, pipe.stage(0), plan.features)
        settle(value_sums, key_sums)
        next_block(here, start, blocks)

    work_through(pipe, take, work, 0, steps, 1)
    for tiles in key_sums:
        for tile in tiles:
            tile.map(lambda x: x * g.scale)
    top = first + row
    at = (n * g.key_heads + key_head) * g.keys + top
    for made, target, width in (
        (key_sums, for_key, g.features),
        (value_sums, for_value, value_width),
    ):
        plan.store(made, target, at * width, width, g.keys - top)


def next_block(place: Any, start: Any, blocks: Any) -> None:
    """Advance a head and a block of queries to the next block, or to the next head's first one."""
    later = place[1] + 1
    last = later == start + blocks
    place[0], place[1] = select(last, place[0] + 1, place[0]), select(last, start, later)


@helper
def take_queries(
    pipe: Any, source: Any, g: Any, n: Any, head: Any, first: Any, plan: Fragments
) -> None:
    """Start copying a block of queries and their gradients' numbers, with 0 beyond the end."""
    upstream, delta, total, value_width = source
    row_at = (n * g.heads + head) * g.queries
    query = lines_of(g.query, g.query_strides, n, head, g.queries, g.features)
    query.take(pipe, 0, first, plan.block, plan.features, plan)
    up = Lines(upstream, row_at * value_width, g.queries, value_width, value_width)
    up.take(pipe, 1, first, plan.block, plan.values, plan)
    unit = unit_index()
    if unit < plan.block:
        there = first + unit < g.queries
        pipe.copy(2, unit, total, row_at + first + unit, 1, there)
        pipe.copy(3, unit, delta, row_at + first + unit, 1, there)
