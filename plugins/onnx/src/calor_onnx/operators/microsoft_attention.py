"""The attention of ONNX Runtime's own domain, as its transformer optimizer writes it."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_onnx.attending import (
    attend,
    heads_first,
    heads_last,
    key_bounds,
    padding_bias,
    scores_of,
)
from calor_onnx.call import Call
from calor_onnx.computing import constant, like
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.types import name_of

DOMAIN = "com.microsoft"


@operator("Attention", domain=DOMAIN)
def attention(
    call: Call, x: Any, weights: Any, bias: Any = None, mask: Any = None, past: Any = None,
    attention_bias: Any = None, past_length: Any = None, *, num_heads: int,
    scale: float | None = None, mask_filter_value: float = -10000.0, do_rotary: int = 0,
    past_present_share_buffer: int = 0, qkv_hidden_sizes: list[int] | None = None,
    unidirectional: int = 0, rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    """Self-attention with its projection: queries, keys and values from one product."""
    if do_rotary or past_present_share_buffer:
        raise ModelError(
            "Attention: only ONNX Runtime's CUDA provider has do_rotary and "
            "past_present_share_buffer; export the model without them"
        )
    projected = calor.matmul(x, weights)
    if bias is not None:
        projected = projected + bias
    third = weights.shape[1] // 3
    first, second, _ = qkv_hidden_sizes or (third, third, third)
    q, k, v = (
        heads_first(part, num_heads)
        for part in (
            projected[..., :first],
            projected[..., first : first + second],
            projected[..., first + second :],
        )
    )
    return merged(
        q, k, v, mask, past, attention_bias, scale=scale, value=mask_filter_value,
        causal=bool(unidirectional),
    )  # fmt: skip


def merged(
    q: Any, k: Any, v: Any, mask: Any, past: Any, attention_bias: Any, *, scale: float | None,
    value: float, causal: bool,
) -> Any:  # fmt: skip
    """Return the attention (N, L, E) and the new cache (2, N, H, S, E) of heads."""
    older = 0
    if past is not None:
        older = past.shape[3]
        k = calor.concat([like(past[0], k), k], axis=2)
        v = calor.concat([like(past[1], v), v], axis=2)
    bias = masked(mask, q, k, older, value)
    if attention_bias is not None:
        bias = attention_bias if bias is None else attention_bias + like(bias, attention_bias)
    seen = triangle(q, k, older) if causal else None
    made = attend(q, k, v, scale=scale, seen=seen, bias=bias)
    return heads_last(made), calor.stack([k, v], axis=0) if k.shape == v.shape else None


def masked(mask: Any, q: Any, k: Any, older: int, value: float) -> Any:
    """Return what a mask of keys adds to the scores, or None."""
    if mask is None:
        return None
    if mask.ndim == 1:
        return key_bounds(mask, q.shape[0], k.shape[2], value)
    return padding_bias(mask, q.shape[2], older, k.shape[2], value)


def triangle(q: Any, k: Any, older: int) -> Any:
    """Return which keys each query may look at when it sees no later one, or None for all."""
    if q.shape[2] == 1 and older == k.shape[2] - 1:
        return None
    places = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + older
    return constant(places[None, None], q.device)


@operator("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(
    call: Call, query: Any, key: Any = None, value: Any = None, bias: Any = None,
    mask: Any = None, attention_bias: Any = None, past_key: Any = None, past_value: Any = None,
    past_length: Any = None, cache_indirection: Any = None, *, num_heads: int,
    scale: float | None = None, mask_filter_value: float = -10000.0, unidirectional: int = 0,
) -> Any:  # fmt: skip
    """Attention of queries over keys and values, each projected before; cross-attention too."""
    if past_length is not None or cache_indirection is not None:
        raise ModelError(
            "MultiHeadAttention: only ONNX Runtime's beam search has one buffer for past and "
            "present; export the model without it"
        )
    q, k, v = parts(query, key, value, bias, num_heads)
    older = 0
    if past_key is not None:
        older = past_key.shape[2]
        k = calor.concat([like(past_key, k), k], axis=2)
        v = calor.concat([like(past_value, v), v], axis=2)
    added = masked(mask, q, k, older, mask_filter_value)
    if attention_bias is not None:
        added = attention_bias if added is None else attention_bias + like(added, attention_bias)
    seen = triangle(q, k, older) if unidirectional else None
    made = heads_last(attend(q, k, v, scale=scale, seen=seen, bias=added))
    scores = None
    if call.wants(3):
        scores = calor.softmax(scores_of(q, k, scale, seen, added, 0.0), axis=-1)
    return made, k, v, scores


def parts(query: Any, key: Any, value: Any, bias: Any, heads: int) -> tuple[Any, Any, Any]:
    """Return queries, keys and values (N, H, L, E) from separate or packed operands."""
    if query.ndim == 5:
        packed = [query[..., i, :] for i in range(3)]
        q, k, v = (calor.permute_dims(x, (0, 2, 1, 3)) for x in packed)
        if bias is None:
            return q, k, v
        query, key, value = (heads_last(x) for x in (q, k, v))
    if key is not None and key.ndim == 5:
        key, value = (heads_last(calor.permute_dims(key[..., i, :], (0, 2, 1, 3)))
                      for i in range(2))  # fmt: skip
    width = query.shape[2]
    if bias is not None:
        query = query + bias[:width]
    if key is not None and key.ndim == 4:
        if bias is not None:
            raise ModelError("MultiHeadAttention: keys of 4 axes take no bias")
        return heads_first(query, heads), key, value
    if bias is not None:
        second = key.shape[2]
        key, value = key + bias[width : width + second], value + bias[width + second :]
    return heads_first(query, heads), heads_first(key, heads), heads_first(value, heads)


@operator("QAttention", domain=DOMAIN)
def quantized_attention(
    call: Call, x: Any, weights: Any, bias: Any, x_scale: Any, weight_scale: Any,
    mask: Any = None, x_zero: Any = None, weight_zero: Any = None, past: Any = None, *,
    num_heads: int, scale: float | None = None, mask_filter_value: float = -10000.0,
    unidirectional: int = 0, do_rotary: int = 0, past_present_share_buffer: int = 0,
) -> Any:  # fmt: skip
    """Attention whose projection is a product of integers."""
    if x.dtype.kind not in ("int", "uint"):
        raise ModelError(f"QAttention takes integers, not {name_of(x.dtype.numpy)}")
    a = calor.astype(x, calor.int32) - (0 if x_zero is None else calor.astype(x_zero, calor.int32))
    b = calor.astype(weights, calor.int32)
    if weight_zero is not None:
        b = b - calor.astype(weight_zero, calor.int32)
    made = calor.astype(calor.matmul(a, b), x_scale.dtype) * (x_scale * weight_scale) + bias
    width = weights.shape[1] // 3
    q, k, v = (heads_first(made[..., i * width : (i + 1) * width], num_heads) for i in range(3))
    return merged(
        q, k, v, mask, past, None, scale=scale, value=mask_filter_value,
        causal=bool(unidirectional),
    )  # fmt: skip
