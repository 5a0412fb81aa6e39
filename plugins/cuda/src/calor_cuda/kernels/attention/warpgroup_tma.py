"""Attention and its gradients by warp groups and TMA.

Requirements: as in :mod:`mma`. Exponentials of one block overlap with products of another: the
scores of a block are issued before the preceding block's weights are multiplied. (The order within
a warp group after Shah et al., "FlashAttention-3", 2024.)
"""

from __future__ import annotations

import math

from calor_cuda.kernels.attention.warpgroup_tma_plan import (
    OWN,
    HeadSteps,
    TmaPlan,
    begin_turns,
    cube_of,
    end_turns,
    give_turn,
    lines_map,
    set_weights,
    store_rows,
    take_turn,
)
from calor_cuda.kernels.warpgroup import following
from calor_kernel import language as kl
from calor_kernel.library.attention.mma import next_block
from calor_kernel.library.attention.mma_plan import MmaPlan
from calor_kernel.library.attention.mma_tiles import (
    LOG2_E,
    ScoreMask,
    drop_rounded,
    exponent,
    finish,
    load_row_numbers,
    online_softmax,
    scale_sums,
    score_gradients,
    weigh,
)
from calor_kernel.library.attention.operands import KernelOperands, ScoreForm, Upstream, finite
from calor_kernel.library.gemm.mma import Sums


@kl.kernel
def attend_tma(
    out: kl.Out,
    total: kl.Out,
    rest: kl.Out | None,
    value_width: kl.Size,
    batches: kl.Size,
    band: kl.Size,
    steps: HeadSteps[kl.Number],
    rest_steps: HeadSteps[kl.Number],
    g: KernelOperands,
    *,
    plan: TmaPlan,
    form: ScoreForm,
) -> None:
    """Compute tiles of rows of the result, of heads in bands, the longest rows first.

    ``steps``, ``rest_steps``: the strides of the result, and of what rounding drops. ``band``: the
    heads, of all batches, whose tiles are computed at the same time.
    """
    kl.launch_attributes(cubes_per_core=1)
    block, of_keys = plan.block, (batches, g.key_heads, g.keys)
    of_queries = batches, g.heads, g.queries
    q_map = lines_map(g.query, (*of_queries, g.features), g.query_strides[:3], plan.rows)
    k_map = lines_map(g.key, (*of_keys, g.features), g.key_strides[:3], block)
    v_map = lines_map(g.value, (*of_keys, value_width), g.value_strides[:3], block)
    o_map = lines_map(out, (*of_queries, value_width), steps.rows(value_width), OWN)
    r_map = None
    if rest is not None:
        r_map = lines_map(rest, (*of_queries, value_width), rest_steps.rows(value_width), OWN)
    kv_maps, rooms = (k_map, v_map), (plan.values,)
    cube = cube_of(plan, (q_map,), kv_maps, rooms, g.queries, g.heads, batches, band, (1,))
    (results,), (queries,), (keys, values) = cube.results, cube.own, cube.steps
    count, (turned,) = cube.count, cube.turned

    with kl.role(0, registers=plan.registers[0]):
        if kl.unit_index() == 0:
            cube.issue(g, form.causal)
    if plan.turning:
        with kl.role(1, registers=plan.turning):
            cube.turn(1, g, form.causal)
    with kl.role(plan.leading, plan.groups, registers=plan.registers[1], apart=plan.alternating):
        group = kl.unit_index() // 128 - plan.leading
        row = group * OWN
        factor = exponent(g, form)
        stage, parity = count * 0, count * 0
        opening = plan.sums(block)
        queries.full.wait(0, 0)
        keys.full.wait(0, 0)
        (first_rows,) = cube.matrices(0)
        plan.add_scores(opening, first_rows, row, keys.at(0), plan.features)
        begin_turns(group, plan)
        for turn in kl.range(count):
            tile, phase = plan.place(turn)
            queries.full.wait(tile, phase)
            place = cube.coordinates.at(tile * 4)
            n, head, first = place[0], place[1], place[2]
            (mine,) = cube.matrices(tile)
            mask = ScoreMask(g, form, n, head)
            reach = mask.reach(first, row)
            stop = plan.end(first, g, form.causal)
            sums = plan.sums(plan.values)
            largest = sums[0][0].band(plan.axis, -math.inf)
            powers = sums[0][0].band(plan.axis)
            kl.wait_mma(opening[0][0])
            keys.release(stage)
            mask.adjust_before(opening, first + row, 0, reach, plan)
            online_softmax(opening[0], largest, powers, factor, plan.axis)
            weights = plan.weights(opening, plan.values)
            for begin in kl.range(block, stop, block):
                before, phase = stage, parity
                stage, parity = following(stage, parity, plan.stages)
                keys.full.wait(stage, parity)
                take_turn(group, plan)
                scores = plan.sums(block)
                plan.add_scores(scores, mine, row, keys.at(stage), plan.features)
                turned.full.wait(before, phase)
                plan.multiply(sums, weights, turned.at(before), plan.values)
                give_turn(group, plan)
                kl.wait_mma(scores[0][0], pending=1)
                keys.release(stage)
                mask.adjust_before(scores, first + row, begin, reach, plan)
                # This overlaps with the preceding block's products, which then release its values.
                correction = online_softmax(scores[0], largest, powers, factor, plan.axis)
                kl.wait_mma(sums[0][0], after=[powers])
                values.release(before)
                sums[0][0].map_band(lambda x, f: x * f, correction)
                set_weights(weights, plan.weights(scores, plan.values))
            queries.release(tile)
            turned.full.wait(stage, parity)
            plan.multiply(sums, weights, turned.at(stage), plan.values)
            before = stage
            stage, parity = following(stage, parity, plan.stages)
            # The scores of the next tile; after the last tile they are repeated and ignored.
            more = turn + 1 < count
            coming, phase = plan.place(turn + 1)
            if more:
                queries.full.wait(coming, phase)
                keys.full.wait(stage, parity)
            (coming_rows,) = cube.matrices(kl.select(more, coming, tile))
            at = keys.at(kl.select(more, stage, before))
            scores_of_next = plan.sums(block)
            plan.add_scores(scores_of_next, coming_rows, row, at, plan.features)
            opening[0][0].parts[0] = scores_of_next[0][0].parts[0]
            kl.wait_mma(sums[0][0], pending=1)
            values.release(before)
            row_at = (n * g.heads + head) * g.queries
            finish(sums[0], largest, powers, total, row_at, first + row, g, form, plan)
            kl.wait_puts(read=True)
            store_rows(sums, results, o_map, (n, head), first + row, plan)
            if r_map is not None:
                drop_rounded(sums, results.dtype)
                kl.wait_puts(read=True)
                store_rows(sums, results, r_map, (n, head), first + row, plan)
        kl.wait_mma()
        end_turns(group, plan)
        kl.wait_puts()


