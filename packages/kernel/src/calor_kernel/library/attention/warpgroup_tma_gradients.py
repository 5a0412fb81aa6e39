"""The gradients of attention by warp groups and TMA, from the stored log-sum-exp.

Requirements: as in :mod:`mma_gradients`. Products with the preceding block's weights run while a
block's own weights are computed.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import float32
from calor_kernel.language import (
    barrier,
    helper,
    kernel,
    launch_attributes,
    registers,
    role,
    shared,
    unit_index,
    wait_mma,
    wait_puts,
)
from calor_kernel.library.attention.mma_gradients import next_block
from calor_kernel.library.attention.mma_tiles import LOG2_E, Hidden, exponent, weigh
from calor_kernel.library.attention.problem import finite, given
from calor_kernel.library.attention.warpgroup_tma_plan import (
    ASKING,
    MULTIPLYING,
    OWN,
    AttentionBoxes,
    Order,
    add_weighted,
    ask_for_tiles,
    begin_turns,
    end_of,
    end_turns,
    give_turn,
    lines_map,
    put_rows,
    ring,
    take_over,
    take_turn,
    weights_of,
)
from calor_kernel.library.gemm.warpgroup import following


@kernel
def query_gradient_boxes(
    upstream: Any,
    delta: Any,
    total: Any,
    for_query: Any,
    value_width: Any,
    batches: Any,
    band: Any,
    up_head: Any,
    up_batch: Any,
    out_head: Any,
    out_batch: Any,
    *numbers: Any,
    plan: AttentionBoxes,
    kinds: tuple[str, ...],
    causal: bool,
    adjusted: bool,
) -> None:
    """Compute the gradients of tiles of queries, of heads in bands, the longest rows first."""
    launch_attributes(cubes_per_core=1)
    g, tiles, rooms = given(numbers), plan.tiles, (plan.tiles.features, plan.tiles.values)
    of_queries, of_keys = (batches, g.heads, g.queries), (batches, g.key_heads, g.keys)
    q_map = lines_map(g.query, (*of_queries, g.features), g.query_strides[:3], plan.rows)
    u_map = lines_map(
        upstream, (*of_queries, value_width), (up_batch, up_head, value_width), plan.rows
    )
    k_map = lines_map(g.key, (*of_keys, g.features), g.key_strides[:3], tiles.block)
    v_map = lines_map(g.value, (*of_keys, value_width), g.value_strides[:3], tiles.block)
    o_map = lines_map(for_query, (*of_queries, g.features), (out_batch, out_head, g.features), OWN)
    results = shared(plan.rows * rooms[0], plan.result, align=1024)
    own = [shared(plan.own * plan.rows * room, plan.result, align=1024) for room in rooms]
    steps = [shared(plan.stages * tiles.block * room, plan.result, align=1024) for room in rooms]
    queries, ups = (ring(m, plan.own, plan.rows * r, plan) for m, r in zip(own, rooms, strict=True))
    keys, values = (
        ring(m, plan.stages, tiles.block * r, plan) for m, r in zip(steps, rooms, strict=True)
    )
    barrier()
    order = Order((g.queries + plan.rows - 1) // plan.rows, g.heads * batches, band)
    count = order.count()
    # The producer leaves the tile's coordinates here, so that other units need not divide.
    told = shared(4 * plan.own, count.dtype)

    with role(0, registers=ASKING[plan.groups]):
        if unit_index() == 0:
            own_rings, step_rings = (
                ((queries, q_map), (ups, u_map)),
                ((keys, k_map), (values, v_map)),
            )
            ask_for_tiles(order, count, told, own_rings, step_rings, g, plan, causal)
    with role(1, plan.groups, registers=MULTIPLYING[plan.groups], apart=plan.turns):
        group = unit_index() // 128 - 1
        row = group * OWN
        factor = exponent(g, adjusted)
        stage, parity = count * 0, count * 0
        begin_turns(group, plan)
        for turn in range(count):
            tile, phase = plan.place(turn)
            queries.full.wait(tile, phase)
            place = told.at(tile * 4)
            n, head, first = place[0], place[1], place[2]
            mine = own_panels((queries, ups), tile, plan)
            row_at = (n * g.heads + head) * g.queries
            hidden = Hidden(g, kinds, causal, adjusted, n, head, False)
            reach = min(g.keys, first + row + 1) if causal else g.keys
            sums = tiles.sums(rooms[0])
            opening, slopes = tiles.sums(tiles.block), tiles.sums(tiles.block)
            shift, along = sums[0][0].band(tiles.axis), sums[0][0].band(tiles.axis)
            down, _ = tiles.places(sums[0][0])
            for k in range(len(shift.keys)):
                place = first + row + down + shift.keys[k]
                there = place < g.queries
                shift.items[k] = finite(total.load(row_at + place, mask=there)) * -LOG2_E
                along.items[k] = delta.load(row_at + place, mask=there)
            ups.full.wait(tile, phase)
            keys.full.wait(stage, parity)
            values.full.wait(stage, parity)
            tiles.add_scores(opening, mine[0], row, keys.at(stage), rooms[0])
            tiles.add_scores(slopes, mine[1], row, values.at(stage), rooms[1])
            wait_mma(opening[0][0], pending=1)
            hidden.adjust_some(opening, first + row, 0, reach, tiles)
            weigh(opening[0][0], factor, shift)
            wait_mma(slopes[0][0], after=[opening[0][0]])
            values.release(stage)
            follow_slope(slopes, opening, along)
            weights = weights_of(slopes, tiles, rooms[0])
            for begin in range(tiles.block, end_of(first, g, causal, plan), tiles.block):
                before = stage
                stage, parity = following(stage, parity, plan.stages)
                keys.full.wait(stage, parity)
                values.full.wait(stage, parity)
                take_turn(group, plan)
                scores, inner = tiles.sums(tiles.block), tiles.sums(tiles.block)
                tiles.add_scores(scores, mine[0], row, keys.at(stage), rooms[0])
                tiles.add_scores(inner, mine[1], row, values.at(stage), rooms[1])
                add_weighted(sums, weights, keys.at(before), tiles, rooms[0])
                give_turn(group, plan)
                wait_mma(scores[0][0], pending=2)
                hidden.adjust_some(scores, first + row, begin, reach, tiles)
                weigh(scores[0][0], factor, shift)
                wait_mma(inner[0][0], pending=1, after=[scores[0][0]])
                values.release(stage)
                follow_slope(inner, scores, along)
                made = weights_of(inner, tiles, rooms[0])
                wait_mma(sums[0][0], after=[one[0] for one in made])
                keys.release(before)
                take_over(weights, made)
            queries.release(tile)
            ups.release(tile)
            add_weighted(sums, weights, keys.at(stage), tiles, rooms[0])
            wait_mma(sums[0][0])
            keys.release(stage)
            stage, parity = following(stage, parity, plan.stages)
            sums[0][0].map(lambda x: x * g.scale)
            wait_puts(read=True)
            put_rows(sums, results, o_map, (n, head), first + row, plan)
        end_turns(group, plan)
        wait_puts()


@helper
def own_panels(own: Any, tile: Any, plan: AttentionBoxes) -> Any:
    """Return a tile's own rows of two operands as matrices."""
    rooms = plan.tiles.features, plan.tiles.values
    return [
        plan.tiles.panel(plan.rows, room).matrix(one.at(tile))
        for room, one in zip(rooms, own, strict=True)
    ]


