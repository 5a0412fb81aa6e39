"""Faults of complementary functions: one is 1 less the other, and has no digits left."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calor.backends.op_table import Function

from ..checks.tiny_complements import gamma_parts
from .base import Array, Change, Fault, changing

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _rest(of: Callable[..., Any], *kinds: Any) -> Change:
    """Make a function 1 less another one, rounded to the dtype of the operands."""

    def changed(right: Function) -> Function:
        def function(*x: Array) -> Any:
            if x[0].dtype not in kinds:
                return right(*x)
            one = x[0].dtype.type(1)
            return one - np.asarray(of(*x)).astype(x[0].dtype)

        return function

    return changed


def _part(place: int) -> Callable[[Array, Array], Array]:
    """Return an incomplete gamma function of arrays."""

    def one(a: float, x: float) -> float:
        if x > 0 and a > 0 and math.isfinite(a + x):
            return gamma_parts(a, x)[place]
        return float(place == (x <= 0))

    return np.vectorize(one, otypes=[np.float64])


def _lower_half(x: Array) -> Array:
    return np.asarray((1 + _erf(-x.astype(np.float64) / math.sqrt(2))) / 2)


F32, F64 = np.float32, np.float64
FAULTS = [
    Fault(
        "upper-from-lower",
        "gammaincc is 1 less gammainc",
        changing(**{"special.gammaincc": _rest(_part(0), F32, F64)}),
        ("accuracy/tiny-gammaincc/float32", "accuracy/tiny-gammaincc/float64"),
        ("special.gammaincc",),
    ),
    Fault(
        "lower-from-upper",
        "gammainc is 1 less gammaincc",
        changing(**{"special.gammainc": _rest(_part(1), F32, F64)}),
        ("accuracy/tiny-gammainc/float32", "accuracy/tiny-gammainc/float64"),
        ("special.gammainc",),
    ),
    Fault(
        "erfc-from-erf",
        "erfc is 1 less erf",
        changing(erfc=_rest(_erf, F32, F64)),
        ("accuracy/tiny-erfc/float32", "accuracy/tiny-erfc/float64"),
        ("erfc",),
    ),
    Fault(
        "erf-from-erfc",
        "erf is 1 less erfc",
        changing(erf=_rest(np.vectorize(math.erfc, otypes=[np.float64]), F32)),
        ("accuracy/tiny-erf/float32",),
        ("erf",),
    ),
    Fault(
        "bell-from-the-upper-half",
        "ndtr is 1 less its mirror image",
        changing(ndtr=_rest(_lower_half, F32)),
        ("accuracy/tiny-ndtr/float32",),
        ("ndtr",),
    ),
    Fault(
        "log1p-of-the-sum",
        "log1p is the logarithm of the rounded sum 1 + x",
        changing(
            log1p=lambda right: (
                lambda x: np.log(x + x.dtype.type(1)) if x.dtype in (F32, F64) else right(x)
            )
        ),
        ("accuracy/tiny-log1p/float32", "accuracy/tiny-log1p/float64"),
        ("log1p",),
    ),
]
