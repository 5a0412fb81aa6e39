"""Elements by their rank or frequency, and where they are."""

from __future__ import annotations

from typing import NamedTuple

from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer, one_axis
from calor.functions.creation import full
from calor.functions.elementwise import maximum
from calor.functions.indexing import take, take_along_axis
from calor.functions.joining import concat, split
from calor.functions.logic import isnan
from calor.functions.manipulation import reshape, squeeze
from calor.functions.operands import as_tensor
from calor.functions.ranges import arange
from calor.functions.reductions import any as any_of
from calor.functions.reductions import cumulative_max, cumulative_min
from calor.functions.reductions import sum as total
from calor.functions.searching import argmax, where
from calor.functions.sorting import argsort, sort
from calor.tensor.tensor import Operand, Tensor


class KthValue(NamedTuple):
    """The values and their indices along the axis."""

    values: Tensor
    indices: Tensor


class Mode(NamedTuple):
    """The most frequent values and the indices of their last occurrences along the axis."""

    values: Tensor
    indices: Tensor


def _line(x: Operand, axis: int | None, what: str) -> tuple[Tensor, int]:
    """Return x with an axis to search, which has elements; 0-d tensors have one of size 1."""
    x = as_tensor(x)
    if axis is None or not x.ndim:
        if axis not in (None, 0, -1):
            one_axis(axis, x.shape, what)
        x, axis = reshape(x, (x.size,)), 0
    axis = one_axis(axis, x.shape, what)
    if not x.shape[axis]:
        raise ShapeError(f"{what}: shape {x.shape} is empty along axis {axis}")
    return x, axis


def _result(made: Tensor, x: Operand, axis: int | None, keepdims: bool) -> Tensor:
    """Return a result that still has the axis in the shape that the caller wants."""
    given = as_tensor(x)
    if axis is None or not given.ndim:
        return reshape(made, (1,) * given.ndim if keepdims else ())
    return made if keepdims else squeeze(made, axis=axis)


def _missing(x: Tensor) -> Tensor:
    return isnan(x) if x.dtype.is_inexact else x != x


def _ramp(x: Tensor, axis: int) -> Tensor:
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return reshape(arange(x.shape[axis], dtype="int64", device=x.device), tuple(shape))


def kthvalue(
    x: Operand, k: int, /, *, axis: int = -1, keepdims: bool = False
) -> KthValue:  # numpydoc ignore=RS01
    """Return the k-th smallest element along an axis and its index.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Elements along the axis; a real dtype.
    k : int
        The rank, from 1 for the smallest to the size of the axis.
    axis : int, optional
        The axis to search. By default the last.
    keepdims : bool, optional
        Whether the axis stays in the result with size 1.

    Returns
    -------
    KthValue
        ``values``, in the dtype of ``x``, and ``indices``, int64. NaN is the largest.

    Raises
    ------
    ArgumentError
        If the axis has no k-th element.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If ``x`` is empty along the axis.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> found = calor.kthvalue(calor.asarray([4, 9, 7]), 2)
    >>> found.values.item(), found.indices.item()
    (7, 2)
    """
    line, along = _line(x, axis, "kthvalue")
    rank = integer(k, "kthvalue: k")
    if not 1 <= rank <= line.shape[along]:
        raise ArgumentError(
            f"kthvalue: k is {rank}; axis {axis} of shape {line.shape} has {line.shape[along]}"
        )
    places = take(argsort(line, axis=along), full((1,), rank - 1, dtype="int64",
                  device=line.device), axis=along)  # fmt: skip
    values = take_along_axis(line, places, axis=along)
    return KthValue(*(_result(t, x, axis, keepdims) for t in (values, places)))


