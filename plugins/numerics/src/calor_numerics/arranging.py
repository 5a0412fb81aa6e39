"""Joining, splitting and turning arrays, as NumPy names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer, one_axis
from calor.functions.joining import concat, pad, split
from calor.functions.manipulation import flip, reshape, swapaxes
from calor.functions.operands import as_tensor, as_tensors, together
from calor.tensor.tensor import Operand, Tensor


def atleast_1d(x: Operand, /) -> Tensor:
    """Return the tensor with at least one axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        A 0-d tensor becomes one of shape (1,); others keep their shape.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.atleast_1d(calor.asarray(3)).shape
    (1,)
    """
    x = as_tensor(x)
    return x if x.ndim else reshape(x, (1,))


def atleast_2d(x: Operand, /) -> Tensor:
    """Return the tensor with at least two axes, a vector as one row.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        Shape (1, 1) for a 0-d tensor, (1, N) for a vector; others keep their shape.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.atleast_2d(calor.arange(3)).shape
    (1, 3)
    """
    x = as_tensor(x)
    return x if x.ndim > 1 else reshape(x, (1, x.size))


def atleast_3d(x: Operand, /) -> Tensor:
    """Return the tensor with at least three axes, a matrix with a last axis of size 1.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.

    Returns
    -------
    Tensor
        Shape (1, 1, 1) for a 0-d tensor, (1, N, 1) for a vector, (M, N, 1) for a matrix; others
        keep their shape.

    Raises
    ------
    DTypeError
        If ``x`` is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.atleast_3d(calor.arange(3)).shape
    (1, 3, 1)
    """
    x = as_tensor(x)
    if x.ndim > 2:
        return x
    return reshape(x, (*x.shape, 1) if x.ndim == 2 else (1, x.size, 1))


def _raised(arrays: Sequence[Operand], least: Callable[[Operand], Tensor]) -> list[Tensor]:
    return [least(t) for t in as_tensors(*arrays)]


def hstack(arrays: Sequence[Operand], /) -> Tensor:
    """Join tensors along the second axis, vectors along their only one.

    Parameters
    ----------
    arrays : sequence of Tensor, ndarray or number
        Their shapes agree except along the axis; 0-d ones count as vectors of one element.

    Returns
    -------
    Tensor
        The common dtype.

    Raises
    ------
    ShapeError
        If there are no tensors, or their shapes do not fit.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.hstack([calor.asarray([1, 2]), calor.asarray([3])]).tolist()
    [1, 2, 3]
    """
    parts = _raised(arrays, atleast_1d)
    return concat(parts, axis=0 if parts and parts[0].ndim == 1 else 1)


def vstack(arrays: Sequence[Operand], /) -> Tensor:
    """Join tensors along the first axis, vectors as rows.

    Parameters
    ----------
    arrays : sequence of Tensor, ndarray or number
        Their shapes agree except along the first axis.

    Returns
    -------
    Tensor
        At least two axes, the common dtype.

    Raises
    ------
    ShapeError
        If there are no tensors, or their shapes do not fit.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.vstack([calor.asarray([1, 2]), calor.asarray([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    return concat(_raised(arrays, atleast_2d), axis=0)


def dstack(arrays: Sequence[Operand], /) -> Tensor:
    """Join tensors along the third axis.

    Parameters
    ----------
    arrays : sequence of Tensor, ndarray or number
        Their shapes agree except along the third axis; smaller ones as by `atleast_3d`.

    Returns
    -------
    Tensor
        At least three axes, the common dtype.

    Raises
    ------
    ShapeError
        If there are no tensors, or their shapes do not fit.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.dstack([calor.asarray([1, 2]), calor.asarray([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return concat(_raised(arrays, atleast_3d), axis=2)


def column_stack(arrays: Sequence[Operand], /) -> Tensor:
    """Join tensors along the second axis, vectors as columns.

    Parameters
    ----------
    arrays : sequence of Tensor, ndarray or number
        Vectors and matrices with the same number of rows.

    Returns
    -------
    Tensor
        At least two axes, the common dtype.

    Raises
    ------
    ShapeError
        If there are no tensors, or their shapes do not fit.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.column_stack([calor.asarray([1, 2]), calor.asarray([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    parts = [t if t.ndim > 1 else reshape(t, (t.size, 1)) for t in map(as_tensor, arrays)]
    return concat(parts, axis=1)


def array_split(
    x: Operand, parts: int | Sequence[int], /, *, axis: int = 0
) -> tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Split a tensor into so many parts, or at the given indices.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any dtype.
    parts : int or sequence of int
        The number of parts, whose sizes differ by at most one, the larger first; or the indices
        along the axis where a part begins.
    axis : int, optional
        The axis to split. By default the first.

    Returns
    -------
    tuple of Tensor
        The parts in order. `calor.split` takes the sizes of the parts instead.

    Raises
    ------
    ArgumentError
        If the number of parts is below 1.
    AxisError
        If ``axis`` does not fit the shape of ``x``.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.array_split(calor.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return _split(as_tensor(x), parts, axis, "array_split")


def _split(x: Tensor, parts: Any, axis: int, what: str) -> tuple[Tensor, ...]:
    axis = one_axis(axis, x.shape, what)
    size = x.shape[axis]
    if isinstance(parts, Sequence):
        # As in NumPy: an index as a bound of a slice, so negative ones count from the end.
        bounds = [slice(integer(p, f"{what}: an index")).indices(size)[1] for p in parts]
        ends = [0, *bounds, size]
        pieces = pairwise(ends)
        lead = (slice(None),) * axis
        return tuple(x[(*lead, slice(a, max(a, b)))] for a, b in pieces)
    count = integer(parts, f"{what}: parts")
    if count < 1:
        raise ArgumentError(f"{what}: {count} parts; give at least 1")
    each, more = divmod(size, count)
    return split(x, [each + (i < more) for i in range(count)], axis=axis)


def _evenly(x: Any, parts: Any, axis: int, least: int, what: str) -> tuple[Tensor, ...]:
    x = as_tensor(x)
    if x.ndim < least:
        raise ShapeError(f"{what}: shape {x.shape} has fewer than {least} axes")
    if not isinstance(parts, Sequence):
        count = integer(parts, f"{what}: parts")
        if count < 1 or x.shape[axis] % count:
            raise ShapeError(
                f"{what}: {count} equal parts do not fit axis {axis} of shape {x.shape}; "
                f"array_split makes uneven ones"
            )
    return _split(x, parts, axis, what)


def hsplit(x: Operand, parts: int | Sequence[int], /) -> tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Split a tensor along the second axis, a vector along its only one.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any dtype.
    parts : int or sequence of int
        The number of equal parts, or the indices where a part begins.

    Returns
    -------
    tuple of Tensor
        The parts in order.

    Raises
    ------
    ShapeError
        If ``x`` is 0-d, or the parts would not be equal.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.hsplit(calor.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    x = as_tensor(x)
    return _evenly(x, parts, 0 if x.ndim == 1 else 1, 1, "hsplit")


def vsplit(x: Operand, parts: int | Sequence[int], /) -> tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Split a tensor along the first axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least two axes, any dtype.
    parts : int or sequence of int
        The number of equal parts, or the indices where a part begins.

    Returns
    -------
    tuple of Tensor
        The parts in order.

    Raises
    ------
    ShapeError
        If ``x`` has fewer than two axes, or the parts would not be equal.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.vsplit(calor.asarray([[1, 2], [3, 4]]), 2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _evenly(x, parts, 0, 2, "vsplit")


def dsplit(x: Operand, parts: int | Sequence[int], /) -> tuple[Tensor, ...]:  # numpydoc ignore=RS01
    """Split a tensor along the third axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least three axes, any dtype.
    parts : int or sequence of int
        The number of equal parts, or the indices where a part begins.

    Returns
    -------
    tuple of Tensor
        The parts in order.

    Raises
    ------
    ShapeError
        If ``x`` has fewer than three axes, or the parts would not be equal.

    Examples
    --------
    >>> import calor
    >>> [t.shape for t in calor.dsplit(calor.zeros((2, 2, 4)), 2)]
    [(2, 2, 2), (2, 2, 2)]
    """
    return _evenly(x, parts, 2, 3, "dsplit")


def fliplr(x: Operand, /) -> Tensor:
    """Return the tensor with the second axis reversed.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least two axes, any dtype.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    AxisError
        If ``x`` has fewer than two axes.

    Examples
    --------
    >>> import calor
    >>> calor.fliplr(calor.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 1], [4, 3]]
    """
    return flip(x, axis=1)


def flipud(x: Operand, /) -> Tensor:
    """Return the tensor with the first axis reversed.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any dtype.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    AxisError
        If ``x`` is 0-d.

    Examples
    --------
    >>> import calor
    >>> calor.flipud(calor.asarray([[1, 2], [3, 4]])).tolist()
    [[3, 4], [1, 2]]
    """
    return flip(x, axis=0)


def rot90(x: Operand, k: int = 1, /, *, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Return the tensor turned by quarters in the plane of two axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least two axes, any dtype.
    k : int, optional
        The number of quarters, from the first axis towards the second. By default 1.
    axes : tuple of two int, optional
        The axes of the plane. By default the first two.

    Returns
    -------
    Tensor
        The shape of ``x``, the two sizes exchanged for odd ``k``; the dtype of ``x``.

    Raises
    ------
    ShapeError
        If the axes are not two different ones.
    AxisError
        If an axis does not fit the shape of ``x``.
    DTypeError
        If an operand is no tensor, array or number.
    TypeError
        If a count or an index is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.rot90(calor.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    x = as_tensor(x)
    if len(axes) != 2:
        raise ShapeError(f"rot90: axes {axes} are {len(axes)}; give the two axes of a plane")
    first, second = (one_axis(a, x.shape, "rot90") for a in axes)
    if first == second:
        raise ShapeError(f"rot90: axes {axes} are the same axis of shape {x.shape}")
    turns = integer(k, "rot90: k") % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, axis=(first, second))
    if turns == 1:
        return swapaxes(flip(x, axis=second), first, second)
    return flip(swapaxes(x, first, second), axis=second)


def block_diag(*arrays: Operand) -> Tensor:
    """Return a matrix with matrices along its diagonal, and 0 elsewhere.

    Parameters
    ----------
    *arrays : Tensor, ndarray or number
        Matrices; a vector is one row, a number a matrix of one element.

    Returns
    -------
    Tensor
        As many rows and columns as all matrices have together; the common dtype.

    Raises
    ------
    ShapeError
        If a tensor has more than two axes.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.block_diag(calor.asarray([[1, 2]]), 3).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    parts = together([atleast_2d(t) for t in as_tensors(*arrays)], "block_diag")
    for t in parts:
        if t.ndim > 2:
            raise ShapeError(f"block_diag: shape {t.shape} has more than two axes")
    width = sum(t.shape[1] for t in parts)
    lines, before = [], 0
    for t in parts:
        after = width - before - t.shape[1]
        lines.append(pad(t, ((0, 0), (before, after))))
        before += t.shape[1]
    return concat(lines, axis=0)
