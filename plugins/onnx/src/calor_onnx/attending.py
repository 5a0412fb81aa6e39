"""Attention for ONNX Runtime's own operators: heads, padding masks, caches, attention sinks.

Requirements: with only a mask or bias, calor's kept composite is recorded, so that a device can run
it whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import calor
import calor_nn.functional as nn
from calor_onnx.computing import constant, like, wide


def heads_first(x: Any, heads: int) -> Any:
    """Return x (N, L, H · E) as (N, H, L, E)."""
    return calor.permute_dims(calor.reshape(x, (*x.shape[:2], heads, -1)), (0, 2, 1, 3))


def heads_last(x: Any) -> Any:
    """Return x (N, H, L, E) as (N, L, H · E)."""
    n, heads, length, width = x.shape
    return calor.reshape(calor.permute_dims(x, (0, 2, 1, 3)), (n, length, heads * width))


def attend(
    q: Any, k: Any, v: Any, *, scale: float | None = None, seen: Any = None, bias: Any = None,
    causal: bool = False, softcap: float = 0.0, sink: Any = None,
) -> Any:  # fmt: skip
    """Return the attention of q (N, H, L, E) over k and v (N, G, S, E), where G divides H.

    ``seen`` selects the keys of each query, ``bias`` is added to the scores. ``sink`` (H) is a
    score for each head that enters the denominator of the softmax and has no value.
    """
    rate = float(scale) if scale else 1 / math.sqrt(max(q.shape[-1], 1))
    if not softcap and sink is None:
        return nn.scaled_dot_product_attention(
            q, k, v, mask=seen, bias=None if bias is None else like(bias, q), causal=causal,
            scale=rate,
        )  # fmt: skip
    if causal:
        places = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None]
        seen = both(seen, constant(places[None, None], q.device))
    weights = calor.softmax(_scores(q, k, rate, softcap, seen, bias, sink), axis=-1)
    weights = weights[..., : k.shape[2]]
    n, heads, length, _ = q.shape
    merged = calor.reshape(weights, (n, k.shape[1], heads // k.shape[1] * length, -1))
    made = calor.matmul(merged, wide(v))
    return like(calor.reshape(made, (n, heads, length, -1)), q)


def scores_of(q: Any, k: Any, scale: float | None, seen: Any, bias: Any, softcap: float) -> Any:
    """Return the scores of q over k before the softmax."""
    rate = float(scale) if scale else 1 / math.sqrt(max(q.shape[-1], 1))
    return _scores(q, k, rate, softcap, seen, bias, None)


def _scores(q: Any, k: Any, rate: float, softcap: float, seen: Any, bias: Any, sink: Any) -> Any:
    n, heads, length, _ = q.shape
    groups = k.shape[1]
    grouped = calor.reshape(wide(q) * rate, (n, groups, heads // groups * length, -1))
    scores = calor.matmul(grouped, calor.matrix_transpose(wide(k)))
    scores = calor.reshape(scores, (n, heads, length, k.shape[2]))
    if softcap:
        scores = calor.tanh(scores / softcap) * softcap
    if bias is not None:
        scores = scores + like(bias, scores)
    if seen is not None:
        scores = calor.where(seen, scores, -math.inf)
    if sink is not None:
        extra = calor.reshape(like(sink, scores), (1, -1, 1, 1))
        extra = calor.broadcast_to(extra, (n, heads, length, 1))
        scores = calor.concat([scores, extra], axis=3)
    return scores


def both(a: Any, b: Any) -> Any:
    """Return the conjunction of two masks, either of which may be missing."""
    if a is None or b is None:
        return b if a is None else a
    return calor.logical_and(a, b)


def padding_bias(mask: Any, length: int, past: int, keys: int, value: float) -> Any:
    """Return the bias of scores (N, H, L, S) for a mask of keys in any form.

    The forms are (N, S), (N, L, S) and (N, 1, M, M) with 0 for hidden keys, (N) with counts of
    keys, and (2 · N) with ends and starts of the visible keys. ``past`` is the number of keys
    before the queries.
    """
    if mask.ndim == 1:
        raise ValueError("a mask of one axis needs the number of samples: use key_bounds")
    if mask.ndim == 2:
        shown = calor.reshape(mask, (mask.shape[0], 1, 1, -1))
    elif mask.ndim == 3:
        shown = calor.expand_dims(mask, 1)
    else:
        shown = mask[:, :, past : past + length, :keys]
    hidden = calor.equal(shown, 0) if shown.dtype is not calor.bool_ else calor.logical_not(shown)
    return calor.where(hidden, value, 0.0)


def key_bounds(mask: Any, count: int, keys: int, value: float) -> Any:
    """Return the bias of scores for the ends, and starts, of each sample's visible keys."""
    places = constant(np.arange(keys), mask.device)
    ends = calor.reshape(mask[:count], (count, 1, 1, 1))
    seen = places < ends
    if mask.shape[0] == 2 * count:
        seen = calor.logical_and(seen, places >= calor.reshape(mask[count:], (count, 1, 1, 1)))
    return calor.where(seen, 0.0, value)