def mode(x: Operand, /, *, axis: int = -1, keepdims: bool = False) -> Mode:  # numpydoc ignore=RS01
    """Return the most frequent element along an axis, the smallest of several.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Elements along the axis; any dtype except float8.
    axis : int, optional
        The axis to search. By default the last.
    keepdims : bool, optional
        Whether the axis stays in the result with size 1.

    Returns
    -------
    Mode
        ``values``, in the dtype of ``x``, and ``indices``, int64: where the value occurs last. Each
        NaN is distinct.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If ``x`` is empty along the axis.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> found = calor.mode(calor.asarray([4, 2, 4, 2, 2]))
    >>> found.values.item(), found.indices.item()
    (2, 4)
    """
    line, along = _line(x, axis, "mode")
    size = line.shape[along]
    order = argsort(line, axis=along)
    ordered = take_along_axis(line, order, axis=along)
    ramp = _ramp(line, along)
    if size > 1:
        before, after = (split(ordered, s, axis=along)[i]
                         for i, s in enumerate(((size - 1, 1), (1, size - 1))))  # fmt: skip
        first = before != after
        begin = split(first, (1, size - 2), axis=along)[0] if size > 1 else first
        changes = concat([begin | ~begin, first], axis=along)
        starts = cumulative_max(where(changes, ramp, 0), axis=along)
        longest = argmax(ramp - starts, axis=along, keepdims=True)
    else:
        longest = argmax(ordered, axis=along, keepdims=True)
    places = take_along_axis(order, longest, axis=along)
    values = take_along_axis(line, places, axis=along)
    return Mode(*(_result(t, x, axis, keepdims) for t in (values, places)))