@kl.kernel
def query_gradient_tma(
    up: Upstream[kl.Pointer],
    for_query: kl.Out,
    value_width: kl.Size,
    batches: kl.Size,
    band: kl.Size,
    up_steps: HeadSteps[kl.Number],
    steps: HeadSteps[kl.Number],
    g: KernelOperands,
    *,
    plan: TmaPlan,
    form: ScoreForm,
) -> None:
    """Compute the gradients of tiles of queries, of heads in bands, the longest rows first."""
    kl.launch_attributes(cubes_per_core=1)
    block, of_keys = plan.block, (batches, g.key_heads, g.keys)
    of_queries = batches, g.heads, g.queries
    q_map = lines_map(g.query, (*of_queries, g.features), g.query_strides[:3], plan.rows)
    up_strides = up_steps.rows(value_width)
    u_map = lines_map(up.gradient, (*of_queries, value_width), up_strides, plan.rows)
    k_map = lines_map(g.key, (*of_keys, g.features), g.key_strides[:3], block)
    v_map = lines_map(g.value, (*of_keys, value_width), g.value_strides[:3], block)
    o_map = lines_map(for_query, (*of_queries, g.features), steps.rows(g.features), OWN)
    maps, rooms = ((q_map, u_map), (k_map, v_map)), plan.rooms
    staged = rooms[:1] if plan.staged else ()
    cube = cube_of(plan, *maps, staged, g.queries, g.heads, batches, band, (0,))
    (queries, upstreams), (keys, values) = cube.own, cube.steps
    count, (turned,) = cube.count, cube.turned

    with kl.role(0, registers=plan.registers[0]):
        if kl.unit_index() == 0:
            cube.issue(g, form.causal)
    if plan.turning:
        with kl.role(1, registers=plan.turning):
            cube.turn(0, g, form.causal)
    with kl.role(plan.leading, plan.groups, registers=plan.registers[1], apart=plan.alternating):
        group = kl.unit_index() // 128 - plan.leading
        row = group * OWN
        factor = exponent(g, form)
        stage, parity = count * 0, count * 0
        begin_turns(group, plan)
        for turn in kl.range(count):
            tile, phase = plan.place(turn)
            queries.full.wait(tile, phase)
            place = cube.coordinates.at(tile * 4)
            n, head, first = place[0], place[1], place[2]
            row_at = (n * g.heads + head) * g.queries
            mask = ScoreMask(g, form, n, head)
            reach = mask.reach(first, row)
            sums = plan.sums(rooms[0])
            shift, along = sums[0][0].band(plan.axis), sums[0][0].band(plan.axis)
            down, _ = plan.places(sums[0][0])
            load_row_numbers(shift, along, up, row_at, (first, row, 0, down), g.queries)
            upstreams.full.wait(tile, phase)
            mine = cube.matrices(tile)
            if plan.turning:
                # Registers hold one step's weights of four bytes; the other warp group multiplies
                # meanwhile.
                for begin in kl.range(0, plan.end(first, g, form.causal), block):
                    keys.full.wait(stage, parity)
                    values.full.wait(stage, parity)
                    take_turn(group, plan)
                    scores, inner = plan.sums(block), plan.sums(block)
                    plan.add_scores(scores, mine[0], row, keys.at(stage), rooms[0])
                    plan.add_scores(inner, mine[1], row, values.at(stage), rooms[1])
                    give_turn(group, plan)
                    kl.wait_mma(scores[0][0], pending=1)
                    mask.adjust_before(scores, first + row, begin, reach, plan)
                    weigh(scores[0][0], factor, shift)
                    kl.wait_mma(inner[0][0], after=[scores[0][0]])
                    values.release(stage)
                    score_gradients(inner[0][0], scores[0][0], along)
                    weights = plan.weights(inner, rooms[0])
                    turned.full.wait(stage, parity)
                    plan.multiply(sums, weights, turned.at(stage), rooms[0])
                    kl.wait_mma(sums[0][0])
                    keys.release(stage)
                    stage, parity = following(stage, parity, plan.stages)
            else:
                opening, slopes = plan.sums(block), plan.sums(block)
                keys.full.wait(stage, parity)
                values.full.wait(stage, parity)
                plan.add_scores(opening, mine[0], row, keys.at(stage), rooms[0])
                plan.add_scores(slopes, mine[1], row, values.at(stage), rooms[1])
                kl.wait_mma(opening[0][0], pending=1)
                mask.adjust_before(opening, first + row, 0, reach, plan)
                weigh(opening[0][0], factor, shift)
                kl.wait_mma(slopes[0][0], after=[opening[0][0]])
                values.release(stage)
                score_gradients(slopes[0][0], opening[0][0], along)
                weights = plan.weights(slopes, rooms[0])
                for begin in kl.range(block, plan.end(first, g, form.causal), block):
                    before = stage
                    stage, parity = following(stage, parity, plan.stages)
                    keys.full.wait(stage, parity)
                    values.full.wait(stage, parity)
                    take_turn(group, plan)
                    scores, inner = plan.sums(block), plan.sums(block)
                    plan.add_scores(scores, mine[0], row, keys.at(stage), rooms[0])
                    plan.add_scores(inner, mine[1], row, values.at(stage), rooms[1])
                    plan.multiply(sums, weights, keys.at(before), rooms[0])
                    give_turn(group, plan)
                    kl.wait_mma(scores[0][0], pending=2)
                    mask.adjust_before(scores, first + row, begin, reach, plan)
                    weigh(scores[0][0], factor, shift)
                    kl.wait_mma(inner[0][0], pending=1, after=[scores[0][0]])
                    values.release(stage)
                    score_gradients(inner[0][0], scores[0][0], along)
                    made = plan.weights(inner, rooms[0])
                    kl.wait_mma(sums[0][0], after=[one[0] for one in made])
                    keys.release(before)
                    set_weights(weights, made)
                queries.release(tile)
                upstreams.release(tile)
                plan.multiply(sums, weights, keys.at(stage), rooms[0])
                kl.wait_mma(sums[0][0])
                keys.release(stage)
                stage, parity = following(stage, parity, plan.stages)
            scale_sums(sums, g.scale)
            if plan.staged:
                kl.wait_puts(read=True)
                store_rows(sums, cube.results[0], o_map, (n, head), first + row, plan)
            else:
                upstreams.release(tile)
                store_rows(sums, queries.at(tile), o_map, (n, head), first + row, plan)
                kl.wait_puts(read=True)
                queries.release(tile)
        end_turns(group, plan)
        kl.wait_puts()


