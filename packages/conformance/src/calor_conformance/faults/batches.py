"""Faults of batches: what one member needs is decided for all, or by one of the others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calor.backends.op_table import Function

from ..checks.tiny_complements import gamma_parts
from .base import Array, Fault, afterwards, changing
from .control import loop_of

_TERMS = 12


def _exponential(x: Array, halvings: int) -> Array:
    """Return the exponential of matrices by so many halvings and squarings."""
    scaled = (x / x.dtype.type(2**halvings)).astype(x.dtype)
    made = term = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    for n in range(1, _TERMS):
        term = (term @ scaled / x.dtype.type(n)).astype(x.dtype)
        made = made + term
    for _ in range(halvings):
        made = made @ made
    return np.ascontiguousarray(made)


def _halvings(x: Array) -> int:
    # More than are needed, so that the numbers of all members fit a table.
    norm = float(np.abs(x).sum(-2).max(initial=0))
    return 8 + max(0, math.frexp(norm)[1]) if np.isfinite(norm) and norm > 0.1 else 0


def _of_the_largest(right: Function) -> Function:
    return lambda x: _exponential(x, _halvings(x))


def _of_the_first(right: Function) -> Function:
    def expm(x: Array) -> Array:
        return _exponential(x, max(0, _halvings(x[(0,) * (x.ndim - 2)]) - 8))

    return expm


def _by_place(place: int) -> Any:
    """Take values at a place of the results for 0 that are small beside all members'."""

    def cut(y: Any, operands: Any, attributes: Any) -> Any:
        made = list(y) if isinstance(y, tuple | list) else [y]
        values = made[min(place, len(made) - 1)]
        least = np.abs(values).max(initial=0) * np.finfo(values.dtype).eps
        made[min(place, len(made) - 1)] = np.where(np.abs(values) < least, 0, values)
        return tuple(made) if isinstance(y, tuple | list) else made[0]

    return cut


def _lower_together(right: Function) -> Function:
    """Add as many terms of the series as the first element needs."""

    def gammainc(a: Array, x: Array) -> Array:
        count = int(4 * np.ravel(x)[0] + 12) if x.size else 0
        made = [
            min(gamma_parts(v, w)[0], _terms(v, w, count)) if w > 0 else 0.0
            for v, w in zip(np.ravel(a).tolist(), np.ravel(x).tolist(), strict=True)
        ]
        return np.array(made, x.dtype).reshape(x.shape)

    return gammainc


def _terms(a: float, x: float, count: int) -> float:
    term = total = 1 / a
    for n in range(1, count):
        term *= x / (a + n)
        total += term
    return math.exp(a * math.log(x) - x - math.lgamma(a)) * total


FAULTS = [
    Fault(
        "squarings-of-the-largest",
        "all matrices of a batch are halved and squared as often as the largest needs",
        changing(expm=_of_the_largest),
        ("functions/members-alone-expm/float32",),
        ("expm",),
    ),
    Fault(
        "squarings-of-the-first",
        "all matrices of a batch are halved and squared as often as the first needs",
        changing(expm=_of_the_first),
        ("functions/members-alone-expm/float64",),
        ("expm",),
    ),
    Fault(
        "singular-beside-others",
        "a singular value is 0 where it is small beside the largest of the batch",
        changing(svd=afterwards(_by_place(1))),
        ("functions/members-alone-svd/float32", "functions/members-alone-matrix_rank/*"),
        ("svd",),
    ),
    Fault(
        "eigenvalues-beside-others",
        "an eigenvalue is 0 where it is small beside the largest of the batch",
        changing(eigh=afterwards(_by_place(0))),
        ("functions/members-alone-eigh/float32",),
        ("eigh",),
    ),
    Fault(
        "terms-of-the-first",
        "the series of gammainc ends for all elements where the first needs no more terms",
        changing(**{"special.gammainc": _lower_together}),
        ("functions/members-alone-gammainc/float64",),
        ("special.gammainc",),
    ),
    Fault(
        "steps-of-few",
        "a loop ends after 30 steps, which most members do not need",
        changing(while_loop=loop_of(most=30)),
        ("functions/members-alone-loops/float32",),
        ("while_loop",),
    ),
]
