"""Fractional max pooling: windows at random steps, by which an image shrinks by any factor.

Along an axis of n elements, m windows of k begin at ⌊(i + s) · a⌋ − ⌊s · a⌋, where s is drawn from
[0, 1) for each image and channel and a = (n − k) / (m − 1); the last one ends with the axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calor import random
from calor.dtypes import float32, int64
from calor.errors import ArgumentError, ShapeError
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, stretched
from calor.functions.searching import argmax
from calor.ops import elementwise as e
from calor.ops.indexing import take_along
from calor_nn.functional.conv import batched, per_axis, unbatched
from calor_nn.functional.pool_windows import baked

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

Sizes = int | Sequence[int]
Ratios = float | Sequence[float]


def fractional_max_pool2d(
    x: Operand,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    *,
    random_samples: Operand | None = None,
    key: Tensor | None = None,
) -> Any:
    """Return the maxima of windows that begin at random steps along two spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W), or (C, H, W) without a batch; real.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    output_size : int or sequence of int, optional
        H', W': the number of windows along each axis.
    output_ratio : float or sequence of float, optional
        Instead of `output_size`: the number of windows as a part of each axis, in (0, 1).
    return_indices : bool
        Also return where the maxima are, as flat indices into the spatial axes.
    random_samples : Tensor, ndarray or number, optional
        Shape (N, C, 2), in [0, 1): one number for each image, channel and axis, in the order of the
        axes. Drawn if left out.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.

    Returns
    -------
    Tensor or tuple of Tensor
        Shape (N, C, H', W'), without N if `x` has no batch; the dtype of `x`. With
        `return_indices` a pair with the indices, int64.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, the windows do not fit it, or `random_samples` has
        another shape.
    ArgumentError
        If not one of `output_size` and `output_ratio` is given, a size is below 1, or a ratio
        outside (0, 1).
    DTypeError
        If `x` is not a tensor, array or number.

    References
    ----------
    Graham, "Fractional Max-Pooling", 2014.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.reshape(calor.arange(25.0), (1, 1, 5, 5))
    >>> s = calor.full((1, 1, 2), 0.5)
    >>> functional.fractional_max_pool2d(x, 2, output_size=3, random_samples=s).tolist()
    [[[[6.0, 8.0, 9.0], [16.0, 18.0, 19.0], [21.0, 23.0, 24.0]]]]
    """
    given = kernel_size, output_size, output_ratio, return_indices, random_samples, key
    return _pooled(x, 2, *given)


def fractional_max_pool3d(
    x: Operand,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    *,
    random_samples: Operand | None = None,
    key: Tensor | None = None,
) -> Any:
    """Return the maxima of windows that begin at random steps along three spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, D, H, W), or (C, D, H, W) without a batch; real.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    output_size : int or sequence of int, optional
        D', H', W': the number of windows along each axis.
    output_ratio : float or sequence of float, optional
        Instead of `output_size`: the number of windows as a part of each axis, in (0, 1).
    return_indices : bool
        Also return where the maxima are, as flat indices into the spatial axes.
    random_samples : Tensor, ndarray or number, optional
        Shape (N, C, 3), in [0, 1): one number for each image, channel and axis, in the order of the
        axes. Drawn if left out.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.

    Returns
    -------
    Tensor or tuple of Tensor
        Shape (N, C, D', H', W'), without N if `x` has no batch; the dtype of `x`. With
        `return_indices` a pair with the indices, int64.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, the windows do not fit it, or `random_samples` has
        another shape.
    ArgumentError
        If not one of `output_size` and `output_ratio` is given, a size is below 1, or a ratio
        outside (0, 1).
    DTypeError
        If `x` is not a tensor, array or number.

    References
    ----------
    Graham, "Fractional Max-Pooling", 2014.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.fractional_max_pool3d(calor.ones((1, 1, 5, 5, 6)), 2, output_ratio=0.5).shape
    (1, 1, 2, 2, 3)
    """
    given = kernel_size, output_size, output_ratio, return_indices, random_samples, key
    return _pooled(x, 3, *given)


def _pooled(
    x: Any, rank: int, kernel: Any, size: Any, ratio: Any, indices: bool, samples: Any, key: Any
) -> Any:
    what = f"fractional_max_pool{rank}d"
    x, added = batched(as_tensor(x), rank, what)
    spatial = x.shape[2:]
    window = per_axis(kernel, rank, f"{what}: kernel_size")
    counts = _counts(spatial, size, ratio, what)
    if min(*window, *counts) < 1:
        raise ArgumentError(f"{what}: kernel_size {window} and the sizes {counts} are at least 1")
    if any(m + k - 1 > n for n, k, m in zip(spatial, window, counts, strict=True)):
        raise ShapeError(
            f"{what}: {counts} windows of {window} do not fit axes of {spatial}; an axis needs as "
            f"many elements as windows, and those of a window less one"
        )
    shape = (*x.shape[:2], rank)
    if samples is None:
        samples = random.uniform(shape, key=key, device=x.device)
    samples = as_tensor(samples, x)
    if samples.shape != shape:
        if not added or samples.shape != shape[1:]:
            raise ShapeError(f"{what}: random_samples of shape {samples.shape} must be {shape}")
        samples = reshape(samples, shape)
    places = _places(samples, spatial, window, counts)
    flat = reshape(x, (*x.shape[:2], math.prod(spatial)))
    windows, each = math.prod(counts), math.prod(window)
    taken = reshape(take_along(flat, places, axis=2), (*x.shape[:2], windows, each))
    best = argmax(taken, axis=-1, keepdims=True)
    made = reshape(take_along(taken, best, axis=3), (*x.shape[:2], *counts))
    if not indices:
        return unbatched(made, added)
    spots = reshape(places, (*x.shape[:2], windows, each))
    spots = reshape(take_along(spots, best, axis=3), made.shape)
    return unbatched(made, added), unbatched(spots, added)


def _counts(spatial: Sequence[int], size: Any, ratio: Any, what: str) -> tuple[int, ...]:
    """Return the number of windows along each axis."""
    if (size is None) == (ratio is None):
        raise ArgumentError(f"{what}: pass one of output_size and output_ratio")
    if ratio is None:
        return per_axis(size, len(spatial), f"{what}: output_size")
    ratios = tuple(ratio) if isinstance(ratio, Sequence) else (ratio,) * len(spatial)
    if len(ratios) != len(spatial) or not all(0 < one < 1 for one in ratios):
        raise ArgumentError(f"{what}: output_ratio {ratio} must be {len(spatial)} parts in (0, 1)")
    return tuple(int(n * one) for n, one in zip(spatial, ratios, strict=True))


def _places(
    samples: Any, spatial: Sequence[int], window: Sequence[int], counts: Sequence[int]
) -> Any:
    """Return the flat places of all elements of all windows: (N, C, windows · elements)."""
    lead = samples.shape[:2]
    wide = samples if samples.dtype.itemsize > 2 else e.cast(samples, dtype=float32)
    # Axes of windows and of their elements, one pair for each spatial axis.
    number: Any = None
    for axis, (n, k, m) in enumerate(zip(spatial, window, counts, strict=True)):
        step = (n - k) / (m - 1) if m > 1 else 0.0
        drawn = wide[..., axis : axis + 1]
        turn = baked(np.arange(m), wide)
        starts = e.floor((drawn + turn) * step) - e.floor(drawn * step)
        starts = e.minimum(starts, stretched(baked(np.asarray(n - k), wide), starts.shape))
        last = baked(np.arange(m) == m - 1, wide)
        starts = starts + (n - k - starts) * last
        begin = e.cast(starts, dtype=int64)[..., None]
        found = begin + baked(np.arange(k), begin)
        shape = [1] * (2 * len(spatial))
        shape[axis], shape[len(spatial) + axis] = m, k
        found = reshape(found, (*lead, *shape))
        number = found if number is None else number * n + found
    return reshape(number, (*lead, math.prod((*counts, *window))))
