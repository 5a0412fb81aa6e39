"""Factors of calor-linalg by what they give back: general eigenvalues, reflectors, low ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, a_shape, coin
from .language import Function, Row

# Numbers of matrices are drawn here; these asks would draw them again.
_SAME: Final = "nan infinite zeros ties equal large small limits short"


def _normal(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.normal(size=shape), np.float32)


def _stack(rng: Rng, rows: int, columns: int | None = None) -> Array:
    return _normal(rng, (*a_shape(rng, 0, 1)[:1], rows, rows if columns is None else columns))


def _side(rng: Rng, most: int = 6) -> int:
    return int(rng.integers(1, most))


def _square(rng: Rng) -> Arguments:
    n = _side(rng, 9 if rng.ask == "long" else 6)
    kind = int(rng.integers(3))
    x = _stack(rng, n)
    if kind == 1:
        x = np.triu(x, -1)
    if kind == 2:
        # A turn, of which all eigenvalues come in pairs.
        x = x - np.swapaxes(x, -1, -2)
    return [x + 2 * np.diag(np.arange(n)).astype(np.float32)], {}


def _swapped(x: Any) -> Any:
    import calor

    return calor.matrix_transpose(x)


def _sides(package: Any, x: Any) -> Any:
    """Return both sides of x·v = v·w, and the lengths of eigenvectors."""
    import calor

    w, v = package.eig(x)
    wide = calor.astype(x, v.dtype)
    lost = wide @ v - v * w[..., None, :]
    return calor.max(calor.abs(lost), axis=(-2, -1)), calor.sum(calor.abs(v) ** 2, axis=-2)


def _of_sides(x: Array) -> Any:
    return np.zeros(x.shape[:-2]), np.ones(x.shape[:-1])


def _powers(values: Any, xp: Any) -> Any:
    """Return what does not depend on the order of numbers: the sums of their powers."""
    return [xp.sum(values**k, axis=-1) for k in (1, 2, 3)]


def _of_values(package: Any, x: Any) -> Any:
    import calor

    made = package.eigvals(x)
    return [f(p) for p in _powers(made, calor) for f in (calor.real, calor.imag)]


def _values(x: Array) -> Any:
    parts = _powers(np.linalg.eigvals(x).astype(complex), np)
    return [f(p) for p in parts for f in (np.real, np.imag)]


def _indefinite(rng: Rng) -> Arguments:
    n = _side(rng)
    x = _stack(rng, n)
    x = x + np.swapaxes(x, -1, -2)
    if coin(rng) and n > 1:
        # Without numbers on the diagonal, it takes blocks of two.
        x = x * (1 - np.eye(n, dtype=np.float32))
        x[..., 0, 1] += 3
        x[..., 1, 0] += 3
    return [x + 0.3 * np.eye(n, dtype=np.float32)[::-1], _normal(rng, (*x.shape[:-1], 2))], {}


def _by_ldl(package: Any, x: Any, b: Any) -> Any:
    return x @ package.ldl_solve(package.ldl_factor(x), b)


def _oblong(rng: Rng) -> Arguments:
    return [_stack(rng, *(int(n) for n in rng.integers(1, 6, 2)))], {}


def _by_reflectors(package: Any, x: Any) -> Any:
    """Return what the product of reflectors gives back, and how far its columns are from one."""
    import calor

    a, tau = package.geqrf(x)
    q = package.householder_product(a[..., : tau.shape[-1]], tau)
    r = calor.triu(a[..., : tau.shape[-1], :])
    return q @ r, _swapped(q) @ q


def _reflectors(x: Array) -> Any:
    k = min(x.shape[-2:])
    return x, np.broadcast_to(np.eye(k), (*x.shape[:-2], k, k))


def _turned(rng: Rng) -> Arguments:
    rows, columns = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    left = coin(rng)
    x = _normal(rng, (rows, min(columns, rows)))
    other = _normal(rng, (rows, 3) if left else (3, rows))
    return [x, other], {"left": left, "transpose": coin(rng)}


def _by_ormqr(package: Any, x: Any, other: Any, **options: Any) -> Any:
    a, tau = package.geqrf(x)
    return package.ormqr(a, tau, other, **options)


def _ormqr(x: Array, other: Array, *, left: bool, transpose: bool) -> Any:
    """Return the product with the whole orthogonal factor, whose signs are those of reflectors."""
    q = np.eye(len(x))
    a = x.astype(np.float64)
    for k in range(min(x.shape)):
        v = a[k:, k].copy()
        size = math.copysign(np.linalg.norm(v), v[0])
        if len(v) == 1:
            continue
        v[0] += size
        step = np.eye(len(x))
        step[k:, k:] -= 2 * np.outer(v, v) / (v @ v)
        a, q = step @ a, q @ step
    q = q.T if transpose else q
    return q @ other if left else other @ q


def _solvable(rng: Rng) -> Array:
    n = _side(rng)
    return np.asarray(_stack(rng, n) + 4 * np.eye(n), np.float32)


def _systems(rng: Rng) -> Arguments:
    a = _solvable(rng)
    return [a, _normal(rng, a.shape)], {"left": coin(rng), "adjoint": coin(rng)}


def _by_lu(package: Any, a: Any, b: Any, **options: Any) -> Any:
    return package.lu_solve(package.lu_factor(a), b, **options)


def _lu_solve(a: Array, b: Array, *, left: bool, adjoint: bool) -> Any:
    a = np.swapaxes(a, -1, -2) if adjoint else a
    if left:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def _three(make: Callable[[Any, Any], Any]) -> Function:
    """Return what calls for a permutation and two triangles, and what they say of these."""

    def call(package: Any, x: Any) -> Any:
        import calor

        p, low, up = make(package, x)
        ones = calor.sum(p, axis=-1)
        return p @ low @ up, calor.triu(low, k=1), calor.tril(up, k=-1), ones

    return call


def _triangles(x: Array) -> Any:
    m, n = x.shape[-2:]
    k, lead = min(m, n), x.shape[:-2]
    return x, np.zeros((*lead, m, k)), np.zeros((*lead, k, n)), np.ones((*lead, m))


def _definite(rng: Rng) -> Arguments:
    a = _solvable(rng)
    bad = rng.random() < 0.3 and a.shape[-1] > 1
    x = a @ np.swapaxes(a, -1, -2)
    if bad:
        x[..., -1, -1] = -1
    return [x], {"upper": coin(rng)}


def _failing(package: Any, x: Any, *, upper: bool) -> Any:
    import calor

    made = package.cholesky_ex(x, upper=upper)
    factor, info = made
    good = calor.equal(info, 0)[..., None, None]
    square = _swapped(factor) @ factor if upper else factor @ _swapped(factor)
    return calor.where(good, square, 0.0), info


def _failed(x: Array, *, upper: bool) -> Any:
    info = np.zeros(x.shape[:-2], np.int64)
    for at in np.ndindex(*info.shape):
        orders = range(1, x.shape[-1] + 1)
        info[at] = next((n for n in orders if np.linalg.det(x[at][:n, :n]) <= 0), 0)
    return np.where((info == 0)[..., None, None], x, 0.0), info


def _by_cholesky(package: Any, b: Any, a: Any, *, upper: bool) -> Any:
    return package.cholesky_solve(b, package.cholesky(a, upper=upper), upper=upper)


def _of_cholesky(rng: Rng) -> Arguments:
    a = _solvable(rng)
    return [_normal(rng, (*a.shape[:-1], 2)), a @ np.swapaxes(a, -1, -2)], {"upper": coin(rng)}


def _inverted(rng: Rng) -> Arguments:
    lead = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(1, 3))))
    size = math.prod(lead)
    x = _normal(rng, (size, size)) + 4 * np.eye(size, dtype=np.float32)
    ind = len(lead) if coin(rng) else 1
    first = lead if ind == len(lead) else (size,)
    return [x.reshape(*first, *((size,) if coin(rng) else lead))], {"ind": ind}


def _solved(rng: Rng) -> Arguments:
    lead = tuple(int(n) for n in rng.integers(1, 4, 2))
    size = math.prod(lead)
    x = _normal(rng, (size, size)) + 4 * np.eye(size, dtype=np.float32)
    x = x.reshape(*lead, *lead)
    if coin(rng):
        # An axis of the unknowns stands elsewhere, and is named.
        return [np.moveaxis(x, 2, 0), _normal(rng, lead)], {"axes": (0,)}
    return [x, _normal(rng, lead)], {}


def _tensorsolve(a: Array, b: Array, *, axes: Any = None) -> Any:
    # NumPy moves named axes to the end, one after another.
    return np.linalg.tensorsolve(a, b, axes=axes)


def _low(rng: Rng) -> Arguments:
    m, n = (int(k) for k in rng.integers(3, 8, 2))
    return [_normal(rng, (m, 2)) @ _normal(rng, (2, n))], {}


def _by_rank(name: str) -> Function:
    def call(package: Any, x: Any) -> Any:
        import calor

        u, s, vh = getattr(package, name)(x, 3, key=calor.random.key(1))
        return (u * s[..., None, :]) @ vh, s[..., :2]

    return call


def _low_rank(centred: bool) -> Function:
    def meaning(x: Array) -> Any:
        x = x - x.mean(0) if centred else x
        return x, np.linalg.svd(x, compute_uv=False)[:2]

    return meaning


def _of(draw: Callable[[Rng], Arguments], **options: Any) -> dict[str, Any]:
    return {"draw": draw, "without": _SAME, "near": 5e-4, "moves": True, **options}


ROWS: Final[list[Row]] = [
    Row("eig", meaning=_of_sides, call=_sides, **_of(_square)),
    Row("eigvals", meaning=_values, call=_of_values, **_of(_square, near=2e-3)),
    Row("ldl_solve", meaning=lambda x, b: b, call=_by_ldl, **_of(_indefinite, near=5e-3)),
    Row("geqrf", meaning=_reflectors, call=_by_reflectors, **_of(_oblong)),
    Row("householder_product", meaning=_reflectors, call=_by_reflectors, **_of(_oblong)),
    Row("ormqr", meaning=_ormqr, call=_by_ormqr, **_of(_turned)),
    Row("lu_solve", meaning=_lu_solve, call=_by_lu, about="from both sides",
        **_of(_systems, smooth=True)),
    Row("lu", meaning=_triangles, call=_three(lambda p, x: p.lu(x)), **_of(_oblong)),
    Row("lu_unpack", meaning=_triangles,
        call=_three(lambda p, x: p.lu_unpack(p.lu_factor(x))), **_of(_oblong)),
    Row("cholesky_ex", meaning=_failed, call=_failing, **_of(_definite)),
    Row("cholesky_solve", meaning=lambda b, a, upper: np.linalg.solve(a, b), call=_by_cholesky,
        **_of(_of_cholesky)),
    Row("tensorinv", meaning=lambda x, ind: np.linalg.tensorinv(x, ind=ind), **_of(_inverted)),
    Row("tensorsolve", meaning=_tensorsolve, **_of(_solved)),
    Row("svd_lowrank", meaning=_low_rank(False), call=_by_rank("svd_lowrank"), **_of(_low)),
    Row("pca_lowrank", meaning=_low_rank(True), call=_by_rank("pca_lowrank"), **_of(_low)),
]  # fmt: skip
