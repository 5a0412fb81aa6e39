"""Products of vectors and of sets, and distances between points."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from calor import dtypes
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.arguments import integer
from calor.functions.complex_parts import conj
from calor.functions.creation import asarray
from calor.functions.elementwise import pow
from calor.functions.indexing import take
from calor.functions.joining import stack
from calor.functions.linear_algebra import matmul, tensordot
from calor.functions.manipulation import reshape
from calor.functions.operands import as_operands, as_tensor, together
from calor.functions.ranges import meshgrid
from calor.functions.reductions import max, sum
from calor.functions.searching import where
from calor.functions.signs import abs
from calor.functions.transcendental import sqrt
from calor.tensor.tensor import Operand, Tensor


def outer(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the products of each element of one tensor with each of another.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The rows; it is flattened.
    x2 : Tensor, ndarray or number
        The columns; it is flattened.

    Returns
    -------
    Tensor
        Shape (x1.size, x2.size), the common dtype.

    Raises
    ------
    DTypeError
        If the dtypes have no common one, or it is bool.

    Examples
    --------
    >>> import calor
    >>> calor.outer(calor.asarray([1, 2]), calor.asarray([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    x1, x2 = as_operands(x1, x2)
    return reshape(x1, (x1.size, 1)) * reshape(x2, (1, x2.size))


def inner(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the sums of products over the last axes of two tensors.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (..., K), or 0-d.
    x2 : Tensor, ndarray or number
        Shape (..., K), or 0-d. Nothing is conjugated.

    Returns
    -------
    Tensor
        The axes of ``x1`` but the last, then those of ``x2`` but the last; the product for a 0-d
        tensor.

    Raises
    ------
    ShapeError
        If the last axes differ.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.inner(calor.asarray([1, 2]), calor.asarray([3, 4])).item()
    11
    """
    x1, x2 = as_operands(x1, x2)
    if not x1.ndim or not x2.ndim:
        return x1 * x2
    return tensordot(x1, x2, axes=((-1,), (-1,)))


