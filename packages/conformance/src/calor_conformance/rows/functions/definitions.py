"""Definitions of functions in float64, where NumPy has none or another meaning at the ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..language import Array


def over(x: Array, axis: Any, keepdims: bool, function: Callable[[Array], Any]) -> Array:
    """Return a function of each line of elements over axes."""
    axes = range(x.ndim) if axis is None else np.atleast_1d(axis)
    chosen = sorted({int(a) % max(x.ndim, 1) for a in axes})
    kept = [a for a in range(x.ndim) if a not in chosen]
    shape = tuple(x.shape[a] for a in kept)
    lines = np.transpose(x, (*kept, *chosen)).reshape(
        -1, int(np.prod([x.shape[a] for a in chosen]))
    )
    made = np.array([function(line) for line in lines]).reshape(shape)
    return np.expand_dims(made, tuple(chosen)) if keepdims else made


def level(line: Array, q: float, method: str) -> float:
    """Return the element at a share of an ordered line, or between the two beside it."""
    if np.isnan(line).any():
        return float("nan")
    # The place is a number of float32, which may be whole where its exact product is not.
    ordered, at = np.sort(line), float(np.float32(q) * np.float32(line.size - 1))
    low, high = ordered[int(np.floor(at))], ordered[int(np.ceil(at))]
    share = at - np.floor(at)
    match method:
        case "lower":
            return float(low)
        case "higher":
            return float(high)
        case "nearest":
            return float(ordered[int(np.round(at))])
        case "midpoint":
            share = 0.5 if share else 0.0
    # Between two equal ones, infinite or not, lies the same.
    return float(low if low == high or not share else low * (1 - share) + high * share)


def quantile(
    x: Array,
    q: Any,
    *,
    axis: Any = None,
    keepdims: bool = False,
    method: str = "linear",
    skips: bool = False,
) -> Array:
    """Return quantiles over axes, of the elements that are no NaN if ``skips``."""
    if not x.size:
        raise ValueError("no element has a rank")

    def of_line(line: Array, share: float) -> float:
        kept = line[~np.isnan(line)] if skips else line
        return level(kept, share, method) if kept.size else float("nan")

    wide = np.asarray(x, float)
    made = [
        over(wide, axis, keepdims, partial(of_line, share=share)) for share in np.ravel(q).tolist()
    ]
    return np.asarray(made[0] if np.ndim(q) == 0 else np.stack(made))
