"""Reductions over sliding windows, and what their gradients need.

Requirements: vectorised over the windows, so that loops run over places in the window only. The
padding holds the identity of the reduction and is never an extreme itself. NaN counts as an
extreme; of equal ones the first in the window's row-major order is chosen. The sign of a zero
extreme is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from calor.reference.precision import Array, DType, is_float, quiet, rounded, widened
from calor.reference.reductions import UFUNCS
from calor.reference.sliding import (
    Padding,
    Sizes,
    Slices,
    last_axes,
    offsets,
    output_sizes,
    padded,
    padded_sizes,
    unpadded,
)


@quiet
def window_reduce(
    x: Array, *, kind: str, window: Sizes, stride: Sizes, padding: Padding, dilation: Sizes
) -> Array:
    """Return the "sum", "max" or "min" of each window over the last ``len(window)`` axes of x.

    Sums of half types accumulate in float32; sums of integers wrap. A window that sees padding
    alone gives the identity: 0, or the lowest or highest value of the dtype.
    """
    x = np.asarray(x)
    identity = _identity(kind, x.dtype)
    seen = padded(widened(x), padding, (1,) * len(window), identity)
    lead = x.ndim - len(window)
    output = output_sizes(seen.shape[lead:], window, stride, dilation)
    result = np.full(x.shape[:lead] + output, identity, seen.dtype)
    for _, slices in offsets(window, stride, dilation, output):
        UFUNCS[kind](result, seen[last_axes(slices)], out=result)
    return rounded(result, x.dtype)


@quiet
def window_reduce_gradient(
    g: Array,
    x: Array,
    *,
    kind: str,
    window: Sizes,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
) -> Array:
    """Return the gradient of ``window_reduce`` for x, of the dtype of g, the windows' gradient.

    For "max" and "min" the chosen extreme of each window receives it, for "sum" every element.
    """
    g, x = np.asarray(g), np.asarray(x)
    rank, upper = len(window), widened(g)
    lead, sizes = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    total = np.zeros(lead + padded_sizes(sizes, padding, (1,) * rank), upper.dtype)
    if kind == "sum":
        for _, slices in offsets(window, stride, dilation, g.shape[x.ndim - rank :]):
            total[last_axes(slices)] += upper
    else:
        zero = upper.dtype.type(0)
        for slices, chosen in _choices(x, kind, window, stride, padding, dilation):
            total[last_axes(slices)] += np.where(chosen, upper, zero)
    return rounded(unpadded(total, sizes, padding, (1,) * rank), g.dtype)


@quiet
def window_pick(
    u: Array,
    x: Array,
    *,
    kind: str,
    window: Sizes,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
) -> Array:
    """Return u at the chosen extreme of each window of x; for "sum" the windows' sums of u.

    It is the transpose of ``window_reduce_gradient``. Windows that see padding alone give 0.
    """
    u, x = np.asarray(u), np.asarray(x)
    if kind == "sum":
        return window_reduce(
            u, kind=kind, window=window, stride=stride, padding=padding, dilation=dilation
        )
    rank = len(window)
    seen = padded(u, padding, (1,) * rank, 0)
    output = output_sizes(seen.shape[x.ndim - rank :], window, stride, dilation)
    result = np.zeros(x.shape[: x.ndim - rank] + output, u.dtype)
    for slices, chosen in _choices(x, kind, window, stride, padding, dilation):
        np.copyto(result, seen[last_axes(slices)], where=chosen)
    return result


def _choices(
    x: Array, kind: str, window: Sizes, stride: Sizes, padding: Padding, dilation: Sizes
) -> Iterator[tuple[Slices, Array]]:
    """Yield, for each place in the window, what is seen and the windows whose extreme it is."""
    rank = len(window)
    sizes = x.shape[x.ndim - rank :]
    wide = widened(x)
    extreme = window_reduce(
        wide, kind=kind, window=window, stride=stride, padding=padding, dilation=dilation
    )
    seen = padded(wide, padding, (1,) * rank, 0)
    output = extreme.shape[x.ndim - rank :]
    taken = np.zeros(extreme.shape, np.bool_)
    for place, slices in offsets(window, stride, dilation, output):
        value = seen[last_axes(slices)]
        chosen = value == extreme
        if is_float(wide.dtype):
            # A window that sees NaN has it as its extreme.
            chosen |= value != value
        if any(low > 0 or high > 0 for low, high in padding):
            chosen &= _inside(place, sizes, output, stride, padding, dilation)
        chosen &= ~taken
        taken |= chosen
        yield slices, chosen


def _inside(
    place: Sizes, sizes: Sizes, output: Sizes, stride: Sizes, padding: Padding, dilation: Sizes
) -> Array:
    """Return for which windows a place in the window lies on the array and not on padding."""
    inside = np.ones((), np.bool_)
    for k, n, m, s, (low, _), d in zip(
        place, sizes, output, stride, padding, dilation, strict=True
    ):
        index = k * d - low + s * np.arange(m)
        inside = inside[..., None] & ((index >= 0) & (index < n))
    return inside


def _identity(kind: str, dtype: DType) -> Any:
    if kind == "sum":
        return 0
    if dtype.kind == "b":
        return kind == "min"
    if is_float(dtype):
        # float8_e4m3fn has no infinity; its largest number is 448.
        largest = 448.0 if dtype == ml_dtypes.float8_e4m3fn else np.inf
        return -largest if kind == "max" else largest
    whole = np.iinfo(dtype)
    return whole.min if kind == "max" else whole.max
