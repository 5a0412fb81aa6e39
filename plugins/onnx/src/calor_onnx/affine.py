"""Quantized integers, which stand for (q − zero point) · scale.

Requirements: scale and zero point are one for all elements, or one for each index of an axis.
Products of integers are exact, in int32. Bytes are multiplied as bytes, because devices have
instructions for them and memory traffic is a quarter; sums are corrected for zero points.

Source: Jacob and others, Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference (2018), section 2.3.
"""

from __future__ import annotations

from typing import Any

import calor
from calor.dtypes import DType
from calor.ops import contraction as rows
from calor_onnx.computing import wide

_RANGES = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
}


def dequantized(q: Any, scale: Any, zero: Any) -> Any:
    """Return the float32 numbers that integers stand for."""
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
    """Return integers as int32, minus their zero point."""
    made = calor.astype(q, calor.int32)
    return made if zero is None else made - calor.astype(zero, calor.int32)


def product(a: Any, b: Any, a_zero: Any, b_zero: Any, b_sums: Any = None) -> Any:
    """Return the matrix product of a − a_zero and b − b_zero in int32.

    Zero points broadcast to (..., M, 1) and (..., 1, N). ``b_sums`` are the column sums of b
    without zero points, if they are known.
    """
    axes = _batch(a, b)
    if axes is None or {a.dtype, b.dtype} - {calor.int8, calor.uint8}:
        return calor.matmul(less_zero(a, a_zero), less_zero(b, b_zero))
    left, a_zero = _signed(a, a_zero)
    right, b_zero = _signed(b, b_zero)
    made = rows.dot_general(
        left, right, contract=((a.ndim - 1,), (b.ndim - 2,)), batch=axes, dtype=calor.int32
    )
    if b_zero is not None:
        made = made - calor.sum(left, axis=-1, keepdims=True, dtype=calor.int32) * b_zero
    if a_zero is not None:
        if b_sums is None or right is not b:
            b_sums = calor.sum(right, axis=-2, keepdims=True, dtype=calor.int32)
        if b_zero is not None:
            b_sums = b_sums - b_zero * a.shape[-1]
        made = made - b_sums * a_zero
    return made


def _batch(a: Any, b: Any) -> Any:
    """Return the batch axes of a product that both operands have, or only a; else None."""
    if a.ndim < 2 or b.ndim < 2:
        return None
    if b.ndim == 2:
        return (), ()
    axes = tuple(range(a.ndim - 2))
    return (axes, axes) if a.shape[:-2] == b.shape[:-2] else None


def _signed(q: Any, zero: Any) -> tuple[Any, Any]:
    """Return bytes as int8 and their new zero point in int32, or None for a zero point of 0."""
    if zero is not None:
        zero = calor.astype(zero, calor.int32)
    if q.dtype is calor.int8:
        return q, zero
    moved = calor.astype(calor.astype(q, calor.int16) - 128, calor.int8)
    return moved, (-128 if zero is None else zero - 128)


def aligned(value: Any, rank: int, axis: int) -> Any:
    """Return numbers along an axis in a shape that broadcasts to a rank."""
    if value is None or value.size == 1:
        return None if value is None else calor.reshape(value, ())
    return calor.reshape(value, tuple(-1 if i == axis % rank else 1 for i in range(rank)))
