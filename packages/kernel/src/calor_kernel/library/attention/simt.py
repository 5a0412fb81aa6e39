"""Attention and its gradients by cubes of many units, with tiles in shared memory.

Requirements: only one tile of scores exists at a time. An online softmax follows the keys block by
block (Dao et al., "FlashAttention", 2022). Sums have a fixed order and nothing is atomic, so the
gradients of queries and of keys take two passes over the scores.
"""

from __future__ import annotations

import math
from typing import Any

from calor_kernel.language import (
    barrier,
    constant,
    cube_position,
    helper,
    kernel,
    loop_range,
    registers,
    select,
    unit_index,
)
from calor_kernel.library.attention.problem import Given, finite, given
from calor_kernel.library.attention.simt_tiles import Matrix, Team, adjusted, common, head_of, team
from calor_kernel.library.math import exp, log


@kernel
def attend_team(
    out: Any,
    total: Any,
    value_width: Any,
    panels: Any,
    *numbers: Any,
    across: int,
    down: int,
    depth: int,
    rows: int,
    keys: int,
    values: int,
    along: tuple[bool, bool, bool],
    kinds: tuple[str, ...],
    causal: bool,
) -> None:
    """Compute a tile: rows from x, a head and a panel of the values' features from y, batch z."""
    g = given(numbers)
    dtype = total.dtype
    height, block, width = rows * down, keys * across, values * across
    pitch = block + 1
    n, head, panel = cube_position(2), cube_position(1) // panels, cube_position(1) % panels
    first = cube_position(0) * height
    units = team(across, down, depth, dtype, rows, keys)
    query = head_of(g.query, g.query_strides, n, head, g.queries, g.features, along[0])
    key_head = head // g.group
    key = head_of(g.key, g.key_strides, n, key_head, g.keys, g.features, along[1])
    value = head_of(g.value, g.value_strides, n, key_head, g.keys, value_width, along[2])
    weights, value_tile = common(height * pitch, dtype), common(block * width, dtype)
    largest, powers, factors = common(height, dtype), common(height, dtype), common(height, dtype)
    unit = unit_index()
    if unit < height:
        largest[unit] = constant(-math.inf, dtype)
        powers[unit] = constant(0, dtype)
    sums = registers((rows, values), dtype)
    stop = min(g.keys, first + height) if causal else g.keys
    for begin in loop_range(0, stop, block):
        scores = units.scores(query, key, first, begin, (rows, keys))
        # All units have finished with the weights and values of the preceding block.
        barrier()
        for i in range(rows):
            for j in range(keys):
                row, column = units.row(i), units.column(j)
                scores[i, j] = adjusted(
                    scores[i, j], g, kinds, causal, n, head, first + row, begin + column
                )
                weights[row * pitch + column] = scores[i, j]
        units.fill_rows(value_tile, value, panel * width, begin, width, block)
        barrier()
        if unit < height:
            top = largest[unit]
            before = top
            for column in loop_range(block):
                x = weights[unit * pitch + column]
                top = select(x > top, x, top)
            factors[unit] = exp(before - finite(top))
            largest[unit] = top
        barrier()
        for i in range(rows):
            for j in range(keys):
                row, column = units.row(i), units.column(j)
                weights[row * pitch + column] = exp(scores[i, j] - finite(largest[row]))
        barrier()
        if unit < height:
            power = powers[unit] * factors[unit]
            for column in loop_range(block):
                power = power + weights[unit * pitch + column]
            powers[unit] = power
        for i in range(rows):
            for j in range(values):
                sums[i, j] = sums[i, j] * factors[units.row(i)]
        units.multiply(sums, weights, pitch, 1, value_tile, block)
    barrier()
    row_at = (n * g.heads + head) * g.queries + first
    for i in range(rows):
        row = units.row(i)
        under = powers[row]
        under = select(under > 0.0, under, 1.0)
        for j in range(values):
            column = panel * width + units.column(j)
            if (first + row < g.queries) and (column < value_width):
                out[(row_at + row) * value_width + column] = (sums[i, j] / under).to(out.dtype)
    if (panel == 0) and (unit < height) and (first + unit < g.queries):
        total[row_at + unit] = finite(largest[unit]) + log(powers[unit])


@helper
def tile_gradient(
    units: Team,
    g: Given,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    upstream: Matrix,
    delta: Any,
    total: Any,
    kinds: tuple[str, ...],
    causal: bool,
    n: Any,
    head: Any,
    first: Any,
    begin: Any,
    shape: tuple[int, int],
) -> tuple[Any, Any]:
    """Return a unit's weights and the gradients of its scores, 0 beyond the last score."""
    rows, keys = shape
    weights = units.scores(query, key, first, begin, shape)
    inner = units.scores(upstream, value, first, begin, shape)
    row_at = (n * g.heads + head) * g.queries
    for i in range(rows):
        place = first + units.row(i)
        there = place < g.queries
        shift = finite(total.load(row_at + place, mask=there))
        along = delta.load(row_at + place, mask=there)
        for j in range(keys):
            column = begin + units.column(j)
            x = adjusted(weights[i, j], g, kinds, causal, n, head, place, column)
            weights[i, j] = exp(x - shift)
            inner[i, j] = weights[i, j] * (inner[i, j] - along)
    return weights, inner


