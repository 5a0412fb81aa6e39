"""Attention and its gradients in float64, as their definitions say."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def scores_of(q: Array, k: Array, extras: Any, causal: bool, scale: float) -> Array:
    """Scores (N, H, L, S), −inf where hidden; key heads are repeated for their query heads."""
    k = np.repeat(k, q.shape[1] // k.shape[1], 1)
    scores = np.einsum("nhle,nhse->nhls", q, k) * scale
    for x in extras:
        if x.dtype != bool:
            scores = scores + x.astype(np.float64)
    for x in extras:
        if x.dtype == bool:
            scores = np.where(x, scores, -np.inf)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[2:], bool)), scores, -np.inf)
    return np.asarray(scores)


def attention(
    q: Array, k: Array, v: Array, *extras: Array, causal: bool, scale: float
) -> tuple[Array, Array]:
    """The values weighted by the softmax of each row, and the logarithm of its sum."""
    scores = scores_of(q, k, extras, causal, scale)
    largest = scores.max(-1, initial=-np.inf, keepdims=True)
    largest = np.where(np.isneginf(largest), 0, largest)
    powers = np.exp(scores - largest)
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    values = np.repeat(v, q.shape[1] // v.shape[1], 1)
    out = np.einsum("nhls,nhsv->nhlv", weights, values)
    with np.errstate(divide="ignore"):
        return out, (np.log(total) + largest)[..., 0]


def score_gradients(
    g: Array, delta: Array, total: Array, q: Array, k: Array, v: Array, extras: Any,
    causal: bool, scale: float,
) -> tuple[Array, Array]:  # fmt: skip
    """The weights, and the gradients of the scores after scale and bias."""
    total = np.where(np.isneginf(total), 0, total)
    weights = np.exp(scores_of(q, k, extras, causal, scale) - total[..., None])
    along = np.einsum("nhlv,nhsv->nhls", g, np.repeat(v, q.shape[1] // v.shape[1], 1))
    return weights, weights * (along - delta[..., None])


def gradient(
    g: Array, delta: Array, total: Array, q: Array, k: Array, v: Array, *extras: Array,
    causal: bool, scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of query, key and value."""
    weights, inner = score_gradients(g, delta, total, q, k, v, extras, causal, scale)
    keys = np.repeat(k, q.shape[1] // k.shape[1], 1)
    for_query = np.einsum("nhls,nhse->nhle", inner, keys) * scale
    for_key = np.einsum("nhls,nhle->nhse", inner, q) * scale
    for_value = np.einsum("nhls,nhlv->nhsv", weights, g)

    def by_head(x: Array) -> Array:
        return x.reshape(x.shape[0], k.shape[1], q.shape[1] // k.shape[1], *x.shape[2:]).sum(2)

    return for_query, by_head(for_key), by_head(for_value)


def bias_gradient(
    g: Array, delta: Array, total: Array, q: Array, k: Array, v: Array, *extras: Array,
    causal: bool, scale: float,
) -> tuple[Array]:  # fmt: skip
    """The gradient of the bias among the extras."""
    _, inner = score_gradients(g, delta, total, q, k, v, extras, causal, scale)
    (bias,) = (x for x in extras if x.dtype != bool)
    axes = tuple(i for i in range(4) if bias.shape[i] == 1)
    return (inner.sum(axes, keepdims=True),)
