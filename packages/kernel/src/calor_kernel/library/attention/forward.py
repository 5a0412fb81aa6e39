"""Attention on a CPU: register tiles, and a softmax that follows the keys block by block.

Requirements: the scores of a few queries and a block of keys stay in the first cache, where their
weights are computed a vector at a time and multiply the values; the matrix of scores is nowhere.
Keys come transposed in panels, as the products of the library have them (Dao et al.,
"FlashAttention", 2022; Goto and van de Geijn, 2008).
"""

from __future__ import annotations

import math
from typing import Any

from calor_kernel.language import (
    cube_position,
    fma,
    helper,
    kernel,
    loop_range,
    private,
    registers,
    select,
    splat,
    vreduce,
)
from calor_kernel.library.attention.problem import Given, given
from calor_kernel.library.attention.tiles import along, load_rows, multiply
from calor_kernel.library.attention.weights import weight
from calor_kernel.library.math import log


@kernel
def attend_tiles(
    panels: Any,
    values: Any,
    out: Any,
    total: Any,
    value_width: Any,
    value_batch: Any,
    value_head: Any,
    value_panel: Any,
    value_row: Any,
    *numbers: Any,
    rows: int,
    lanes: int,
    vectors: int,
    value_vectors: int,
    block: int,
    block_rows: int,
    feature_room: int,
    value_room: int,
    kinds: tuple[str, ...],
    steps: tuple[int, ...],
    contiguous: bool,
    packed: bool,
    ragged: bool,
    causal: bool,
) -> None:
    """Compute ``block_rows`` rows: cube (x, y, z) has those from x on of query head y of batch z.

    ``panels``: the keys transposed, in panels of ``vectors`` vectors. ``values`` has rows
    ``value_row`` apart and panels of ``value_vectors`` vectors ``value_panel`` apart; ``ragged``:
    the last of them is masked. ``steps``: which strides of the extras along the keys are 0 or 1,
    −1 for others. ``contiguous``: whether the query's last stride is 1.
    """
    g = given(numbers)
    dtype = total.dtype
    width, value_span = vectors * lanes, value_vectors * lanes
    if packed:
        value_row = value_span
    head, n = cube_position(1), cube_position(2)
    key_head, key_heads = head // g.group, g.heads // g.group
    panel_count = (g.keys + width - 1) // width
    panel_size = g.features * width
    key_at = (n * key_heads + key_head) * panel_count * panel_size
    value_at = n * value_batch + key_head * value_head
    first = cube_position(0) * block_rows
    last = min(first + block_rows, g.queries)
    row_at = (n * g.heads + head) * g.queries
    query_tile = private(rows * feature_room, dtype, align=64)
    stride = block + lanes
    scores = private(rows * stride, dtype, align=64)
    sums = private(rows * value_room, dtype, align=64)
    no_masks = [None] * vectors
    for row in range(first, last, rows):
        places = [min(row + r, last - 1) for r in range(rows)]
        query_at = [
            n * g.query_strides[0] + head * g.query_strides[1] + p * g.query_strides[2]
            for p in places
        ]
        load_rows(
            query_tile,
            feature_room,
            rows,
            g.query,
            query_at,
            g.query_strides[3],
            g.features,
            lanes,
            contiguous,
            g.scale,
        )
        largest = registers((rows,), dtype, fill=-math.inf)
        powers = registers((rows,), dtype, lanes)
        end = min(g.keys, row + rows) if causal else g.keys
        for begin in loop_range(0, end, block):
            count = min(end - begin, block)
            for column in loop_range(0, count, width):
                acc = registers((rows, vectors), dtype, lanes)
                multiply(
                    acc,
                    query_tile,
                    [r * feature_room for r in range(rows)],
                    1,
                    panels,
                    key_at + (begin + column) * g.features,
                    width,
                    g.features,
                    no_masks,
                )
                for r in range(rows):
                    for v in range(vectors):
                        scores.store(r * stride + column + v * lanes, acc[r, v])
            factors = soften(
                scores,
                stride,
                largest,
                powers,
                begin,
                count,
                places,
                g,
                n,
                head,
                kinds,
                steps,
                causal,
            )
            for panel in range(0, value_width, value_span):
                masks = [
                    along(panel + v * lanes, lanes) < value_width if ragged else None
                    for v in range(value_vectors)
                ]
                acc = registers((rows, value_vectors), dtype, lanes)
                multiply(
                    acc,
                    scores,
                    [r * stride for r in range(rows)],
                    1,
                    values,
                    value_at + panel // value_span * value_panel + begin * value_row,
                    value_row,
                    count,
                    masks,
                )
                for r in range(rows):
                    for v in range(value_vectors):
                        at = r * value_room + panel + v * lanes
                        made = acc[r, v]
                        if begin > 0:
                            made = fma(sums.load(at, lanes), splat(factors[r], lanes), made)
                        sums.store(at, made)
        finish(
            out,
            total,
            sums,
            value_room,
            largest,
            powers,
            row_at,
            row,
            last,
            value_width,
            lanes,
            end,
        )


