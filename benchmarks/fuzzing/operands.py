"""The numbers of operands: drawn once, so that a case costs the time of a copy."""

from math import prod
from typing import Any

import numpy as np

from fuzzing.cases import Operand

Array = np.ndarray[Any, Any]
_STRIDE, _SPREAD = 7919, 1 << 20
_DRAWN: list[Array] = [np.empty(0, np.float32)]


def array(operand: Operand, number: int) -> Array:
    """Return an operand's numbers: float32, or int64 for indices."""
    if operand.kind == "index":
        return np.random.default_rng(number).integers(0, operand.below, operand.shape, np.int64)
    count = prod(operand.shape)
    start = number * _STRIDE % _SPREAD
    made = _normal(start + count)[start : start + count].reshape(operand.shape)
    return np.abs(made) + np.float32(0.1) if operand.positive else made


def _normal(count: int) -> Array:
    if _DRAWN[0].size < count:
        drawn = max(count, 1 << 22)
        _DRAWN[0] = np.random.default_rng(0).standard_normal(drawn, np.float32)
    return _DRAWN[0]
