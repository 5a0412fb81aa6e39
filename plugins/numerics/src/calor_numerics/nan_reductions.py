"""Reductions that leave NaN out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor import dtypes
from calor.dtypes import DType
from calor.functions.activation import inexact
from calor.functions.logic import isnan
from calor.functions.operands import as_tensor
from calor.functions.reductions import all as all_of
from calor.functions.reductions import max as largest
from calor.functions.reductions import min as smallest
from calor.functions.reductions import prod as product
from calor.functions.reductions import sum as total
from calor.functions.searching import argmax, where
from calor.functions.signs import abs as magnitude
from calor.functions.transcendental import sqrt
from calor.tensor.tensor import Axis, Operand, Tensor


def _without(x: Operand, value: float) -> Tensor:
    """Return x with a number in place of each NaN."""
    x = as_tensor(x)
    return where(isnan(x), value, x) if x.dtype.is_inexact else x


def _wide(x: Operand, what: str) -> tuple[Tensor, DType]:
    """Return x and the dtype of its mean; half types are computed in float32."""
    x = inexact(x, what)
    work = x.dtype
    return (x.astype(dtypes.float32) if work.itemsize < 4 else x), work


def _real(kind: DType) -> DType:
    if not kind.is_complex:
        return kind
    return dtypes.float32 if kind is dtypes.complex64 else dtypes.float64


def _left(x: Tensor, axis: Axis, keepdims: bool, work: DType) -> Tensor:
    """Return how many elements are not NaN, as a floating dtype."""
    count = total((~isnan(x)).astype("int64"), axis=axis, keepdims=keepdims)
    return count.astype(dtypes.float64 if work.itemsize > 4 and not work.is_complex else
                        dtypes.float32)  # fmt: skip


def _extreme(
    reduction: Callable[..., Tensor], least: float, x: Operand, axis: Axis, keepdims: bool
) -> Tensor:
    """Return an extreme without NaN; NaN where nothing is left."""
    x = as_tensor(x)
    made = reduction(_without(x, least), axis=axis, keepdims=keepdims)
    if not x.dtype.is_inexact:
        return made
    return where(all_of(isnan(x), axis=axis, keepdims=keepdims), float("nan"), made)


def _place(
    reduction: Callable[..., Tensor], x: Operand, axis: int | None, keepdims: bool
) -> Tensor:
    """Return the first place of an extreme without NaN; 0 where nothing is left."""
    x = as_tensor(x)
    # An infinity that stands for NaN must not come before one that is an element.
    extreme = reduction(x, axis=axis, keepdims=True)
    here = x == extreme
    if x.dtype.is_inexact:
        here = here | (isnan(x) & isnan(extreme))
    return argmax(here.astype("uint8"), axis=axis, keepdims=keepdims)


def nansum(
    x: Operand, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """Return the sum over axes; NaN counts 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    dtype : DType or str, optional
        The dtype of the sum and the result, as for `calor.sum`.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        As of `calor.sum`.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.nansum(calor.asarray([1.0, calor.nan, 3.0])).item()
    4.0
    """
    return total(_without(x, 0), axis=axis, dtype=dtype, keepdims=keepdims)


def nanprod(
    x: Operand, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """Return the product over axes; NaN counts 1.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    dtype : DType or str, optional
        The dtype of the sum and the result, as for `calor.prod`.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        As of `calor.prod`.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanprod(calor.asarray([2.0, calor.nan, 3.0])).item()
    6.0
    """
    return product(_without(x, 1), axis=axis, dtype=dtype, keepdims=keepdims)


def nanmean(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean over axes of the elements that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The dtype of ``x`` if it is floating or complex, else float32. NaN where nothing is left.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanmean(calor.asarray([1.0, calor.nan, 3.0])).item()
    2.0
    """
    x, work = _wide(x, "nanmean")
    count = _left(x, axis, keepdims, work)
    return (total(_without(x, 0), axis=axis, keepdims=keepdims) / count).astype(work)


def nanvar(
    x: Operand, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Return the variance over axes of the elements that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    correction : float, optional
        What is taken from the number of elements that the squares are divided by. By default 0.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Real; the dtype of ``x`` if it is real and floating. NaN where no more than
        ``correction`` elements are left.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanvar(calor.asarray([1.0, calor.nan, 3.0])).item()
    1.0
    """
    x, work = _wide(x, "nanvar")
    count = _left(x, axis, True, work)
    mean = total(_without(x, 0), axis=axis, keepdims=True) / count
    off = magnitude(where(isnan(x), mean, x) - mean)
    left = _left(x, axis, keepdims, work)
    made = total(off * off, axis=axis, keepdims=keepdims) / (left - correction)
    return where(left > correction, made, float("nan")).astype(_real(work))


def nanstd(
    x: Operand, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Return the standard deviation over axes of the elements that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    correction : float, optional
        What is taken from the number of elements that the squares are divided by. By default 0.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        As of `nanvar`.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanstd(calor.asarray([1.0, calor.nan, 3.0])).item()
    1.0
    """
    return sqrt(nanvar(x, axis=axis, correction=correction, keepdims=keepdims))


def nanmax(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over axes of those that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Elements along the axes; a real dtype.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The dtype of ``x``. NaN where all elements are NaN.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is empty.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanmax(calor.asarray([1.0, calor.nan, 3.0])).item()
    3.0
    """
    return _extreme(largest, -float("inf"), x, axis, keepdims)


def nanmin(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over axes of those that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Elements along the axes; a real dtype.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The dtype of ``x``. NaN where all elements are NaN.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is empty.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanmin(calor.asarray([1.0, calor.nan, 3.0])).item()
    1.0
    """
    return _extreme(smallest, float("inf"), x, axis, keepdims)


def nanargmax(x: Operand, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first largest element of those that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Elements along the axis; a real dtype.
    axis : int, optional
        The axis to search. By default ``x`` is flattened.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Dtype int64. The index of the first NaN where all elements are NaN.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If there are no elements to search.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanargmax(calor.asarray([1.0, calor.nan, 3.0])).item()
    2
    """
    return _place(nanmax, x, axis, keepdims)


def nanargmin(x: Operand, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first smallest element of those that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Elements along the axis; a real dtype.
    axis : int, optional
        The axis to search. By default ``x`` is flattened.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Dtype int64. The index of the first NaN where all elements are NaN.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If there are no elements to search.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanargmin(calor.asarray([1.0, calor.nan, 3.0])).item()
    0
    """
    return _place(nanmin, x, axis, keepdims)
