"""Further entries of OpInfo for neural networks: attention, sampling of images, embedding bags."""

from __future__ import annotations

from typing import Any

import torch

from .convert import Unusable
from .names import Table, c, nn, random

_MODES = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def _grid(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
          align_corners: Any = None) -> Any:  # fmt: skip
    return nn.grid_sample(input, grid, mode, padding_mode, bool(align_corners))


def _grid_numbers(input: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Any:
    return _grid(input, grid, _MODES[mode], _PADDING[padding], align_corners)


def _bag(weight: Any, indices: Any, offsets: Any = None, max_norm: Any = None,
         norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
         sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
         padding_idx: Any = None) -> Any:  # fmt: skip
    if max_norm is not None:
        raise Unusable("rows are shortened in place")
    return nn.embedding_bag(
        indices, weight, offsets, mode=mode, per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset, padding_index=padding_idx,
    )  # fmt: skip


def _linear_cross_entropy(input: Any, linear_weight: Any, target: Any, *,
                          linear_bias: Any = None, options: Any = None,
                          **more: Any) -> Any:  # fmt: skip
    rows = c.reshape(linear_weight, (-1, linear_weight.shape[-1]))
    bias = None if linear_bias is None else c.reshape(linear_bias, (-1,))
    logits = nn.linear(input, rows, bias)
    shape = (*input.shape[:-1], *linear_weight.shape[:-1])
    logits = c.reshape(logits, shape)
    return nn.cross_entropy(logits, target, **more)


def _safe_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    x = input if dtype is None else input.astype(dtype)
    none = c.all(x == -float("inf"), axis=dim, keepdims=True)
    return c.where(none, 0.0, c.softmax(c.where(none, 0.0, x), axis=dim))


def _batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, *rest: Any) -> Any:
    training, momentum, eps = rest if len(rest) == 3 else (mean, *((var, *rest)))
    if len(rest) != 3:
        mean = var = None
    if mean is None:
        mean, var = c.zeros(input.shape[1]), c.ones(input.shape[1])
    return nn.batch_norm(
        input, mean, var, weight, bias, training=training, momentum=momentum, eps=eps
    )[0]


def _updating_batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float,
                         eps: float) -> Any:  # fmt: skip
    return _batch_norm(input, weight, bias, mean, var, True, momentum, eps)


