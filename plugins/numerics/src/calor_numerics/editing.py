"""Elements and slices put in, taken out and chosen among several tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calor import dtypes
from calor.errors import ArgumentError, DTypeError, ElementIndexError, ShapeError
from calor.functions.arguments import integer, one_axis
from calor.functions.creation import asarray
from calor.functions.indexing import take, take_along_axis
from calor.functions.joining import concat, pad, stack
from calor.functions.manipulation import (
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    moveaxis,
    reshape,
    squeeze,
)
from calor.functions.operands import as_tensor, as_tensors, placed, together, truth
from calor.functions.ranges import arange
from calor.functions.reductions import sum as total
from calor.functions.searching import where
from calor.tensor.tensor import Operand, Tensor
from calor_numerics.host_values import host_values


def _known_places(places: Any, size: int, what: str, end: bool) -> np.ndarray[Any, Any]:
    """Return indices as non-negative numbers of the host; they decide the shape of a result."""
    if isinstance(places, slice):
        return np.arange(size)[places]
    if isinstance(places, list | tuple) and not len(places):
        return np.empty(0, np.int64)
    known = isinstance(places, Tensor)
    given = places.numpy() if known else host_values(places, f"{what}: indices")
    if given.dtype == np.bool_:
        if given.ndim and given.shape != (size,):
            raise ShapeError(f"{what}: a mask of shape {given.shape} is not of {size} elements")
        return np.flatnonzero(given)
    if given.size and given.dtype.kind not in "iu":
        raise DTypeError(f"{what}: indices are {given.dtype}; they must be integers")
    line = given.reshape(-1).astype(np.int64)
    most = size if end else size - 1
    if line.size and (line.min() < -size or line.max() > most):
        wrong = int(line[(line < -size) | (line > most)][0])
        raise ElementIndexError(f"{what}: index {wrong} is out of range for {size} elements")
    return np.where(line < 0, line + size, line)


def delete(x: Operand, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """Return the tensor without elements, or slices along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    indices : int, slice, sequence of int or Tensor
        What is left out. Negative ones count from the end. A tensor is read, since the shape
        depends on it.
    axis : int, optional
        The axis of the slices. By default ``x`` is flattened.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    ElementIndexError
        If an index is out of range.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If the indices are not integers.
    ShapeError
        If a mask or a list of indices has a wrong shape.

    Examples
    --------
    >>> import calor
    >>> calor.delete(calor.asarray([5, 6, 7]), 1).tolist()
    [5, 7]
    """
    x = as_tensor(x)
    line = reshape(x, (x.size,)) if axis is None else x
    along = 0 if axis is None else one_axis(axis, x.shape, "delete")
    size = line.shape[along]
    gone = _known_places(indices, size, "delete", False)
    left = np.setdiff1d(np.arange(size), gone)
    return take(line, asarray(left.astype(np.int64), device=x.device), axis=along)


def insert(x: Operand, indices: Any, values: Operand, /, *, axis: int | None = None) -> Tensor:
    """Return the tensor with values put before elements, or slices along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    indices : int, slice, sequence of int or Tensor
        Before which elements, as they are counted before anything is put in. Negative ones count
        from the end, the size itself is the end. A tensor is read.
    values : Tensor, ndarray or number
        Broadcast to one slice for each index, or, for a number as index, the slices that are put
        there. Converted to the dtype of ``x``.
    axis : int, optional
        The axis of the slices. By default ``x`` is flattened.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    ElementIndexError
        If an index is out of range.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If the values do not broadcast.
    DTypeError
        If the indices are not integers.

    Examples
    --------
    >>> import calor
    >>> calor.insert(calor.asarray([5, 6, 7]), [0, 2], calor.asarray([1, 2])).tolist()
    [1, 5, 6, 2, 7]
    """
    x = as_tensor(x)
    line = reshape(x, (x.size,)) if axis is None else x
    along = 0 if axis is None else one_axis(axis, x.shape, "insert")
    front = moveaxis(line, along, 0)
    size, rest = front.shape[0], front.shape[1:]
    given = as_tensor(values, x).astype(x.dtype)
    places = _known_places(indices, size, "insert", True)
    if np.ndim(indices) == 0 and not isinstance(indices, slice):
        # One place takes as many slices as the values have along their first axis.
        new = reshape(given, (1,) * (line.ndim - given.ndim) + given.shape)
        new = broadcast_to(new, (new.shape[0], *rest))
        places = np.repeat(places, new.shape[0])
    else:
        shape = (*line.shape[:along], places.size, *line.shape[along + 1 :])
        new = moveaxis(broadcast_to(given, shape), along, 0)
    order = np.argsort(places, kind="stable")
    into = np.empty(places.size, np.int64)
    into[order] = places[order] + np.arange(places.size)
    source = np.empty(size + places.size, np.int64)
    old = np.ones(source.size, bool)
    old[into] = False
    source[old] = np.arange(size)
    source[into] = size + np.arange(places.size)
    joined = concat((front, new), axis=0)
    made = take(joined, asarray(source, device=x.device), axis=0)
    return moveaxis(made, 0, along)


def choose(indices: Operand, choices: Sequence[Operand] | Tensor, /) -> Tensor:
    """Return for each element that of the tensor with its number.

    Parameters
    ----------
    indices : Tensor, ndarray or number
        Integers, the numbers of tensors. Negative ones count from the end.
    choices : sequence of Tensor, ndarray or number
        The tensors. All operands broadcast against each other.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype of the choices.

    Raises
    ------
    ArgumentError
        If there are no choices.
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the dtypes of the choices have no common one.
    ElementIndexError
        When the result is computed, if a number is out of range.

    Examples
    --------
    >>> import calor
    >>> calor.choose(calor.asarray([1, 0]), (calor.asarray([5, 6]), 9)).tolist()
    [9, 6]
    """
    if not len(choices):
        raise ArgumentError("choose: give at least one tensor")
    which, *given = as_tensors(indices, *choices)
    which, *parts = broadcast_arrays(which, *together(given, "choose"))
    found = take_along_axis(stack(parts), expand_dims(which, axis=0), axis=0)
    return squeeze(found, axis=0)


def select(
    conditions: Sequence[Operand], choices: Sequence[Operand], /, default: Operand = 0
) -> Tensor:
    """Return for each element that of the first tensor whose condition holds.

    Parameters
    ----------
    conditions : sequence of Tensor, ndarray or number
        Dtype bool.
    choices : sequence of Tensor, ndarray or number
        One tensor for each condition. All operands broadcast against each other.
    default : Tensor, ndarray or number, optional
        The elements where no condition holds. By default 0.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype of the choices and ``default``.

    Raises
    ------
    ArgumentError
        If there are no conditions, or another number of choices.
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the dtypes of the choices have no common one.

    Examples
    --------
    >>> import calor
    >>> x = calor.arange(4)
    >>> calor.select((x < 1, x < 3), (x, x * 10), 7).tolist()
    [0, 10, 20, 7]
    """
    if not conditions or len(conditions) != len(choices):
        raise ArgumentError(f"select: {len(conditions)} conditions and {len(choices)} choices")
    given = placed(*conditions, *choices)
    count, made = len(conditions), default
    for condition, choice in zip(given[count - 1 :: -1], given[: count - 1 : -1], strict=True):
        made = where(condition, choice, made)
    return as_tensor(made)


def ix_(*arrays: Operand) -> tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Return vectors as indices of all combinations of their elements.

    Parameters
    ----------
    *arrays : Tensor, ndarray or number
        Vectors of integers, one for each axis to index; bool ones stand for where they hold.

    Returns
    -------
    tuple of Tensor
        Each vector along its own axis: ``x[calor.ix_(rows, columns)]`` is the part of ``x`` with
        these rows and columns.

    Raises
    ------
    ShapeError
        If an operand is no vector.

    Examples
    --------
    >>> import calor
    >>> x = calor.asarray([[1, 2, 3], [4, 5, 6]])
    >>> x[calor.ix_(calor.asarray([1, 0]), calor.asarray([0, 2]))].tolist()
    [[4, 6], [1, 3]]
    """
    made = []
    for i, line in enumerate(as_tensors(*arrays)):
        if line.ndim != 1:
            raise ShapeError(f"ix_: shape {line.shape} is no vector")
        if line.dtype is dtypes.bool_:
            line = asarray(np.flatnonzero(line.numpy()).astype(np.int64), device=line.device)
        shape = tuple(line.size if a == i else 1 for a in range(len(arrays)))
        made.append(reshape(line, shape))
    return tuple(made)


