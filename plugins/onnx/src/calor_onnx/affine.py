"""Integers that stand for numbers: (q − zero point) · scale.

Requirements: the scale and the zero point may be one for all, or one for each place of an axis;
products of integers are computed in int32, so that they are exact.
"""

from __future__ import annotations

from typing import Any

import calor
from calor.dtypes import DType
from calor_onnx.computing import wide

_RANGES = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
}


def dequantized(q: Any, scale: Any, zero: Any) -> Any:
    """Return the numbers that integers stand for, in float32."""
    made = calor.astype(q, calor.float32)
    if zero is not None:
        made = made - calor.astype(zero, calor.float32)
    return made * wide(scale)


def quantized(x: Any, scale: Any, zero: Any, dtype: DType) -> Any:
    """Return the integers for numbers, rounded to even and saturated."""
    made = calor.round(x / wide(scale))
    if zero is not None:
        made = made + calor.astype(zero, calor.float32)
    return calor.astype(calor.clip(made, *_RANGES[dtype.name]), dtype)


def less_zero(q: Any, zero: Any) -> Any:
    """Return integers as int32 with their zero point taken off."""
    made = calor.astype(q, calor.int32)
    return made if zero is None else made - calor.astype(zero, calor.int32)


def aligned(value: Any, rank: int, axis: int) -> Any:
    """Return numbers for the places of an axis in a shape that broadcasts to that rank."""
    if value is None or value.size == 1:
        return None if value is None else calor.reshape(value, ())
    return calor.reshape(value, tuple(-1 if i == axis % rank else 1 for i in range(rank)))
