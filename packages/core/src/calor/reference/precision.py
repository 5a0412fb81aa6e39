"""In which type a result is computed, and how it is rounded once to the type it is stored in.

Requirements: sums and products of half types (float16, bfloat16, float8) accumulate in float32;
a conversion between floating types rounds once, to nearest with ties to even.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]

FLOAT32: Final[DType] = np.dtype(np.float32)
FLOAT64: Final[DType] = np.dtype(np.float64)
HALVES: Final[frozenset[DType]] = frozenset(
    np.dtype(t)
    for t in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
)
_NARROW: Final = HALVES - {np.dtype(np.float16)}

# A decorator: no function warns, whatever it is given. (A signaling NaN warns in a mere cast.)
quiet: Final = np.errstate(all="ignore")


def is_float(dtype: DType) -> bool:
    """Return whether a dtype is real floating, the half types included."""
    return dtype.kind == "f" or dtype in HALVES


@quiet
def widened(x: Array) -> Array:
    """Return x as float32 when it is of a half type, else x itself."""
    return x.astype(FLOAT32) if x.dtype in HALVES else x


@quiet
def rounded(x: Array, dtype: DType) -> Array:
    """Return a floating array in a dtype, rounded once to nearest, ties to even.

    NumPy rounds correctly between its own types; ml_dtypes goes through float32, so a float64 is
    first rounded to an odd float32, after which the second rounding gives the right result
    (Boldo and Melquiond, "When double rounding is odd", 2005).
    """
    x = np.asarray(x)
    if dtype in _NARROW and x.dtype == FLOAT64:
        x = _rounded_to_odd(x)
    return x.astype(dtype, copy=False)


def _rounded_to_odd(x: Array) -> Array:
    nearest = np.asarray(x.astype(FLOAT32))
    inexact = (nearest != x) & np.isfinite(x)
    bits = nearest.view(np.int32)
    # Of the two float32 around x the one with an odd last bit is wanted; the bits of neighbours
    # of one sign are neighbouring integers, and those of infinity follow the largest number's.
    away = np.abs(nearest.astype(FLOAT64)) < np.abs(x)
    even = bits & 1 == 0
    step = np.where(away, 1, -1).astype(np.int32)
    return np.where(inexact & even, bits + step, bits).view(FLOAT32)


def through_float32(function: Callable[..., Any]) -> Callable[..., Array]:
    """Make a function of floating arrays compute half types in float32, quietly, to an array."""

    @quiet
    @wraps(function)
    def wrapper(*operands: Array) -> Array:
        dtype = operands[0].dtype
        if dtype not in HALVES:
            return np.asarray(function(*map(np.asarray, operands)))
        wide = [np.asarray(x).astype(FLOAT32) for x in operands]
        return rounded(np.asarray(function(*wide)), dtype)

    return wrapper
