"""Helpers on the last two axes, which decompositions and gradients share.

Requirements: every function takes any batch axes, real and complex dtypes. It only records ops, so
that it can be differentiated again and runs on any device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import int64
from calor.ops import elementwise as e
from calor.ops.base import Scalar
from calor.ops.contraction import dot_general
from calor.ops.indexing import gather
from calor.ops.movement import expand, number_like, pad, permute, reshape, slice_
from calor.ops.reductions import max as greatest
from calor.ops.reductions import sum as total
from calor.ops.sources import full, iota


def product(a: Any, b: Any) -> Any:
    """Return the matrix product of two tensors with the same batch axes."""
    n = a.ndim
    lead = tuple(range(n - 2))
    contract = ((n - 1,), (n - 2,))
    return dot_general(a, b, contract=contract, batch=(lead, lead), dtype=a.dtype)


def times_vector(a: Any, v: Any) -> Any:
    """Return a · v for matrices and vectors with the same batch axes."""
    lead = tuple(range(a.ndim - 2))
    contract = ((a.ndim - 1,), (v.ndim - 1,))
    return dot_general(a, v, contract=contract, batch=(lead, lead), dtype=a.dtype)


def vector_times(v: Any, a: Any) -> Any:
    """Return vᵀ · a for vectors and matrices with the same batch axes."""
    lead = tuple(range(a.ndim - 2))
    contract = ((v.ndim - 1,), (a.ndim - 2,))
    return dot_general(v, a, contract=contract, batch=(lead, lead), dtype=a.dtype)


def transposed(x: Any) -> Any:
    """Return the matrices transposed."""
    n = x.ndim
    return permute(x, axes=(*range(n - 2), n - 1, n - 2))


def adjoint(x: Any) -> Any:
    """Return the matrices conjugated and transposed."""
    return e.conjugate(transposed(x))


def row_and_column(x: Any) -> tuple[Any, Any]:
    """Return the row number and the column number of every element of x, int64 of x's shape."""

    m, n = x.shape[-2:]
    with x.device:
        rows, columns = iota(length=m, dtype=int64), iota(length=n, dtype=int64)
    return (
        expand(reshape(rows, shape=(m, 1)), shape=x.shape),
        expand(reshape(columns, shape=(1, n)), shape=x.shape),
    )


def places(v: Any) -> Any:
    """Return the index along the last axis of every element, int64 of v's shape."""

    with v.device:
        return expand(iota(length=v.shape[-1], dtype=int64), shape=v.shape)


def integer(number: int, x: Any) -> Any:
    """Return a 0-d int64 on the device of x, as a counter or an index."""

    with x.device:
        return full(value=Scalar.of(number, int64), shape=(), dtype=int64)


def row_at(x: Any, k: Any) -> Any:
    """Return the k-th row of each matrix, k a 0-d integer tensor."""
    return gather(x, k, axis=x.ndim - 2)


def column_at(x: Any, k: Any) -> Any:
    """Return the k-th column of each matrix, k a 0-d integer tensor."""
    return gather(x, k, axis=x.ndim - 1)


def element_at(v: Any, k: Any) -> Any:
    """Return the k-th element of each vector, k a 0-d integer tensor."""
    return gather(v, k, axis=v.ndim - 1)


def filled(x: Any, number: float) -> Any:
    """Return one number in every element, in the shape, dtype and device of x."""
    return expand(number_like(x, number), shape=x.shape)


def zeros(x: Any) -> Any:
    """Return zeros in the shape, dtype and device of x."""
    return filled(x, 0)


def ones(x: Any) -> Any:
    """Return ones in the shape, dtype and device of x."""
    return filled(x, 1)


def masked(keep: Any, x: Any) -> Any:
    """Return x where ``keep`` holds and 0 elsewhere, even for NaN."""
    return e.where(keep, x, zeros(x))


def lower(x: Any, strict: bool = False) -> Any:
    """Return the lower triangle, without the diagonal when ``strict``."""
    row, column = row_and_column(x)
    return masked(row > column if strict else row >= column, x)


def upper(x: Any, strict: bool = False) -> Any:
    """Return the upper triangle, without the diagonal when ``strict``."""
    row, column = row_and_column(x)
    return masked(row < column if strict else row <= column, x)


def identity(like: Any) -> Any:
    """Return the identity in the shape, dtype and device of a tensor of square matrices."""
    row, column = row_and_column(like)
    return e.cast(e.equal(row, column), dtype=like.dtype)


def square_identity(x: Any, size: int) -> Any:
    """Return identity matrices of a size, with the batch axes, dtype and device of x."""
    return identity(expand(number_like(x, 0), shape=(*x.shape[:-2], size, size)))


