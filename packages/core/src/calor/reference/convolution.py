"""Convolution over any number of spatial axes, and its two gradients.

Requirements: BLAS does the arithmetic. Windows are copied into columns, some images at a time so
that the columns stay in the cache, and multiplied by the weights. The three functions are the three
transposes of one trilinear form, sum of g · w · x, without conjugation: the caller of a complex
gradient conjugates. Half types accumulate in float32 and round once; integers wrap.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from calor.reference.contraction import accumulator, matmul, settled
from calor.reference.precision import Array, quiet
from calor.reference.sliding import (
    Padding,
    Sizes,
    last_axes,
    offsets,
    output_sizes,
    padded,
    padded_sizes,
    spread,
    unpadded,
    window_view,
)

# The number of elements that one block of columns has at most, unless one image alone has more.
_BLOCK = 1 << 19


@quiet
def conv(
    x: Array,
    w: Array,
    *,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    input_dilation: Sizes | None = None,
) -> Array:
    """Return the cross-correlation (N, O, *output) of x (N, C, *S) with w (O, C / groups, *K).

    Each spatial axis has a stride, a pair of paddings (zeros; negative ones crop), a dilation of
    the kernel and one of the input, which comes before the padding.
    """
    x, w = np.asarray(x), np.asarray(w)
    between = input_dilation or (1,) * len(stride)
    kind = accumulator(x, w, prod(w.shape[1:]), x.dtype)
    weights = w.astype(kind, copy=False).reshape(groups, w.shape[0] // groups, prod(w.shape[1:]))
    seen = padded(x.astype(kind, copy=False), padding, between, 0)
    output = output_sizes(seen.shape[2:], w.shape[2:], stride, dilation)
    result = np.empty((x.shape[0], groups, weights.shape[1], *output), kind)
    for images, columns in _columns(seen, w.shape[2:], stride, dilation, groups):
        block = matmul(weights, columns)
        shape = (*block.shape[:2], images.stop - images.start, *output)
        result[images] = np.moveaxis(block.reshape(shape), 2, 0)
    return settled(result.reshape(x.shape[0], w.shape[0], *output), x.dtype)


@quiet
def conv_weight_gradient(
    x: Array,
    g: Array,
    *,
    weight_shape: Sizes,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    input_dilation: Sizes | None = None,
) -> Array:
    """Return the gradient (O, C / groups, *K) of ``conv`` for w, given g (N, O, *output)."""
    x, g = np.asarray(x), np.asarray(g)
    between = input_dilation or (1,) * len(stride)
    kind = accumulator(x, g, g.size // max(g.shape[1], 1), x.dtype)
    seen = padded(x.astype(kind, copy=False), padding, between, 0)
    shape = (g.shape[0], groups, g.shape[1] // groups, prod(g.shape[2:]))
    upper = g.astype(kind, copy=False).reshape(shape)
    result = np.zeros((groups, upper.shape[2], prod(weight_shape[1:])), kind)
    for images, columns in _columns(seen, weight_shape[2:], stride, dilation, groups):
        rows = np.moveaxis(upper[images], 0, 2).reshape(*result.shape[:2], columns.shape[2])
        result += matmul(rows, columns.swapaxes(1, 2))
    return settled(result.reshape(weight_shape), x.dtype)


@quiet
def conv_input_gradient(
    g: Array,
    w: Array,
    *,
    input_shape: Sizes,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    input_dilation: Sizes | None = None,
) -> Array:
    """Return the gradient (N, C, *S) of ``conv`` for x, given g (N, O, *output)."""
    g, w = np.asarray(g), np.asarray(w)
    between = input_dilation or (1,) * len(stride)
    if g.size == 0 or w.size == 0:
        return np.zeros(input_shape, g.dtype)
    if all(s == 1 for s in stride) and w.shape[0] < 2 * input_shape[1]:
        return _as_convolution(g, w, input_shape, padding, dilation, groups, between)
    return _from_columns(g, w, input_shape, stride, padding, dilation, groups, between)


def _columns(
    seen: Array, window: Sizes, stride: Sizes, dilation: Sizes, groups: int
) -> Iterator[tuple[slice, Array]]:
    """Yield slices of images and what their windows see: (groups, C / groups · K, images · P)."""
    n, channels = seen.shape[:2]
    rank = len(window)
    view = window_view(seen, window, stride, dilation)
    view = view.reshape(n, groups, channels // groups, *view.shape[2:])
    depth, places = prod(view.shape[2 : 3 + rank]), prod(view.shape[3 + rank :])
    count = max(_BLOCK // max(groups * depth * places, 1), 1)
    for start in range(0, n, count):
        images = slice(start, min(start + count, n))
        part = np.moveaxis(view[images], 0, 2 + rank)
        yield images, part.reshape(groups, depth, (images.stop - start) * places)


def _as_convolution(
    g: Array,
    w: Array,
    input_shape: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    between: Sizes,
) -> Array:
    """Gradient of a convolution of stride 1: one of g with the kernel turned around."""
    outputs, inputs, *kernel = w.shape
    axes = tuple(range(3, w.ndim + 1))
    turned = np.flip(w.reshape(groups, outputs // groups, inputs, *kernel), axes)
    turned = turned.swapaxes(1, 2).reshape(groups * inputs, outputs // groups, *kernel)
    back = []
    for n, m, k, (low, _), d, apart in zip(
        input_shape[2:], g.shape[2:], kernel, padding, dilation, between, strict=True
    ):
        reach = d * (k - 1)
        before = reach - low
        back.append((before, spread(n, apart) + reach - m - before))
    return conv(g, turned, stride=between, padding=tuple(back), dilation=dilation, groups=groups)


def _from_columns(
    g: Array,
    w: Array,
    input_shape: Sizes,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    between: Sizes,
) -> Array:
    """Gradient as columns, which are added to the places they were taken from."""
    kind = accumulator(g, w, w.shape[0] // groups * prod(w.shape[2:]), g.dtype)
    kernel, output = w.shape[2:], g.shape[2:]
    inputs = input_shape[1] // groups
    weights = w.astype(kind, copy=False).reshape(groups, w.shape[0] // groups, -1).swapaxes(1, 2)
    upper = g.astype(kind, copy=False).reshape(g.shape[0], groups, weights.shape[2], -1)
    sizes = padded_sizes(input_shape[2:], padding, between)
    total = np.zeros((groups, inputs, g.shape[0], *sizes), kind)
    places = upper.shape[3]
    count = max(_BLOCK // max(groups * weights.shape[1] * places, 1), 1)
    for start in range(0, g.shape[0], count):
        images = slice(start, start + count)
        rows = np.moveaxis(upper[images], 0, 2).reshape(groups, weights.shape[2], -1)
        columns = matmul(weights, rows)
        part = total[:, :, images]
        columns = columns.reshape(groups, inputs, prod(kernel), -1, *output)
        for number, (_, slices) in enumerate(offsets(kernel, stride, dilation, output)):
            part[last_axes(slices)] += columns[:, :, number]
    back = unpadded(total, input_shape[2:], padding, between)
    return settled(np.moveaxis(back, 2, 0).reshape(input_shape), g.dtype)
