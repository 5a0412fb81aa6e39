"""Eigenvalues of general matrices, condition numbers, norms and determinants by other names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from calor.errors import ArgumentError
from calor.functions.arguments import many_axes
from calor.functions.operands import as_tensor
from calor.ops import elementwise as e
from calor.ops.movement import permute
from calor_linalg import eigen, rules
from calor_linalg import matrices as mx
from calor_linalg.determinants import slogdet
from calor_linalg.factors import svdvals
from calor_linalg.norms import matrix_norm, vector_norm
from calor_linalg.solving import inv

if TYPE_CHECKING:
    from calor.tensor.tensor import Axis, Operand, Tensor
    from calor_linalg.norms import MatrixOrder


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors of a batch of matrices.

    Attributes
    ----------
    eigenvalues : Tensor
        Shape (..., M). Complex, in no order.
    eigenvectors : Tensor
        Shape (..., M, M). Complex; column i belongs to eigenvalue i and has length 1.
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


def eig(x: Operand, /) -> EigResult:
    """Return the eigenvalues and eigenvectors of general matrices, x V = V diag(w).

    Gradients hold for functions that do not depend on the phases of eigenvectors. Equal eigenvalues
    have a gradient; that of their vectors is not finite.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128.

    Returns
    -------
    EigResult
        Eigenvalues w of shape (..., M) and eigenvectors V of shape (..., M, M) as columns, in the
        complex dtype of the same precision as `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.
    LinAlgError
        If the iteration does not converge, as with NaN or infinite elements. It is raised when the
        result is computed. Devices without this check return NaN.

    See Also
    --------
    eigh : Faster and real, for Hermitian matrices.

    References
    ----------
    LAPACK, routine ``geev``, on the reference device; shifted QR steps elsewhere:
    G. H. Golub and C. F. Van Loan, "Matrix Computations", section 7.5. The gradient follows C.
    Boeddeker et al., "On the computation of complex-valued gradients with application to
    statistically optimum beamforming", arXiv:1701.00392, 2017.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.eig(calor.asarray([[2.0, 0.0], [0.0, 3.0]])).eigenvalues.tolist()
    [(2+0j), (3+0j)]
    """
    return EigResult(*eigen.eig(as_tensor(x)))


def eigvals(x: Operand, /) -> Tensor:
    """Return the eigenvalues of general matrices, in no order.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128.

    Returns
    -------
    Tensor
        Eigenvalues of shape (..., M), in the complex dtype of the same precision as `x`.

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
    >>> calor.linalg.eigvals(calor.asarray([[2.0, 1.0], [0.0, 2.0]])).tolist()
    [(2+0j), (2+0j)]
    """
    return eig(x).eigenvalues


def cond(x: Operand, /, *, ord: MatrixOrder | None = None) -> Tensor:
    """Return the condition number of matrices, the norm times that of the inverse.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128; square ones for
        orders other than None, 2 and -2.
    ord : {None, 2, -2, "fro", "nuc", 1, -1, inf, -inf}, default None
        Kind of norm, as for `matrix_norm`. None and 2: the largest by the smallest singular value;
        -2: the reverse.

    Returns
    -------
    Tensor
        The condition numbers of shape (...), real. inf for a singular matrix by ``ord=2``.

    Raises
    ------
    ArgumentError
        If `ord` is none of these.
    ShapeError
        If `x` has fewer than two axes, is empty, or its matrices are not square where they must be.
    DTypeError
        If `x` has another dtype.
    LinAlgError
        If a matrix is singular and the inverse is needed. It is raised when the result is computed.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.cond(calor.asarray([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    x = as_tensor(x)
    if ord is None or ord in (2, -2):
        s: Any = svdvals(x)
        if not s.shape[-1]:
            return matrix_norm(x, ord=2)
        k = s.shape[-1] - 1
        least, largest = (mx.column_sums(mx.elements(s, i, i + 1)[..., None]) for i in (k, 0))
        least, largest = (t.reshape(s.shape[:-1]) for t in (least, largest))
        return least / largest if ord == -2 else largest / least  # type: ignore[no-any-return]
    rules.square("cond", x._value.spec)
    return matrix_norm(x, ord=ord) * matrix_norm(inv(x), ord=ord)


def norm(
    x: Operand,
    ord: MatrixOrder | None = None,
    axis: Axis = None,
    keepdims: bool = False,
) -> Tensor:
    """Return a norm of vectors or matrices, by the number of axes, as NumPy and PyTorch do.

    Parameters
    ----------
    x : Tensor, array or number
        Any shape. Integers and bool are converted to the default floating type.
    ord : {None, "fro", "nuc", int, float}, default None
        Kind of norm. None is the root of the sum of all squares.
    axis : int or tuple of int, default None
        One axis: norms of vectors. Two axes: norms of matrices. None takes all elements as a vector
        if `ord` is None, else all axes, of which there are one or two.
    keepdims : bool, default False
        Keep the reduced axes with size 1.

    Returns
    -------
    Tensor
        The norms, in a real floating dtype.

    Raises
    ------
    ArgumentError
        If `ord` does not exist for that number of axes, or there are more than two axes.
    AxisError
        If `axis` is not an axis of `x`.
    ShapeError
        If the largest of no value is asked for.
    DTypeError
        If `x` has a float8 dtype, which has no arithmetic.

    See Also
    --------
    vector_norm, matrix_norm : Of vectors along any axes and of matrices alone.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.norm(calor.asarray([3.0, 4.0])).item()
    5.0
    """
    a = as_tensor(x)
    if ord is None:
        return vector_norm(a, axis=axis, keepdims=keepdims)
    if axis is None:
        axis = tuple(range(a.ndim))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(many_axes(one, a.shape, "norm")[0] for one in given)
    if len(axes) == 1:
        return vector_norm(a, axis=axes, keepdims=keepdims, ord=ord)  # type: ignore[arg-type]
    if len(axes) != 2:
        raise ArgumentError(
            f"norm: ord {ord!r} of {len(axes)} axes; pass one axis for vectors or two for matrices"
        )
    rest = tuple(i for i in range(a.ndim) if i not in axes)
    made: Any = matrix_norm(permute(a, axes=(*rest, *axes)), ord=ord, keepdims=keepdims)
    if keepdims:
        order = (*rest, *axes)
        made = permute(made, axes=tuple(order.index(i) for i in range(a.ndim)))
    return made  # type: ignore[no-any-return]


def logdet(x: Operand, /) -> Tensor:
    """Return the logarithm of the determinant of square matrices.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128.

    Returns
    -------
    Tensor
        Shape (...), in the dtype of `x`. −inf for a singular matrix; NaN for a negative determinant
        of a real one.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.

    See Also
    --------
    slogdet : The sign too.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.logdet(calor.asarray([[1.0, 0.0], [0.0, 1.0]])).item()
    0.0
    """
    sign, size = slogdet(x)
    made: Any
    if sign.dtype.is_complex:
        made = e.join(size, e.atan2(e.imag(sign), e.real(sign)))
    else:
        made = e.where(sign < 0, mx.filled(size, math.nan), size)
    return made  # type: ignore[no-any-return]
