"""Adaptive pooling: the number of windows is given, their sizes follow.

Window i of m over n elements covers ⌊i · n / m⌋ up to ⌈(i + 1) · n / m⌉, so neighbours share at
most one element. If m divides n, these are ordinary windows of n / m elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.errors import ShapeError
from calor.functions.activation import floating
from calor.functions.arguments import integer
from calor.functions.half_types import in_float32
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, stretched
from calor.functions.searching import argmax
from calor.ops import reductions as r
from calor.ops.indexing import gather, take_along
from calor_nn.functional.constant_tables import constant_indices
from calor_nn.functional.conv import batched, unbatched
from calor_nn.functional.pool import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from calor_nn.functional.resampling import Taps, picked, resampled

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

OutputSize = int | Sequence[int | None]
_MEAN = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}
_LARGEST = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}


@in_float32(autocast=False)
def adaptive_avg_pool1d(x: Operand, output_size: OutputSize) -> Tensor:
    """Return the means of a given number of windows over one spatial axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, L), or (C, L) without a batch.
    output_size : int or sequence of int or None
        L': the number of windows along each axis. None keeps the size of the axis.

    Returns
    -------
    Tensor
        Shape (N, C, L'), without N if `x` has no batch; the dtype of `x`, float32 for integers.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a size is below 1, or `output_size` does not have 1
        numbers.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.
    TypeError
        If a size is neither a whole number nor None.

    Notes
    -----
    Window i of n elements in m windows covers ⌊i · n / m⌋ up to ⌈(i + 1) · n / m⌉, so windows
    overlap where m does not divide n.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.adaptive_avg_pool1d(calor.asarray([[[1.0, 2.0, 3.0]]]), 2).tolist()
    [[[1.5, 2.5]]]
    """
    return _average(x, output_size, 1)


@in_float32(autocast=False)
def adaptive_avg_pool2d(x: Operand, output_size: OutputSize) -> Tensor:
    """Return the means of a given number of windows over two spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W), or (C, H, W) without a batch.
    output_size : int or sequence of int or None
        H', W': the number of windows along each axis. None keeps the size of the axis.

    Returns
    -------
    Tensor
        Shape (N, C, H', W'), without N if `x` has no batch; the dtype of `x`, float32 for integers.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a size is below 1, or `output_size` does not have 2
        numbers.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.
    TypeError
        If a size is neither a whole number nor None.

    Notes
    -----
    Window i of n elements in m windows covers ⌊i · n / m⌋ up to ⌈(i + 1) · n / m⌉, so windows
    overlap where m does not divide n.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.adaptive_avg_pool2d(calor.ones((1, 1, 5, 4)), (1, None)).shape
    (1, 1, 1, 4)
    """
    return _average(x, output_size, 2)


@in_float32(autocast=False)
def adaptive_avg_pool3d(x: Operand, output_size: OutputSize) -> Tensor:
    """Return the means of a given number of windows over three spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, D, H, W), or (C, D, H, W) without a batch.
    output_size : int or sequence of int or None
        D', H', W': the number of windows along each axis. None keeps the size of the axis.

    Returns
    -------
    Tensor
        Shape (N, C, D', H', W'), without N if `x` has no batch; the dtype of `x`, float32 for
        integers.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a size is below 1, or `output_size` does not have 3
        numbers.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.
    TypeError
        If a size is neither a whole number nor None.

    Notes
    -----
    Window i of n elements in m windows covers ⌊i · n / m⌋ up to ⌈(i + 1) · n / m⌉, so windows
    overlap where m does not divide n.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.adaptive_avg_pool3d(calor.ones((1, 1, 2, 3, 4)), 1).item()
    1.0
    """
    return _average(x, output_size, 3)


def adaptive_max_pool1d(x: Operand, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Return the largest elements of a given number of windows over one spatial axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, L), or (C, L) without a batch.
    output_size : int or sequence of int or None
        L': the number of windows along each axis. None keeps the size of the axis.
    return_indices : bool
        Return the places of the elements too.

    Returns
    -------
    Tensor or tuple of Tensor
        Shape (N, C, L'), without N if `x` has no batch; the dtype of `x`. With
        `return_indices` also the number of each element in its image, int64.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a size is below 1, or `output_size` does not have 1
        numbers.
    DTypeError
        If `x` is not a tensor, array or number.
    TypeError
        If a size is neither a whole number nor None.

    Notes
    -----
    Window i of n elements in m windows covers ⌊i · n / m⌋ up to ⌈(i + 1) · n / m⌉, so windows
    overlap where m does not divide n.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.adaptive_max_pool1d(calor.asarray([[[1.0, 2.0, 3.0]]]), 2).tolist()
    [[[2.0, 3.0]]]
    """
    return _largest(x, output_size, 1, return_indices)


def adaptive_max_pool2d(x: Operand, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Return the largest elements of a given number of windows over two spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W), or (C, H, W) without a batch.
    output_size : int or sequence of int or None
        H', W': the number of windows along each axis. None keeps the size of the axis.
    return_indices : bool
        Return the places of the elements too.

    Returns
    -------
    Tensor or tuple of Tensor
        Shape (N, C, H', W'), without N if `x` has no batch; the dtype of `x`. With
        `return_indices` also the number of each element in its image, int64.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a size is below 1, or `output_size` does not have 2
        numbers.
    DTypeError
        If `x` is not a tensor, array or number.
    TypeError
        If a size is neither a whole number nor None.

    Notes
    -----
    Window i of n elements in m windows covers ⌊i · n / m⌋ up to ⌈(i + 1) · n / m⌉, so windows
    overlap where m does not divide n.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.adaptive_max_pool2d(calor.ones((1, 1, 5, 4)), (1, None)).shape
    (1, 1, 1, 4)
    """
    return _largest(x, output_size, 2, return_indices)


def adaptive_max_pool3d(x: Operand, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Return the largest elements of a given number of windows over three spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, D, H, W), or (C, D, H, W) without a batch.
    output_size : int or sequence of int or None
        D', H', W': the number of windows along each axis. None keeps the size of the axis.
    return_indices : bool
        Return the places of the elements too.

    Returns
    -------
    Tensor or tuple of Tensor
        Shape (N, C, D', H', W'), without N if `x` has no batch; the dtype of `x`. With
        `return_indices` also the number of each element in its image, int64.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a size is below 1, or `output_size` does not have 3
        numbers.
    DTypeError
        If `x` is not a tensor, array or number.
    TypeError
        If a size is neither a whole number nor None.

    Notes
    -----
    Window i of n elements in m windows covers ⌊i · n / m⌋ up to ⌈(i + 1) · n / m⌉, so windows
    overlap where m does not divide n.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.adaptive_max_pool3d(calor.ones((1, 1, 2, 3, 4)), 1).item()
    1.0
    """
    return _largest(x, output_size, 3, return_indices)


def _sizes(x: Tensor, output_size: Any, rank: int, what: str) -> tuple[int, ...]:
    given = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * rank
    spatial = x.shape[-rank:]
    if len(given) != rank:
        raise ShapeError(f"{what}: output_size {output_size} must be one number or {rank}")
    sizes = tuple(
        n if wanted is None else integer(wanted, f"{what}: output_size")
        for wanted, n in zip(given, spatial, strict=True)
    )
    if min(sizes) < 1 or min(spatial) < 1:
        raise ShapeError(f"{what}: cannot pool sizes {spatial} to {sizes}; each must be at least 1")
    return sizes


def _uniform(x: Tensor, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the windows' size if they are equal and disjoint, else None."""
    pairs = list(zip(x.shape[-len(sizes) :], sizes, strict=True))
    return tuple(n // m for n, m in pairs) if all(n % m == 0 for n, m in pairs) else None


def _bounds(size: int, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    number = np.arange(count)
    return number * size // count, -(-(number + 1) * size // count)


def _average(x: Any, output_size: Any, rank: int) -> Tensor:
    what = f"adaptive_avg_pool{rank}d"
    x, added = batched(floating(x, what), rank, what)
    sizes = _sizes(x, output_size, rank, what)
    window = _uniform(x, sizes)
    if window is not None:
        return unbatched(_MEAN[rank](x, window), added)
    for axis, count in enumerate(sizes, 2):
        if x.shape[axis] != count:
            x = _averaged(x, axis, count)
    return unbatched(x, added)


def _averaged(x: Tensor, axis: int, count: int) -> Tensor:
    """Return the means along one axis, each a sum of the elements of its window alone."""
    first, end = _bounds(x.shape[axis], count)
    sizes = (end - first)[:, None]
    places = first[:, None] + np.arange(sizes.max())
    inside = places < end[:, None]
    taps = Taps(np.where(inside, places, -1), inside / sizes, x.shape[axis])
    return resampled(x, axis, [taps])


def _largest(x: Any, output_size: Any, rank: int, indices: bool) -> Any:
    what = f"adaptive_max_pool{rank}d"
    x, added = batched(as_tensor(x), rank, what)
    sizes = _sizes(x, output_size, rank, what)
    if indices:
        return tuple(unbatched(t, added) for t in _largest_places(x, sizes))
    window = _uniform(x, sizes)
    if window is not None:
        pooled: Tensor = _LARGEST[rank](x, window)
        return unbatched(pooled, added)
    for axis, count in enumerate(sizes, 2):
        if x.shape[axis] != count:
            x = _extreme(x, axis, count)
    return unbatched(x, added)


def _largest_places(x: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the maxima of windows, and their numbers among the elements of an image."""
    spatial = x.shape[2:]
    # For each axis the places of the windows' elements (windows, width), the last one repeated.
    found = []
    for old, count in zip(spatial, sizes, strict=True):
        first, end = _bounds(old, count)
        width = int((end - first).max())
        found.append(np.minimum(first[:, None] + np.arange(width), end[:, None] - 1))
    number = np.zeros((1, 1), np.int64)
    for old, places in zip(spatial, found, strict=True):
        number = number[:, None, :, None] * old + places[None, :, None, :]
        number = number.reshape(number.shape[0] * number.shape[1], -1)
    table = constant_indices(number, x.device)
    flat = gather(reshape(x, (*x.shape[:2], -1)), table, axis=2)
    best = argmax(flat, axis=-1, keepdims=True)
    shape = (*x.shape[:2], *sizes)
    values = take_along(flat, best, axis=3)
    places = take_along(stretched(table, flat.shape), best, axis=3)
    return reshape(values, shape), reshape(places, shape)


def _extreme(x: Tensor, axis: int, count: int) -> Tensor:
    """Return the maxima along one axis: windows padded with their last element."""
    first, end = _bounds(x.shape[axis], count)
    width = int((end - first).max())
    places = np.minimum(first[:, None] + np.arange(width), end[:, None] - 1)
    elements = reshape(
        picked(x, axis, [places.reshape(-1)]),
        (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]),
    )
    made: Tensor = r.max(elements, axes=(axis + 1,))
    return made
