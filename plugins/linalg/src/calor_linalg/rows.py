"""Rows of linear algebra: kept composites on the last two axes; axes before them are a batch.

Requirements: a device may run each row whole, as the reference does; any other device gets the
decomposition. Every row owns its gradient, written in ops, so that gradients of any order exist.
Gradients of factors hold for functions that do not depend on the choice of signs and phases. Equal
eigenvalues or singular values have a gradient; that of their vectors is NaN. On the reference, a
matrix without a result raises LinearAlgebraError when the result is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calor.dtypes import complex64, complex128, float32, float64, int64, real_of
from calor.errors import DTypeError, LinearAlgebraError, ShapeError
from calor.ops import elementwise as e
from calor.ops.base import op
from calor.ops.indexing import scatter_along
from calor.ops.movement import concat
from calor.ops.sources import zeros_of
from calor.specs import Spec, spec
from calor_linalg import definitions as definitions
from calor_linalg import jacobi as jacobi
from calor_linalg import matrices as mx
from calor_linalg import reference

_DTYPES = (float32, float64, complex64, complex128)


def matrices(what: str, x: Spec) -> None:
    """Raise unless x holds matrices of a dtype that linear algebra computes in."""
    if x.ndim < 2:
        raise ShapeError(
            f"{what}: x has shape {x.shape}; pass matrices, at least two axes (..., M, N)"
        )
    if x.dtype not in _DTYPES:
        raise DTypeError(
            f"{what} computes in float32, float64, complex64 or complex128, not {x.dtype.name}; "
            f"cast with x.astype(calor.float32)"
        )


def square(what: str, x: Spec) -> None:
    """Raise unless x holds square matrices of a dtype that linear algebra computes in."""
    matrices(what, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{what}: matrices of shape {x.shape} are not square; pass shape (..., M, M)"
        )


def square_rule(what: str) -> Callable[..., Spec]:
    """Return the rule of an op from square matrices to matrices of the same spec."""

    def rule(x: Spec) -> Spec:
        square(what, x)
        return spec(x.shape, x.dtype)

    return rule


def typed_errors(what: str, function: Callable[..., Any], problem: str) -> Callable[..., Any]:
    """Return a reference that raises LinearAlgebraError, with advice, for NumPy's LinAlgError."""

    def run(*arrays: Any, **attributes: Any) -> Any:
        try:
            return function(*arrays, **attributes)
        except np.linalg.LinAlgError:
            shape = arrays[0].shape
            which = "the matrix" if len(shape) == 2 else f"one of the matrices of shape {shape}"
            raise LinearAlgebraError(f"{what}: {which} {problem}") from None

    return run


_NO_CONVERGENCE = (
    "has NaN or infinite elements, so the iteration does not converge; "
    "find them with calor.isfinite(x)"
)


# Cholesky: Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10.
def _cholesky_vjp(g: Any, y: Any, x: Any) -> list[Any]:
    from calor_linalg.solutions import triangular_solve

    half = mx.lower(mx.product(mx.adjoint(y), mx.lower(g)))
    half = half - mx.identity(half) * half * 0.5
    middle = half + mx.adjoint(half)
    # L⁻ᴴ · middle · L⁻¹, by one system from each side.
    options = {"lower": True, "transpose": True, "unit_diagonal": False}
    left = triangular_solve(e.conjugate(y), middle, **options)
    return [mx.adjoint(triangular_solve(e.conjugate(y), mx.adjoint(left), **options)) * 0.5]


# Lower triangular L with x = L Lᴴ; only the lower triangle of x is read.
cholesky = op(
    "cholesky",
    square_rule("cholesky"),
    typed_errors(
        "cholesky",
        lambda x: reference.cholesky(x, upper=False),
        "is not positive definite; add a small number to its diagonal if it should be",
    ),
    _cholesky_vjp,
    saves="y",
    decompose=definitions.cholesky,
)


# QR: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application
# in optimum experimental design" (2010); wide matrices as Q [R₁ R₂] with R₂ = Qᴴ X₂.
def _qr_rule(x: Spec, *, mode: str) -> tuple[Spec, Spec]:
    matrices("qr", x)
    m, n = x.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    lead = x.shape[:-2]
    return spec((*lead, m, k), x.dtype), spec((*lead, k, n), x.dtype)


def _qr_vjp(g: Any, y: Any, x: Any, *, mode: str) -> list[Any]:
    (g_q, g_r), (q, r) = g, y
    m, n = x.shape[-2:]
    if m > n and mode == "complete":
        g_q = _without_completion(g_q, q, n)
        q, g_r, r = mx.column_block(q, 0, n), mx.row_block(g_r, 0, n), mx.row_block(r, 0, n)
    if m >= n:
        return [_tall_qr(g_q, g_r, q, r)]
    rest = mx.product(q, mx.column_block(r, m, n))
    g_rest = mx.column_block(g_r, m, n)
    g_q = g_q + mx.product(rest, mx.adjoint(g_rest))
    first = _tall_qr(g_q, mx.column_block(g_r, 0, m), q, mx.column_block(r, 0, m))
    return [concat(first, mx.product(q, g_rest), axis=g_r.ndim - 1)]


