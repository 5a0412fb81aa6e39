"""Operators of calor's own domain, with which passes replace several of ONNX's."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import calor
import calor_nn.functional as nn
from calor_onnx.call import Call
from calor_onnx.computing import like
from calor_onnx.operators.recurrent import times
from calor_onnx.registry import operator


@operator("ScaledAttention", domain="calor")
def scaled_attention(
    call: Call, q: Any, k: Any, v: Any, bias: Any = None, *, scale: float = 1.0, turned: int = 0
) -> Any:
    """softmax(scale · q · kᵀ + bias) · v; with ``turned`` the keys are transposed.

    Shapes that calor's kept composite does not take, such as broadcast ones, are computed by
    separate operators. A query without visible keys gets 0; ONNX's operators give NaN.
    """
    keys = calor.matrix_transpose(k) if turned else k
    if _fits(q, keys, v, bias):
        return nn.scaled_dot_product_attention(q, keys, v, bias=bias, scale=scale)
    scores = calor.matmul(q, k if turned else calor.matrix_transpose(k))
    if scale != 1:
        scores = calor.astype(scores * scale, scores.dtype)
    return calor.matmul(calor.softmax(scores if bias is None else scores + bias, axis=-1), v)


@operator("Linear", domain="calor")
def linear(call: Call, a: Any, weight: Any, bias: Any = None) -> Any:
    """a · weightᵀ + bias; the product is of a's type."""
    made = times(a, like(weight, a))
    return made if bias is None else made + bias


def _fits(q: Any, k: Any, v: Any, bias: Any) -> bool:
    if not q.ndim == k.ndim == v.ndim or q.ndim not in (3, 4):
        return False
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2] or not q.dtype is k.dtype is v.dtype:
        return False
    if bias is None:
        return True
    scores = (*q.shape[:-1], k.shape[-2])
    pairs = list(zip_longest(reversed(bias.shape), reversed(scores), fillvalue=0))
    return bias.dtype is q.dtype and all(a in (0, 1, b) and b for a, b in pairs)
