"""The gradient of a bias by matrix instructions: gradients of scores, summed in registers.

Requirements: a cube owns a tile of the scores, and passes over the batches and heads that share it.
Rows of the next one are copied while one is computed. Nothing is atomic and sums have a fixed
order: where tiles leave cores idle, cubes share the batches of a tile, and parts are added after.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.library.attention.bias_gradient import BiasShape, share_of
from calor_kernel.library.attention.mma_plan import MmaPlan
from calor_kernel.library.attention.mma_tiles import (
    ScoreMask,
    exponent,
    load_row_numbers,
    score_gradients,
    take_rows,
    weigh,
)
from calor_kernel.library.attention.operands import (
    KernelOperands,
    ScoreForm,
    Upstream,
    key_rows,
    query_rows,
    upstream_rows,
    value_rows,
)
from calor_kernel.library.gemm.mma import settle
from calor_kernel.library.gemm.pipeline import fill_ahead, work_through


@kl.kernel
def bias_gradient_mma(
    up: Upstream[kl.Pointer],
    parts: kl.Out,
    shape: BiasShape[kl.Number],
    value_width: kl.Size,
    g: KernelOperands,
    *,
    plan: MmaPlan,
    form: ScoreForm,
    stages: int,
) -> None:
    """Compute a tile of queries from x and keys from y, of a share of the batches of matrix z.

    With one of ``stages`` there is one step.
    """
    batches, heads, part_at = share_of(kl.cube_position(2), shape, g.heads)
    first, begin = kl.cube_position(0) * plan.rows, kl.cube_position(1) * plan.block
    members = heads[1] - heads[0]
    steps = kl.max(batches[1] - batches[0], 0) * members
    factor = exponent(g, form)
    sizes = plan.rows, plan.rows, plan.block, plan.block
    rooms = (*plan.rooms, *plan.rooms)
    panels = [plan.panel(size, room).tile for size, room in zip(sizes, rooms, strict=True)]
    pipe = kl.Pipeline(stages, *panels, how=kl.way_of_units())

    def place(step: kl.Number) -> tuple[kl.Number, kl.Number]:
        n = step // members
        return batches[0] + n, heads[0] + (step - n * members)

    def take(step: kl.Number) -> None:
        if step < steps:
            n, head = place(step)
            upstream = upstream_rows(up, (n * g.heads + head) * g.queries, g, value_width)
            key_head = head // g.group
            take_rows(query_rows(g, n, head), pipe, 0, first, sizes[0], rooms[0], plan)
            take_rows(upstream, pipe, 1, first, sizes[1], rooms[1], plan)
            take_rows(key_rows(g, n, key_head), pipe, 2, begin, sizes[2], rooms[2], plan)
            values = value_rows(g, n, key_head, value_width)
            take_rows(values, pipe, 3, begin, sizes[3], rooms[3], plan)

    if stages == 1:
        pipe.acquire()
        take(steps * 0)
        pipe.commit()
    else:
        fill_ahead(pipe, take, steps * 0, 1)
    row = plan.first_row()
    sums = plan.sums(plan.block)
    down, _ = plan.places(sums[0][0])

    def work(step: kl.Number) -> None:
        n, head = place(step)
        row_at = (n * g.heads + head) * g.queries
        shifts = [sums[i][0].band(plan.axis) for i in range(plan.high)]
        alongs = [sums[i][0].band(plan.axis) for i in range(plan.high)]
        for i in range(plan.high):
            at = first, row, i * plan.own, down
            load_row_numbers(shifts[i], alongs[i], up, row_at, at, g.queries)
        scores, inner = plan.sums(plan.block), plan.sums(plan.block)
        own = [plan.own_panel(pipe.stage(i), rooms[i]) for i in range(2)]
        plan.add_scores(scores, own[0], row, pipe.stage(2), plan.features)
        plan.add_scores(inner, own[1], row, pipe.stage(3), plan.values)
        settle(scores, inner)
        mask = ScoreMask(g, form, n, head)
        # Keys beyond the last are hidden: their rows are zeros, and the weight may be infinite.
        mask.adjust_before(scores, first + row, begin, mask.reach(first, row), plan)
        for i in range(plan.high):
            for weights, slopes, total in zip(scores[i], inner[i], sums[i], strict=True):
                weigh(weights, factor, shifts[i])
                score_gradients(slopes, weights, alongs[i])
                total.map(lambda x, y: x + y, slopes)

    if stages == 1:
        pipe.wait()
        work(steps * 0)
    else:
        work_through(pipe, take, work, steps * 0, steps, 1)
    top = first + row
    at = part_at + top * shape.width + begin
    width = kl.min(g.keys - begin, plan.block)
    plan.store(sums, parts, at, width, g.queries - top, shape.width)
