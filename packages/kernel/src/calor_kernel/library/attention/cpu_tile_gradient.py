"""Gradients of attention on a CPU with tile registers: five products by tiles of bfloat16.

Requirements: as in the forward pass, scores and sums are float32, and a cube owns a range of keys,
so every sum has a fixed order. Scores are computed transposed, with a row for each key: so weights
and gradients of scores are rows of terms for the gradients of values and keys as they are written.
Squares of them are transposed in registers for the query's gradient. Each tile of scores is
weighed while it is in the first-level cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from calor.dtypes import bfloat16, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.contract.work import Output, Request, Work
from calor_kernel.language.tiles import TILE
from calor_kernel.library.attention.cpu import add_row
from calor_kernel.library.attention.cpu_launch import (
    PRIVATE,
    add_query_parts,
    form_of,
    gradient_shares,
    room_for,
)
from calor_kernel.library.attention.cpu_tile_registers import (
    PAIR,
    PANEL,
    STEP,
    STEP_SIZE,
    TileRows,
    copy_tile_rows,
    packed_pairs,
    tile_registers_refusal,
)
from calor_kernel.library.attention.cpu_tiles import Tiles, along, weight
from calor_kernel.library.attention.operands import (
    KernelOperands,
    ScoreForm,
    Upstream,
    finite,
    key_rows,
    least_bytes,
    operands_of,
    upstream_of,
    value_rows,
)
from calor_kernel.library.attention.problem import Attention, Operand
from calor_kernel.library.steps import Steps
from calor_kernel.library.transposition import transpose

# Keys and queries of a block; fewer keys if private memory holds no sums of more.
_KEYS, _QUERIES = (128, 64, 32), 128


@kl.kernel
def gradient_tile_registers(
    up: Upstream[kl.Pointer],
    query_panels: kl.In,
    upstream_panels: kl.In,
    query_lines: kl.In,
    upstream_lines: kl.In,
    key_lines: kl.In,
    for_query: kl.InOut,
    for_key: kl.Out,
    for_value: kl.Out,
    block_queries: kl.Size,
    block_keys: kl.Size,
    split: kl.Size,
    split_step: kl.Size,
    value_width: kl.Size,
    g: KernelOperands,
    *,
    tiles: Tiles,
    form: ScoreForm,
) -> None:
    """Compute gradients of ``split`` keys from x on, of key head y of batch z.

    Panels have queries as columns, and lines have them as terms, in pairs; ``key_lines`` has keys
    as terms. ``for_query`` has a piece of ``split_step`` elements for each x.
    """
    lanes, feature_room, value_room = tiles.lanes, tiles.feature_room, tiles.value_room
    n, key_head = kl.cube_position(2), kl.cube_position(1)
    start = kl.cube_position(0) * split
    stop = kl.min(start + split, g.keys)
    head_number = n * g.key_heads + key_head
    feature_count, value_count = (g.features + STEP - 1) // STEP, (value_width + STEP - 1) // STEP
    query_count, key_count = (g.queries + STEP - 1) // STEP, (g.keys + STEP - 1) // STEP
    lines_of_keys = key_lines.at(head_number * feature_count * key_count * STEP_SIZE)
    keys = TileRows(kl.private(tiles.key_room * feature_room, bfloat16, align=64), feature_room)
    values = TileRows(kl.private(tiles.key_room * value_room, bfloat16, align=64), value_room)
    key_sums = kl.private(tiles.key_room * feature_room, float32, align=64)
    value_sums = kl.private(tiles.key_room * value_room, float32, align=64)
    scores, slopes = (kl.private(PANEL * PANEL, float32, align=64) for _ in range(2))
    along_queries, along_keys = tiles.query_room + STEP, tiles.key_room + STEP
    weights, inner = (
        TileRows(kl.private(tiles.key_room * along_queries, bfloat16, align=64), along_queries)
        for _ in range(2)
    )
    turned = TileRows(kl.private(tiles.query_room * along_keys, bfloat16, align=64), along_keys)
    of_keys = key_rows(g, n, key_head, form.contiguous[1])
    of_values = value_rows(g, n, key_head, value_width, form.contiguous[2])
    for begin in kl.loop_range(start, stop, block_keys):
        count = kl.min(stop - begin, block_keys)
        whole = (count + PANEL - 1) // PANEL * PANEL
        copy_tile_rows(of_keys, keys.memory, feature_room, begin, begin + count, whole)
        copy_tile_rows(of_values, values.memory, value_room, begin, begin + count, whole)
        for sums, room in ((key_sums, feature_room), (value_sums, value_room)):
            for i in kl.loop_range(0, whole * room, lanes):
                sums.store(i, kl.constant(0, float32, lanes))
        for head in kl.loop_range(key_head * g.group, (key_head + 1) * g.group):
            row_number = n * g.heads + head
            row_at = row_number * g.queries
            by_feature = row_number * feature_count * query_count * STEP_SIZE
            by_value = row_number * value_count * query_count * STEP_SIZE
            first = begin // block_queries * block_queries if form.causal else begin * 0
            for base in kl.loop_range(first, g.queries, block_queries):
                height = kl.min(block_queries, g.queries - base)
                high = (height + PANEL - 1) // PANEL * PANEL
                seen = SeenByKeys(g, form, up, n, head, row_at)
                for column in kl.loop_range(0, high, PANEL):
                    panel = (base + column) * STEP
                    for row in kl.loop_range(0, whole, PANEL):
                        there = TilePosition(begin, row, count, base, column)
                        if form.causal and (base + column + PANEL <= begin + row):
                            clear_tile(weights, inner, turned, there)
                        else:
                            kl.tile_product(
                                scores, keys.memory.at(row * feature_room), feature_room,
                                query_panels.at(by_feature + panel * feature_count), PANEL * PAIR,
                                feature_count,
                            )  # fmt: skip
                            kl.tile_product(
                                slopes, values.memory.at(row * value_room), value_room,
                                upstream_panels.at(by_value + panel * value_count), PANEL * PAIR,
                                value_count,
                            )  # fmt: skip
                            weigh_tile(scores, slopes, weights, inner, turned, seen, there)
                terms = high // STEP
                at_line = base // STEP * STEP_SIZE
                lines = upstream_lines.at(by_value + at_line)
                add_tiles(
                    value_sums, value_room, weights, whole, lines, query_count, value_count, terms,
                    scores,
                )  # fmt: skip
                lines = query_lines.at(by_feature + at_line)
                add_tiles(
                    key_sums, feature_room, inner, whole, lines, query_count, feature_count, terms,
                    scores,
                )  # fmt: skip
                at = kl.cube_position(0) * split_step
                for row in kl.loop_range(0, high, PANEL):
                    for panel in kl.loop_range(0, feature_count):
                        kl.tile_product(
                            scores, turned.memory.at(row * along_keys), along_keys,
                            lines_of_keys.at((panel * key_count + begin // STEP) * STEP_SIZE),
                            PANEL * PAIR, whole // STEP,
                        )  # fmt: skip
                        for r in kl.loop_range(0, kl.min(PANEL, height - row)):
                            to = for_query.at(at + (row_at + base + row + r) * g.features)
                            made = [scores.load(r * PANEL + v, lanes) for v in (0, TILE)]
                            add_row(to, made, panel * PANEL, g.features, g.scale, begin > start)
        row = head_number * g.keys + begin
        for target, sums, room, width, factor in (
            (for_key, key_sums, feature_room, g.features, g.scale),
            (for_value, value_sums, value_room, value_width, 1.0),
        ):
            for i in kl.loop_range(count):
                for p in kl.loop_range(0, width, lanes):
                    value = (sums.load(i * room + p, lanes) * factor).to(target.dtype)
                    target.store((row + i) * width + p, value, mask=along(p, lanes) < width)


@kl.helper
def add_tiles(
    sums: kl.Pointer,
    room: int,
    left: TileRows,
    rows: kl.Number,
    lines: kl.Pointer,
    panel_steps: kl.Number,
    panels: kl.Number,
    steps: kl.Number,
    made: kl.Pointer,
) -> None:
    """Add the products of rows of terms with ``panels`` of ``panel_steps`` steps to sums."""
    lanes = TILE
    for row in kl.loop_range(0, rows, PANEL):
        for panel in kl.loop_range(0, panels):
            kl.tile_product(
                made, left.memory.at(row * left.stride), left.stride,
                lines.at(panel * panel_steps * STEP_SIZE), PANEL * PAIR, steps,
            )  # fmt: skip
            to = sums.at(row * room + panel * PANEL)
            for r in kl.loop_range(PANEL):
                for v in (0, TILE):
                    more = made.load(r * PANEL + v, lanes)
                    to.store(r * room + v, to.load(r * room + v, lanes) + more)


@dataclass(frozen=True, slots=True)
class SeenByKeys:
    """The queries of a head, as the keys of a tile see them, with a lane for each query."""

    g: KernelOperands
    form: ScoreForm
    up: Upstream[kl.Pointer]
    n: kl.Index
    head: kl.Index
    row_at: kl.Number


@dataclass(frozen=True, slots=True)
class TilePosition:
    """A tile of scores: its block's first key, first row and keys; first query and column."""

    begin: kl.Number
    row: kl.Number
    count: kl.Number
    base: kl.Number
    column: kl.Number


