"""Conversions between element types: the operations ``cast`` and ``bitcast``.

Requirements: float to int truncates, saturates and makes NaN 0. Conversions to floats round once,
to nearest even, even if NumPy would convert through another type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calor.dtypes import DType, bfloat16, float16

Array = np.ndarray[Any, Any]


def caster(source: DType, target: DType) -> Callable[[Array], Array]:
    """Return the function that converts arrays of one element type to another."""
    host = target.numpy
    if source is target:
        return lambda x: x
    if target.kind == "bool":
        zero = source.numpy.type(0)
        return lambda x: x != zero
    if source.kind == "float":
        if target.kind in ("int", "uint"):
            return lambda x: _saturate(x.astype(np.float64), host)
        if source.itemsize == 8:
            return lambda x: rounded(x, host)
    elif source.itemsize == 8 and target in (float16, bfloat16):
        return lambda x: rounded(_sticky(x).astype(np.float64), host)
    elif source.kind != "bool" and target is bfloat16:
        return lambda x: rounded(x.astype(np.float64), host)
    return lambda x: x.astype(host)


def _saturate(x: Array, host: np.dtype[Any]) -> Array:
    limits = np.iinfo(host)
    # 2.0**63 and 2.0**64 exceed their types; the float before them does not.
    low = float(limits.min)
    high = float(limits.max)
    if high > limits.max or host.itemsize == 8:
        high = float(np.nextafter(high, 0.0))
    whole = np.clip(np.where(np.isnan(x), 0.0, x), low, high).astype(host)
    above = x > high
    if above.any():
        whole = np.where(above, host.type(limits.max), whole)
    return whole


def rounded(x: Array, host: np.dtype[Any]) -> Array:
    """Return float64 rounded once to a floating type; NumPy reaches bfloat16 by way of float32."""
    return (_odd_float32(x) if host == bfloat16.numpy else x).astype(host)


def _odd_float32(x: Array) -> Array:
    """Return float64 as float32 rounded to odd, so that a second rounding is exact."""
    near = x.astype(np.float32)
    wide = near.astype(np.float64)
    inexact = (wide != x) & np.isfinite(x)
    if not inexact.any():
        return near
    even = (near.view(np.int32) & 1) == 0
    toward = np.where(wide < x, np.float32(np.inf), np.float32(-np.inf))
    return np.where(inexact & even, np.nextafter(near, toward), near)


def _sticky(x: Array) -> Array:
    """Return 64-bit integers representable in float64 that round to the same result."""
    large = (x >= 2**53) if x.dtype.kind == "u" else (x >= 2**53) | (x < -(2**53))
    if not large.any():
        return x
    one = x.dtype.type(1)
    low = x & x.dtype.type(0x7FF)
    rounded = (x - low) | np.where(low != 0, one << x.dtype.type(11), one - one)
    return np.where(large, rounded, x)


def bitcaster(source: DType, target: DType, width: int, wide: int) -> Callable[[Array], Array]:
    """Return the function that reads ``width`` lanes of a type as ``wide`` lanes of another."""
    host = np.dtype(np.uint8) if target.kind == "bool" else target.numpy

    def function(x: Array) -> Array:
        rows = np.ascontiguousarray(x.reshape(len(x), width))
        made = rows.view(host).reshape(len(x), wide)
        if target.kind == "bool":
            made = made != 0
        return made[:, 0] if wide == 1 else made

    return function
