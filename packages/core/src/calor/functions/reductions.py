"""Sums, products, extremes and truth over axes, and their running forms."""

from __future__ import annotations

from typing import Any

from calor import dtypes
from calor.dtypes import DType, as_dtype
from calor.errors import ShapeError
from calor.functions.arguments import many_axes, one_axis
from calor.functions.operands import as_tensor, prepared
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.base import Op
from calor.ops.movement import concat, expand, number_like
from calor.ops.movement import reshape as reshape_row
from calor.tensor.tensor import Axis, Operand, Tensor


def _accumulator(x: Tensor, dtype: Any) -> DType:
    """Return the dtype of a sum or product: small integers are widened, as in the standard."""
    if dtype is not None:
        return as_dtype(dtype)
    if x.dtype.kind == "uint":
        return dtypes.uint64
    if x.dtype.kind in ("bool", "int"):
        return dtypes.int64
    return x.dtype


def kept(y: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return a reduced tensor with the reduced axes back as size 1 when they are to be kept."""
    made: Tensor = y
    if keepdims:
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        made = reshape_row(y, shape=shape)
    return made


def _total(row: Op, x: Any, axis: Any, dtype: Any, keepdims: bool) -> Tensor:
    x = as_tensor(prepared(row, x) if dtype is None else x)
    axes = many_axes(axis, x.shape, row.name)
    return kept(row(x, axes=axes, dtype=_accumulator(x, dtype)), x, axes, keepdims)


def sum(x: Operand, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the sum over axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    dtype : DType or str, optional
        The dtype of sum and result. By default int64 for bool and signed integers, uint64 for
        unsigned integers, else the dtype of ``x``. Half types accumulate in float32.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The shape without the reduced axes. 0 where there is nothing to sum.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``sum``.

    Examples
    --------
    >>> import calor
    >>> calor.sum(calor.asarray([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
    return _total(r.sum, x, axis, dtype, keepdims)


def prod(x: Operand, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the product over axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    dtype : DType or str, optional
        The dtype of product and result; the default is that of `sum`.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The shape without the reduced axes. 1 where there is nothing to multiply.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``prod``.

    Examples
    --------
    >>> import calor
    >>> calor.prod(calor.asarray([[1, 2], [3, 4]]), axis=1).tolist()
    [2, 12]
    """
    return _total(r.prod, x, axis, dtype, keepdims)


def _extreme(row: Op, x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    axes = many_axes(axis, x.shape, row.name)
    for a in axes:
        if not x.shape[a]:
            raise ShapeError(
                f"{row.name}: axis {a} of shape {x.shape} is empty, so there is nothing to choose"
            )
    return kept(row(x, axes=axes), x, axes, keepdims)


def max(x: Operand, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Return the largest element over axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axes; a real dtype.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The dtype of ``x``, the shape without the reduced axes. NaN where there is one. Equal
        elements share the gradient.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is empty, or named twice.
    DTypeError
        If ``x`` is complex or float8.

    References
    ----------
    Python array API standard 2024.12, ``max``.

    Examples
    --------
    >>> import calor
    >>> calor.max(calor.asarray([[1, 5], [3, 4]]), axis=1).tolist()
    [5, 4]
    """
    return _extreme(r.max, x, axis, keepdims)


def min(x: Operand, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Return the smallest element over axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape with elements along the axes; a real dtype.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        The dtype of ``x``, the shape without the reduced axes. NaN where there is one. Equal
        elements share the gradient.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is empty, or named twice.
    DTypeError
        If ``x`` is complex or float8.

    References
    ----------
    Python array API standard 2024.12, ``min``.

    Examples
    --------
    >>> import calor
    >>> calor.min(calor.asarray([[1, 5], [3, 4]]), axis=1).tolist()
    [1, 3]
    """
    return _extreme(r.min, x, axis, keepdims)


def any(x: Operand, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Tell whether any element over axes is true, that is, not 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. NaN is true.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Dtype bool, the shape without the reduced axes. False where there are no elements.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``any``.

    Examples
    --------
    >>> import calor
    >>> calor.any(calor.asarray([[True, False], [False, False]]), axis=1).tolist()
    [True, False]
    """
    x = as_tensor(x)
    axes = many_axes(axis, x.shape, "any")
    return kept(r.any_(x, axes=axes), x, axes, keepdims)


def all(x: Operand, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Tell whether all elements over axes are true, that is, not 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. NaN is true.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Dtype bool, the shape without the reduced axes. True where there are no elements.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``all``.

    Examples
    --------
    >>> import calor
    >>> calor.all(calor.asarray([[True, False], [True, True]]), axis=1).tolist()
    [False, True]
    """
    x = as_tensor(x)
    axes = many_axes(axis, x.shape, "all")
    return kept(r.all_(x, axes=axes), x, axes, keepdims)


def count_nonzero(x: Operand, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Count the elements over axes that are not 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    axis : int or tuple of int, optional
        The axes to reduce, negative ones counted from the last. All of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay in the result with size 1.

    Returns
    -------
    Tensor
        Dtype int64, the shape without the reduced axes.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If an axis is named twice.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``count_nonzero``.

    Examples
    --------
    >>> import calor
    >>> calor.count_nonzero(calor.asarray([0, 3, 0, 5])).item()
    2
    """
    x = as_tensor(x)
    flags = x if x.dtype is dtypes.bool_ else e.cast(x, dtype=dtypes.bool_)
    return sum(flags, axis=axis, keepdims=keepdims)


def _line(x: Any, axis: int | None, what: str) -> tuple[Tensor, int]:
    """Return the operand of a scan and its axis, which may be left out for one axis only."""
    x = as_tensor(x)
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"{what}: shape {x.shape} has {x.ndim} axes; name one with axis=")
        axis = 0
    return x, one_axis(axis, x.shape, what)


def _running(
    row: Op, x: Any, axis: int | None, dtype: Any, initial: int | None, what: str
) -> Tensor:
    x, axis = _line(prepared(row, x) if dtype is None else x, axis, what)
    wanted = _accumulator(x, dtype)
    if x.dtype is not wanted:
        x = e.cast(x, dtype=wanted)
    made: Tensor = row(x, axis=axis, reverse=False)
    if initial is not None:
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        start = reshape_row(number_like(x, initial), shape=(1,) * x.ndim)
        made = concat(expand(start, shape=shape), made, axis=axis)
    return made


def cumulative_sum(
    x: Operand, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return the running sum along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8.
    axis : int, optional
        The axis to add along. It may be left out if ``x`` has one axis.
    dtype : DType or str, optional
        The dtype of sums and result; the default is that of `sum`.
    include_initial : bool, optional
        Whether a 0 comes first, which makes the axis one longer.

    Returns
    -------
    Tensor
        The shape of ``x``.

    Raises
    ------
    ShapeError
        If ``axis`` is left out and ``x`` has not exactly one axis.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``cumulative_sum``.

    Examples
    --------
    >>> import calor
    >>> calor.cumulative_sum(calor.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _running(r.cumsum, x, axis, dtype, 0 if include_initial else None, "cumulative_sum")


def cumulative_prod(
    x: Operand, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return the running product along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8.
    axis : int, optional
        The axis to multiply along. It may be left out if ``x`` has one axis.
    dtype : DType or str, optional
        The dtype of products and result; the default is that of `sum`.
    include_initial : bool, optional
        Whether a 1 comes first, which makes the axis one longer.

    Returns
    -------
    Tensor
        The shape of ``x``.

    Raises
    ------
    ShapeError
        If ``axis`` is left out and ``x`` has not exactly one axis.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``cumulative_prod``.

    Examples
    --------
    >>> import calor
    >>> calor.cumulative_prod(calor.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _running(r.cumprod, x, axis, dtype, 1 if include_initial else None, "cumulative_prod")


def cumulative_max(x: Operand, /, axis: int | None = None) -> Tensor:
    """Return the largest element so far along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a real dtype.
    axis : int, optional
        The axis to go along. It may be left out if ``x`` has one axis.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. NaN from the first NaN on.

    Raises
    ------
    ShapeError
        If ``axis`` is left out and ``x`` has not exactly one axis.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.cumulative_max(calor.asarray([1, 3, 2])).tolist()
    [1, 3, 3]
    """
    x, axis = _line(x, axis, "cumulative_max")
    made: Tensor = r.cummax(x, axis=axis, reverse=False)
    return made


def cumulative_min(x: Operand, /, axis: int | None = None) -> Tensor:
    """Return the smallest element so far along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; a real dtype.
    axis : int, optional
        The axis to go along. It may be left out if ``x`` has one axis.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. NaN from the first NaN on.

    Raises
    ------
    ShapeError
        If ``axis`` is left out and ``x`` has not exactly one axis.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.cumulative_min(calor.asarray([3, 1, 2])).tolist()
    [3, 1, 1]
    """
    x, axis = _line(x, axis, "cumulative_min")
    made: Tensor = r.cummin(x, axis=axis, reverse=False)
    return made