def _heads(query: Any, key: Any, value: Any, embed_dim: int, num_heads: int, in_weight: Any,
           in_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float,
           out_weight: Any, out_bias: Any, training: bool = True, key_padding_mask: Any = None,
           need_weights: bool = True, attn_mask: Any = None, use_separate_proj_weight: bool = False,
           q_proj_weight: Any = None, k_proj_weight: Any = None, v_proj_weight: Any = None,
           **more: Any) -> Any:  # fmt: skip
    if training and dropout_p:
        raise Unusable("dropout draws other random numbers")
    batched = query.ndim == 3
    q, k, v = (t if batched else t[:, None] for t in (query, key, value))
    if use_separate_proj_weight:
        ways = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        ways = tuple(c.chunk(in_weight, 3))
    biases = (None,) * 3 if in_bias is None else tuple(c.chunk(in_bias, 3))
    q, k, v = (nn.linear(t, w, b) for t, w, b in zip((q, k, v), ways, biases, strict=True))
    batch = q.shape[1]
    if bias_k is not None:
        k, v = (c.concat((t, c.broadcast_to(b, (1, batch, embed_dim))))
                for t, b in ((k, bias_k), (v, bias_v)))  # fmt: skip
    more_keys = int(bias_k is not None) + int(add_zero_attn)
    if add_zero_attn:
        k, v = (c.concat((t, c.zeros((1, batch, embed_dim), dtype=t.dtype))) for t in (k, v))

    def parts(t: Any) -> Any:
        split = c.reshape(t, (t.shape[0], batch, num_heads, embed_dim // num_heads))
        return c.permute_dims(split, (1, 2, 0, 3))

    q, k, v = parts(q), parts(k), parts(v)
    scores = (q @ c.matrix_transpose(k)) * (embed_dim // num_heads) ** -0.5
    low = -float("inf")
    for mask, shape in ((attn_mask, None), (key_padding_mask, (batch, 1, 1, -1))):
        if mask is None:
            continue
        added = c.where(mask, low, 0.0) if mask.dtype is c.bool_ else mask
        added = c.pad(added, [(0, 0)] * (added.ndim - 1) + [(0, more_keys)])
        if shape is not None:
            added = c.reshape(added, shape)
        elif added.ndim == 3:
            added = c.reshape(added, (batch, num_heads, *added.shape[1:]))
        scores = scores + added.astype(scores.dtype)
    weights = c.softmax(scores, axis=-1)
    made = c.permute_dims(weights @ v, (2, 0, 1, 3))
    made = nn.linear(c.reshape(made, (made.shape[0], batch, embed_dim)), out_weight, out_bias)
    made = made if batched else made[:, 0]
    if not need_weights:
        return (made,)
    if more.get("average_attn_weights", True):
        weights = c.mean(weights, axis=1)
    return made, weights if batched else weights[0]


def _fractional(spatial: int) -> Any:
    def call(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
             return_indices: bool = False, _random_samples: Any = None) -> Any:  # fmt: skip
        samples = _random_samples
        if samples is None:
            # What OpInfo draws, whose entry sets this seed.
            torch.manual_seed(42)
            lead = (1,) * (spatial + 2 - input.ndim) + input.shape[: input.ndim - spatial]
            kind = getattr(torch, input.dtype.name)
            samples = c.asarray(torch.rand(*lead, spatial, dtype=kind).float().numpy())
        # PyTorch's samples of images are of their columns first.
        samples = c.flip(samples, axis=-1) if spatial == 2 else samples
        return getattr(nn, f"fractional_max_pool{spatial}d")(
            input, kernel_size, output_size, output_ratio, return_indices, random_samples=samples
        )

    return call


def _shrunk(input: Any, output_size: Any, align_corners: bool, scale_factors: Any = None,
            **scales: Any) -> Any:  # fmt: skip
    if output_size is None or any(s is not None for s in scales.values()):
        raise Unusable("coordinates are by the sizes of images, not by factors beside them")
    return nn.interpolate(
        input, tuple(output_size), None, "bilinear", align_corners, antialias=True
    )


TABLE: Table = {
    "nn.functional.grid_sample": _grid,
    "grid_sampler_2d": _grid_numbers, "grid_sampler_3d": _grid_numbers,
    "nn.functional.embedding_bag": _bag,
    "nn.functional.channel_shuffle": lambda input, groups: nn.channel_shuffle(input, groups),
    **{f"nn.functional.linear_cross_entropy{kind}": _linear_cross_entropy
       for kind in ("", "/chunked", "/chunked_none")},
    "torch.ops.aten._safe_softmax.default": _safe_softmax,
    "native_batch_norm": _batch_norm, "_native_batch_norm_legit": _batch_norm,
    "multinomial": lambda input, num_samples, replacement=False: random.multinomial(
        input, num_samples, replace=replacement
    ),
    "_batch_norm_with_update": _updating_batch_norm,
    "nn.functional.multi_head_attention_forward": _heads,
    "nn.functional.rrelu": lambda input, lower=1 / 8, upper=1 / 3, training=False, inplace=False:
        nn.rrelu(input, lower, upper, training=training),
    "nn.functional.fractional_max_pool2d": _fractional(2),
    "nn.functional.fractional_max_pool3d": _fractional(3),
    "_upsample_bilinear2d_aa": _shrunk,
    "bmm/triton_optimized": lambda a, b: c.matmul(a, b),
    "nn.functional.alpha_dropout": lambda input, p=0.5, training=False, inplace=False:
        nn.alpha_dropout(input, p, training=training),
    **{f"nn.functional.feature_alpha_dropout/{kind}": lambda input, p=0.5, training=False,
        inplace=False: nn.feature_alpha_dropout(input, p, training=training)
       for kind in ("with_train", "without_train")},
}  # fmt: skip
# Their values are random, at least in some samples.
RANDOM = frozenset((
    "nn.functional.rrelu", "multinomial", "nn.functional.alpha_dropout",
    "nn.functional.feature_alpha_dropout/with_train",
    "nn.functional.feature_alpha_dropout/without_train",
))  # fmt: skip
