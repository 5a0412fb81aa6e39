"""Rows of the functions of linear algebra that are no ops, against their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calor import linalg
from calor.dtypes import complex64, complex128, float32, float64, int64

from ..domains import normal, positive
from ..language import FLOATS, NUMBERS, Array, Case, Tolerance, case, ulp
from .linalg import DTYPES, NEAR, _inv, _pinv, _solve, adjoint, positive_definite, regular

ROUNDED = ulp(8)
TERMS = ulp(4, scale="terms")
# Singular values come from float64 at most, so a longer oracle has no more digits.
SINGULAR = Tolerance(60.0, 1.0, lambda *operands, **attributes: 4.0)


def _vector_norm(x: Array, *, axis: Any = None, ord: float = 2, keepdims: bool = False) -> Array:
    sizes: Any = np.abs(x).astype(np.float64 if x.dtype != np.longdouble else np.longdouble)
    if math.isinf(ord):
        return np.asarray((np.max if ord > 0 else np.min)(sizes, axis=axis, keepdims=keepdims))
    if ord == 0:
        return np.asarray(np.sum(sizes != 0, axis=axis, keepdims=keepdims).astype(sizes.dtype))
    powers: Array = np.sum(np.power(sizes, ord), axis=axis, keepdims=keepdims)
    return np.asarray(np.power(powers, 1 / sizes.dtype.type(ord)))


def _values(x: Array) -> Array:
    narrow = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return np.asarray(np.linalg.svd(narrow, compute_uv=False))


def _matrix_norm(x: Array, *, ord: Any, keepdims: bool = False) -> Array:
    if ord == "fro":
        made = np.sqrt(np.sum(np.abs(x) ** 2, axis=(-2, -1)))
    elif ord == "nuc":
        made = np.sum(_values(x), axis=-1)
    else:
        sums = _values(x) if abs(ord) == 2 else np.sum(np.abs(x), axis=-2 if abs(ord) == 1 else -1)
        made = (np.max if ord > 0 else np.min)(sums, axis=-1)
    return np.asarray(made[..., None, None] if keepdims else made)


def _power(x: Array, *, n: int) -> Array:
    made = np.broadcast_to(np.eye(x.shape[-1]), x.shape).astype(x.dtype)
    base = _inv(x) if n < 0 else x
    for _ in range(abs(n)):
        made = made @ base
    return np.asarray(made)


def matrix_power(x: Any, *, n: int) -> Any:
    """The power as a keyword."""
    return linalg.matrix_power(x, n)


def _cross(a: Array, b: Array, *, axis: int) -> Array:
    a, b = np.broadcast_arrays(np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1))
    order = ((1, 2), (2, 0), (0, 1))
    parts = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in order]
    return np.moveaxis(np.stack(parts, -1), -1, axis)


def _cross_terms(a: Array, b: Array, *, axis: int) -> Array:
    a, b = np.broadcast_arrays(np.abs(a), np.abs(b))
    return np.asarray(a.max() * b.max() * 2 + np.zeros(a.shape))


def _solved(a: Array, b: Array) -> Array:
    """solve with NumPy's broadcasting and vectors."""
    columns = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    whole = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    made = _solve(whole, np.broadcast_to(columns, (*batch, *columns.shape[-2:])))
    return made[..., 0] if b.ndim == 1 else made


def least_squares(a: Any, b: Any) -> Any:
    """The solution and the residuals of lstsq."""
    return linalg.lstsq(a, b)[:2]


def _least_squares(a: Array, b: Array) -> tuple[Array, Array]:
    solution = _pinv(a, a) @ b
    return solution, np.sum(np.abs(a @ solution - b) ** 2, axis=-1 if b.ndim == 1 else -2)


def upper_factor(x: Any) -> Any:
    """The upper Cholesky factor of the Hermitian part."""
    return linalg.cholesky((x + linalg.matrix_transpose(x).conj()) * 0.5, upper=True)


def _upper_factor(x: Array) -> Array:
    from .linalg import _cholesky

    return adjoint(_cholesky(x))


def triangles(x: Any) -> Any:
    """What lu gives, without the permutation, which is constant."""
    p, low, up = linalg.lu(x)
    return linalg.matmul(linalg.matmul(p, low), up), low, up


def _triangles(x: Array) -> tuple[Array, Array, Array]:
    from .linalg import _lu

    packed, _ = _lu(x)
    k = min(x.shape[-2:])
    low = np.tril(packed, -1)[..., :k]
    return x, low + np.eye(*low.shape[-2:]), np.triu(packed)[..., :k, :]


