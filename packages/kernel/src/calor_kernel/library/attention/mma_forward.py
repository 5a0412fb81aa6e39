"""Attention by matrix instructions of planes, with an online softmax over blocks of keys.

Requirements: one pass over keys and values. Only blocks with hidden scores evaluate masks. The
log-sum-exp of each row is stored for the gradients.
"""

from __future__ import annotations

import math
from typing import Any

from calor_kernel.language import Pipeline, kernel, way_of_units
from calor_kernel.library.attention.mma_plan import Fragments
from calor_kernel.library.attention.mma_tiles import (
    Hidden,
    exponent,
    finish,
    follow,
    own_rows,
    queries_of_cube,
)
from calor_kernel.library.gemm.mma import settle
from calor_kernel.library.gemm.pipeline import fill_ahead, work_through


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
            fade = follow(scores[i], largest[i], powers[i], factor, plan.axis)
            for tile in sums[i]:
                tile.map_band(lambda x, f: x * f, fade)
        plan.add_weighted(sums, scores, pipe.stage(1), plan.values)
        settle(sums)

    work_through(pipe, take, work, 0, q.stop, plan.block)
    begin = q.first + row
    for i in range(plan.high):
        first = begin + i * plan.own
        finish(sums[i], largest[i], powers[i], total, q.row_at, first, g, adjusted, plan)
    plan.store(sums, out, (q.row_at + begin) * value_width, value_width, g.queries - begin)