@helper
def follow_slope(inner: Any, weights: Any, along: Any) -> None:
    """Turn products with the upstream gradient into gradients of the scores, by their weights."""
    inner[0][0].map_band(lambda x, d: x - d, along)
    inner[0][0].map(lambda x, p: p * x, weights[0][0])


@kernel
def key_gradient_boxes(
    upstream: Any,
    delta: Any,
    total: Any,
    for_key: Any,
    for_value: Any,
    value_width: Any,
    batches: Any,
    band: Any,
    up_head: Any,
    up_batch: Any,
    key_head_step: Any,
    key_batch: Any,
    value_head_step: Any,
    value_batch: Any,
    *numbers: Any,
    plan: AttentionBoxes,
    kinds: tuple[str, ...],
    causal: bool,
    adjusted: bool,
) -> None:
    """Compute the gradients of tiles of keys and values, of heads in bands, the longest first."""
    launch_attributes(cubes_per_core=1)
    g, tiles, rooms = given(numbers), plan.tiles, (plan.tiles.features, plan.tiles.values)
    block = tiles.block
    of_queries, of_keys = (batches, g.heads, g.queries), (batches, g.key_heads, g.keys)
    q_map = lines_map(g.query, (*of_queries, g.features), g.query_strides[:3], block)
    u_map = lines_map(upstream, (*of_queries, value_width), (up_batch, up_head, value_width), block)
    k_map = lines_map(g.key, (*of_keys, g.features), g.key_strides[:3], plan.rows)
    v_map = lines_map(g.value, (*of_keys, value_width), g.value_strides[:3], plan.rows)
    dk_map = lines_map(for_key, (*of_keys, g.features), (key_batch, key_head_step, g.features), OWN)
    dv_map = lines_map(
        for_value, (*of_keys, value_width), (value_batch, value_head_step, value_width), OWN
    )
    results = [shared(plan.rows * room, plan.result, align=1024) for room in rooms]
    own = [shared(plan.own * plan.rows * room, plan.result, align=1024) for room in rooms]
    steps = [shared(plan.stages * block * room, plan.result, align=1024) for room in rooms]
    along = shared(plan.stages * 2 * block, float32, align=16)
    keys, values = (ring(m, plan.own, plan.rows * r, plan) for m, r in zip(own, rooms, strict=True))
    queries, ups = (
        ring(m, plan.stages, block * r, plan) for m, r in zip(steps, rooms, strict=True)
    )
    sides = ring(along, plan.stages, 2 * block, plan, 32)
    barrier()
    order = Order((g.keys + plan.rows - 1) // plan.rows, g.key_heads * batches, band)
    count = order.count()
    # The producer leaves the tile's coordinates here, so that other units need not divide.
    told = shared(4 * plan.own, count.dtype)
    whole = (g.queries + block - 1) // block

    def place_of(turn: Any) -> Any:
        # Most queries attend to the first keys. A tile has at least one step, even if it is hidden.
        number, down = order.place(turn)
        first = down * plan.rows
        start = min(first // block, whole - 1) if causal else first * 0
        return number // g.key_heads, number % g.key_heads, first, start

    with role(0, registers=plan.registers[0]):
        unit = unit_index()
        if unit < 32:
            stage, parity = count * 0, count * 0 + 1
            for turn in range(count):
                n, head, first, start = place_of(turn)
                if unit == 0:
                    tile, phase = plan.place(turn)
                    keys.empty.wait(tile, phase ^ 1)
                    place = told.at(tile * 4)
                    place[0], place[1], place[2], place[3] = n, head, first, start
                    keys.fetch(k_map, (n, head), first, plan.rows, tile, phase ^ 1)
                    values.fetch(v_map, (n, head), first, plan.rows, tile, phase ^ 1)
                for member in range(head * g.group, head * g.group + g.group):
                    row_at = (n * g.heads + member) * g.queries
                    for base in range(start * block, g.queries, block):
                        # The producer's units load these numbers while one of them issues the TMA
                        # copies.
                        places = [base + unit + more for more in range(0, block, 32)]
                        shifts = [
                            total.load(row_at + place, mask=place < g.queries) for place in places
                        ]
                        deltas = [
                            delta.load(row_at + place, mask=place < g.queries) for place in places
                        ]
                        if unit == 0:
                            queries.fetch(q_map, (n, member), base, block, stage, parity)
                            ups.fetch(u_map, (n, member), base, block, stage, parity)
                        sides.empty.wait(stage, parity)
                        for i in range(block // 32):
                            to = sides.at(stage).at(unit + 32 * i)
                            to[0] = finite(shifts[i]) * -LOG2_E
                            to[block] = deltas[i]
                        sides.full.arrive(stage)
                        stage, parity = following(stage, parity, plan.stages)
    with role(1, plan.groups, registers=plan.registers[1], apart=plan.turns):
        group = unit_index() // 128 - 1
        row = group * OWN
        factor = exponent(g, adjusted)
        stage, parity = count * 0, count * 0
        here = registers(2, stage.dtype)
        begin_turns(group, plan)
        for turn in range(count):
            tile, phase = plan.place(turn)
            keys.full.wait(tile, phase)
            place = told.at(tile * 4)
            n, head, first, start = place[0], place[1], place[2], place[3]
            mine = own_panels((keys, values), tile, plan)
            here[0], here[1] = head * g.group, start
            key_sums, value_sums = (tiles.sums(room) for room in rooms)
            values.full.wait(tile, phase)
            before = stage
            # At least one step, so that sums always come from products. If the compiler sees
            # another way to them, it serialises the products.
            for step in range(max((whole - start) * g.group, 1)):
                queries.full.wait(stage, parity)
                ups.full.wait(stage, parity)
                take_turn(group, plan)
                scores, inner = tiles.sums(block), tiles.sums(block)
                tiles.add_scores(scores, mine[0], row, queries.at(stage), rooms[0])
                tiles.add_scores(inner, mine[1], row, ups.at(stage), rooms[1])
                give_turn(group, plan)
                sides.full.wait(stage, parity)
                # The preceding step's products are done too.
                wait_mma(scores[0][0], pending=1)
                if step > 0:
                    queries.release(before)
                    ups.release(before)
                hidden = Hidden(g, kinds, causal, adjusted, n, here[0], True)
                top, begin = first + row, here[1] * block
                hidden.adjust_turned(scores, top, begin, top + OWN <= begin + 1, tiles)
                weigh(scores[0][0], factor, side_of(scores, sides.at(stage), tiles))
                weights = weights_of(scores, tiles, rooms[1])
                add_weighted(value_sums, weights, ups.at(stage), tiles, rooms[1])
                wait_mma(inner[0][0], pending=1)
                follow_slope(inner, scores, side_of(inner, sides.at(stage).at(block), tiles))
                sides.release(stage)
                weights = weights_of(inner, tiles, rooms[0])
                add_weighted(key_sums, weights, queries.at(stage), tiles, rooms[0])
                before = stage
                stage, parity = following(stage, parity, plan.stages)
                next_block(here, start, whole - start)
            wait_mma(value_sums[0][0], key_sums[0][0])
            keys.release(tile)
            values.release(tile)
            queries.release(before)
            ups.release(before)
            key_sums[0][0].map(lambda x: x * g.scale)
            wait_puts(read=True)
            put_rows(key_sums, results[0], dk_map, (n, head), first + row, plan)
            put_rows(value_sums, results[1], dv_map, (n, head), first + row, plan)
        end_turns(group, plan)
        wait_puts()


@helper
def side_of(scores: Any, source: Any, tiles: Any) -> Any:
    """Return the numbers for a unit's columns of scores."""
    made = scores[0][0].band(1 - tiles.axis)
    _, right = tiles.places(scores[0][0])
    for k in range(len(made.keys)):
        made.items[k] = source[right + made.keys[k]]
    return made
