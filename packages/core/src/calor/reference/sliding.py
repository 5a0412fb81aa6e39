"""Windows that slide over the trailing axes of an array: padding, and views of what they see.

Requirements: no copy beyond the padded array; padding may be negative, which crops; an input
dilation puts that many places between elements before padding, as XLA's ``lhs_dilation`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from calor.reference.precision import Array

Sizes = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]
Slices = tuple[slice, ...]
Index = tuple[Any, ...]


def last_axes(slices: Slices) -> Index:
    """Return the index that applies slices to the last axes."""
    return (..., *slices)


def spread(n: int, dilation: int) -> int:
    """Return how many places n elements take that stand ``dilation`` apart."""
    return (n - 1) * dilation + 1 if n else 0


def padded_sizes(sizes: Sizes, padding: Padding, dilation: Sizes) -> Sizes:
    """Return the sizes after dilation and padding."""
    return tuple(
        max(spread(n, d) + lo + hi, 0)
        for n, (lo, hi), d in zip(sizes, padding, dilation, strict=True)
    )


def output_sizes(sizes: Sizes, window: Sizes, stride: Sizes, dilation: Sizes) -> Sizes:
    """Return how many windows fit on each padded axis."""
    return tuple(
        max(n - spread(k, d) + s, 0) // s
        for n, k, s, d in zip(sizes, window, stride, dilation, strict=True)
    )


def placement(sizes: Sizes, padding: Padding, dilation: Sizes) -> tuple[Slices, Slices]:
    """Return which elements remain after padding and cropping, and where in the padded axes."""
    sources, targets = [], []
    whole = padded_sizes(sizes, padding, dilation)
    for n, (low, _), d, size in zip(sizes, padding, dilation, whole, strict=True):
        first = max(-(low // d), 0)
        last = min((size - 1 - low) // d, n - 1)
        count = max(last - first + 1, 0)
        sources.append(slice(first, first + count))
        start = low + first * d if count else 0
        targets.append(slice(start, start + spread(count, d), d))
    return tuple(sources), tuple(targets)


def padded(x: Array, padding: Padding, dilation: Sizes, value: Any) -> Array:
    """Return x with its trailing axes dilated and padded with a value; x itself if nothing is."""
    rank = len(padding)
    sizes = x.shape[x.ndim - rank :]
    if all(p == (0, 0) for p in padding) and (all(d == 1 for d in dilation) or 0 in sizes):
        return x
    sources, targets = placement(sizes, padding, dilation)
    shape = x.shape[: x.ndim - rank] + padded_sizes(sizes, padding, dilation)
    result = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
    result[last_axes(targets)] = x[last_axes(sources)]
    return result


def unpadded(g: Array, sizes: Sizes, padding: Padding, dilation: Sizes) -> Array:
    """Return the transpose of ``padded``: elements from their places, zero for cropped ones."""
    sources, targets = placement(sizes, padding, dilation)
    kept = g[last_axes(targets)]
    rank = len(sizes)
    if kept.shape[g.ndim - rank :] == sizes:
        return kept
    result = np.zeros(g.shape[: g.ndim - rank] + sizes, g.dtype)
    result[last_axes(sources)] = kept
    return result


def window_view(x: Array, window: Sizes, stride: Sizes, dilation: Sizes) -> Array:
    """Return the read-only view (*rest, *window, *output) of what each window sees."""
    rank = len(window)
    lead, sizes = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    steps = x.strides[x.ndim - rank :]
    output = output_sizes(sizes, window, stride, dilation)
    return np.lib.stride_tricks.as_strided(
        x,
        (*lead, *window, *output),
        (
            *x.strides[: x.ndim - rank],
            *(s * d for s, d in zip(steps, dilation, strict=True)),
            *(s * t for s, t in zip(steps, stride, strict=True)),
        ),
        writeable=False,
    )


def offsets(
    window: Sizes, stride: Sizes, dilation: Sizes, output: Sizes
) -> Iterator[tuple[Sizes, Slices]]:
    """Yield, in row-major order, each place in the window and the slices that all windows see."""
    for place in product(*map(range, window)):
        yield (
            place,
            tuple(
                slice(k * d, k * d + spread(n, s), s)
                for k, d, n, s in zip(place, dilation, output, stride, strict=True)
            ),
        )
