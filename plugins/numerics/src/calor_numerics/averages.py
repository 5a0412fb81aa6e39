"""Weighted means, percentiles and quantiles, also of the elements that are not NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor import dtypes
from calor.errors import ShapeError
from calor.functions.arguments import many_axes
from calor.functions.manipulation import broadcast_to, permute_dims, reshape
from calor.functions.operands import as_tensor
from calor.functions.reductions import max as largest
from calor.functions.reductions import min as smallest
from calor.functions.reductions import sum as total
from calor.functions.statistics import Method, mean, quantile, quantile_of
from calor.tensor.tensor import Axis, Operand, Tensor
from calor_numerics.host_values import host_values


def ptp(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the difference of the largest and the smallest element over axes.

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
        The dtype of ``x``. NaN where an element is NaN.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is empty.
    DTypeError
        If ``x`` is complex, bool or float8.

    Examples
    --------
    >>> import calor
    >>> calor.ptp(calor.asarray([4, 1, 7])).item()
    6
    """
    x = as_tensor(x)
    return largest(x, axis=axis, keepdims=keepdims) - smallest(x, axis=axis, keepdims=keepdims)


def average(
    x: Operand, /, *, axis: Axis = None, weights: Operand | None = None, keepdims: bool = False
) -> Tensor:
    """Return the weighted mean over axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    weights : Tensor, ndarray or number, optional
        In the shape of ``x``, or that of ``axis`` in the order given there. By default all are 1.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The common floating dtype of ``x`` and ``weights``.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If the shape of ``weights`` does not fit.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.average(calor.asarray([1.0, 4.0]), weights=calor.asarray([2.0, 1.0])).item()
    2.0
    """
    x = as_tensor(x)
    if weights is None:
        return mean(x, axis=axis, keepdims=keepdims)
    given = as_tensor(weights, x)
    if given.shape != x.shape:
        axes = many_axes(axis, x.shape, "average")
        # Weights have the axes in the order in which they are named.
        named = tuple(a % x.ndim for a in axis) if isinstance(axis, Sequence) else axes
        if given.shape != tuple(x.shape[a] for a in named):
            raise ShapeError(
                f"average: weights of shape {given.shape} fit neither x of shape {x.shape} nor "
                f"its axes {named}"
            )
        given = permute_dims(given, tuple(named.index(a) for a in axes))
        given = reshape(given, tuple(n if a in axes else 1 for a, n in enumerate(x.shape)))
    kind = dtypes.float_of(dtypes.promote(x.dtype, given.dtype))
    wide = dtypes.float32 if kind.itemsize < 4 else kind
    x, given = x.astype(wide), broadcast_to(given, x.shape).astype(wide)
    share = total(given, axis=axis, keepdims=keepdims)
    return (total(x * given, axis=axis, keepdims=keepdims) / share).astype(kind)


def nanquantile(
    x: Operand,
    q: float | Tensor,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    method: Method = "linear",
) -> Tensor:
    """Return quantiles over axes of the elements that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axes; a real dtype.
    q : float or Tensor
        Levels between 0 and 1.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.
    method : {"linear", "lower", "higher", "midpoint", "nearest"}, optional
        What is returned between two elements, as for `calor.quantile`.

    Returns
    -------
    Tensor
        The axes of ``q``, then those of ``x`` that are left; the dtype of ``x`` if it is floating,
        else float32.

    Raises
    ------
    ArgumentError
        If ``q`` is a number out of range, or ``method`` another name.
    ShapeError
        If an axis is empty.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanquantile(calor.asarray([1.0, calor.nan, 3.0]), 0.5).item()
    2.0
    """
    return quantile_of(x, q, axis, keepdims, method, True, "nanquantile")


def _levels(percent: Any) -> Any:
    """Return levels between 0 and 1 of levels between 0 and 100."""
    if isinstance(percent, list | tuple):
        percent = host_values(percent, "percentile: q")
    return percent / 100


def percentile(
    x: Operand,
    q: float | Sequence[float] | Tensor,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    method: Method = "linear",
) -> Tensor:
    """Return percentiles over axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axes; a real dtype.
    q : float, list or Tensor
        Levels between 0 and 100.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.
    method : {"linear", "lower", "higher", "midpoint", "nearest"}, optional
        What is returned between two elements, as for `calor.quantile`.

    Returns
    -------
    Tensor
        The axes of ``q``, then those of ``x`` that are left; the dtype of ``x`` if it is floating,
        else float32.

    Raises
    ------
    ArgumentError
        If ``q`` is a number out of range, or ``method`` another name.
    ShapeError
        If an axis is empty.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.percentile(calor.asarray([1.0, 2.0, 3.0]), 50).item()
    2.0
    """
    return quantile(x, _levels(q), axis=axis, keepdims=keepdims, method=method)


def nanpercentile(
    x: Operand,
    q: float | Sequence[float] | Tensor,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    method: Method = "linear",
) -> Tensor:
    """Return percentiles over axes of the elements that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axes; a real dtype.
    q : float, list or Tensor
        Levels between 0 and 100.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.
    method : {"linear", "lower", "higher", "midpoint", "nearest"}, optional
        What is returned between two elements, as for `calor.quantile`.

    Returns
    -------
    Tensor
        The axes of ``q``, then those of ``x`` that are left; the dtype of ``x`` if it is floating,
        else float32.

    Raises
    ------
    ArgumentError
        If ``q`` is a number out of range, or ``method`` another name.
    ShapeError
        If an axis is empty.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanpercentile(calor.asarray([1.0, calor.nan, 3.0]), 50).item()
    2.0
    """
    return quantile_of(x, _levels(q), axis, keepdims, method, True, "nanpercentile")


def nanmedian(
    x: Operand, /, *, axis: Axis = None, keepdims: bool = False
) -> Tensor:  # numpydoc ignore=RS01
    """Return the median over axes of the elements that are not NaN.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axes; a real dtype.
    axis : int or tuple of int, optional
        The axes to reduce. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The dtype of ``x`` if it is floating, else float32. NaN where all elements are NaN.

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
    >>> calor.nanmedian(calor.asarray([1.0, calor.nan, 3.0])).item()
    2.0
    """
    return quantile_of(x, 0.5, axis, keepdims, "linear", True, "nanmedian")
