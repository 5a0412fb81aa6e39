"""Patches of images as columns and back, and the rearrangement of channels and pixels.

Requirements: indices follow from sizes alone, so they are constants; values are moved, never
multiplied, so NaN and infinity stay unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.errors import ShapeError
from calor.functions.arguments import integer
from calor.functions.manipulation import permute_dims, reshape
from calor.functions.operands import as_tensor
from calor.ops.base import op
from calor.ops.indexing import gather, scatter_nd
from calor.ops.movement import concat, number_like, pad, permute, slice_
from calor.ops.sources import zeros_of
from calor.specs import Spec, spec
from calor_nn.functional.constant_tables import constant_indices
from calor_nn.functional.conv import Axes, Sizes, batched, per_axis, unbatched
from calor_nn.functional.resampling import Taps, resampled

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


# Elements of a patch up to which each is a slice of its own.
_SLICES = 32


def im2col(
    x: Operand,
    kernel_size: Sizes,
    *,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Return the patches of images as columns.

    A convolution is a matrix product with these columns; PyTorch calls this `unfold`. Patches, and
    the elements inside each, are in row-major order.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W), or (C, H, W) without a batch.
    kernel_size : int or sequence of int
        (KH, KW), the size of a patch.
    dilation : int or sequence of int
        Distance of neighbouring elements of a patch.
    padding : int or sequence of int
        Zeros added at both ends of each spatial axis.
    stride : int or sequence of int
        Distance of neighbouring patches.

    Returns
    -------
    Tensor
        Shape (N, C · KH · KW, P) for P patches, without N if `x` has no batch; the dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, the patches do not fit the padded image, or an argument
        has a wrong number of sizes.
    DTypeError
        If `x` is not a tensor, array or number.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Chellapilla et al., "High Performance Convolutional Neural Networks for Document Processing",
    2006.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.im2col(calor.ones((1, 3, 4, 4)), 2, stride=2).shape
    (1, 12, 4)
    """
    x, added = batched(as_tensor(x), 2, "im2col")
    kernel, step, before, apart = _arguments(kernel_size, stride, padding, dilation, "im2col")
    index = _patches(x.shape[2:], kernel, step, before, apart, "im2col")
    given = {"kernel": kernel, "stride": step, "padding": before, "dilation": apart}
    seen = columns(x, **given)
    shape = (x.shape[0], x.shape[1] * math.prod(kernel), math.prod(w.shape[1] for w in index))
    return unbatched(reshape(seen, shape), added)