@kl.kernel
def key_gradient_tma(
    up: Upstream[kl.Pointer],
    for_key: kl.Out,
    for_value: kl.Out,
    value_width: kl.Size,
    batches: kl.Size,
    band: kl.Size,
    up_steps: HeadSteps[kl.Number],
    key_steps: HeadSteps[kl.Number],
    value_steps: HeadSteps[kl.Number],
    g: KernelOperands,
    *,
    plan: TmaPlan,
    form: ScoreForm,
) -> None:
    """Compute the gradients of tiles of keys and values, of heads in bands, the longest first."""
    kl.launch_attributes(cubes_per_core=1)
    block, of_keys = plan.block, (batches, g.key_heads, g.keys)
    of_queries = batches, g.heads, g.queries
    q_map = lines_map(g.query, (*of_queries, g.features), g.query_strides[:3], block)
    up_strides = up_steps.rows(value_width)
    u_map = lines_map(up.gradient, (*of_queries, value_width), up_strides, block)
    k_map = lines_map(g.key, (*of_keys, g.features), g.key_strides[:3], plan.rows)
    v_map = lines_map(g.value, (*of_keys, value_width), g.value_strides[:3], plan.rows)
    to_keys = lines_map(for_key, (*of_keys, g.features), key_steps.rows(g.features), OWN)
    to_values = lines_map(for_value, (*of_keys, value_width), value_steps.rows(value_width), OWN)
    maps, rooms = ((k_map, v_map), (q_map, u_map)), plan.rooms
    heads = g.keys, g.key_heads
    staged = rooms if plan.staged else ()
    cube = cube_of(plan, *maps, staged, *heads, batches, band, (0, 1), numbers=True)
    (keys, values), (queries, upstreams), sides = cube.own, cube.steps, cube.numbers
    order, count, coordinates = cube.order, cube.count, cube.coordinates
    turned_queries, turned_upstreams = cube.turned
    whole = (g.queries + block - 1) // block

    with kl.role(0, registers=plan.registers[0]):
        unit = kl.unit_index()
        if unit < 32:
            stage, parity = count * 0, count * 0 + 1
            for turn in kl.range(count):
                # Most queries attend to the first keys. A tile has at least one step, even if it is
                # hidden.
                number, down = order.place(turn)
                first = down * plan.rows
                start = kl.min(first // block, whole - 1) if form.causal else first * 0
                n, head = number // g.key_heads, number % g.key_heads
                if unit == 0:
                    tile, phase = plan.place(turn)
                    keys.empty.wait(tile, phase ^ 1)
                    place = coordinates.at(tile * 4)
                    place[0], place[1], place[2], place[3] = n, head, first, start
                    keys.fetch((n, head), first, tile, phase ^ 1)
                    values.fetch((n, head), first, tile, phase ^ 1)
                for member in kl.range(head * g.group, head * g.group + g.group):
                    row_at = (n * g.heads + member) * g.queries
                    for base in kl.range(start * block, g.queries, block):
                        # The producer's units load these numbers while one of them issues the TMA
                        # copies.
                        places = [base + unit + more for more in kl.range(0, block, 32)]
                        shifts, deltas = (
                            [row.load(row_at + at, mask=at < g.queries) for at in places]
                            for row in (up.total, up.delta)
                        )
                        if unit == 0:
                            queries.fetch((n, member), base, stage, parity)
                            upstreams.fetch((n, member), base, stage, parity)
                        sides.empty.wait(stage, parity)
                        for i in kl.range(block // 32):
                            to = sides.at(stage).at(unit + 32 * i)
                            to[0] = finite(shifts[i]) * -LOG2_E
                            to[block] = deltas[i]
                        sides.full.arrive(stage)
                        stage, parity = following(stage, parity, plan.stages)
    if plan.turning:
        with kl.role(1, registers=plan.turning):
            stage, parity = count * 0, count * 0
            for turn in kl.range(count):
                _, down = order.place(turn)
                begun = down * plan.rows // block
                start = kl.min(begun, whole - 1) if form.causal else begun * 0
                for _ in kl.range(kl.max((whole - start) * g.group, 1)):
                    plan.turn(upstreams, turned_upstreams, stage, parity)
                    plan.turn(queries, turned_queries, stage, parity)
                    stage, parity = following(stage, parity, plan.stages)
    with kl.role(plan.leading, plan.groups, registers=plan.registers[1], apart=plan.alternating):
        group = kl.unit_index() // 128 - plan.leading
        row = group * OWN
        factor = exponent(g, form)
        stage, parity = count * 0, count * 0
        here = kl.registers(2, stage.dtype)
        begin_turns(group, plan)
        for turn in kl.range(count):
            tile, phase = plan.place(turn)
            keys.full.wait(tile, phase)
            place = coordinates.at(tile * 4)
            n, head, first, start = place[0], place[1], place[2], place[3]
            here[0], here[1] = head * g.group, start
            key_sums, value_sums = (plan.sums(room) for room in rooms)
            values.full.wait(tile, phase)
            mine = cube.matrices(tile)
            before = stage
            # At least one step, so that sums always come from products. If the compiler sees
            # another way to them, it serialises the products.
            for step in kl.range(kl.max((whole - start) * g.group, 1)):
                queries.full.wait(stage, parity)
                upstreams.full.wait(stage, parity)
                take_turn(group, plan)
                scores, inner = plan.sums(block), plan.sums(block)
                plan.add_scores(scores, mine[0], row, queries.at(stage), rooms[0])
                plan.add_scores(inner, mine[1], row, upstreams.at(stage), rooms[1])
                give_turn(group, plan)
                sides.full.wait(stage, parity)
                # The preceding step's products are done too.
                kl.wait_mma(scores[0][0], pending=1)
                if (not plan.turning) and (step > 0):
                    queries.release(before)
                    upstreams.release(before)
                mask = ScoreMask(g, form, n, here[0], by_keys=True)
                top, begin = first + row, here[1] * block
                mask.adjust_by_keys(scores, top, begin, top + OWN <= begin + 1, plan)
                weigh(scores[0][0], factor, side_of(scores, sides.at(stage), plan))
                weights = plan.weights(scores, rooms[1])
                if plan.turning:
                    turned_upstreams.full.wait(stage, parity)
                plan.multiply(value_sums, weights, turned_upstreams.at(stage), rooms[1])
                kl.wait_mma(inner[0][0], pending=1)
                side = side_of(inner, sides.at(stage).at(block), plan)
                score_gradients(inner[0][0], scores[0][0], side)
                sides.release(stage)
                weights = plan.weights(inner, rooms[0])
                if plan.turning:
                    turned_queries.full.wait(stage, parity)
                plan.multiply(key_sums, weights, turned_queries.at(stage), rooms[0])
                if plan.turning:
                    # Registers do not hold the next scores beside weights of four bytes.
                    kl.wait_mma(value_sums[0][0], key_sums[0][0])
                    queries.release(stage)
                    upstreams.release(stage)
                before = stage
                stage, parity = following(stage, parity, plan.stages)
                next_block(here, start, whole - start)
            kl.wait_mma(value_sums[0][0], key_sums[0][0])
            top = first + row
            if plan.staged:
                for ring, at in (
                    (keys, tile),
                    (values, tile),
                    (queries, before),
                    (upstreams, before),
                ):
                    ring.release(at)
                scale_sums(key_sums, g.scale)
                kl.wait_puts(read=True)
                store_rows(key_sums, cube.results[0], to_keys, (n, head), top, plan)
                store_rows(value_sums, cube.results[1], to_values, (n, head), top, plan)
            else:
                scale_sums(key_sums, g.scale)
                store_rows(key_sums, keys.at(tile), to_keys, (n, head), top, plan)
                store_rows(value_sums, values.at(tile), to_values, (n, head), top, plan)
                kl.wait_puts(read=True)
                keys.release(tile)
                values.release(tile)
        end_turns(group, plan)
        kl.wait_puts()


@kl.helper
def side_of(scores: Sums, source: kl.Pointer, plan: MmaPlan) -> kl.Band:
    """Return the numbers for a unit's columns of scores."""
    made = scores[0][0].band(1 - plan.axis)
    _, right = plan.places(scores[0][0])
    for k in kl.range(len(made.keys)):
        made.items[k] = source[right + made.keys[k]]
    return made
