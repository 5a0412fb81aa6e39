"""Reading and writing at places that are held in tensors.

Indices are integers and may be negative, counting from the end. Writing returns a new tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from calor import dtypes
from calor.dtypes import DType, int64
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.arguments import one_axis
from calor.functions.creation import asarray
from calor.functions.operands import as_tensor, pair, select, stretched
from calor.ops import elementwise as e
from calor.ops import indexing as i
from calor.ops.sources import zeros_of
from calor.recording.recipes import broadcast_shapes
from calor.specs import spec
from calor.tensor.tensor import Operand, Tensor

Update = Literal["assign", "add", "mul", "max", "min", "mean"]
_UPDATES = (*i.UPDATES, "mean")


def _indices(indices: Any, x: Tensor, what: str) -> Tensor:
    made = asarray(indices, device=x.device) if isinstance(indices, list) else as_tensor(indices, x)
    if not made.dtype.is_integer:
        raise DTypeError(f"{what}: indices are {made.dtype.name}; they must be integers")
    return made


def take(x: Operand, indices: Operand, /, axis: int | None = None) -> Tensor:
    """Return the elements, or slices along an axis, at the given indices.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any dtype; at least one axis.
    indices : Tensor, ndarray or number
        Integers of any shape; a list is accepted too. Negative ones count from the end.
    axis : int, optional
        The axis to index. It may be left out if ``x`` has one axis.

    Returns
    -------
    Tensor
        The dtype of ``x``; its shape, in which the axes of ``indices`` replace the axis.

    Raises
    ------
    DTypeError
        If the indices are not integers.
    ShapeError
        If ``axis`` is left out and ``x`` has not exactly one axis.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ElementIndexError
        When the result is computed, if an index is out of range.

    References
    ----------
    Python array API standard 2024.12, ``take``.

    Examples
    --------
    >>> import calor
    >>> calor.take(calor.asarray([5, 6, 7]), calor.asarray([2, 0])).tolist()
    [7, 5]
    """
    x = as_tensor(x)
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"take: shape {x.shape} has {x.ndim} axes; name one with axis=")
        axis = 0
    places = _indices(indices, x, "take")
    made: Tensor = i.gather(x, places, axis=one_axis(axis, x.shape, "take"))
    return made


def _along(x: Tensor, indices: Any, axis: int, what: str) -> tuple[Tensor, Tensor, int]:
    """Return x and the indices broadcast against each other on every axis but one."""
    places = _indices(indices, x, what)
    axis = one_axis(axis, x.shape, what)
    if places.ndim != x.ndim:
        raise ShapeError(
            f"{what}: indices of shape {places.shape} must have the {x.ndim} axes of {x.shape}"
        )
    rest = [t._value.spec.with_shape((*t.shape[:axis], 1, *t.shape[axis + 1:]))
            for t in (x, places)]  # fmt: skip
    shape = broadcast_shapes(what, rest)
    x, places = (
        stretched(t, (*shape[:axis], t.shape[axis], *shape[axis + 1 :])) for t in (x, places)
    )
    return x, places, axis


def take_along_axis(x: Operand, indices: Operand, /, axis: int = -1) -> Tensor:
    """Return the element at each index along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any dtype.
    indices : Tensor, ndarray or number
        Integers with as many axes as ``x``. Axes other than ``axis`` broadcast against those of
        ``x``. Negative indices count from the end.
    axis : int, optional
        The axis to index. By default the last.

    Returns
    -------
    Tensor
        The dtype of ``x``; the size of ``indices`` along the axis, the broadcast sizes on the
        others.

    Raises
    ------
    DTypeError
        If the indices are not integers.
    ShapeError
        If the numbers of axes differ, or other axes do not broadcast.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ElementIndexError
        When the result is computed, if an index is out of range.

    References
    ----------
    Python array API standard 2024.12, ``take_along_axis``.

    Examples
    --------
    >>> import calor
    >>> x = calor.asarray([[3, 1], [2, 4]])
    >>> calor.take_along_axis(x, calor.argsort(x, axis=1), axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    x, places, axis = _along(as_tensor(x), indices, axis, "take_along_axis")
    made: Tensor = i.take_along(x, places, axis=axis)
    return made


def _check(update: str, what: str) -> None:
    if update not in _UPDATES:
        raise ArgumentError(f"{what}: update {update!r} is none of {', '.join(_UPDATES)}")


def _least(kind: DType) -> Any:
    if kind is dtypes.bool_:
        return False
    return -float("inf") if kind.is_inexact else int(np.iinfo(kind.numpy).min)


def _most(kind: DType) -> Any:
    if kind is dtypes.bool_:
        return True
    return float("inf") if kind.is_inexact else int(np.iinfo(kind.numpy).max)


def _write(
    row: Callable[..., Any],
    x: Tensor,
    places: Tensor,
    updates: Tensor,
    update: str,
    include_self: bool,
    what: str,
) -> Tensor:
    """Record a scatter, from what the rows have: means, and elements that do not count."""
    if update == "assign" or (include_self and update != "mean"):
        made: Tensor = row(x, places, updates, update=update)
        return made
    if x.dtype is dtypes.bool_ and update not in ("max", "min"):
        raise DTypeError(f"{what}: bool has no {update!r}; cast it first")
    one = pair(e.add, zeros_of(spec((), int64), x.device), 1)
    start = zeros_of(spec(x.shape, int64), x.device)
    counts = row(start, places, stretched(one, updates.shape), update="add")
    kind = x.dtype
    if update == "mean":
        # Half types are added up in float32, and their result is rounded once.
        wide = dtypes.float32 if kind.is_inexact and kind.itemsize < 4 else kind
        x, updates = (t if t.dtype is wide else e.cast(t, dtype=wide) for t in (x, updates))
    if not include_self:
        neutral = {"add": 0, "mean": 0, "mul": 1}
        value = neutral[update] if update in neutral else (
            _least(kind) if update == "max" else _most(kind)
        )  # fmt: skip
        x = select(pair(e.greater, counts, 0), value, x)
    if update != "mean":
        made = row(x, places, updates, update=update)
        return made  # noqa: RET504 - mypy knows the row's result as Any
    parts = pair(e.add, counts, 1) if include_self else pair(e.maximum, counts, 1)
    total = row(x, places, updates, update="add")
    made = pair(e.floor_divide if kind.is_integer else e.div, total, e.cast(parts, dtype=x.dtype))
    return made if made.dtype is kind else e.cast(made, dtype=kind)


def _values(values: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    made = as_tensor(values, x)
    return stretched(made if made.dtype is x.dtype else e.cast(made, dtype=x.dtype), shape)


def scatter_along_axis(
    x: Operand,
    indices: Operand,
    values: Operand,
    /,
    axis: int = -1,
    *,
    update: Update = "assign",
    include_self: bool = True,
) -> Tensor:
    """Return x with the element at each index along an axis replaced by, or combined with, a value.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any dtype.
    indices : Tensor, ndarray or number
        Integers with as many axes as ``x``. Axes other than ``axis`` broadcast against those of
        ``x``. Negative indices count from the end.
    values : Tensor, ndarray or number
        Broadcast to the shape of ``indices`` and converted to the dtype of ``x``.
    axis : int, optional
        The axis to index. By default the last.
    update : {"assign", "add", "mul", "max", "min", "mean"}, optional
        How an element and its values are combined. By default "assign": the value replaces the
        element, and the last of several wins. A mean of integers is rounded down.
    include_self : bool, optional
        Whether the element itself is one of what is combined. By default True; if False, an
        element that no value belongs to is left as it is.

    Returns
    -------
    Tensor
        A new tensor with the dtype of ``x``, and its shape broadcast as above.

    Raises
    ------
    ArgumentError
        If ``update`` is another name.
    DTypeError
        If the indices are not integers, or the dtype has no such update: bool no "add", "mul" or
        "mean", complex no "max" or "min".
    ShapeError
        If the shapes do not broadcast.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ElementIndexError
        When the result is computed, if an index is out of range.

    Examples
    --------
    >>> import calor
    >>> places = calor.asarray([0, 0, 2])
    >>> calor.scatter_along_axis(calor.zeros(3), places, 1.0, update="add").tolist()
    [2.0, 0.0, 1.0]
    """
    _check(update, "scatter_along_axis")
    x, places, axis = _along(as_tensor(x), indices, axis, "scatter_along_axis")
    updates = _values(values, x, places.shape)
    row = partial(i.scatter_along, axis=axis)
    return _write(row, x, places, updates, update, bool(include_self), "scatter_along_axis")


def gather_nd(x: Operand, indices: Operand, /) -> Tensor:
    r"""Return the slices of x at index vectors for its first axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any dtype, with at least k axes.
    indices : Tensor, ndarray or number
        Integers of shape (\*B, k); each vector of k indices selects ``x[i1, …, ik]``. Negative
        indices count from the end.

    Returns
    -------
    Tensor
        Shape (\*B, \*x.shape[k:]), the dtype of ``x``.

    Raises
    ------
    DTypeError
        If the indices are not integers.
    ShapeError
        If ``indices`` has no axis, or k is larger than the number of axes of ``x``.
    ElementIndexError
        When the result is computed, if an index is out of range.

    Examples
    --------
    >>> import calor
    >>> calor.gather_nd(calor.asarray([[1, 2], [3, 4]]), calor.asarray([[0, 1], [1, 0]])).tolist()
    [2, 3]
    """
    x = as_tensor(x)
    made: Tensor = i.gather_nd(x, _indices(indices, x, "gather_nd"))
    return made


def scatter_nd(
    x: Operand,
    indices: Operand,
    values: Operand,
    /,
    *,
    update: Update = "assign",
    include_self: bool = True,
) -> Tensor:
    r"""Return x with its slices at index vectors replaced by, or combined with, values.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any dtype, with at least k axes.
    indices : Tensor, ndarray or number
        Integers of shape (\*B, k); each vector of k indices names the slice ``x[i1, …, ik]``.
        Negative indices count from the end.
    values : Tensor, ndarray or number
        Broadcast to (\*B, \*x.shape[k:]) and converted to the dtype of ``x``.
    update : {"assign", "add", "mul", "max", "min", "mean"}, optional
        How elements and values are combined, as in `scatter_along_axis`.
    include_self : bool, optional
        Whether an element itself is one of what is combined. By default True.

    Returns
    -------
    Tensor
        A new tensor with the shape and dtype of ``x``.

    Raises
    ------
    ArgumentError
        If ``update`` is another name.
    DTypeError
        If the indices are not integers, or the dtype has no such update.
    ShapeError
        If the indices do not fit the axes of ``x``, or the values do not broadcast.
    ElementIndexError
        When the result is computed, if an index is out of range.

    Examples
    --------
    >>> import calor
    >>> calor.scatter_nd(calor.zeros(3), calor.asarray([[1]]), calor.asarray([7.0])).tolist()
    [0.0, 7.0, 0.0]
    """
    _check(update, "scatter_nd")
    x = as_tensor(x)
    places = _indices(indices, x, "scatter_nd")
    if not places.ndim or places.shape[-1] > x.ndim:
        raise ShapeError(
            f"scatter_nd: the last axis of indices {places.shape} must index at most the {x.ndim} "
            f"axes of x"
        )
    updates = _values(values, x, places.shape[:-1] + x.shape[places.shape[-1] :])
    return _write(i.scatter_nd, x, places, updates, update, bool(include_self), "scatter_nd")
