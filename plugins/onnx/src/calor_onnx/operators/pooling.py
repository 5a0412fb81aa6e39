"""Pools over windows, over all of an operand and over regions, and their inverse."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

import calor
from calor.ops import contraction as rows
from calor_onnx.call import Call
from calor_onnx.computing import constant, like, wide
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.windows import cropped, ends, given, windows_of


@operator("AveragePool")
def average_pool(
    call: Call, x: Any, *, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    count_include_pad: int = 0, dilations: list[int] | None = None, kernel_shape: list[int],
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """The mean of each window."""
    lie = windows_of(x.shape[2:], kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    total = lie.reduce(wide(x), "sum")
    if lie.whole(bool(count_include_pad)):
        return like(total / float(prod(lie.kernel)), x)
    counts = lie.elements(bool(count_include_pad))
    if all(c.size and (c == c[0]).all() for c in counts):
        return like(total / float(prod(int(c[0]) for c in counts)), x)
    product = counts[0]
    for more in counts[1:]:
        product = product[..., None] * more
    divisor = constant(np.maximum(product, 1).astype(total.dtype.numpy), x.device)
    return like(total / divisor, x)


@operator("MaxPool")
def max_pool(
    call: Call, x: Any, *, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: list[int] | None = None, kernel_shape: list[int], pads: list[int] | None = None,
    storage_order: int = 0, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """The largest element of each window, and with a second output its place in all of x."""
    lie = windows_of(x.shape[2:], kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    made = lie.reduce(x, "max")
    if not call.wants(1):
        return made
    order = [0, 1, *range(2, x.ndim)]
    if storage_order:
        order[2:] = reversed(order[2:])
    numbers = np.arange(x.size).reshape([x.shape[i] for i in order]).transpose(order)
    places = constant(numbers.astype(np.int64), x.device)
    return made, rows.window_pick(places, x, **lie.attributes("max"))


@operator("LpPool")
def lp_pool(
    call: Call, x: Any, *, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: list[int] | None = None, kernel_shape: list[int] | None = None, p: float = 2,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """The p-norm of each window."""
    lie = windows_of(x.shape[2:], kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    return like(calor.pow(lie.reduce(_power(x, p), "sum"), 1 / p), x)


def _power(x: Any, p: float) -> Any:
    return calor.square(wide(x)) if p == 2 else calor.pow(calor.abs(wide(x)), float(p))


def _spatial(x: Any) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(call: Call, x: Any) -> Any:
    """The mean over all spatial axes."""
    return calor.mean(x, axis=_spatial(x), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(call: Call, x: Any) -> Any:
    """The largest element over all spatial axes."""
    return calor.max(x, axis=_spatial(x), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(call: Call, x: Any, *, p: float = 2) -> Any:
    """The p-norm over all spatial axes."""
    total = calor.sum(_power(x, p), axis=_spatial(x), keepdims=True)
    return like(calor.pow(total, 1 / p), x)


@operator("MaxUnpool", since=9, host=[2])
def max_unpool(
    call: Call, x: Any, indices: Any, output_shape: Any = None, *, kernel_shape: list[int],
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """Zeros with the elements of x at the places that MaxPool found."""
    rank = x.ndim - 2
    step = given(strides, rank, "strides")
    sizes = [
        (n - 1) * s + k - sum(p)
        for n, s, k, p in zip(x.shape[2:], step, kernel_shape, ends(pads, rank), strict=True)
    ]
    shape = (*x.shape[:2], *sizes)
    flat = calor.zeros((prod(shape),), dtype=x.dtype, device=call.device)
    made = calor.scatter_along_axis(
        flat, calor.reshape(indices, (-1,)), calor.reshape(x, (-1,)), axis=0
    )
    made = calor.reshape(made, shape)
    if output_shape is None:
        return made
    # Indices refer to the sizes that follow from the window, as in ONNX's reference.
    return cropped(made, [0] * rank, call.integers(output_shape)[2:])


@operator("MaxRoiPool")
def max_roi_pool(
    call: Call, x: Any, rois: Any, *, pooled_shape: list[int], spatial_scale: float = 1.0
) -> Any:
    """The largest element in each of a grid of bins over regions (Girshick, "Fast R-CNN", 2015).

    A bin is a range of rows and one of columns, so all of a region's image is masked by each.
    """
    if len(pooled_shape) != 2 or x.ndim != 4:
        raise ModelError("MaxRoiPool pools two spatial axes")
    images = calor.take(x, calor.astype(rois[:, 0], calor.int64), axis=0)
    scaled = wide(rois[:, 1:]) * spatial_scale
    corners = calor.floor(scaled + 0.5)
    inside = [
        _bins(corners[:, i], corners[:, i + 2], bins, size)
        for i, bins, size in ((1, pooled_shape[0], x.shape[2]), (0, pooled_shape[1], x.shape[3]))
    ]
    lowest = -inf
    columns = []
    for bin_ in range(pooled_shape[1]):
        mask = calor.reshape(inside[1][:, bin_], (-1, 1, 1, x.shape[3]))
        columns.append(calor.max(calor.where(mask, images, lowest), axis=3))
    seen = calor.stack(columns, axis=3)
    made = []
    for bin_ in range(pooled_shape[0]):
        mask = calor.reshape(inside[0][:, bin_], (-1, 1, x.shape[2], 1))
        made.append(calor.max(calor.where(mask, seen, lowest), axis=2))
    result = calor.stack(made, axis=2)
    return calor.where(calor.isinf(result), 0, result)


def _bins(first: Any, last: Any, bins: int, size: int) -> Any:
    """Return which of ``size`` places are in which bin: bool (regions, bins, size)."""
    length = calor.maximum(last - first + 1, 1)[:, None] / bins
    number = constant(np.arange(bins, dtype=length.dtype.numpy), first.device)
    low = calor.floor(number * length) + first[:, None]
    high = calor.ceil((number + 1) * length) + first[:, None]
    place = constant(np.arange(size, dtype=length.dtype.numpy), first.device)
    return calor.logical_and(
        calor.greater_equal(place, low[:, :, None]), calor.less(place, high[:, :, None])
    )
