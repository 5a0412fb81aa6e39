"""Faults of places: indices that lose bits, and operands that are written over."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.backends.op_table import Function

from .base import Array, Fault, changing


def _short_starts(right: Function) -> Function:
    def dynamic_slice(x: Array, starts: Array, *, sizes: Any) -> Any:
        return right(x, starts.astype(np.int32), sizes=sizes)

    return dynamic_slice


def _overflowing_ends(right: Function) -> Function:
    """Look whether a window ends outside by adding its size in 32 bits."""

    def dynamic_slice(x: Array, starts: Array, *, sizes: Any) -> Any:
        if starts.dtype == np.int32:
            ends = starts + np.array(sizes, np.int32)
            starts = np.where((ends < 0) & (starts > 0), 0, starts)
        return right(x, starts, sizes=sizes)

    return dynamic_slice


def _short_indices(right: Function) -> Function:
    def gather(x: Array, indices: Array, *, axis: int) -> Any:
        return right(x, indices.astype(np.int32), axis=axis)

    return gather


def _over_the_operand(right: Function) -> Function:
    def update(x: Array, update: Array, starts: Array) -> Any:
        made = right(x, update, starts)
        if x.flags.writeable:
            x[...] = made
        return made

    return update


def _unclamped(right: Function) -> Function:
    def dynamic_slice(x: Array, starts: Array, *, sizes: Any) -> Any:
        rows = [np.arange(s, s + n) % max(m, 1)
                for s, n, m in zip(starts.tolist(), sizes, x.shape, strict=True)]  # fmt: skip
        return x[np.ix_(*rows)] if rows else right(x, starts, sizes=sizes)

    return dynamic_slice


def _from_the_start(right: Function) -> Function:
    def gather(x: Array, indices: Array, *, axis: int) -> Any:
        if indices.dtype.kind == "i" and np.all(indices < x.shape[axis]):
            indices = np.maximum(indices, 0)
        return right(x, indices, axis=axis)

    return gather


def _last_alone(right: Function) -> Function:
    def scatter(x: Array, indices: Array, updates: Array, *, update: str) -> Any:
        if update != "add" or indices.shape[-1] != 1:
            return right(x, indices, updates, update=update)
        made = x.copy()
        made[indices[:, 0]] += updates
        return made

    return scatter


def _first_assigned(right: Function) -> Function:
    def scatter(x: Array, indices: Array, updates: Array, *, update: str) -> Any:
        if update == "assign":
            indices, updates = indices[::-1], updates[::-1]
        return right(x, indices, updates, update=update)

    return scatter


def _signed_bytes(right: Function) -> Function:
    def gather(x: Array, indices: Array, *, axis: int) -> Any:
        if indices.dtype == np.uint8:
            indices = indices.view(np.int8)
        return right(x, indices, axis=axis)

    return gather


def _numbers_alone(right: Function) -> Function:
    """Take the larger number of two where one is none, as an atomic maximum of bits does."""

    def scatter(x: Array, indices: Array, updates: Array, *, update: str) -> Any:
        if update == "max" and x.dtype == np.float32 and indices.shape[-1] == 1:
            made = x.copy()
            np.fmax.at(made, indices[:, 0], updates)
            return made
        return right(x, indices, updates, update=update)

    return scatter


def _dropped(right: Function) -> Function:
    """Leave updates out whose place is out of range."""

    def scatter(x: Array, indices: Array, updates: Array, *, update: str) -> Any:
        if indices.ndim == 2 and indices.shape[-1] == 1:
            places = indices[:, 0]
            kept = (places < x.shape[0]) & (places >= -x.shape[0])
            indices, updates = indices[kept], updates[kept]
        return right(x, indices, updates, update=update)

    return scatter


def _first_counted(right: Function) -> Function:
    """Count negative places from the end on the first indexed axis alone."""

    def gather_nd(x: Array, places: Array) -> Any:
        count = places.shape[-1]
        if count > 1:
            rest = np.maximum(places[..., 1:].astype(np.int64), 0)
            places = np.concatenate([places[..., :1].astype(np.int64), rest], -1)
        return right(x, places)

    return gather_nd


def _first_wins(right: Function) -> Function:
    def scatter_nd(x: Array, places: Array, updates: Array, *, update: str) -> Any:
        lead = places.ndim - 1
        if update == "assign" and lead == 1:
            places, updates = places[::-1], updates[::-1]
        return right(x, places, updates, update=update)

    return scatter_nd


FAULTS = [
    Fault(
        "slice-starts-wrap",
        "a start outside of the array wraps instead of being clamped",
        changing(dynamic_slice=_unclamped),
        ("values/dynamic_slice-clamped/float32",),
        ("dynamic_slice",),
    ),
    Fault(
        "slice-starts-short",
        "starts of 64 bits keep 32",
        changing(dynamic_slice=_short_starts),
        ("values/dynamic_slice-far/float32",),
        ("dynamic_slice",),
    ),
    Fault(
        "slice-ends-overflow",
        "where a window ends is worked out in 32 bits, which overflow",
        changing(dynamic_slice=_overflowing_ends),
        ("values/dynamic_slice-far-32/float32",),
        ("dynamic_slice",),
    ),
    Fault(
        "indices-short",
        "indices of 64 bits keep 32, so that some out of range are read",
        changing(gather=_short_indices),
        ("errors/index_out_of_range",),
        ("gather",),
    ),
    Fault(
        "operand-written-over",
        "an update of a slice writes into its operand",
        changing(dynamic_update_slice=_over_the_operand),
        ("views/dynamic_update_slice-inside-stepped/float32",),
        ("dynamic_update_slice",),
    ),
    Fault(
        "negative-indices",
        "a negative index reads the first element",
        changing(gather=_from_the_start),
        ("values/gather-negative/float32",),
        ("gather",),
    ),
    Fault(
        "scatter-loses-repeats",
        "of several updates of one place only the last is added",
        changing(scatter_nd=_last_alone),
        ("values/scatter_nd-add-rows/float32",),
        ("scatter_nd",),
    ),
    Fault(
        "scatter-first-wins",
        "of several numbers assigned to one place the first stays",
        changing(scatter_nd=_first_assigned),
        ("values/scatter_nd-assign-rows/float32",),
        ("scatter_nd",),
    ),
    Fault(
        "indices-signed",
        "indices of uint8 are read as int8, so that those from 128 on count from the end",
        changing(gather=_signed_bytes),
        ("values/gather-uint8-beyond-int8/float32",),
        ("gather",),
    ),
    Fault(
        "scatter-drops",
        "updates out of range are left out in silence",
        changing(scatter_nd=_dropped),
        ("errors/other_indices_out_of_range",),
        ("scatter_nd",),
    ),
    Fault(
        "scatter-beyond-nan",
        "a maximum of updates passes over NaN",
        changing(scatter_nd=_numbers_alone),
        ("values/scatter_nd-max-special/float32",),
        ("scatter_nd",),
    ),
    Fault(
        "places-from-the-end-on-one-axis",
        "of several index arrays the first alone counts negative places from the end",
        changing(gather_nd=_first_counted),
        ("functions/keys-read",),
        ("gather_nd",),
    ),
    Fault(
        "first-assignment-wins",
        "of several values for one place the first is kept",
        changing(scatter_nd=_first_wins),
        ("functions/keys-written",),
        ("scatter_nd",),
    ),
]
