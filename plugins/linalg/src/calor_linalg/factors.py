"""Factorizations of matrices: Cholesky, QR, LU, singular values, eigenvalues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from calor.errors import ArgumentError, LinearAlgebraError
from calor.functions.operands import as_tensor
from calor.local import local
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor_linalg import matrices as mx
from calor_linalg import rows as rows
from calor_linalg import rules, spectra

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


class QRResult(NamedTuple):
    """QR factors of a batch of matrices.

    Attributes
    ----------
    Q : Tensor
        Shape (..., M, K). The columns are orthonormal.
    R : Tensor
        Shape (..., K, N). The matrices are upper triangular.
    """

    Q: Tensor
    R: Tensor


class LUResult(NamedTuple):
    """LU factors of a batch of matrices.

    Attributes
    ----------
    P : Tensor
        Shape (..., M, M). Permutation matrices, in the dtype of the input.
    L : Tensor
        Shape (..., M, K). The matrices are lower triangular, with ones on the diagonal.
    U : Tensor
        Shape (..., K, N). The matrices are upper triangular.
    """

    P: Tensor
    L: Tensor
    U: Tensor


class SVDResult(NamedTuple):
    """Singular value decomposition of a batch of matrices.

    Attributes
    ----------
    U : Tensor
        Shape (..., M, M) or (..., M, K). The columns are the left singular vectors.
    S : Tensor
        Shape (..., K). The singular values, real and in descending order.
    Vh : Tensor
        Shape (..., N, N) or (..., K, N). The rows are the conjugated right singular vectors.
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of a batch of Hermitian matrices.

    Attributes
    ----------
    eigenvalues : Tensor
        Shape (..., M). Real and in ascending order.
    eigenvectors : Tensor
        Shape (..., M, M). Column i belongs to eigenvalue i; the columns are orthonormal.
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


def cholesky(x: Operand, /, *, upper: bool = False) -> Tensor:
    """Return the Cholesky factor of Hermitian positive definite matrices.

    The factor is the lower triangular L with x = L Lᴴ, or the upper triangular U with x = Uᴴ U.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128. Only the lower
        triangle is read, or only the upper one with `upper`.
    upper : bool, default False
        Return U instead of L.

    Returns
    -------
    Tensor
        The factors, in the shape and dtype of `x`. The other triangle is zero.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.
    LinAlgError
        If a matrix is not positive definite. Outside of jitted functions the factors are computed
        at once to know. Inside, only the reference device raises it; others return NaN.

    See Also
    --------
    cholesky_ex : Says which factors exist, without an error and without waiting.

    References
    ----------
    LAPACK, routine ``potrf``. The gradient follows I. Murray, "Differentiation of the Cholesky
    decomposition", arXiv:1602.07527, 2016.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.cholesky(calor.asarray([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    x = as_tensor(x)
    if not upper:
        return _existing(rows.cholesky(x))  # type: ignore[no-any-return]
    rules.square("cholesky", x._value.spec)
    return mx.adjoint(_existing(rows.cholesky(mx.adjoint(x))))  # type: ignore[no-any-return]


def _existing(low: Any) -> Any:
    """Return Cholesky factors that are read at once; LinearAlgebraError where there are none."""
    if local.jit or not low.size:
        return low
    pivots = mx.real_part(mx.diagonal(low)).detach()
    if bool(r.all_(pivots > 0, axes=tuple(range(pivots.ndim)))):
        return low
    raise LinearAlgebraError(f"cholesky: {rules.which(low.shape)} {rules.NOT_POSITIVE}")


def qr(x: Operand, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Return the QR factorization of matrices, x = Q R.

    The diagonal of R is real. Its signs are those of LAPACK, so they may be negative.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128.
    mode : {"reduced", "complete"}, default "reduced"
        Sets the number of columns of Q: K = min(M, N) for "reduced", K = M for "complete".

    Returns
    -------
    QRResult
        Q of shape (..., M, K) and R of shape (..., K, N), in the dtype of `x`.

    Raises
    ------
    ArgumentError
        If `mode` is neither "reduced" nor "complete".
    ShapeError
        If `x` has fewer than two axes.
    DTypeError
        If `x` has another dtype.

    References
    ----------
    LAPACK, routines ``geqrf`` and ``orgqr``. The gradient follows S. F. Walter and L. Lehmann,
    "Algorithmic differentiation of linear algebra functions with application in optimum
    experimental design", arXiv:1001.1654, 2010.

    Examples
    --------
    >>> import calor
    >>> q, r = calor.linalg.qr(calor.asarray([[3.0, 1.0], [4.0, 2.0]]))
    >>> r.round().tolist()[1][0], (q @ r).round().tolist()
    (0.0, [[3.0, 1.0], [4.0, 2.0]])
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr: mode is {mode!r}; pass 'reduced' or 'complete'")
    return QRResult(*rows.qr(as_tensor(x), mode=mode))


def lu(x: Operand, /) -> LUResult:
    """Return the LU factorization of matrices with partial pivoting, x = P L U.

    A singular matrix raises no error: U then has a zero on its diagonal.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128.

    Returns
    -------
    LUResult
        P of shape (..., M, M), L of shape (..., M, K) and U of shape (..., K, N), where
        K = min(M, N), in the dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    DTypeError
        If `x` has another dtype.

    References
    ----------
    LAPACK, routine ``getrf``.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.lu(calor.asarray([[1.0, 2.0], [2.0, 2.0]])).U.tolist()
    [[2.0, 2.0], [0.0, 1.0]]
    """
    return unpacked(*rows.lu(as_tensor(x)))


def unpacked(packed: Any, order: Any) -> LUResult:
    """Return P, L and U of packed factors and the order of the rows."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    head = mx.column_block(packed, 0, k)
    row, column = mx.row_and_column(head)
    low = e.where(row == column, mx.ones(head), mx.lower(head, strict=True))
    up = mx.upper(mx.row_block(packed, 0, k))
    # Row order[j] of x is row j of L U.
    square = mx.square_identity(packed, m)
    place, _ = mx.row_and_column(square)
    permuted = e.cast(e.equal(place, mx.broad_row(order, square)), dtype=packed.dtype)
    return LUResult(permuted, low, up)


