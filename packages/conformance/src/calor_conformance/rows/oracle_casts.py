"""Conversions of exact numbers, one at a time, in Python's arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from calor.dtypes import DType, as_dtype

from .language import Array, limits_of


def cast(x: Array, *, dtype: DType) -> Array:
    """Convert each element separately."""
    source = as_dtype(x.dtype)
    values = x.astype(np.float64) if source.kind in ("float", "storage") else x
    made = np.empty(x.shape, dtype.numpy)
    for at in np.ndindex(*x.shape):
        made[at] = _one(values[at].item(), dtype)
    return made


def _one(v: Any, dtype: DType) -> Any:
    if dtype.kind == "bool":
        return v != 0
    if dtype.is_complex:
        parts = (v.real, v.imag) if isinstance(v, complex) else (v, 0.0)
        kind = as_dtype("float32" if dtype.itemsize == 8 else "float64")
        return complex(*(float(nearest(p, kind)) for p in parts))
    if isinstance(v, complex):
        v = v.real
    if dtype.is_integer:
        return _whole(v, dtype)
    return nearest(v, dtype)


def _whole(v: Any, dtype: DType) -> int:
    limits = np.iinfo(dtype.numpy)
    low, high = int(limits.min), int(limits.max)
    if isinstance(v, float):
        if math.isnan(v):
            return 0
        if math.isinf(v):
            return high if v > 0 else low
        return min(max(math.trunc(v), low), high)
    return (int(v) - low) % (high - low + 1) + low


def nearest(v: Any, dtype: DType) -> Any:
    """Return the number of a floating dtype nearest to v, with ties to even."""
    kind = dtype.numpy
    if isinstance(v, float) and not math.isfinite(v):
        return np.array(v).astype(kind)[()]
    target, (most, end, odd) = Fraction(v), _ends(kind)
    sign = -1 if math.copysign(1, v) < 0 else 1
    if abs(target) >= end:
        # The half unit above the largest number rounds to the even neighbour, which is beyond.
        beyond = odd or abs(target) > end
        return np.array(sign * (math.inf if beyond else float(most))).astype(kind)[()]
    bits = np.dtype(f"u{kind.itemsize}")
    start = np.array(min(abs(float(target)), float(most))).astype(kind).view(bits).item()
    best = None
    for pattern in (start - 1, start, start + 1):
        if pattern < 0:
            continue
        number = float(np.array(pattern, bits).view(kind))
        if not math.isfinite(number):
            continue
        distance = (abs(Fraction(number) - abs(target)), pattern & 1, pattern)
        best = distance if best is None or distance < best else best
    assert best is not None
    flag = 1 << (8 * kind.itemsize - 1) if sign < 0 else 0
    return np.array(best[2] | flag, bits).view(kind)[()]


@cache
def _ends(kind: np.dtype[Any]) -> tuple[Fraction, Fraction, bool]:
    """Return the largest number, half a unit above it, and whether its last bit is set."""
    bits = np.dtype(f"u{kind.itemsize}")
    top = np.array(limits_of(kind).max, kind).view(bits).item()
    most = Fraction(float(limits_of(kind).max))
    below = Fraction(float(np.array(top - 1, bits).view(kind)))
    return most, most + (most - below) / 2, bool(top & 1)


def bitcast(x: Array, *, dtype: DType) -> Array:
    """Reinterpret the bytes of the array as another dtype."""
    size, wanted = x.dtype.itemsize, dtype.itemsize
    shape = x.shape
    if size > wanted:
        shape = (*x.shape, size // wanted)
    elif size < wanted:
        shape = x.shape[:-1]
    return np.frombuffer(x.tobytes(), dtype.numpy).reshape(shape)
