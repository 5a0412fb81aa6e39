"""Linear systems, least squares, inverses and ranks."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from calor import dtypes
from calor.dtypes import real_of
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.arguments import python_number
from calor.functions.linear_algebra import matmul
from calor.functions.operands import as_tensor, stretched, together
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.movement import permute, reshape
from calor.recording.recipes import broadcast_shapes
from calor.recording.record import number_on
from calor.specs import spec
from calor_linalg import matrices as mx
from calor_linalg import solutions as rows
from calor_linalg.factors import svd
from calor_linalg.rules import matrices, square

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


class LstsqResult(NamedTuple):
    """Solution of a least-squares problem.

    Attributes
    ----------
    solution : Tensor
        Shape (..., N, K), or (..., N) for a vector on the right.
    residuals : Tensor
        Shape (..., K), or (...) for a vector. Sums of the squared residuals, real.
    rank : Tensor
        Shape (...). Effective rank of the matrices, int64.
    singular_values : Tensor
        Shape (..., min(M, N)). Singular values of the matrices, in descending order.
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def solve(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the solution X of the linear system x1 X = x2.

    Parameters
    ----------
    x1 : Tensor, array or number
        Square matrices of shape (..., M, M). The promoted dtype of both operands must be float32,
        float64, complex64 or complex128.
    x2 : Tensor, array or number
        A vector of shape (M,), or columns of shape (..., M, K). Axes before the last two broadcast
        with those of `x1`. One matrix with a batch of columns is factorized once.

    Returns
    -------
    Tensor
        The solution, of shape (..., M, K), or (..., M) for a vector.

    Raises
    ------
    ShapeError
        If the matrices are not square, if `x2` has another number of rows, or if the other axes do
        not broadcast.
    DTypeError
        If the dtypes have no common type, or linear algebra does not compute in it.
    LinAlgError
        If a matrix is singular. It is raised when the result is computed. Devices without this
        check return infinities or NaN.

    See Also
    --------
    solve_triangular : Faster for triangular matrices.
    lstsq : Least squares, for matrices that are singular or not square.

    References
    ----------
    LAPACK, routine ``gesv``.

    Examples
    --------
    >>> import calor
    >>> a = calor.asarray([[2.0, 0.0], [0.0, 4.0]])
    >>> calor.linalg.solve(a, calor.asarray([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    return _system("solve", rows.solve, x1, x2)


def solve_triangular(
    x1: Operand,
    x2: Operand,
    /,
    *,
    lower: bool = False,
    transpose: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """Return the solution X of the triangular system T X = x2.

    T is one triangle of `x1`; the other triangle is not read. A zero on the diagonal of T gives
    infinities or NaN.

    Parameters
    ----------
    x1 : Tensor, array or number
        Square matrices of shape (..., M, M). The promoted dtype of both operands must be float32,
        float64, complex64 or complex128.
    x2 : Tensor, array or number
        A vector of shape (M,), or columns of shape (..., M, K). Axes before the last two broadcast
        with those of `x1`.
    lower : bool, default False
        Take the lower triangle of `x1` instead of the upper one.
    transpose : bool, default False
        Solve Tᵀ X = x2. Elements are not conjugated.
    unit_diagonal : bool, default False
        Use ones on the diagonal of T instead of the elements of `x1`.

    Returns
    -------
    Tensor
        The solution, of shape (..., M, K), or (..., M) for a vector.

    Raises
    ------
    ShapeError
        If the matrices are not square, if `x2` has another number of rows, or if the other axes do
        not broadcast.
    DTypeError
        If the dtypes have no common type, or linear algebra does not compute in it.

    References
    ----------
    BLAS, routine ``trsm``.

    Examples
    --------
    >>> import calor
    >>> a = calor.asarray([[2.0, 2.0], [0.0, 4.0]])
    >>> calor.linalg.solve_triangular(a, calor.asarray([4.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    options = {"lower": lower, "transpose": transpose, "unit_diagonal": unit_diagonal}
    options = {name: bool(value) for name, value in options.items()}
    return _system("solve_triangular", rows.triangular_solve, x1, x2, **options)


def _system(what: str, row: Any, x1: Any, x2: Any, **options: bool) -> Tensor:
    a, b = together([x1, x2], what)
    square(what, a._value.spec)
    _check_rows(what, a, b)
    vector = b.ndim == 1
    if vector:
        b = reshape(b, shape=(*b.shape, 1))
    made: Any
    if a.ndim == 2 and b.ndim > 2:
        made = _columns_together(row, a, b, options)
    else:
        batch = broadcast_shapes(what, (spec(a.shape[:-2], a.dtype), spec(b.shape[:-2], b.dtype)))
        made = row(
            stretched(a, (*batch, *a.shape[-2:])), stretched(b, (*batch, *b.shape[-2:])), **options
        )
    if vector:
        made = reshape(made, shape=made.shape[:-1])
    return made  # type: ignore[no-any-return]


def _check_rows(what: str, a: Tensor, b: Tensor) -> None:
    if not b.ndim or b.shape[-1 if b.ndim == 1 else -2] != a.shape[-2]:
        raise ShapeError(
            f"{what}: x2 of shape {b.shape} does not fit matrices of shape {a.shape}; pass a "
            f"vector ({a.shape[-2]},) or columns (..., {a.shape[-2]}, K)"
        )


def _columns_together(row: Any, a: Any, b: Any, options: dict[str, bool]) -> Any:
    """Solve one matrix for the columns of a whole batch, so that it is factorized once."""
    n, k = b.shape[-2:]
    lead = b.shape[:-2]
    turned = permute(b, axes=(b.ndim - 2, *range(b.ndim - 2), b.ndim - 1))
    solved = row(a, reshape(turned, shape=(n, prod(lead) * k)), **options)
    return permute(
        reshape(solved, shape=(n, *lead, k)), axes=(*range(1, b.ndim - 1), 0, b.ndim - 1)
    )


def inv(x: Operand, /) -> Tensor:
    """Return the inverses of square matrices.

    To solve a system, `solve` is faster and more accurate.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128.

    Returns
    -------
    Tensor
        The inverses, in the shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.
    LinAlgError
        If a matrix is singular. It is raised when the result is computed. Devices without this
        check return infinities or NaN.

    See Also
    --------
    pinv : Pseudo-inverse, which singular matrices have too.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.inv(calor.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return rows.inv(as_tensor(x))  # type: ignore[no-any-return]


def _tolerance(what: str, rtol: Any, x: Tensor) -> Any:
    """Return rtol as one number for each matrix; max(M, N) times the dtype's epsilon by default."""
    matrices(what, x._value.spec)
    dtype, batch = real_of(x.dtype), x.shape[:-2]
    number = max(x.shape[-2:]) * mx.epsilon(x) if rtol is None else python_number(rtol)
    if isinstance(number, bool | int | float):
        given: Any = number_on(float(number), dtype, x.device)
    else:
        given = as_tensor(rtol, x)
        if given.dtype.kind == "complex":
            raise DTypeError(f"{what}: rtol is complex; pass a real tolerance")
    if given.dtype is not dtype:
        given = e.cast(given, dtype=dtype)
    return stretched(given, batch)


def pinv(x: Operand, /, *, rtol: float | Operand | None = None) -> Tensor:
    """Return the Moore-Penrose pseudo-inverses of matrices.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128.
    rtol : float or Tensor, default None
        Singular values up to `rtol` times the largest count as 0: one number, or a tensor that
        broadcasts to the batch axes (...). None is max(M, N) times the epsilon of the dtype.

    Returns
    -------
    Tensor
        The pseudo-inverses, of shape (..., N, M) in the dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or `rtol` does not broadcast.
    DTypeError
        If `x` has another dtype, or `rtol` is complex.
    LinAlgError
        If the iteration does not converge, as with NaN or infinite elements. It is raised when the
        result is computed. Devices without this check return NaN.

    References
    ----------
    The gradient follows G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and
    nonlinear least squares problems whose variables separate", SIAM J. Numer. Anal. 10(2), 1973,
    equation 4.12.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.pinv(calor.asarray([[2.0], [0.0]])).tolist()
    [[0.5, 0.0]]
    """
    x = as_tensor(x)
    return rows.pinv(x, _tolerance("pinv", rtol, x))  # type: ignore[no-any-return]


def matrix_rank(
    x: Operand, /, *, rtol: float | Operand | None = None, atol: float | Operand | None = None
) -> Tensor:
    """Return the number of singular values that exceed `rtol` times the largest.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128.
    rtol : float or Tensor, default None
        Relative tolerance: one number, or a tensor that broadcasts to the batch axes (...). None is
        max(M, N) times the epsilon of the dtype, or 0 if `atol` is given.
    atol : float or Tensor, default None
        Absolute tolerance, likewise. Singular values up to the larger of both tolerances count as
        0.

    Returns
    -------
    Tensor
        The ranks, of shape (...) in int64.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or a tolerance does not broadcast.
    DTypeError
        If `x` has another dtype, or a tolerance is complex.
    LinAlgError
        If the iteration does not converge, as with NaN or infinite elements. It is raised when the
        result is computed. Devices without this check return NaN.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.matrix_rank(calor.ones((3, 3))).item()
    1
    """
    x = as_tensor(x)
    relative = 0.0 if rtol is None and atol is not None else rtol
    tolerance = _tolerance("matrix_rank", relative, x)
    least = None if atol is None else _tolerance("matrix_rank", atol, x)
    return _rank(svd(x, full_matrices=False).S, tolerance, least)


def _rank(s: Any, tolerance: Any, least: Any = None) -> Tensor:
    axes = (s.ndim - 1,)
    if not s.shape[-1]:
        return r.sum(e.cast(s, dtype=dtypes.int64), axes=axes, dtype=dtypes.int64)  # type: ignore[no-any-return]
    bound = r.max(s, axes=axes) * tolerance
    if least is not None:
        bound = e.maximum(bound, least)
    kept = s > mx.broad_element(bound, s)
    return r.sum(kept, axes=axes, dtype=dtypes.int64)  # type: ignore[no-any-return]


def lstsq(
    x1: Operand,
    x2: Operand,
    /,
    *,
    rtol: float | Operand | None = None,
    rcond: float | None = None,
) -> LstsqResult:
    """Return the X of smallest norm that minimizes |x1 X − x2|².

    Parameters
    ----------
    x1 : Tensor, array or number
        Matrices of shape (..., M, N). The promoted dtype of both operands must be float32, float64,
        complex64 or complex128.
    x2 : Tensor, array or number
        A vector of shape (M,), or columns of shape (..., M, K). Axes before the last two broadcast
        with those of `x1`.
    rtol : float or Tensor, default None
        Singular values of `x1` up to `rtol` times the largest count as 0: one number, or a tensor
        that broadcasts to the batch axes (...). None is max(M, N) times the epsilon of the dtype.
    rcond : float, default None
        What NumPy and PyTorch call `rtol`. A negative number is the epsilon of the dtype.

    Returns
    -------
    LstsqResult
        The solution, the sums of squared residuals, and the rank and the singular values of `x1`.

    Raises
    ------
    ArgumentError
        If both `rtol` and `rcond` are given.
    ShapeError
        If `x1` has fewer than two axes, if `x2` has another number of rows, or if other axes or
        `rtol` do not broadcast.
    DTypeError
        If the dtypes have no common type, linear algebra does not compute in it, or `rtol` is
        complex.
    LinAlgError
        If the iteration does not converge, as with NaN or infinite elements. It is raised when the
        result is computed. Devices without this check return NaN.

    Examples
    --------
    >>> import calor
    >>> a = calor.asarray([[1.0], [1.0]])
    >>> found = calor.linalg.lstsq(a, calor.asarray([1.0, 3.0]))
    >>> found.solution.round().tolist(), found.residuals.round().item()
    ([2.0], 2.0)
    """
    a, b = together([x1, x2], "lstsq")
    if rcond is not None:
        if rtol is not None:
            raise ArgumentError("lstsq: rtol and rcond are the same number; pass one of them")
        rtol = mx.epsilon(a) if a.dtype.is_inexact and rcond < 0 else rcond
    tolerance = _tolerance("lstsq", rtol, a)
    _check_rows("lstsq", a, b)
    s = svd(a, full_matrices=False).S
    solution = matmul(rows.pinv(a, tolerance), b)
    squares: Any = mx.square_size(matmul(a, solution) - b)
    axis = squares.ndim - (1 if b.ndim == 1 else 2)
    residuals = r.sum(squares, axes=(axis,), dtype=squares.dtype)
    return LstsqResult(solution, residuals, _rank(s, tolerance), s)
