"""Selection of elements by index."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.operators.shape import axis_of
from calor_onnx.registry import operator


@operator("Where", since=9, moves=True)
def where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y, broadcast."""
    return calor.where(condition, x, y)


@operator("Slice", since=10, host=[1, 2, 3, 4], moves=True)
def slice_(
    call: Call, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None
) -> Any:  # fmt: skip
    """The elements from ``starts`` to before ``ends`` in steps along axes."""
    first, last = call.integers(starts), call.integers(ends)
    along = [*range(len(first))] if axes is None else call.integers(axes)
    by = [1] * len(first) if steps is None else call.integers(steps)
    if not len(first) == len(last) == len(along) == len(by):
        raise ModelError("Slice: starts, ends, axes and steps differ in length")
    key = [slice(None)] * x.ndim
    for a, b, axis, step in zip(first, last, along, by, strict=True):
        place = axis_of(axis, x.ndim, "Slice")
        # A backward slice that starts before the first element begins at it, unlike in Python.
        key[place] = slice(max(a, -x.shape[place]) if step < 0 else a, b, step)
    return x[tuple(key)]


@operator("Slice", moves=True)
def slice_1(
    call: Call, x: Any, *, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Any:
    """The elements between places that attributes give."""
    return slice_(
        call, x, np.array(starts), np.array(ends), None if axes is None else np.array(axes)
    )


@operator("Gather", moves=True)
def gather(call: Call, x: Any, indices: Any, *, axis: int = 0) -> Any:
    """The slices at the indices along an axis; negative ones count from the end."""
    return calor.take(x, indices, axis=axis_of(axis, x.ndim, "Gather"))


@operator("GatherElements", since=11, moves=True)
def gather_elements(call: Call, x: Any, indices: Any, *, axis: int = 0) -> Any:
    """The element at each index along an axis, at the index's own place on the others."""
    place = axis_of(axis, x.ndim, "GatherElements")
    return calor.take_along_axis(_reached(x, indices.shape, place), indices, axis=place)


def _reached(x: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Return the part of x within the extent of the indices on the other axes."""
    sizes = [n if i == axis else shape[i] for i, n in enumerate(x.shape)]
    return x if sizes == [*x.shape] else x[tuple(slice(n) for n in sizes)]


@operator("GatherND", since=11, moves=True)
def gather_nd(call: Call, x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    """The parts at indices of the first axes after ``batch_dims`` that both have."""
    return calor.gather_nd(x, _with_batch(call, indices, batch_dims))


def _with_batch(call: Call, indices: Any, batch: int) -> Any:
    """Return indices with their positions on the batch axes added."""
    if not batch:
        return indices
    parts = []
    for axis in range(batch):
        shape = [1] * indices.ndim
        shape[axis] = indices.shape[axis]
        place = calor.arange(indices.shape[axis], dtype=indices.dtype, device=indices.device)
        wide = calor.broadcast_to(calor.reshape(place, tuple(shape)), (*indices.shape[:-1], 1))
        parts.append(wide)
    return calor.concat([*parts, indices], axis=-1)


_UPDATES = {"none": "assign", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _update(reduction: str) -> Any:
    if reduction not in _UPDATES:
        raise ModelError(f"reduction is {reduction!r}; it must be one of {', '.join(_UPDATES)}")
    return _UPDATES[reduction]


@operator("ScatterElements", since=11, moves=True)
def scatter_elements(
    call: Call, x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none"
) -> Any:
    """x with the element at each index along an axis replaced by, or joined with, an update."""
    place = axis_of(axis, x.ndim, "ScatterElements")
    if not indices.size:
        return x
    part = _reached(x, indices.shape, place)
    made = calor.scatter_along_axis(part, indices, updates, axis=place, update=_update(reduction))
    if part is x:
        return made
    whole = x.copy()
    whole[tuple(slice(n) for n in made.shape)] = made
    return whole


@operator("Scatter", since=9, moves=True)
def scatter(call: Call, x: Any, indices: Any, updates: Any, *, axis: int = 0) -> Any:
    """The older name of ScatterElements."""
    return scatter_elements(call, x, indices, updates, axis=axis)


@operator("ScatterND", since=11, moves=True)
def scatter_nd(
    call: Call, x: Any, indices: Any, updates: Any, *, reduction: str = "none"
) -> Any:  # fmt: skip
    """x with its parts at the indices replaced by, or joined with, updates."""
    return calor.scatter_nd(x, indices, updates, update=_update(reduction))


@operator("TensorScatter", since=24, moves=True)
def tensor_scatter(
    call: Call, cache: Any, update: Any, places: Any = None, *, axis: int = -2, mode: str = "linear"
) -> Any:
    """A cache with an update written along an axis, at a position for each batch row."""
    along = axis_of(axis, cache.ndim, "TensorScatter")
    if not along:
        raise ModelError("TensorScatter: axis is the first one, which is the batch")
    size, count = cache.shape[along], update.shape[along]
    steps = calor.arange(count, device=cache.device)
    if places is None:
        at = calor.broadcast_to(steps, (cache.shape[0], count))
    else:
        at = calor.expand_dims(calor.astype(places, calor.int64), 1) + steps
    if mode == "circular":
        at = calor.remainder(at, size)
    shape = [1] * cache.ndim
    shape[0], shape[along] = cache.shape[0], count
    wide = calor.broadcast_to(calor.reshape(at, tuple(shape)), update.shape)
    return calor.scatter_along_axis(cache, wide, update, axis=along)


@operator("NonZero", since=9, raw=True)
def non_zero(call: Call, x: Any) -> Any:
    """The indices of the nonzero elements, one column for each; their number depends on data."""
    found = np.argwhere(call.host(x) != 0)
    return np.ascontiguousarray(found.T).reshape(len(x.shape), -1)


@operator("Compress", since=9, host=[1], moves=True)
def compress(call: Call, x: Any, condition: Any, *, axis: int | None = None) -> Any:
    """The slices along an axis, or the elements, where a condition on the host holds."""
    if axis is None:
        x, axis = calor.reshape(x, (-1,)), 0
    places = np.flatnonzero(condition)
    return calor.take(
        x, calor.asarray(places, device=x.device), axis=axis_of(axis, x.ndim, "Compress")
    )


@operator("Unique", since=11, raw=True)
def unique(call: Call, x: Any, *, axis: int | None = None, sorted: int = 1) -> Any:
    """The distinct values, their first positions, the inverse indices, and the counts."""
    array = call.host(x)
    if axis is None:
        array, axis = array.reshape(-1), 0
    along = axis_of(axis, array.ndim, "Unique")
    values, first, inverse, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=_axis(array, along)
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        values = np.take(values, order, axis=along)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order, kind="stable")[inverse]
    whole = (first, inverse, counts)
    return (values, *(part.astype(np.int64) for part in whole))


def _axis(array: Any, axis: int) -> int | None:
    # Along an axis NumPy compares slices as records, which cannot hold texts.
    return None if array.ndim == 1 else axis


@operator("TopK", since=10, host=[1])
def top_k(
    call: Call, x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> Any:  # fmt: skip
    """The k largest, or smallest, elements along an axis in order, and their indices."""
    (count,) = call.integers(k)
    found = calor.topk(x, count, axis=axis_of(axis, x.ndim, "TopK"), largest=bool(largest))
    return found.values, calor.astype(found.indices, calor.int64)


@operator("TopK")
def top_k_1(call: Call, x: Any, *, k: int, axis: int = -1) -> Any:
    """The k largest elements, k being an attribute."""
    return top_k(call, x, np.array([k]), axis=axis)


@operator("ReverseSequence", since=10, moves=True)
def reverse_sequence(
    call: Call, x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0
) -> Any:
    """The first steps of each row, up to its length, in reverse order."""
    steps = calor.arange(x.shape[time_axis], device=x.device)
    shape = [1] * x.ndim
    shape[time_axis] = -1
    steps = calor.reshape(steps, tuple(shape))
    shape[time_axis], shape[batch_axis] = 1, -1
    ends = calor.reshape(calor.astype(lengths, calor.int64), tuple(shape))
    places = calor.where(calor.less(steps, ends), ends - 1 - steps, steps)
    return calor.take_along_axis(x, places, axis=time_axis)
