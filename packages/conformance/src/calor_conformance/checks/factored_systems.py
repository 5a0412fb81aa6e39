"""Systems that are solved by factors: each option, dtype, batch and form of the right side.

Symmetric, Hermitian, definite and general matrices are drawn with zeros on the diagonal, in
batches, and factored and solved with each option. What comes out solves the
system, and factors give the matrix again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import complex64, complex128, float32, float64, int32, int64

from .base import Array, Check, Place

CONTRACT: Final = "factors with any option solve the system that they were made of"
PACKAGE: Final = "calor_linalg"
_TURNS: Final = 14
_NEAR: Final = {"float32": 2e-3, "complex64": 2e-3, "float64": 1e-9, "complex128": 1e-9}
Rng = np.random.Generator


def _numbers(rng: Rng, shape: tuple[int, ...], dtype: Any) -> Array:
    made = rng.normal(size=shape)
    if dtype.is_complex:
        made = made + 1j * rng.normal(size=shape)
    return made.astype(dtype.numpy)


class _System:
    """A matrix with a right side, alone or in batches."""

    def __init__(self, rng: Rng, dtype: Any) -> None:
        self.n, self.dtype = int(rng.choice([1, 2, 3, 4, 5, 8])), dtype
        batch = [(), (), (3,), (2, 1)][int(rng.integers(4))]
        self.vector = not batch and rng.random() < 0.4
        self.a = _numbers(rng, (*batch, self.n, self.n), dtype)
        columns = () if self.vector else (int(rng.integers(1, 4)),)
        self.b = _numbers(rng, (*batch, self.n, *columns), dtype)

    def solved(self, a: Array, x: Any, what: str) -> None:
        """Require that a @ x is the right side."""
        made = x.numpy()
        assert made.dtype == self.b.dtype, f"{what}: {made.dtype}"
        assert made.shape == self.b.shape, f"{what}: shape {made.shape}, not {self.b.shape}"
        off = np.abs(a @ made - self.b).max(initial=0)
        scale = (1 + np.abs(a).max(initial=0)) * (1 + np.abs(made).max(initial=0))
        assert off <= _NEAR[self.dtype.name] * scale, f"{what}: off by {off}, of {a.tolist()}"


def _same(made: Any, a: Array, dtype: Any, what: str) -> None:
    off = np.abs(made.numpy() - a).max(initial=0)
    near = _NEAR[dtype.name] * (1 + np.abs(a).max(initial=0))
    assert off <= near, f"{what} gives a matrix that is off by {off}, of {a.tolist()}"


def _mirrored(a: Array, hermitian: bool) -> Array:
    return np.asarray(np.swapaxes(a.conj() if hermitian else a, -1, -2))


def _indefinite(linalg: Any, rng: Rng, dtype: Any) -> None:
    """Symmetric and Hermitian matrices, most with zeros on their diagonal."""
    system, hermitian = _System(rng, dtype), bool(rng.random() < 0.5)
    a = system.a + _mirrored(system.a, hermitian)
    zeros = rng.random(system.n) < rng.choice([0.0, 0.5, 1.0])
    a = np.where(np.eye(system.n, dtype=bool) & zeros, np.zeros((), a.dtype), a)
    if system.n == 1:
        a = a + np.ones((), a.dtype)
    # The other triangle is not read.
    given = np.tril(a) + np.triu(_numbers(rng, a.shape, dtype), 1)
    factors = linalg.ldl_factor(calor.asarray(given), hermitian=hermitian)
    x = linalg.ldl_solve(factors, calor.asarray(system.b), hermitian=hermitian)
    system.solved(a, x, f"ldl_solve of {dtype.name}, hermitian {hermitian}")


def _definite(linalg: Any, rng: Rng, dtype: Any) -> None:
    system, upper = _System(rng, dtype), bool(rng.random() < 0.5)
    a = system.a @ _mirrored(system.a, True) + 0.5 * np.eye(system.n, dtype=dtype.numpy)
    what = f"of {dtype.name}, upper {upper}"
    factor = linalg.cholesky(calor.asarray(a), upper=upper)
    made = factor.mT @ factor if upper else factor @ factor.mT
    if dtype.is_complex:
        turned = calor.conj(factor.mT)
        made = turned @ factor if upper else factor @ turned
    _same(made, a, dtype, f"cholesky {what}")
    x = linalg.cholesky_solve(calor.asarray(system.b), factor, upper=upper)
    system.solved(a, x, f"cholesky_solve {what}")
    back = linalg.cholesky_inverse(factor, upper=upper)
    eye = np.eye(system.n, dtype=dtype.numpy)
    _same(calor.asarray(a) @ back, np.broadcast_to(eye, a.shape), dtype, f"cholesky_inverse {what}")
    found = linalg.cholesky_ex(calor.asarray(a), upper=upper)
    assert not found[1].numpy().any(), f"cholesky_ex {what}: {found[1].tolist()}"
    _same(found[0], factor.numpy(), dtype, f"cholesky_ex {what}")


def _general(linalg: Any, rng: Rng, dtype: Any) -> None:
    system = _System(rng, dtype)
    a = system.a + 0.1 * np.eye(system.n, dtype=dtype.numpy)
    factors = linalg.lu_factor(calor.asarray(a))
    adjoint = bool(rng.random() < 0.5)
    left = system.vector or rng.random() < 0.5
    turned = _mirrored(a, True) if adjoint else a
    b = system.b if left else np.asarray(np.swapaxes(system.b, -1, -2))
    x = linalg.lu_solve(factors, calor.asarray(b), left=bool(left), adjoint=adjoint)
    # X A = b where Aᵀ Xᵀ = bᵀ.
    matrix, x = (turned, x) if left else (_mirrored(turned, False), x.mT)
    system.solved(matrix, x, f"lu_solve of {dtype.name}, left {left}, adjoint {adjoint}")
    p, low, high = linalg.lu_unpack(factors)
    _same(p @ low @ high, a, dtype, f"lu_unpack of {dtype.name}")
    lower, transpose, one = (bool(rng.random() < 0.5) for _ in range(3))
    half = np.tril(a) if lower else np.triu(a)
    np.einsum("...ii->...i", half)[...] += 2
    other = _numbers(rng, a.shape, dtype)
    # The other triangle is not read, and a diagonal of ones is not either.
    given = half + (np.triu(other, 1) if lower else np.tril(other, -1))
    if one:
        np.einsum("...ii->...i", half)[...] = 1
    options = {"lower": lower, "transpose": transpose, "unit_diagonal": one}
    x = linalg.solve_triangular(calor.asarray(given), calor.asarray(system.b), **options)
    matrix = _mirrored(half, False) if transpose else half
    system.solved(matrix, x, f"solve_triangular of {dtype.name}, {options}")
    system.solved(a, linalg.solve(calor.asarray(a), calor.asarray(system.b)), "solve")


_SUBJECTS: Final[dict[str, Callable[[Any, Rng, Any], None]]] = {
    "indefinite": _indefinite, "definite": _definite, "general": _general,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    linalg, info = import_module(PACKAGE), place.plain.info
    dtypes = [d for d in (float32, float64, complex64, complex128)
              if info.dtypes.get(d) and info.supports("dot_general", d)]  # fmt: skip
    for turn in range(_TURNS):
        if place.tries(turn, 7):
            rng = np.random.default_rng([place.seed, 971, len(name), turn])
            _SUBJECTS[name](linalg, rng, dtypes[turn % len(dtypes)])


def factored_systems() -> Iterator[Check]:
    """Yield the checks, if calor-linalg is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name, run in _SUBJECTS.items():
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.systems-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, run),
            dtypes=(float32, int32, int64),
            looks=True,
        )
