"""Attention and its gradients by cubes of many units, with tiles in shared memory.

Requirements: only one tile of scores exists at a time. An online softmax follows the keys block by
block (Dao et al., "FlashAttention", 2022). Sums have a fixed order and nothing is atomic, so the
gradients of queries and of keys take two passes over the scores. Operands have any strides and
sizes. Tiles have the order of the operands: a unit reads vectors along the summed axis, so that an
access serves several products, and rows are padded, so that the vectors of neighbouring units lie
in different banks.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.library.attention.gradient_parts import part_of_cube
from calor_kernel.library.attention.operands import (
    KernelOperands,
    ScoreForm,
    Upstream,
    query_rows,
    upstream_rows,
)
from calor_kernel.library.attention.simt_cube import (
    SimtPlan,
    cube_of,
    panel_of_cube,
    softmax_of,
)


@kl.kernel
def attend_simt(
    out: kl.Out,
    total: kl.Out,
    rest: kl.Out | None,
    value_width: kl.Size,
    panels: kl.Size,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
) -> None:
    """Compute a tile: rows from x, a head and a panel of the values' features from y, batch z."""
    n, head, panel = panel_of_cube(panels)
    first = kl.cube_position(0) * plan.height
    cube = cube_of(plan, form, g, value_width, total.dtype)
    query, key, value = cube.heads(n, head)
    state = softmax_of(cube)
    stop = kl.min(g.keys, first + plan.height) if form.causal else g.keys
    for begin in kl.loop_range(0, stop, plan.block):
        scores = cube.products(query, key, first, begin)
        state.weigh(scores, n, head, first, begin)
        # All units have finished with the operands of the scores.
        kl.barrier()
        cube.keep(scores)
        cube.add_rows(state.sums, value, begin, panel * plan.width)
    state.write(out, total, rest, n, head, panel, first)


@kl.kernel
def query_gradient_simt(
    up: Upstream[kl.Pointer],
    for_query: kl.Out,
    value_width: kl.Size,
    panels: kl.Size,
    parts: kl.Size | None,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
) -> None:
    """Compute the gradient of a tile of queries, one panel of their features a cube.

    ``parts``: how many cubes share the keys of a tile; each writes sums of its own.
    """
    dtype = up.total.dtype
    n, head, panel = panel_of_cube(panels)
    tile, _, part = part_of_cube(parts)
    first = tile * plan.height
    cube = cube_of(plan, form, g, value_width, dtype)
    query, key, value = cube.heads(n, head)
    row_at = (n * g.heads + head) * g.queries
    upstream = upstream_rows(up, row_at, g, value_width)
    sums = kl.registers((plan.rows, plan.values), dtype)
    start, stop, to = cube.keys_of(first, row_at, parts, part)
    for begin in kl.loop_range(start, stop, plan.block):
        _, inner = cube.gradients(query, key, value, upstream, up, n, head, first, begin)
        kl.barrier()
        cube.keep(inner)
        cube.add_rows(sums, key, begin, panel * plan.width)
    cube.put_tile(for_query, sums, g.scale, first, g.queries, to * g.features, g.features, panel)


@kl.kernel
def key_gradient_simt(
    up: Upstream[kl.Pointer],
    for_key: kl.Out,
    for_value: kl.Out,
    value_width: kl.Size,
    panels: kl.Size,
    parts: kl.Size | None,
    g: KernelOperands,
    *,
    plan: SimtPlan,
    form: ScoreForm,
) -> None:
    """Compute the gradients of a tile of keys and values, one panel of their features a cube.

    ``parts``: how many cubes share the queries of a tile; each writes sums of its own.
    """
    dtype, height, width = up.total.dtype, plan.height, plan.width
    n, key_head, panel = panel_of_cube(panels)
    tile, _, part = part_of_cube(parts)
    begin = tile * plan.block
    cube = cube_of(plan, form, g, value_width, dtype)
    key_at = (n * g.key_heads + key_head) * g.keys
    start, stop, key_at = cube.queries_of(begin, key_at, parts, part)
    key, value = cube.key_heads(n, key_head)
    key_sums = kl.registers((plan.rows, plan.values), dtype)
    value_sums = kl.registers((plan.rows, plan.values), dtype)
    for head in kl.loop_range(key_head * g.group, (key_head + 1) * g.group):
        row_at = (n * g.heads + head) * g.queries
        query = query_rows(g, n, head, form.contiguous[0])
        upstream = upstream_rows(up, row_at, g, value_width)
        for first in kl.loop_range(start, stop, height):
            weights, inner = cube.gradients(query, key, value, upstream, up, n, head, first, begin)
            for factors, rows, sums in (
                (weights, upstream, value_sums),
                (inner, query, key_sums),
            ):
                kl.barrier()
                cube.keep(factors, turned=True)
                cube.add_rows(sums, rows, first, panel * width)
    at = key_at * g.features
    cube.put_tile(for_key, key_sums, g.scale, begin, g.keys, at, g.features, panel)
    at = key_at * value_width
    cube.put_tile(for_value, value_sums, None, begin, g.keys, at, value_width, panel)
