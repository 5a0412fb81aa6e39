"""Entries of OpInfo that factor matrices and solve with factors."""

from __future__ import annotations

from typing import Any

from .names import Table, c, linalg


def _lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """PyTorch counts rows from 1."""
    found = linalg.lu_factor(A)
    parts = found.LU, (found.pivots + 1).astype(c.int32)
    return (*parts, c.zeros(A.shape[:-2], dtype=c.int32)) if get_infos else parts


def _packed(LU: Any, pivots: Any) -> Any:
    made = linalg.lu_factor(c.eye(1))
    return type(made)(LU, pivots.astype(made.pivots.dtype) - 1)


def _unpacked(LU: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    p, low, up = linalg.lu_unpack(_packed(LU, pivots))
    none = c.zeros((0,))
    return p if unpack_pivots else none, *((low, up) if unpack_data else (none, none))


def _ldl(A: Any, hermitian: bool) -> Any:
    found = linalg.ldl_factor(A, hermitian=hermitian)
    return found.LD, found.pivots.astype(c.int32)


def _low_rank(function: str) -> Any:
    """PyTorch returns V, not its adjoint."""

    def call(a: Any, b: Any, *, q: int, M: Any = None, **more: Any) -> Any:
        x = a @ c.matrix_transpose(b)
        u, s, vh = getattr(linalg, function)(x if M is None else x - M, q, **more)
        return u, s, c.conj(c.matrix_transpose(vh))

    return call


TABLE: Table = {
    "cholesky_inverse": lambda input, upper=False: linalg.cholesky_inverse(input, upper=upper),
    "cholesky_solve": lambda input, L, upper=False: linalg.cholesky_solve(input, L, upper=upper),
    "geqrf": lambda input: tuple(linalg.geqrf(input)),
    "linalg.cond": lambda A, p=None: linalg.cond(A, ord=p),
    "linalg.eig": lambda A: tuple(linalg.eig(A)),
    "linalg.eigvals": lambda A: linalg.eigvals(A),
    "linalg.householder_product": lambda A, tau: linalg.householder_product(A, tau),
    "ormqr": lambda input, tau, other, left=True, transpose=False: linalg.ormqr(
        input, tau, other, left=left, transpose=transpose
    ),
    "lu": _lu,
    "linalg.lu_factor": lambda A, *, pivot=True: _lu(A, pivot),
    "linalg.lu_factor_ex": lambda A, *, pivot=True, check_errors=False: _lu(A, pivot, True),
    "lu_unpack": _unpacked,
    "lu_solve": lambda b, LU, pivots: linalg.lu_solve(_packed(LU, pivots), b),
    "linalg.lu_solve": lambda LU, pivots, B, *, left=True, adjoint=False: linalg.lu_solve(
        _packed(LU, pivots), B, left=left, adjoint=adjoint
    ),
    "linalg.ldl_factor": lambda A, *, hermitian=False: _ldl(A, hermitian),
    "linalg.ldl_factor_ex": lambda A, *, hermitian=False, check_errors=False: (
        *_ldl(A, hermitian),
        c.zeros(A.shape[:-2], dtype=c.int32),
    ),
    "linalg.ldl_solve": lambda LD, pivots, B, *, hermitian=False: linalg.ldl_solve(
        (LD, pivots), B, hermitian=hermitian
    ),
    "linalg.tensorinv": lambda A, ind=2: linalg.tensorinv(A, ind=ind),
    "linalg.tensorsolve": lambda A, B, dims=None: linalg.tensorsolve(
        A, B, axes=None if dims is None else tuple(dims)
    ),
    "svd_lowrank": _low_rank("svd_lowrank"),
    "pca_lowrank": _low_rank("pca_lowrank"),
}
