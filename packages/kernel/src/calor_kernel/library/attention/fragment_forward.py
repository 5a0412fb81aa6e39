"""Attention by matrix instructions of planes: the softmax follows the keys block by block.

Requirements: one pass over keys and values; only blocks in which something is hidden look at what
hides; the logarithms of the rows' sums are left for the gradients.
"""

from __future__ import annotations

import math
from typing import Any

from calor_kernel.language import Pipeline, kernel, select, way_of_units
from calor_kernel.library.attention.fragment_plan import Fragments
from calor_kernel.library.attention.fragments import (
    Hidden,
    exponent,
    own_rows,
    power_of_two,
    queries_of_cube,
    weigh,
)
from calor_kernel.library.attention.problem import finite
from calor_kernel.library.math import log
from calor_kernel.library.panels import fill_ahead, settle, work_through


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
    q = queries_of_cube(numbers, value_width, causal, plan)
    g, factor, rooms = q.g, exponent(q.g, adjusted), (plan.features, plan.values)
    own = own_rows((q.query,), rooms[:1], q.first, plan)
    pipe = Pipeline(2, *(plan.panel(plan.block, room).tile for room in rooms), how=way_of_units())

    def take(begin: Any) -> None:
        q.take_keys(pipe, begin, plan)

    fill_ahead(pipe, take, 0, plan.block)
    row = plan.first_row()
    (mine,) = plan.own_operands(own, rooms[:1], row)
    sums = plan.sums(plan.values)
    largest = [sums[i][0].band(plan.axis, -math.inf) for i in range(plan.high)]
    powers = [sums[i][0].band(plan.axis) for i in range(plan.high)]
    hidden = Hidden(g, kinds, causal, adjusted, q.n, q.head, False)

    def work(begin: Any) -> None:
        scores = plan.sums(plan.block)
        plan.add_scores(scores, mine, row, pipe.stage(0), plan.features)
        settle(scores)
        hidden.adjust_some(scores, q.first + row, begin, q.reach(row, causal), plan)
        for i in range(plan.high):
            best = scores[i][0].copy()
            for other in scores[i][1:]:
                best.map(lambda x, y: max(x, y), other)
            top = best.reduce("max", plan.axis).map(lambda x, y: max(x, y), largest[i])
            shift = top.copy().map(lambda x: finite(x) * -factor)
            fade = largest[i].copy().map(lambda x, s: power_of_two(x * factor + s), shift)
            largest[i].map(lambda _, x: x, top)
            for tile in scores[i]:
                weigh(tile, factor, shift)
            total_of = scores[i][0].copy()
            for other in scores[i][1:]:
                total_of.map(lambda x, y: x + y, other)
            powers[i].map(lambda x, f, y: x * f + y, fade, total_of.reduce("add", plan.axis))
            for tile in sums[i]:
                tile.map_band(lambda x, f: x * f, fade)
        plan.add_weighted(sums, scores, pipe.stage(1), plan.values)
        settle(sums)

    work_through(pipe, take, work, 0, q.stop, plan.block)
    begin = q.first + row
    for i in range(plan.high):
        under = powers[i]
        inverse = under.copy().map(lambda x: 1.0 / select(x > 0.0, x, 1.0))
        for tile in sums[i]:
            tile.map_band(lambda x, f: x * f, inverse)
        down, right = plan.places(sums[i][0])
        for k in range(len(under.keys)):
            place = begin + i * plan.own + down + under.keys[k]
            if (right == 0) and (place < g.queries):
                scale = 1.0 if adjusted else g.scale
                made = finite(largest[i].items[k]) * scale + log(under.items[k])
                total[q.row_at + place] = made
    plan.store(sums, out, (q.row_at + begin) * value_width, value_width, g.queries - begin)
