"""Attention and its gradients by cubes of many units whose tiles hold all features of their rows.

Requirements: a cube copies its own rows once, and the others' tiles ahead of their use, in copies
that occupy no registers where the device has such; elsewhere a unit copies by registers, and waits.
The tile of a product is the tile of the sums that follow. Features lie side by side, and operands
have the dtype of the sums. Orders of sums are those of
:mod:`~calor_kernel.library.attention.simt`.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.library.attention.gradient_parts import part_of_cube
from calor_kernel.library.attention.operands import (
    KernelOperands,
    Rows,
    ScoreForm,
    Upstream,
    query_rows,
    upstream_rows,
)
from calor_kernel.library.attention.simt_cube import (
    Cube,
    SimtPlan,
    cube_of,
    panel_of_cube,
    softmax_of,
)

# Copies of a unit that are written out.
_TURNS = 8


@kl.helper
def take(cube: Cube, room: kl.Pointer, source: Rows, first: kl.Index, size: int) -> None:
    """Start a group of copies: ``size`` whole rows from ``first`` on, 0 beyond the operand."""
    plan = cube.plan
    access, units = plan.access, plan.units
    pieces = plan.across_row // access
    turns = -(-size * pieces // units)
    together = next(n for n in range(min(turns, _TURNS), 0, -1) if turns % n == 0)
    ahead = kl.has("async_copy")
    for turn in kl.loop_range(0, turns, together) if turns > together else (0,):
        taken = []
        for k in range(together):
            i = kl.unit_index() + (turn + k) * units
            row, column = i // pieces, i % pieces * access
            inside = (first + row < source.count) & (column < source.width)
            at = source.at + (first + row) * source.row_step + column
            there, to = (
                (size * pieces % units == 0) or (i < size * pieces),
                row * plan.line + column,
            )
            if ahead:
                if there:
                    kl.copy_ahead(room, to, source.memory, at, access, inside)
            else:
                taken.append((there, to, source.memory.load(at, access, mask=inside)))
        # All loads are issued before the first is used.
        for there, to, value in taken:
            if there:
                room.store(to, value)
    commit()


def commit() -> None:
    """Make a group of the copies that a unit started."""
    if kl.has("async_copy"):
        kl.commit_ahead()


def wait(pending: int = 0) -> None:
    """Wait for a unit's groups of copies, all but the latest."""
    if kl.has("async_copy"):
        kl.wait_ahead(pending)


def rooms_of(cube: Cube, *sizes: int) -> list[kl.Pointer]:
    """Return the rooms of tiles of so many rows."""
    firsts = [sum(sizes[:i]) for i in range(len(sizes))]
    assert sum(sizes) == cube.plan.held
    return [cube.room.at(first * cube.plan.line) for first in firsts]


@kl.helper
def products(
    cube: Cube, left: kl.Pointer, right: kl.Pointer, first: kl.Index, begin: kl.Index
) -> kl.Registers:
    """Return the products of the rows of tiles of queries from ``first``, keys from ``begin``.

    Tiles at the ends that have only the first row, or key, of each unit are computed as such.
    """
    plan, g = cube.plan, cube.g
    made = kl.registers((plan.rows, plan.keys), cube.dtype)
    if first + plan.down >= g.queries:
        cube.multiply(made, left, right, rows=1)
    elif begin + plan.across >= g.keys:
        cube.multiply(made, left, right, keys=1)
    else:
        cube.multiply(made, left, right)
    return made


@kl.helper
def gather(
    cube: Cube, sums: kl.Registers, room: kl.Pointer, count: kl.Index, own: kl.Index
) -> None:
    """Add factors times rows, of which there are ``count``; there are ``own`` rows of sums."""
    plan = cube.plan
    if own <= plan.down:
        cube.gather(sums, room, plan.line, count, 1)
    else:
        cube.gather(sums, room, plan.line, count)


@kl.helper
def arrive(pending: int = 0) -> None:
    """Wait for the cube's copies, all but the latest groups."""
    wait(pending)
    kl.barrier()