def block(arrays: Any, /) -> Tensor:
    """Return nested lists of tensors joined: the innermost along the last axis, and so outwards.

    Parameters
    ----------
    arrays : Tensor or nested list of Tensor
        Lists of one depth.

    Returns
    -------
    Tensor
        The common dtype; at least as many axes as the lists are deep.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or the lists are of different depths.
    ArgumentError
        If a list is empty.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> one = calor.ones((1, 2), dtype="int64")
    >>> calor.block([[one, one * 2], [calor.zeros((1, 4), dtype="int64")]]).tolist()
    [[1, 1, 2, 2], [0, 0, 0, 0]]
    """
    depth = _depth(arrays)
    tensors = as_tensors(*_flat(arrays))
    ndim = max([depth, *(t.ndim for t in tensors)])
    return _joined(arrays, depth, ndim, iter(tensors))


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ArgumentError("block: a list is empty")
    depths = {_depth(part) for part in arrays}
    if len(depths) > 1:
        raise ShapeError("block: the lists are of different depths")
    return depths.pop() + 1


def _flat(arrays: Any) -> list[Any]:
    if not isinstance(arrays, list):
        return [arrays]
    return [t for part in arrays for t in _flat(part)]


def _joined(arrays: Any, depth: int, ndim: int, tensors: Iterator[Tensor]) -> Tensor:
    if not depth:
        made = next(tensors)
        return reshape(made, (1,) * (ndim - made.ndim) + made.shape)
    return concat([_joined(part, depth - 1, ndim, tensors) for part in arrays], axis=-depth)


