"""Faults of rounding: sums of one number after another, and conversions that round twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calor.backends.op_table import Function
from calor.dtypes import bfloat16, float8_e4m3fn

from .base import Array, Change, Fault, changing


def _one_after_another(wrong: Callable[[Array, tuple[int, ...]], bool]) -> Any:
    """Make long sums of some operands add one number after another."""

    def changed(right: Function) -> Function:
        def total(x: Array, *, axes: Any, dtype: Any) -> Any:
            long = len(axes) == 1 and x.shape[axes[0]] > 1000 and x.dtype == np.dtype(dtype)
            if not long or not wrong(x, axes):
                return right(x, axes=axes, dtype=dtype)
            return np.take(np.cumsum(x, axes[0], dtype=x.dtype), -1, axes[0])

        return total

    return changed


def _outer(x: Array, axes: tuple[int, ...]) -> bool:
    return bool(x.dtype == np.float32 and axes[0] == 0 and x.ndim > 1)


def _between(x: Array, axes: tuple[int, ...]) -> bool:
    return bool(x.dtype == np.float64 and 0 < axes[0] < x.ndim - 1)


def _complex(x: Array, axes: tuple[int, ...]) -> bool:
    return bool(x.dtype == np.complex64)


def _by_way_of(source: Any, way: Any, target: Any, where: Callable[[Array], Array]) -> Any:
    """Make a conversion round some numbers to a third dtype first."""

    def changed(right: Function) -> Function:
        def cast(x: Array, *, dtype: Any) -> Any:
            made = right(x, dtype=dtype)
            if x.dtype != source or np.dtype(dtype) != target:
                return made
            twice = right(right(x, dtype=np.dtype(way)), dtype=dtype)
            return np.asarray(np.where(where(x), twice, made), target)

        return cast

    return changed


def _of_complex(plain: Callable[[Array], Array]) -> Change:
    """Compute a function of complex numbers by a plain formula."""

    def changed(right: Function) -> Function:
        def function(x: Array, **attributes: Any) -> Any:
            if x.dtype.kind != "c":
                return right(x, **attributes)
            with np.errstate(all="ignore"):
                return plain(x).astype(x.dtype)

        return function

    return changed


FAULTS = [
    Fault(
        "complex-log1p-of-the-sum",
        "log1p of a complex number is the logarithm of the rounded sum",
        changing(log1p=_of_complex(lambda x: np.log(1 + x))),
        ("accuracy/complex-points-log1p/complex64", "accuracy/complex-points-log1p/complex128"),
        ("log1p",),
    ),
    Fault(
        "complex-acosh-by-one-root",
        "acosh of a complex number takes one root of a square, on the wrong side of a cut",
        changing(acosh=_of_complex(lambda x: np.log(x + np.sqrt(x * x - 1)))),
        ("accuracy/complex-points-acosh/complex64",),
        ("acosh",),
    ),
    Fault(
        "complex-roots-of-large-numbers",
        "the root of a complex number takes the root of the sum of two squares",
        changing(sqrt=_of_complex(
            lambda x: np.sqrt((np.sqrt(x.real**2 + x.imag**2) + x.real) / 2)
            + 1j * np.copysign(np.sqrt((np.sqrt(x.real**2 + x.imag**2) - x.real) / 2), x.imag)
        )),
        ("accuracy/complex-points-sqrt/complex64",),
        ("sqrt",),
    ),
    Fault(
        "outer-sums-one-after-another",
        "long sums along a first axis add one row after another",
        changing(sum=_one_after_another(_outer)),
        ("accuracy/long-sums/float32",),
        ("sum",),
    ),
    Fault(
        "middle-sums-one-after-another",
        "long sums of float64 along an axis between others add one number after another",
        changing(sum=_one_after_another(_between)),
        ("accuracy/long-sums/float64",),
        ("sum",),
    ),
    Fault(
        "complex-sums-one-after-another",
        "long sums of complex numbers add one number after another",
        changing(sum=_one_after_another(_complex)),
        ("accuracy/long-sums/complex64",),
        ("sum",),
    ),
    Fault(
        "whole-numbers-by-way-of-doubles",
        "negative int64 become float32 by way of float64",
        changing(cast=_by_way_of(np.int64, np.float64, np.float32, lambda x: x < 0)),
        ("accuracy/casts-at-ties/int64",),
        ("cast",),
    ),
    Fault(
        "unsigned-by-way-of-singles",
        "uint64 beyond 2⁶³ become bfloat16 by way of float32",
        changing(cast=_by_way_of(
            np.uint64, np.float32, bfloat16.numpy, lambda x: x >= np.uint64(1 << 63)
        )),
        ("accuracy/casts-at-ties/uint64",),
        ("cast",),
    ),
    Fault(
        "denormal-halves-by-way-of-singles",
        "float64 below the smallest normal float16 become float16 by way of float32",
        changing(cast=_by_way_of(
            np.float64, np.float32, np.float16, lambda x: np.abs(x) < 2.0**-14
        )),
        ("accuracy/casts-at-ties/float64",),
        ("cast",),
    ),
    Fault(
        "eighths-by-way-of-halves",
        "negative float32 become float8_e4m3fn by way of float16",
        changing(cast=_by_way_of(
            np.float32, np.float16, float8_e4m3fn.numpy, lambda x: x < 0
        )),
        ("accuracy/casts-at-ties/float32",),
        ("cast",),
    ),
]  # fmt: skip