@kl.helper
def clear_tile(weights: TileRows, inner: TileRows, turned: TileRows, there: TilePosition) -> None:
    """Set the weights and gradients of a tile whose keys are hidden to zero."""
    zeros = kl.constant(0, bfloat16, PANEL)
    for r in kl.loop_range(PANEL):
        for rows in (weights, inner):
            rows.memory.store((there.row + r) * rows.stride + there.column, zeros)
        turned.memory.store((there.column + r) * turned.stride + there.row, zeros)


@kl.helper
def weigh_tile(
    scores: kl.Pointer,
    slopes: kl.Pointer,
    weights: TileRows,
    inner: TileRows,
    turned: TileRows,
    seen: SeenByKeys,
    there: TilePosition,
) -> None:
    """Turn a tile of scores and of products with values into weights and gradients of scores.

    ``turned``: the transpose of ``inner``.
    """
    g, form, lanes = seen.g, seen.form, TILE
    scale = kl.splat(g.scale, lanes)
    for v in (0, TILE):
        column = there.column + v
        query = along(there.base + column, lanes)
        inside = query < g.queries
        at = seen.row_at + there.base + column
        total = seen.up.total.load(at, lanes, mask=inside)
        shift, delta = finite(total), seen.up.delta.load(at, lanes, mask=inside)
        for group in kl.loop_range(0, PANEL, TILE):
            rows = []
            for r in range(TILE):
                local = there.row + group + r
                key = there.begin + local
                x = scores.load((group + r) * PANEL + v, lanes) * scale
                shown = kl.splat(local < there.count, lanes)
                for kind, extra in zip(form.kinds, g.extras, strict=True):
                    steps = extra.strides
                    place = seen.n * steps[0] + seen.head * steps[1] + key * steps[3]
                    value = extra.memory.load(place + query * steps[2], mask=inside & shown)
                    if kind == "bias":
                        x = x + value.to(x.dtype)
                    else:
                        shown = shown & value
                if form.causal:
                    shown = shown & (query >= key)
                x = weight(kl.select(shown, x, -math.inf) - shift)
                slope = x * (slopes.load((group + r) * PANEL + v, lanes) - delta)
                weights.memory.store(local * weights.stride + column, x.to(bfloat16))
                inner.memory.store(local * inner.stride + column, slope.to(bfloat16))
                rows.append(slope)
            for q, value in enumerate(transpose(rows)):
                to = (column + q) * turned.stride + there.row + group
                turned.memory.store(to, value.to(bfloat16))