def argmedian(x: Operand, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the median element, the lower of the middle two.

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
        Dtype int64. The index of the first NaN where there is one.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If there are no elements to search.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.argmedian(calor.asarray([4.0, 9.0, 7.0, 1.0])).item()
    0
    """
    line, along = _line(x, axis, "argmedian")
    middle = full((1,), (line.shape[along] - 1) // 2, dtype="int64", device=line.device)
    places = take(argsort(line, axis=along), middle, axis=along)
    if line.dtype.is_inexact:
        missing = _missing(line)
        first = argmax(missing.astype("uint8"), axis=along, keepdims=True)
        places = where(any_of(missing, axis=along, keepdims=True), first, places)
    return _result(places, x, axis, keepdims)


def nanargmedian(x: Operand, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the median element of those that are not NaN.

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
        Dtype int64: the lower of the middle two; the first element if all are NaN.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If there are no elements to search.
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.nanargmedian(calor.asarray([4.0, calor.nan, 7.0, 1.0])).item()
    0
    """
    line, along = _line(x, axis, "nanargmedian")
    count = total((~_missing(line)).astype("int64"), axis=along, keepdims=True)
    middle = maximum(count - 1, 0) // 2
    places = take_along_axis(argsort(line, axis=along), middle, axis=along)
    return _result(places, x, axis, keepdims)


def _running_place(x: Operand, axis: int | None, running: object, what: str) -> Tensor:
    given = as_tensor(x)
    line = given if given.ndim else reshape(given, (1,))
    if axis is None:
        if line.ndim != 1:
            raise ShapeError(f"{what}: shape {line.shape} has {line.ndim} axes; name one")
        axis = 0
    along = one_axis(axis, line.shape, what)
    extreme = running(line, axis=along)  # type: ignore[operator]
    here = (line == extreme) | _missing(line)
    places = where(here, _ramp(line, along), 0)
    return reshape(cumulative_max(places, axis=along), given.shape)


def cumulative_argmax(x: Operand, /, *, axis: int | None = None) -> Tensor:
    """Return the index of the largest element up to each element along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; a real dtype.
    axis : int, optional
        The axis to go along. It may be left out if ``x`` has one axis.

    Returns
    -------
    Tensor
        Dtype int64, in the shape of ``x``: the last of equal elements; after a NaN the last NaN.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If ``axis`` is left out and ``x`` has more than one.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.cumulative_argmax(calor.asarray([1, 3, 2, 3])).tolist()
    [0, 1, 1, 3]
    """
    return _running_place(x, axis, cumulative_max, "cumulative_argmax")


def cumulative_argmin(x: Operand, /, *, axis: int | None = None) -> Tensor:
    """Return the index of the smallest element up to each element along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; a real dtype.
    axis : int, optional
        The axis to go along. It may be left out if ``x`` has one axis.

    Returns
    -------
    Tensor
        Dtype int64, in the shape of ``x``: the last of equal elements; after a NaN the last NaN.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If ``axis`` is left out and ``x`` has more than one.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.cumulative_argmin(calor.asarray([3, 1, 2, 1])).tolist()
    [0, 1, 1, 3]
    """
    return _running_place(x, axis, cumulative_min, "cumulative_argmin")


def argpartition(x: Operand, kth: int, /, *, axis: int = -1) -> Tensor:
    """Return indices that put smaller elements before the k-th of a sorted tensor, larger after it.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8.
    kth : int
        The place in sorted order, from 0; negative ones count from the end.
    axis : int, optional
        The axis to go along. By default the last.

    Returns
    -------
    Tensor
        Dtype int64, in the shape of ``x``. All elements are in order, which is one such order.

    Raises
    ------
    ArgumentError
        If the axis has no such place.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If an operand is no tensor, array or number.
    TypeError
        If a count or an index is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.argpartition(calor.asarray([7, 5, 6]), 1).tolist()
    [1, 2, 0]
    """
    x = as_tensor(x)
    _place(x, kth, axis, "argpartition")
    return argsort(x, axis=axis)


def partition(x: Operand, kth: int, /, *, axis: int = -1) -> Tensor:
    """Return the tensor with smaller elements before the k-th in sorted order, larger after it.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; any dtype except float8.
    kth : int
        The place in sorted order, from 0; negative ones count from the end.
    axis : int, optional
        The axis to go along. By default the last.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. All elements are in order, which is one such order.

    Raises
    ------
    ArgumentError
        If the axis has no such place.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If an operand is no tensor, array or number.
    TypeError
        If a count or an index is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.partition(calor.asarray([7, 5, 6]), 1).tolist()
    [5, 6, 7]
    """
    x = as_tensor(x)
    _place(x, kth, axis, "partition")
    return sort(x, axis=axis)


def _place(x: Tensor, kth: int, axis: int, what: str) -> None:
    size = x.shape[one_axis(axis, x.shape, what)]
    if not -size <= integer(kth, f"{what}: kth") < size:
        raise ArgumentError(f"{what}: kth is {kth}; axis {axis} of shape {x.shape} has {size}")


def lexsort(keys: Operand, /, *, axis: int = -1) -> Tensor:
    """Return the indices that sort by several keys, the last of them first.

    Parameters
    ----------
    keys : Tensor, ndarray or number
        Shape (k, ...): k keys of one shape, any dtype except float8.
    axis : int, optional
        The axis of each key to sort along. By default the last.

    Returns
    -------
    Tensor
        Dtype int64, in the shape of a key.

    Raises
    ------
    ShapeError
        If there is no key, or a key is 0-d.
    AxisError
        If ``axis`` does not fit the shape of a key.
    DTypeError
        If an operand is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.lexsort(calor.asarray([[3, 1, 2], [0, 0, -1]])).tolist()
    [2, 1, 0]
    """
    keys = as_tensor(keys)
    if keys.ndim < 2 or not keys.shape[0]:
        raise ShapeError(f"lexsort: shape {keys.shape} has no keys; give (k, ...)")
    along = one_axis(axis, keys.shape[1:], "lexsort")
    order = argsort(keys[0], axis=along)
    for i in range(1, keys.shape[0]):
        given = take_along_axis(keys[i], order, axis=along)
        order = take_along_axis(order, argsort(given, axis=along), axis=along)
    return order
