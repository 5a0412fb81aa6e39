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
    fragment,
    kernel,
    loop_range,
    plane_position,
    select,
)
from calor_kernel.library.attention.fragments import (
    LOG2_E,
    Fragments,
    Hidden,
    add_weighted,
    lines_of,
    operands,
    power_of_two,
    scores_of,
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
    shape = plan.shape
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
    row = plane_position() * (plan.high * shape.m)
    at = plan.lines(plan.rows, plan.features)
    held = None
    if plan.held:
        own.wait(1)
        held = operands(own.stage(0), at, row, plan.high, plan.features, plan)
    across = plan.values // shape.n
    sums = [[fragment(shape, "c") for _ in range(across)] for _ in range(plan.high)]
    powers = [fragment(shape, "c") for _ in range(plan.high)]
    largest = [sums[i][0].band(1, -math.inf) for i in range(plan.high)]
    hidden = Hidden(g, kinds, causal, adjusted, n, head, False)
    for begin in loop_range(0, stop, plan.block):
        pipe.wait()
        pipe.acquire()
        key.take(pipe, 0, begin + plan.block, plan.block, plan.features, plan)
        value.take(pipe, 1, begin + plan.block, plan.block, plan.values, plan)
        pipe.commit()
        scores = scores_of(
            own.stage(0), at, row, held, pipe.stage(0), plan.block, plan.features, plan
        )
        reach = min(g.keys, first + row + 1) if causal else g.keys
        hidden.adjust_some(scores, first + row, begin, reach, plan)
        for i in range(plan.high):
            best = scores[i][0].copy()
            for j in range(1, plan.block // shape.n):
                best.map(lambda x, y: max(x, y), scores[i][j])
            top = best.reduce("max").map(lambda x, y: max(x, y), largest[i])
            shift = top.copy().map(lambda x: finite(x) * -factor)
            fade = largest[i].copy().map(lambda x, s: power_of_two(x * factor + s), shift)
            largest[i].map(lambda _, x: x, top)
            powers[i].map_band(lambda x, f: x * f, fade)
            for j in range(plan.block // shape.n):
                weigh(scores[i][j], factor, shift)
                powers[i].map(lambda x, y: x + y, scores[i][j])
            for j in range(across):
                sums[i][j].map_band(lambda x, f: x * f, fade)
        add_weighted(sums, scores, pipe.stage(1), plan.block, plan.values, plan)
        pipe.release()
    row_at = (n * g.heads + head) * g.queries + first + row
    for i in range(plan.high):
        under = powers[i].reduce("add")
        inverse = under.copy().map(lambda x: 1.0 / select(x > 0.0, x, 1.0))
        limits = (g.queries - (first + row + i * shape.m), value_width)
        for j in range(across):
            sums[i][j].map_band(lambda x, f: x * f, inverse)
            place = out.at((row_at + i * shape.m) * value_width + j * shape.n)
            limit = (limits[0], limits[1] - j * shape.n)
            sums[i][j].store(place, (value_width, 1), limits=limit)
        down, right = sums[i][0].lane_place()
        for k in range(len(under.keys)):
            place = down + under.keys[k]
            if (right == 0) and (place < limits[0]):
                scale = 1.0 if adjusted else g.scale
                made = finite(largest[i].items[k]) * scale + log(under.items[k])
                total[row_at + i * shape.m + place] = made