def packbits(x: Operand, /, *, axis: int | None = None) -> Tensor:
    """Return booleans as bits of bytes, the first as the highest bit.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Elements that are not 0 are set bits.
    axis : int, optional
        The axis to pack along. By default ``x`` is flattened.

    Returns
    -------
    Tensor
        Dtype uint8; an eighth of the size along the axis, rounded up, the rest of bits being 0.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.packbits(calor.asarray([True, False, True])).tolist()
    [160]
    """
    x = as_tensor(x)
    line = reshape(x, (x.size,)) if axis is None else x
    along = 0 if axis is None else one_axis(axis, x.shape, "packbits")
    last = moveaxis(as_tensor(truth(line)).astype(dtypes.uint8), along, -1)
    count = -(-last.shape[-1] // 8)
    widths = [(0, 0)] * (last.ndim - 1) + [(0, count * 8 - last.shape[-1])]
    bytes_of = reshape(pad(last, widths), (*last.shape[:-1], count, 8))
    shifts = arange(7, -1, -1, dtype="uint8", device=x.device)
    packed = total((bytes_of << shifts).astype(dtypes.int64), axis=-1).astype(dtypes.uint8)
    return moveaxis(packed, -1, along)


def unpackbits(x: Operand, /, *, axis: int | None = None, count: int | None = None) -> Tensor:
    """Return the bits of bytes, the highest first.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Dtype uint8.
    axis : int, optional
        The axis to unpack along. By default ``x`` is flattened.
    count : int, optional
        How many bits are returned along the axis, at least 0. By default all.

    Returns
    -------
    Tensor
        Dtype uint8, 0 or 1.

    Raises
    ------
    DTypeError
        If ``x`` is not uint8.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ArgumentError
        If ``count`` is negative.
    TypeError
        If ``count`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.unpackbits(calor.asarray([160], dtype="uint8"), count=3).tolist()
    [1, 0, 1]
    """
    x = as_tensor(x)
    if x.dtype is not dtypes.uint8:
        raise DTypeError(f"unpackbits needs uint8, not {x.dtype.name}")
    line = reshape(x, (x.size,)) if axis is None else x
    along = 0 if axis is None else one_axis(axis, x.shape, "unpackbits")
    last = expand_dims(moveaxis(line, along, -1), axis=-1)
    bits = (last >> arange(7, -1, -1, dtype="uint8", device=x.device)) & 1
    flat = reshape(bits, (*last.shape[:-2], last.shape[-2] * 8))
    if count is not None:
        number = integer(count, "unpackbits: count")
        if number < 0:
            raise ArgumentError(f"unpackbits: count is {number}; give at least 0")
        size = flat.shape[-1]
        flat = pad(flat, [(0, 0)] * (flat.ndim - 1) + [(0, max(number - size, 0))])[..., :number]
    return moveaxis(flat, -1, along)
