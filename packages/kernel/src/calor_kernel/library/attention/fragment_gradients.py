"""The gradients of attention by matrix instructions of planes, from saved logarithms of sums.

Requirements: nothing is atomic and each sum has one order, so that queries get their gradient from
one pass over the scores, keys and values theirs from another; there the scores are computed turned,
keys by queries, so that in both passes what a plane has of them is an operand of the next product
where it is; rows and columns beyond the last contribute zeros.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import float32
from calor_kernel.language import (
    Layout,
    Pipeline,
    Tile,
    cube_count,
    cube_position,
    helper,
    kernel,
    loop_range,
    unit_index,
)
from calor_kernel.library.attention.fragments import (
    LOG2_E,
    Fragments,
    Hidden,
    Lines,
    add_scores,
    add_weighted,
    lines_of,
    operands,
    settle,
    weigh,
)
from calor_kernel.library.attention.problem import finite, given


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
    g = given(numbers)
    n, head = cube_position(2), cube_position(1)
    number = cube_count(0) - 1 - cube_position(0) if causal else cube_position(0)
    first = number * plan.rows
    stop = min(g.keys, first + plan.rows) if causal else g.keys
    factor = LOG2_E if adjusted else g.scale * LOG2_E
    row_at = (n * g.heads + head) * g.queries
    query = lines_of(g.query, g.query_strides, n, head, g.queries, g.features)
    key = lines_of(g.key, g.key_strides, n, head // g.group, stop, g.features)
    value = lines_of(g.value, g.value_strides, n, head // g.group, stop, value_width)
    up = Lines(upstream, row_at * value_width, g.queries, value_width, value_width)
    rooms = plan.features, plan.values
    own = Pipeline(1, *(plan.tile(plan.rows, room) for room in rooms), how="async")
    pipe = Pipeline(2, *(plan.tile(plan.block, room) for room in rooms), how="async")
    own.acquire()
    query.take(own, 0, first, plan.rows, plan.features, plan)
    up.take(own, 1, first, plan.rows, plan.values, plan)
    own.commit()
    pipe.acquire()
    key.take(pipe, 0, 0, plan.block, plan.features, plan)
    value.take(pipe, 1, 0, plan.block, plan.values, plan)
    pipe.commit()
    row = plan.first_row()
    held: list[Any] = [None, None]
    if plan.held:
        own.wait(1)
        held = [operands(own.stage(i), row, room, plan) for i, room in enumerate(rooms)]
    sums = plan.sums(plan.features)
    shape = plan.shape(plan.features)
    shifts = [sums[i][0].band(1) for i in range(plan.high)]
    alongs = [sums[i][0].band(1) for i in range(plan.high)]
    down, _ = sums[0][0].lane_place()
    for i in range(plan.high):
        for k in range(len(shifts[i].keys)):
            place = first + row + i * shape.m + down + shifts[i].keys[k]
            there = place < g.queries
            shifts[i].items[k] = finite(total.load(row_at + place, mask=there)) * -LOG2_E
            alongs[i].items[k] = delta.load(row_at + place, mask=there)
    hidden = Hidden(g, kinds, causal, adjusted, n, head, False)
    for begin in loop_range(0, stop, plan.block):
        pipe.wait()
        pipe.acquire()
        key.take(pipe, 0, begin + plan.block, plan.block, plan.features, plan)
        value.take(pipe, 1, begin + plan.block, plan.block, plan.values, plan)
        pipe.commit()
        # Both begin before either is issued, so that they are computed one after another.
        scores, inner = plan.sums(plan.block), plan.sums(plan.block)
        add_scores(scores, own.stage(0), row, held[0], pipe.stage(0), plan.features, plan)
        add_scores(inner, own.stage(1), row, held[1], pipe.stage(1), plan.values, plan)
        settle(plan, scores, inner)
        # Keys beyond the last are hidden, for whose zeros the weight may be infinite.
        reach = min(g.keys, first + row + 1) if causal else g.keys
        hidden.adjust_some(scores, first + row, begin, reach, plan)
        for i in range(plan.high):
            for weights, slope in zip(scores[i], inner[i], strict=True):
                weigh(weights, factor, shifts[i])
                slope.map_band(lambda x, d: x - d, alongs[i])
                slope.map(lambda x, p: p * x, weights)
        add_weighted(sums, inner, pipe.stage(0), plan.features, plan)
        settle(plan, sums)
        pipe.release()
    for i in range(plan.high):
        top = first + row + i * shape.m
        for j, tile in enumerate(sums[i]):
            tile.map(lambda x: x * g.scale)
            place = for_query.at((row_at + top) * g.features + j * shape.n)
            limits = (g.queries - top, g.features - j * shape.n)
            tile.store(place, (g.features, 1), limits=limits)


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
    factor = LOG2_E if adjusted else g.scale * LOG2_E
    key = lines_of(g.key, g.key_strides, n, key_head, g.keys, g.features)
    value = lines_of(g.value, g.value_strides, n, key_head, g.keys, value_width)
    rooms = plan.features, plan.values
    own = Pipeline(1, *(plan.tile(plan.rows, room) for room in rooms), how="async")
    lone = Tile(float32, Layout((plan.block,)))
    tiles = [plan.tile(plan.block, room) for room in rooms]
    pipe = Pipeline(2, *tiles, lone, lone, how="async")
    # Steps: blocks of queries that see a key of the cube, of each head of the group in turn.
    start = first // plan.block if causal else first * 0
    blocks = max((g.queries + plan.block - 1) // plan.block - start, 0)
    steps = blocks * g.group
    source = (upstream, delta, total, value_width)
    own.acquire()
    key.take(own, 0, first, plan.rows, plan.features, plan)
    value.take(own, 1, first, plan.rows, plan.values, plan)
    own.commit()
    pipe.acquire()
    take_queries(pipe, source, g, n, key_head * g.group, start * plan.block, plan)
    pipe.commit()
    row = plan.first_row()
    held: list[Any] = [None, None]
    if plan.held:
        own.wait(1)
        held = [operands(own.stage(i), row, room, plan) for i, room in enumerate(rooms)]
    key_sums, value_sums = (plan.sums(room) for room in rooms)
    shape = plan.shape(plan.block)
    head, block = key_head * g.group, start
    for step in loop_range(0, steps):
        base = block * plan.block
        here = head
        block = block + 1
        if block == start + blocks:
            block = start
            head = head + 1
        pipe.wait()
        pipe.acquire()
        if step + 1 < steps:
            take_queries(pipe, source, g, n, head, block * plan.block, plan)
        pipe.commit()
        # Both begin before either is issued, so that they are computed one after another.
        scores, inner = plan.sums(plan.block), plan.sums(plan.block)
        add_scores(scores, own.stage(0), row, held[0], pipe.stage(0), plan.features, plan)
        add_scores(inner, own.stage(1), row, held[1], pipe.stage(1), plan.values, plan)
        settle(plan, scores, inner)
        hidden = Hidden(g, kinds, causal, adjusted, n, here, True)
        # The last key of a plane that is seen by all queries of the block.
        clear = first + row + plan.high * shape.m <= base + 1
        hidden.adjust_turned(scores, first + row, base, clear, plan)
        for j in range(plan.block // shape.n):
            shift, along = scores[0][j].band(0), scores[0][j].band(0)
            _, right = scores[0][j].lane_place()
            for k in range(len(shift.keys)):
                place = j * shape.n + right + shift.keys[k]
                shift.items[k] = finite(pipe.stage(2)[place]) * -LOG2_E
                along.items[k] = pipe.stage(3)[place]
            for i in range(plan.high):
                weigh(scores[i][j], factor, shift)
                inner[i][j].map_band(lambda x, d: x - d, along)
                inner[i][j].map(lambda x, p: p * x, scores[i][j])
        add_weighted(value_sums, scores, pipe.stage(1), plan.values, plan)
        add_weighted(key_sums, inner, pipe.stage(0), plan.features, plan)
        settle(plan, value_sums, key_sums)
        pipe.release()
    key_at = (n * g.key_heads + key_head) * g.keys
    for i in range(plan.high):
        top = first + row + i * shape.m
        results = ((key_sums[i], for_key, g.features), (value_sums[i], for_value, value_width))
        for number, (tiles_of, target, width) in enumerate(results):
            across = plan.shape(rooms[number]).n
            for j, tile in enumerate(tiles_of):
                if number == 0:
                    tile.map(lambda x: x * g.scale)
                place = target.at((key_at + top) * width + j * across)
                limits = (g.keys - top, width - j * across)
                tile.store(place, (width, 1), limits=limits)


@helper
def take_queries(
    pipe: Any, source: Any, g: Any, n: Any, head: Any, first: Any, plan: Fragments
) -> None:
    """Start copying a block of queries with what their gradients need; beyond them is 0."""
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
