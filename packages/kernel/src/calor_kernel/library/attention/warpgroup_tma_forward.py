"""Attention by warp groups and TMA, with an online softmax over blocks of keys.

Requirements: as in :mod:`mma_forward`. The scores of a block are issued before the preceding
block's weights multiply its values, so that exponentials of one block overlap with products of the
other. (The order within a warp group after Shah et al., "FlashAttention-3", 2024.)
"""

from __future__ import annotations

import math
from typing import Any

from calor_kernel.language import (
    barrier,
    kernel,
    launch_attributes,
    role,
    select,
    shared,
    unit_index,
    wait_mma,
    wait_puts,
)
from calor_kernel.library.attention.mma_tiles import Hidden, exponent, finish, follow
from calor_kernel.library.attention.problem import given
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
def attend_boxes(
    out: Any,
    total: Any,
    value_width: Any,
    batches: Any,
    band: Any,
    head_step: Any,
    batch_step: Any,
    *numbers: Any,
    plan: AttentionBoxes,
    kinds: tuple[str, ...],
    causal: bool,
    adjusted: bool,
) -> None:
    """Compute tiles of rows of the result, of heads in bands, the longest rows first.

    ``head_step``, ``batch_step``: the strides of heads and batches in the result. ``band``: the
    heads, of all batches, whose tiles are computed at the same time.
    """
    launch_attributes(cubes_per_core=1)
    g, tiles = given(numbers), plan.tiles
    q_map = lines_map(
        g.query, (batches, g.heads, g.queries, g.features), g.query_strides[:3], plan.rows
    )
    k_map = lines_map(
        g.key, (batches, g.key_heads, g.keys, g.features), g.key_strides[:3], tiles.block
    )
    v_map = lines_map(
        g.value, (batches, g.key_heads, g.keys, value_width), g.value_strides[:3], tiles.block
    )
    o_map = lines_map(
        out, (batches, g.heads, g.queries, value_width), (batch_step, head_step, value_width), OWN
    )
    sizes = plan.rows * tiles.features, tiles.block * tiles.features, tiles.block * tiles.values
    results = shared(plan.rows * tiles.values, plan.result, align=1024)
    queries_at = shared(plan.own * sizes[0], plan.result, align=1024)
    keys_at, values_at = (shared(plan.stages * n, plan.result, align=1024) for n in sizes[1:])
    queries = ring(queries_at, plan.own, sizes[0], plan)
    keys = ring(keys_at, plan.stages, sizes[1], plan)
    values = ring(values_at, plan.stages, sizes[2], plan)
    barrier()
    order = Order((g.queries + plan.rows - 1) // plan.rows, g.heads * batches, band)
    count = order.count()
    # The producer leaves the tile's coordinates here, so that other units need not divide.
    told = shared(4 * plan.own, count.dtype)

    with role(0, registers=ASKING[plan.groups]):
        if unit_index() == 0:
            own_rings, step_rings = ((queries, q_map),), ((keys, k_map), (values, v_map))
            ask_for_tiles(order, count, told, own_rings, step_rings, g, plan, causal)
    with role(1, plan.groups, registers=MULTIPLYING[plan.groups], apart=plan.turns):
        group = unit_index() // 128 - 1
        row = group * OWN
        factor = exponent(g, adjusted)
        stage, parity = count * 0, count * 0
        panel = tiles.panel(plan.rows, tiles.features)
        opening = tiles.sums(tiles.block)
        queries.full.wait(0, 0)
        keys.full.wait(0, 0)
        tiles.add_scores(opening, panel.matrix(queries.at(0)), row, keys.at(0), tiles.features)
        begin_turns(group, plan)
        for turn in range(count):
            tile, phase = plan.place(turn)
            queries.full.wait(tile, phase)
            place = told.at(tile * 4)
            n, head, first = place[0], place[1], place[2]
            mine = panel.matrix(queries.at(tile))
            hidden = Hidden(g, kinds, causal, adjusted, n, head, False)
            reach = min(g.keys, first + row + 1) if causal else g.keys
            stop = end_of(first, g, causal, plan)
            sums = tiles.sums(tiles.values)
            largest = sums[0][0].band(tiles.axis, -math.inf)
            powers = sums[0][0].band(tiles.axis)
            wait_mma(opening[0][0])
            keys.release(stage)
            hidden.adjust_some(opening, first + row, 0, reach, tiles)
            follow(opening[0], largest, powers, factor, tiles.axis)
            weights = weights_of(opening, tiles, tiles.values)
            for begin in range(tiles.block, stop, tiles.block):
                before, phase = stage, parity
                stage, parity = following(stage, parity, plan.stages)
                keys.full.wait(stage, parity)
                take_turn(group, plan)
                scores = tiles.sums(tiles.block)
                tiles.add_scores(scores, mine, row, keys.at(stage), tiles.features)
                values.full.wait(before, phase)
                add_weighted(sums, weights, values.at(before), tiles, tiles.values)
                give_turn(group, plan)
                wait_mma(scores[0][0], pending=1)
                keys.release(stage)
                hidden.adjust_some(scores, first + row, begin, reach, tiles)
                # This overlaps with the preceding block's products, which then release its values.
                fade = follow(scores[0], largest, powers, factor, tiles.axis)
                wait_mma(sums[0][0], after=[powers])
                values.release(before)
                sums[0][0].map_band(lambda x, f: x * f, fade)
                take_over(weights, weights_of(scores, tiles, tiles.values))
            queries.release(tile)
            values.full.wait(stage, parity)
            add_weighted(sums, weights, values.at(stage), tiles, tiles.values)
            before = stage
            stage, parity = following(stage, parity, plan.stages)
            # The scores of the next tile; after the last tile they are repeated and ignored.
            more = turn + 1 < count
            coming, phase = plan.place(turn + 1)
            if more:
                queries.full.wait(coming, phase)
                keys.full.wait(stage, parity)
            mine = panel.matrix(queries.at(select(more, coming, tile)))
            at = keys.at(select(more, stage, before))
            scores_of_next = tiles.sums(tiles.block)
            tiles.add_scores(scores_of_next, mine, row, at, tiles.features)
            opening[0][0].parts[0] = scores_of_next[0][0].parts[0]
            wait_mma(sums[0][0], pending=1)
            values.release(before)
            row_at = (n * g.heads + head) * g.queries
            finish(sums[0], largest, powers, total, row_at, first + row, g, adjusted, tiles)
            wait_puts(read=True)
            put_rows(sums, results, o_map, (n, head), first + row, plan)
        wait_mma()
        end_turns(group, plan)
        wait_puts()
