"""Rows of attention and its gradients: kept composites, so that a device need not make the scores.

Requirements: the gradient of attention is a kept composite too; it reads the output and the
logarithm of each row's sum, and computes the scores again. A row that may look nowhere gives 0, and
its gradients are 0. Half types are computed in float32. The gradient of a score is a difference,
of which little is left where the softmax is nearly one-hot, so it reads the output as it was before
it was rounded: where a gradient may follow, ``keep`` is set, and the third result is what rounding
dropped.

Operands: query (N, H, L, E), key (N, K, S, E), value (N, K, S, V), where K divides H and each key
head serves H / K query heads; then any of a bool mask (True: may be looked at) and a bias that is
added to the scores, both (N, H, L, S) or 1 where they repeat. ``causal`` hides key j from query i
where j > i. ``precision`` is that of products of float32, as of `dot_general`.
"""

from __future__ import annotations

import math
from typing import Any

from calor.dtypes import bool_, int32
from calor.errors import ArgumentError, ShapeError
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops import rules
from calor.ops.base import op
from calor.ops.composites import like, wide, wide_type
from calor.ops.contraction import dot_general
from calor.ops.movement import expand, fill, reshape
from calor.ops.reductions import spread
from calor.ops.sources import iota
from calor.specs import Spec, spec


def _attention_rule(
    query: Spec, key: Spec, value: Spec, *extras: Spec,
    causal: bool, scale: float, precision: str = "highest", keep: bool = False,
) -> tuple[Spec, ...]:  # fmt: skip
    for x in (query, key, value):
        rules.real_floats(x)
        if x.ndim != 4 or x.dtype is not query.dtype:
            raise ShapeError(
                f"attention: query {query}, key {key} and value {value} must have 4 axes "
                f"(batch, heads, places, features) and one dtype"
            )
    n, heads, length, features = query.shape
    groups = key.shape[1]
    fits = (
        key.shape == (n, groups, key.shape[2], features)
        and value.shape[:3] == key.shape[:3]
        and groups > 0
        and heads % groups == 0
    )
    if not fits:
        raise ShapeError(
            f"attention: query {query}, key {key} and value {value} do not fit; batch, features "
            f"and key places must agree and the key heads divide the query heads"
        )
    scores = (n, heads, length, key.shape[2])
    for x in extras:
        if x.dtype is not bool_:
            rules.real_floats(x)
        if x.ndim != 4 or any(a not in (1, b) for a, b in zip(x.shape, scores, strict=True)):
            raise ShapeError(f"attention: a mask or bias {x} does not broadcast to {scores}")
    out = spec((n, heads, length, value.shape[3]), query.dtype)
    total = spec((n, heads, length), wide_type(query.dtype))
    if not keep:
        return out, total
    if total.dtype is query.dtype:
        raise ArgumentError(f"attention: a result of {query.dtype} is not rounded; keep=False")
    return out, total, out


def _keeps(attributes: dict[str, Any], query: Spec, *others: Spec) -> dict[str, Any]:
    """Return the attributes with which attention keeps what its gradient reads."""
    rounds = wide_type(query.dtype) is not query.dtype
    return {**attributes, "keep": True} if rounds else attributes


def _check_gradient(g: Spec, delta: Spec, total: Spec, *operands: Spec, **attributes: Any) -> None:
    out, row = _attention_rule(*operands, **attributes)
    if g != out or delta != row or total != row:
        raise ShapeError(
            f"attention_gradient: the gradient {g} must be {out}, and {delta} and {total}, one "
            f"number a row, must be {row}"
        )


def _gradient_rule(
    g: Spec, delta: Spec, total: Spec, query: Spec, key: Spec, value: Spec, *extras: Spec,
    causal: bool, scale: float, precision: str = "highest",
) -> tuple[Spec, Spec, Spec]:  # fmt: skip
    _check_gradient(g, delta, total, query, key, value, *extras, causal=causal, scale=scale)
    return query, key, value


