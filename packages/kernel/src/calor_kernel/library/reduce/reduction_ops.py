"""The kinds of reductions: combination of two values, identity, and type.

Requirements: half types accumulate in float32 and round once. A sum or product whose result has
another type than its terms accumulates in their common type, by NumPy's promotion. Integers wrap,
so those smaller than 32 bits may accumulate in 32.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any, Final

import numpy as np

from calor.dtypes import DType, bool_, float32, int32, int64, uint32
from calor_kernel.language import constant, select
from calor_kernel.language.builder import current
from calor_kernel.library.elementwise.values import Complex, Value

TOTALS: Final = ("sum", "prod")
EXTREMES: Final = ("max", "min")
PLACES: Final = ("argmax", "argmin")
TRUTHS: Final = ("any", "all")


@cache
def working(kind: str, source: DType, result: DType) -> DType:
    """Return the dtype of the accumulation."""
    if kind in TRUTHS:
        return bool_
    wide = float32 if source.kind == "float" and source.itemsize < 4 else source
    if kind in EXTREMES:
        return wide
    if kind in PLACES:
        return int32 if wide is bool_ else wide
    made = float32 if result.kind == "float" and result.itemsize < 4 else result
    if wide.is_inexact:
        made = _HOST[np.result_type(made.numpy, wide.numpy)]
    if made.is_integer and made.itemsize < 4:
        return int32 if made.kind == "int" else uint32
    return made


def _types() -> dict[Any, DType]:
    from calor.dtypes import ALL

    return {t.numpy: t for t in ALL}


_HOST: Final = _types()


def identity(kind: str, dtype: DType) -> Any:
    """Return the identity of a reduction, as a number of Python."""
    if kind in ("sum", "any"):
        return False if dtype is bool_ else 0
    if kind in ("prod", "all"):
        return True if dtype is bool_ else 1
    largest = kind in ("min", "argmin")
    if dtype is bool_:
        return largest
    if dtype.kind == "float":
        return inf if largest else -inf
    bits = 8 * dtype.itemsize - (dtype.kind == "int")
    if largest:
        return (1 << bits) - 1
    return -(1 << bits) if dtype.kind == "int" else 0


def start(kind: str, dtype: DType, width: int = 1) -> Value:
    """Return the identity as a device value."""
    number = identity(kind, dtype)
    if dtype.is_complex:
        part = _HOST[np.zeros(0, dtype.numpy).real.dtype]
        return Complex(constant(number, part, width), constant(0, part, width))
    return constant(number, dtype, width)


def joined(kind: str, a: Any, b: Any) -> Any:
    """Return two values combined; for extremes NaN if one is NaN."""
    if isinstance(a, Complex):
        if kind == "sum":
            return Complex(a.real + b.real, a.imag + b.imag)
        real = a.real * b.real - a.imag * b.imag
        return Complex(real, a.real * b.imag + a.imag * b.real)
    if kind == "sum":
        return a + b
    if kind == "prod":
        return a * b
    if kind == "peak":
        return select(b > a, b, a)
    if a.dtype.kind == "bool":
        return a | b if kind in ("any", "max") else a & b
    return current().binary("max" if kind == "max" else "min", a, b)


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two integers, one of them a device value."""
    return current().binary("min", a, b)


def beats(kind: str, value: Any, best: Any) -> Any:
    """Return whether a value beats the best one so far, which has the lower index."""
    if value.dtype.kind == "float":
        # A value that is not at most the best is above it, or one of the two is NaN.
        under = value <= best if kind == "argmax" else value >= best
        return ~under & (best == best)
    return value > best if kind == "argmax" else value < best


def index_type(terms: int) -> DType:
    """Return the dtype of indices."""
    return int32 if terms < 1 << 31 else int64
