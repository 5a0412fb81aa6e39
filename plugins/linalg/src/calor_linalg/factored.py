"""Systems of matrices that are factorized already, by LU or Cholesky."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from calor.dtypes import int64
from calor.errors import DTypeError, ShapeError
from calor.functions.operands import as_tensor, as_tensors, stretched, together
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.indexing import take_along
from calor.ops.movement import expand, reshape
from calor.recording.recipes import broadcast_shapes
from calor.specs import spec
from calor_linalg import definitions, rules
from calor_linalg import matrices as mx
from calor_linalg import rows as rows
from calor_linalg.factors import LUResult, unpacked
from calor_linalg.triangular import triangular_solve

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


class LUFactors(NamedTuple):
    """LU factors of a batch of matrices in the form that `lu_solve` takes.

    Attributes
    ----------
    LU : Tensor
        Shape (..., M, N). U with its diagonal, and below it L without its ones.
    pivots : Tensor
        Shape (..., min(M, N)), int64. Row i was exchanged with row pivots[i], in this order.
    """

    LU: Tensor
    pivots: Tensor


class CholeskyResult(NamedTuple):
    """Cholesky factors, and which of them exist.

    Attributes
    ----------
    L : Tensor
        Shape (..., M, M). The factors; NaN from the column on that does not exist.
    info : Tensor
        Shape (...), int64. 0, or the order of the first leading minor that is not positive.
    """

    L: Tensor
    info: Tensor


def _pivots(order: Any, count: int) -> Any:
    """Return exchanges of rows whose product is a permutation."""
    places = mx.places(order)

    def step(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        current, found = state
        wanted = mx.element_at(order, i)
        hit = e.equal(current, mx.broad_element(wanted, current))
        place = r.sum(mx.masked(hit, places), axes=(places.ndim - 1,), dtype=int64)
        current, spot = _exchanged(current, i, place, places)
        return current, e.where(spot, mx.broad_element(place, found), found)

    found = definitions.repeat(count, step, (places, mx.zeros(places)))[1]
    return mx.elements(found, 0, count)


def _exchanged(current: Any, i: Any, place: Any, places: Any) -> tuple[Any, Any]:
    """Return vectors with elements i and place exchanged, and where element i is."""
    spot = e.equal(places, expand(i, shape=places.shape))
    target = mx.broad_element(place, places)
    here = mx.broad_element(mx.element_at(current, i), current)
    there = take_along(current, target, axis=current.ndim - 1)
    moved = e.where(e.equal(places, target), here, current)
    return e.where(spot, there, moved), spot


def _order(pivots: Any, count: int) -> Any:
    """Return the permutation of ``count`` rows that exchanges of rows make."""
    like = expand(reshape(mx.integer(0, pivots), shape=(1,)), shape=(*pivots.shape[:-1], count))
    places = mx.places(like)
    pivots = mx.as_type(pivots, places)

    def step(i: Any, current: Any) -> Any:
        return _exchanged(current, i, mx.element_at(pivots, i), places)[0]

    return definitions.repeat(pivots.shape[-1], step, places)


def lu_factor(x: Operand, /) -> LUFactors:
    """Return the LU factorization of matrices with partial pivoting, packed in one matrix.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128.

    Returns
    -------
    LUFactors
        The factors in the shape and dtype of `x`, and the exchanges of rows, counted from 0 as in
        SciPy and JAX (PyTorch counts from 1).

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    DTypeError
        If `x` has another dtype.

    See Also
    --------
    lu_solve : Solves systems with these factors.
    lu_unpack : P, L and U of these factors.

    References
    ----------
    LAPACK, routine ``getrf``.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.lu_factor(calor.asarray([[1.0, 2.0], [2.0, 2.0]])).pivots.tolist()
    [1, 1]
    """
    packed, order = rows.lu(as_tensor(x))
    return LUFactors(packed, _pivots(order, min(packed.shape[-2:])))


def lu_unpack(factors: LUFactors | tuple[Tensor, Tensor], /) -> LUResult:
    """Return P, L and U of packed LU factors, x = P L U.

    Parameters
    ----------
    factors : LUFactors
        What `lu_factor` gave: packed factors of shape (..., M, N) and exchanges of rows.

    Returns
    -------
    LUResult
        P of shape (..., M, M), L of shape (..., M, K) and U of shape (..., K, N), where
        K = min(M, N), in the dtype of the factors.

    Raises
    ------
    ShapeError
        If the factors have fewer than two axes, or the exchanges do not fit them.
    DTypeError
        If the factors have a dtype that linear algebra does not compute in, or the exchanges are no
        integers.

    Examples
    --------
    >>> import calor
    >>> factors = calor.linalg.lu_factor(calor.asarray([[1.0, 2.0], [2.0, 2.0]]))
    >>> calor.linalg.lu_unpack(factors).L.tolist()
    [[1.0, 0.0], [0.5, 1.0]]
    """
    packed, pivots = _factors("lu_unpack", factors)
    return unpacked(packed, _order(pivots, packed.shape[-2]))


def pair_of(what: str, factors: Any, maker: str) -> list[Any]:
    """Return the two tensors of a factorisation; ShapeError for what is no pair."""
    if not isinstance(factors, tuple | list) or len(factors) != 2:
        raise ShapeError(
            f"{what}: factors is a {type(factors).__name__}; pass both results of "
            f"calor.linalg.{maker}"
        )
    return as_tensors(*factors)


def _factors(what: str, factors: Any) -> tuple[Any, Any]:
    packed, pivots = pair_of(what, factors, "lu_factor")
    rules.matrices(what, packed._value.spec)
    if not pivots.dtype.is_integer:
        raise DTypeError(
            f"{what}: exchanges of rows are integers, not {pivots.dtype.name}; pass both results "
            f"of calor.linalg.lu_factor"
        )
    wanted = (*packed.shape[:-2], min(packed.shape[-2:]))
    if pivots.shape != wanted:
        raise ShapeError(
            f"{what}: exchanges of shape {pivots.shape} do not fit factors of shape "
            f"{packed.shape}; they have shape {wanted}"
        )
    return packed, pivots


def columns_of(what: str, a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Return matrices and columns with the same batch axes, and whether b was a vector."""
    vector = b.ndim == 1
    if vector:
        b = reshape(b, shape=(*b.shape, 1))
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"{what}: right-hand sides of shape {b.shape} do not fit matrices of shape {a.shape}; "
            f"they have {a.shape[-1]} rows"
        )
    batch = broadcast_shapes(what, (spec(a.shape[:-2], a.dtype), spec(b.shape[:-2], b.dtype)))
    a = stretched(a, (*batch, *a.shape[-2:]))
    return a, stretched(b, (*batch, *b.shape[-2:])), vector