def _bias_gradient_rule(
    g: Spec, delta: Spec, total: Spec, query: Spec, key: Spec, value: Spec, *extras: Spec,
    causal: bool, scale: float, precision: str = "highest",
) -> Spec:  # fmt: skip
    _check_gradient(g, delta, total, query, key, value, *extras, causal=causal, scale=scale)
    biases = [x for x in extras if x.dtype is not bool_]
    if len(biases) != 1:
        raise ShapeError(f"attention_bias_gradient must have one bias, not {len(biases)}")
    return biases[0]


def _product(a: Any, b: Any, contract: tuple[int, int]) -> Any:
    """Return the product of two tensors (N, K, *, *) over one axis of each."""
    axes = ((contract[0],), (contract[1],))
    return dot_general(a, b, contract=axes, batch=((0, 1), (0, 1)), dtype=a.dtype)


def _by_key_head(x: Any, key: Any) -> Any:
    """Return x (N, H, L, *) as (N, K, H / K · L, *): the rows that share a key head together."""
    n, heads, length, width = x.shape
    groups = key.shape[1]
    return reshape(x, shape=(n, groups, heads // groups * length, width))


def _scores(query: Any, key: Any, extras: Any, causal: bool, scale: float) -> Any:
    """Return the scaled scores (N, H, L, S) with bias, −inf where a place is hidden."""
    n, heads, length, _ = query.shape
    shape = (n, heads, length, key.shape[2])
    product = _product(_by_key_head(wide(query), key), wide(key), (3, 3))
    scores = reshape(product, shape=shape) * scale
    for x in extras:
        if x.dtype is not bool_:
            scores = scores + expand(like(x, scores), shape=shape)
    for x in extras:
        if x.dtype is bool_:
            scores = e.where(expand(x, shape=shape), scores, fill(scores, -math.inf))
    if causal:
        with query.device:
            rows = reshape(iota(length=length, dtype=int32), shape=(length, 1))
            columns = iota(length=shape[3], dtype=int32)
        seen = e.less_equal(
            expand(columns, shape=(length, shape[3])), expand(rows, shape=(length, shape[3]))
        )
        scores = e.where(expand(seen, shape=shape), scores, fill(scores, -math.inf))
    return scores


def _finite(x: Any) -> Any:
    """Return x with 0 for −inf, so that −inf minus it is −inf and its exponential 0."""
    return e.where(x > -math.inf, x, fill(x, 0))


def _attention(
    query: Any, key: Any, value: Any, *extras: Any,
    causal: bool, scale: float, precision: str = "highest", keep: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    scores = _scores(query, key, extras, causal, scale)
    if not scores.shape[3]:
        total = fill(r.sum(scores, axes=(3,), dtype=scores.dtype), -math.inf)
        out = _empty(query, value)
        return (out, total, out) if keep else (out, total)
    powers, total, largest = _powers(scores)
    out = weighted(powers, wide(value))
    out = out / spread(_safe(total), out, (3,))
    rounded, total = like(out, query), largest + e.log(total)
    return (rounded, total, like(out - wide(rounded), query)) if keep else (rounded, total)


def _powers(scores: Any) -> tuple[Any, Any, Any]:
    """Return exp(scores − largest), its sum and the largest of each row (0 where all is hidden)."""
    largest = _finite(r.max(scores, axes=(3,)).detach())
    powers = e.exp(scores - spread(largest, scores, (3,)))
    return powers, r.sum(powers, axes=(3,), dtype=powers.dtype), largest


def _safe(total: Any) -> Any:
    return e.where(total > 0, total, fill(total, 1))


def weighted(weights: Any, value: Any) -> Any:
    """Return the values (N, K, S, V) summed by weights (N, H, L, S), as (N, H, L, V)."""
    made = _product(_by_key_head(weights, value), value, (3, 2))
    return reshape(made, shape=(*weights.shape[:3], value.shape[3]))


def attention_weights(query: Any, key: Any, *extras: Any, causal: bool, scale: float) -> Any:
    """Return the weights (N, H, L, S), 0 in rows where all is hidden; recorded op by op."""
    scores = _scores(query, key, extras, causal, scale)
    if not scores.shape[3]:
        return scores
    powers, total, _ = _powers(scores)
    return powers / spread(_safe(total), powers, (3,))


def _empty(query: Any, value: Any) -> Any:
    zeros = r.sum(query, axes=(3,), dtype=query.dtype) * 0
    return spread(zeros, spec((*query.shape[:3], value.shape[3]), query.dtype), (3,))


def _score_gradient(
    g: Any, delta: Any, total: Any, query: Any, key: Any, value: Any, extras: Any,
    causal: bool, scale: float,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the probabilities and the gradient of the scores (after scale and bias)."""
    scores = _scores(query, key, extras, causal, scale)
    powers = e.exp(scores - spread(_finite(total), scores, (3,)))
    along = _product(_by_key_head(wide(g), key), wide(value), (3, 3))
    along = reshape(along, shape=scores.shape)
    return powers, powers * (along - spread(delta, scores, (3,)))


def _gradient(
    g: Any, delta: Any, total: Any, query: Any, key: Any, value: Any, *extras: Any,
    causal: bool, scale: float, precision: str = "highest",
) -> tuple[Any, Any, Any]:  # fmt: skip
    powers, inner = _score_gradient(g, delta, total, query, key, value, extras, causal, scale)
    scaled = _by_key_head(inner * scale, key)
    for_query = reshape(_product(scaled, wide(key), (3, 2)), shape=query.shape)
    for_key = _product(scaled, _by_key_head(wide(query), key), (2, 2))
    for_value = _product(_by_key_head(powers, key), _by_key_head(wide(g), key), (2, 2))
    return like(for_query, query), like(for_key, key), like(for_value, value)


def _bias_gradient(
    g: Any, delta: Any, total: Any, query: Any, key: Any, value: Any, *extras: Any,
    causal: bool, scale: float, precision: str = "highest",
) -> Any:  # fmt: skip
    _, inner = _score_gradient(g, delta, total, query, key, value, extras, causal, scale)
    bias = next(x for x in extras if x.dtype is not bool_)
    axes = tuple(i for i in range(4) if bias.shape[i] == 1 and inner.shape[i] != 1)
    if axes:
        inner = r.sum(inner, axes=axes, dtype=inner.dtype)
    return like(reshape(inner, shape=bias.shape), bias)


def _attention_vjp(
    g: Any, outputs: Any, query: Any, key: Any, value: Any, *extras: Any, **attributes: Any
) -> list[Any]:  # fmt: skip
    out, total, *rest = outputs
    attributes.pop("keep", None)
    # The gradient of a score is p · (g · v − delta), where delta is the sum of p · (g · v) over the
    # row, which is g · out. A gradient of the row's logarithm adds p times itself. A rounded result
    # and its rest move together, so the gradient of the rest is that of the result already.
    whole = wide(out) + wide(rest[0]) if rest else wide(out)
    along = wide(g[0]) * whole
    delta = r.sum(along, axes=(3,), dtype=along.dtype) - g[1]
    operands = (g[0], delta, total, query, key, value, *extras)
    gradients: list[Any] = list(attention_gradient(*operands, **attributes))
    for x in extras:
        gradients.append(
            None if x.dtype is bool_ else attention_bias_gradient(*operands, **attributes)
        )
    return gradients


# Outputs: (N, H, L, V), and the logarithm of the sum of exponentials of each row (N, H, L); with
# ``keep``, which half types may have, also the output before rounding less the output.
# Source of the gradient's form: Dao et al., "FlashAttention", 2022.
attention = op(
    "attention",
    _attention_rule,
    vjp=_attention_vjp,
    saves="y01234",
    decompose=_attention,
    autocast="low",
    keeps=_keeps,
)
attention_gradient = op("attention_gradient", _gradient_rule, decompose=_gradient)
attention_bias_gradient = op(
    "attention_bias_gradient", _bias_gradient_rule, decompose=_bias_gradient
)
