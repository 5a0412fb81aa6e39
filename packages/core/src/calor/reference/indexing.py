"""Reading and writing at computed places.

Requirements: an index may be negative, counting from the end; one out of range is an IndexError
here (a device may clamp it instead). Scatters apply their updates in row-major order of the
indices, so results do not depend on chance; half types accumulate in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from calor.reference.precision import Array, quiet, rounded, widened

_UFUNCS: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def gather(x: Array, indices: Array, *, axis: int) -> Array:
    """Return x[..., indices, ...] of shape x.shape[:axis] + indices.shape + x.shape[axis + 1:].

    Raises IndexError when an index is out of range.
    """
    return np.asarray(np.take(x, _checked(indices, x.shape[axis], axis), axis=axis))


def take_along(x: Array, indices: Array, *, axis: int) -> Array:
    """Return the element of x at each index along an axis; other axes agree in size.

    Raises IndexError when an index is out of range.
    """
    return np.take_along_axis(x, _checked(indices, x.shape[axis], axis), axis=axis)


def gather_nd(x: Array, indices: Array) -> Array:
    """Return the parts of x, of shape (*B, *x.shape[k:]), at the indices (*B, k) of its first axes.

    Raises IndexError when an index is out of range.
    """
    depth = indices.shape[-1]
    rows = x.reshape(prod(x.shape[:depth]), *x.shape[depth:])
    return np.asarray(np.take(rows, _flat(indices, x.shape[:depth]), axis=0))


@quiet
def scatter_nd(x: Array, indices: Array, updates: Array, *, update: str) -> Array:
    """Return x with its parts at the indices (*B, k) updated from updates (*B, *x.shape[k:]).

    ``update`` is "assign" (the last one wins), "add", "mul", "max" or "min". Raises IndexError when
    an index is out of range.
    """
    depth = indices.shape[-1]
    places = _flat(indices, x.shape[:depth]).reshape(-1)
    width = prod(x.shape[depth:])
    if update == "assign":
        result = np.array(x, order="C")
        rows = result.reshape(prod(x.shape[:depth]), width)
        rows[places] = updates.reshape(places.size, width)
        return result
    elements = places[:, None] * width + np.arange(width)
    return _updated(x, elements.reshape(-1), updates, update)


@quiet
def scatter_along(x: Array, indices: Array, updates: Array, *, axis: int, update: str) -> Array:
    """Return x with its elements at the indices along an axis updated; the shapes are those of
    ``take_along``, the updates and errors those of ``scatter_nd``.
    """
    places = _checked(indices, x.shape[axis], axis)
    inner = prod(x.shape[axis + 1 :])
    count = indices.shape[axis]
    outer = prod(x.shape[:axis])
    places = places.reshape(outer, count, inner) * inner
    places = places + np.arange(inner)
    places += (np.arange(outer) * (x.shape[axis] * inner))[:, None, None]
    return _updated(x, places.reshape(-1), updates, update)


def dynamic_slice(x: Array, starts: Array, *, sizes: tuple[int, ...]) -> Array:
    """Return the part of x of the given sizes at the starts, which are clamped so that it fits."""
    return x[_fitting(x, starts, sizes)]


def dynamic_update_slice(x: Array, update: Array, starts: Array) -> Array:
    """Return x with the update written at the starts, which are clamped so that it fits."""
    result = np.array(x, order="C")
    result[_fitting(x, starts, update.shape)] = update
    return result


def _updated(x: Array, places: Array, updates: Array, update: str) -> Array:
    result = np.array(widened(x), order="C")
    flat = result.reshape(-1)
    values = widened(updates).reshape(-1)
    if update == "assign":
        flat[places] = values
    else:
        _UFUNCS[update].at(flat, places, values)
    return rounded(result, x.dtype)


def _fitting(x: Array, starts: Array, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    first = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(s, s + m) for s, m in zip(first, sizes, strict=True))


def _checked(indices: Array, size: int, axis: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return the indices counted from the start; IndexError when one is out of range."""
    indices = np.asarray(indices)
    if not indices.size:
        return indices.astype(np.intp)
    low, high = int(indices.min()), int(indices.max())
    if low < -size or high >= size:
        wrong = high if high >= size else low
        raise IndexError(f"index {wrong} is out of range for axis {axis} of size {size}")
    whole = indices.astype(np.intp, copy=False)
    return np.where(whole < 0, whole + size, whole) if low < 0 else whole


def _flat(indices: Array, sizes: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return indices (*B, k) into the first k axes as row-major numbers (*B)."""
    total = np.zeros(indices.shape[:-1], np.intp)
    for axis, size in enumerate(sizes):
        total = total * size + _checked(indices[..., axis], size, axis)
    return total
