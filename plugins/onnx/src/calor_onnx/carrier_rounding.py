"""Rounding to element types that calor lacks, on the device in a carrier type.

The representable magnitudes of a float of eight bits or fewer are a table. A magnitude is rounded
to the nearest entry, with ties to even, as in IEEE 754 and the OCP microscaling formats. Integers
of a few bits keep the lowest bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import calor
from calor import Tensor
from calor_onnx.types import CARRIERS, PACKED, HostType
from calor_onnx.values import Narrow

_SCALE = np.dtype(ml_dtypes.float8_e8m0fnu)


def narrowed(x: Tensor, dtype: HostType, saturate: bool, round_mode: str) -> Narrow:
    """Return x in a type that calor lacks.

    Numbers beyond the largest become it with ``saturate``, and in types without infinity and NaN;
    they become NaN otherwise. ``round_mode`` ("up", "down", "nearest") applies to powers of two.
    """
    carrier = CARRIERS[dtype]
    if carrier.is_integer:
        return Narrow(_integers(x, dtype), dtype)
    if x.dtype is not calor.float64:
        x = calor.astype(x, calor.float32)
    if dtype == _SCALE:
        return Narrow(_powers(x, saturate, round_mode), dtype)
    largest = float(_magnitudes(dtype)[-1])
    magnitude = calor.abs(x)
    finite_only = np.isfinite(np.array(np.nan).astype(dtype).astype(np.float32))
    if saturate or finite_only:
        magnitude = calor.minimum(magnitude, largest)
    rounded = _nearest(magnitude, dtype)
    nan = calor.isnan(x)
    if finite_only:
        rounded = calor.where(nan, 0.0, rounded)
    else:
        # The tie between the largest number and its would-be successor goes to the even one.
        step = largest - float(_magnitudes(dtype)[-2])
        beyond = calor.greater_equal(magnitude, largest + step / 2)
        rounded = calor.where(calor.logical_or(nan, beyond), calor.nan, rounded)
    return Narrow(calor.astype(calor.copysign(rounded, x), carrier), dtype)


def _integers(x: Tensor, dtype: HostType) -> Tensor:
    """Return the lowest bits of integers, floats truncated, with the sign of the type."""
    bits = PACKED[dtype]
    low = calor.bitwise_and(calor.astype(x, calor.int32), 2**bits - 1)
    if CARRIERS[dtype].kind == "int":
        low = calor.where(calor.greater_equal(low, 2 ** (bits - 1)), low - 2**bits, low)
    return calor.astype(low, CARRIERS[dtype])


@cache
def _magnitudes(dtype: HostType) -> Any:
    """Return the finite magnitudes of a type, ascending; even indices have an even mantissa."""
    codes = np.arange(2 ** (PACKED.get(dtype, 8) - 1), dtype=np.uint8)
    values = codes.view(dtype).astype(np.float32)
    return values[np.isfinite(values)]


def _nearest(magnitude: Tensor, dtype: HostType) -> Tensor:
    """Return the nearest entry of the table, on ties the one at an even index."""
    table = _magnitudes(dtype)
    # Midpoints are exact in float32.
    between = (table[1:] + table[:-1]) / 2
    middle = calor.asarray(between, device=magnitude.device)
    low = calor.searchsorted(middle, magnitude, side="left")
    high = calor.searchsorted(middle, magnitude, side="right")
    even = calor.where(calor.equal(calor.bitwise_and(low, 1), 0), low, high)
    place = calor.minimum(calor.where(calor.equal(low, high), low, even), len(table) - 1)
    return calor.take(calor.asarray(table, device=magnitude.device), place)


def _powers(x: Tensor, saturate: bool, round_mode: str) -> Tensor:
    """Return the power of two above, below or next to each magnitude; NaN where not finite."""
    powers = np.arange(255, dtype=np.uint8).view(_SCALE).astype(np.float32)
    table = calor.asarray(powers, device=x.device)
    magnitude = calor.abs(x)
    if round_mode == "up":
        place = calor.searchsorted(table, magnitude, side="left")
    elif round_mode == "down":
        place = calor.searchsorted(table, magnitude, side="right") - 1
    else:
        middle = calor.asarray(powers * np.float32(1.5), device=x.device)
        place = calor.searchsorted(middle, magnitude, side="right")
    beyond = calor.greater(place, 254)
    place = calor.clip(place, 0, 254)
    made = calor.take(table, place)
    bad = calor.logical_not(calor.isfinite(x))
    if not saturate:
        bad = calor.logical_or(bad, beyond)
    return calor.where(bad, calor.nan, made)
