"""Normalizations: batch, instance, layer, RMS, group, local response and Lp."""

from __future__ import annotations

from typing import Any

import calor
import calor_nn.functional as nn
from calor.ops.composites import rms_norm, standardize
from calor_onnx.call import Call
from calor_onnx.computing import like, wide
from calor_onnx.registry import operator
from calor_onnx.types import calor_type, numpy_type
from calor_onnx.windows import Windows, positive


@operator("BatchNormalization", since=14)
def batch_normalization(
    call: Call, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *,
    epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0,
) -> Any:  # fmt: skip
    """x normalized by channel; in training by the batch's moments, with new running ones."""
    if not training_mode:
        if x.ndim > 1:
            return nn.batch_norm(x, mean, variance, scale, bias, eps=epsilon).output
        rate = wide(scale) / calor.sqrt(wide(variance) + epsilon)
        return like((wide(x) - wide(mean)) * rate + wide(bias), x)
    made, found, spread = standardize(x, axes=(0, *range(2, x.ndim)), eps=float(epsilon))
    shape = (-1, *(1,) * (x.ndim - 2))
    y = wide(made) * calor.reshape(wide(scale), shape) + calor.reshape(wide(bias), shape)
    kept = float(momentum)
    return (
        like(y, x),
        like(wide(mean) * kept + like(found, wide(mean)) * (1 - kept), mean),
        like(wide(variance) * kept + like(spread, wide(variance)) * (1 - kept), variance),
    )


@operator("BatchNormalization")
def batch_normalization_1(
    call: Call, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *,
    epsilon: float = 1e-5, momentum: float = 0.9, spatial: int = 1, is_test: int = 0,
    consumed_inputs: Any = None,
) -> Any:  # fmt: skip
    """As of opset 14; a node with several outputs trains, unless ``is_test`` is set."""
    if not spatial:
        rate = wide(scale) / calor.sqrt(wide(variance) + epsilon)
        return like((wide(x) - wide(mean)) * rate + wide(bias), x)
    training = call.count > 1 and not is_test
    made = batch_normalization(
        call, x, scale, bias, mean, variance, epsilon=epsilon, momentum=momentum,
        training_mode=int(training),
    )  # fmt: skip
    if not training:
        return (made, mean, variance, mean, variance)
    return (*made, *standardize(x, axes=(0, *range(2, x.ndim)), eps=float(epsilon))[1:])


@operator("InstanceNormalization")
def instance_normalization(
    call: Call, x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5, consumed_inputs: Any = None
) -> Any:
    """x normalized by channel of each sample."""
    return nn.instance_norm(x, scale, bias, eps=epsilon)


@operator("LayerNormalization", since=17)
def layer_normalization(
    call: Call, x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:  # fmt: skip
    """x normalized over its last axes; also their mean and the inverse of the deviation."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    made, mean, variance = standardize(x, axes=axes, eps=float(epsilon))
    made = calor.multiply(made, scale)
    y = made if bias is None else calor.add(made, bias)
    if call.count < 2:
        return y
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    inverse = calor.reciprocal(calor.sqrt(variance + epsilon))
    kind = calor_type(numpy_type(stash_type)) or mean.dtype
    return y, *(like(calor.reshape(moment, shape), kind) for moment in (mean, inverse))


@operator("RMSNormalization", since=23)
def rms_normalization(
    call: Call, x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    """x divided by the root of its mean square over the last axes, scaled."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    made = rms_norm(x, axes=axes, eps=float(epsilon))[0]
    return like(calor.multiply(made, scale), x)


@operator("GroupNormalization", since=21)
def group_normalization(
    call: Call, x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:  # fmt: skip
    """x normalized by group of channels of each sample, scaled and shifted by channel."""
    positive(num_groups, "num_groups")
    return like(nn.group_norm(x, num_groups, scale, bias, eps=epsilon), x)


@operator("GroupNormalization", since=18)
def group_normalization_18(
    call: Call, x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5
) -> Any:
    """As of opset 21, scaled and shifted by group."""
    each = x.shape[1] // positive(num_groups, "num_groups")
    return group_normalization(
        call, x, calor.repeat(scale, each), calor.repeat(bias, each),
        num_groups=num_groups, epsilon=epsilon,
    )  # fmt: skip


@operator("LRN")
def lrn(
    call: Call, x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Any:
    """x divided by a power of the squares of ``size`` neighbouring channels."""
    rank = x.ndim - 1
    positive(size, "size")
    low, high = (size - 1) // 2, size // 2
    lie = Windows(
        x.shape[1:], (size, *(1,) * (rank - 1)), (1,) * rank, (1,) * rank,
        ((low, high), *((0, 0),) * (rank - 1)), x.shape[1:],
    )  # fmt: skip
    squares = lie.reduce(calor.square(wide(x)), "sum")
    return like(wide(x) / calor.pow(squares * (alpha / size) + bias, float(beta)), x)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(
    call: Call, x: Any, *, axes: list[int] | None = None, across_channels: int = 0,
    normalize_variance: int = 1,
) -> Any:  # fmt: skip
    """x minus its mean, divided by its deviation plus 1e−9, over axes."""
    given = axes if axes is not None else [0, 2, 3]
    along = tuple(axis % x.ndim for axis in given)
    centred = wide(x) - calor.mean(wide(x), axis=along, keepdims=True)
    variance = calor.mean(calor.square(centred), axis=along, keepdims=True)
    return like(centred / (calor.sqrt(variance) + 1e-9), x)


@operator("LpNormalization")
def lp_normalization(call: Call, x: Any, *, axis: int = -1, p: int = 2) -> Any:
    """x divided by its norm along an axis; 0 where the norm is 0."""
    size = calor.abs(wide(x)) if p == 1 else calor.square(wide(x))
    norm = calor.sum(size, axis=axis, keepdims=True)
    if p != 1:
        norm = calor.sqrt(norm)
    none = calor.equal(norm, 0)
    return like(calor.where(none, 0, wide(x) / calor.where(none, 1, norm)), x)