def _tall_qr(g_q: Any, g_r: Any, q: Any, r: Any) -> Any:
    from calor_linalg.solutions import triangular_solve

    inner = mx.product(g_r, mx.adjoint(r)) - mx.product(mx.adjoint(q), g_q)
    above = mx.upper(inner, strict=True)
    middle = mx.as_type(mx.real_part(mx.diagonal(inner)), inner)
    turned = g_q + mx.product(q, above + mx.adjoint(above) + mx.diagonal_matrix(middle))
    # turned · R⁻ᴴ
    solved = triangular_solve(
        r, mx.adjoint(turned), lower=False, transpose=False, unit_diagonal=False
    )
    return mx.adjoint(solved)


def _without_completion(g: Any, basis: Any, k: int) -> Any:
    """Return the gradient of the first k columns of a unitary matrix from that of all columns.

    The other columns span the orthogonal complement of the first: they change by −U₁ dU₁ᴴ U₂. A
    rotation among themselves has no effect.
    """
    first, rest = mx.column_block(basis, 0, k), mx.column_block(basis, k, basis.shape[-1])
    g_rest = mx.column_block(g, k, basis.shape[-1])
    turned = mx.product(rest, mx.product(mx.adjoint(g_rest), first))
    return mx.column_block(g, 0, k) - turned


# Q with orthonormal columns and upper triangular R, x = Q R; mode "reduced" or "complete".
qr = op("qr", _qr_rule, reference.qr, _qr_vjp, saves="y", decompose=definitions.qr)


# SVD: Townsend, "Differentiating the singular value decomposition" (2016); complex: Wan and Zhang,
# "Automatic differentiation for complex valued SVD" (2019).
def _svd_rule(x: Spec, *, full_matrices: bool) -> tuple[Spec, Spec, Spec]:
    matrices("svd", x)
    m, n = x.shape[-2:]
    k, lead = min(m, n), x.shape[:-2]
    rows, columns = (m, n) if full_matrices else (k, k)
    return (
        spec((*lead, m, rows), x.dtype),
        spec((*lead, k), real_of(x.dtype)),
        spec((*lead, columns, n), x.dtype),
    )


def _svd_vjp(g: Any, y: Any, x: Any, *, full_matrices: bool) -> list[Any]:
    (g_u, g_s, g_vh), (u, s, vh) = g, y
    m, n = x.shape[-2:]
    k = min(m, n)
    g_v, v = mx.adjoint(g_vh), mx.adjoint(vh)
    if full_matrices:
        if m > k:
            g_u, u = _without_completion(g_u, u, k), mx.column_block(u, 0, k)
        if n > k:
            g_v, v = _without_completion(g_v, v, k), mx.column_block(v, 0, k)
    inner_u, inner_v = (mx.product(mx.adjoint(t), g_t) for t, g_t in ((u, g_u), (v, g_v)))
    turn_u, turn_v = inner_u - mx.adjoint(inner_u), inner_v - mx.adjoint(inner_v)
    rows, columns = mx.broad_column(s, turn_u), mx.broad_row(s, turn_u)
    mixed = turn_u * mx.as_type(columns, turn_u) + turn_v * mx.as_type(rows, turn_u)
    # s_j² − s_i² in two factors, which keeps the digits of close values.
    core = _by_gaps(mixed, (columns - rows) * (columns + rows), inner_u, inner_v)
    middle = mx.as_type(g_s, core)
    if core.dtype.is_complex:
        middle = middle + _by_size(mx.diagonal(turn_u), s * 2)
    core = core + mx.diagonal_matrix(middle)
    total = mx.product(u, mx.product(core, mx.adjoint(v)))
    if m > k:
        part = _by_size(_outside(g_u, u), mx.broad_row(s, g_u))
        total = total + mx.product(part, mx.adjoint(v))
    if n > k:
        part = _by_size(_outside(g_v, v), mx.broad_row(s, g_v))
        total = total + mx.product(u, mx.adjoint(part))
    return [total]


def _by_gaps(x: Any, gaps: Any, *read: Any) -> Any:
    """Return x / gaps off the diagonal, and 0 on it.

    A gap of 0 gives a quotient that is not finite. The exception is a pair of vectors of which no
    gradient in ``read`` (the terms of x, before opposite elements cancel) depends: it gives 0.
    """
    row, column = mx.row_and_column(gaps)
    diagonal = row == column
    unread = e.equal(gaps, mx.zeros(gaps))
    for t in read:
        silent = e.equal(t, mx.zeros(t))
        unread = unread & silent & mx.transposed(silent)
    gaps = e.where(diagonal, mx.ones(gaps), gaps)
    return mx.masked(~(diagonal | unread), x / mx.as_type(gaps, x))


