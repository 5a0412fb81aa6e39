"""Rows of linear systems, inverses, determinants and the matrix exponential.

Requirements: those of the factorizations in `rows`. Gradients solve systems too; they form no
inverse.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, int64, real_of
from calor.errors import ShapeError
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.base import op
from calor.ops.indexing import take_along
from calor.ops.movement import concat, expand, reshape
from calor.specs import Spec, spec
from calor_linalg import definitions as definitions
from calor_linalg import matrices as mx
from calor_linalg import reference
from calor_linalg.rows import lu
from calor_linalg.rules import matrices, square, square_rule, system_rule, typed_errors
from calor_linalg.spectra import svd
from calor_linalg.triangular import triangular_solve as triangular_solve

_SINGULAR = "is singular; use calor.linalg.lstsq, or calor.linalg.pinv for an inverse"


def _from_lu(packed: Any, order: Any, b: Any) -> Any:
    b = take_along(b, mx.broad_column(order, b), axis=b.ndim - 2)
    b = triangular_solve(packed, b, lower=True, transpose=False, unit_diagonal=True)
    return triangular_solve(packed, b, lower=False, transpose=False, unit_diagonal=False)


def _solve(a: Any, b: Any) -> Any:
    packed, order = lu(a)
    return _from_lu(packed, order, b)


def _solve_vjp(g: Any, y: Any, a: Any, b: Any) -> list[Any]:
    g_b = solve(mx.adjoint(a), g)
    return [-mx.product(g_b, mx.adjoint(y)), g_b]


# X with a X = b.
solve = op(
    "solve",
    system_rule("solve"),
    typed_errors("solve", reference.solve, _SINGULAR),
    _solve_vjp,
    saves="0y",
    decompose=_solve,
    batch="leading",
)


def _inv_vjp(g: Any, y: Any, x: Any) -> list[Any]:
    back = mx.adjoint(y)
    return [-mx.product(back, mx.product(g, back))]


inv = op(
    "inv",
    square_rule("inv"),
    typed_errors("inv", reference.inv, _SINGULAR),
    _inv_vjp,
    saves="y",
    decompose=lambda x: _solve(x, mx.identity(x)),
    batch="leading",
)


def _det_rule(x: Spec) -> Spec:
    square("det", x)
    return spec(x.shape[:-2], x.dtype)


def _swaps_sign(order: Any, dtype: DType) -> Any:
    """Return −1 for a permutation of an odd number of swaps, else 1."""
    # The number of inversions has the parity of the number of swaps.
    before = expand(reshape(order, shape=(*order.shape, 1)), shape=(*order.shape, order.shape[-1]))
    row, column = mx.row_and_column(before)
    wrong = (before > mx.broad_row(order, before)) & (row < column)
    count = mx.matrix_sums(e.cast(wrong, dtype=int64))
    return e.cast(1 - (count % 2) * 2, dtype=dtype)


def _det(x: Any) -> Any:
    packed, order = lu(x)
    pivots = r.prod(mx.diagonal(packed), axes=(x.ndim - 2,), dtype=x.dtype)
    return pivots * _swaps_sign(order, x.dtype)


def _det_vjp(g: Any, y: Any, x: Any) -> list[Any]:
    # Jacobi's formula with the adjugate, which singular matrices have too.
    return [mx.broad_number(g, x) * mx.adjoint(adjugate(x))]


det = op("det", _det_rule, reference.det, _det_vjp, saves="0", decompose=_det, batch="leading")


def _adjugate(x: Any) -> Any:
    n = x.shape[-1]
    if not n:
        return x
    u, s, vh = svd(x, full_matrices=False)
    # Product j is that of all singular values but the j-th.
    table = mx.broad_row(s, e.real(x) if x.dtype.is_complex else x)
    others = e.where(mx.identity(table) == 1, mx.ones(table), table)
    others = r.prod(others, axes=(x.ndim - 1,), dtype=s.dtype)
    turned = mx.product(mx.scale_columns(mx.adjoint(vh), others), mx.adjoint(u))
    return turned * mx.broad_number(det(u) * det(vh), x)


def _adjugate_vjp(g: Any, y: Any, x: Any) -> list[Any]:
    # adj(X) = det(X) X⁻¹: this second derivative needs a regular matrix.
    back = mx.adjoint(inv(x))
    size = mx.broad_number(e.conjugate(det(x)), x)
    along = mx.matrix_sums(g * e.conjugate(inv(x)))
    return [
        mx.broad_number(along, x) * mx.adjoint(y) - size * mx.product(back, mx.product(g, back))
    ]


# The transposed cofactors: det(X) X⁻¹ for a regular X, the limit of it for a singular one.
adjugate = op(
    "adjugate",
    square_rule("adjugate"),
    None,
    _adjugate_vjp,
    saves="0y",
    decompose=_adjugate,
    batch="leading",
)


def _slogdet_rule(x: Spec) -> tuple[Spec, Spec]:
    square("slogdet", x)
    return spec(x.shape[:-2], x.dtype), spec(x.shape[:-2], real_of(x.dtype))


def _slogdet(x: Any) -> tuple[Any, Any]:
    packed, order = lu(x)
    pivots = mx.diagonal(packed)
    axes = (pivots.ndim - 1,)
    signs = r.prod(e.sign(pivots), axes=axes, dtype=x.dtype) * _swaps_sign(order, x.dtype)
    logs = e.log(e.abs(pivots))
    return signs, r.sum(logs, axes=axes, dtype=logs.dtype)


def _slogdet_vjp(g: Any, y: Any, x: Any) -> list[Any]:
    g_sign, g_log = g
    sign, _ = y
    factor = g_log
    if x.dtype.is_complex:
        factor = e.join(g_log, -e.imag(e.conjugate(g_sign) * sign))
    return [mx.broad_number(factor, x) * mx.adjoint(inv(x))]


# The sign (for complex matrices the phase) of the determinant and the logarithm of its magnitude.
slogdet = op(
    "slogdet",
    _slogdet_rule,
    reference.slogdet,
    _slogdet_vjp,
    saves="0y",
    decompose=_slogdet,
    batch="leading",
)


def _pinv_rule(x: Spec, rtol: Spec) -> Spec:
    matrices("pinv", x)
    if rtol.shape != x.shape[:-2] or rtol.dtype is not real_of(x.dtype):
        raise ShapeError(
            f"pinv: rtol {rtol} does not fit {x}; pass one {real_of(x.dtype).name} for each matrix"
        )
    return spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


def _pinv(x: Any, rtol: Any) -> Any:
    if not x.size:
        return mx.adjoint(x)
    u, s, vh = svd(x, full_matrices=False)
    largest = r.max(s, axes=(s.ndim - 1,))
    kept = s > mx.broad_element(largest * rtol, s)
    inverted = mx.quotient(mx.ones(s), mx.masked(kept, s))
    return mx.product(mx.scale_columns(mx.adjoint(vh), inverted), mx.adjoint(u))


def _pinv_vjp(g: Any, y: Any, x: Any, rtol: Any) -> Any:
    # Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
    # problems whose variables separate" (1973), 4.12; the rank stays what it is.
    y_h, g_h = mx.adjoint(y), mx.adjoint(g)
    total = -mx.product(y_h, mx.product(g, y_h))
    left = mx.product(g_h, mx.product(y, y_h))
    left = left - mx.product(x, mx.product(y, left))
    right = mx.product(mx.product(y_h, y), g_h)
    right = right - mx.product(mx.product(right, y), x)
    return total + left + right


# The pseudo-inverse; singular values up to rtol times the largest count as 0.
pinv = op(
    "pinv", _pinv_rule, None, (_pinv_vjp, None), saves=("0y", ""), decompose=_pinv, batch="leading"
)


# Padé approximant of degree 13 with scaling and squaring: Higham, "The scaling and squaring method
# for the matrix exponential revisited" (2005), algorithm 2.3.
_PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
_RADIUS = 5.371920351148152


def _expm(x: Any) -> Any:
    from calor.transforms.control import while_loop

    if not x.size:
        return x
    size = r.max(mx.column_sums(e.abs(x)), axes=(x.ndim - 2,))
    wanted = e.ceil(e.log2(e.maximum(size / _RADIUS, mx.ones(size))))
    wanted = e.where(e.isfinite(wanted), wanted, mx.zeros(wanted))
    x = x * mx.as_type(mx.broad_number(e.exp2(-wanted), x), x)
    one, b = mx.identity(x), _PADE
    x2 = mx.product(x, x)
    x4 = mx.product(x2, x2)
    x6 = mx.product(x4, x2)
    u = mx.product(x6, x6 * b[13] + x4 * b[11] + x2 * b[9])
    u = mx.product(x, u + x6 * b[7] + x4 * b[5] + x2 * b[3] + one * b[1])
    v = mx.product(x6, x6 * b[12] + x4 * b[10] + x2 * b[8])
    v = v + x6 * b[6] + x4 * b[4] + x2 * b[2] + one * b[0]
    power = solve(v - u, v + u)

    def square_again(state: tuple[Any, Any]) -> tuple[Any, Any]:
        power, count = state
        more = mx.broad_number(wanted > count, power)
        return e.where(more, mx.product(power, power), power), count + 1

    def unfinished(state: tuple[Any, Any]) -> Any:
        return r.any_(wanted > state[1], axes=tuple(range(wanted.ndim)))

    count = mx.zeros(r.sum(wanted, axes=tuple(range(wanted.ndim)), dtype=wanted.dtype))
    return while_loop(unfinished, square_again, (power, count))[0]


def _expm_vjp(g: Any, y: Any, x: Any) -> list[Any]:
    # The derivative along G is the upper right block of exp [[X, G], [0, X]]; Mathias, "A chain
    # rule for matrix functions and applications" (1996).
    n, back = x.shape[-1], mx.adjoint(x)
    upper = concat(back, g, axis=x.ndim - 1)
    lower = concat(mx.zeros(back), back, axis=x.ndim - 1)
    whole = expm(concat(upper, lower, axis=x.ndim - 2))
    return [mx.block(whole, (0, n), (n, 2 * n))]


expm = op("expm", square_rule("expm"), None, _expm_vjp, saves="0", decompose=_expm, batch="leading")