def svd(x: Operand, /, *, full_matrices: bool = True) -> SVDResult:
    """Return the singular value decomposition of matrices, x = U diag(S) Vh.

    Gradients hold for functions that do not depend on the signs or phases of singular vectors.
    Equal singular values have a gradient; that of their vectors is not finite.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128.
    full_matrices : bool, default True
        Return square U and Vh. With False they have K = min(M, N) columns and rows.

    Returns
    -------
    SVDResult
        U of shape (..., M, M) and Vh of shape (..., N, N) in the dtype of `x`, or (..., M, K) and
        (..., K, N) without `full_matrices`; S of shape (..., K), real and in descending order.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    DTypeError
        If `x` has another dtype.
    LinAlgError
        If the iteration does not converge, as with NaN or infinite elements. It is raised when the
        result is computed. Devices without this check return NaN.

    References
    ----------
    LAPACK, routine ``gesdd``, on the reference device; one-sided Jacobi rotations elsewhere: M. R.
    Hestenes, "Inversion of matrices by biorthogonalization and related results", J. SIAM 6(1),
    1958. The gradient follows J. Townsend, "Differentiating the singular value decomposition",
    2016, and for complex matrices Z.-Q. Wan and S.-X. Zhang, arXiv:1909.02659, 2019.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.svd(calor.asarray([[3.0, 0.0], [0.0, 4.0]])).S.tolist()
    [4.0, 3.0]
    """
    x = as_tensor(x)
    full = bool(full_matrices) and x.ndim > 1 and x.shape[-1] != x.shape[-2]
    return SVDResult(*spectra.svd(x, full_matrices=full))


def svdvals(x: Operand, /) -> Tensor:
    """Return the singular values of matrices, in descending order.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128.

    Returns
    -------
    Tensor
        Singular values of shape (..., min(M, N)), in the real dtype of the same precision as `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    DTypeError
        If `x` has another dtype.
    LinAlgError
        If the iteration does not converge, as with NaN or infinite elements. It is raised when the
        result is computed. Devices without this check return NaN.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.svdvals(calor.asarray([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [2.0, 1.0]
    """
    return svd(x, full_matrices=False).S


def eigh(x: Operand, /) -> EighResult:
    """Return the eigenvalues and eigenvectors of Hermitian matrices, x = V diag(w) Vᴴ.

    Gradients hold for functions that do not depend on the signs or phases of eigenvectors. Equal
    eigenvalues have a gradient; that of their vectors is not finite.

    Parameters
    ----------
    x : Tensor, array or number
        Hermitian matrices of shape (..., M, M) in float32, float64, complex64 or complex128. Only
        the lower triangle is read.

    Returns
    -------
    EighResult
        Eigenvalues w of shape (..., M), real and in ascending order, and eigenvectors V of shape
        (..., M, M) as columns, in the dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.
    LinAlgError
        If the iteration does not converge, as with NaN or infinite elements. It is raised when the
        result is computed. Devices without this check return NaN.

    References
    ----------
    LAPACK, routine ``heevd``, on the reference device; parallel Jacobi rotations elsewhere: R. P.
    Brent and F. T. Luk, "The solution of singular-value and symmetric eigenvalue problems on
    multiprocessor arrays", SIAM J. Sci. Stat. Comput. 6(1), 1985. The gradient follows M. Giles,
    "An extended collection of matrix derivative results for forward and reverse mode algorithmic
    differentiation", 2008, section 3.1.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.eigh(calor.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    return EighResult(*spectra.eigh(as_tensor(x)))


def eigvalsh(x: Operand, /) -> Tensor:
    """Return the eigenvalues of Hermitian matrices, in ascending order.

    Parameters
    ----------
    x : Tensor, array or number
        Hermitian matrices of shape (..., M, M) in float32, float64, complex64 or complex128. Only
        the lower triangle is read.

    Returns
    -------
    Tensor
        Eigenvalues of shape (..., M), in the real dtype of the same precision as `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.
    LinAlgError
        If the iteration does not converge, as with NaN or infinite elements. It is raised when the
        result is computed. Devices without this check return NaN.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.eigvalsh(calor.asarray([[0.0, 1.0], [1.0, 0.0]])).round().tolist()
    [-1.0, 1.0]
    """
    return eigh(x).eigenvalues
