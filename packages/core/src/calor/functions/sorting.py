"""Sorting along an axis. It is always stable, and NaN comes last in both directions."""

from __future__ import annotations

from typing import NamedTuple

from calor.dtypes import int64
from calor.errors import ArgumentError
from calor.functions.arguments import integer, one_axis
from calor.functions.joining import split
from calor.functions.operands import as_tensor
from calor.ops import indexing as i
from calor.ops.sources import zeros_of
from calor.specs import spec
from calor.tensor.tensor import Operand, Tensor


def _sorted(x: Operand, axis: int, descending: bool, what: str) -> tuple[Tensor, Tensor]:
    x = as_tensor(x)
    if not x.ndim and axis in (0, -1):
        return x.copy(), zeros_of(spec((), int64), x.device)
    values, places = i.sort(x, axis=one_axis(axis, x.shape, what), descending=bool(descending))
    return values, places


def sort(x: Operand, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the tensor with its elements in order along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int, optional
        The axis to sort along. By default the last.
    descending : bool, optional
        Whether the largest element comes first. By default False.
    stable : bool, optional
        For the standard. Equal elements always keep their order.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. NaN comes last in both directions.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``sort``.

    Examples
    --------
    >>> import calor
    >>> calor.sort(calor.asarray([3, 1, 2])).tolist()
    [1, 2, 3]
    """
    return _sorted(x, axis, descending, "sort")[0]


def argsort(
    x: Operand, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """Return the indices that sort the tensor along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int, optional
        The axis to sort along. By default the last.
    descending : bool, optional
        Whether the largest element comes first. By default False.
    stable : bool, optional
        For the standard. Equal elements always keep their order.

    Returns
    -------
    Tensor
        Dtype int64, in the shape of ``x``. NaN comes last in both directions.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Python array API standard 2024.12, ``argsort``.

    Examples
    --------
    >>> import calor
    >>> calor.argsort(calor.asarray([3, 1, 2]), descending=True).tolist()
    [0, 2, 1]
    """
    return _sorted(x, axis, descending, "argsort")[1]


class TopK(NamedTuple):
    """The values and their indices along the axis."""

    values: Tensor
    indices: Tensor


def topk(
    x: Operand, k: int, /, axis: int = -1, *, largest: bool = True
) -> TopK:  # numpydoc ignore=RS01
    """Return the k largest or smallest elements along an axis, in order, and their indices.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8.
    k : int
        How many, from 0 to the size of the axis.
    axis : int, optional
        The axis to search. By default the last.
    largest : bool, optional
        Whether the largest are wanted (the default) or the smallest.

    Returns
    -------
    TopK
        ``values``, with the dtype of ``x``, and ``indices``, int64; both with size k along the
        axis.

    Raises
    ------
    ArgumentError
        If ``k`` is negative or larger than the axis.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is float8.
    TypeError
        If ``k`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.topk(calor.asarray([4, 9, 7]), 2).values.tolist()
    [9, 7]
    """
    x = as_tensor(x)
    axis = one_axis(axis, x.shape, "topk")
    count, size = integer(k, "topk: k"), x.shape[axis]
    if not 0 <= count <= size:
        raise ArgumentError(f"topk: k is {count}; axis {axis} of shape {x.shape} has {size}")
    both = _sorted(x, axis, largest, "topk")
    values, indices = (split(t, (count, size - count), axis=axis)[0] for t in both)
    return TopK(values, indices)
