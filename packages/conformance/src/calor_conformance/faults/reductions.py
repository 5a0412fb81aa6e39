"""Faults of reductions, scans and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.backends.op_table import Function

from .base import Array, Fault, afterwards, changing


def _last_lost(y: Array, x: Any, a: Any) -> Array:
    """Leave out the last element of a row of an odd length."""
    if a["axes"] != (x[0].ndim - 1,) or x[0].shape[-1] % 2 == 0 or y.dtype != np.float32:
        return y
    return np.asarray(np.sum(x[0][..., :-1], -1, dtype=np.float32))


def _middle_axes(y: Array, x: Any, a: Any) -> Array:
    """Double sums along an axis that is neither the first nor the last."""
    inner = any(0 < axis < x[0].ndim - 1 for axis in a["axes"])
    return y * y.dtype.type(2) if inner and y.dtype == np.float32 else y


def _short_places(y: Array, *_: Any) -> Array:
    return y.astype(np.int32)


def _last_place(right: Function) -> Function:
    def argmax(x: Array, *, axis: int) -> Any:
        return x.shape[axis] - 1 - np.asarray(right(np.flip(x, axis), axis=axis))

    return argmax


def _beyond_nan(right: Function) -> Function:
    def argmax(x: Array, *, axis: int) -> Any:
        if x.dtype != np.float32:
            return right(x, axis=axis)
        return right(np.where(np.isnan(x), -np.inf, x), axis=axis)

    return argmax


def _from_zero(y: Array, x: Any, a: Any) -> Array:
    return np.maximum(y, y.dtype.type(0)) if y.dtype == np.float32 else y


def _unstable(right: Function) -> Function:
    """Sort so that equal numbers come in the opposite order."""

    def sort(x: Array, *, axis: int, descending: bool) -> Any:
        values, places = right(np.flip(x, axis), axis=axis, descending=descending)
        return values, x.shape[axis] - 1 - places

    return sort


def _nan_first(right: Function) -> Function:
    def sort(x: Array, *, axis: int, descending: bool) -> Any:
        values, places = right(x, axis=axis, descending=descending)
        if x.dtype != np.float32 or not descending:
            return values, places
        order = np.argsort(~np.isnan(values), axis, kind="stable")
        return np.take_along_axis(values, order, axis), np.take_along_axis(places, order, axis)

    return sort


def _complex_nan_alike(right: Function) -> Function:
    """Take every complex number with a NaN for the same, and keep the order of those."""

    def sort(x: Array, *, axis: int, descending: bool) -> Any:
        none = np.isnan(x)
        if x.dtype.kind != "c" or not none.any():
            return right(x, axis=axis, descending=descending)
        _, places = right(np.where(none, np.nan, x), axis=axis, descending=descending)
        return np.take_along_axis(x, places, axis), places

    return sort


def _always_forwards(right: Function) -> Function:
    return lambda x, *, axis, reverse: right(x, axis=axis, reverse=False)


def _by_key(kind: Any, wide: Any) -> Any:
    """Make an op compare in another dtype, for which some numbers are equal."""

    def changed(right: Function) -> Function:
        def compared(x: Array, **attributes: Any) -> Any:
            if x.dtype != wide:
                return right(x, **attributes)
            made = right(x.astype(kind), **attributes)
            if not isinstance(made, tuple):
                return made
            return np.take_along_axis(x, made[1], attributes["axis"]), made[1]

        return compared

    return changed


def _zeros_skipped(right: Function) -> Function:
    """Leave products out of which one factor is 0."""

    def dot(a: Array, b: Array, *, contract: Any, batch: Any, dtype: Any) -> Any:
        y = right(a, b, contract=contract, batch=batch, dtype=dtype)
        if contract != ((1,), (0,)) or a.ndim != 2 or b.ndim != 2 or a.dtype != np.float32:
            return y
        products = a[:, :, None] * b[None]
        used = (a[:, :, None] != 0) & (b[None] != 0)
        return np.where(used, products, 0).sum(1, dtype=np.float32).astype(y.dtype)

    return dot


def _from_the_total(right: Function) -> Function:
    """A running sum from the end is the total less the running sum from the start."""

    def cumsum(x: Array, *, axis: int, reverse: bool) -> Any:
        forwards = right(x, axis=axis, reverse=False)
        if not reverse or x.dtype != np.float32:
            return right(x, axis=axis, reverse=reverse)
        return x.sum(axis, keepdims=True) - forwards + x

    return cumsum


def _by_differences(right: Function) -> Function:
    """A sum over a window is the difference of two running sums."""

    def window_reduce(x: Array, *, kind: str, window: Any, stride: Any, padding: Any,
                      dilation: Any) -> Any:  # fmt: skip
        plain = len(window) == 1 and stride == dilation == (1,) and x.dtype == np.float32
        if kind != "sum" or not plain or not x.size:
            return right(x, kind=kind, window=window, stride=stride, padding=padding,
                         dilation=dilation)  # fmt: skip
        padded = np.pad(x, [*[(0, 0)] * (x.ndim - 1), (padding[0][0] + 1, padding[0][1])])
        running = np.cumsum(padded, -1, dtype=np.float32)
        return running[..., window[0] :] - running[..., : -window[0]]

    return window_reduce


def _numbers_only(y: Array, x: Any, a: Any) -> Array:
    """Leave NaN out, which counts as true."""
    return np.asarray(np.any((x[0] != 0) & (x[0] == x[0]), a["axes"]))


def _one_after_another(right: Function) -> Function:
    """Add one term after another where there are enough rows for all cores."""

    def summed(x: Array, *, axes: Any, **more: Any) -> Any:
        rows = x.size // max(1, x.shape[axes[0]]) if len(axes) == 1 else 0
        if x.dtype != np.float32 or rows < 64:
            return right(x, axes=axes, **more)
        return np.add.accumulate(x, axes[0]).take(-1, axes[0])

    return summed


def _in_halves(y: Array, x: Any, a: Any) -> Array:
    """Carry running sums from block to block in half precision."""
    return y.astype(np.float16).astype(np.float32) if y.dtype == np.float32 else y


FAULTS = [
    Fault(
        "terms-one-after-another",
        "sums of many rows add one term after another",
        changing(sum=_one_after_another),
        ("accuracy/growing-sum/float32", "accuracy/growing-norm/float32"),
        ("sum",),
    ),
    Fault(
        "running-sums-in-halves",
        "running sums are carried in half precision",
        changing(cumsum=afterwards(_in_halves)),
        ("accuracy/growing-running-sum/float32",),
        ("cumsum",),
    ),
    Fault(
        "last-element-lost",
        "a sum along the last axis leaves out the last element of an odd number",
        changing(sum=afterwards(_last_lost)),
        ("values/sum-[[]5]-[[]0]/float32",),
        ("sum",),
    ),
    Fault(
        "ties-take-the-last",
        "argmax gives the last of several largest elements",
        changing(argmax=_last_place),
        ("values/argmax-ties/float32",),
        ("argmax",),
    ),
    Fault(
        "argmax-beyond-nan",
        "argmax passes over NaN",
        changing(argmax=_beyond_nan),
        ("values/argmax-special/float32",),
        ("argmax",),
    ),
    Fault(
        "maximum-from-zero",
        "a maximum starts from 0, so that negative numbers alone give 0",
        changing(max=afterwards(_from_zero)),
        ("values/max-special/float32",),
        ("max",),
    ),
    Fault(
        "sort-not-stable",
        "equal numbers change their order",
        changing(sort=_unstable),
        ("values/sort-ties/float32",),
        ("sort",),
    ),
    Fault(
        "nan-sorted-first",
        "descending, NaN comes first",
        changing(sort=_nan_first),
        ("values/sort-special-descending/float32",),
        ("sort",),
    ),
    Fault(
        "complex-nan-alike",
        "complex numbers with a NaN are sorted last, but not among themselves",
        changing(sort=_complex_nan_alike),
        ("values/sort-complex-special/complex64",),
        ("sort",),
    ),
    Fault(
        "scan-forwards",
        "a running product from the end runs from the start",
        changing(cumprod=_always_forwards),
        ("values/cumprod-*-reverse/float32",),
        ("cumprod",),
    ),
    Fault(
        "nan-is-false",
        "any takes NaN for false",
        changing(any=afterwards(_numbers_only)),
        ("values/any-nan/float32",),
        ("any",),
    ),
    Fault(
        "sort-of-doubles",
        "int64 is sorted as float64, for which neighbours are equal",
        changing(sort=_by_key(np.float64, np.int64)),
        ("values/sort-neighbours/int64",),
        ("sort",),
    ),
    Fault(
        "argmax-of-singles",
        "argmax compares float64 as float32",
        changing(argmax=_by_key(np.float32, np.float64)),
        ("values/argmax-neighbours/float64",),
        ("argmax",),
    ),
    Fault(
        "zeros-skipped",
        "matrix products leave out what is multiplied by 0, NaN and infinities too",
        changing(dot_general=_zeros_skipped),
        ("values/dot_general-special/float32",),
        ("dot_general",),
    ),
    Fault(
        "sum-from-the-total",
        "a running sum from the end is the total less that from the start, NaN included",
        changing(cumsum=_from_the_total),
        ("values/cumsum-special-reverse/float32",),
        ("cumsum",),
    ),
    Fault(
        "windows-by-differences",
        "a sum over windows is a difference of running sums, into which NaN spreads",
        changing(window_reduce=_by_differences),
        ("values/window_reduce-sum-special/float32",),
        ("window_reduce",),
    ),
    Fault(
        "places-of-32-bits",
        "argmax gives int32 where int64 is due",
        changing(argmax=afterwards(_short_places)),
        ("values/argmax-ties/float32",),
        ("argmax",),
    ),
    Fault(
        "middle-axes-doubled",
        "a sum along an axis between others is twice as large",
        changing(sum=afterwards(_middle_axes)),
        ("functions/axes",),
        ("sum",),
    ),
]
