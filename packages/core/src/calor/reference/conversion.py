"""Casts and bit casts.

Requirements: where C leaves a conversion open, every device gives the value defined here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.reference.precision import (
    FLOAT32,
    FLOAT64,
    HALVES,
    Array,
    DType,
    is_float,
    quiet,
    rounded,
)


@quiet
def cast(x: Array, *, dtype: Any) -> Array:
    """Return x converted to a dtype.

    Floating to integer truncates and saturates, NaN gives 0. Integer to integer wraps. Anything to
    bool is ``x != 0``. Complex to real takes the real part. To a floating type rounds once, to
    nearest with ties to even; beyond its range the result is an infinity, in float8_e4m3fn, which
    has none, NaN.
    """
    x, dtype = np.asarray(x), np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if dtype.kind == "b":
        return np.asarray(x != 0)
    if x.dtype.kind == "c":
        return x.astype(dtype) if dtype.kind == "c" else cast(x.real, dtype=dtype)
    if dtype.kind == "c":
        wide = x.astype(FLOAT32) if x.dtype in HALVES else x
        return wide.astype(dtype)
    if is_float(x.dtype):
        return rounded(x, dtype) if is_float(dtype) else _saturated(x, dtype)
    if dtype in HALVES:
        return rounded(_sticky(x), dtype)
    return x.astype(dtype)


def _saturated(x: Array, dtype: DType) -> Array:
    whole = np.asarray(np.trunc(x.astype(FLOAT32) if x.dtype in HALVES else x))
    limits = np.iinfo(dtype)
    # Both bounds are powers of two (or 0), so they are exact in every floating type of 32 bits.
    low, above = whole.dtype.type(limits.min), whole.dtype.type(2.0 ** (dtype.itemsize * 8))
    if dtype.kind == "i":
        above = whole.dtype.type(2.0 ** (dtype.itemsize * 8 - 1))
    inside = (whole >= low) & (whole < above)
    result = np.where(inside, whole, whole.dtype.type(0)).astype(dtype)
    result[whole >= above] = limits.max
    result[whole < low] = limits.min
    return result


def _sticky(x: Array) -> Array:
    """Return integers as float64 that round to a half type as the integers themselves do."""
    if x.dtype.itemsize < 8:
        return x.astype(FLOAT64)
    # Beyond 2**48 the low 16 bits lie below what a half type keeps: they are joined into one bit.
    large = (x >= 2**48) | (x <= -(2**48) if x.dtype.kind == "i" else False)
    low = (x & x.dtype.type(0xFFFF)) != 0
    joined = (x >> x.dtype.type(16) << x.dtype.type(16)) | low.astype(x.dtype) << x.dtype.type(16)
    return np.where(large, joined, x).astype(FLOAT64)


def bitcast(x: Array, *, dtype: Any) -> Array:
    """Return the bits of x read as another dtype.

    A smaller element adds a trailing axis, a larger one takes away a trailing axis that holds
    exactly one element's parts; the least significant part comes first. As bool, a byte is true
    when it is not 0. Raises ValueError when the trailing axis does not fit.
    """
    x, target = np.asarray(x), np.dtype(dtype)
    if target.kind == "b":
        return np.asarray(bitcast(x, dtype=np.uint8) != 0)
    size, wanted = x.dtype.itemsize, target.itemsize
    if size == wanted:
        return x.view(target)
    if size > wanted:
        return np.asarray(x.ravel().view(target).reshape(*x.shape, size // wanted))
    if not x.ndim or x.shape[-1] * size != wanted:
        raise ValueError(
            f"bitcast of {x.dtype}{list(x.shape)} to {target} needs a last axis of {wanted // size}"
        )
    return np.asarray(x.ravel().view(target).reshape(x.shape[:-1]))
