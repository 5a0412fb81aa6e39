"""Attention and its gradients, a row a unit: the bodies that take everything.

Requirements: any strides, types, masks and device; memory of a row's own alone; what a unit sums
has one order. The row's largest score and its sum of exponentials are kept up to date while the
keys go by (Milakov and Gimelshein, 2018; Dao et al., 2022).
"""

from __future__ import annotations

import math
from typing import Any

from calor_kernel.language import (
    absolute_position,
    constant,
    fma,
    helper,
    kernel,
    loop_range,
    private,
    select,
)
from calor_kernel.library.attention.problem import Given, finite, given
from calor_kernel.library.math import exp, log


@helper
def score(g: Given, kinds: tuple[str, ...], causal: bool, n: Any, head: Any, i: Any, j: Any) -> Any:
    """Return the score of query i and key j of a head: −inf where it is hidden."""
    query_at = g_at(g.query_strides, n, head, i)
    key_at = g_at(g.key_strides, n, head // g.group, j)
    dtype = g.scale.dtype
    total = constant(0, dtype)
    for p in loop_range(g.features):
        x = g.query[query_at + p * g.query_strides[3]].to(dtype)
        y = g.key[key_at + p * g.key_strides[3]].to(dtype)
        total = fma(x, y, total)
    total = total * g.scale
    for kind, (memory, strides) in zip(kinds, g.extras, strict=True):
        if kind == "bias":
            total = total + memory[g_at(strides, n, head, i) + j * strides[3]].to(dtype)
    for kind, (memory, strides) in zip(kinds, g.extras, strict=True):
        if kind == "mask":
            seen = memory[g_at(strides, n, head, i) + j * strides[3]]
            total = select(seen, total, -math.inf)
    if causal:
        total = select(j <= i, total, -math.inf)
    return total


def g_at(strides: Any, n: Any, head: Any, i: Any) -> Any:
    """Return where a row lies."""
    return n * strides[0] + head * strides[1] + i * strides[2]


@kernel
def attend_rows(
    out: Any,
    total: Any,
    rows: Any,
    *numbers: Any,
    value_width: int,
    kinds: tuple[str, ...],
    causal: bool,
) -> None:
    """Compute one row of the result and the logarithm of its sum of exponentials."""
    g = given(numbers)
    row = absolute_position()
    dtype = total.dtype
    acc = private(max(value_width, 1), dtype)
    if row < rows:
        i, head, n = row % g.queries, row // g.queries % g.heads, row // g.queries // g.heads
        for f in loop_range(value_width):
            acc[f] = constant(0, dtype)
        largest = constant(-math.inf, dtype)
        powers = constant(0, dtype)
        stop = min(g.keys, i + 1) if causal else g.keys
        for j in range(stop):
            s = score(g, kinds, False, n, head, i, j)
            larger = select(s > largest, s, largest)
            before = exp(largest - finite(larger))
            power = exp(s - finite(larger))
            powers = fma(powers, before, power)
            at = g_at(g.value_strides, n, head // g.group, j)
            for f in loop_range(value_width):
                v = g.value[at + f * g.value_strides[3]].to(dtype)
                acc[f] = fma(acc[f], before, power * v)
            largest = larger
        under = select(powers > 0.0, powers, 1.0)
        for f in loop_range(value_width):
            out[row * value_width + f] = (acc[f] / under).to(out.dtype)
        total[row] = finite(largest) + log(powers)


@helper
def score_gradient(
    g: Given,
    upstream: Any,
    delta: Any,
    total: Any,
    kinds: tuple[str, ...],
    causal: bool,
    value_width: int,
    n: Any,
    head: Any,
    i: Any,
    j: Any,
) -> tuple[Any, Any]:
    """Return a score's weight, and the gradient of the score after scale and bias."""
    dtype = g.scale.dtype
    row = (n * g.heads + head) * g.queries + i
    power = exp(score(g, kinds, causal, n, head, i, j) - finite(total[row]))
    at = g_at(g.value_strides, n, head // g.group, j)
    along = constant(0, dtype)
    for f in loop_range(value_width):
        x = upstream[row * value_width + f].to(dtype)
        along = fma(x, g.value[at + f * g.value_strides[3]].to(dtype), along)
    return power, power * (along - delta[row])


@kernel
def query_gradient_rows(
    upstream: Any,
    delta: Any,
    total: Any,
    for_query: Any,
    rows: Any,
    *numbers: Any,
    query_width: int,
    value_width: int,
    kinds: tuple[str, ...],
    causal: bool,
) -> None:
    """Compute the gradient of one query."""
    g = given(numbers)
    row = absolute_position()
    dtype = g.scale.dtype
    acc = private(max(query_width, 1), dtype)
    if row < rows:
        i, head, n = row % g.queries, row // g.queries % g.heads, row // g.queries // g.heads
        for p in loop_range(query_width):
            acc[p] = constant(0, dtype)
        stop = min(g.keys, i + 1) if causal else g.keys
        for j in range(stop):
            _, inner = score_gradient(
                g, upstream, delta, total, kinds, False, value_width, n, head, i, j
            )
            scaled = inner * g.scale
            at = g_at(g.key_strides, n, head // g.group, j)
            for p in loop_range(query_width):
                k = g.key[at + p * g.key_strides[3]].to(dtype)
                acc[p] = fma(scaled, k, acc[p])
        for p in loop_range(query_width):
            for_query[row * query_width + p] = acc[p].to(for_query.dtype)


@kernel
def key_gradient_rows(
    upstream: Any,
    delta: Any,
    total: Any,
    for_key: Any,
    for_value: Any,
    rows: Any,
    *numbers: Any,
    query_width: int,
    value_width: int,
    kinds: tuple[str, ...],
    causal: bool,
) -> None:
    """Compute the gradients of one key and of its value."""
    g = given(numbers)
    row = absolute_position()
    dtype = g.scale.dtype
    key_acc = private(max(query_width, 1), dtype)
    value_acc = private(max(value_width, 1), dtype)
    if row < rows:
        key_heads = g.heads // g.group
        j, key_head, n = row % g.keys, row // g.keys % key_heads, row // g.keys // key_heads
        for p in loop_range(query_width):
            key_acc[p] = constant(0, dtype)
        for f in loop_range(value_width):
            value_acc[f] = constant(0, dtype)
        for head in range(key_head * g.group, (key_head + 1) * g.group):
            start = min(j, g.queries) if causal else j * 0
            for i in range(start, g.queries):
                power, inner = score_gradient(
                    g, upstream, delta, total, kinds, False, value_width, n, head, i, j
                )
                scaled = inner * g.scale
                at = g_at(g.query_strides, n, head, i)
                for p in loop_range(query_width):
                    q = g.query[at + p * g.query_strides[3]].to(dtype)
                    key_acc[p] = fma(scaled, q, key_acc[p])
                at = (n * g.heads + head) * g.queries + i
                for f in loop_range(value_width):
                    x = upstream[at * value_width + f].to(dtype)
                    value_acc[f] = fma(power, x, value_acc[f])
        for p in loop_range(query_width):
            for_key[row * query_width + p] = key_acc[p].to(for_key.dtype)
        for f in loop_range(value_width):
            for_value[row * value_width + f] = value_acc[f].to(for_value.dtype)


@kernel
def bias_gradient_elements(
    upstream: Any,
    delta: Any,
    total: Any,
    for_bias: Any,
    count: Any,
    batch: Any,
    bias_0: Any,
    bias_1: Any,
    bias_2: Any,
    bias_3: Any,
    *numbers: Any,
    value_width: int,
    kinds: tuple[str, ...],
    causal: bool,
) -> None:
    """Compute the gradient of one element of the bias, of ``bias_0`` … ``bias_3`` elements.

    Where it has one element along an axis, it stands for all of that axis.
    """
    g = given(numbers)
    at = absolute_position()
    if at < count:
        sizes = (batch, g.heads, g.queries, g.keys)
        own = (bias_0, bias_1, bias_2, bias_3)
        rest = at
        starts: list[Any] = []
        stops: list[Any] = []
        for size, mine in zip(reversed(sizes), reversed(own), strict=True):
            place = rest % mine
            rest = rest // mine
            starts.insert(0, select(mine == size, place, 0))
            stops.insert(0, select(mine == size, place + 1, size))
        acc = constant(0, g.scale.dtype)
        for n in range(starts[0], stops[0]):
            for head in range(starts[1], stops[1]):
                for i in range(starts[2], stops[2]):
                    for j in range(starts[3], stops[3]):
                        _, inner = score_gradient(
                            g, upstream, delta, total, kinds, causal, value_width, n, head, i, j
                        )
                        acc = acc + inner
        for_bias[at] = acc.to(for_bias.dtype)
