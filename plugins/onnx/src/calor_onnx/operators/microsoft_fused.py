"""Activations, normalizations and products of ONNX Runtime's own domain: what its optimizer fuses.

Here they are written as the operators that were fused, from which calor's devices fuse again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import calor
import calor_nn.functional as nn
from calor.ops.composites import rms_norm, standardize
from calor_onnx.call import Call
from calor_onnx.computing import constant, like, wide
from calor_onnx.errors import ModelError
from calor_onnx.operators.convolution import conv
from calor_onnx.operators.matrix import gemm
from calor_onnx.operators.normalization import layer_normalization
from calor_onnx.operators.pooling import max_pool
from calor_onnx.registry import operator

DOMAIN = "com.microsoft"

# Older files optimized by ONNX Runtime have it in the default domain.
operator("LayerNormalization")(layer_normalization)
operator("LayerNormalization", domain=DOMAIN)(layer_normalization)


@operator("Gelu", domain=DOMAIN)
def gelu(call: Call, x: Any) -> Any:
    """x times the probability of the normal distribution below x."""
    return calor.gelu(x)


@operator("FastGelu", domain=DOMAIN)
def fast_gelu(call: Call, x: Any, bias: Any = None) -> Any:
    """Gelu by a hyperbolic tangent, of x plus a bias."""
    return calor.gelu(x if bias is None else x + bias, "tanh")


@operator("BiasGelu", domain=DOMAIN)
def bias_gelu(call: Call, x: Any, bias: Any) -> Any:
    """Gelu of x plus a bias."""
    return calor.gelu(x + bias)


@operator("QuickGelu", domain=DOMAIN)
def quick_gelu(call: Call, x: Any, *, alpha: float = 1.702) -> Any:
    """x · sigmoid(alpha · x)."""
    return calor.silu(x) if alpha == 1 else x * calor.sigmoid(x * alpha)


@operator("BiasSplitGelu", domain=DOMAIN)
def bias_split_gelu(call: Call, x: Any, bias: Any) -> Any:
    """The first half of the last axis times Gelu of the other, of x plus a bias."""
    x = x + bias
    half = x.shape[-1] // 2
    return x[..., :half] * calor.gelu(x[..., half:])


@operator("BiasAdd", domain=DOMAIN)
def bias_add(call: Call, x: Any, bias: Any, skip: Any) -> Any:
    """x plus a bias and a residual."""
    return x + bias + skip


@operator("BiasSoftmax", domain=DOMAIN)
def bias_softmax(
    call: Call, x: Any, bias: Any, *, axis: int = 1, is_inner_broadcast: int = 1
) -> Any:
    """The softmax of x plus a bias over the axes from ``axis`` on as one."""
    axis %= x.ndim
    made = x + bias
    rows = calor.reshape(made, (math.prod(made.shape[:axis]), -1))
    return calor.reshape(calor.softmax(rows, axis=1), made.shape)


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    call: Call, x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    """x divided by the root of its mean square, scaled; and the inverse of that root."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    made = like(rms_norm(x, axes=axes, eps=float(epsilon))[0] * scale, x)
    if call.count < 2:
        return made
    mean = calor.mean(calor.square(wide(x)), axis=axes, keepdims=True)
    return made, calor.reciprocal(calor.sqrt(mean + epsilon))


operator("SimplifiedLayerNormalization", domain=DOMAIN)(simplified_layer_normalization)


@operator("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(
    call: Call, x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *,
    epsilon: float = 1e-12,
) -> Any:  # fmt: skip
    """The layer normalization of x plus a residual and a bias; and that sum."""
    total = x + skip if bias is None else x + skip + bias
    made, mean, variance = standardize(total, axes=(total.ndim - 1,), eps=float(epsilon))
    made = like(made * gamma if beta is None else made * gamma + beta, x)
    if call.count < 2:
        return made
    shape = (*total.shape[:-1], 1)
    inverse = calor.reciprocal(calor.sqrt(wide(variance) + epsilon))
    return made, calor.reshape(mean, shape), calor.reshape(inverse, shape), total


