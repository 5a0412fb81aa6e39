"""Rows of the products of matrices and vectors, against NumPy's on wider numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor import linalg

from ..domains import any_bits, normal
from ..language import FLOATS, INTEGERS, NUMBERS, Array, Case, case, ulp

TERMS = ulp(4, scale="terms")

MATMULS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (1, 4, 3, 2)),
    ((2, 4, 2, 3), (4, 3, 2)), ((4, 2, 3), (2, 4, 3, 2)), ((1, 2, 3), (1, 3, 2)),
    ((3,), (5, 3, 2)), ((5, 2, 3), (3,)), ((2, 1, 2, 3), (5, 3, 2)), ((1, 1), (1, 1)),
    ((0, 3), (3, 2)), ((2, 0), (0, 2)), ((0,), (0,)), ((0, 2, 3), (3, 2)), ((0, 2, 3), (1, 3, 2)),
]  # fmt: skip
_EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ii", [(3, 3)]), ("iji->ij", [(2, 3, 2)]),
    ("ij,ij->j", [(2, 3), (2, 3)]), ("...ij,...kj->...ik", [(2, 1, 2, 3), (4, 2, 3)]),
    ("bqd,bkd->bqk", [(2, 3, 2), (2, 4, 2)]),
]  # fmt: skip
_LONG_EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,kj,lk->il", [(2, 3), (4, 3), (3, 4)]), ("iij,jk,k->i", [(2, 2, 3), (3, 2), (2,)]),
]  # fmt: skip


def _vecdot(a: Array, b: Array, *, axis: int) -> Array:
    a, b = np.broadcast_arrays(np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1))
    return np.asarray(np.einsum("...i,...i->...", np.conjugate(a), b))


def _einsum(equation: str) -> Any:
    def einsum(*operands: Any) -> Any:
        return calor.einsum(equation, *operands)

    return einsum


def _summed(equation: str) -> Any:
    return lambda *operands: np.asarray(np.einsum(equation, *operands))


CASES: list[Case] = [
    *(
        case(calor.matmul, normal(*left), normal(*right), oracle=np.matmul, dtypes=NUMBERS,
             tol=TERMS, name=f"{left}-{right}")
        for left, right in MATMULS
    ),
    case(calor.matmul, any_bits(3, 4), any_bits(4, 2), oracle=np.matmul, dtypes=INTEGERS,
         name="wraps"),
    *(
        case(calor.tensordot, normal(*left), normal(*right), axes=axes, oracle=np.tensordot,
             dtypes=NUMBERS, tol=TERMS, name=f"{left}-{right}-{axes}")
        for left, right, axes in [
            ((2, 3, 4), (3, 4, 2), 2), ((2, 3), (3, 2), 1), ((2, 3), (2,), 0),
            ((2, 3, 4), (4, 2, 3), ((0, 2), (1, 0))), ((2, 3), (3, 2), ((-1, 0), (0, -1))),
            ((2, 0), (0, 3), ((1,), (0,))), ((2, 3), (3,), ((1,), (0,))),
        ]
    ),
    *(
        case(calor.vecdot, normal(*left), normal(*right), axis=axis, oracle=_vecdot,
             dtypes=NUMBERS, tol=TERMS, name=f"{left}-{right}-{axis}")
        for left, right, axis in [
            ((3,), (3,), -1), ((2, 3), (3,), -1), ((2, 1, 3), (4, 3), -1), ((3, 2), (3, 2), 0),
            ((3, 2), (3, 1), -2), ((2, 0), (2, 0), -1),
        ]
    ),
    case(linalg.outer, normal(3), normal(2), oracle=np.outer, dtypes=NUMBERS, tol=TERMS),
    case(calor.matrix_transpose, normal(2, 3, 4), oracle=lambda x: x.swapaxes(-1, -2),
         dtypes=NUMBERS),
    *(
        case(_einsum(equation), *(normal(*s) for s in shapes), oracle=_summed(equation),
             dtypes=(*INTEGERS[:2], *FLOATS), tol=TERMS, name=equation)
        for equation, shapes in _EQUATIONS
    ),
    *(
        case(_einsum(equation), *(normal(*s) for s in shapes), oracle=_summed(equation),
             dtypes=FLOATS[2:], tol=ulp(8, scale="terms"), name=equation)
        for equation, shapes in _LONG_EQUATIONS
    ),
]  # fmt: skip