def diagonal(x: Any, offset: int = 0) -> Any:
    """Return the elements (i, i + offset) as vectors."""
    m, n = x.shape[-2:]
    length = max(0, min(m, n - offset) if offset >= 0 else min(m + offset, n))
    lead = x.shape[:-2]
    flat = reshape(x, shape=(*lead, m * n))
    start = (offset if offset >= 0 else -offset * n) if length else 0
    stop = start + (length - 1) * (n + 1) + 1 if length else 0
    return slice_(
        flat,
        starts=(*(0 for _ in lead), start),
        stops=(*lead, stop),
        steps=(*(1 for _ in lead), n + 1),
    )


def diagonal_matrix(x: Any) -> Any:
    """Return square matrices with the vectors x on their diagonal and 0 elsewhere."""
    n, none = x.shape[-1], (0,) * x.ndim
    flat = pad(x, number_like(x, 0), low=none, high=none, interior=(*none[:-1], n))
    return reshape(flat, shape=(*x.shape[:-1], n, n))


def scale_columns(x: Any, factors: Any) -> Any:
    """Return x · diag(factors)."""
    return x * as_type(broad_row(factors, x), x)


def broad_row(v: Any, x: Any) -> Any:
    """Broadcast vectors as rows to the shape of x."""
    return expand(reshape(v, shape=(*v.shape[:-1], 1, v.shape[-1])), shape=x.shape)


def broad_column(v: Any, x: Any) -> Any:
    """Broadcast vectors as columns to the shape of x."""
    return expand(reshape(v, shape=(*v.shape, 1)), shape=x.shape)


def broad_number(t: Any, x: Any) -> Any:
    """Broadcast one number for each matrix to the shape of x."""
    return expand(reshape(t, shape=(*t.shape, 1, 1)), shape=x.shape)


def broad_element(t: Any, v: Any) -> Any:
    """Broadcast one number for each vector to the shape of v."""
    return expand(reshape(t, shape=(*t.shape, 1)), shape=v.shape)


def as_type(x: Any, like: Any) -> Any:
    """Return x in the dtype of another tensor."""
    return x if x.dtype is like.dtype else e.cast(x, dtype=like.dtype)


def real_part(x: Any) -> Any:
    """Return the real part of a complex tensor; a real tensor as it is."""
    return e.real(x) if x.dtype.is_complex else x


def epsilon(x: Any) -> float:
    """Return the distance from 1 to the next number of x's dtype."""
    return float(np.finfo(x.dtype.numpy).eps)


def square_size(x: Any) -> Any:
    """Return |x|² of each element, real."""
    return real_part(x * e.conjugate(x))


def block(x: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    """Return a block of each matrix, its rows and columns given as (start, stop)."""
    lead = x.shape[:-2]
    if rows == (0, x.shape[-2]) and columns == (0, x.shape[-1]):
        return x
    return slice_(
        x,
        starts=(*(0 for _ in lead), rows[0], columns[0]),
        stops=(*lead, rows[1], columns[1]),
        steps=(1,) * x.ndim,
    )


def row_block(x: Any, start: int, stop: int) -> Any:
    """Return the rows from ``start`` to before ``stop``."""
    return block(x, (start, stop), (0, x.shape[-1]))


def column_block(x: Any, start: int, stop: int) -> Any:
    """Return the columns from ``start`` to before ``stop``."""
    return block(x, (0, x.shape[-2]), (start, stop))


def elements(v: Any, start: int, stop: int) -> Any:
    """Return the elements of each vector from ``start`` to before ``stop``."""
    lead = v.shape[:-1]
    return slice_(v, starts=(*(0 for _ in lead), start), stops=(*lead, stop), steps=(1,) * v.ndim)


def column_sums(x: Any) -> Any:
    """Return the sum of each column."""
    return total(x, axes=(x.ndim - 2,), dtype=x.dtype)


def matrix_sums(x: Any) -> Any:
    """Return the sum of all elements of each matrix."""
    return total(x, axes=(x.ndim - 2, x.ndim - 1), dtype=x.dtype)


def magnitude(x: Any, axes: int = 2) -> Any:
    """Return the largest magnitude over the last axes, and 1 where that is 0 or not finite."""
    largest = greatest(e.abs(x), axes=tuple(range(x.ndim - axes, x.ndim)))
    return e.where(e.isfinite(largest) & (largest > 0), largest, ones(largest))


def quotient(x: Any, divisor: Any) -> Any:
    """Return x / divisor, and 0 where the divisor is 0; gradients are 0 there too."""
    zero = e.equal(divisor, zeros(divisor))
    safe = e.where(zero, ones(divisor), divisor)
    return masked(~zero, x / as_type(safe, x))