def col2im(
    x: Operand,
    output_size: Sequence[int],
    kernel_size: Sizes,
    *,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Return images as sums of columns, the transpose of :func:`im2col`.

    Elements that lie in several patches are added up; PyTorch calls this `fold`.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Columns, shape (N, C · KH · KW, P) for P patches, or without N.
    output_size : sequence of int
        (H, W) of the images.
    kernel_size : int or sequence of int
        (KH, KW), the size of a patch.
    dilation : int or sequence of int
        Distance of neighbouring elements of a patch.
    padding : int or sequence of int
        Zeros added at both ends of each spatial axis.
    stride : int or sequence of int
        Distance of neighbouring patches.

    Returns
    -------
    Tensor
        Shape (N, C, H, W), without N if `x` has no batch; the dtype of `x`.

    Raises
    ------
    ShapeError
        If the columns do not fit the patches of such an image, or an argument has a wrong number of
        sizes.
    DTypeError
        If `x` is not a tensor, array or number.
    TypeError
        If a size is not a whole number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.ones((1, 3, 4, 4))
    >>> functional.col2im(functional.im2col(x, 2, stride=2), (4, 4), 2, stride=2).shape
    (1, 3, 4, 4)
    """
    x = as_tensor(x)
    added = x.ndim == 2
    x = reshape(x, (1, *x.shape)) if added else x
    sizes = per_axis(output_size, 2, "col2im: output_size")
    kernel, step, before, apart = _arguments(kernel_size, stride, padding, dilation, "col2im")
    index = _patches(sizes, kernel, step, before, apart, "col2im")
    counts = tuple(where.shape[1] for where in index)
    if x.ndim != 3 or x.shape[1] % math.prod(kernel) or x.shape[2] != math.prod(counts):
        raise ShapeError(
            f"col2im: columns of shape {x.shape} must be (N, C · {math.prod(kernel)}, "
            f"{math.prod(counts)}) for an image of {sizes}"
        )
    n, channels = x.shape[0], x.shape[1] // math.prod(kernel)
    split = reshape(x, (n, channels, *kernel, *counts))
    return unbatched(_summed(split, sizes, step, before, apart), added)


def _columns_rule(x: Spec, *, kernel: Axes, stride: Axes, padding: Axes, dilation: Axes) -> Spec:
    index = _patches(x.shape[2:], kernel, stride, padding, dilation, "nn.columns")
    return spec((*x.shape[:2], *kernel, *(where.shape[1] for where in index)), x.dtype)


def _columns(x: Any, *, kernel: Axes, stride: Axes, padding: Axes, dilation: Axes) -> Any:
    """Return (N, C, KH, KW, OH, OW): for each element of a patch its value in all patches."""
    edge = (0, 0, *padding)
    seen = pad(x, number_like(x, 0), low=edge, high=edge, interior=(0,) * 4)
    index = _patches(x.shape[2:], kernel, stride, padding, dilation, "nn.columns")
    if math.prod(kernel) > _SLICES:
        for axis, where in ((2, index[0]), (4, index[1])):
            seen = gather(seen, constant_indices(where, x.device), axis=axis)
        return permute(seen, axes=(0, 1, 2, 4, 3, 5))
    counts = tuple(where.shape[1] for where in index)
    parts = []
    for begins in product(*(range(0, k * d, d) for k, d in zip(kernel, dilation, strict=True))):
        spans = zip(begins, counts, stride, strict=True)
        stops = (*seen.shape[:2], *(begin + (n - 1) * by + 1 for begin, n, by in spans))
        part = slice_(seen, starts=(0, 0, *begins), stops=stops, steps=(1, 1, *stride))
        parts.append(reshape(part, (*x.shape[:2], 1, *counts)))
    return reshape(concat(*parts, axis=2), (*x.shape[:2], *kernel, *counts))


def _columns_vjp(
    g: Any, y: Any, x: Any, *, kernel: Axes, stride: Axes, padding: Axes, dilation: Axes
) -> list[Any]:
    return [_summed(g, x.shape[2:], stride, padding, dilation)]


# Moved values keep their bits; the gradient sums each element's few values in order.
columns = op("nn.columns", _columns_rule, vjp=_columns_vjp, decompose=_columns)


def _summed(split: Any, sizes: Axes, stride: Axes, padding: Axes, dilation: Axes) -> Any:
    """Return images (N, C, *sizes) as sums of the patches (N, C, KH, KW, OH, OW)."""
    n, channels, *rest = split.shape
    kernel, counts = tuple(rest[:2]), tuple(rest[2:])
    index = _patches(sizes, kernel, stride, padding, dilation, "nn.columns")
    if split.dtype.kind == "float" and split.dtype.itemsize > 1:
        taps = []
        for where, size, before in zip(index, sizes, padding, strict=True):
            places = where.reshape(-1, 1) - before
            there = (places >= 0) & (places < size)
            taps.append(Taps(np.where(there, places, -1), there.astype(float), size).transposed())
        moved = permute(split, axes=(0, 1, 2, 4, 3, 5))
        lined = (n, channels, *(k * count for k, count in zip(kernel, counts, strict=True)))
        return resampled(reshape(moved, lined), 2, taps)
    moved = permute(split, axes=(2, 4, 3, 5, 0, 1))
    full = tuple(m + 2 * b for m, b in zip(sizes, padding, strict=True))
    rows = index[0][:, :, None, None] * full[1] + index[1][None, None, :, :]
    zeros = zeros_of(spec((math.prod(full), n, channels), split.dtype), split.device)
    at = constant_indices(rows[..., None], split.device)
    made = permute(scatter_nd(zeros, at, moved, update="add"), axes=(1, 2, 0))
    whole = reshape(made, (n, channels, *full))
    stops = (n, channels, *(b + m for b, m in zip(padding, sizes, strict=True)))
    return slice_(whole, starts=(0, 0, *padding), stops=stops, steps=(1,) * 4)


def _arguments(
    kernel: Any, stride: Any, padding: Any, dilation: Any, what: str
) -> tuple[Axes, Axes, Axes, Axes]:
    return (
        per_axis(kernel, 2, f"{what}: kernel_size"),
        per_axis(stride, 2, f"{what}: stride"),
        per_axis(padding, 2, f"{what}: padding"),
        per_axis(dilation, 2, f"{what}: dilation"),
    )


def _patches(
    sizes: Axes, kernel: Axes, stride: Axes, padding: Axes, dilation: Axes, what: str
) -> list[np.ndarray[Any, Any]]:
    """Return for each axis the indices (kernel element, patch) into the padded image."""
    found = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        span = n + 2 * p - d * (k - 1) - 1
        if span < 0 or min(k, s, d) < 1 or p < 0:
            raise ShapeError(
                f"{what}: patches of {kernel}, dilation {dilation} and stride {stride} do not fit "
                f"{sizes} with padding {padding}"
            )
        found.append(np.arange(k)[:, None] * d + np.arange(span // s + 1) * s)
    return found


def pixel_shuffle(x: Operand, /, factor: int) -> Tensor:
    """Return x with its channels rearranged into pixels.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (*N, C · r², H, W).
    factor : int
        The factor r of height and width; at least 1.

    Returns
    -------
    Tensor
        Shape (*N, C, H · r, W · r); the dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than three axes, or its channels do not divide by r².
    DTypeError
        If `x` is not a tensor, array or number.
    TypeError
        If `factor` is not a whole number.

    References
    ----------
    Shi et al., "Real-Time Single Image and Video Super-Resolution", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.pixel_shuffle(calor.asarray([[[1]], [[2]], [[3]], [[4]]]), 2).tolist()
    [[[1, 2], [3, 4]]]
    """
    x, r = as_tensor(x), integer(factor, "pixel_shuffle: factor")
    if x.ndim < 3 or r < 1 or x.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: the channels of shape {x.shape} must divide by {r}²")
    *lead, channels, height, width = x.shape
    split = reshape(x, (*lead, channels // (r * r), r, r, height, width))
    n = len(lead)
    order = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    moved = permute_dims(split, order)
    return reshape(moved, (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(x: Operand, /, factor: int) -> Tensor:
    """Return x with its pixels rearranged into channels, the inverse of :func:`pixel_shuffle`.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (*N, C, H · r, W · r).
    factor : int
        The divisor r of height and width; at least 1.

    Returns
    -------
    Tensor
        Shape (*N, C · r², H, W); the dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than three axes, or height and width do not divide by r.
    DTypeError
        If `x` is not a tensor, array or number.
    TypeError
        If `factor` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.pixel_unshuffle(calor.asarray([[[1, 2], [3, 4]]]), 2).tolist()
    [[[1]], [[2]], [[3]], [[4]]]
    """
    x, r = as_tensor(x), integer(factor, "pixel_unshuffle: factor")
    if x.ndim < 3 or r < 1 or x.shape[-1] % r or x.shape[-2] % r:
        raise ShapeError(f"pixel_unshuffle: height and width of {x.shape} must divide by {r}")
    *lead, channels, height, width = x.shape
    split = reshape(x, (*lead, channels, height // r, r, width // r, r))
    n = len(lead)
    moved = permute_dims(split, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return reshape(moved, (*lead, channels * r * r, height // r, width // r))


def channel_shuffle(x: Operand, /, groups: int) -> Tensor:
    """Return x with the channels of its groups taken in turn.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S).
    groups : int
        Into how many groups the channels are divided; at least 1.

    Returns
    -------
    Tensor
        The shape and dtype of `x`: first the first channel of each group, then the second.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its channels do not divide into the groups.
    TypeError
        If `groups` is not a whole number.

    References
    ----------
    Zhang et al., "ShuffleNet: An Extremely Efficient Convolutional Neural Network for Mobile
    Devices", 2018.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.channel_shuffle(calor.asarray([[0, 1, 2, 3]]), 2).tolist()
    [[0, 2, 1, 3]]
    """
    x, groups = as_tensor(x), integer(groups, "channel_shuffle: groups")
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: the channels of shape {x.shape} do not divide into {groups} groups"
        )
    split = reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    return reshape(permute_dims(split, (0, 2, 1, *range(3, split.ndim))), x.shape)