@operator("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_normalization(
    call: Call, x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    """x plus a residual and a bias, divided by the root of its mean square; and that sum."""
    total = x + skip if bias is None else x + skip + bias
    made = like(rms_norm(total, axes=(total.ndim - 1,), eps=float(epsilon))[0] * gamma, x)
    return made, None, None, total


@operator("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalization(
    call: Call, words: Any, segments: Any, word_table: Any, place_table: Any, segment_table: Any,
    gamma: Any, beta: Any, mask: Any = None, places: Any = None, *, epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Any:  # fmt: skip
    """The layer normalization of the sum of three embeddings, and how many words there are."""
    if places is None:
        places = constant(np.arange(words.shape[1])[None], words.device)
    total = calor.take(word_table, words, axis=0) + calor.take(place_table, places, axis=0)
    if segments is not None:
        total = total + calor.take(segment_table, segments, axis=0)
    made = standardize(total, axes=(2,), eps=float(epsilon))[0] * gamma + beta
    if mask is None:
        count = calor.zeros((words.shape[0],), dtype=calor.int32, device=words.device)
    else:
        count = calor.astype(calor.sum(calor.astype(mask, calor.int32), axis=1), calor.int32)
    return made, count, total


@operator("GroupNorm", domain=DOMAIN)
def group_norm(
    call: Call, x: Any, gamma: Any, beta: Any, *, groups: int, activation: int,
    epsilon: float = 1e-5, channels_last: int = 1,
) -> Any:  # fmt: skip
    """x normalized by group of channels of each sample, which lie last or second."""
    if channels_last:
        x = calor.moveaxis(x, -1, 1)
    made = nn.group_norm(x, groups, like(gamma, x), like(beta, x), eps=epsilon)
    made = calor.silu(made) if activation else made
    return calor.moveaxis(made, 1, -1) if channels_last else made


@operator("FusedMatMul", domain=DOMAIN)
def fused_matmul(
    call: Call, a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
    transBatchA: int = 0, transBatchB: int = 0,
) -> Any:  # fmt: skip
    """alpha times the product of matrices, each transposed where that is said."""
    a, b = _turned(a, transA, transBatchA), _turned(b, transB, transBatchB)
    made = calor.matmul(a, b)
    return made if alpha == 1 else made * alpha


operator("TransposeMatMul", domain=DOMAIN)(fused_matmul)


def _turned(x: Any, last: int, batch: int) -> Any:
    """Return x with its last two axes exchanged, and its first moved before those."""
    if batch and x.ndim > 2:
        x = calor.moveaxis(x, 0, -2)
    return calor.matrix_transpose(x) if last and x.ndim > 1 else x


@operator("FusedGemm", domain=DOMAIN)
def fused_gemm(
    call: Call, a: Any, b: Any, c: Any = None, *, activation: str = "",
    activation_alpha: float = 0.0, activation_beta: float = 0.0, activation_gamma: float = 0.0,
    **attributes: Any,
) -> Any:  # fmt: skip
    """A product as Gemm's, through an activation."""
    parameters = [activation_alpha, activation_beta, activation_gamma]
    return activated(gemm(call, a, b, c, **attributes), activation, parameters)


@operator("FusedConv", domain=DOMAIN)
def fused_conv(
    call: Call, x: Any, w: Any, b: Any = None, z: Any = None, *, activation: str = "",
    activation_params: list[float] | None = None, **attributes: Any,
) -> Any:  # fmt: skip
    """A convolution as Conv's, plus a residual, through an activation."""
    made = conv(call, x, w, b, **attributes)
    return activated(made if z is None else made + z, activation, activation_params or [])


@operator("NhwcConv", domain=DOMAIN)
def nhwc_conv(call: Call, x: Any, w: Any, b: Any = None, **attributes: Any) -> Any:
    """A convolution whose channels lie last, in x and in the weights."""
    x, w = calor.moveaxis(x, -1, 1), calor.moveaxis(w, -1, 1)
    return calor.moveaxis(conv(call, x, w, b, **attributes), 1, -1)


@operator("NhwcFusedConv", domain=DOMAIN)
def nhwc_fused_conv(
    call: Call, x: Any, w: Any, b: Any = None, z: Any = None, *, activation: str = "",
    activation_params: list[float] | None = None, **attributes: Any,
) -> Any:  # fmt: skip
    """A convolution whose channels lie last in x, plus a residual, through an activation."""
    made = calor.moveaxis(conv(call, calor.moveaxis(x, -1, 1), w, b, **attributes), 1, -1)
    return activated(made if z is None else made + z, activation, activation_params or [])


@operator("NhwcMaxPool", domain=DOMAIN)
def nhwc_max_pool(call: Call, x: Any, **attributes: Any) -> Any:
    """The largest element of each window, where channels lie last."""
    return calor.moveaxis(max_pool(call, calor.moveaxis(x, -1, 1), **attributes), 1, -1)


def activated(x: Any, name: str, parameters: list[float]) -> Any:
    """Return x through an activation that ONNX Runtime fuses, by its name."""
    if name in ("", "Identity"):
        return x
    if name == "Relu":
        return calor.relu(x)
    if name == "Tanh":
        return calor.tanh(x)
    if name == "Sigmoid":
        return calor.sigmoid(x)
    if name == "LeakyRelu":
        return calor.leaky_relu(x, parameters[0])
    if name == "Clip":
        return calor.clip(x, parameters[0], parameters[1])
    if name == "HardSigmoid":
        return calor.clip(x * parameters[0] + parameters[1], 0, 1)
    if name == "Gelu":
        return calor.gelu(x)
    raise ModelError(f"the activation is {name!r}, which fused operators do not have")
