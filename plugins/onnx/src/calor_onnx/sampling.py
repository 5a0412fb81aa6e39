"""Reading tensors between their places.

Requirements: places are tensors (computed on the device, in a compiled graph too); what lies
outside reads as 0; rows of channels are gathered, so that a place is looked up once for all of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import mul
from typing import Any

import numpy as np

import calor
from calor_onnx.computing import constant, like, wide


def read(x: Any, at: Sequence[Any]) -> Any:
    """Return x (N, C, *S) at whole places (N, P) of each axis, within it: (N, C, P)."""
    batch, channels, *sizes = x.shape
    flat = None
    for size, place in zip(sizes, at, strict=True):
        flat = place if flat is None else flat * size + place
    if flat is None:
        return calor.reshape(x, (batch, channels, 1))
    first = constant(np.arange(batch)[:, None] * prod(sizes), x.device)
    rows = calor.reshape(
        calor.permute_dims(x, (0, *range(2, x.ndim), 1)), (batch * prod(sizes), channels)
    )
    found = calor.take(rows, calor.reshape(flat + first, (-1,)), axis=0)
    return calor.permute_dims(calor.reshape(found, (batch, -1, channels)), (0, 2, 1))


def linear_samples(x: Any, at: Sequence[Any]) -> Any:
    """Return x (N, C, *S) at fractional places (N, P): sums of the neighbours, 0 outside."""
    sizes = x.shape[2:]
    lows = [calor.floor(wide(a)) for a in at]
    shares = [wide(a) - low for a, low in zip(at, lows, strict=True)]
    total = None
    for corner in product((0, 1), repeat=len(sizes)):
        parts, places = [], []
        for up, low, share, size in zip(corner, lows, shares, sizes, strict=True):
            place = low + up
            inside = calor.logical_and(
                calor.greater_equal(place, 0), calor.less_equal(place, size - 1)
            )
            parts.append(calor.where(inside, share if up else 1 - share, 0))
            places.append(calor.astype(calor.clip(place, 0, size - 1), calor.int64))
        found = wide(read(x, places))
        term = found * like(calor.expand_dims(reduce(mul, parts), 1), found)
        total = term if total is None else total + term
    return like(total, x)