@helper
def soften(
    scores: Any,
    stride: int,
    largest: Any,
    powers: Any,
    begin: Any,
    count: Any,
    places: list[Any],
    g: Given,
    n: Any,
    head: Any,
    kinds: tuple[str, ...],
    steps: tuple[int, ...],
    causal: bool,
) -> list[Any]:
    """Turn a block of scores into weights, and return what earlier sums are to be multiplied by.

    ``largest`` and ``powers``, the latter a vector of parts, are brought up to date.
    """
    rows, lanes = len(places), powers.type.width
    dtype = scores.dtype
    tops = registers((rows,), dtype, lanes, fill=-math.inf)
    # Up to here all rows see all keys.
    clear = min(count, places[0] + 1 - begin) if causal else count
    clear = max(clear // lanes * lanes, 0) if not kinds else clear * 0
    for column in loop_range(0, clear, lanes):
        for r in range(rows):
            x = scores.load(r * stride + column, lanes)
            tops[r] = select(x > tops[r], x, tops[r])
    for column in loop_range(clear, count, lanes):
        key = along(begin + column, lanes)
        inside = along(column, lanes) < count
        for r in range(rows):
            x = scores.load(r * stride + column, lanes)
            x = adjusted(x, g, kinds, steps, n, head, places[r], begin + column, key, inside)
            seen = inside & (key <= places[r]) if causal else inside
            x = select(seen, x, -math.inf)
            scores.store(r * stride + column, x)
            tops[r] = select(x > tops[r], x, tops[r])
    factors, shifts = [], []
    for r in range(rows):
        top = largest_lane(tops[r])
        before = largest[r]
        top = select(top > before, top, before)
        shift = select(top > -math.inf, top, 0.0)
        factor = weight(before - shift)
        powers[r] = powers[r] * factor
        largest[r] = top
        factors.append(factor)
        shifts.append(splat(shift, lanes))
    for column in loop_range(0, count, lanes):
        for r in range(rows):
            x = weight(scores.load(r * stride + column, lanes) - shifts[r])
            powers[r] = powers[r] + x
            scores.store(r * stride + column, x)
    return factors


def largest_lane(x: Any) -> Any:
    """Return the largest lane; NaN is passed over."""
    return vreduce("max", x)


@helper
def adjusted(
    x: Any,
    g: Given,
    kinds: tuple[str, ...],
    steps: tuple[int, ...],
    n: Any,
    head: Any,
    place: Any,
    column: Any,
    key: Any,
    inside: Any,
) -> Any:
    """Return scores with biases, −inf where a mask hides them."""
    lanes = x.width
    loaded = []
    for (memory, strides), step in zip(g.extras, steps, strict=True):
        at = n * strides[0] + head * strides[1] + place * strides[2]
        if step == 0:
            loaded.append(splat(memory[at], lanes))
        elif step == 1:
            loaded.append(memory.load(at + column, lanes, mask=inside))
        else:
            loaded.append(memory.load(at + key * strides[3], mask=inside))
    for kind, value in zip(kinds, loaded, strict=True):
        if kind == "bias":
            x = x + value.to(x.dtype)
    for kind, value in zip(kinds, loaded, strict=True):
        if kind == "mask":
            x = select(value, x, -math.inf)
    return x


@helper
def finish(
    out: Any,
    total: Any,
    sums: Any,
    room: int,
    largest: Any,
    powers: Any,
    row_at: Any,
    row: Any,
    last: Any,
    value_width: Any,
    lanes: int,
    end: Any,
) -> None:
    """Write rows of the result, divided by the sums of weights, and the logarithms of these."""
    for r in range(largest.shape[0]):
        if row + r < last:
            power = vreduce("add", powers[r])
            under = 1.0 / select(power > 0.0, power, 1.0)
            shift = select(largest[r] > -math.inf, largest[r], 0.0)
            total[row_at + row + r] = shift + log(power)
            for p in loop_range(0, value_width, lanes):
                inside = along(p, lanes) < value_width
                # Without keys nothing was summed.
                value = sums.load(r * room + p, lanes, mask=splat(end > 0, lanes)) * under
                at = (row_at + row + r) * value_width + p
                out.store(at, value.to(out.dtype), mask=inside)
