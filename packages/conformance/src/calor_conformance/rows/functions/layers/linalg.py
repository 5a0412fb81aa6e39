"""Functions of calor-linalg beside NumPy's, and decompositions by what they give back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, a_length, a_shape, an_axis, coin, fitting, floats
from .language import Row

# Numbers of matrices that can be solved are drawn here; these asks would draw them again.
_SAME: Final = "nan infinite zeros ties equal large small limits"
_VECTOR: Final = (0, 1, -1, 2, -2, math.inf, -math.inf, -3, 0.5, 3)
_MATRIX: Final = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def _vector(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis: Any = None if rng.random() < 0.3 else an_axis(rng, len(shape))
    order = _VECTOR[int(rng.integers(len(_VECTOR)))]
    return [floats(rng, shape)], {"axis": axis, "keepdims": coin(rng), "ord": order}


def _matrix(rng: Rng) -> Arguments:
    order = _MATRIX[int(rng.integers(len(_MATRIX)))]
    return [floats(rng, a_shape(rng, 2))], {"keepdims": coin(rng), "ord": order}


def _normed(rng: Rng) -> Arguments:
    given, options = _vector(rng)
    if options["axis"] is None:
        options["ord"] = None
    return given, options


def _rounded(rng: Rng, shape: tuple[int, ...]) -> Array:
    made = rng.normal(size=shape)
    return np.asarray(made, np.float32)


def _solvable(rng: Rng, n: int | None = None) -> Array:
    """Return a stack of matrices far from singular."""
    size = a_length(rng) if n is None else n
    size = min(size, 9)
    stack = _rounded(rng, (*a_shape(rng, 0, 1), size, size))
    return np.asarray(stack + 4 * np.eye(size), np.float32)


def _square(rng: Rng) -> Arguments:
    return [_solvable(rng)], {}


def _even(x: Any) -> Any:
    return x @ np.swapaxes(x, -1, -2)


def _definite(rng: Rng) -> Arguments:
    return [_even(_solvable(rng))], {}


def _oblong(rng: Rng) -> Arguments:
    return [_rounded(rng, (*a_shape(rng, 0, 1), *(int(n) for n in rng.integers(1, 6, 2))))], {}


def _equations(rng: Rng) -> Arguments:
    a = _solvable(rng)
    return [a, _rounded(rng, (*a.shape[:-1], int(rng.integers(1, 4))))], {}


def _powered(rng: Rng) -> Arguments:
    return [_solvable(rng) / np.float32(5), int(rng.integers(-3, 6))], {}


def _on_diagonal(rng: Rng) -> Arguments:
    return [floats(rng, a_shape(rng, 2))], {"offset": int(rng.integers(-4, 5))}


def _swapped(x: Any) -> Any:
    import calor

    return calor.matrix_transpose(x)


def _from_svd(package: Any, x: Any) -> Any:
    u, s, vh = package.svd(x, full_matrices=False)
    return (u * s[..., None, :]) @ vh, s, _swapped(u) @ u


def _svd(x: Array) -> Any:
    s = np.linalg.svd(x, compute_uv=False)
    return x, s, np.broadcast_to(np.eye(s.shape[-1]), (*x.shape[:-2], s.shape[-1], s.shape[-1]))


def _from_eigh(package: Any, x: Any) -> Any:
    w, v = package.eigh(x)
    return (v * w[..., None, :]) @ _swapped(v), w


def _from_qr(package: Any, x: Any) -> Any:
    import calor

    q, r = package.qr(x)
    return q @ r, calor.tril(r, k=-1), _swapped(q) @ q


def _qr(x: Array) -> Any:
    k, n = min(x.shape[-2:]), x.shape[-1]
    return x, np.zeros((*x.shape[:-2], k, n)), np.broadcast_to(np.eye(k), (*x.shape[:-2], k, k))


def _expm(x: Array) -> Array:
    made = term = np.broadcast_to(np.eye(x.shape[-1]), x.shape).copy()
    for k in range(1, 60):
        term = term @ x / k
        made = made + term
    return made


def _triangles(rng: Rng) -> Arguments:
    (a, b), _ = _equations(rng)
    return [a, b], {"lower": coin(rng), "transpose": coin(rng), "unit_diagonal": coin(rng)}


def _triangular(a: Array, b: Array, *, lower: bool, transpose: bool, unit_diagonal: bool) -> Any:
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return np.linalg.solve(np.swapaxes(a, -1, -2) if transpose else a, b)


def _crossed(rng: Rng) -> Arguments:
    shape = (*a_shape(rng, 0, 2), 3)
    return [floats(rng, shape), floats(rng, shape)], {}


def _chained(rng: Rng) -> Arguments:
    sizes = [int(n) for n in rng.integers(1, 6, int(rng.integers(3, 6)))]
    return [[_rounded(rng, pair) for pair in itertools.pairwise(sizes)]], {}


def _vectors(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [floats(rng, shape), floats(rng, (*fitting(rng, shape[:-1]), shape[-1]))], {}


def _lines(rng: Rng) -> Arguments:
    return [floats(rng, (a_length(rng),)) for _ in range(2)], {}


def _tall(rng: Rng) -> Arguments:
    n = int(rng.integers(1, 4))
    return [_rounded(rng, (n + 4, n)), _rounded(rng, (n + 4, 2))], {}


def _of(draw: Callable[[Rng], Arguments], **options: Any) -> dict[str, Any]:
    return {"draw": draw, "without": _SAME, "near": 3e-4, **options}


ROWS: Final[list[Row]] = [
    Row("vector_norm", _vector, lambda x, **more: np.linalg.vector_norm(x, **more), moves=True,
        smooth=True),
    Row("norm", _normed, np.linalg.norm, moves=True),
    Row("matrix_norm", _matrix, np.linalg.matrix_norm, moves=True, without="nan infinite"),
    Row("trace", _on_diagonal, np.linalg.trace, moves=True, smooth=True),
    Row("diagonal", _on_diagonal, np.linalg.diagonal),
    Row("matrix_transpose", lambda rng: ([floats(rng, a_shape(rng, 2))], {}),
        np.linalg.matrix_transpose),
    Row("cross", _crossed, np.linalg.cross, moves=True, smooth=True),
    Row("vecdot", _vectors, np.linalg.vecdot, moves=True, smooth=True),
    Row("outer", _lines, np.linalg.outer, smooth=True),
    *(Row(name, meaning=getattr(np.linalg, name), **_of(_square, smooth=name in ("det", "inv")))
      for name in ("det", "inv", "pinv", "matrix_rank", "slogdet", "svdvals")),
    *(Row(name, meaning=getattr(np.linalg, name), about="oblong", **_of(_oblong))
      for name in ("pinv", "matrix_rank", "svdvals")),
    Row("cond", meaning=lambda x: np.linalg.cond(x), **_of(_square)),
    Row("logdet", meaning=lambda x: np.linalg.slogdet(x)[1], **_of(_definite, smooth=True)),
    Row("cholesky", meaning=np.linalg.cholesky, **_of(_definite)),
    Row("cholesky_inverse", meaning=np.linalg.inv, call=lambda p, x: p.cholesky_inverse(
        p.cholesky(x)), **_of(_definite)),
    Row("eigvalsh", meaning=np.linalg.eigvalsh, **_of(_definite)),
    Row("eigh", meaning=lambda x: (x, np.linalg.eigvalsh(x)), call=_from_eigh, **_of(_definite)),
    Row("svd", meaning=_svd, call=_from_svd, **_of(_oblong)),
    Row("qr", meaning=_qr, call=_from_qr, **_of(_oblong)),
    Row("solve", meaning=np.linalg.solve, **_of(_equations, smooth=True)),
    Row("lu_solve", meaning=np.linalg.solve, call=lambda p, a, b: p.lu_solve(p.lu_factor(a), b),
        **_of(_equations)),
    Row("solve_triangular", meaning=_triangular, **_of(_triangles)),
    Row("lstsq", meaning=lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
        call=lambda p, a, b: p.lstsq(a, b).solution, **_of(_tall)),
    Row("matrix_power", meaning=np.linalg.matrix_power, **_of(_powered)),
    Row("expm", meaning=_expm, **_of(lambda rng: ([_solvable(rng) / np.float32(5)], {}))),
    Row("multi_dot", meaning=lambda x: np.linalg.multi_dot(x) if len(x) > 1 else x[0],
        **_of(_chained)),
]  # fmt: skip
