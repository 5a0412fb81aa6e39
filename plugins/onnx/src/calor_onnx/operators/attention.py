"""Attention and rotary embedding.

Requirements: without an output of scores and without a soft cap, calor's kept composite is
recorded, so that a device can run it whole; otherwise the scores are computed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import calor
import calor_nn.functional as nn
from calor_onnx.call import Call
from calor_onnx.computing import constant, like, wide
from calor_onnx.errors import ModelError
from calor_onnx.graph import Graph
from calor_onnx.registry import operator
from calor_onnx.types import calor_type, numpy_type
from calor_onnx.windows import positive


def heads_first(x: Any, heads: int) -> Any:
    """Return x (N, L, H · E) as (N, H, L, E)."""
    shape = (*x.shape[:2], positive(heads, "the number of heads"), -1)
    return calor.permute_dims(calor.reshape(x, shape), (0, 2, 1, 3))


def heads_last(x: Any) -> Any:
    """Return x (N, H, L, E) as (N, L, H · E)."""
    n, heads, length, width = x.shape
    return calor.reshape(calor.permute_dims(x, (0, 2, 1, 3)), (n, length, heads * width))


@operator("Attention", since=23)
def attention(
    call: Call, q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None,
    past_value: Any = None, nonpad: Any = None, *, is_causal: int = 0, kv_num_heads: int = 0,
    q_num_heads: int = 0, qk_matmul_output_mode: int = 0, scale: float | None = None,
    softcap: float = 0.0, softmax_precision: int | None = None, left_window_size: int = -1,
    right_window_size: int = -1,
) -> Any:  # fmt: skip
    """Scaled dot-product attention; also the caches and the scores."""
    flat = q.ndim == 3
    if flat:
        if not q_num_heads or not kv_num_heads:
            raise ModelError("Attention: operands of 3 axes need q_num_heads and kv_num_heads")
        q = heads_first(q, q_num_heads)
        k, v = heads_first(k, kv_num_heads), heads_first(v, kv_num_heads)
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        k, v = calor.concat([past_key, k], axis=2), calor.concat([past_value, v], axis=2)
    rate = 1 / math.sqrt(max(q.shape[-1], 1)) if not scale else float(scale)
    offset = past if nonpad is None or past_key is not None else nonpad - q.shape[2]
    simple = (
        isinstance(offset, int) and offset == 0 and max(left_window_size, right_window_size) < 0
    )
    seen, bias = None, None
    if not (is_causal and simple):
        seen = visible(q, k, offset, bool(is_causal), left_window_size, right_window_size)
    if nonpad is not None:
        seen = both(seen, _numbers(k) < calor.reshape(nonpad, (-1, 1, 1, 1)))
    if mask is not None:
        mask = _lengthened(mask, k.shape[2])
        if mask.dtype is calor.bool_:
            seen = both(seen, mask)
        else:
            bias = mask
    causal = bool(is_causal and simple)
    scores = None
    if softcap or softmax_precision is not None or call.wants(3):
        if causal:
            seen = both(seen, visible(q, k, 0, True, -1, -1))
        precision = None
        if softmax_precision is not None:
            precision = calor_type(numpy_type(softmax_precision))
        y, scores = _explicit(q, k, v, seen, bias, rate, softcap, precision, qk_matmul_output_mode)
    else:
        y = nn.scaled_dot_product_attention(
            q, k, v, mask=seen, bias=None if bias is None else like(bias, q), causal=causal,
            scale=rate,
        )  # fmt: skip
    return (heads_last(y) if flat else y), k, v, scores


def both(a: Any, b: Any) -> Any:
    """Return the conjunction of two masks, either of which may be missing."""
    return b if a is None else calor.logical_and(a, b)


def _numbers(k: Any) -> Any:
    return constant(np.arange(k.shape[2]), k.device)


def visible(q: Any, k: Any, offset: Any, causal: bool, left: int = -1, right: int = -1) -> Any:
    """Return the keys visible to each query by position: bool (N or 1, 1, L, S), or None."""
    if not causal and left < 0 and right < 0:
        return None
    length = q.shape[2]
    keys = np.arange(k.shape[2])
    if isinstance(offset, int):
        if causal and length == 1 and offset >= k.shape[2] - 1 and left < 0:
            return None
        place = np.arange(length)[:, None] + offset
        seen = np.ones((length, k.shape[2]), np.bool_)
        seen &= keys <= place if causal else True
        seen &= keys >= place - left if left >= 0 else True
        seen &= keys <= place + right if right >= 0 else True
        return constant(seen[None, None], k.device)
    rows = constant(np.arange(length)[:, None], k.device)
    where = rows + calor.reshape(calor.astype(offset, calor.int64), (-1, 1, 1, 1))
    found = None
    columns = constant(keys, k.device)
    if causal:
        found = both(found, columns <= where)
    if left >= 0:
        found = both(found, columns >= where - left)
    return found if right < 0 else both(found, columns <= where + right)


def _lengthened(mask: Any, length: int) -> Any:
    """Return a mask extended to all keys; the added ones are hidden."""
    missing = length - mask.shape[-1]
    if missing <= 0 or mask.shape[-1] == 1:
        return mask
    width = ((0, 0),) * (mask.ndim - 1) + ((0, missing),)
    return calor.pad(mask, width, value=False if mask.dtype is calor.bool_ else -math.inf)


def _explicit(
    q: Any, k: Any, v: Any, seen: Any, bias: Any, scale: float, softcap: float,
    precision: Any, mode: int,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the attention and the scores at one stage of its computation."""
    n, heads, length, _ = q.shape
    groups = k.shape[1]
    grouped = calor.reshape(wide(q) * scale, (n, groups, heads // groups * length, -1))
    scores = calor.matmul(grouped, calor.matrix_transpose(wide(k)))
    scores = calor.reshape(scores, (n, heads, length, k.shape[2]))
    stages = [scores]
    if softcap:
        scores = calor.tanh(scores / softcap) * softcap
    stages.append(scores)
    if bias is not None:
        scores = scores + like(bias, scores)
    if seen is not None:
        scores = calor.where(seen, scores, -math.inf)
    stages.append(scores)
    work = scores if precision is None else calor.astype(like(scores, q), precision)
    top = calor.max(wide(work), axis=3, keepdims=True)
    powers = calor.exp(wide(work) - calor.where(calor.isinf(top), 0, top))
    total = calor.sum(powers, axis=3, keepdims=True)
    weights = powers / calor.where(calor.equal(total, 0), 1, total)
    stages.append(like(weights, q))
    merged = calor.reshape(weights, (n, groups, heads // groups * length, -1))
    y = calor.matmul(merged, like(wide(v), merged))
    return like(calor.reshape(y, (n, heads, length, -1)), q), like(stages[mode], q)


@operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    call: Call, q: Any, k: Any, v: Any, *, scale: float | None = None,
    softmax_precision: int = 1, score_mod: Graph | None = None, prob_mod: Graph | None = None,
) -> Any:  # fmt: skip
    """Attention with sub-graphs that modify scores and weights."""
    heads, width = q.shape[1], q.shape[3]
    groups = k.shape[1]
    rate = 1 / math.sqrt(width) if not scale else float(scale)
    precision: Any = calor_type(numpy_type(softmax_precision))
    if not score_mod and not prob_mod:
        return nn.scaled_dot_product_attention(q, k, v, scale=rate)
    k, v = (calor.repeat(x, heads // groups, axis=1) for x in (k, v))
    scores = calor.astype(calor.matmul(q, calor.matrix_transpose(k)) * rate, precision)
    if score_mod:
        (scores,) = map(call.tensor, call.apply(score_mod, [scores]))
    weights = calor.softmax(scores, axis=-1)
    if prob_mod:
        (weights,) = map(call.tensor, call.apply(prob_mod, [weights]))
    return calor.matmul(like(weights, v), v)


@operator("RotaryEmbedding", since=23)
def rotary_embedding(
    call: Call, x: Any, cos: Any, sin: Any, position_ids: Any = None, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    """Pairs of elements rotated by angles of their position (Su et al., "RoFormer", 2021)."""
    flat = x.ndim == 3
    if flat:
        if not num_heads:
            raise ModelError("RotaryEmbedding: an operand of 3 axes needs num_heads")
        x = heads_first(x, num_heads)
    if position_ids is not None:
        cos, sin = calor.take(cos, position_ids, axis=0), calor.take(sin, position_ids, axis=0)
    made = rotated(x, cos, sin, rotary_embedding_dim or x.shape[-1], bool(interleaved))
    return heads_last(made) if flat else made


def rotated(x: Any, cos: Any, sin: Any, width: int, interleaved: bool) -> Any:
    """Return x (N, H, L, E), the first ``width`` of E rotated by cos and sin (N, L, width/2)."""
    half = width // 2
    cos, sin = (calor.expand_dims(wide(t)[..., :half], 1) for t in (cos, sin))
    part = wide(x[..., :width])
    if interleaved:
        pairs = calor.reshape(part, (*part.shape[:-1], half, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        made = calor.stack([a * cos - b * sin, b * cos + a * sin], axis=-1)
        made = calor.reshape(made, part.shape)
    else:
        a, b = part[..., :half], part[..., half:]
        made = calor.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)
    made = like(made, x)
    return made if width == x.shape[-1] else calor.concat([made, x[..., width:]], axis=-1)


@operator("SwiGLU", since=28)
def swiglu(call: Call, gate: Any, linear: Any, *, alpha: float = 1.0) -> Any:
    """gate · sigmoid(alpha · gate) · linear."""
    curve = calor.silu(gate) if alpha == 1 else gate * calor.sigmoid(gate * alpha)
    return curve * linear
