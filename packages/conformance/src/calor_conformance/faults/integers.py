"""Faults of integers and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.backends.op_table import Function

from .base import Array, Change, Fault, afterwards, changing


def _of(dtype: Any, change: Any) -> Change:
    return afterwards(lambda y, x, a: change(*x, **a) if x[0].dtype == dtype else y)


def _saturated(a: Array, b: Array) -> Array:
    limits = np.iinfo(a.dtype)
    wide = a.astype(np.int64) + b.astype(np.int64)
    return np.clip(wide, limits.min, limits.max).astype(a.dtype)


def _to(kind: Any, change: Any) -> Change:
    """Change conversions to a dtype, for the operands that ``change`` takes."""

    def changed(y: Array, x: Any, a: Any) -> Array:
        made = change(x[0]) if a["dtype"].numpy == kind else None
        return y if made is None else np.asarray(made, y.dtype)

    return afterwards(changed)


def _nan_as_least(x: Array) -> Any:
    if x.dtype != np.float32:
        return None
    limits = np.iinfo(np.int32)
    finite = np.clip(np.nan_to_num(x.astype(np.float64)), limits.min, limits.max)
    return np.where(np.isnan(x), limits.min, finite.astype(np.int64))


def _wrapped(x: Array) -> Any:
    if x.dtype != np.float32 or not np.isfinite(x).all():
        return None
    return np.trunc(np.clip(x.astype(np.float64), -(2**62), 2**62)).astype(np.int64).astype(np.int8)


def _twice_rounded(x: Array) -> Any:
    return x.astype(np.float32).astype(np.float16) if x.dtype == np.float64 else None


def _twice_rounded_integer(x: Array) -> Any:
    return x.astype(np.float64).astype(np.float32) if x.dtype == np.int64 else None


def _small_twice_rounded(x: Array) -> Any:
    import ml_dtypes

    return x.astype(ml_dtypes.bfloat16) if x.dtype == np.int16 else None


def _cut(x: Array) -> Any:
    if x.dtype != np.float32:
        return None
    import ml_dtypes

    top = (np.ascontiguousarray(x).view(np.uint32) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), x.astype(ml_dtypes.bfloat16), top.view(ml_dtypes.bfloat16))


def _divided(a: Array, b: Array) -> Array:
    return np.where(b == 0, a.dtype.type(-1), np.floor_divide(a, np.where(b == 0, 1, b)))


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _narrow_sums(right: Function) -> Function:
    """Sums of products of int8 in pairs that saturate at 16 bits, as a CPU's instruction does."""

    def dot(a: Array, b: Array, *, contract: Any, batch: Any, dtype: Any) -> Any:
        if a.dtype != np.int8 or dtype.numpy != np.int32 or contract != ((1,), (0,)) or a.ndim != 2:
            return right(a, b, contract=contract, batch=batch, dtype=dtype)
        made = np.zeros((a.shape[0], b.shape[1]), np.int64)
        for k in range(0, a.shape[1], 2):
            pair = a[:, k : k + 2].astype(np.int64) @ b[k : k + 2].astype(np.int64)
            made += np.clip(pair, -(2**15), 2**15 - 1)
        return made.astype(np.int32)

    return dot


def _in_float_where_aligned(right: Function) -> Function:
    """Multiply matrices of int32 in float32 where a matrix unit can be used."""

    def dot(a: Array, b: Array, **attributes: Any) -> Any:
        aligned = all(n % 8 == 0 for n in (*a.shape, *b.shape))
        if not aligned or a.ndim != 2 or a.dtype != np.int32 or attributes["contract"][0] != (1,):
            return right(a, b, **attributes)
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.int64).astype(np.int32)

    return dot


I32 = np.int32
FAULTS = [
    Fault(
        "integers-saturate",
        "int32 sums stop at the largest number instead of wrapping",
        changing(add=_of(I32, _saturated)),
        ("values/add-wraps/int32", "special/add/int32"),
        ("add",),
    ),
    Fault(
        "integers-in-float",
        "int32 products are computed in float32, which has 24 bits",
        changing(mul=_of(I32, lambda a, b: (a.astype("f4") * b.astype("f4")).astype("i8"))),
        ("values/mul-wraps/int32",),
        ("mul",),
    ),
    Fault(
        "long-integers-short",
        "int64 sums keep 32 bits",
        changing(add=_of(np.int64, lambda a, b: (a + b).astype(I32).astype(np.int64))),
        ("values/add-wraps/int64",),
        ("add",),
    ),
    Fault(
        "unsigned-as-signed",
        "less compares uint32 as int32",
        changing(less=_of(np.uint32, lambda a, b: a.view(I32) < b.view(I32))),
        ("special/less/uint32",),
        ("less",),
    ),
    Fault(
        "division-by-zero",
        "an integer divided by 0 is −1",
        changing(floor_divide=_of(I32, _divided)),
        ("special/floor_divide/int32",),
        ("floor_divide",),
    ),
    Fault(
        "remainder-of-c",
        "the remainder has the sign of the dividend, as in C",
        changing(remainder=_of(I32, _remainder)),
        ("values/remainder/int32",),
        ("remainder",),
    ),
    Fault(
        "shifts-masked",
        "a shift counts modulo 32, so that shifting out every bit shifts by none",
        changing(shift_left=_of(I32, lambda a, b: a << (b & 31))),
        ("special/shift_left/int32",),
        ("shift_left",),
    ),
    Fault(
        "cast-of-nan",
        "NaN becomes the least integer",
        changing(cast=_to(I32, _nan_as_least)),
        ("values/cast-extremes-to-int32/float32",),
        ("cast",),
    ),
    Fault(
        "cast-wraps",
        "floats beyond the range of int8 wrap instead of saturating",
        changing(cast=_to(np.int8, _wrapped)),
        ("values/cast-saturates/float32",),
        ("cast",),
    ),
    Fault(
        "cast-truncates",
        "float32 to bfloat16 drops the lower half",
        changing(cast=_to("bfloat16", _cut)),
        ("values/cast-to-bfloat16/float32",),
        ("cast",),
    ),
    Fault(
        "cast-rounds-twice",
        "float64 to float16 goes through float32 and is rounded twice",
        changing(cast=_to(np.float16, _twice_rounded)),
        ("values/cast-halfway-to-float16/float64",),
        ("cast",),
    ),
    Fault(
        "small-integer-cast-rounds-twice",
        "int16 becomes float8_e5m2 by way of bfloat16",
        changing(cast=_to("float8_e5m2", _small_twice_rounded)),
        ("values/cast-halfway-to-float8_e5m2/int16",),
        ("cast",),
    ),
    Fault(
        "integer-cast-rounds-twice",
        "int64 to float32 goes through float64 and is rounded twice",
        changing(cast=_to(np.float32, _twice_rounded_integer)),
        ("values/cast-halfway-to-float32/int64",),
        ("cast",),
    ),
    Fault(
        "byte-products-saturate",
        "products of int8 are added in pairs that saturate at 16 bits",
        changing(dot_general=_narrow_sums),
        ("values/dot_general-to-int32-deep/int8",),
        ("dot_general",),
    ),
    Fault(
        "integer-products-in-float",
        "matrix products of int32 are float32 where all sides are multiples of 8",
        changing(dot_general=_in_float_where_aligned),
        ("values/dot_general-aligned-wraps/int32",),
        ("dot_general",),
    ),
]