@kernel
def query_gradient_team(
    upstream: Any,
    delta: Any,
    total: Any,
    for_query: Any,
    value_width: Any,
    panels: Any,
    *numbers: Any,
    across: int,
    down: int,
    depth: int,
    rows: int,
    keys: int,
    values: int,
    along: tuple[bool, bool, bool],
    kinds: tuple[str, ...],
    causal: bool,
) -> None:
    """Compute the gradient of a tile of queries, one panel of their features a cube."""
    g = given(numbers)
    dtype = total.dtype
    height, block, width = rows * down, keys * across, values * across
    pitch = block + 1
    n, head, panel = cube_position(2), cube_position(1) // panels, cube_position(1) % panels
    first = cube_position(0) * height
    units = team(across, down, depth, dtype, rows, keys)
    query = head_of(g.query, g.query_strides, n, head, g.queries, g.features, along[0])
    key_head = head // g.group
    key = head_of(g.key, g.key_strides, n, key_head, g.keys, g.features, along[1])
    value = head_of(g.value, g.value_strides, n, key_head, g.keys, value_width, along[2])
    row_at = (n * g.heads + head) * g.queries
    up = Matrix(upstream, row_at * value_width, g.queries, value_width, value_width, 1, True)
    gradients, key_tile = common(height * pitch, dtype), common(block * width, dtype)
    sums = registers((rows, values), dtype)
    stop = min(g.keys, first + height) if causal else g.keys
    for begin in loop_range(0, stop, block):
        _, inner = tile_gradient(
            units, g, query, key, value, up, delta, total, kinds, causal, n, head, first, begin,
            (rows, keys),
        )  # fmt: skip
        barrier()
        for i in range(rows):
            for j in range(keys):
                gradients[units.row(i) * pitch + units.column(j)] = inner[i, j]
        units.fill_rows(key_tile, key, panel * width, begin, width, block)
        barrier()
        units.multiply(sums, gradients, pitch, 1, key_tile, block)
    for i in range(rows):
        row = first + units.row(i)
        for j in range(values):
            column = panel * width + units.column(j)
            if (row < g.queries) and (column < g.features):
                made = sums[i, j] * g.scale
                for_query[(row_at + row) * g.features + column] = made.to(for_query.dtype)


@kernel
def key_gradient_team(
    upstream: Any,
    delta: Any,
    total: Any,
    for_key: Any,
    for_value: Any,
    value_width: Any,
    panels: Any,
    *numbers: Any,
    across: int,
    down: int,
    depth: int,
    rows: int,
    keys: int,
    values: int,
    along: tuple[bool, bool, bool],
    kinds: tuple[str, ...],
    causal: bool,
) -> None:
    """Compute the gradients of a tile of keys and values, one panel of their features a cube."""
    g = given(numbers)
    dtype = total.dtype
    height, block, width = rows * down, keys * across, values * across
    pitch = block + 1
    n, key_head, panel = cube_position(2), cube_position(1) // panels, cube_position(1) % panels
    begin = cube_position(0) * block
    units = team(across, down, depth, dtype, rows, keys)
    key = head_of(g.key, g.key_strides, n, key_head, g.keys, g.features, along[1])
    value = head_of(g.value, g.value_strides, n, key_head, g.keys, value_width, along[2])
    tile, right = common(height * pitch, dtype), common(height * width, dtype)
    held = block // down
    key_sums = registers((held, values), dtype)
    value_sums = registers((held, values), dtype)
    for head in loop_range(key_head * g.group, (key_head + 1) * g.group):
        row_at = (n * g.heads + head) * g.queries
        query = head_of(g.query, g.query_strides, n, head, g.queries, g.features, along[0])
        up = Matrix(upstream, row_at * value_width, g.queries, value_width, value_width, 1, True)
        start = begin // height * height if causal else begin * 0
        for first in loop_range(start, g.queries, height):
            weights, inner = tile_gradient(
                units, g, query, key, value, up, delta, total, kinds, causal, n, head, first,
                begin, (rows, keys),
            )  # fmt: skip
            barrier()
            for i in range(rows):
                for j in range(keys):
                    tile[units.row(i) * pitch + units.column(j)] = weights[i, j]
            units.fill_rows(right, up, panel * width, first, width, height)
            barrier()
            units.multiply(value_sums, tile, 1, pitch, right, height)
            barrier()
            for i in range(rows):
                for j in range(keys):
                    tile[units.row(i) * pitch + units.column(j)] = inner[i, j]
            units.fill_rows(right, query, panel * width, first, width, height)
            barrier()
            units.multiply(key_sums, tile, 1, pitch, right, height)
    key_at = (n * g.key_heads + key_head) * g.keys
    for i in range(held):
        row = begin + units.row(i)
        for j in range(values):
            column = panel * width + units.column(j)
            if row < g.keys:
                if column < g.features:
                    made = key_sums[i, j] * g.scale
                    for_key[(key_at + row) * g.features + column] = made.to(for_key.dtype)
                if column < value_width:
                    made = value_sums[i, j]
                    for_value[(key_at + row) * value_width + column] = made.to(for_value.dtype)
