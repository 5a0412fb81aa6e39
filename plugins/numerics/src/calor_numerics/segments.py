"""Reductions of the parts of a tensor that share a number: sums of groups, pools of graphs.

Requirements: the numbers need no order, an empty segment has the value that its reduction starts
from, and every reduction is one scatter, so it has the gradient of that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor import dtypes
from calor.dtypes import float32
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.arguments import integer, one_axis
from calor.functions.operands import as_tensor
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.indexing import scatter_along, scatter_nd
from calor.ops.movement import expand, number_like, permute, reshape
from calor.tensor.tensor import Operand, Tensor

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"]


def _prepared(
    what: str, x: Any, segment_ids: Any, num_segments: Any, axis: int
) -> tuple[Any, Any, int, int]:
    """Return the tensor, its numbers, how many segments there are, and the axis."""
    x = as_tensor(x)
    ids = as_tensor(segment_ids, x)
    axis = one_axis(axis, x.shape, what)
    if not ids.dtype.is_integer:
        raise DTypeError(f"{what}: segment_ids are integers, not {ids.dtype.name}")
    if ids.shape != (x.shape[axis],):
        raise ShapeError(
            f"{what}: segment_ids of shape {ids.shape} do not fit axis {axis} of shape "
            f"{x.shape}; pass one number for each of its {x.shape[axis]} places"
        )
    if num_segments is None:
        count = int(r.max(ids, axes=(0,)).item()) + 1 if ids.size else 0
    else:
        count = integer(num_segments, f"{what}: num_segments")
    if count < 0:
        raise ArgumentError(f"{what}: num_segments is {count}; pass a number of at least 0")
    return x, ids, count, axis


def _scattered(x: Any, ids: Any, count: int, axis: int, start: Any, update: str) -> Any:
    number = number_like(x, start)
    if not x.size or not count:
        return expand(number, shape=(*x.shape[:axis], count, *x.shape[axis + 1 :]))
    places = e.cast(ids, dtype=dtypes.int64)
    if x.ndim == 1:
        return scatter_along(expand(number, shape=(count,)), places, x, axis=0, update=update)
    # Whole rows are updated, so a number is read once for all elements of its slice.
    ahead = (axis, *(n for n in range(x.ndim) if n != axis))
    rows = permute(x, axes=ahead) if axis else x
    base = expand(number, shape=(count, *rows.shape[1:]))
    made = scatter_nd(base, reshape(places, shape=(x.shape[axis], 1)), rows, update=update)
    back = tuple(sorted(range(x.ndim), key=ahead.__getitem__))
    return permute(made, axes=back) if axis else made


def segment_sum(
    x: Operand, segment_ids: Operand, /, num_segments: int | None = None, *, axis: int = 0
) -> Tensor:
    """Return the sums of the slices along an axis that share a number.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a dtype with sums. Half types are added in float32.
    segment_ids : Tensor or ndarray
        Integers of shape (x.shape[axis],), in any order, each the segment of a slice.
    num_segments : int, optional
        How many segments there are; needed in a jitted function. By default one more than the
        largest number.
    axis : int, optional
        The axis. By default the first.

    Returns
    -------
    Tensor
        The shape of ``x`` with ``num_segments`` places along the axis, and its dtype. 0 where a
        segment is empty.

    Raises
    ------
    ArgumentError
        If ``num_segments`` is negative.
    DTypeError
        If ``segment_ids`` are not integers, or ``x`` is bool.
    ShapeError
        If there is not one number for each slice.
    AxisError
        If ``axis`` does not fit.
    TypeError
        If ``num_segments`` is no whole number.
    ElementIndexError
        When the result is computed, if a number is not below ``num_segments``.

    Examples
    --------
    >>> import calor
    >>> calor.segment_sum(calor.asarray([1, 2, 3, 4]), calor.asarray([0, 0, 2, 2])).tolist()
    [3, 0, 7]
    """
    a, ids, count, axis = _prepared("segment_sum", x, segment_ids, num_segments, axis)
    return _sum(a, ids, count, axis)  # type: ignore[no-any-return]


def _sum(x: Any, ids: Any, count: int, axis: int) -> Any:
    half = x.dtype.kind == "float" and x.dtype.itemsize == 2
    made = _scattered(e.cast(x, dtype=float32) if half else x, ids, count, axis, 0, "add")
    return e.cast(made, dtype=x.dtype) if half else made


def segment_mean(
    x: Operand, segment_ids: Operand, /, num_segments: int | None = None, *, axis: int = 0
) -> Tensor:
    """Return the means of the slices along an axis that share a number.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a floating or complex dtype. Half types are added in float32.
    segment_ids : Tensor or ndarray
        Integers of shape (x.shape[axis],), in any order, each the segment of a slice.
    num_segments : int, optional
        How many segments there are; needed in a jitted function. By default one more than the
        largest number.
    axis : int, optional
        The axis. By default the first.

    Returns
    -------
    Tensor
        The shape of ``x`` with ``num_segments`` places along the axis, and its dtype. NaN where a
        segment is empty.

    Raises
    ------
    ArgumentError
        If ``num_segments`` is negative.
    DTypeError
        If ``segment_ids`` are not integers, or ``x`` is not floating or complex.
    ShapeError
        If there is not one number for each slice.
    AxisError
        If ``axis`` does not fit.
    TypeError
        If ``num_segments`` is no whole number.
    ElementIndexError
        When the result is computed, if a number is not below ``num_segments``.

    Examples
    --------
    >>> import calor
    >>> calor.segment_mean(calor.asarray([1.0, 2.0, 3.0]), calor.asarray([1, 0, 1])).tolist()
    [2.0, 2.0]
    """
    a, ids, count, axis = _prepared("segment_mean", x, segment_ids, num_segments, axis)
    if not a.dtype.is_inexact:
        raise DTypeError(
            f"segment_mean: x is {a.dtype.name}; cast it with x.astype(calor.float32) first"
        )
    half = a.dtype.itemsize == 2
    wide = e.cast(a, dtype=float32) if half else a
    ones = expand(number_like(e.real(wide) if wide.dtype.is_complex else wide, 1), shape=ids.shape)
    total = _sum(wide, ids, count, axis)
    counts = _sum(ones, ids, count, 0)
    along = (1,) * axis + (count,) + (1,) * (a.ndim - axis - 1)
    counts = expand(reshape(counts, shape=along), shape=total.shape)
    if wide.dtype.is_complex:
        counts = e.cast(counts, dtype=wide.dtype)
    made = total / counts
    return e.cast(made, dtype=a.dtype) if half else made  # type: ignore[no-any-return]


def segment_prod(
    x: Operand, segment_ids: Operand, /, num_segments: int | None = None, *, axis: int = 0
) -> Tensor:
    """Return the products of the slices along an axis that share a number.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a dtype with products.
    segment_ids : Tensor or ndarray
        Integers of shape (x.shape[axis],), in any order, each the segment of a slice.
    num_segments : int, optional
        How many segments there are; needed in a jitted function. By default one more than the
        largest number.
    axis : int, optional
        The axis. By default the first.

    Returns
    -------
    Tensor
        The shape of ``x`` with ``num_segments`` places along the axis, and its dtype. 1 where a
        segment is empty.

    Raises
    ------
    ArgumentError
        If ``num_segments`` is negative.
    DTypeError
        If ``segment_ids`` are not integers, or ``x`` is bool.
    ShapeError
        If there is not one number for each slice.
    AxisError
        If ``axis`` does not fit.
    TypeError
        If ``num_segments`` is no whole number.
    ElementIndexError
        When the result is computed, if a number is not below ``num_segments``.

    Examples
    --------
    >>> import calor
    >>> calor.segment_prod(calor.asarray([2, 3, 4]), calor.asarray([0, 0, 1])).tolist()
    [6, 4]
    """
    a, ids, count, axis = _prepared("segment_prod", x, segment_ids, num_segments, axis)
    return _scattered(a, ids, count, axis, 1, "mul")  # type: ignore[no-any-return]


def segment_max(
    x: Operand, segment_ids: Operand, /, num_segments: int | None = None, *, axis: int = 0
) -> Tensor:
    """Return the largest elements of the slices along an axis that share a number.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a real dtype.
    segment_ids : Tensor or ndarray
        Integers of shape (x.shape[axis],), in any order, each the segment of a slice.
    num_segments : int, optional
        How many segments there are; needed in a jitted function. By default one more than the
        largest number.
    axis : int, optional
        The axis. By default the first.

    Returns
    -------
    Tensor
        The shape of ``x`` with ``num_segments`` places along the axis, and its dtype. −inf, or the
        least integer, where a segment is empty.

    Raises
    ------
    ArgumentError
        If ``num_segments`` is negative.
    DTypeError
        If ``segment_ids`` are not integers, or ``x`` is complex.
    ShapeError
        If there is not one number for each slice.
    AxisError
        If ``axis`` does not fit.
    TypeError
        If ``num_segments`` is no whole number.
    ElementIndexError
        When the result is computed, if a number is not below ``num_segments``.

    Examples
    --------
    >>> import calor
    >>> calor.segment_max(calor.asarray([2.0, 3.0, 4.0]), calor.asarray([0, 0, 2])).tolist()
    [3.0, -inf, 4.0]
    """
    a, ids, count, axis = _prepared("segment_max", x, segment_ids, num_segments, axis)
    return _scattered(a, ids, count, axis, _end(a, -1), "max")  # type: ignore[no-any-return]


def segment_min(
    x: Operand, segment_ids: Operand, /, num_segments: int | None = None, *, axis: int = 0
) -> Tensor:
    """Return the smallest elements of the slices along an axis that share a number.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a real dtype.
    segment_ids : Tensor or ndarray
        Integers of shape (x.shape[axis],), in any order, each the segment of a slice.
    num_segments : int, optional
        How many segments there are; needed in a jitted function. By default one more than the
        largest number.
    axis : int, optional
        The axis. By default the first.

    Returns
    -------
    Tensor
        The shape of ``x`` with ``num_segments`` places along the axis, and its dtype. inf, or the
        largest integer, where a segment is empty.

    Raises
    ------
    ArgumentError
        If ``num_segments`` is negative.
    DTypeError
        If ``segment_ids`` are not integers, or ``x`` is complex.
    ShapeError
        If there is not one number for each slice.
    AxisError
        If ``axis`` does not fit.
    TypeError
        If ``num_segments`` is no whole number.
    ElementIndexError
        When the result is computed, if a number is not below ``num_segments``.

    Examples
    --------
    >>> import calor
    >>> calor.segment_min(calor.asarray([2.0, 3.0, 4.0]), calor.asarray([0, 0, 2])).tolist()
    [2.0, inf, 4.0]
    """
    a, ids, count, axis = _prepared("segment_min", x, segment_ids, num_segments, axis)
    return _scattered(a, ids, count, axis, _end(a, 1), "min")  # type: ignore[no-any-return]


def _end(x: Any, sign: int) -> Any:
    """Return the largest (1) or smallest (−1) number of a dtype."""
    if x.dtype.kind == "bool":
        return sign > 0
    if x.dtype.is_integer:
        limits = np.iinfo(x.dtype.numpy)
        return int(limits.max if sign > 0 else limits.min)
    return sign * np.inf