def gradient_tiles_refusal(problem: Attention, request: Request) -> str | None:
    """Return why tile registers do not compute the gradients, None if they do."""
    reason = tile_registers_refusal(problem, request)
    if reason is not None:
        return reason
    if request.inputs[0].dtype is not bfloat16:
        return "its upstream gradient is not of bfloat16"
    if _tiles(problem, request.info) is None:
        return "private memory holds no sums of so many features"
    return None


def _tiles(problem: Attention, info: DeviceInfo) -> Tiles | None:
    """Return blocks of keys and queries and the rooms of private memory, None if none fit."""
    p = problem
    features, values = room_for(p.features, STEP), room_for(p.values, PANEL)
    queries = least(_QUERIES, -(-p.queries // PANEL) * PANEL)
    for most in _KEYS:
        keys = least(most, -(-p.keys // PANEL) * PANEL)
        sums = 6 * keys * (features + values) + 8 * PANEL * PANEL
        if sums + 4 * keys * (queries + STEP) + 2 * queries * (keys + STEP) <= PRIVATE:
            return Tiles(TILE, PANEL, 2, 2, 2, queries, keys, features, values)
    return None


def gradients_by_tile_registers(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the gradients of query, key and value."""
    p, b = problem, _tiles(problem, request.info)
    assert b is not None
    share = gradient_shares(p, b, request.info)
    steps = Steps()
    upstream = Operand(
        0, (p.heads * p.queries * p.values, p.queries * p.values, p.values, 1),
        request.inputs[0].offset, bfloat16,
    )  # fmt: skip

    def packed(operand: Operand, heads: int, sizes: tuple[int, int], rows: bool) -> Bound:
        """Return panels of rows as columns, or as terms."""
        *_, row, column = operand.strides
        strides = (row, column) if rows else (column, row)
        return packed_pairs((p.batch, heads), operand, sizes, strides, steps)

    splits = -(-p.keys // share.split)
    count = p.rows * p.features
    for_query = steps.room(splits * count, float32)
    panels = {
        "query_panels": packed(p.query, p.heads, (p.queries, p.features), True),
        "upstream_panels": packed(upstream, p.heads, (p.queries, p.values), True),
        "query_lines": packed(p.query, p.heads, (p.features, p.queries), False),
        "upstream_lines": packed(upstream, p.heads, (p.values, p.queries), False),
        "key_lines": packed(p.key, p.key_heads, (p.features, p.keys), False),
    }
    steps.add(
        gradient_tile_registers,
        Grid((splits, p.key_heads, p.batch)),
        Effort("attention gradient tile registers", p.flops(3, 2), 2 * least_bytes(p)),
        up=upstream_of(request),
        **panels,
        for_query=for_query,
        for_key=Bound(Output(1), p.dtype),
        for_value=Bound(Output(2), p.dtype),
        block_queries=share.queries,
        block_keys=share.keys,
        split=share.split,
        split_step=count,
        value_width=p.values,
        g=operands_of(p),
        tiles=b,
        form=form_of(p, 3),
    )
    add_query_parts(p, b, steps, for_query, splits, share.split)
    yield steps.work()
