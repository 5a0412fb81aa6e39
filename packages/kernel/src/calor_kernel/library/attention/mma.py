"""Attention and its gradients by matrix instructions of planes or warp groups.

Requirements: the forward pass takes one pass over keys and values, with an online softmax, and
stores the log-sum-exp of each row for the gradients. Only blocks with hidden scores evaluate masks.
Nothing is atomic and each sum has a fixed order. So one pass over the scores computes the query
gradient, and another the gradients of keys and values. The second pass computes the scores
transposed, keys by queries, so that in both passes a plane's scores are in the layout of the next
product's operand. Copies run one step ahead. Rows and columns beyond the last contribute zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from calor_kernel import language as kl
from calor_kernel.library.attention.gradient_parts import part_of_cube
from calor_kernel.library.attention.mma_plan import MmaPlan, OwnRows
from calor_kernel.library.attention.mma_tiles import (
    LOG2_E,
    KeyParts,
    ScoreMask,
    drop_rounded,
    exponent,
    finish,
    keep_numbers,
    load_row_numbers,
    online_softmax,
    scale_sums,
    score_gradients,
    take_own_rows,
    take_rows,
    weigh,
)
from calor_kernel.library.attention.operands import (
    KernelOperands,
    ScoreForm,
    Upstream,
    finite,
    key_rows,
    query_rows,
    upstream_rows,
    value_rows,
)
from calor_kernel.library.attention.problem import ResultSteps
from calor_kernel.library.gemm.mma import settle
from calor_kernel.library.gemm.pipeline import fill_ahead, work_through


@dataclass(frozen=True, slots=True)
class Queries:
    """A cube of queries from ``first`` on, and keys that they attend to from ``start`` to ``stop``.

    ``part``: which part of the keys these are, if cubes share them. ``row``: the first row of a
    plane or warp group, and ``own`` its rows as operands. ``pipe``: the stages of keys and values,
    which ``take`` copies. ``factor``: the scale of exponents.
    """

    n: kl.Number
    head: kl.Number
    first: kl.Number
    start: kl.Index
    stop: kl.Number
    part: kl.Number | None
    row_at: kl.Number
    factor: kl.Number | float
    pipe: kl.Pipeline
    take: Callable[[kl.Number], None]
    row: kl.Number
    own: Sequence[OwnRows]


@kl.helper
def queries_of_cube(
    g: KernelOperands,
    value_width: kl.Number,
    plan: MmaPlan,
    form: ScoreForm,
    up: Upstream[kl.Pointer] | None = None,
    parts: kl.Number | None = None,
) -> Queries:
    """Return a cube's queries, rows from x, the longest first, head y, batch z; start copies."""
    n, head = kl.cube_position(2), kl.cube_position(1)
    number, tiles, part = part_of_cube(parts)
    if form.causal:
        number = tiles - 1 - number
    first = number * plan.rows
    start: kl.Index = 0
    stop = kl.min(g.keys, first + plan.rows) if form.causal else g.keys
    if parts is not None and part is not None:
        each = ((stop + plan.block - 1) // plan.block + parts - 1) // parts * plan.block
        start = part * each
        stop = kl.min(stop, start + each)
    row_at = (n * g.heads + head) * g.queries
    sources = [query_rows(g, n, head)]
    key = replace(key_rows(g, n, head // g.group), count=stop)
    value = replace(value_rows(g, n, head // g.group, value_width), count=stop)
    factor = exponent(g, form)
    if up is not None:
        sources.append(upstream_rows(up, row_at, g, value_width))
    own = take_own_rows(sources, first, plan)
    panels = [plan.panel(plan.block, room).tile for room in plan.rooms]
    pipe = kl.Pipeline(2, *panels, how=kl.way_of_units())

    def take(begin: kl.Number) -> None:
        for number, rows in enumerate((key, value)):
            take_rows(rows, pipe, number, begin, plan.block, plan.rooms[number], plan)

    fill_ahead(pipe, take, start, plan.block)
    row = plan.first_row()
    mine = plan.own_operands(own, plan.rooms[: len(sources)], row)
    return Queries(n, head, first, start, stop, part, row_at, factor, pipe, take, row, mine)


@kl.kernel
def attend_mma(
    out: kl.Out,
    total: kl.Out,
    rest: kl.Out | None,
    value_width: kl.Size,
    steps: ResultSteps[kl.Number] | None,
    rest_steps: ResultSteps[kl.Number] | None,
    parts: KeyParts[kl.Pointer, kl.Number] | None,
    g: KernelOperands,
    *,
    plan: MmaPlan,
    form: ScoreForm,
) -> None:
    """Compute rows of the result: a cube's rows from x, the longest first, head y of batch z.

    With ``parts``, so many cubes share the keys of these rows, and each writes sums of its own.
    """
    q = queries_of_cube(g, value_width, plan, form, parts=None if parts is None else parts.count)
    pipe, row, (mine,) = q.pipe, q.row, q.own
    sums = plan.sums(plan.values)
    largest = [sums[i][0].band(plan.axis, -math.inf) for i in range(plan.high)]
    powers = [sums[i][0].band(plan.axis) for i in range(plan.high)]
    mask = ScoreMask(g, form, q.n, q.head)

    def work(begin: kl.Number) -> None:
        scores = plan.sums(plan.block)
        plan.add_scores(scores, mine, row, pipe.stage(0), plan.features)
        settle(scores)
        mask.adjust_before(scores, q.first + row, begin, mask.reach(q.first, row), plan)
        for i in range(plan.high):
            correction = online_softmax(scores[i], largest[i], powers[i], q.factor, plan.axis)
            for tile in sums[i]:
                tile.map_band(lambda x, f: x * f, correction)
        plan.add_weighted(sums, scores, pipe.stage(1), plan.values)
        settle(sums)

    work_through(pipe, q.take, work, q.start, q.stop, plan.block)
    begin = q.first + row
    for i in range(plan.high):
        first = begin + i * plan.own
        if parts is None or q.part is None:
            finish(sums[i], largest[i], powers[i], total, q.row_at, first, g, form, plan)
        else:
            given = parts, q.part, q.row_at, first
            keep_numbers(sums[i], largest[i], powers[i], *given, g, form, plan)
    if parts is not None and q.part is not None:
        of_part = ((q.row_at + begin) * parts.count + q.part) * value_width
        apart = parts.count * value_width
        plan.store(sums, parts.sums, of_part, value_width, g.queries - begin, apart)
    for target, steps_of in ((out, steps), (rest, rest_steps)) if parts is None else ():
        if target is None:
            continue
        if target is rest:
            drop_rounded(sums, out.dtype)
        at, step = (q.row_at + begin) * value_width, None
        if steps_of is not None:
            at, step = steps_of.at(q.n, q.head, begin), steps_of.row
        plan.store(sums, target, at, value_width, g.queries - begin, step)


@kl.kernel
def query_gradient_mma(
    up: Upstream[kl.Pointer],
    for_query: kl.Out,
    value_width: kl.Size,
    steps: ResultSteps[kl.Number] | None,
    parts: kl.Size | None,
    g: KernelOperands,
    *,
    plan: MmaPlan,
    form: ScoreForm,
) -> None:
    """Compute the gradient of a cube's queries: rows from x, the longest first, head y, batch z.

    ``parts``: how many cubes share the keys of these rows; each writes sums of its own.
    """
    q = queries_of_cube(g, value_width, plan, form, up, parts)
    pipe, row, mine = q.pipe, q.row, q.own
    sums = plan.sums(plan.features)
    shifts = [sums[i][0].band(plan.axis) for i in range(plan.high)]
    alongs = [sums[i][0].band(plan.axis) for i in range(plan.high)]
    down, _ = plan.places(sums[0][0])
    for i in range(plan.high):
        place = q.first, row, i * plan.own, down
        load_row_numbers(shifts[i], alongs[i], up, q.row_at, place, g.queries)
    mask = ScoreMask(g, form, q.n, q.head)

    def work(begin: kl.Number) -> None:
        # Both are initialised before either product is issued, so that the products run in order.
        scores, inner = plan.sums(plan.block), plan.sums(plan.block)
        plan.add_scores(scores, mine[0], row, pipe.stage(0), plan.features)
        plan.add_scores(inner, mine[1], row, pipe.stage(1), plan.values)
        settle(scores, inner)
        # Keys beyond the last are hidden: their rows are zeros, and the weight may be infinite.
        mask.adjust_before(scores, q.first + row, begin, mask.reach(q.first, row), plan)
        for i in range(plan.high):
            for weights, slopes in zip(scores[i], inner[i], strict=True):
                weigh(weights, q.factor, shifts[i])
                score_gradients(slopes, weights, alongs[i])
        plan.add_weighted(sums, inner, pipe.stage(0), plan.features)
        settle(sums)

    work_through(pipe, q.take, work, q.start, q.stop, plan.block)
    scale_sums(sums, g.scale)
    top = q.first + row
    at, step = (q.row_at + top) * g.features, None
    if steps is not None:
        at, step = steps.at(q.n, q.head, top), steps.row
    if q.part is not None:
        at = at + q.part * (kl.cube_count(2) * g.heads * g.queries * g.features)
    plan.store(sums, for_query, at, g.features, g.queries - top, step)


@kl.kernel
def key_gradient_mma(
    up: Upstream[kl.Pointer],
    for_key: kl.Out,
    for_value: kl.Out,
    value_width: kl.Size,
    key_steps: ResultSteps[kl.Number] | None,
    value_steps: ResultSteps[kl.Number] | None,
    parts: kl.Size | None,
    g: KernelOperands,
    *,
    plan: MmaPlan,
    form: ScoreForm,
    which: tuple[bool, bool],
) -> None:
    """Compute the gradients of a cube's keys and values: rows from x, key head y, batch z.

    ``which``: whether those of keys, and those of values, are computed. ``parts``: how many cubes
    share the queries of these rows; each writes sums of its own.
    """
    n, key_head = kl.cube_position(2), kl.cube_position(1)
    tile, _, part = part_of_cube(parts)
    first, block = tile * plan.rows, plan.block
    factor = exponent(g, form)
    sources = key_rows(g, n, key_head), value_rows(g, n, key_head, value_width)
    own = take_own_rows(sources, first, plan)
    panels = [plan.panel(block, room).tile for room in plan.rooms]
    pipe = kl.Pipeline(2, *panels, plan.numbers, plan.numbers, how=kl.way_of_units())
    # Steps: for each head of the group, the blocks of queries that attend to the cube's keys.
    start = first // block if form.causal else first * 0
    blocks = kl.max((g.queries + block - 1) // block - start, 0)
    steps, begin = blocks * g.group, blocks * 0
    if parts is not None and part is not None:
        each = (steps + parts - 1) // parts
        begin = kl.min(part * each, steps)
        steps = kl.min(begin + each, steps)
    # The head and the block of the next copy, and of the current work.
    ahead, here = kl.registers(2, key_head.dtype), kl.registers(2, key_head.dtype)
    for place in (ahead, here):
        place[0], place[1] = key_head * g.group, start
        if part is not None:
            head = begin // kl.max(blocks, 1)
            place[0], place[1] = place[0] + head, start + (begin - head * blocks)

    def take(step: kl.Number) -> None:
        if step < steps:
            head, base = ahead[0], ahead[1] * block
            row_at = (n * g.heads + head) * g.queries
            take_rows(query_rows(g, n, head), pipe, 0, base, block, plan.features, plan)
            upstream = upstream_rows(up, row_at, g, value_width)
            take_rows(upstream, pipe, 1, base, block, plan.values, plan)
            unit = kl.unit_index()
            if unit < block:
                there = base + unit < g.queries
                pipe.copy(2, unit, up.total, row_at + base + unit, 1, there)
                pipe.copy(3, unit, up.delta, row_at + base + unit, 1, there)
        next_block(ahead, start, blocks)

    fill_ahead(pipe, take, begin, 1)
    row = plan.first_row()
    mine = plan.own_operands(own, plan.rooms, row)
    of_keys, of_values = which
    key_sums = plan.sums(plan.features) if of_keys else []
    value_sums = plan.sums(plan.values) if of_values else []

    def work(step: kl.Number) -> None:
        base = here[1] * block
        # Both are initialised before either product is issued, so that the products run in order.
        scores, inner = plan.sums(block), plan.sums(block)
        plan.add_scores(scores, mine[0], row, pipe.stage(0), plan.features)
        if of_keys:
            plan.add_scores(inner, mine[1], row, pipe.stage(1), plan.values)
        settle(scores, inner)
        mask = ScoreMask(g, form, n, here[0], by_keys=True)
        # Whether all queries of the block attend to all keys of the plane.
        clear = first + row + plan.high * plan.own <= base + 1
        mask.adjust_by_keys(scores, first + row, base, clear, plan)
        for j in range(len(scores[0])):
            shift, along = (scores[0][j].band(1 - plan.axis) for _ in range(2))
            _, right = plan.places(scores[0][j])
            for k in range(len(shift.keys)):
                place = j * plan.other + right + shift.keys[k]
                shift.items[k] = finite(pipe.stage(2)[place]) * -LOG2_E
                along.items[k] = pipe.stage(3)[place]
            for i in range(plan.high):
                weigh(scores[i][j], factor, shift)
                if of_keys:
                    score_gradients(inner[i][j], scores[i][j], along)
        if of_values:
            plan.add_weighted(value_sums, scores, pipe.stage(1), plan.values)
        if of_keys:
            plan.add_weighted(key_sums, inner, pipe.stage(0), plan.features)
        settle(*(sums for sums in (value_sums, key_sums) if sums))
        next_block(here, start, blocks)

    work_through(pipe, take, work, begin, steps, 1)
    scale_sums(key_sums, g.scale)
    top = first + row
    for sums, target, width, steps_of in (
        (key_sums, for_key, g.features, key_steps),
        (value_sums, for_value, value_width, value_steps),
    ):
        at, step = ((n * g.key_heads + key_head) * g.keys + top) * width, None
        if steps_of is not None:
            at, step = steps_of.at(n, key_head, top), steps_of.row
        if part is not None:
            at = at + part * (kl.cube_count(2) * g.key_heads * g.keys * width)
        if sums:
            plan.store(sums, target, at, width, g.keys - top, step)


def next_block(place: kl.Registers, start: kl.Number, blocks: kl.Number) -> None:
    """Advance a head and a block of queries to the next block, or to the next head's first one."""
    later = place[1] + 1
    last = later == start + blocks
    place[0], place[1] = kl.select(last, place[0] + 1, place[0]), kl.select(last, start, later)
