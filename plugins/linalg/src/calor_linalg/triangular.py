"""The row of triangular systems, on which the gradients of the factorizations stand."""

from __future__ import annotations

from typing import Any

from calor.ops import elementwise as e
from calor.ops.base import op
from calor_linalg import definitions as definitions
from calor_linalg import matrices as mx
from calor_linalg import reference
from calor_linalg.rules import system_rule


def _triangular_vjp(
    g: Any, y: Any, a: Any, b: Any, *, lower: bool, transpose: bool, unit_diagonal: bool
) -> list[Any]:
    g_b = triangular_solve(
        e.conjugate(a), g, lower=lower, transpose=not transpose, unit_diagonal=unit_diagonal
    )
    g_a = -mx.product(g_b, mx.adjoint(y))
    if transpose:
        g_a = mx.transposed(g_a)
    return [(mx.lower if lower else mx.upper)(g_a, strict=unit_diagonal), g_b]


# X with T X = b, or Tᵀ X = b. T is the lower or upper triangle of a, with ones on its diagonal if
# unit_diagonal.
triangular_solve = op(
    "triangular_solve",
    system_rule("solve_triangular"),
    reference.triangular_solve,
    _triangular_vjp,
    saves="0y",
    decompose=definitions.triangular_solve,
    batch="leading",
)
