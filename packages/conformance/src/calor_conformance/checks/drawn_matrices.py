"""Matrices of every shape, size and kind beside the definitions of what is computed of them.

Matrices are tall, wide, square, of one row or of none, alone or in batches, real and complex, far
larger and smaller than 1, of full and lower rank, with elements that the definition does not read.
A factorization is what multiplies to the matrix again, an inverse what satisfies its equations, a
tolerance decides at its own definition; roundings are allowed beside the size of the matrix alone.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, complex64, complex128, float32, float64, int32, int64

from .base import Array, Check, Place

CONTRACT: Final = "what is computed of a matrix is what its definition says, whatever the matrix"
PACKAGE: Final = "calor_linalg"
_TURNS: Final = 24
_BATCHES: Final[tuple[tuple[int, ...], ...]] = ((), (), (3,), (4,), (3, 1), (2, 2), (0,))
_SIDES: Final = (1, 2, 3, 4, 6, 9, 17)
# Roundings of the largest singular value that a factorization may make, for each row and column.
_UNITS: Final = 24
Rng = np.random.Generator


def _h(a: Array) -> Array:
    return np.asarray(np.conj(np.swapaxes(a, -1, -2)))


class _Drawn:
    """Draws matrices of a dtype."""

    def __init__(self, rng: Rng, dtype: DType) -> None:
        self.rng, self.dtype = rng, dtype
        self.kind = dtype.numpy
        self.eps = float(np.finfo(self.kind).eps)
        self.batch = _BATCHES[int(rng.integers(len(_BATCHES)))]
        far = 12 if self.kind in (np.float32, np.complex64) else 90
        self.scale = 2.0 ** int(rng.choice((0, 0, 0, 2, 5, -7, far, -far)))

    def side(self) -> int:
        return int(self.rng.choice(_SIDES))

    def numbers(self, *shape: int) -> Array:
        made = self.rng.normal(size=(*self.batch, *shape))
        if self.dtype.is_complex:
            made = made + 1j * self.rng.normal(size=made.shape)
        return np.asarray(made)

    def orthogonal(self, m: int, k: int) -> Array:
        """Return k orthonormal columns."""
        return np.asarray(np.linalg.qr(self.numbers(m, k))[0])

    def of(self, values: Array, m: int, n: int) -> Array:
        """Return m by n matrices of singular values, in float64 or complex128."""
        k = values.shape[-1]
        return np.asarray(self.orthogonal(m, k) * values @ _h(self.orthogonal(n, k)) * self.scale)

    def regular(self, n: int) -> Array:
        return self.of(self.rng.uniform(0.5, 2, n), n, n)

    def any(self, m: int, n: int) -> Array:
        """Return matrices of full rank, of a lower one, or of whole numbers with zeros."""
        way, k = self.rng.random(), min(m, n)
        if way < 0.3:
            whole = self.rng.integers(-2, 3, (*self.batch, m, n)).astype(self.kind)
            return np.asarray(whole * self.scale)
        values = np.sort(self.rng.uniform(0.2, 2, k))[::-1].copy()
        values[int(self.rng.integers(1, k + 1)) if way < 0.6 and k else k :] = 0
        return self.of(values, m, n)

    def given(self, a: Array) -> Any:
        return calor.asarray(a.astype(self.kind))

    def near(self, got: Array, want: Array, size: Any, what: str, units: float = 1.0) -> None:
        """Require results within roundings of a size, one for each matrix or one for all."""
        assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
        sides = sum(want.shape[-2:]) + 2
        room = np.asarray(size) * self.eps * _UNITS * units * sides
        off = np.abs(got - want)
        wrong = ~(off <= np.broadcast_to(room, off.shape))
        if wrong.any():
            at = np.unravel_index(int(np.argmax(np.where(wrong, off, 0))), off.shape)
            raise AssertionError(
                f"{what} of {self.dtype.name}, times {self.scale}: {got[at]} at {at}, not "
                f"{want[at]}, {off[at] / self.eps:.3g} roundings"
            )


def _wide(t: Any) -> Array:
    made = t.numpy()
    return np.asarray(made.astype(np.complex128 if made.dtype.kind == "c" else np.float64))


def _norm(a: Array) -> Array:
    """Return the largest singular value of each matrix, to broadcast with it."""
    if not a.size:
        return np.zeros((*a.shape[:-2], 1, 1))
    return np.asarray(np.linalg.norm(a, 2, axis=(-2, -1))[..., None, None])


def _orthonormal(d: _Drawn, q: Array, what: str) -> None:
    eye = np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1]))
    d.near(_h(q) @ q, eye, 1.0, f"{what}: products of the columns of Q")


def _reflected(packed: Array, tau: Array) -> Array:
    """Return the product of the reflections I − τ v vᴴ, as a square matrix."""
    m, k = packed.shape[-2], min(tau.shape[-1], packed.shape[-1])
    made = np.broadcast_to(np.eye(m, dtype=packed.dtype), (*packed.shape[:-2], m, m))
    for i in range(k):
        v = np.where(np.arange(m) > i, packed[..., :, i], np.arange(m) == i)[..., None]
        made = made - (made @ v) @ _h(v) * tau[..., i, None, None]
    return np.asarray(made)


def _orthogonal(linalg: Any, d: _Drawn) -> None:
    """QR, the reflections of it, and products with Q from either side."""
    m, n = d.side(), d.side()
    x = d.given(d.any(m, n))
    a, k = _wide(x), min(m, n)
    for mode, width in (("reduced", k), ("complete", m)):
        q, r = map(_wide, linalg.qr(x, mode=mode))
        assert q.shape == (*d.batch, m, width), f"qr, {mode}: Q has shape {q.shape}"
        _orthonormal(d, q, f"qr, {mode}")
        d.near(q @ r, a, _norm(a), f"qr, {mode}")
        assert not np.tril(r, -1).any(), f"qr, {mode}: R has elements below its diagonal"
    packed, tau = linalg.geqrf(x)
    full = _reflected(_wide(packed), _wide(tau))
    r = np.triu(_wide(packed))
    d.near(full[..., : r.shape[-2]] @ r, a, _norm(a), "geqrf")
    left, backward = bool(d.rng.integers(2)), bool(d.rng.integers(2))
    other = d.numbers(*((m, 3) if left else (3, m)))
    c = d.given(other)
    turned = _h(full) if backward else full
    want = turned @ _wide(c) if left else _wide(c) @ turned
    made = _wide(linalg.ormqr(packed, tau, c, left=left, transpose=backward))
    d.near(made, want, 9.0, f"ormqr, left {left}, transpose {backward}")
    if m >= n:
        # What stands on and above the diagonal is not read.
        junk = np.triu(d.numbers(m, n)) + np.tril(_wide(packed), -1)
        found = _wide(linalg.householder_product(d.given(junk), tau))
        d.near(found, full[..., :n], 2.0, "householder_product")


def _singular(linalg: Any, d: _Drawn) -> None:
    m, n = d.side(), d.side()
    x = d.given(d.any(m, n))
    a, k = _wide(x), min(m, n)
    size = _norm(a)
    want = np.linalg.svd(a, compute_uv=False) if a.size else np.zeros((*d.batch, k))
    d.near(_wide(linalg.svdvals(x)), want, size[..., 0], "svdvals")
    for full in (True, False):
        u, s, v = map(_wide, linalg.svd(x, full_matrices=full))
        assert u.shape[-1] == (m if full else k), f"svd, full {full}: U has shape {u.shape}"
        assert v.shape[-2] == (n if full else k), f"svd, full {full}: V has shape {v.shape}"
        _orthonormal(d, u, f"svd, full {full}")
        _orthonormal(d, _h(v), f"svd, full {full}")
        d.near(s, want, size[..., 0], f"svd, full {full}: values")
        d.near(u[..., :k] * s[..., None, :] @ v[..., :k, :], a, size, f"svd, full {full}")
    orders: dict[Any, Array] = {}
    if a.size:
        orders = {o: np.linalg.norm(a, o, axis=(-2, -1)) for o in ("fro", "nuc", 1, -1, 2, -2,
                                                                   np.inf, -np.inf)}  # fmt: skip
    for order, due in orders.items():
        got = _wide(linalg.matrix_norm(x, ord=order))
        d.near(got, due, size[..., 0, 0] * k, f"matrix_norm, {order}")


def _eigen(linalg: Any, d: _Drawn) -> None:
    n = d.side()
    whole = d.any(n, n)
    lower = np.tril(whole)
    real = np.einsum("...ii->...i", lower).real
    np.einsum("...ii->...i", lower)[...] = real
    # The other triangle is not read.
    x = d.given(lower + np.triu(d.numbers(n, n) * d.scale, 1))
    read = np.tril(_wide(x))
    a = read + _h(np.tril(read, -1))
    size = _norm(a)
    want = np.linalg.eigvalsh(a) if a.size else np.zeros((*d.batch, n))
    values, vectors = map(_wide, linalg.eigh(x))
    d.near(values, want, size[..., 0], "eigh: values")
    d.near(_wide(linalg.eigvalsh(x)), want, size[..., 0], "eigvalsh")
    _orthonormal(d, vectors, "eigh")
    d.near(vectors * values[..., None, :] @ _h(vectors), a, size, "eigh")
    general = d.given(d.of(d.rng.uniform(0.5, 2, n), n, n))
    b = _wide(general)
    values, vectors = map(_wide, linalg.eig(general))
    lengths = np.linalg.norm(vectors, axis=-2)
    assert np.allclose(lengths, 1, atol=1e-3), f"eig of {d.dtype.name}: vectors of {lengths}"
    d.near(b @ vectors, vectors * values[..., None, :], _norm(b), "eig", 4)
    trace = np.einsum("...ii->...", b)
    d.near(values.sum(-1), trace, _norm(b)[..., 0, 0] * n, "eig: the sum of values", 4)
    other = np.sort_complex(_wide(linalg.eigvals(general)).reshape(-1, n).sum(-1))
    d.near(other, np.sort_complex(trace.reshape(-1)), d.scale * 2 * n, "eigvals: their sum", 4)


def _definite(linalg: Any, d: _Drawn) -> None:
    n = d.side()
    q, values = d.orthogonal(n, n), d.rng.uniform(0.5, 2, n) * d.scale
    upper = bool(d.rng.integers(2))
    a = q * values @ _h(q)
    a = (a + _h(a)) / 2
    junk = d.numbers(n, n) * d.scale
    x = d.given(np.triu(a) + np.tril(junk, -1) if upper else np.tril(a) + np.triu(junk, 1))
    half = np.triu(_wide(x)) if upper else np.tril(_wide(x))
    a = half + _h(np.triu(half, 1) if upper else np.tril(half, -1))
    what = f"upper {upper}"
    factor = linalg.cholesky(x, upper=upper)
    f = _wide(factor)
    assert not (np.tril(f, -1) if upper else np.triu(f, 1)).any(), f"cholesky, {what}: {f}"
    d.near(_h(f) @ f if upper else f @ _h(f), a, _norm(a), f"cholesky, {what}")
    made, info = linalg.cholesky_ex(x, upper=upper)
    assert not info.numpy().any(), f"cholesky_ex of a definite matrix tells {info.tolist()}"
    d.near(_wide(made), f, np.sqrt(_norm(a)), f"cholesky_ex, {what}")
    eye = np.broadcast_to(np.eye(n), a.shape)
    d.near(_wide(linalg.cholesky_inverse(factor, upper=upper)) @ a, eye, 4.0,
           f"cholesky_inverse, {what}", 4)  # fmt: skip
    c = d.given(d.numbers(n, 2))
    solved = _wide(linalg.cholesky_solve(c, factor, upper=upper))
    d.near(a @ solved, _wide(c), 20.0, f"cholesky_solve, {what}", 4)
    # Of the first k rows and columns the leading minor is the first that is not positive.
    k = int(d.rng.integers(n))
    bad = a.copy()
    bad[..., k, k] = -2 * d.scale
    told = linalg.cholesky_ex(d.given(bad), upper=upper)[1].numpy()
    assert (told == k + 1).all(), f"cholesky_ex tells {told.tolist()} of a minor {k + 1}, {what}"


def _triangles(linalg: Any, d: _Drawn) -> None:
    """LU of any shape, and what is computed of square matrices by it."""
    m, n = d.side(), d.side()
    x = d.given(d.any(m, n))
    a, k = _wide(x), min(m, n)
    for what, parts in (("lu", linalg.lu(x)), ("lu_unpack", linalg.lu_unpack(linalg.lu_factor(x)))):
        p, low, high = map(_wide, parts)
        assert low.shape == (*d.batch, m, k), f"{what}: L has shape {low.shape}"
        assert (low[..., range(k), range(k)] == 1).all(), f"{what}: the diagonal of L"
        assert not np.triu(low, 1).any(), f"{what}: L has elements above its diagonal"
        assert not np.tril(high, -1).any(), f"{what}: U has elements below its diagonal"
        assert (np.abs(low) <= 1 + 1e-5).all(), f"{what}: the pivots are not the largest"
        d.near(p @ low @ high, a, _norm(a) * 2, what)
    r = d.given(d.regular(n))
    b = _wide(r)
    eye = np.broadcast_to(np.eye(n), b.shape)
    d.near(_wide(linalg.inv(r)) @ b, eye, 4.0, "inv", 4)
    c = d.given(d.numbers(n, 2))
    d.near(b @ _wide(linalg.solve(r, c)), _wide(c), 20.0, "solve", 4)
    sign, log = (np.asarray(t) for t in np.linalg.slogdet(b))
    found = list(map(_wide, linalg.slogdet(r)))
    # A relative error of the determinant is an absolute one of its logarithm.
    near = 4.0 + np.abs(log)
    d.near(found[0], sign, near, "slogdet: sign", n)
    d.near(found[1], log, near, "slogdet: logarithm", n)
    made = _wide(linalg.logdet(r))
    if d.dtype.is_complex:
        d.near(np.exp(1j * made.imag), sign, near, "logdet: phase", n)
        assert (np.abs(made.imag) <= math.pi + 1e-5).all(), f"logdet: a phase of {made.imag}"
        made = made.real
    else:
        log = np.where(sign < 0, np.nan, log)
        assert (np.isnan(made) == np.isnan(log)).all(), f"logdet of signs {sign} is {made}"
        made, log = np.nan_to_num(made), np.nan_to_num(log)
    d.near(made, log, near, "logdet", n)
    if abs(math.log2(d.scale)) * n < 100:
        d.near(_wide(linalg.det(r)), sign * np.exp(found[1]), np.exp(found[1]), "det", n)
    q, power = d.given(d.orthogonal(n, n)), int(d.rng.integers(-70, 71))
    want = np.linalg.matrix_power(_wide(q), power)
    d.near(_wide(linalg.matrix_power(q, power)), want, 1.0 + abs(power), f"matrix_power {power}")


def _exponential(linalg: Any, d: _Drawn) -> None:
    """Exponentials by eigenvalues: of Hermitian matrices, and of rotations by any angle."""
    n = d.side()
    q = d.orthogonal(n, n)
    top = 2.0 ** int(d.rng.choice((-9, 0, 3, 6, 9, 11, 12, 13)))
    values = d.rng.uniform(-1, 1, n) * top
    if d.dtype.is_complex:
        # Turns by any angle, in planes of which each has one.
        a, want = q * (1j * values) @ _h(q), q * np.exp(1j * values) @ _h(q)
        size = 1.0
    elif n > 1 and d.rng.random() < 0.6:
        p = q[..., :2]
        turn = np.array([[0.0, -1.0], [1.0, 0.0]])
        rest = q[..., 2:] @ _h(q[..., 2:])
        t = values[0]
        a = t * p @ turn @ _h(p)
        want = p @ (math.cos(t) * np.eye(2) + math.sin(t) * turn) @ _h(p) + rest
        size = 1.0
    else:
        values = -np.abs(values) if top > 16 else values
        a, want = q * values @ _h(q), q * np.exp(values) @ _h(q)
        size = float(np.exp(values.max()))
    # Each rounding of an element turns by that much more.
    got = _wide(linalg.expm(d.given(a)))
    d.near(got, want, max(size, 1e-3) * (2 + top), f"expm of eigenvalues up to {top}", 4)


def _tolerances(linalg: Any, d: _Drawn) -> None:
    """Singular values on both sides of a tolerance, of which each is an element of its matrix."""
    m, n = (int(v) for v in d.rng.permutation([int(d.rng.integers(3, 7)), d.side()]))
    k = min(m, n)
    default = max(m, n) * d.eps
    way = str(d.rng.choice(("default", "rtol", "atol", "both")))
    # One that is given may be less than the default, which must not count then.
    rtol, share = (float(v) for v in d.rng.choice((0.25, 1e-3, default / 4), 2))
    atol = share * d.scale
    options: dict[str, Any] = {"rtol": rtol} if way in ("rtol", "both") else {}
    options |= {"atol": atol} if way in ("atol", "both") else {}
    share = {"default": default, "rtol": rtol, "atol": atol / d.scale}.get(
        way, max(rtol, atol / d.scale))  # fmt: skip
    values = np.where(d.rng.random(k) < 0.5, share * 4, share / 4)
    values[0] = 1.0
    phases = np.exp(1j * d.rng.uniform(0, 6, k)) if d.dtype.is_complex else d.rng.choice((-1, 1), k)
    a = np.zeros((*d.batch, m, n), np.complex128 if d.dtype.is_complex else np.float64)
    rows, columns = d.rng.permutation(m)[:k], d.rng.permutation(n)[:k]
    a[..., rows, columns] = np.minimum(values, 1.0) * phases * d.scale
    kept = np.minimum(values, 1.0) > share
    x, told = d.given(a), f"{m} by {n}, {options}, values {values} of {share}"
    rank = linalg.matrix_rank(x, **options).numpy()
    assert (rank == kept.sum()).all(), f"matrix_rank of {told} is {rank.tolist()}"
    if "atol" in options:
        return
    want = np.zeros((*d.batch, n, m), a.dtype)
    filled = np.where(kept, 1 / np.where(kept, np.minimum(values, 1.0), 1), 0)
    want[..., columns, rows] = filled / phases / d.scale
    most = float(filled.max()) / d.scale
    made = _wide(linalg.pinv(x, **options))
    d.near(made, want, most, f"pinv of {told}", 8)
    b = d.given(d.numbers(m, 2))
    found = linalg.lstsq(x, b, **options)
    ranks = found.rank.numpy()
    assert (ranks == kept.sum()).all(), f"lstsq of {told} tells the rank {ranks.tolist()}"
    d.near(_wide(found.solution), want @ _wide(b), most * 5, f"lstsq of {told}", 8)


_SUBJECTS: Final[dict[str, Callable[[Any, _Drawn], None]]] = {
    "orthogonal-factors": _orthogonal, "singular-values": _singular, "eigenvalues": _eigen,
    "definite-matrices": _definite, "triangular-factors": _triangles,
    "exponentials": _exponential, "tolerances": _tolerances,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    linalg, info = import_module(PACKAGE), place.plain.info
    dtypes = [t for t in (float32, float64, complex64, complex128)
              if info.dtypes.get(t) and info.supports("dot_general", t)]  # fmt: skip
    for turn in filter(partial(place.tries, among=_TURNS // 2), range(_TURNS)):
        rng = np.random.default_rng([place.seed, crc32(name.encode()), turn])
        _SUBJECTS[name](linalg, _Drawn(rng, dtypes[turn % len(dtypes)]))


def drawn_matrices() -> Iterator[Check]:
    """Yield a check of each kind of function, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name, told in _SUBJECTS.items():
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.drawn-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, told),
            dtypes=(float32, int32, int64),
            looks=True,
        )
