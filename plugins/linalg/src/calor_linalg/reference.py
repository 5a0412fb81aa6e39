"""Linear algebra on the last two axes; axes before them are a batch.

Requirements: float32, float64, complex64 and complex128 keep their dtype. A matrix without a result
raises numpy.linalg.LinAlgError where the docstring says so, and never a warning.
"""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from calor.reference.precision import Array, quiet

# Triangles up to this size are solved row by row, larger ones by halves.
_ROWS = 16
# How many columns are factored one by one, before the columns behind them follow at once.
_COLUMNS = 32


def cholesky(x: Array, *, upper: bool) -> Array:
    """Return the lower L with x = L Lᴴ, or the upper U with x = Uᴴ U, from that triangle of x.

    Raises
    ------
    LinAlgError
        If x is not positive definite.
    """
    return np.linalg.cholesky(x, upper=upper)


def cholesky_or_nan(x: Array) -> Array:
    """Return the lower L with x = L Lᴴ, with what is no number from the first bad pivot on."""
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        # One matrix without a factor fails the whole stack.
        flat = x.reshape(-1, *x.shape[-2:])
        return np.stack([_partial_cholesky(matrix) for matrix in flat]).reshape(x.shape)


def _partial_cholesky(x: Array) -> Array:
    """Return the factor of one matrix column by column, as far as it has one."""
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        low = np.zeros_like(x)
    with np.errstate(all="ignore"):
        for j in range(x.shape[-1]):
            rest = x[j:, j] - low[j:, :j] @ low[j, :j].conj()
            pivot = np.sqrt(rest[0].real)
            low[j:, j] = rest / pivot
            low[j, j] = pivot
    return low


def qr(x: Array, *, mode: Literal["reduced", "complete"]) -> tuple[Array, Array]:
    """Return Q (m, k) with orthonormal columns and upper R (k, n), x = Q R.

    k is min(m, n) in mode "reduced" and m in mode "complete".
    """
    q, r = np.linalg.qr(x, mode=mode)
    return q, r


def svd(x: Array, *, full_matrices: bool) -> tuple[Array, Array, Array]:
    """Return U, the singular values in descending order, and Vᴴ, x = U diag(s) Vᴴ.

    Raises
    ------
    LinAlgError
        If the iteration does not converge, as with NaN.
    """
    u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
    return u, s, vh


def eigh(x: Array) -> tuple[Array, Array]:
    """Return the eigenvalues, ascending, and eigenvectors (columns) of a Hermitian matrix.

    Only the lower triangle is read.

    Raises
    ------
    LinAlgError
        If the iteration does not converge.
    """
    values, vectors = np.linalg.eigh(x)
    return values, vectors


def eig(x: Array) -> tuple[Array, Array]:
    """Return complex eigenvalues, in no order, and eigenvectors (columns) of length 1.

    Raises
    ------
    LinAlgError
        If the iteration does not converge, as with NaN.
    """
    values, vectors = np.linalg.eig(x)
    kind = np.result_type(x.dtype, np.complex64)
    return values.astype(kind), vectors.astype(kind)


def inv(x: Array) -> Array:
    """Return the inverse.

    Raises
    ------
    LinAlgError
        If x is exactly singular.
    """
    return np.linalg.inv(x)


def solve(a: Array, b: Array) -> Array:
    """Return X (n, k) with a X = b.

    Raises
    ------
    LinAlgError
        If a is exactly singular.
    """
    return np.linalg.solve(a, b)


@quiet
def det(x: Array) -> Array:
    """Return the determinant, 0 for an exactly singular matrix and 1 for an empty one."""
    return np.asarray(np.linalg.det(x))


@quiet
def slogdet(x: Array) -> tuple[Array, Array]:
    """Return the sign (complex: the phase) and log of the magnitude of the determinant.

    An exactly singular matrix gives 0 and −inf.
    """
    sign, magnitude = np.linalg.slogdet(x)
    return np.asarray(sign), np.asarray(magnitude)


@quiet
def lu(x: Array) -> tuple[Array, Array]:
    """Return L and U packed in one array (m, n) and an int64 permutation p (m), x[p] = L U.

    The ones on the diagonal of L are not stored. Each pivot is the first element of the largest
    magnitude in its column. A zero pivot leaves its column as it is, so no error is raised.
    """
    m, n = x.shape[-2:]
    count = prod(x.shape[:-2])
    result = np.array(x, order="C").reshape(count, m, n)
    order = np.tile(np.arange(m), (count, 1))
    batch = np.arange(count)
    for start in range(0, min(m, n), _COLUMNS):
        end = min(start + _COLUMNS, m, n)
        for k in range(start, end):
            pivot = k + np.argmax(np.abs(result[:, k:, k]), axis=1)
            for rows in (result, order):
                rows[batch, pivot], rows[:, k] = rows[:, k].copy(), rows[batch, pivot]
            divisor = result[:, k, k]
            divisor = np.where(divisor == 0, divisor.dtype.type(1), divisor)
            result[:, k + 1 :, k] /= divisor[:, None]
            rest = result[:, k + 1 :, k + 1 : end]
            rest -= result[:, k + 1 :, k, None] * result[:, k, None, k + 1 : end]
        # The columns behind the panel follow from it by a solve and a product.
        right = result[:, start:end, end:]
        _solve_lower(result[:, start:end, start:end], right, unit_diagonal=True)
        result[:, end:, end:] -= result[:, end:, start:end] @ right
    return result.reshape(x.shape), order.reshape(x.shape[:-1])


@quiet
def triangular_solve(
    a: Array, b: Array, *, lower: bool, transpose: bool, unit_diagonal: bool
) -> Array:
    """Return X (n, k) with T X = b, or Tᵀ X = b, where T is a's lower or upper triangle.

    With ``unit_diagonal`` the diagonal of T counts as ones and is not read. A zero on the diagonal
    gives infinities or NaN.
    """
    if transpose:
        a, lower = a.swapaxes(-1, -2), not lower
    if not lower:
        a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
    result = np.array(b, order="C")
    _solve_lower(a, result, unit_diagonal)
    return result if lower else np.ascontiguousarray(result[..., ::-1, :])


def _solve_lower(a: Array, x: Array, unit_diagonal: bool) -> None:
    """Replace the right-hand sides x by the solutions, recursively by halves of the matrix.

    Halving leaves most of the work to matrix products.
    """
    n = a.shape[-1]
    if n <= _ROWS:
        for i in range(n):
            if i:
                x[..., i, :] -= (a[..., i, None, :i] @ x[..., :i, :])[..., 0, :]
            if not unit_diagonal:
                x[..., i, :] /= a[..., i, i, None]
        return
    half = n // 2
    upper, low = x[..., :half, :], x[..., half:, :]
    _solve_lower(a[..., :half, :half], upper, unit_diagonal)
    low -= a[..., half:, :half] @ upper
    _solve_lower(a[..., half:, half:], low, unit_diagonal)
