"""Attention with a cache for text generation, and the rotary embedding of its operands.

The cache may be a buffer that is longer than what it holds: each sample of a batch has as many
keys as ``seqlens_k`` says, and new ones are written behind them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor.errors import UnsupportedError
from calor.ops.composites import rms_norm
from calor_onnx.attending import attend, heads_first, heads_last, scores_of
from calor_onnx.call import Call
from calor_onnx.computing import constant, like, wide
from calor_onnx.registry import operator

DOMAIN = "com.microsoft"


@operator("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(
    call: Call, x: Any, position_ids: Any, cos: Any, sin: Any, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1.0,
    is_packed_batching: int = 0,
) -> Any:  # fmt: skip
    """Pairs of elements turned by angles of their position (Su et al., "RoFormer", 2021)."""
    flat = x.ndim == 3
    width = rotary_embedding_dim or 2 * cos.shape[1]
    if flat:
        x = heads_first(x, num_heads or x.shape[2] // width)
    if position_ids.ndim == 1:
        rows = constant(np.arange(x.shape[2])[None], x.device)
        position_ids = calor.reshape(calor.astype(position_ids, calor.int64), (-1, 1)) + rows
    made = turned(x, position_ids, cos, sin, width, bool(interleaved))
    return heads_last(made) if flat else made


def turned(x: Any, places: Any, cos: Any, sin: Any, width: int, interleaved: bool) -> Any:
    """Return x (N, H, L, E) with the first ``width`` of E turned by the angles of its places."""
    half = width // 2
    cos, sin = (
        calor.expand_dims(wide(calor.take(t, places, axis=0))[..., :half], 1) for t in (cos, sin)
    )
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


@operator("GroupQueryAttention", domain=DOMAIN, host=[6])
def group_query_attention(
    call: Call, query: Any, key: Any, value: Any, past_key: Any, past_value: Any, seqlens_k: Any,
    total_length: Any, cos: Any = None, sin: Any = None, position_ids: Any = None,
    attention_bias: Any = None, head_sink: Any = None, k_scale: Any = None, v_scale: Any = None,
    q_norm: Any = None, k_norm: Any = None, *, num_heads: int, kv_num_heads: int,
    scale: float | None = None, softcap: float = 0.0, do_rotary: int = 0, causal: int = 1,
    rotary_interleaved: int = 0, local_window_size: int = -1, smooth_softmax: int = 0,
    qk_output: int = 0, qk_norm_epsilon: float = 1e-6, k_quant_type: str = "NONE",
    v_quant_type: str = "NONE", kv_cache_bit_width: int = 0, sliding_window_cache: int = 0,
) -> Any:  # fmt: skip
    """Attention in which groups of heads share keys and values, over a cache that grows."""
    if k_quant_type != "NONE" or v_quant_type != "NONE" or sliding_window_cache:
        raise UnsupportedError(
            "GroupQueryAttention: calor-onnx has no quantized and no sliding cache; export the "
            "model with a cache of floats"
        )
    q, k, v = _projected(query, key, value, num_heads, kv_num_heads)
    if q_norm is not None:
        q, k = (
            like(rms_norm(x, axes=(3,), eps=float(qk_norm_epsilon))[0] * w, x)
            for x, w in ((q, q_norm), (k, k_norm))
        )
    n, _, length, _ = q.shape
    total = call.integers(total_length)[0]
    # Number of earlier keys of each sample; one number if it is the same for all.
    older: Any = total - length
    if n > 1 and older:
        older = calor.reshape(calor.astype(seqlens_k, calor.int64), (n, 1)) + (1 - length)
    if do_rotary:
        places = _places(older, n, length, position_ids, q.device)
        width = 2 * cos.shape[1]
        q, k = (turned(x, places, cos, sin, width, bool(rotary_interleaved)) for x in (q, k))
    present_k, present_v = (
        stored(past, new, older, total) for past, new in ((past_key, k), (past_value, v))
    )
    keys, values = (x if x.shape[2] == total else x[:, :, :total] for x in (present_k, present_v))
    seen = _seen(older, length, total, bool(causal), local_window_size, q.device)
    if attention_bias is not None:
        attention_bias = attention_bias[..., :total]
    sink = head_sink
    if smooth_softmax and sink is None:
        sink = calor.zeros(num_heads, dtype=calor.float32, device=q.device)
    made = attend(
        q, keys, values, scale=scale, seen=seen, bias=attention_bias, softcap=softcap, sink=sink
    )
    scores = None
    if call.wants(3):
        scores = scores_of(q, keys, scale, seen, attention_bias, softcap)
        scores = like(scores if qk_output == 1 else calor.softmax(scores, axis=-1), q)
    return heads_last(made), present_k, present_v, scores


def _projected(query: Any, key: Any, value: Any, heads: int, groups: int) -> tuple[Any, Any, Any]:
    if key is None:
        width = query.shape[2] // (heads + 2 * groups)
        first, second = heads * width, (heads + groups) * width
        query, key, value = query[..., :first], query[..., first:second], query[..., second:]
    return heads_first(query, heads), heads_first(key, groups), heads_first(value, groups)


def _places(older: Any, count: int, length: int, position_ids: Any, device: Any) -> Any:
    rows = np.arange(length)[None]
    if isinstance(older, int):
        if position_ids is not None:
            if older:
                return position_ids
            first = calor.reshape(calor.reshape(position_ids, (-1,))[:1], (1, 1))
            return calor.broadcast_to(first + constant(rows, device), (count, length))
        return constant(np.broadcast_to(rows + older, (count, length)).copy(), device)
    return older + constant(rows, device) if position_ids is None else position_ids


def _seen(older: Any, length: int, total: int, causal: bool, window: int, device: Any) -> Any:
    """Return which keys each query may look at: (1 or N, 1, L, S), or None for all."""
    keys = np.arange(total)
    if isinstance(older, int):
        if not causal or (length == 1 and window < 0):
            return None
        place = np.arange(length)[:, None] + older
        seen = keys <= place
        if window >= 0:
            seen &= keys > place - window
        return constant(seen[None, None], device)
    rows = constant(np.arange(length)[None, :, None], device) + calor.expand_dims(older, 2)
    columns = constant(keys, device)
    if not causal:
        return calor.expand_dims(columns < calor.expand_dims(older, 2) + length, 1)
    found = columns <= rows
    if window >= 0:
        found = calor.logical_and(found, columns > rows - window)
    return calor.expand_dims(found, 1)


def stored(past: Any, new: Any, older: Any, total: int) -> Any:
    """Return the cache (N, G, C, E) with new keys (N, G, L, E) behind the older ones."""
    n, groups, length, width = new.shape
    room = 0 if past is None else past.shape[2]
    size = max(room, total)
    if isinstance(older, int):
        pieces = [new] if not older else [past[:, :, :older], new]
        if older + length < size:
            pieces.append(past[:, :, older + length :])
        pieces = [like(piece, new) for piece in pieces]
        return pieces[0] if len(pieces) == 1 else calor.concat(pieces, axis=2)
    places = constant(np.arange(size)[None], new.device)
    fresh = calor.logical_and(places >= older, places < older + length)
    lie = calor.where(fresh, places - older + room, calor.minimum(places, room - 1))
    index = calor.broadcast_to(calor.reshape(lie, (n, 1, size, 1)), (n, groups, size, width))
    return calor.take_along_axis(calor.concat([like(past, new), new], axis=2), index, axis=2)
