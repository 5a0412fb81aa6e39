"""Arithmetic of operations on NumPy arrays.

Requirements: the results are those of the rows in :mod:`calor_kernel.ir.ops`, also where NumPy
leaves them open (signed zeros in min and max, halves of 64-bit products). Arrays of any shape
broadcast. Integers wrap around. Masks of active lanes are not considered here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from calor_interpreter.fused import fma

Array = np.ndarray[Any, Any]


def minimum(a: Array, b: Array) -> Array:
    """Return the smaller one: NaN if one is NaN, and −0 below +0."""
    made = np.minimum(a, b)
    if made.dtype.kind not in "iub" and np.count_nonzero(made) < made.size:
        made = np.where((made == 0) & (a == b), np.where(np.signbit(a), a, b), made)
    return made


def maximum(a: Array, b: Array) -> Array:
    """Return the larger one: NaN if one is NaN, and −0 below +0."""
    made = np.maximum(a, b)
    if made.dtype.kind not in "iub" and np.count_nonzero(made) < made.size:
        made = np.where((made == 0) & (a == b), np.where(np.signbit(a), b, a), made)
    return made


def quotient(a: Array, b: Array) -> Array:
    """Return a / b rounded toward zero; the result is unspecified where b is 0."""
    if a.dtype.kind == "u":
        return _floor_divide(a, b)
    return _floor_divide(a - np.fmod(a, b), b)


def _floor_divide(a: Array, b: Array) -> Array:
    made: Array = np.floor_divide(a, b)
    return made


def mulhi(a: Array, b: Array) -> Array:
    """Return the upper half of the product of integers."""
    host = a.dtype
    if host.itemsize < 8:
        wide = np.int64 if host.kind == "i" else np.uint64
        whole: Array = a.astype(wide) * b.astype(wide)
        return np.right_shift(whole, wide(host.itemsize * 8)).astype(host)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    upper: Array = x1 * y1 + (middle >> half) + ((x0 * y1 + (middle & low)) >> half)
    if host.kind == "u":
        return upper
    # A negative factor was read as 2**64 too large.
    zero = np.uint64(0)
    signed: Array = upper - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return signed.astype(host)


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x


def popcount(x: Array) -> Array:
    """Return the number of set bits."""
    made: Array = np.bitwise_count(_unsigned(x))
    return made.astype(x.dtype)


def clz(x: Array) -> Array:
    """Return the number of leading zeros; the width for zero."""
    filled = _unsigned(x)
    bits, shift = x.dtype.itemsize * 8, 1
    while shift < bits:
        filled = filled | (filled >> filled.dtype.type(shift))
        shift *= 2
    made: Array = bits - np.bitwise_count(filled)
    return made.astype(x.dtype)


def ctz(x: Array) -> Array:
    """Return the number of trailing zeros; the width for zero."""
    bits = _unsigned(x)
    made: Array = np.bitwise_count(~bits & (bits - bits.dtype.type(1)))
    return made.astype(x.dtype)


ARITHMETIC: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "neg": np.negative,
        "fma": fma,
        "quotient": quotient,
        "modulo": np.fmod,
        "mulhi": mulhi,
        "min": minimum,
        "max": maximum,
        "abs": np.abs,
        "floor": np.floor,
        "ceil": np.ceil,
        "trunc": np.trunc,
        "rint": np.rint,
        "sqrt": np.sqrt,
        "copysign": np.copysign,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "not": np.invert,
        "shl": np.left_shift,
        "shr": np.right_shift,
        "popcount": popcount,
        "clz": clz,
        "ctz": ctz,
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
)

# Functions for reductions of lanes and of a plane's units, and for atomics.
COMBINE: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        "add": np.add,
        "mul": np.multiply,
        "min": minimum,
        "max": maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
)