@kl.kernel
def attend_whole(
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
    """Compute a tile: rows from x, a head from y, batch z; a panel has all features."""
    n, head, panel = panel_of_cube(panels)
    first = kl.cube_position(0) * plan.height
    cube = cube_of(plan, form, g, value_width, total.dtype)
    own, keys, values = rooms_of(cube, plan.height, plan.block, plan.block)
    query, key, value = cube.heads(n, head)
    state = softmax_of(cube)
    take(cube, own, query, first, plan.height)
    take(cube, keys, key, first * 0, plan.block)
    stop = kl.min(g.keys, first + plan.height) if form.causal else g.keys
    for begin in kl.loop_range(0, stop, plan.block):
        # All units have finished with the values and the weights before.
        arrive()
        take(cube, values, value, begin, plan.block)
        scores = products(cube, own, keys, first, begin)
        state.weigh(scores, n, head, first, begin)
        cube.keep(scores)
        arrive()
        take(cube, keys, key, begin + plan.block, plan.block)
        gather(cube, state.sums, values, g.keys - begin, g.queries - first)
    wait()
    state.write(out, total, rest, n, head, panel, first)


@kl.kernel
def query_gradient_whole(
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
    """Compute the gradient of a tile of queries.

    ``parts``: how many cubes share the keys of a tile; each writes sums of its own.
    """
    dtype = up.total.dtype
    n, head, panel = panel_of_cube(panels)
    tile, _, part = part_of_cube(parts)
    first = tile * plan.height
    cube = cube_of(plan, form, g, value_width, dtype)
    height, block = plan.height, plan.block
    own, above, keys, values = rooms_of(cube, height, height, block, block)
    query, key, value = cube.heads(n, head)
    row_at = (n * g.heads + head) * g.queries
    upstream = upstream_rows(up, row_at, g, value_width)
    sums = kl.registers((plan.rows, plan.values), dtype)
    start, stop, to = cube.keys_of(first, row_at, parts, part)
    take(cube, above, upstream, first, height)
    take(cube, own, query, first, height)
    take(cube, values, value, start, block)
    take(cube, keys, key, start, block)
    numbers = cube.numbers(up, n, head, first)
    for begin in kl.loop_range(start, stop, block):
        arrive(1)
        inner = products(cube, above, values, first, begin)
        arrive()
        take(cube, values, value, begin + block, block)
        weights = products(cube, own, keys, first, begin)
        cube.differentiate(weights, inner, numbers, n, head, first, begin)
        cube.keep(inner)
        kl.barrier()
        gather(cube, sums, keys, g.keys - begin, g.queries - first)
        kl.barrier()
        take(cube, keys, key, begin + block, block)
    wait()
    cube.put_tile(for_query, sums, g.scale, first, g.queries, to * g.features, g.features, panel)


@kl.kernel
def key_gradient_whole(
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
    """Compute the gradients of a tile of keys and values.

    ``parts``: how many cubes share the queries of a tile; each writes sums of its own.
    """
    dtype, height, block = up.total.dtype, plan.height, plan.block
    n, key_head, panel = panel_of_cube(panels)
    tile, _, part = part_of_cube(parts)
    begin = tile * block
    cube = cube_of(plan, form, g, value_width, dtype)
    keys, values, queries, above = rooms_of(cube, block, block, height, height)
    key_at = (n * g.key_heads + key_head) * g.keys
    start, stop, key_at = cube.queries_of(begin, key_at, parts, part)
    key, value = cube.key_heads(n, key_head)
    key_sums = kl.registers((plan.rows, plan.values), dtype)
    value_sums = kl.registers((plan.rows, plan.values), dtype)
    take(cube, values, value, begin, block)
    take(cube, keys, key, begin, block)
    for head in kl.loop_range(key_head * g.group, (key_head + 1) * g.group):
        row_at = (n * g.heads + head) * g.queries
        query = query_rows(g, n, head, form.contiguous[0])
        upstream = upstream_rows(up, row_at, g, value_width)
        # Copies to these rooms that were started for the head before.
        wait()
        take(cube, above, upstream, start, height)
        take(cube, queries, query, start, height)
        for first in kl.loop_range(start, stop, height):
            arrive(1)
            numbers = cube.numbers(up, n, head, first)
            inner = products(cube, above, values, first, begin)
            arrive()
            weights = products(cube, queries, keys, first, begin)
            cube.differentiate(weights, inner, numbers, n, head, first, begin)
            cube.keep(weights, turned=True)
            kl.barrier()
            gather(cube, value_sums, above, g.queries - first, g.keys - begin)
            kl.barrier()
            take(cube, above, upstream, first + height, height)
            cube.keep(inner, turned=True)
            kl.barrier()
            gather(cube, key_sums, queries, g.queries - first, g.keys - begin)
            kl.barrier()
            take(cube, queries, query, first + height, height)
    wait()
    at = key_at * g.features
    cube.put_tile(for_key, key_sums, g.scale, begin, g.keys, at, g.features, panel)
    at = key_at * value_width
    cube.put_tile(for_value, value_sums, None, begin, g.keys, at, value_width, panel)