CASES: list[Case] = [
    *(
        case(linalg.vector_norm, normal(3, 4), oracle=_vector_norm, dtypes=FLOATS, tol=ROUNDED,
             name=f"{order}-{axis}", ord=order, axis=axis)
        for order, axis in [
            (2, None), (2, 0), (2, (1, 0)), (1, -1), (3, 1), (1.5, 0), (math.inf, 1),
            (-math.inf, None), (-2, 1),
        ]
    ),
    case(linalg.vector_norm, positive(3, 4), oracle=_vector_norm, dtypes=FLOATS, tol=ROUNDED,
         name="0.5", ord=0.5, axis=0),
    case(linalg.vector_norm, normal(3, 4), oracle=_vector_norm, dtypes=FLOATS, ord=0, axis=1,
         name="count", no_gradient="it counts"),
    case(linalg.vector_norm, normal(2, 3), oracle=_vector_norm, dtypes=FLOATS, tol=ROUNDED, axis=0,
         keepdims=True, name="kept"),
    case(linalg.vector_norm, normal(), oracle=_vector_norm, dtypes=FLOATS, tol=ROUNDED, name="0d"),
    case(linalg.vector_norm, normal(0, 2), oracle=_vector_norm, dtypes=FLOATS, axis=0,
         name="empty"),
    *(
        case(linalg.matrix_norm, normal(2, 3, 4), oracle=_matrix_norm, dtypes=FLOATS, tol=SINGULAR,
             name=str(order), ord=order)
        for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
    ),
    case(linalg.matrix_norm, normal(2, 2), oracle=_matrix_norm, dtypes=FLOATS, tol=ROUNDED,
         ord="fro", keepdims=True, name="kept"),
    *(
        case(linalg.diagonal, normal(2, 3, 4), offset=offset, dtypes=NUMBERS, name=str(offset),
             oracle=lambda x, *, offset: np.diagonal(x, offset, -2, -1))
        for offset in (0, 1, 3, 4, 7, -1, -2, -3, -9)
    ),
    *(
        case(linalg.trace, normal(2, 3, 4), offset=offset, dtypes=FLOATS, name=str(offset),
             tol=TERMS, oracle=lambda x, *, offset: np.trace(x, offset, -2, -1))
        for offset in (0, 2, -1, 5)
    ),
    *(
        case(linalg.cross, normal(*left), normal(*right), axis=axis, oracle=_cross, dtypes=NUMBERS,
             tol=ulp(4, half=4, scale=_cross_terms), name=f"{left}-{right}")
        for left, right, axis in [((3,), (3,), -1), ((2, 3), (3,), -1), ((3, 1), (2, 3, 2), -2),
                                  ((3, 2), (3, 2), 0)]
    ),
    *(
        case(matrix_power, regular(2, 3, 3), n=n, oracle=_power, dtypes=DTYPES, tol=NEAR,
             name=str(n))
        for n in (1, 2, 3, 5, -1, -2)
    ),
    case(matrix_power, regular(2, 3, 3), n=0, oracle=_power, dtypes=DTYPES, name="0",
         no_gradient="it is the identity"),
    *(
        case(linalg.solve, regular(*left), normal(*right), oracle=_solved, dtypes=DTYPES, tol=NEAR,
             name=f"{left}-{right}")
        for left, right in [
            ((3, 3), (3,)), ((2, 3, 3), (3,)), ((3, 3), (2, 3, 2)), ((2, 1, 3, 3), (2, 3, 1)),
            ((2, 2), (2, 0)), ((1, 1), (3, 1, 2)),
        ]
    ),
    case(linalg.inv, regular(3, 3), oracle=_inv, dtypes=DTYPES, tol=NEAR, name="function"),
    *(
        case(linalg.pinv, regular(*shape), oracle=lambda x: _pinv(x, x), dtypes=DTYPES, tol=NEAR,
             name=f"function-{shape}")
        for shape in [(4, 2), (2, 2, 3), (3, 3)]
    ),
    *(
        case(least_squares, regular(*left), normal(*right), oracle=_least_squares, dtypes=DTYPES,
             tol=Tolerance(1000.0, 1.0, lambda *operands: 16.0), name=f"{left}-{right}")
        for left, right in [((4, 2), (4,)), ((2, 4, 3), (2, 4, 2))]
    ),
    case(linalg.matrix_rank, regular(2, 4, 3), dtypes=DTYPES, no_gradient="it counts",
         oracle=lambda x: np.full(x.shape[:-2], 3), out=lambda t: (int64,)),
    case(upper_factor, positive_definite(2, 3, 3), oracle=_upper_factor, dtypes=DTYPES, tol=NEAR),
    *(
        case(triangles, regular(*shape), oracle=_triangles, dtypes=DTYPES, tol=NEAR,
             name=str(shape))
        for shape in [(3, 3), (2, 4, 2), (2, 4)]
    ),
    *(
        case(linalg.svdvals, regular(*shape), oracle=_values, dtypes=(float32, float64, complex64,
             complex128), tol=SINGULAR, name=str(shape))
        for shape in [(3, 3), (2, 4, 2), (2, 4)]
    ),
]  # fmt: skip
