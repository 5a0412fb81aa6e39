"""Rows of linear algebra: kept composites on the last two axes; axes before them are a batch.

Requirements: a device may run each row whole, as the reference does; any other device gets the
decomposition. Every row owns its gradient, written in ops, so that gradients of any order exist.
Gradients of factors hold for functions that do not depend on the choice of signs and phases. Equal
eigenvalues or singular values have a gradient; that of their vectors is NaN. On the reference, a
matrix without a result raises LinearAlgebraError when the result is computed.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import int64
from calor.ops import elementwise as e
from calor.ops.base import op
from calor.ops.indexing import scatter_along
from calor.ops.movement import concat
from calor.ops.sources import zeros_of
from calor.specs import Spec, spec
from calor_linalg import definitions as definitions
from calor_linalg import matrices as mx
from calor_linalg import reference
from calor_linalg.rules import NOT_POSITIVE, matrices, square_rule, typed_errors
from calor_linalg.triangular import triangular_solve


# Cholesky: Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10.
def _cholesky_vjp(g: Any, y: Any, x: Any) -> list[Any]:
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
        NOT_POSITIVE,
    ),
    _cholesky_vjp,
    saves="y",
    decompose=definitions.cholesky,
    batch="leading",
)


# The same without an error: a matrix that is not positive definite has what is no number from its
# first bad pivot on, and its neighbours in a stack have their factors.
cholesky_or_nan = op(
    "cholesky_or_nan",
    square_rule("cholesky_ex"),
    reference.cholesky_or_nan,
    _cholesky_vjp,
    saves="y",
    decompose=lambda x: cholesky(x),
    batch="leading",
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
        g_q = without_completion(g_q, q, n)
        q, g_r, r = mx.column_block(q, 0, n), mx.row_block(g_r, 0, n), mx.row_block(r, 0, n)
    if m >= n:
        return [_tall_qr(g_q, g_r, q, r)]
    rest = mx.product(q, mx.column_block(r, m, n))
    g_rest = mx.column_block(g_r, m, n)
    g_q = g_q + mx.product(rest, mx.adjoint(g_rest))
    first = _tall_qr(g_q, mx.column_block(g_r, 0, m), q, mx.column_block(r, 0, m))
    return [concat(first, mx.product(q, g_rest), axis=g_r.ndim - 1)]


def _tall_qr(g_q: Any, g_r: Any, q: Any, r: Any) -> Any:
    inner = mx.product(g_r, mx.adjoint(r)) - mx.product(mx.adjoint(q), g_q)
    above = mx.upper(inner, strict=True)
    middle = mx.as_type(mx.real_part(mx.diagonal(inner)), inner)
    turned = g_q + mx.product(q, above + mx.adjoint(above) + mx.diagonal_matrix(middle))
    # turned · R⁻ᴴ
    solved = triangular_solve(
        r, mx.adjoint(turned), lower=False, transpose=False, unit_diagonal=False
    )
    return mx.adjoint(solved)


def without_completion(g: Any, basis: Any, k: int) -> Any:
    """Return the gradient of the first k columns of a unitary matrix from that of all columns.

    The other columns span the orthogonal complement of the first: they change by −U₁ dU₁ᴴ U₂. A
    rotation among themselves has no effect.
    """
    first, rest = mx.column_block(basis, 0, k), mx.column_block(basis, k, basis.shape[-1])
    g_rest = mx.column_block(g, k, basis.shape[-1])
    turned = mx.product(rest, mx.product(mx.adjoint(g_rest), first))
    return mx.column_block(g, 0, k) - turned


# Q with orthonormal columns and upper triangular R, x = Q R; mode "reduced" or "complete".
qr = op("qr", _qr_rule, reference.qr, _qr_vjp, saves="y", decompose=definitions.qr, batch="leading")


# LU: x[p] = L U. The leading square block comes first; the rest of a tall L or of a wide U follows
# from it by triangular solves.
def _lu_rule(x: Spec) -> tuple[Spec, Spec]:
    matrices("lu", x)
    return spec(x.shape, x.dtype), spec(x.shape[:-1], int64)


def _lu_vjp(g: Any, y: Any, x: Any) -> list[Any]:
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
lu = op("lu", _lu_rule, reference.lu, _lu_vjp, saves="y", decompose=definitions.lu, batch="leading")