def dot(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the sums of products over the last axis of one tensor and the last but one of another.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (..., K), or 0-d.
    x2 : Tensor, ndarray or number
        Shape (..., K, N), (K,) or 0-d. Nothing is conjugated.

    Returns
    -------
    Tensor
        The axes of ``x1`` but the last, then those of ``x2`` but the last but one: the inner
        product of vectors, the product of matrices. `calor.matmul` treats further axes as a batch.

    Raises
    ------
    ShapeError
        If the sizes do not fit.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.dot(calor.asarray([1, 2]), calor.asarray([3, 4])).item()
    11
    """
    x1, x2 = as_operands(x1, x2)
    if not x1.ndim or not x2.ndim:
        return x1 * x2
    if x1.ndim <= 2 and x2.ndim <= 2:
        return matmul(x1, x2)
    return tensordot(x1, x2, axes=((-1,), (-min(x2.ndim, 2),)))


def kron(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the Kronecker product: a tensor in which each element of x1 is that times x2.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape.
    x2 : Tensor, ndarray or number
        Any shape. The tensor of fewer axes gets leading axes of size 1.

    Returns
    -------
    Tensor
        The products of the sizes along each axis; the common dtype.

    Raises
    ------
    DTypeError
        If the dtypes have no common one, or it is bool.

    Examples
    --------
    >>> import calor
    >>> calor.kron(calor.asarray([1, 10]), calor.asarray([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    x1, x2 = as_operands(x1, x2)
    ndim = x1.ndim if x1.ndim > x2.ndim else x2.ndim
    first = (1,) * (ndim - x1.ndim) + x1.shape
    second = (1,) * (ndim - x2.ndim) + x2.shape
    a = reshape(x1, tuple(n for size in first for n in (size, 1)))
    b = reshape(x2, tuple(n for size in second for n in (1, size)))
    return reshape(a * b, tuple(n * m for n, m in zip(first, second, strict=True)))


def cartesian_prod(*arrays: Operand) -> Tensor:
    """Return all combinations of one element of each vector.

    Parameters
    ----------
    *arrays : Tensor, ndarray or number
        Vectors; at least one.

    Returns
    -------
    Tensor
        A row for each combination, a column for each vector, the last varying fastest; the vector
        itself for one. The common dtype.

    Raises
    ------
    ArgumentError
        If there are no vectors.
    ShapeError
        If a tensor has more than one axis.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.cartesian_prod(calor.asarray([1, 2]), calor.asarray([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    if not arrays:
        raise ArgumentError("cartesian_prod: give at least one vector")
    parts = together(arrays, "cartesian_prod")
    if len(parts) == 1:
        return reshape(parts[0], (parts[0].size,))
    grids = meshgrid(*parts, indexing="ij")
    return stack([reshape(t, (t.size,)) for t in grids], axis=-1)


def combinations(x: Operand, r: int = 2, /, *, with_replacement: bool = False) -> Tensor:
    """Return all combinations of so many elements of a vector, in the order of their indices.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (n,), any dtype.
    r : int, optional
        How many elements each combination has, at least 0. By default 2.
    with_replacement : bool, optional
        Whether an element may occur more than once. By default False.

    Returns
    -------
    Tensor
        A row for each combination, of ``r`` elements; the dtype of ``x``.

    Raises
    ------
    ArgumentError
        If ``r`` is negative.
    ShapeError
        If ``x`` is no vector.
    DTypeError
        If an operand is no tensor, array or number.
    TypeError
        If a count or an index is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.combinations(calor.asarray([5, 6, 7])).tolist()
    [[5, 6], [5, 7], [6, 7]]
    """
    x = as_tensor(x)
    count = integer(r, "combinations: r")
    if count < 0:
        raise ArgumentError(f"combinations: r is {count}; give at least 0")
    if x.ndim != 1:
        raise ShapeError(f"combinations: shape {x.shape} is no vector")
    make = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(make(range(x.size), count)) if count else []
    places = np.array(rows, np.int64).reshape(len(rows), count)
    if not places.size:
        return x[:0] if not count else reshape(x[:0], (0, count))
    return take(x, asarray(places, device=x.device), axis=0)


def _lengths(difference: Tensor, p: float) -> Tensor:
    """Return the p-norms over the last axis; their gradient is 0 where all differences are."""
    size = difference if p == 2 else abs(difference)
    if p == 0:
        return sum((size != 0).astype(size.dtype), axis=-1)
    if p == 1:
        return sum(size, axis=-1)
    if p == float("inf"):
        if not size.shape[-1]:
            return sum(size, axis=-1)
        return max(size, axis=-1)
    total = sum(size * size if p == 2 else _power(size, p), axis=-1)
    none = total == 0
    safe = where(none, 1.0, total)
    root = sqrt(safe) if p == 2 else pow(safe, 1 / p)
    return where(none, 0.0, root).astype(size.dtype)


def _power(size: Tensor, p: float) -> Tensor:
    if p >= 1:
        return pow(size, p)
    # The slope of a power below 1 is infinite at 0.
    none = size == 0
    return where(none, 0.0, pow(where(none, 1.0, size), p)).astype(size.dtype)


def _floating(x: Any, what: str, axes: int) -> Tensor:
    made = as_tensor(x)
    if made.dtype.is_complex:
        raise DTypeError(
            f"{what}: points of {made.dtype.name} have no distances here; pass their real and "
            "imaginary parts as coordinates"
        )
    if made.ndim < axes:
        raise ShapeError(f"{what}: shape {made.shape} has fewer than {axes} axes; points are rows")
    return made if made.dtype.is_inexact else made.astype(dtypes.default_float())


def cdist(x1: Operand, x2: Operand, /, *, p: float = 2.0) -> Tensor:
    """Return the distances between each point of one set and each of another.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Points of shape (..., M, K), real.
    x2 : Tensor, ndarray or number
        Points of shape (..., N, K). The axes before the last two broadcast.
    p : float, optional
        The norm of a difference: 2 (the default) Euclid's, 1 the sum of magnitudes, inf the largest
        magnitude, 0 the number of coordinates that differ.

    Returns
    -------
    Tensor
        Shape (..., M, N), the common floating dtype.

    Raises
    ------
    ArgumentError
        If ``p`` is negative.
    ShapeError
        If a tensor has fewer than two axes, or the sizes do not fit.
    DTypeError
        If an operand is complex, or no tensor, array or number.

    Notes
    -----
    Distances are sums of squared differences, not of squares, so close points keep their digits. A
    device with fusion does not store the differences.

    Examples
    --------
    >>> import calor
    >>> calor.cdist(calor.asarray([[0.0, 0.0]]), calor.asarray([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[5.0, 1.0]]
    """
    if p < 0:
        raise ArgumentError(f"cdist: p is {p}; a norm's order is at least 0")
    a, b = (_floating(t, "cdist", 2) for t in together((x1, x2), "cdist"))
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"cdist: points of shapes {a.shape} and {b.shape} have other coordinates")
    rows = reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    columns = reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return _lengths(rows - columns, p)


def pdist(x: Operand, /, *, p: float = 2.0) -> Tensor:
    """Return the distances between all pairs of points.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Points of shape (N, K), real.
    p : float, optional
        The norm of a difference, as for `cdist`. By default 2.

    Returns
    -------
    Tensor
        Shape (N (N − 1) / 2,): the distances of the first point to all others, then of the second
        to those after it, and so on.

    Raises
    ------
    ArgumentError
        If ``p`` is negative.
    ShapeError
        If ``x`` is no matrix.
    DTypeError
        If ``x`` is complex, or no tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> calor.pdist(calor.asarray([[0.0], [1.0], [3.0]])).tolist()
    [1.0, 3.0, 2.0]
    """
    if p < 0:
        raise ArgumentError(f"pdist: p is {p}; a norm's order is at least 0")
    x = _floating(x, "pdist", 2)
    if x.ndim != 2:
        raise ShapeError(f"pdist: shape {x.shape} is no matrix")
    row, col = (
        asarray(t.astype(np.int64), device=x.device) for t in np.triu_indices(x.shape[0], 1)
    )
    return _lengths(take(x, row, axis=0) - take(x, col, axis=0), p)


def matvec(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the products of matrices with vectors.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (..., M, N).
    x2 : Tensor, ndarray or number
        Shape (..., N). The axes before the last broadcast against the batch of ``x1``.

    Returns
    -------
    Tensor
        Shape (..., M), the common dtype.

    Raises
    ------
    ShapeError
        If the sizes do not fit.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.matvec(calor.asarray([[1, 2], [3, 4]]), calor.asarray([1, 1])).tolist()
    [3, 7]
    """
    x1, x2 = as_operands(x1, x2)
    made = matmul(x1, reshape(x2, (*x2.shape, 1)))
    return reshape(made, made.shape[:-1])


def vecmat(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the products of conjugated vectors with matrices.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Shape (..., M), of which the conjugate is taken, as in NumPy.
    x2 : Tensor, ndarray or number
        Shape (..., M, N). The axes before the last two broadcast against the batch of ``x1``.

    Returns
    -------
    Tensor
        Shape (..., N), the common dtype.

    Raises
    ------
    ShapeError
        If the sizes do not fit.
    DTypeError
        If the dtypes have no common one.

    Examples
    --------
    >>> import calor
    >>> calor.vecmat(calor.asarray([1, 1]), calor.asarray([[1, 2], [3, 4]])).tolist()
    [4, 6]
    """
    x1, x2 = as_operands(x1, x2)
    if not x1.ndim:
        raise ShapeError("vecmat: the first operand has no axis; give a vector")
    x1 = conj(x1)
    made = matmul(reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1])), x2)
    return reshape(made, (*made.shape[:-2], made.shape[-1]))
