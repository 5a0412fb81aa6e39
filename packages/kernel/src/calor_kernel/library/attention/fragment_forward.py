"""Attention by matrix instructions of planes: the softmax follows the keys block by block.

Requirements: one pass over keys and values; only blocks in which something is hidden look at what
hides; the logarithms of the rows' sums are left for the gradients.
"""

from __future__ import annotations

import math
from typing import Any

from calor_kernel.language import (
    Pipeline,
    cube_count,
    cube_position,
    kernel,
    loop_range,
    select,
)
from calor_kernel.library.attention.fragments import (
    LOG2_E,
    Fragments,
    Hidden,
    add_scores,
    add_weighted,
    lines_of,
    operands,
    power_of_two,
    settle,
    weigh,
)
from calor_kernel.library.attention.problem import finite, given
from calor_kernel.library.math import log


@kernel
def attend_fragments(
    out: Any,
    total: Any,
    value_width: Any,
    *numbers: Any,
    plan: Fragments,
    kinds: tuple[str, ...],
    causal: bool,
    adjusted: bool,
) -> None:
    """Compute rows of the result: a cube's rows from x, the longest first, head y of batch z."""
    g = given(numbers)
    n, head = cube_position(2), cube_position(1)
    number = cube_count(0) - 1 - cube_position(0) if causal else cube_position(0)
    first = number * plan.rows
    stop = min(g.keys, first + plan.rows) if causal else g.keys
    # Scores are products times the scale, which the exponents are multiplied by.
    factor = LOG2_E if adjusted else g.scale * LOG2_E
    query = lines_of(g.query, g.query_strides, n, head, g.queries, g.features)
    key = lines_of(g.key, g.key_strides, n, head // g.group, stop, g.features)
    value = lines_of(g.value, g.value_strides, n, head // g.group, stop, value_width)
    own = Pipeline(1, plan.tile(plan.rows, plan.features), how="async")
    pipe = Pipeline(
        2, plan.tile(plan.block, plan.features), plan.tile(plan.block, plan.values), how="async"
    )
    own.acquire()
    query.take(own, 0, first, plan.rows, plan.features, plan)
    own.commit()
    pipe.acquire()
    key.take(pipe, 0, 0, plan.block, plan.features, plan)
    value.take(pipe, 1, 0, plan.block, plan.values, plan)
    pipe.commit()
    row = plan.first_row()
    held = None
    if plan.held:
        own.wait(1)
        held = operands(own.stage(0), row, plan.features, plan)
    sums = plan.sums(plan.values)
    largest = [sums[i][0].band(1, -math.inf) for i in range(plan.high)]
    powers = [sums[i][0].band(1) for i in range(plan.high)]
    hidden = Hidden(g, kinds, causal, adjusted, n, head, False)
    for begin in loop_range(0, stop, plan.block):
        pipe.wait()
        pipe.acquire()
        key.take(pipe, 0, begin + plan.block, plan.block, plan.features, plan)
        value.take(pipe, 1, begin + plan.block, plan.block, plan.values, plan)
        pipe.commit()
        scores = plan.sums(plan.block)
        add_scores(scores, own.stage(0), row, held, pipe.stage(0), plan.features, plan)
        settle(plan, scores)
        reach = min(g.keys, first + row + 1) if causal else g.keys
        hidden.adjust_some(scores, first + row, begin, reach, plan)
        for i in range(plan.high):
            best = scores[i][0].copy()
            for other in scores[i][1:]:
                best.map(lambda x, y: max(x, y), other)
            top = best.reduce("max").map(lambda x, y: max(x, y), largest[i])
            shift = top.copy().map(lambda x: finite(x) * -factor)
            fade = largest[i].copy().map(lambda x, s: power_of_two(x * factor + s), shift)
            largest[i].map(lambda _, x: x, top)
            for tile in scores[i]:
                weigh(tile, factor, shift)
            total_of = scores[i][0].copy()
            for other in scores[i][1:]:
                total_of.map(lambda x, y: x + y, other)
            powers[i].map(lambda x, f, y: x * f + y, fade, total_of.reduce("add"))
            for tile in sums[i]:
                tile.map_band(lambda x, f: x * f, fade)
        add_weighted(sums, scores, pipe.stage(1), plan.values, plan)
        settle(plan, sums)
        pipe.release()
    row_at = (n * g.heads + head) * g.queries
    shape = plan.shape(plan.values)
    for i in range(plan.high):
        under = powers[i]
        inverse = under.copy().map(lambda x: 1.0 / select(x > 0.0, x, 1.0))
        begin = first + row + i * shape.m
        for j, tile in enumerate(sums[i]):
            tile.map_band(lambda x, f: x * f, inverse)
            place = out.at((row_at + begin) * value_width + j * shape.n)
            limits = (g.queries - begin, value_width - j * shape.n)
            tile.store(place, (value_width, 1), limits=limits)
        down, right = sums[i][0].lane_place()
        for k in range(len(under.keys)):
            place = begin + down + under.keys[k]
            if (right == 0) and (place < g.queries):
                scale = 1.0 if adjusted else g.scale
                made = finite(largest[i].items[k]) * scale + log(under.items[k])
                total[row_at + place] = made
