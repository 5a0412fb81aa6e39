"""Rows of linear algebra, against elimination, substitution and series in a wider type.

The vectors of eigh and svd are defined up to a sign or phase, so their rows are functions that do
not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, complex64, complex128, float32, float64, int64
from calor_linalg import matrices as mx
from calor_linalg.eigen import eig
from calor_linalg.rows import cholesky
from calor_linalg.solutions import inv
from calor_linalg.spectra import eigh, svd

from ..domains import _converted, normal
from ..language import Array, Case, Domain, Tolerance, case

DTYPES = (float32, float64, complex64, complex128)
# Elements are about 1 in size, and systems are conditioned by 10 or so.
NEAR = Tolerance(200.0, 1.0, lambda *operands, **attributes: 4.0)


def adjoint(x: Array) -> Array:
    """The conjugate transpose."""
    return np.asarray(x.conj().swapaxes(-1, -2))


def _domain(name: str, shape: tuple[int, ...], change: Callable[[Array], Array]) -> Domain:
    def draw(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
        noise = rng.uniform(-1.0, 1.0, shape)
        if dtype.is_complex:
            noise = noise + 1j * rng.uniform(-1.0, 1.0, shape)
        return _converted(change(noise), dtype)

    return Domain(name, shape, draw)


def regular(*shape: int) -> Domain:
    """Matrices with large elements, in a mixed order of rows, that a little noise keeps regular."""
    turned = np.roll(np.eye(shape[-2], shape[-1]), 1, 0) * 2
    return _domain("regular", shape, lambda x: x * 0.5 + turned)


def positive_definite(*shape: int) -> Domain:
    """Hermitian matrices with eigenvalues of 1 and more."""
    return _domain("positive_definite", shape, lambda x: x @ adjoint(x) + np.eye(shape[-1]))


def pivoting(*shape: int) -> Domain:
    """Matrices of which the diagonal is nearly 0, so that elimination has to change rows."""

    def change(x: Array) -> Array:
        large = np.flip(4.0 * np.eye(shape[-1]), -1)
        return large + 0.5 * x * (1 - np.eye(shape[-1])) + 1e-14 * x

    return _domain("pivoting", shape, change)


def of_each_matrix(shape: tuple[int, ...], function: Callable[..., Any]) -> Any:
    """The results of a function of single matrices, stacked over a batch of this shape."""
    made = [function(*at) for at in np.ndindex(*shape)]
    if isinstance(made[0], tuple):
        return tuple(
            np.stack(parts).reshape((*shape, *parts[0].shape)) for parts in zip(*made, strict=True)
        )
    return np.stack(made).reshape((*shape, *made[0].shape))


def _cholesky(x: Array) -> Array:
    def one(*at: int) -> Array:
        a, low = x[at], np.zeros_like(x[at])
        for j in range(len(a)):
            rest = a[j:, j] - low[j:, :j] @ low[j, :j].conj()
            low[j:, j] = rest / np.sqrt(rest[0].real)
        return np.asarray(low)

    return np.asarray(of_each_matrix(x.shape[:-2], one))


def factor(x: Any) -> Any:
    """The Cholesky factor of the Hermitian part of x, whose gradient every element of x shares."""
    return cholesky((x + mx.adjoint(x)) * 0.5)


def _lu(x: Array) -> Any:
    def one(*at: int) -> tuple[Array, Array]:
        a, order = x[at].copy(), np.arange(x.shape[-2])
        for k in range(min(a.shape)):
            best = k + int(np.argmax(np.abs(a[k:, k])))
            a[[k, best]], order[[k, best]] = a[[best, k]], order[[best, k]]
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
        return a, order

    return of_each_matrix(x.shape[:-2], one)


def _qr(x: Array, *, mode: str) -> Any:
    """Q and R of Householder's reflections, which make the diagonal of R real."""

    def one(*at: int) -> tuple[Array, Array]:
        r, (m, n) = x[at].copy(), x.shape[-2:]
        q = np.eye(m).astype(x.dtype)
        for k in range(min(m, n)):
            v = r[k:, k].copy()
            if not np.any(v[1:]) and not v[0].imag:
                continue
            target = -np.copysign(np.sqrt(np.sum(np.abs(v) ** 2)), v[0].real)
            # I − τ v vᴴ, its τ complex, takes v to the real number target at once.
            tau = (target - v[0]) / target
            v = v / (v[0] - target)
            v[0] = 1
            r[k:] -= tau.conj() * np.outer(v, v.conj() @ r[k:])
            q[:, k:] -= tau * np.outer(q[:, k:] @ v, v.conj())
        k = m if mode == "complete" else min(m, n)
        return q[:, :k], np.triu(r)[:k]

    return of_each_matrix(x.shape[:-2], one)


def _substituted(a: Array, b: Array, lower: bool) -> Array:
    x = np.zeros_like(b)
    for i in range(len(a)) if lower else reversed(range(len(a))):
        x[i] = (b[i] - a[i] @ x) / a[i, i]
    return x


