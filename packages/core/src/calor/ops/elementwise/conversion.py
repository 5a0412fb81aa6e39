"""Rows of complex parts and of conversions between types."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import DType, complex_of, float32, float64
from calor.errors import DTypeError
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.movement import fill
from calor.reference import elementwise as reference
from calor.specs import Spec, spec

__all__ = [
    "bitcast",
    "cast",
    "conj",
    "conjugate",
    "imag",
    "join",
    "real",
]


def conjugate(x: Any) -> Any:
    """Return the complex conjugate of a tensor; real tensors are returned as they are."""
    return conj(x) if x.dtype.is_complex else x


# Complex parts.
real: Op = op(
    "real", rules.part, np.real, lambda g, y, x: [cast(g, dtype=x.dtype)], promotion="same"
)
imag: Op = op("imag", rules.part, np.imag, lambda g, y, x: [join(fill(g, 0), g)], promotion="same")
conj: Op = op(
    "conj", rules.anything, reference.conj, lambda g, y, x: [conjugate(g)], promotion="same"
)


def _join_rule(a: Spec, b: Spec) -> Spec:
    if a != b or a.dtype not in (float32, float64):
        raise DTypeError(f"join needs two float32 or two float64 parts of one shape, not {a}, {b}")
    return spec(a.shape, complex_of(a.dtype))


join: Op = op(
    "join",
    _join_rule,
    reference.join,
    (lambda g, y, a, b: real(g), lambda g, y, a, b: imag(g)),
    saves=("", ""),
    promotion="float",
)


# Conversions.
def _cast_rule(x: Spec, *, dtype: DType) -> Spec:
    return spec(x.shape, dtype)


def _cast_gradient(g: Any, y: Any, x: Any, *, dtype: DType) -> list[Any]:
    if not x.dtype.is_inexact:
        return [None]
    return [g if g.dtype is x.dtype else cast(g, dtype=x.dtype)]


cast: Op = op(
    "cast",
    _cast_rule,
    lambda x, *, dtype: reference.cast(x, dtype=dtype.numpy),
    _cast_gradient,
)


def _bitcast_rule(x: Spec, *, dtype: DType) -> Spec:
    size, wanted = x.dtype.itemsize, dtype.itemsize
    if size == wanted:
        return spec(x.shape, dtype)
    if size > wanted:
        return spec((*x.shape, size // wanted), dtype)
    if not x.ndim or x.shape[-1] != wanted // size:
        raise DTypeError(
            f"bitcast from {x} to {dtype.name} needs a last axis of {wanted // size} elements"
        )
    return spec(x.shape[:-1], dtype)


bitcast: Op = op(
    "bitcast",
    _bitcast_rule,
    lambda x, *, dtype: reference.bitcast(x, dtype=dtype.numpy),
    no_gradient="it reads the same bits as another type",
)