def lu_solve(
    factors: LUFactors | tuple[Tensor, Tensor],
    b: Operand,
    /,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Tensor:
    """Return the solution X of the linear system A X = b from LU factors of A.

    Parameters
    ----------
    factors : LUFactors
        What `lu_factor` gave of square matrices A, of shape (..., M, M).
    b : Tensor, array or number
        A vector of shape (M,), or columns of shape (..., M, K); rows of shape (..., K, M) with
        ``left=False``. Axes before the last two broadcast.
    left : bool, default True
        Whether A stands left of X; otherwise the system is X A = b.
    adjoint : bool, default False
        Solve with the conjugate transpose of A instead.

    Returns
    -------
    Tensor
        The solution, in the shape of `b` with the batch axes of the factors.

    Raises
    ------
    ShapeError
        If the matrices are not square, or the shapes do not fit.
    DTypeError
        If the dtypes have no common type, or linear algebra does not compute in it.

    References
    ----------
    LAPACK, routine ``getrs``.

    Examples
    --------
    >>> import calor
    >>> factors = calor.linalg.lu_factor(calor.asarray([[2.0, 0.0], [0.0, 4.0]]))
    >>> calor.linalg.lu_solve(factors, calor.asarray([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    packed, pivots = _factors("lu_solve", factors)
    rules.square("lu_solve", packed._value.spec)
    packed, right = together([packed, b], "lu_solve")
    if not left:
        # X A = b is Aᴴ Xᴴ = bᴴ.
        turned = right if right.ndim == 1 else mx.adjoint(right)
        made = lu_solve((packed, pivots), turned, adjoint=not adjoint)
        return made if right.ndim == 1 else mx.adjoint(made)
    a, columns, vector = columns_of("lu_solve", packed, right)
    order = stretched(_order(pivots, packed.shape[-1]), a.shape[:-1])
    made = _backward(a, order, columns) if adjoint else _forward(a, order, columns)
    return reshape(made, shape=made.shape[:-1]) if vector else made  # type: ignore[no-any-return]


def _forward(a: Any, order: Any, b: Any) -> Any:
    b = take_along(b, mx.broad_column(order, b), axis=b.ndim - 2)
    b = triangular_solve(a, b, lower=True, transpose=False, unit_diagonal=True)
    return triangular_solve(a, b, lower=False, transpose=False, unit_diagonal=False)


def _backward(a: Any, order: Any, b: Any) -> Any:
    """Return the solution with Aᴴ = Uᴴ Lᴴ P."""
    conjugated = e.conjugate(a)
    b = triangular_solve(conjugated, b, lower=False, transpose=True, unit_diagonal=False)
    b = triangular_solve(conjugated, b, lower=True, transpose=True, unit_diagonal=True)
    hits = e.equal(mx.broad_row(order, mx.square_identity(a, a.shape[-1])), mx.row_and_column(a)[0])
    return mx.product(e.cast(hits, dtype=b.dtype), b)


def cholesky_ex(x: Operand, /, *, upper: bool = False) -> CholeskyResult:
    """Return Cholesky factors, and a number instead of an error where there is none.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128.
    upper : bool, default False
        Return U with x = Uᴴ U instead of L.

    Returns
    -------
    CholeskyResult
        The factors, and for each matrix 0 or the order of the first leading minor that is not
        positive.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.cholesky_ex(calor.asarray([[1.0, 2.0], [2.0, 1.0]])).info.item()
    2
    """
    x = as_tensor(x)
    rules.square("cholesky_ex", x._value.spec)
    low: Any = rows.cholesky_or_nan(mx.adjoint(x) if upper else x)
    pivots = mx.real_part(mx.diagonal(low))
    good = e.isfinite(pivots) & (pivots > 0)
    n = pivots.shape[-1]
    places = e.where(good, mx.filled(mx.places(pivots), n), mx.places(pivots))
    zero = (
        e.cast(r.sum(pivots, axes=(pivots.ndim - 1,), dtype=pivots.dtype) * 0 != 0, dtype=int64) * 0
    )
    first = r.min(places, axes=(places.ndim - 1,)) if n else zero
    info = e.where(first < n, first + 1, first * 0)
    return CholeskyResult(mx.adjoint(low) if upper else low, info)


def cholesky_solve(b: Operand, factor: Operand, /, *, upper: bool = False) -> Tensor:
    """Return the solution X of the linear system A X = b from the Cholesky factor of A.

    Parameters
    ----------
    b : Tensor, array or number
        A vector of shape (M,), or columns of shape (..., M, K). Axes before the last two broadcast.
    factor : Tensor, array or number
        What `cholesky` gave: L of shape (..., M, M) with A = L Lᴴ.
    upper : bool, default False
        The factor is U with A = Uᴴ U.

    Returns
    -------
    Tensor
        The solution, in the shape of `b` with the batch axes of the factor.

    Raises
    ------
    ShapeError
        If the factors are not square, or the shapes do not fit.
    DTypeError
        If the dtypes have no common type, or linear algebra does not compute in it.

    References
    ----------
    LAPACK, routine ``potrs``.

    Examples
    --------
    >>> import calor
    >>> low = calor.linalg.cholesky(calor.asarray([[4.0, 0.0], [0.0, 1.0]]))
    >>> calor.linalg.cholesky_solve(calor.asarray([8.0, 3.0]), low).tolist()
    [2.0, 3.0]
    """
    right, a = together([b, factor], "cholesky_solve")
    rules.square("cholesky_solve", a._value.spec)
    a, columns, vector = columns_of("cholesky_solve", a, right)
    low = mx.adjoint(a) if upper else a
    made: Any = triangular_solve(low, columns, lower=True, transpose=False, unit_diagonal=False)
    made = triangular_solve(e.conjugate(low), made, lower=True, transpose=True, unit_diagonal=False)
    return reshape(made, shape=made.shape[:-1]) if vector else made  # type: ignore[no-any-return]


def cholesky_inverse(factor: Operand, /, *, upper: bool = False) -> Tensor:
    """Return the inverse of a Hermitian positive definite matrix from its Cholesky factor.

    Parameters
    ----------
    factor : Tensor, array or number
        What `cholesky` gave: L of shape (..., M, M), the inverse being that of L Lᴴ.
    upper : bool, default False
        The factor is U, and the inverse that of Uᴴ U.

    Returns
    -------
    Tensor
        The inverse matrices, in the shape and dtype of the factor.

    Raises
    ------
    ShapeError
        If the factors are not square.
    DTypeError
        If linear algebra does not compute in the dtype.

    References
    ----------
    LAPACK, routine ``potri``.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.cholesky_inverse(calor.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """
    a = as_tensor(factor)
    rules.square("cholesky_inverse", a._value.spec)
    return cholesky_solve(mx.identity(a), a, upper=upper)