def _triangular(a: Array, b: Array, *, lower: bool, transpose: bool, unit_diagonal: bool) -> Array:
    def one(*at: int) -> Array:
        t = np.tril(a[at]) if lower else np.triu(a[at])
        if unit_diagonal:
            np.fill_diagonal(t, 1)
        return _substituted(t.T if transpose else t, b[at], lower is not transpose)

    return np.asarray(of_each_matrix(a.shape[:-2], one))


def _solve(a: Array, b: Array) -> Array:
    def one(*at: int) -> Array:
        packed, order = _lu(a[at])
        first = _substituted(np.tril(packed, -1) + np.eye(len(packed)), b[at][order], True)
        return _substituted(np.triu(packed), first, False)

    return np.asarray(of_each_matrix(a.shape[:-2], one))


def _inv(x: Array) -> Array:
    eye = np.broadcast_to(np.eye(x.shape[-1]), x.shape).astype(x.dtype)
    return _solve(x, eye)


def _leibniz(x: Array) -> Any:
    """The determinant of one matrix as the sum over permutations."""
    n, total = len(x), x.dtype.type(0)
    for order in permutations(range(n)):
        swaps = sum(order[i] > order[j] for i in range(n) for j in range(i + 1, n))
        total += (-1) ** swaps * np.prod([x[i, order[i]] for i in range(n)], dtype=x.dtype)
    return total


def _det(x: Array) -> Array:
    return np.asarray(of_each_matrix(x.shape[:-2], lambda *at: np.asarray(_leibniz(x[at]))))


def _slogdet(x: Array) -> tuple[Array, Array]:
    number = _det(x)
    return number / np.abs(number), np.log(np.abs(number))


def _adjugate(x: Array) -> Array:
    def one(*at: int) -> Array:
        a = x[at]
        made = np.zeros_like(a)
        for i, j in np.ndindex(*a.shape):
            minor = np.delete(np.delete(a, i, 0), j, 1)
            made[j, i] = (-1) ** (i + j) * _leibniz(minor)
        return np.asarray(made)

    return np.asarray(of_each_matrix(x.shape[:-2], one))


def _pinv(x: Array, rtol: Array) -> Array:
    """The pseudo-inverse of full rank."""
    if x.shape[-2] >= x.shape[-1]:
        return _solve(adjoint(x) @ x, adjoint(x))
    return adjoint(_solve(x @ adjoint(x), x))


def _expm(x: Array) -> Array:
    made = term = np.broadcast_to(np.eye(x.shape[-1]), x.shape).astype(x.dtype)
    for k in range(1, 120):
        term = term @ x / k
        made = made + term
    return np.asarray(made)


def spectrum(x: Any) -> Any:
    """Eigenvalues of the Hermitian part of x, and its exponential from the eigenvectors."""
    values, vectors = eigh((x + mx.adjoint(x)) * 0.5)
    return values, mx.product(mx.scale_columns(vectors, calor.exp(values)), mx.adjoint(vectors))


def _spectrum(x: Array) -> tuple[Array, Array]:
    half = (x + adjoint(x)) / 2
    narrow = half.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return np.linalg.eigvalsh(narrow), _expm(half)


def exponential(x: Any) -> Any:
    """The exponential of a general matrix from its eigenvectors."""
    values, vectors = eig(x)
    made = mx.product(mx.scale_columns(vectors, calor.exp(values)), inv(vectors))
    return made if x.dtype.is_complex else mx.real_part(made)


def singular(x: Any, *, full_matrices: bool) -> Any:
    """Singular values, x xᴴ x from the vectors, and what both bases span or leave over."""
    u, s, vh = svd(x, full_matrices=full_matrices)
    k = s.shape[-1]
    left, right = mx.column_block(u, 0, k), mx.row_block(vh, 0, k)
    cube = mx.product(mx.scale_columns(left, s * s * s), right)
    last = (u, vh) if not full_matrices else (
        mx.column_block(u, k, u.shape[-1]), mx.row_block(vh, k, vh.shape[-2])
    )  # fmt: skip
    return (
        s,
        cube,
        mx.product(last[0], mx.adjoint(last[0])),
        mx.product(mx.adjoint(last[1]), last[1]),
    )


def _singular(x: Array, *, full_matrices: bool) -> tuple[Array, ...]:
    narrow = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    tall = x.shape[-2] >= x.shape[-1]
    inverse = _pinv(x, x)
    left, right = x @ inverse, inverse @ x
    if full_matrices:
        left, right = np.eye(x.shape[-2]) - left, np.eye(x.shape[-1]) - right
    assert tall or not full_matrices or x.ndim == 2
    return np.linalg.svd(narrow, compute_uv=False), x @ adjoint(x) @ x, left, right


def _row(op: Any, *inputs: Domain, oracle: Any, name: str = "", **attributes: Any) -> Case:
    return case(op, *inputs, oracle=oracle, dtypes=DTYPES, tol=NEAR, name=name, **attributes)