def _by_size(x: Any, size: Any) -> Any:
    """Return x / size, where 0 / 0 is 0."""
    nothing = e.equal(x, mx.zeros(x)) & e.equal(size, mx.zeros(size))
    return mx.masked(~nothing, x / mx.as_type(size, x))


def _outside(g: Any, basis: Any) -> Any:
    """Return the projection of g on the orthogonal complement of a basis."""
    return g - mx.product(basis, mx.product(mx.adjoint(basis), g))


# U, the singular values in descending order, and Vᴴ, x = U diag(s) Vᴴ.
svd = op(
    "svd",
    _svd_rule,
    typed_errors("svd", reference.svd, _NO_CONVERGENCE),
    _svd_vjp,
    saves="y",
    decompose=jacobi.svd,
)


# Eigenvalues and eigenvectors: Giles, "An extended collection of matrix derivative results for
# forward and reverse mode algorithmic differentiation" (2008), 3.1.
def _eigh_rule(x: Spec) -> tuple[Spec, Spec]:
    square("eigh", x)
    return spec(x.shape[:-1], real_of(x.dtype)), spec(x.shape, x.dtype)


def _eigh_vjp(g: Any, y: Any, x: Any) -> list[Any]:
    (g_values, g_vectors), (values, vectors) = g, y
    inner = mx.product(mx.adjoint(vectors), g_vectors)
    gaps = mx.broad_row(values, inner) - mx.broad_column(values, inner)
    # The skew-Hermitian part: the gradient is Hermitian, as the matrix is.
    turn = (inner - mx.adjoint(inner)) * 0.5
    core = _by_gaps(turn, gaps, inner) + mx.diagonal_matrix(mx.as_type(g_values, turn))
    return [mx.product(vectors, mx.product(core, mx.adjoint(vectors)))]


# Eigenvalues, ascending, and eigenvectors of Hermitian matrices; only the lower triangle is read.
eigh = op(
    "eigh",
    _eigh_rule,
    typed_errors("eigh", reference.eigh, _NO_CONVERGENCE),
    _eigh_vjp,
    saves="y",
    decompose=jacobi.eigh,
)


# LU: x[p] = L U. The leading square block comes first; the rest of a tall L or of a wide U follows
# from it by triangular solves.
def _lu_rule(x: Spec) -> tuple[Spec, Spec]:
    matrices("lu", x)
    return spec(x.shape, x.dtype), spec(x.shape[:-1], int64)


def _lu_vjp(g: Any, y: Any, x: Any) -> list[Any]:
    from calor_linalg.solutions import triangular_solve

    g_packed, (packed, order) = g[0], y
    m, n = x.shape[-2:]
    k = min(m, n)
    head = mx.block(packed, (0, k), (0, k))
    g_head = mx.block(g_packed, (0, k), (0, k))
    low = mx.lower(head, strict=True) + mx.identity(head)
    up = mx.upper(head)

    def from_left(b: Any) -> Any:
        """Return L⁻ᴴ b."""
        return triangular_solve(e.conjugate(low), b, lower=True, transpose=True, unit_diagonal=True)

    def from_right(b: Any) -> Any:
        """Return b U⁻ᴴ."""
        return mx.adjoint(
            triangular_solve(up, mx.adjoint(b), lower=False, transpose=False, unit_diagonal=False)
        )

    inner_low = mx.product(mx.adjoint(low), mx.lower(g_head, strict=True))
    inner_up = mx.product(mx.upper(g_head), mx.adjoint(up))
    rest = None
    if n > k:
        right, g_right = (mx.block(t, (0, k), (k, n)) for t in (packed, g_packed))
        rest = from_left(g_right)
        inner_low = inner_low - mx.product(g_right, mx.adjoint(right))
    if m > k:
        below, g_below = (mx.block(t, (k, m), (0, k)) for t in (packed, g_packed))
        rest = from_right(g_below)
        inner_up = inner_up - mx.product(mx.adjoint(below), g_below)
    core = mx.lower(inner_low, strict=True) + mx.upper(inner_up)
    total = from_right(from_left(core))
    if rest is not None:
        total = concat(total, rest, axis=total.ndim - (1 if n > k else 2))
    zeros = zeros_of(spec(x.shape, total.dtype), total.device)
    places = mx.broad_column(order, total)
    return [scatter_along(zeros, places, total, axis=total.ndim - 2, update="assign")]


# L (ones on its diagonal, not stored) and U packed in one matrix, and the order p of x's rows.
lu = op("lu", _lu_rule, reference.lu, _lu_vjp, saves="y", decompose=definitions.lu)
