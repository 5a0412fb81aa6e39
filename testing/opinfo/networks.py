"""Entries of OpInfo for neural networks."""

from __future__ import annotations

import math
from typing import Any

from .convert import Unusable
from .names import Table, c, linalg, nn


def _reduction(name: str, **renames: str) -> Any:
    """Return a loss whose keywords are calor's; ``renames`` are those that differ."""

    def call(*args: Any, size_average: Any = None, reduce: Any = None, **more: Any) -> Any:
        if more.pop("distance_function", None) is not None:
            raise Unusable("a function of PyTorch's tensors")
        return getattr(nn, name)(*args, **{renames.get(k, k): v for k, v in more.items()})

    return call


def _soft(name: str, sign: int = 1) -> Any:
    def call(input: Any, dim: int, dtype: Any = None, **_: Any) -> Any:
        x = input if dtype is None else input.astype(dtype)
        return getattr(c, name)(x * sign if sign < 0 else x, axis=dim)

    return call


def _plain(name: str, **renames: str) -> Any:
    def call(input: Any, *args: Any, inplace: bool = False, **more: Any) -> Any:
        return getattr(nn, name)(input, *args, **{renames.get(k, k): v for k, v in more.items()})

    return call


def _unbatched(function: Any, spatial: int) -> Any:
    """Accept operands without a batch axis, as PyTorch does."""

    def call(input: Any, *args: Any, **more: Any) -> Any:
        if input.ndim == spatial + 2:
            return function(input, *args, **more)
        made = function(input[None], *args, **more)
        return tuple(m[0] for m in made) if isinstance(made, tuple) else made[0]

    return call


def _layer(name: str, spatial: int) -> Any:
    return _unbatched(lambda *a, **k: getattr(nn, name)(*a, **k), spatial)


def _max_pool(spatial: int) -> Any:
    def call(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
             dilation: Any = 1, ceil_mode: bool = False,
             return_indices: bool = False) -> Any:  # fmt: skip
        made = getattr(nn, f"max_pool{spatial}d")(
            input, kernel_size, stride or None, padding, dilation, ceil_mode, return_indices
        )
        return tuple(made) if return_indices else made

    return _unbatched(call, spatial)


def _avg_pool(spatial: int) -> Any:
    def call(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
             ceil_mode: bool = False, count_include_pad: bool = True,
             divisor_override: Any = None) -> Any:  # fmt: skip
        more = {} if spatial == 1 else {"divisor_override": divisor_override}
        return getattr(nn, f"avg_pool{spatial}d")(
            input, kernel_size, stride or None, padding, ceil_mode, count_include_pad, **more
        )

    return _unbatched(call, spatial)


def _unpool(spatial: int) -> Any:
    def call(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
             output_size: Any = None) -> Any:  # fmt: skip
        return nn.max_unpool(input, indices, tuple(output_size)[-spatial:])

    return call


def _attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
               is_causal: bool = False, *, scale: Any = None,
               enable_gqa: bool = False) -> Any:  # fmt: skip
    if dropout_p:
        raise Unusable("dropout draws other random numbers")
    mask, bias = (
        (attn_mask, None) if attn_mask is None or attn_mask.dtype is c.bool_ else (None, attn_mask)
    )
    return nn.scaled_dot_product_attention(
        query, key, value, mask=mask, bias=bias, causal=is_causal, scale=scale
    )


def _interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                 align_corners: Any = None, recompute_scale_factor: Any = None,
                 antialias: bool = False) -> Any:  # fmt: skip
    if size is None and recompute_scale_factor:
        spatial = input.shape[2:]
        each = scale_factor if isinstance(scale_factor, (list, tuple)) else (scale_factor,)
        each = each if len(each) > 1 else each * len(spatial)
        size = tuple(math.floor(n * f) for n, f in zip(spatial, each, strict=True))
        scale_factor = None
    return nn.interpolate(
        input, tuple(size) if isinstance(size, list) else size,
        tuple(scale_factor) if isinstance(scale_factor, list) else scale_factor, mode,
        bool(align_corners),
    )  # fmt: skip


def _norm_parts(input: Any, axes: tuple[int, ...], eps: float) -> Any:
    mean = c.mean(input, axis=axes, keepdims=True)
    return mean, c.rsqrt(c.var(input, axis=axes, keepdims=True) + eps)


