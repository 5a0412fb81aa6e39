"""Rows of attention and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor.dtypes import bfloat16, bool_, float16, float32
from calor.ops.base import find

from ..domains import between, chosen, normal
from ..language import REAL_FLOATS, WIDE_FLOATS, Array, Case, case, ulp

HALVES = (float16, bfloat16)
MASK = chosen(np.array([[1, 0, 1, 1, 0], [1, 1, 1, 0, 1], [1, 0, 0, 0, 0]])[None, None], bool_)
# The second query may look nowhere.
HIDDEN = chosen(np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]])[None, None], bool_)
NEAR = ulp(64, scale=lambda *_, **__: 8.0)


def _scores(q: Array, k: Array, extras: Any, causal: bool, scale: float) -> Array:
    """Scores (N, H, L, S), −inf where hidden; each key head is repeated for its query heads."""
    k = np.repeat(k, q.shape[1] // k.shape[1], 1)
    scores = np.einsum("nhle,nhse->nhls", q, k) * scale
    for x in extras:
        hidden = np.zeros(x.shape) if x.dtype.kind != "b" else np.where(x, 0.0, -np.inf)
        scores = scores + (x if x.dtype.kind != "b" else hidden)
    if causal:
        seen = np.tril(np.ones(scores.shape[2:], bool))
        scores = np.where(seen, scores, -np.inf)
    return np.asarray(scores)


def attention(
    q: Array, k: Array, v: Array, *extras: Array, causal: bool = False, scale: float = 1.0
) -> tuple[Array, Array]:
    """Softmax row by row; a row that is hidden whole gives 0 and the logarithm −inf."""
    scores = _scores(q, k, extras, causal, scale)
    largest = scores.max(-1)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    powers = np.exp(scores - largest[..., None])
    total = powers.sum(-1)
    weights = powers / np.where(total == 0, 1, total)[..., None]
    values = np.repeat(v, q.shape[1] // v.shape[1], 1)
    with np.errstate(divide="ignore"):
        return np.einsum("nhls,nhsv->nhlv", weights, values), np.log(total) + largest


def _score_gradient(
    g: Array, delta: Array, total: Array, q: Array, k: Array, v: Array, extras: Any,
    causal: bool, scale: float,
) -> tuple[Array, Array]:  # fmt: skip
    weights = np.exp(_scores(q, k, extras, causal, scale) - total[..., None])
    along = np.einsum("nhlv,nhsv->nhls", g, np.repeat(v, q.shape[1] // v.shape[1], 1))
    return weights, weights * (along - delta[..., None])


def _by_head(x: Array, heads: int) -> Array:
    """Add up what the query heads of one key head give."""
    n, _, places, width = x.shape
    return np.asarray(x.reshape(n, heads, -1, places, width).sum(2))


def gradient(
    g: Array, delta: Array, total: Array, q: Array, k: Array, v: Array, *extras: Array,
    causal: bool, scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of query, key and value; ``delta`` is the sum of g times the result."""
    weights, inner = _score_gradient(g, delta, total, q, k, v, extras, causal, scale)
    keys = np.repeat(k, q.shape[1] // k.shape[1], 1)
    for_query = np.einsum("nhls,nhse->nhle", inner, keys) * scale
    for_key = np.einsum("nhls,nhle->nhse", inner, q) * scale
    for_value = np.einsum("nhls,nhlv->nhsv", weights, g)
    return for_query, _by_head(for_key, k.shape[1]), _by_head(for_value, k.shape[1])


def _bias_gradient(
    g: Array, delta: Array, total: Array, q: Array, k: Array, v: Array, *extras: Array,
    causal: bool, scale: float,
) -> Array:  # fmt: skip
    _, inner = _score_gradient(g, delta, total, q, k, v, extras, causal, scale)
    bias = next(x for x in extras if x.dtype.kind != "b")
    axes = tuple(i for i in range(4) if bias.shape[i] == 1)
    return np.asarray(inner.sum(axes, keepdims=True))


def _saturated(key: Any, value: Any, up: Any) -> Any:
    """Queries that are twice their keys: every row of the softmax is nearly one-hot."""

    def attended(query: Any, key: Any, value: Any) -> Any:
        return find("attention")(query, key, value, causal=False, scale=0.5)[0]

    return calor.vjp(attended, key * 2, key, value)[1](up)


def _saturated_gradients(key: Array, value: Array, up: Array) -> tuple[Array, Array, Array]:
    out, total = attention(key * 2, key, value, causal=False, scale=0.5)
    operands = key * 2, key, value
    return gradient(up, (up * out).sum(-1), total, *operands, causal=False, scale=0.5)


def _largest(*operands: Array) -> Any:
    return max(np.abs(made).max() for made in _saturated_gradients(*operands))


def _qkv(heads: int, key_heads: int) -> tuple[Any, Any, Any]:
    return normal(2, heads, 3, 4), normal(2, key_heads, 5, 4), normal(2, key_heads, 5, 2)


# Each: name, query heads, key heads, mask or bias, causal.
_FORMS: list[tuple[str, int, int, tuple[Any, ...], bool]] = [
    ("plain", 2, 2, (), False),
    ("causal", 1, 1, (), True),
    ("grouped", 4, 2, (), False),
    ("mask", 2, 1, (MASK,), False),
    ("bias", 2, 2, (normal(1, 2, 1, 5),), False),
    ("mask and bias", 2, 2, (MASK, normal(2, 1, 3, 5)), True),
]


CASES: list[Case] = [
    *(
        case("attention", *_qkv(heads, keys), *extras, causal=causal, scale=0.5, oracle=attention,
             dtypes=REAL_FLOATS, tol=ulp(64, half=2, scale=lambda *_, **__: 8.0), name=name,
             out=lambda d: (d, float32 if d.itemsize == 2 else d))
        for name, heads, keys, extras, causal in _FORMS
    ),
    # Scores beyond what an exponential holds.
    case("attention", *_qkv(2, 2), causal=False, scale=200.0, oracle=attention, dtypes=WIDE_FLOATS,
         tol=ulp(64, scale=lambda *_, **__: 4000.0), name="large",
         no_gradient="differences see the rounding of large numbers"),
    case("attention", *_qkv(2, 2), HIDDEN, causal=False, scale=0.5, oracle=attention,
         dtypes=WIDE_FLOATS, tol=NEAR, name="hidden",
         no_gradient="the logarithm of a hidden row is -inf"),
    *(
        case("attention_gradient", normal(2, heads, 3, 2), normal(2, heads, 3),
             between(1.0, 3.0, 2, heads, 3), *_qkv(heads, keys), *extras, causal=causal, scale=0.5,
             oracle=gradient, dtypes=WIDE_FLOATS, name=name,
             tol=ulp(256, scale=lambda *_, **__: 1000.0))
        for name, heads, keys, extras, causal in _FORMS
    ),
    # Of half types the numbers of each row are float32.
    *(
        case(op, normal(2, 2, 3, 2), normal(2, 2, 3).of(float32),
             between(1.0, 3.0, 2, 2, 3).of(float32), *_qkv(2, 2), *extras, causal=False, scale=0.5,
             oracle=oracle, dtypes=HALVES, tol=ulp(2, half=2, scale=lambda *_, **__: 100.0),
             name="half", no_gradient="differences need float64")
        for op, oracle, extras in [
            ("attention_gradient", gradient, ()),
            ("attention_bias_gradient", _bias_gradient, (normal(1, 2, 1, 5),)),
        ]
    ),
    # What is left of a difference, where the softmax is nearly one-hot.
    case(_saturated, normal(1, 2, 9, 8), normal(1, 2, 9, 4), normal(1, 2, 9, 4),
         oracle=_saturated_gradients, dtypes=REAL_FLOATS, name="saturated", covers="attention",
         tol=ulp(64, half=4, scale=_largest), no_gradient="it is a gradient"),
    *(
        case("attention_bias_gradient", normal(2, heads, 3, 2), normal(2, heads, 3),
             between(1.0, 3.0, 2, heads, 3), *_qkv(heads, keys), *extras, causal=causal, scale=0.5,
             oracle=_bias_gradient, dtypes=WIDE_FLOATS, name=name,
             tol=ulp(256, scale=lambda *_, **__: 1000.0))
        for name, heads, keys, extras, causal in _FORMS
        if "bias" in name
    ),
]  # fmt: skip
