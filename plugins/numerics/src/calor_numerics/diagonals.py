"""Diagonals: taken out, put in, and the indices of triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor import dtypes
from calor.errors import ShapeError
from calor.functions.arguments import integer, one_axis
from calor.functions.creation import asarray, zeros
from calor.functions.indexing import scatter_nd, take
from calor.functions.joining import stack
from calor.functions.manipulation import moveaxis, reshape
from calor.functions.operands import as_tensor
from calor.functions.ranges import arange
from calor.tensor.tensor import Operand, Tensor


def _axes(axis1: int, axis2: int, shape: tuple[int, ...], what: str) -> tuple[int, int]:
    first, second = one_axis(axis1, shape, what), one_axis(axis2, shape, what)
    if first == second:
        raise ShapeError(f"{what}: axis {axis1} and axis {axis2} are the same axis of {shape}")
    return first, second


def _places(rows: int, cols: int, offset: int, device: Any) -> Tensor:
    """Return the row-major places of a diagonal of a matrix."""
    length = max(0, min(rows, cols - offset) if offset >= 0 else min(rows + offset, cols))
    start = offset if offset >= 0 else -offset * cols
    return arange(length, dtype="int64", device=device) * (cols + 1) + (start if length else 0)


def diagonal(
    x: Operand, /, *, offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Tensor:  # numpydoc ignore=RS01
    """Return a diagonal over two axes as the last axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least two axes, any dtype.
    offset : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.
    axis1 : int, optional
        The axis of the rows. By default the first.
    axis2 : int, optional
        The axis of the columns. By default the second.

    Returns
    -------
    Tensor
        The other axes of ``x``, then the diagonal; the dtype of ``x``. `calor.linalg.diagonal`
        goes over the last two axes.

    Raises
    ------
    AxisError
        If an axis does not fit the shape of ``x``.
    ShapeError
        If both axes are the same.

    Examples
    --------
    >>> import calor
    >>> calor.diagonal(calor.asarray([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    x = as_tensor(x)
    first, second = _axes(axis1, axis2, x.shape, "diagonal")
    last = moveaxis(x, (first, second), (-2, -1))
    rows, cols = last.shape[-2:]
    places = _places(rows, cols, integer(offset, "diagonal: offset"), x.device)
    return take(reshape(last, (*last.shape[:-2], rows * cols)), places, axis=-1)


def diagonal_scatter(
    x: Operand, values: Operand, /, *, offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Tensor:
    """Return a tensor with a diagonal over two axes replaced.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least two axes, any dtype.
    values : Tensor, ndarray or number
        Broadcast to the shape that `diagonal` returns, and converted to the dtype of ``x``.
    offset : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.
    axis1 : int, optional
        The axis of the rows. By default the first.
    axis2 : int, optional
        The axis of the columns. By default the second.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    AxisError
        If an axis does not fit the shape of ``x``.
    ShapeError
        If both axes are the same, or the values do not broadcast.
    DTypeError
        If an operand is no tensor, array or number.
    TypeError
        If a count or an index is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.diagonal_scatter(calor.zeros((2, 2)), calor.asarray([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    x = as_tensor(x)
    first, second = _axes(axis1, axis2, x.shape, "diagonal_scatter")
    front = moveaxis(x, (first, second), (0, 1))
    rows, cols = front.shape[:2]
    places = _places(rows, cols, integer(offset, "diagonal_scatter: offset"), x.device)
    flat = reshape(front, (rows * cols, *front.shape[2:]))
    given = as_tensor(values, x)
    if given.ndim == x.ndim - 1:
        given = moveaxis(given, -1, 0)
    elif given.ndim:
        # Only the diagonal or some of the axes before it: the missing ones are of size 1.
        lead = (1,) * (x.ndim - 1 - given.ndim)
        given = moveaxis(reshape(given, (*lead, *given.shape)), -1, 0)
    made = scatter_nd(flat, reshape(places, (-1, 1)), given)
    return moveaxis(reshape(made, front.shape), (0, 1), (first, second))


def diag_embed(x: Operand, /, *, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Return matrices whose diagonals are the vectors along the last axis, and 0 elsewhere.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (..., N), any dtype.
    offset : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.
    axis1 : int, optional
        The axis of the result for the rows. By default the last but one.
    axis2 : int, optional
        The axis of the result for the columns. By default the last.

    Returns
    -------
    Tensor
        The axes of ``x`` but the last, and two of size N + abs(offset); the dtype of ``x``.

    Raises
    ------
    AxisError
        If an axis does not fit the shape of the result.
    ShapeError
        If ``x`` is 0-d, or both axes are the same.
    DTypeError
        If an operand is no tensor, array or number.
    TypeError
        If a count or an index is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.diag_embed(calor.asarray([1, 2]), offset=1).tolist()
    [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    """
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError("diag_embed: x is 0-d; it needs at least one axis")
    by = integer(offset, "diag_embed: offset")
    size = x.shape[-1] + abs(by)
    first, second = _axes(axis1, axis2, (*x.shape[:-1], size, size), "diag_embed")
    places = _places(size, size, by, x.device)
    start = zeros((size * size, *x.shape[:-1]), dtype=x.dtype, device=x.device)
    made = scatter_nd(start, reshape(places, (-1, 1)), moveaxis(x, -1, 0))
    return moveaxis(reshape(made, (size, size, *x.shape[:-1])), (0, 1), (first, second))


def diag(x: Operand, /, *, k: int = 0) -> Tensor:
    """Return the matrix with a vector as diagonal, or the diagonal of a matrix.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N,) or (M, N), any dtype.
    k : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.

    Returns
    -------
    Tensor
        Shape (N + abs(k), N + abs(k)) for a vector, the length of the diagonal for a matrix; the
        dtype of ``x``.

    Raises
    ------
    ShapeError
        If ``x`` is neither a vector nor a matrix.
    DTypeError
        If an operand is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.diag(calor.asarray([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    x = as_tensor(x)
    if x.ndim == 1:
        return diag_embed(x, offset=k)
    if x.ndim != 2:
        raise ShapeError(f"diag: shape {x.shape} is neither a vector nor a matrix")
    return diagonal(x, offset=k)


def tri(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Return a matrix with ones at and below a diagonal, and zeros above it.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_cols : int, optional
        The number of columns. By default that of rows.
    k : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.
    dtype : DType or str, optional
        The dtype of the result. By default float32.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    Tensor
        Shape (n_rows, n_cols).

    Raises
    ------
    TypeError
        If a size or ``k`` is not a whole number.
    ShapeError
        If a size is negative.

    Examples
    --------
    >>> import calor
    >>> calor.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    rows, cols, by = _sizes(n_rows, n_cols, k, "tri")
    row = reshape(arange(rows, dtype="int64", device=device), (rows, 1))
    col = reshape(arange(cols, dtype="int64", device=device), (1, cols))
    return (col <= row + by).astype(dtypes.default_float() if dtype is None else dtype)


def _sizes(n_rows: Any, n_cols: Any, k: Any, what: str) -> tuple[int, int, int]:
    rows = integer(n_rows, f"{what}: n_rows")
    cols = rows if n_cols is None else integer(n_cols, f"{what}: n_cols")
    if rows < 0 or cols < 0:
        raise ShapeError(f"{what}: shape {(rows, cols)} has a negative size")
    return rows, cols, integer(k, f"{what}: k")


def _lines(lower: bool, rows: int, cols: int, k: int, device: Any) -> tuple[Tensor, Tensor]:
    """Return the indices of a triangle; the sizes say how many, so nothing is read."""
    line = np.arange(rows)
    ends = np.clip(line + k + 1 if lower else line + k, 0, cols)
    starts, ends = (np.zeros_like(ends), ends) if lower else (ends, np.full_like(ends, cols))
    counts = ends - starts
    row = np.repeat(line, counts)
    before = np.cumsum(counts) - counts
    col = np.arange(row.size) - np.repeat(before - starts, counts)
    made = [asarray(t.astype(np.int64), device=device) for t in (row, col)]
    return made[0], made[1]


def tril_indices(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, device: Any = None
) -> tuple[Tensor, Tensor]:  # numpydoc ignore=RS01
    """Return the indices of the elements at and below a diagonal of a matrix.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_cols : int, optional
        The number of columns. By default that of rows.
    k : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    tuple of Tensor
        The rows and the columns, int64, in row-major order: ``x[tril_indices(n)]`` are the
        elements.

    Raises
    ------
    TypeError
        If a size or ``k`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, cols, by = _sizes(n_rows, n_cols, k, "tril_indices")
    return _lines(True, rows, cols, by, device)


def triu_indices(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, device: Any = None
) -> tuple[Tensor, Tensor]:  # numpydoc ignore=RS01
    """Return the indices of the elements at and above a diagonal of a matrix.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_cols : int, optional
        The number of columns. By default that of rows.
    k : int, optional
        The diagonal: 0 (the default) the main one, positive above, negative below.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    tuple of Tensor
        The rows and the columns, int64, in row-major order: ``x[triu_indices(n)]`` are the
        elements.

    Raises
    ------
    TypeError
        If a size or ``k`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, cols, by = _sizes(n_rows, n_cols, k, "triu_indices")
    return _lines(False, rows, cols, by, device)


def diag_indices(n: int, ndim: int = 2, /, *, device: Any = None) -> tuple[Tensor, ...]:
    """Return the indices of the main diagonal of a square tensor.

    Parameters
    ----------
    n : int
        The size of each axis.
    ndim : int, optional
        The number of axes. By default 2.
    device : Device or str, optional
        Where the result is. By default the current device.

    Returns
    -------
    tuple of Tensor
        The numbers from 0 to n − 1, int64, once for each axis.

    Raises
    ------
    TypeError
        If a number is not whole.

    Examples
    --------
    >>> import calor
    >>> [t.tolist() for t in calor.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    line = arange(integer(n, "diag_indices: n"), dtype="int64", device=device)
    return (line,) * integer(ndim, "diag_indices: ndim")


def fill_diagonal(x: Operand, values: Operand, /) -> Tensor:
    """Return a tensor with its main diagonal replaced.

    Parameters
    ----------
    x : Tensor, ndarray or number
        A matrix, or more axes of one size.
    values : Tensor, ndarray or number
        Broadcast to the diagonal, and converted to the dtype of ``x``.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    ShapeError
        If ``x`` has fewer than two axes, or more of different sizes, or the values do not
        broadcast.
    DTypeError
        If an operand is no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.fill_diagonal(calor.zeros((2, 2)), 5.0).tolist()
    [[5.0, 0.0], [0.0, 5.0]]
    """
    x = as_tensor(x)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(f"fill_diagonal: shape {x.shape}; give a matrix or axes of one size")
    line = arange(min(x.shape), dtype="int64", device=x.device)
    return scatter_nd(x, stack((line,) * x.ndim, axis=1), values)