def _native_layer_norm(input: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes = tuple(range(input.ndim - len(shape), input.ndim))
    return nn.layer_norm(input, tuple(shape), weight, bias, eps=eps), *_norm_parts(input, axes, eps)


def _native_group_norm(input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int,
                       eps: float) -> Any:  # fmt: skip
    made = nn.group_norm(input, group, weight, bias, eps=eps)
    mean, scale = _norm_parts(c.reshape(input, (N, group, C // group * HxW)), (2,), eps)
    return made, c.reshape(mean, (N, group)), c.reshape(scale, (N, group))


def _batch_norm(input: Any, running_mean: Any, running_var: Any, weight: Any = None,
                bias: Any = None, training: bool = False, momentum: float = 0.1,
                eps: float = 1e-5) -> Any:  # fmt: skip
    return nn.batch_norm(
        input,
        running_mean,
        running_var,
        weight,
        bias,
        training=training,
        momentum=momentum,
        eps=eps,
    )[0]


def _embedding(weight: Any, input: Any, padding_idx: Any = None, max_norm: Any = None,
               norm_type: float = 2.0, scale_grad_by_freq: bool = False,
               sparse: bool = False) -> Any:  # fmt: skip
    if max_norm is not None:
        length = linalg.vector_norm(weight, axis=1, keepdims=True, ord=norm_type)
        # PyTorch shortens the rows that are read, in place and without a gradient.
        weight = c.where(length > max_norm, weight * (max_norm / (length + 1e-7)), weight)
    return nn.embedding(input, weight, padding_index=padding_idx)


_LOSSES = {
    name: _reduction(name)
    for name in (
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
        "cross_entropy", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div",
        "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
        "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
        "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
    )
}  # fmt: skip

TABLE: Table = {
    **{f"nn.functional.{name}": loss for name, loss in _LOSSES.items()},
    "nn.functional.ctc_loss": lambda log_probs, targets, input_lengths, target_lengths, blank=0,
        reduction="mean", zero_infinity=False: nn.ctc_loss(
            log_probs, targets, _lengths(input_lengths), _lengths(target_lengths), blank=blank,
            reduction=reduction, zero_infinity=zero_infinity,
        ),
    "softmax": _soft("softmax"), "softmax/with_dtype": _soft("softmax"),
    "log_softmax": _soft("log_softmax"), "log_softmax/with_dtype": _soft("log_softmax"),
    "nn.functional.softmin": _soft("softmax", -1),
    "nn.functional.softmin/with_dtype": _soft("softmax", -1),
    "nn.functional.linear": lambda input, weight, bias=None: nn.linear(input, weight, bias),
    "nn.functional.bilinear": lambda x1, x2, weight, bias=None: nn.bilinear(x1, x2, weight, bias),
    "nn.functional.normalize": lambda input, p=2.0, dim=1, eps=1e-12: nn.normalize(
        input, p=p, axis=dim, eps=eps
    ),
    "nn.functional.cosine_similarity": lambda x1, x2, dim=1, eps=1e-8: nn.cosine_similarity(
        x1, x2, axis=dim, eps=eps
    ),
    "nn.functional.pairwise_distance": lambda x1, x2, p=2.0, eps=1e-6, keepdim=False:
        nn.pairwise_distance(x1, x2, p=p, eps=eps, keepdims=keepdim),
    "nn.functional.pdist": lambda input, p=2.0: c.pdist(input, p=p),
    "nn.functional.one_hot": lambda input, num_classes=-1: nn.one_hot(
        input, None if num_classes == -1 else num_classes
    ),
    "nn.functional.embedding": _embedding,
    "nn.functional.glu": lambda input, dim=-1: nn.glu(input, axis=dim),
    "nn.functional.gelu": lambda input, approximate="none": nn.gelu(input, approximate),
    **{f"nn.functional.{theirs}": _plain(ours) for theirs, ours in {
        "relu": "relu", "relu6": "relu6", "leaky_relu": "leaky_relu", "elu": "elu",
        "celu": "celu", "selu": "selu", "silu": "silu", "silu/complex": "silu",
        "hardswish": "hard_swish", "hardsigmoid": "hard_sigmoid", "logsigmoid": "log_sigmoid",
        "mish": "mish", "softsign": "softsign",
    }.items()},
    "nn.functional.hardtanh": lambda input, min_val=-1.0, max_val=1.0, inplace=False:
        nn.hard_tanh(input, min_val, max_val),
    "nn.functional.softplus": lambda input, beta=1, threshold=20: c.where(
        input * beta > threshold, input, nn.softplus(input, float(beta))
    ),
    "nn.functional.prelu": lambda input, weight: nn.prelu(input, weight),
    "nn.functional.tanhshrink": lambda input: input - c.tanh(input),
    "nn.functional.hardshrink": lambda input, lambd=0.5: c.where(
        c.abs(input) <= lambd, 0.0, input
    ),
    "nn.functional.softshrink": lambda input, lambd=0.5: c.where(
        c.abs(input) > lambd, input - c.sign(input) * lambd, 0.0
    ),
    "nn.functional.threshold": lambda input, threshold, value, inplace=False: c.where(
        input > threshold, input, value
    ),
    **{f"nn.functional.conv{n}d": _layer(f"conv{n}d", n) for n in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{n}d": _layer(f"conv_transpose{n}d", n) for n in (1, 2, 3)},
    **{f"nn.functional.max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"nn.functional.avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"nn.functional.adaptive_avg_pool{n}d": _unbatched(
        lambda input, output_size, _n=n: getattr(nn, f"adaptive_avg_pool{_n}d")(
            input, _adaptive(output_size, input, _n)), n) for n in (1, 2, 3)},
    **{f"nn.functional.adaptive_max_pool{n}d": _unbatched(
        lambda input, output_size, return_indices=False, _n=n:
        getattr(nn, f"adaptive_max_pool{_n}d")(
            input, _adaptive(output_size, input, _n),
            **({"return_indices": True} if return_indices else {})), n)
       for n in (1, 2, 3)},
    **{f"nn.functional.max_unpool{n}d": _unpool(n) for n in (1, 2, 3)},
    **{f"nn.functional.max_unpool{n}d/grad": _unpool(n) for n in (1, 2, 3)},
    "nn.functional.local_response_norm": lambda input, size, alpha=1e-4, beta=0.75, k=1.0:
        nn.local_response_norm(input, size, alpha=alpha, beta=beta, k=k),
    "nn.functional.layer_norm": lambda input, shape, weight=None, bias=None, eps=1e-5:
        nn.layer_norm(input, tuple(shape), weight, bias, eps=eps),
    "nn.functional.rms_norm": lambda input, shape, weight=None, eps=None: nn.rms_norm(
        input, tuple(shape), weight, eps=eps
    ),
    "nn.functional.group_norm": lambda input, groups, weight=None, bias=None, eps=1e-5:
        nn.group_norm(input, groups, weight, bias, eps=eps),
    "nn.functional.instance_norm": lambda input, running_mean=None, running_var=None, weight=None,
        bias=None, use_input_stats=True, momentum=0.1, eps=1e-5: nn.instance_norm(
            input, weight, bias, eps=eps
        ),
    "nn.functional.batch_norm": _batch_norm,
    "nn.functional.batch_norm/without_cudnn": _batch_norm,
    "native_layer_norm": _native_layer_norm, "native_group_norm": _native_group_norm,
    "nn.functional.scaled_dot_product_attention": _attention,
    **{f"nn.functional.interpolate/{mode}": _interpolate for mode in (
        "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area")},
    "nn.functional.upsample_bilinear": lambda input, size=None, scale_factor=None: _interpolate(
        input, size, scale_factor, "bilinear", True
    ),
    "nn.functional.upsample_nearest": _interpolate,
    "nn.functional.pixel_shuffle": lambda input, upscale_factor: _leading(
        nn.pixel_shuffle, input, upscale_factor
    ),
    "nn.functional.pixel_unshuffle": lambda input, downscale_factor: _leading(
        nn.pixel_unshuffle, input, downscale_factor
    ),
    "nn.functional.unfold": lambda input, kernel_size, dilation=1, padding=0, stride=1: nn.im2col(
        input, kernel_size, dilation=dilation, padding=padding, stride=stride
    ),
}  # fmt: skip


def _leading(function: Any, input: Any, factor: int) -> Any:
    made = function(c.reshape(input, (math.prod(input.shape[:-3]), *input.shape[-3:])), factor)
    return c.reshape(made, (*input.shape[:-3], *made.shape[1:]))


def _lengths(x: Any) -> Any:
    return c.asarray(list(x)) if isinstance(x, (list, tuple)) else x


def _adaptive(size: Any, input: Any, n: int) -> Any:
    sizes = tuple(size) if isinstance(size, (list, tuple)) else (size,) * n
    return tuple(input.shape[a - n] if s is None else s for a, s in enumerate(sizes))
