"""Numbers of distributions as functions of random bits.

Each takes bits of the width that :func:`width` names for the floating dtype of the result.
"""

from __future__ import annotations

import math
from typing import Any

from calor import dtypes
from calor.dtypes import DType, as_dtype
from calor.errors import DTypeError
from calor.functions.conversion import astype
from calor.ops import elementwise as e
from calor.tensor.tensor import Tensor

# Bits drawn and bits kept for a uniform number of each type: as many as its significand has.
_UNIFORM = {
    dtypes.float16: (16, 11),
    dtypes.bfloat16: (16, 8),
    dtypes.float32: (32, 24),
    dtypes.float64: (64, 53),
}


def float_type(dtype: Any) -> DType:
    """Return the dtype of floating random numbers, by default float32.

    Raises
    ------
    DTypeError
        If the dtype is not real floating.
    """
    known = dtypes.default_float() if dtype is None else as_dtype(dtype)
    if known not in _UNIFORM:
        raise DTypeError(f"random numbers are real floating, not {known.name}")
    return known


def width(known: DType) -> int:
    """Return how many bits are drawn for a number of a floating dtype."""
    return _UNIFORM[known][0]


def uniform(drawn: Tensor, known: DType, low: Any, high: Any) -> Tensor:
    """Return numbers uniform in [low, high), evenly spaced as finely as the significand."""
    drawn_bits, kept = _UNIFORM[known]
    unit: Tensor = astype(drawn >> (drawn_bits - kept), known) * 2.0**-kept
    if type(low) is float and type(high) is float and low == 0.0 and high == 1.0:
        return unit
    made: Tensor = unit * (high - low) + low
    return made


def normal(drawn: Tensor, known: DType, mean: Any, std: Any) -> Tensor:
    """Return normally distributed numbers, by the inverse of the distribution function."""
    made: Tensor = e.erfinv(open_unit(drawn, known)) * math.sqrt(2.0)
    if type(mean) is float and type(std) is float and mean == 0.0 and std == 1.0:
        return made
    moved: Tensor = made * std + mean
    return moved


def open_unit(drawn: Tensor, known: DType) -> Tensor:
    """Return numbers uniform in (−1, 1), both ends excluded."""
    drawn_bits, kept = _UNIFORM[known]
    # Odd multiples of half a step: symmetric, and never 0 or ±1.
    kept -= 1
    return astype(drawn >> (drawn_bits - kept), known) * 2.0 ** (1 - kept) + (2.0**-kept - 1.0)
