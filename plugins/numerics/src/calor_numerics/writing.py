"""Writing slices, flat places and masked elements; each function returns a new tensor."""

from __future__ import annotations

from calor.errors import DTypeError, ShapeError
from calor.functions.arguments import one_axis
from calor.functions.indexing import Update, scatter_nd, take
from calor.functions.joining import concat
from calor.functions.manipulation import broadcast_arrays, broadcast_to, moveaxis, reshape
from calor.functions.operands import as_tensors, truth
from calor.functions.reductions import cumulative_sum
from calor.functions.searching import where
from calor.tensor.tensor import Operand, Tensor


def index_update(
    x: Operand,
    indices: Operand,
    values: Operand,
    /,
    *,
    axis: int = 0,
    update: Update = "assign",
    include_self: bool = True,
) -> Tensor:
    """Return x with slices along an axis replaced by, or combined with, values.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any dtype.
    indices : Tensor, ndarray or number
        Integers of shape (n,). Negative ones count from the end.
    values : Tensor, ndarray or number
        In the shape of ``x`` with size n along the axis, or broadcast to it; converted to the dtype
        of ``x``.
    axis : int, optional
        The axis of the slices. By default the first.
    update : {"assign", "add", "mul", "max", "min", "mean"}, optional
        How an element and its values are combined, as in `scatter_along_axis`.
    include_self : bool, optional
        Whether the element itself is one of what is combined. By default True.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    ArgumentError
        If ``update`` is another name.
    DTypeError
        If the indices are not integers, or the dtype has no such update.
    ShapeError
        If ``indices`` is no vector, or the values do not broadcast.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ElementIndexError
        When the result is computed, if an index is out of range.

    Examples
    --------
    >>> import calor
    >>> x, rows = calor.zeros((3, 2)), calor.asarray([0, 0])
    >>> calor.index_update(x, rows, calor.ones((2, 2)), update="add").tolist()
    [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    """
    x, places, given = as_tensors(x, indices, values)
    along = one_axis(axis, x.shape, "index_update")
    if places.ndim > 1:
        raise ShapeError(f"index_update: indices of shape {places.shape} are no vector")
    places = reshape(places, (places.size, 1))
    shape = (*x.shape[:along], places.shape[0], *x.shape[along + 1 :])
    given = moveaxis(broadcast_to(given, shape), along, 0)
    made = scatter_nd(
        moveaxis(x, along, 0), places, given, update=update, include_self=include_self
    )
    return moveaxis(made, 0, along)


def put(x: Operand, indices: Operand, values: Operand, /, *, update: Update = "assign") -> Tensor:
    """Return x with elements at row-major places replaced by, or combined with, values.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    indices : Tensor, ndarray or number
        Integers of any shape, places in the flattened tensor. Negative ones count from the end.
    values : Tensor, ndarray or number
        As many as ``indices``, in row-major order, or broadcast to their shape; converted to the
        dtype of ``x``.
    update : {"assign", "add", "mul", "max", "min", "mean"}, optional
        How an element and its values are combined, as in `scatter_along_axis`.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    ArgumentError
        If ``update`` is another name.
    DTypeError
        If the indices are not integers, or the dtype has no such update.
    ShapeError
        If the values do not broadcast.
    ElementIndexError
        When the result is computed, if an index is out of range.

    Examples
    --------
    >>> import calor
    >>> calor.put(calor.zeros((2, 2)), calor.asarray([0, 3]), calor.asarray([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    x, places, given = as_tensors(x, indices, values)
    if given.size != places.size:
        given = broadcast_to(given, places.shape)
    made = scatter_nd(
        reshape(x, (x.size,)),
        reshape(places, (places.size, 1)),
        reshape(given, (places.size,)),
        update=update,
    )
    return reshape(made, x.shape)


def masked_scatter(x: Operand, mask: Operand, values: Operand, /) -> Tensor:
    """Return x with the elements where a mask holds replaced by values in order.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype. It broadcasts against ``mask``.
    mask : Tensor, ndarray or number
        Dtype bool.
    values : Tensor, ndarray or number
        At least as many elements as the mask has places, in row-major order; the dtype of ``x``.

    Returns
    -------
    Tensor
        The broadcast shape, the dtype of ``x``. The shape does not depend on the elements, so the
        call can be traced, unlike ``x[mask] = values``.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If ``values`` has another dtype than ``x``.
    ElementIndexError
        When the result is computed, if there are too few values.

    Examples
    --------
    >>> import calor
    >>> mask = calor.asarray([True, False, True])
    >>> calor.masked_scatter(calor.zeros(3), mask, calor.asarray([5.0, 6.0])).tolist()
    [5.0, 0.0, 6.0]
    """
    x, mask, given = as_tensors(x, mask, values)
    if given.dtype is not x.dtype:
        raise DTypeError(
            f"masked_scatter: values are {given.dtype.name}, x is {x.dtype.name}; cast the values"
        )
    x, held = broadcast_arrays(x, truth(mask))
    if not x.size:
        return x
    flags = reshape(held, (x.size,))
    # The n-th place reads the n-th value; element 0 is there for the places that read none.
    line = concat((reshape(x, (x.size,))[:1], reshape(given, (given.size,))))
    places = where(flags, cumulative_sum(flags.astype("int64")), 0)
    found = reshape(take(line, places, axis=0), x.shape)
    return where(held, found, x)
