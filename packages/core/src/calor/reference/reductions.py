"""Reductions over a tuple of axes, which vanish, and running ones along an axis.

Requirements: sums and products of half types accumulate in float32 and round once, those of
integers wrap; running ones of float32 accumulate in float64. NaN propagates through extremes, and
the first NaN is where they are. The sign of a zero extreme is open.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from calor.reference.precision import (
    FLOAT32,
    FLOAT64,
    HALVES,
    Array,
    DType,
    is_float,
    quiet,
    rounded,
    widened,
)

Axes = tuple[int, ...]

# Terms that may be added one after another. Elsewhere than along a dense axis NumPy adds so, and of
# a million terms of one sign, float32 would keep four digits.
_NAIVE: Final = 128
_BLOCK: Final = 32
# In which a running sum or product adds one element after another: so many roundings add up.
_RUNNING: Final[dict[DType, DType]] = {
    FLOAT32: FLOAT64,
    np.dtype(np.complex64): np.dtype(np.complex128),
}
# What joins two elements, by the kind of the reduction.
UFUNCS: Final[dict[str, np.ufunc]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@quiet
def sum(x: Array, *, axes: Axes, dtype: Any) -> Array:
    """Return the sum over the axes in a dtype; 0 where there is nothing to sum."""
    return _accumulated(np.add, x, axes, np.dtype(dtype))


@quiet
def prod(x: Array, *, axes: Axes, dtype: Any) -> Array:
    """Return the product over the axes in a dtype; 1 where there is nothing to multiply."""
    return _accumulated(np.multiply, x, axes, np.dtype(dtype))


@quiet
def max(x: Array, *, axes: Axes) -> Array:
    """Return the maximum over the axes; ValueError when there is nothing to choose from."""
    return _extreme(np.maximum, "maximum", x, axes)


@quiet
def min(x: Array, *, axes: Axes) -> Array:
    """Return the minimum over the axes; ValueError when there is nothing to choose from."""
    return _extreme(np.minimum, "minimum", x, axes)


@quiet
def argmax(x: Array, *, axis: int) -> Array:
    """Return the index, as int64, of the first maximum along an axis, a NaN before any number.

    Raises ValueError when the axis is empty.
    """
    _require(x, (axis,), "maximum")
    return np.asarray(np.argmax(widened(np.asarray(x)), axis), np.int64)


@quiet
def argmin(x: Array, *, axis: int) -> Array:
    """Return the index, as int64, of the first minimum along an axis, a NaN before any number.

    Raises ValueError when the axis is empty.
    """
    _require(x, (axis,), "minimum")
    return np.asarray(np.argmin(widened(np.asarray(x)), axis), np.int64)


@quiet
def any(x: Array, *, axes: Axes) -> Array:
    """Return whether an element over the axes is not 0; NaN is not 0."""
    return np.asarray(np.any(np.not_equal(x, 0), axes))


@quiet
def all(x: Array, *, axes: Axes) -> Array:
    """Return whether every element over the axes is not 0; NaN is not 0."""
    return np.asarray(np.all(np.not_equal(x, 0), axes))


@quiet
def cumulative(x: Array, *, kind: str, axis: int, reverse: bool) -> Array:
    """Return the running "sum", "prod", "max" or "min" along an axis, from its end if reverse.

    The result has the dtype of the operand.
    """
    wide = widened(np.asarray(x))
    turned = np.flip(wide, axis) if reverse else wide
    within = _RUNNING.get(x.dtype, wide.dtype) if kind in ("sum", "prod") else wide.dtype
    result = UFUNCS[kind].accumulate(turned, axis, dtype=within)
    return rounded(np.flip(result, axis) if reverse else result, x.dtype)


def _accumulated(ufunc: np.ufunc, x: Array, axes: Axes, dtype: DType) -> Array:
    wide = widened(np.asarray(x))
    kind = FLOAT32 if dtype in HALVES else dtype
    if is_float(wide.dtype) or wide.dtype.kind == "c":
        kind = np.result_type(kind, wide.dtype)
    if ufunc is np.add and kind.kind in "fc" and _count(wide.shape, axes) > _NAIVE:
        if len(axes) == 1 and axes[0] < wide.ndim - 1:
            wide = _of_blocks(wide, axes[0], kind)
        else:
            wide, axes = _rows(wide, axes), (-1,)
    total = np.asarray(ufunc.reduce(wide, axis=axes, dtype=kind))
    return rounded(total, dtype)


def _count(shape: tuple[int, ...], axes: Axes) -> int:
    """Return how many elements the axes have."""
    return math.prod([shape[axis] for axis in axes])


def _of_blocks(x: Array, axis: int, dtype: DType) -> Array:
    """Return the sums of blocks along an axis, and of those again while there are many."""
    while (count := x.shape[axis]) > _NAIVE:
        blocks, end = divmod(count, _BLOCK)
        before, after = (slice(None),) * axis, x.shape[axis + 1 :]
        whole = x[(*before, slice(count - end))].reshape(*x.shape[:axis], blocks, _BLOCK, *after)
        sums = np.add.reduce(whole, axis=axis + 1, dtype=dtype)
        if end:
            rest = x[(*before, slice(count - end, None))]
            last = np.add.reduce(rest, axis=axis, dtype=dtype, keepdims=True)
            sums = np.concatenate([sums, last], axis)
        x = sums
    return x


def _rows(x: Array, axes: Axes) -> Array:
    """Return the elements over the axes as dense rows, along which NumPy adds pairwise."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    moved = x.transpose(*kept, *axes)
    return np.ascontiguousarray(moved).reshape(*moved.shape[: len(kept)], -1)


def _extreme(ufunc: np.ufunc, name: str, x: Array, axes: Axes) -> Array:
    _require(x, axes, name)
    return rounded(np.asarray(ufunc.reduce(widened(np.asarray(x)), axis=axes)), x.dtype)


def _require(x: Array, axes: Axes, name: str) -> None:
    for axis in axes:
        if x.shape[axis] == 0:
            raise ValueError(
                f"{x.dtype}{list(x.shape)} has no {name} over axes {axes}: axis {axis} is empty"
            )
