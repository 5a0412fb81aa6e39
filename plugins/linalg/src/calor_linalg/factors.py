"""Factorizations of matrices: Cholesky, QR, LU, singular values, eigenvalues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from calor.errors import ArgumentError
from calor.functions.operands import as_tensor
from calor.ops import elementwise as e
from calor_linalg import matrices as mx
from calor_linalg import rows as rows

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


class QRResult(NamedTuple):
    """Q with orthonormal columns and upper triangular R."""

    Q: Tensor
    R: Tensor


class LUResult(NamedTuple):
    """The permutation matrix P, L with ones on its diagonal, and upper triangular U."""

    P: Tensor
    L: Tensor
    U: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors (columns), singular values, and right singular vectors (rows)."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors (columns)."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def cholesky(x: Operand, /, *, upper: bool = False) -> Tensor:
    """Return lower triangular L with x = L Lᴴ, or upper triangular U with x = Uᴴ U.

    x (..., M, M) is Hermitian and positive definite; only that triangle of it is read. Raises
    ShapeError for matrices that are not square, and LinAlgError, when somebody looks, for one that
    is not positive definite (a device that has no such error gives NaN).

    >>> import calor
    >>> calor.linalg.cholesky(calor.asarray([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    x = as_tensor(x)
    if not upper:
        return rows.cholesky(x)  # type: ignore[no-any-return]
    rows.square("cholesky", x._value.spec)
    return mx.adjoint(rows.cholesky(mx.adjoint(x)))  # type: ignore[no-any-return]


def qr(x: Operand, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Return Q with orthonormal columns and upper triangular R, x = Q R, for x (..., M, N).

    Q is (..., M, K) and R (..., K, N), where K is min(M, N), or M in mode "complete". The diagonal
    of R is real; its signs are LAPACK's.

    >>> import calor
    >>> q, r = calor.linalg.qr(calor.asarray([[3.0, 1.0], [4.0, 2.0]]))
    >>> r.round().tolist()[1][0], (q @ r).round().tolist()
    (0.0, [[3.0, 1.0], [4.0, 2.0]])
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr: mode {mode!r} is neither 'reduced' nor 'complete'")
    return QRResult(*rows.qr(as_tensor(x), mode=mode))


def lu(x: Operand, /) -> LUResult:
    """Return P, L and U with x = P L U, for x (..., M, N): elimination with partial pivoting.

    L is (..., M, K) and U (..., K, N) where K is min(M, N). A singular matrix has a zero on the
    diagonal of U.

    >>> import calor
    >>> calor.linalg.lu(calor.asarray([[1.0, 2.0], [2.0, 2.0]])).U.tolist()
    [[2.0, 2.0], [0.0, 1.0]]
    """
    x = as_tensor(x)
    packed, order = rows.lu(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    head = mx.column_block(packed, 0, k)
    row, column = mx.row_and_column(head)
    low = e.where(row == column, mx.ones(head), mx.lower(head, strict=True))
    up = mx.upper(mx.row_block(packed, 0, k))
    # Row order[j] of x is row j of L U.
    square = mx.square_identity(x, m)
    place, _ = mx.row_and_column(square)
    return LUResult(e.cast(e.equal(place, mx.broad_row(order, square)), dtype=x.dtype), low, up)


def svd(x: Operand, /, *, full_matrices: bool = True) -> SVDResult:
    """Return U, S and Vh with x = U diag(S) Vh, for x (..., M, N), S in descending order.

    U is (..., M, M) and Vh (..., N, N); without ``full_matrices`` U is (..., M, K) and Vh
    (..., K, N), where K is min(M, N). Raises LinAlgError, when somebody looks, for NaN.

    >>> import calor
    >>> calor.linalg.svd(calor.asarray([[3.0, 0.0], [0.0, 4.0]])).S.tolist()
    [4.0, 3.0]
    """
    x = as_tensor(x)
    full = bool(full_matrices) and x.ndim > 1 and x.shape[-1] != x.shape[-2]
    return SVDResult(*rows.svd(x, full_matrices=full))


def svdvals(x: Operand, /) -> Tensor:
    """Return the singular values of x (..., M, N), in descending order, as (..., min(M, N)).

    >>> import calor
    >>> calor.linalg.svdvals(calor.asarray([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [2.0, 1.0]
    """
    return svd(x, full_matrices=False).S


def eigh(x: Operand, /) -> EighResult:
    """Return the eigenvalues, ascending, and eigenvectors of Hermitian matrices x (..., M, M).

    x = V diag(values) Vᴴ; the eigenvectors are V's columns. Only the lower triangle of x is read.
    Raises ShapeError for matrices that are not square.

    >>> import calor
    >>> calor.linalg.eigh(calor.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    return EighResult(*rows.eigh(as_tensor(x)))


def eigvalsh(x: Operand, /) -> Tensor:
    """Return the eigenvalues, ascending, of Hermitian matrices x (..., M, M), as (..., M).

    >>> import calor
    >>> calor.linalg.eigvalsh(calor.asarray([[0.0, 1.0], [1.0, 0.0]])).round().tolist()
    [-1.0, 1.0]
    """
    return eigh(x).eigenvalues
