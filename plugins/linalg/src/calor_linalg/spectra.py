"""Rows of singular values and eigenvalues.

Requirements: those of the factorizations in `rows`, on whose QR the iterations stand.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import real_of
from calor.ops import elementwise as e
from calor.ops.base import op
from calor.specs import Spec, spec
from calor_linalg import jacobi as jacobi
from calor_linalg import matrices as mx
from calor_linalg import reference
from calor_linalg.rows import without_completion
from calor_linalg.rules import NO_CONVERGENCE, matrices, square, typed_errors


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
            g_u, u = without_completion(g_u, u, k), mx.column_block(u, 0, k)
        if n > k:
            g_v, v = without_completion(g_v, v, k), mx.column_block(v, 0, k)
    inner_u, inner_v = (mx.product(mx.adjoint(t), g_t) for t, g_t in ((u, g_u), (v, g_v)))
    turn_u, turn_v = inner_u - mx.adjoint(inner_u), inner_v - mx.adjoint(inner_v)
    rows, columns = mx.broad_column(s, turn_u), mx.broad_row(s, turn_u)
    mixed = turn_u * mx.as_type(columns, turn_u) + turn_v * mx.as_type(rows, turn_u)
    # s_j² − s_i² in two factors, which keeps the digits of close values.
    core = by_gaps(mixed, (columns - rows) * (columns + rows), inner_u, inner_v)
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


def by_gaps(x: Any, gaps: Any, *read: Any) -> Any:
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


def _svd(x: Any, *, full_matrices: bool) -> tuple[Any, Any, Any]:
    """Return U, s, Vᴴ; those of a wide matrix by its adjoint, which is tall."""
    if x.shape[-2] >= x.shape[-1]:
        return jacobi.svd(x, full_matrices=full_matrices)
    u, s, vh = svd(mx.adjoint(x), full_matrices=full_matrices)
    return mx.adjoint(vh), s, mx.adjoint(u)


# U, the singular values in descending order, and Vᴴ, x = U diag(s) Vᴴ.
svd = op(
    "svd",
    _svd_rule,
    typed_errors("svd", reference.svd, NO_CONVERGENCE),
    _svd_vjp,
    saves="y",
    decompose=_svd,
    batch="leading",
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
    core = by_gaps(turn, gaps, inner) + mx.diagonal_matrix(mx.as_type(g_values, turn))
    return [mx.product(vectors, mx.product(core, mx.adjoint(vectors)))]


# Eigenvalues, ascending, and eigenvectors of Hermitian matrices; only the lower triangle is read.
eigh = op(
    "eigh",
    _eigh_rule,
    typed_errors("eigh", reference.eigh, NO_CONVERGENCE),
    _eigh_vjp,
    saves="y",
    decompose=jacobi.eigh,
    batch="leading",
)
