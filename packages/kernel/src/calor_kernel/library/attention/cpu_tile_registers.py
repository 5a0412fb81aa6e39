"""Attention on a CPU with tile registers: both products by tiles of bfloat16.

Requirements: scores and sums are float32. A block of queries has 32 rows, two tiles, and the scores
of a block of keys stay in the nearer caches. Keys and values are packed once for all queries: to
panels of 32 keys, or of 32 columns of values, whose pairs of terms are adjacent. Zeros fill panels
and queries up to whole steps, so what is multiplied beyond the operands is finite. Weights are
rounded to bfloat16 for the second product, as in the kernels of GPUs' matrix instructions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from calor.dtypes import bfloat16, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.contract.work import Input, Request, Work
from calor_kernel.language.tiles import TILE, terms
from calor_kernel.library.attention.cpu_launch import PRIVATE, form_of, forward_shares, room_for
from calor_kernel.library.attention.cpu_tiles import Tiles, VisibleKeys, along, weight
from calor_kernel.library.attention.operands import (
    KernelOperands,
    Rows,
    ScoreForm,
    finite,
    least_bytes,
    operands_of,
    query_rows,
    results_of,
)
from calor_kernel.library.attention.problem import Attention, Operand, dropped
from calor_kernel.library.math import log
from calor_kernel.library.matmul.packing import filled, pack_operand
from calor_kernel.library.matmul.problem import Operand as Packable
from calor_kernel.library.steps import Steps

# Terms of a step, of which pairs are adjacent, and columns of a panel.
STEP, PAIR, PANEL = terms(bfloat16), 2, 2 * TILE
# The elements of a panel for a step.
STEP_SIZE = STEP * PANEL
# Keys of a block, and maximum of queries of a cube.
_KEYS, _QUERIES = 256, 128
# Rows whose maxima stay in registers.
_GROUP = 8


@dataclass(frozen=True, slots=True)
class TileRows:
    """Rows of terms in private memory, ``stride`` elements apart."""

    memory: kl.Pointer
    stride: int


@dataclass(frozen=True, slots=True)
class TileState:
    """The online softmax of each row: its maximum, its sum of weights in lanes, its last factor."""

    largest: kl.Pointer
    powers: kl.Pointer
    factors: kl.Pointer


@kl.kernel
def attend_tile_registers(
    key_panels: kl.In,
    value_panels: kl.In,
    out: kl.Out,
    total: kl.Out,
    rest: kl.Out | None,
    block_rows: kl.Size,
    block: kl.Size,
    value_width: kl.Size,
    g: KernelOperands,
    *,
    tiles: Tiles,
    form: ScoreForm,
) -> None:
    """Compute ``block_rows`` rows from x on, of query head y of batch z, by ``block`` keys."""
    lanes, height = tiles.lanes, tiles.rows
    room, high = tiles.feature_room, height // TILE
    head, n = kl.cube_position(1), kl.cube_position(2)
    key_head = head // g.group
    feature_steps, key_steps = (g.features + STEP - 1) // STEP, (g.keys + STEP - 1) // STEP
    value_count = (value_width + PANEL - 1) // PANEL
    head_number = n * g.key_heads + key_head
    keys = key_panels.at(head_number * key_steps * feature_steps * STEP_SIZE)
    values = value_panels.at(head_number * value_count * key_steps * STEP_SIZE)
    first = kl.cube_position(0) * block_rows
    last = kl.min(first + block_rows, g.queries)
    row_at = (n * g.heads + head) * g.queries
    queries = kl.private(tiles.query_room * room, bfloat16, align=64)
    scores = kl.private(height * tiles.key_room, float32, align=64)
    weights = TileRows(kl.private(height * (tiles.key_room + STEP), bfloat16, align=64),
                       tiles.key_room + STEP)  # fmt: skip
    made = kl.private(height * PANEL, float32, align=64)
    sums = kl.private(tiles.query_room * tiles.value_room, float32, align=64)
    state = TileState(
        kl.private(tiles.query_room, float32, align=64),
        kl.private(tiles.query_room * lanes, float32, align=64),
        kl.private(height, float32, align=64),
    )
    source = query_rows(g, n, head, form.contiguous[0])
    whole = (last - first + height - 1) // height * height
    copy_tile_rows(source, queries, room, first, last, whole)
    for row in kl.loop_range(whole):
        state.largest[row] = kl.constant(-math.inf, float32)
        state.powers.store(row * lanes, kl.constant(0, float32, lanes))
    for begin in kl.loop_range(0, g.keys, block):
        for row in kl.loop_range(first, last, height):
            end = kl.min(g.keys, row + height) if form.causal else g.keys
            count = kl.min(end - begin, block)
            if count > 0:
                local = row - first
                for panel in kl.loop_range(0, count, PANEL):
                    kl.tile_product(
                        scores.at(panel * height), queries.at(local * room), room,
                        keys.at((begin + panel) * feature_steps * STEP), PANEL * PAIR,
                        feature_steps, rows=high, columns=2,
                    )  # fmt: skip
                for group in kl.loop_range(0, height, _GROUP):
                    places = [kl.min(row + group + r, last - 1) for r in range(_GROUP)]
                    seen = VisibleKeys(g, form, n, head, places, begin, count)
                    weigh_rows(scores, weights, state, local, group, seen, height)
                steps = (count + STEP - 1) // STEP
                for panel in kl.loop_range(0, value_count):
                    kl.tile_product(
                        made, weights.memory, weights.stride,
                        values.at((panel * key_steps + begin // STEP) * STEP_SIZE), PANEL * PAIR,
                        steps, rows=high, columns=2,
                    )  # fmt: skip
                    to = sums.at(local * tiles.value_room + panel * PANEL)
                    for r in kl.loop_range(height):
                        factor = kl.splat(state.factors[r], lanes)
                        for v in range(0, PANEL, lanes):
                            part = made.load(r * PANEL + v, lanes)
                            if begin > 0:
                                before = to.load(r * tiles.value_room + v, lanes)
                                part = kl.fma(before, factor, part)
                            to.store(r * tiles.value_room + v, part)
    for row in kl.loop_range(first, last):
        local, at = row - first, row_at + row
        power = kl.vreduce("add", state.powers.load(local * lanes, lanes))
        under = 1.0 / kl.select(power > 0.0, power, 1.0)
        total[at] = finite(state.largest[local]) + log(power)
        for p in kl.loop_range(0, value_width, lanes):
            inside = along(p, lanes) < value_width
            # Without keys there are no sums.
            there = inside & kl.splat(g.keys > 0, lanes)
            value = sums.load(local * tiles.value_room + p, lanes, mask=there) * under
            out.store(at * value_width + p, value.to(out.dtype), mask=inside)
            if rest is not None:
                rest.store(at * value_width + p, dropped(value, out.dtype), mask=inside)


@kl.helper
def copy_tile_rows(
    rows: Rows,
    target: kl.Pointer,
    room: int,
    first: kl.Number,
    last: kl.Number,
    count: kl.Number,
) -> None:
    """Copy ``count`` rows from ``first`` on, filled up with zeros to whole steps.

    Rows from ``last`` on are the one before it.
    """
    lanes = TILE
    for r in kl.loop_range(count):
        start = rows.at + kl.min(first + r, last - 1) * rows.row_step
        for p in kl.loop_range(0, (rows.width + STEP - 1) // STEP * STEP, lanes):
            place = along(p, lanes)
            inside = place < rows.width
            if rows.contiguous:
                value = rows.memory.load(start + p, lanes, mask=inside)
            else:
                value = rows.memory.load(start + place * rows.step, mask=inside)
            target.store(r * room + p, value)


@kl.helper
def weigh_rows(
    scores: kl.Pointer,
    weights: TileRows,
    state: TileState,
    local: kl.Number,
    group: kl.Number,
    seen: VisibleKeys,
    height: int,
) -> None:
    """Turn scores of the rows from ``group`` on of a block into weights, and update their state.

    ``scores``: by panels of 32 keys, not scaled. ``local``: the block's first row in the state.
    """
    lanes, dtype = TILE, scores.dtype
    scale = kl.splat(seen.g.scale, lanes)
    clear, end = seen.clear(PANEL), (seen.count + PANEL - 1) // PANEL * PANEL
    tops = kl.registers((_GROUP,), dtype, lanes, fill=-math.inf)
    for begin, stop in ((0, clear), (clear, end)):
        for column in kl.loop_range(begin, stop, PANEL):
            for r in range(_GROUP):
                for v in range(0, PANEL, lanes):
                    at = column * height + (group + r) * PANEL + v
                    x = scores.load(at, lanes) * scale
                    if begin is clear:
                        x = seen.adjust(x, r, column + v)
                        scores.store(at, x)
                    tops[r] = kl.select(x > tops[r], x, tops[r])
    shifts = []
    powers = kl.registers((_GROUP,), dtype, lanes)
    for r in range(_GROUP):
        row = local + group + r
        top, before = kl.vreduce("max", tops[r]), state.largest[row]
        top = kl.select(top > before, top, before)
        shift = finite(top)
        factor = weight(before - shift)
        powers[r] = state.powers.load(row * lanes, lanes) * factor
        state.largest[row] = top
        state.factors[group + r] = factor
        shifts.append(kl.splat(shift, lanes))
    for begin, stop in ((0, clear), (clear, end)):
        for column in kl.loop_range(begin, stop, PANEL):
            for r in range(_GROUP):
                for v in range(0, PANEL, lanes):
                    x = scores.load(column * height + (group + r) * PANEL + v, lanes)
                    if begin is clear:
                        x = weight(x - shifts[r])
                    else:
                        x = weight(kl.fma(x, scale, -shifts[r]))
                    powers[r] = powers[r] + x
                    to = (group + r) * weights.stride + column + v
                    weights.memory.store(to, x.to(weights.memory.dtype))
    for r in range(_GROUP):
        state.powers.store((local + group + r) * lanes, powers[r])


def tile_registers_refusal(problem: Attention, request: Request) -> str | None:
    """Return why tile registers do not compute attention, None if they do."""
    p = problem
    if request.info.max_units > 1:
        return "cubes have many units"
    if not request.info.has("tile_bfloat16"):
        return "the device lacks tile_bfloat16"
    if {p.query.dtype, p.key.dtype, p.value.dtype, p.dtype} != {bfloat16}:
        return "its operands are not of bfloat16"
    if any(p.turned):
        return "its results are dense"
    if p.queries < TILE or not p.keys or not p.features or not p.values:
        return f"it has fewer than {TILE} queries, or no keys or features"
    if _tiles(p, request.info).query_room == 0:
        return "private memory holds no rows of so many features"
    return None


def _tiles(problem: Attention, info: DeviceInfo) -> Tiles:
    """Return blocks of queries and the rooms of private memory; no queries if none fit."""
    p = problem
    rows = PANEL if p.queries > TILE else TILE
    keys = least(_KEYS, -(-p.keys // PANEL) * PANEL)
    features, values = room_for(p.features, STEP), room_for(p.values, PANEL)
    once = rows * (4 * keys + 2 * (keys + STEP) + 4 * PANEL + 4)
    each = 2 * features + 4 * values + 4 * TILE + 4
    fits = least((PRIVATE - once) // each, _QUERIES) // rows * rows
    return Tiles(TILE, rows, 2, 2, 2, greatest(0, fits), keys, features, values)


def forward_by_tile_registers(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the forward pass."""
    p, b = problem, _tiles(problem, request.info)
    share = forward_shares(p, b, request.info)
    steps, heads = Steps(), (p.batch, p.key_heads)
    _, _, row, column = p.key.strides
    key_panels = packed_pairs(heads, p.key, (p.keys, p.features), (row, column), steps)
    _, _, row, column = p.value.strides
    value_panels = packed_pairs(heads, p.value, (p.values, p.keys), (column, row), steps)
    steps.add(
        attend_tile_registers,
        Grid((-(-p.queries // share.queries), p.heads, p.batch)),
        Effort(f"attention tile registers {b.rows}x{PANEL}", p.flops(1, 1), least_bytes(p)),
        key_panels=key_panels,
        value_panels=value_panels,
        **results_of(p, request),
        block_rows=share.queries,
        block=share.keys,
        value_width=p.values,
        g=operands_of(p),
        tiles=b,
        form=form_of(p),
    )
    yield steps.work()


def packed_pairs(
    heads: tuple[int, int],
    operand: Operand,
    sizes: tuple[int, int],
    strides: tuple[int, int],
    steps: Steps,
) -> Bound:
    """Return memory with the panels of an operand of all batches and heads, in pairs of terms.

    ``sizes``: the columns of all panels, and the terms, which are filled up to whole steps.
    """
    n, k = sizes
    lines = filled(-(-k // PAIR), TILE)
    count = heads[0] * heads[1] * -(-n // PANEL) * lines * PANEL * PAIR
    target = steps.room(count, bfloat16)
    batch = operand.strides[0], operand.strides[1]
    seen = Packable(batch, *strides, operand.offset, operand.dtype)
    places = Input(operand.number), target.place
    shape = n, k, heads, seen, PANEL, TILE, PAIR, bfloat16
    steps.launches.append(pack_operand(*shape, *places, whole=TILE))
    return target
