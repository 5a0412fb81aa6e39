"""Attention and its gradients by cubes of many units that exchange weights within planes.

Requirements: where units copy by registers and the cubes of a core share little memory, loads are
on their way while a unit computes, several cubes share a core, and a unit has many scores, as
accesses to shared memory are what takes the time. So cubes hold a part of the features at a time,
and no scores: the units of a row are lanes of a plane, which read each other's. Own rows are rows
of scores in all passes, so no weights are turned. Orders of sums are those of
:mod:`~calor_kernel.library.attention.simt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

# Elements of an access to shared memory.
_WIDE = 4


def room_for(cube: Cube, size: int, depth: int) -> kl.Registers:
    """Return registers for a unit's accesses of a tile."""
    plan = cube.plan
    turns = -(-size * (depth // plan.access) // plan.units)
    return kl.registers((turns,), cube.dtype, plan.access)


@kl.helper
def fetch(
    cube: Cube, ahead: kl.Registers, source: Rows, first: kl.Index, begin: kl.Index, depth: int
) -> None:
    """Begin to load a unit's accesses of rows from ``first`` on, of features from ``begin`` on."""
    plan = cube.plan
    pieces = depth // plan.access
    for turn in range(ahead.shape[0]):
        i = kl.unit_index() + turn * plan.units
        row, place = first + i // pieces, begin + i % pieces * plan.access
        ahead[turn] = cube.piece(source, row, place, plan.access)


@kl.helper
def put(
    cube: Cube, tile: kl.Pointer, pitch: int, ahead: kl.Registers, size: int, depth: int
) -> None:
    """Write what was loaded to a tile of ``size`` rows."""
    plan = cube.plan
    pieces = depth // plan.access
    for turn in range(ahead.shape[0]):
        i = kl.unit_index() + turn * plan.units
        if (size * pieces % plan.units == 0) or (i < size * pieces):
            tile.store(i // pieces * pitch + i % pieces * plan.access, ahead[turn])


@dataclass(frozen=True, slots=True)
class Factors:
    """The operands of products, and a part of their features on its way."""

    cube: Cube
    left: Rows
    right: Rows
    ahead: tuple[kl.Registers, kl.Registers]

    @kl.helper
    def fetch(self, first: kl.Index, begin: kl.Index, place: kl.Index) -> None:
        """Begin to load features from ``place`` on of rows from ``first``, and from ``begin``."""
        depth = self.cube.plan.depth
        fetch(self.cube, self.ahead[0], self.left, first, place, depth)
        fetch(self.cube, self.ahead[1], self.right, begin, place, depth)

    @kl.helper
    def products(self, first: kl.Index, begin: kl.Index) -> kl.Registers:
        """Return the products of rows, whose first features are on their way."""
        cube, plan = self.cube, self.cube.plan
        made = kl.registers((plan.rows, plan.keys), cube.dtype)
        right = cube.room.at(plan.height * plan.line)
        for place in kl.loop_range(0, self.left.width, plan.depth):
            # All units have finished with what was in the room.
            kl.barrier()
            put(cube, cube.room, plan.line, self.ahead[0], plan.height, plan.depth)
            put(cube, right, plan.line, self.ahead[1], plan.block, plan.depth)
            kl.barrier()
            self.fetch(first, begin, place + plan.depth)
            cube.multiply(made, cube.room, right)
        return made


def factors_of(cube: Cube, left: Rows, right: Rows) -> Factors:
    """Return the operands of products whose first rows are a cube's own."""
    plan = cube.plan
    rooms = room_for(cube, plan.height, plan.depth), room_for(cube, plan.block, plan.depth)
    return Factors(cube, left, right, rooms)


@kl.helper
def add_rows(
    cube: Cube,
    sums: kl.Registers,
    factors: kl.Registers,
    source: Rows,
    first: kl.Index,
    ahead: kl.Registers,
) -> None:
    """Add factors of lanes times rows from ``first`` on, the first of which are on their way.

    A row of factors is that of the sums.
    """
    plan = cube.plan
    others = kl.lane_position() - kl.unit_position(0)
    for begin in range(0, plan.block, plan.part):
        kl.barrier()
        put(cube, cube.room, plan.width, ahead, plan.part, plan.width)
        kl.barrier()
        if begin + plan.part < plan.block:
            fetch(cube, ahead, source, first + (begin + plan.part), first * 0, plan.width)
        for j in range(begin // plan.across, (begin + plan.part) // plan.across):
            at = j * plan.across - begin
            own = [factors[i, j] for i in range(plan.rows)]
            for lane in kl.loop_range(0, plan.across, _WIDE):
                _add_keys(cube, sums, own, others + lane, at + lane)


@kl.helper
def _add_keys(
    cube: Cube,
    sums: kl.Registers,
    factors: Sequence[kl.Number],
    lane: kl.Index,
    row: kl.Index,
) -> None:
    """Add the factors of adjacent lanes times rows of the room."""
    plan, together = cube.plan, cube.plan.together
    rows = [
        [
            cube.room.load((row + e) * plan.width + plan.value(v), together)
            for v in range(0, plan.values, together)
        ]
        for e in range(_WIDE)
    ]
    for i in range(plan.rows):
        for e in range(_WIDE):
            x = kl.plane_shuffle(factors[i], lane + e)
            for j in range(plan.values):
                y = rows[e][j // together]
                one = y[j % together] if together > 1 else y
                sums[i, j] = kl.fma(x, one, sums[i, j])


@kl.kernel
def attend_shuffled(
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
    query, key, value = cube.heads(n, head)
    state = softmax_of(cube)
    factors = factors_of(cube, query, key)
    ahead = room_for(cube, plan.part, plan.width)
    stop = kl.min(g.keys, first + plan.height) if form.causal else g.keys
    factors.fetch(first, first * 0, first * 0)
    for begin in kl.loop_range(0, stop, plan.block):
        scores = factors.products(first, begin)
        fetch(cube, ahead, value, begin, first * 0, plan.width)
        state.weigh(scores, n, head, first, begin)
        factors.fetch(first, begin + plan.block, first * 0)
        add_rows(cube, state.sums, scores, value, begin, ahead)
    state.write(out, total, rest, n, head, panel, first)


@kl.kernel
def query_gradient_shuffled(
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
    query, key, value = cube.heads(n, head)
    row_at = (n * g.heads + head) * g.queries
    upstream = upstream_rows(up, row_at, g, value_width)
    sums = kl.registers((plan.rows, plan.values), dtype)
    start, stop, to = cube.keys_of(first, row_at, parts, part)
    scores, inside = factors_of(cube, query, key), factors_of(cube, upstream, value)
    ahead = room_for(cube, plan.part, plan.width)
    scores.fetch(first, start, first * 0)
    numbers = cube.numbers(up, n, head, first)
    for begin in kl.loop_range(start, stop, plan.block):
        inside.fetch(first, begin, first * 0)
        weights = scores.products(first, begin)
        inner = inside.products(first, begin)
        fetch(cube, ahead, key, begin, first * 0, plan.width)
        cube.differentiate(weights, inner, numbers, n, head, first, begin)
        scores.fetch(first, begin + plan.block, first * 0)
        add_rows(cube, sums, inner, key, begin, ahead)
    cube.put_tile(for_query, sums, g.scale, first, g.queries, to * g.features, g.features, panel)


@kl.kernel
def key_gradient_shuffled(
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
    """Compute the gradients of a tile of keys and values, which are the rows of scores.

    ``parts``: how many cubes share the queries of a tile; each writes sums of its own.
    """
    dtype = up.total.dtype
    n, key_head, panel = panel_of_cube(panels)
    tile, _, part = part_of_cube(parts)
    begin = tile * plan.height
    cube = cube_of(plan, form, g, value_width, dtype)
    key_at = (n * g.key_heads + key_head) * g.keys
    start, stop, key_at = cube.queries_of(begin, key_at, parts, part, plan.block)
    key, value = cube.key_heads(n, key_head)
    key_sums = kl.registers((plan.rows, plan.values), dtype)
    value_sums = kl.registers((plan.rows, plan.values), dtype)
    for head in kl.loop_range(key_head * g.group, (key_head + 1) * g.group):
        row_at = (n * g.heads + head) * g.queries
        query = query_rows(g, n, head, form.contiguous[0])
        upstream = upstream_rows(up, row_at, g, value_width)
        scores, inside = factors_of(cube, key, query), factors_of(cube, value, upstream)
        ahead = room_for(cube, plan.part, plan.width)
        scores.fetch(begin, start, begin * 0)
        for first in kl.loop_range(start, stop, plan.block):
            inside.fetch(begin, first, begin * 0)
            weights = scores.products(begin, first)
            inner = inside.products(begin, first)
            fetch(cube, ahead, upstream, first, begin * 0, plan.width)
            _differentiate(cube, weights, inner, up, n, head, first, begin)
            add_rows(cube, value_sums, weights, upstream, first, ahead)
            fetch(cube, ahead, query, first, begin * 0, plan.width)
            scores.fetch(begin, first + plan.block, begin * 0)
            add_rows(cube, key_sums, inner, query, first, ahead)
    at = key_at * g.features
    cube.put_tile(for_key, key_sums, g.scale, begin, g.keys, at, g.features, panel)
    at = key_at * value_width
    cube.put_tile(for_value, value_sums, None, begin, g.keys, at, value_width, panel)


@kl.helper
def _differentiate(
    cube: Cube,
    weights: kl.Registers,
    inner: kl.Registers,
    up: Upstream[kl.Pointer],
    n: kl.Index,
    head: kl.Index,
    first: kl.Index,
    begin: kl.Index,
) -> None:
    """Make weights of products, and gradients of scores; a unit's rows are keys."""
    plan, count = cube.plan, range(cube.plan.keys)
    shifts, along = cube.numbers_at(up, n, head, [first + plan.column(j) for j in count])
    for i in range(plan.rows):
        for j in count:
            place = first + plan.column(j), begin + plan.row(i)
            x = cube.score(weights[i, j], n, head, *place)
            weights[i, j] = plan.weight(x - shifts[j])
            inner[i, j] = weights[i, j] * (inner[i, j] - along[j])
