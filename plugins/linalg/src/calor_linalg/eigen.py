"""The row of eigenvalues of general matrices, whose gradient solves systems."""

from __future__ import annotations

from typing import Any

from calor.ops import elementwise as e
from calor.ops.base import op
from calor.specs import Spec, spec
from calor_linalg import matrices as mx
from calor_linalg import reference, schur
from calor_linalg.rules import NO_CONVERGENCE, square, typed_errors
from calor_linalg.solutions import solve
from calor_linalg.spectra import by_gaps


def _eig_rule(x: Spec) -> tuple[Spec, Spec]:
    square("eig", x)
    kind = schur.complex_of(x.dtype)
    return spec(x.shape[:-1], kind), spec(x.shape, kind)


def _eig_vjp(g: Any, y: Any, x: Any) -> list[Any]:
    # Giles (2008), 3.1, with vectors of length 1; Boeddeker et al., "On the computation of complex-
    # valued gradients with application to statistically optimum beamforming" (2017), 4.77.
    (g_values, g_vectors), (values, vectors) = g, y
    back = mx.adjoint(vectors)
    inner = mx.product(back, g_vectors)
    along = mx.as_type(mx.real_part(mx.diagonal(inner)), inner)
    inner = inner - mx.scale_columns(mx.product(back, vectors), along)
    gaps = mx.broad_row(values, inner) - mx.broad_column(values, inner)
    core = by_gaps(inner, e.conjugate(gaps), inner) + mx.diagonal_matrix(g_values)
    made = solve(back, mx.product(core, back))
    return [made if x.dtype.is_complex else e.real(made)]


# Eigenvalues, in no order, and eigenvectors of length 1 of general matrices, both complex.
eig = op(
    "eig",
    _eig_rule,
    typed_errors("eig", reference.eig, NO_CONVERGENCE),
    _eig_vjp,
    saves="y",
    decompose=schur.eig,
    batch="leading",
)