_RTOL = {float32: (float32, complex64), float64: (float64, complex128)}


def _small(dtype: DType, *shape: int) -> Domain:
    return _domain("small", shape, lambda x: np.abs(x) * 1e-6).of(dtype)


CASES: list[Case] = [
    *(
        _row(op, positive_definite(*shape), oracle=_cholesky, name=name, no_gradient=reason)
        for op, reason in [
            ("cholesky", "it is that for Hermitian matrices, which differences leave"),
            ("cholesky_or_nan", "it is that for Hermitian matrices, which differences leave"),
            (factor, None),
        ]
        for name, shape in [("single", (3, 3)), ("batch", (2, 4, 4)), ("one", (1, 1))]
    ),
    *(
        _row("lu", domain, oracle=_lu, name=name, out=lambda t: (t, int64))
        for name, domain in [
            ("square", regular(3, 3)), ("batch", regular(2, 2, 3, 3)),
            ("tall", regular(4, 2)), ("wide", regular(2, 2, 4)), ("one", regular(1, 1)),
        ]
    ),
    *(
        _row("qr", domain, oracle=_qr, mode=mode, name=f"{mode}-{name}")
        for mode in ("reduced", "complete")
        for name, domain in [
            ("square", regular(3, 3)), ("batch", regular(2, 3, 3)), ("wide", regular(2, 4)),
            ("tall", regular(2, 4, 3)), ("one", regular(1, 1)),
        ]
        if (mode, name) != ("complete", "tall")
    ),
    *(
        _row("triangular_solve", regular(*batch, 3, 3), normal(*batch, 3, 2), oracle=_triangular,
             lower=lower, transpose=transpose, unit_diagonal=unit,
             name=f"{'lower' if lower else 'upper'}{'-transposed' * transpose}{'-unit' * unit}")
        for lower, transpose, unit, batch in [
            (True, False, True, ()), (True, True, True, (2,)), (False, False, True, ()),
            (False, True, True, (2, 2)),
        ]
    ),
    *(
        _row("triangular_solve", positive_definite(2, 3, 3), normal(2, 3, 2), oracle=_triangular,
             lower=lower, transpose=transpose, unit_diagonal=False,
             name=f"{'lower' if lower else 'upper'}{'-transposed' * transpose}-whole")
        for lower in (False, True) for transpose in (False, True)
    ),
    _row("solve", regular(3, 3), normal(3, 2), oracle=_solve),
    _row("solve", regular(2, 2, 3, 3), normal(2, 2, 3, 1), oracle=_solve, name="batch"),
    *(
        _row(op, pivoting(4, 4), *more, oracle=oracle, name="pivoting", out=out)
        for op, more, oracle, out in [
            ("solve", (normal(4, 2),), _solve, None), ("inv", (), _inv, None),
            ("det", (), _det, None), ("slogdet", (), _slogdet, None),
            ("lu", (), _lu, lambda t: (t, int64)),
        ]
    ),
    _row("inv", regular(3, 3), oracle=_inv),
    _row("inv", regular(2, 4, 4), oracle=_inv, name="batch"),
    _row("det", regular(3, 3), oracle=_det),
    _row("det", regular(2, 4, 4), oracle=_det, name="batch"),
    _row("det", regular(1, 1), oracle=_det, name="one"),
    _row("slogdet", regular(3, 3), oracle=_slogdet),
    _row("slogdet", regular(2, 4, 4), oracle=_slogdet, name="batch"),
    _row("adjugate", regular(3, 3), oracle=_adjugate),
    _row("adjugate", regular(2, 4, 4), oracle=_adjugate, name="batch"),
    *(
        case("pinv", regular(*shape), _small(real, *shape[:-2]), oracle=_pinv, dtypes=kinds,
             tol=NEAR, name=f"{name}-{real.name}")
        for real, kinds in _RTOL.items()
        for name, shape in [("tall", (2, 4, 3)), ("wide", (2, 4)), ("square", (2, 2, 3, 3))]
    ),
    _row("expm", regular(3, 3), oracle=_expm),
    _row("expm", regular(2, 4, 4), oracle=_expm, name="batch"),
    _row("expm", _domain("large", (2, 2), lambda x: x * 0.3 + np.array([[0, 9], [-9, 0]])),
         oracle=_expm, name="squared"),
    _row(spectrum, regular(3, 3), oracle=_spectrum),
    _row(spectrum, regular(2, 4, 4), oracle=_spectrum, name="batch"),
    _row(exponential, regular(3, 3), oracle=_expm),
    _row(exponential, regular(2, 4, 4), oracle=_expm, name="batch"),
    *(
        _row(singular, domain, oracle=_singular, full_matrices=full, name=f"{name}{'-full' * full}")
        for full in (False, True)
        for name, domain in [
            ("square", regular(3, 3)), ("tall", regular(2, 4, 3)), ("wide", regular(2, 4)),
        ]
        if not full or name != "square"
    ),
]  # fmt: skip
