"""Products of Householder reflections, and the factorization that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from calor.errors import ShapeError
from calor.functions.operands import as_tensor, together
from calor_linalg import definitions, rules
from calor_linalg import matrices as mx

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


class GeqrfResult(NamedTuple):
    """A QR factorization as reflections.

    Attributes
    ----------
    a : Tensor
        Shape (..., M, N). R, and below its diagonal the vectors of the reflections.
    tau : Tensor
        Shape (..., min(M, N)). The factors of the reflections I − τ v vᴴ.
    """

    a: Tensor
    tau: Tensor


def geqrf(x: Operand, /) -> GeqrfResult:
    """Return the QR factorization of matrices as Householder reflections.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128.

    Returns
    -------
    GeqrfResult
        R with the vectors of the reflections below its diagonal, and the factors of these.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    DTypeError
        If `x` has another dtype.

    See Also
    --------
    householder_product : Q of these reflections.
    ormqr : Products with Q, without Q itself.

    References
    ----------
    LAPACK, routine ``geqrf``.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.geqrf(calor.asarray([[3.0], [4.0]])).a.round().tolist()[0]
    [-5.0]
    """
    x = as_tensor(x)
    rules.matrices("geqrf", x._value.spec)
    k = min(x.shape[-2:])
    if not x.size:
        return GeqrfResult(x, mx.elements(mx.diagonal(x), 0, k))
    packed, taus = definitions.reflections(x)
    return GeqrfResult(packed, mx.elements(taus, 0, k))


def _reflections(what: str, x: Any, tau: Any) -> tuple[Any, Any]:
    a, taus = together([x, tau], what)
    rules.matrices(what, a._value.spec)
    m, n = a.shape[-2:]
    if not taus.ndim or taus.shape[:-1] != a.shape[:-2] or taus.shape[-1] > min(m, n):
        raise ShapeError(
            f"{what}: factors of shape {taus.shape} do not fit vectors of shape {a.shape}; pass "
            f"both results of calor.linalg.geqrf"
        )
    return a, taus


def householder_product(x: Operand, tau: Operand, /) -> Tensor:
    """Return the first columns of a product of Householder reflections, Q = H₁ H₂ … Hₖ.

    Parameters
    ----------
    x : Tensor, array or number
        Shape (..., M, N) with M ≥ N: column i holds the vector of reflection i below its diagonal;
        the elements on and above it are not read.
    tau : Tensor, array or number
        Shape (..., K) with K ≤ N: the factors of the reflections.

    Returns
    -------
    Tensor
        Q in the shape and common dtype; its columns are orthonormal for factors of `geqrf`.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or the matrices are wider than tall.
    DTypeError
        If linear algebra does not compute in the dtype.

    References
    ----------
    LAPACK, routines ``orgqr`` and ``ungqr``.

    Examples
    --------
    >>> import calor
    >>> q = calor.linalg.householder_product(*calor.linalg.geqrf(calor.asarray([[3.0], [4.0]])))
    >>> (q * 5).round().tolist()
    [[-3.0], [-4.0]]
    """
    a, taus = _reflections("householder_product", x, tau)
    m, n = a.shape[-2:]
    if m < n:
        raise ShapeError(
            f"householder_product: matrices of shape {a.shape} are wider than tall; pass at most "
            f"{m} columns"
        )
    start = mx.column_block(mx.square_identity(a, m), 0, n)
    if not a.size or not taus.shape[-1]:
        return start  # type: ignore[no-any-return]
    return definitions.reflected(a, taus, start)  # type: ignore[no-any-return]


def ormqr(
    x: Operand,
    tau: Operand,
    other: Operand,
    /,
    *,
    left: bool = True,
    transpose: bool = False,
) -> Tensor:
    """Return the product of a matrix with the Q of Householder reflections.

    Parameters
    ----------
    x : Tensor, array or number
        Shape (..., M, N): the vectors of the reflections below the diagonal, as `geqrf` gives them.
    tau : Tensor, array or number
        Shape (..., K): the factors of the reflections.
    other : Tensor, array or number
        Matrices of shape (..., M, P), or (..., P, M) with ``left=False``.
    left : bool, default True
        Whether Q stands left of `other`.
    transpose : bool, default False
        Multiply with the conjugate transpose of Q.

    Returns
    -------
    Tensor
        The products, in the shape of `other`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    DTypeError
        If linear algebra does not compute in the dtype.

    References
    ----------
    LAPACK, routines ``ormqr`` and ``unmqr``.

    Examples
    --------
    >>> import calor
    >>> a = calor.asarray([[3.0], [4.0]])
    >>> packed, tau = calor.linalg.geqrf(a)
    >>> calor.linalg.ormqr(packed, tau, a, transpose=True).round().tolist()
    [[-5.0], [0.0]]
    """
    a, taus = _reflections("ormqr", x, tau)
    a, c = together([a, other], "ormqr")
    m = a.shape[-2]
    if c.ndim != a.ndim or c.shape[:-2] != a.shape[:-2] or c.shape[-2 if left else -1] != m:
        raise ShapeError(
            f"ormqr: a matrix of shape {c.shape} does not fit reflections of {m} elements and "
            f"batch axes {a.shape[:-2]}"
        )
    if not taus.shape[-1] or not c.size:
        return c
    if left:
        return definitions.reflected(a, taus, c, transpose)  # type: ignore[no-any-return]
    # C Q is (Qᴴ Cᴴ)ᴴ.
    return mx.adjoint(  # type: ignore[no-any-return]
        definitions.reflected(a, taus, mx.adjoint(c), not transpose)
    )
