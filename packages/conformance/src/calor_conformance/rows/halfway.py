"""Numbers that reveal a double rounding in a conversion: midpoints of the narrower dtype.

A number next to a midpoint is rounded to it by an intermediate dtype, and then to the neighbour
with an even last bit, which is wrong half of the time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calor.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from .domains import Shape
from .language import Array, Domain, limits_of

_SOURCES = (float32, float64, float16, bfloat16, int32, int64, uint32, uint64, int16, uint16, int8,
            uint8)  # fmt: skip


def halfway(target: DType, *shape: int) -> Domain:
    """Return a domain of midpoints of a narrower dtype, and of their neighbours on both sides."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        count = math.prod(shape)
        make = _integers if dtype.is_integer else _floats
        return make(rng, dtype, target, count, rng.integers(-1, 2, count)).reshape(shape)

    return Domain(f"halfway({target.name})", shape, draw)


def wider(target: DType) -> tuple[DType, ...]:
    """Return the dtypes that hold midpoints of a floating dtype and numbers beside them."""
    return tuple(d for d in _SOURCES if _bits(d) > _digits(target) + 2 and _reaches(d, target))


def _bits(dtype: DType) -> int:
    """Return the number of bits of a significand, or of a whole number."""
    if dtype.is_integer:
        return int(np.iinfo(dtype.numpy).max).bit_length()
    return _digits(dtype) + 1


def _reaches(dtype: DType, target: DType) -> bool:
    """Return whether a floating dtype has the exponents of another."""
    if dtype.is_integer:
        return True
    own, of = limits_of(dtype.numpy), limits_of(target.numpy)
    return float(own.max) >= float(of.max) and float(own.tiny) <= float(of.tiny)


def _exponent(number: Any) -> int:
    return math.frexp(float(number))[1] - 1


def _digits(dtype: DType) -> int:
    """Return the number of fraction bits of a floating dtype."""
    return -_exponent(limits_of(dtype.numpy).eps)


def _odd(rng: np.random.Generator, target: DType, count: int) -> list[int]:
    """Return odd significands with one bit more than the target has."""
    digits = _digits(target)
    return [int(n) for n in 2 * rng.integers(1 << digits, 2 << digits, count) + 1]


def _integers(
    rng: np.random.Generator, dtype: DType, target: DType, count: int, sides: Array
) -> Array:
    first = _digits(target) + 2
    width = 8 * dtype.itemsize - (1 if dtype.kind == "int" else 0)
    last = min(width, _exponent(limits_of(target.numpy).max))
    shifts = rng.integers(0, last - first + 1, count)
    made = zip(_odd(rng, target, count), shifts, sides, strict=True)
    # If nothing was shifted in, the neighbour of the midpoint is a number of the target.
    return np.array([(n << int(s)) + (int(side) if s else 0) for n, s, side in made], dtype.numpy)


def _floats(
    rng: np.random.Generator, dtype: DType, target: DType, count: int, sides: Array
) -> Array:
    low, high = (_exponent(getattr(limits_of(target.numpy), end)) for end in ("tiny", "max"))
    exponents = rng.integers(low, high, count) - _digits(target) - 1
    middle = np.ldexp(np.array(_odd(rng, target, count), np.float64), exponents)
    there = middle.astype(dtype.numpy)
    beside = np.nextafter(there, np.where(sides < 0, 0, np.inf).astype(dtype.numpy))
    return np.where(sides == 0, there, beside)
