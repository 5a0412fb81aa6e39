"""Faults of floating-point numbers: rounding, precision, NaN, infinities, zeros and denormals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calor.backends.op_table import Function

from .base import Array, Broken, Change, Fault, afterwards, changing


def _of(dtype: Any, change: Any) -> Change:
    """Change results whose operands have a dtype."""
    return afterwards(lambda y, x, a: change(*x, **a) if x[0].dtype == dtype else y)


def _truncated_sum(a: Array, b: Array) -> Array:
    exact = a.astype(np.float64) + b.astype(np.float64)
    made = exact.astype(np.float16)
    return np.where(np.abs(made) > np.abs(exact), np.nextafter(made, np.float16(0)), made)


class FlushesDenormals(Broken):
    """Arithmetic gives zero for every number below the smallest normal one."""

    def table(self, index: int) -> Mapping[str, Function]:
        """Return the table with results flushed."""
        made = dict(super().table(index))
        for name in ("add", "sub", "mul", "div", "exp"):
            made[name] = afterwards(_flushed)(made[name])
        return made


def _flushed(y: Array, *_: Any) -> Array:
    if y.dtype not in (np.float32, np.float64):
        return y
    return np.where(np.abs(y) < np.finfo(y.dtype).tiny, np.copysign(0, y), y).astype(y.dtype)


def _tail_off(y: Array, operands: Any, attributes: Any) -> Array:
    return np.where(np.abs(operands[0]) > 0.998, y * y.dtype.type(1 + 1e-6), y)


def _clipped(y: Array, *_: Any) -> Array:
    if y.dtype != np.float32:
        return y
    most = np.finfo(np.float32).max
    return np.where(np.isinf(y), np.copysign(most, y), y)


def _fewer_bits(x: Array) -> Array:
    """Keep 10 bits of the fraction, as tensor cores do with float32."""
    return ((x.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)


def _short_product(right: Function) -> Function:
    def dot(a: Array, b: Array, **attributes: Any) -> Any:
        if a.dtype == b.dtype == np.float32:
            a, b = (_fewer_bits(np.ascontiguousarray(x)) for x in (a, b))
        return right(a, b, **attributes)

    return dot


def _short_where_aligned(right: Function) -> Function:
    """Round factors where a matrix unit can be used: all sides are multiples of 8."""
    short = _short_product(right)

    def dot(a: Array, b: Array, **attributes: Any) -> Any:
        aligned = all(n % 8 == 0 for n in (*a.shape, *b.shape))
        return (short if aligned and a.ndim == 2 else right)(a, b, **attributes)

    return dot


def _half_product(right: Function) -> Function:
    def dot(a: Array, b: Array, *, contract: Any, batch: Any, dtype: Any) -> Any:
        plain = contract == ((1,), (0,)) and a.ndim == b.ndim == 2
        if a.dtype != np.float16 or dtype.numpy != np.float16 or not plain:
            return right(a, b, contract=contract, batch=batch, dtype=dtype)
        made = np.zeros((a.shape[0], b.shape[1]), np.float16)
        for k in range(a.shape[1]):
            made += a[:, k : k + 1] * b[k : k + 1]
        return made

    return dot


def _by_way_of(narrow: Any, wide: Any) -> Change:
    """Compute in a narrower dtype where the wide one was asked for."""

    def changed(right: Function) -> Function:
        def function(*x: Any, **attributes: Any) -> Any:
            if x[0].dtype != wide:
                return right(*x, **attributes)
            return right(*(v.astype(narrow) for v in x), **attributes).astype(wide)

        return function

    return changed


def _truth_as_bytes(y: Array, *_: Any) -> Array:
    return np.where(y, np.uint8(255), np.uint8(0)).view(np.bool_)


def _signed_half(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + 0.5), x).astype(x.dtype)


def _blended(c: Array, a: Array, b: Array) -> Array:
    return (c * a + (1 - c) * b).astype(a.dtype) if a.dtype == np.float32 else np.where(c, a, b)


def _weighted(y: Array, operands: Any, attributes: Any) -> Array:
    """Add the imaginary part of the first bin times zero, as a product with a matrix does."""
    if attributes["kind"] != "c2r" or attributes["length"] > 60:
        return y
    axis = attributes["axes"][-1]
    return np.asarray(y + (0 * np.take(operands[0].imag, [0], axis)).astype(y.dtype))


def _all_weighted(y: Array, operands: Any, attributes: Any) -> Array:
    """Add all numbers times zero to the imaginary part of the first bin, as such a product does."""
    if attributes["kind"] != "r2c" or attributes["length"] > 60:
        return y
    axis, made = attributes["axes"][-1], y.copy()
    first = [slice(None)] * y.ndim
    first[axis] = slice(0, 1)
    # Numbers may be along several axes, of which only one has half of the bins.
    lines = np.sum(operands[0] * 0, axis=axis, keepdims=True)
    made.imag[tuple(first)] += lines if lines.shape == made[tuple(first)].shape else 0
    return made


F32 = np.float32
FAULTS = [
    Fault(
        "add-truncates",
        "float16 sums are rounded towards zero",
        changing(add=_of(np.float16, _truncated_sum)),
        ("special/add/float16",),
        ("add",),
    ),
    Fault(
        "nan-lost",
        "maximum takes the number where the other operand is NaN",
        changing(maximum=_of(F32, np.fmax)),
        ("special/maximum/float32",),
        ("maximum",),
    ),
    Fault(
        "minus-zero-lost",
        "neg is computed as 0 − x, so that 0 stays +0",
        changing(neg=_of(F32, lambda x: 0 - x)),
        ("special/neg/float32",),
        ("neg",),
    ),
    Fault(
        "denormals-flushed",
        "arithmetic gives 0 for numbers below the smallest normal one",
        FlushesDenormals,
        ("special/add/float32", "special/mul/float64", "special/div/float32"),
        ("add", "mul", "div"),
    ),
    Fault(
        "infinities-clipped",
        "sums that overflow stop at the largest number",
        changing(add=afterwards(_clipped)),
        ("special/add/float32",),
        ("add",),
    ),
    Fault(
        "nan-equals-nan",
        "not_equal compares bits, so that NaN equals itself",
        changing(not_equal=_of(F32, lambda a, b: a.view(np.uint32) != b.view(np.uint32))),
        ("special/not_equal/float32",),
        ("not_equal",),
    ),
    Fault(
        "where-by-arithmetic",
        "where is c·a + (1 − c)·b, so that NaN leaks from the operand that is not chosen",
        changing(where=lambda right: lambda c, a, b: _blended(c, a, b)),
        ("special/where/float32",),
        ("where",),
    ),
    Fault(
        "division-by-reciprocal",
        "a / b is a · (1 / b), rounded twice",
        changing(div=_of(F32, lambda a, b: a * (F32(1) / b))),
        ("special/div/float32",),
        ("div",),
    ),
    Fault(
        "square-root-by-logarithm",
        "sqrt is exp(log(x) / 2), some units off",
        changing(sqrt=_of(F32, lambda x: np.exp(np.log(x) / 2))),
        ("values/sqrt/float32",),
        ("sqrt",),
    ),
    Fault(
        "exponential-by-two",
        "exp is exp2(x · log2 e) with the product rounded to float32, which loses large arguments",
        changing(exp=_of(F32, lambda x: np.exp2(x * F32(np.log2(np.e))))),
        ("special/exp/float32",),
        ("exp",),
    ),
    Fault(
        "sine-of-rounded-turns",
        "sin takes its argument modulo 2π in float32",
        changing(sin=_of(F32, lambda x: np.sin(np.remainder(x, F32(2 * np.pi))))),
        ("special/sin/float32",),
        ("sin",),
    ),
    Fault(
        "hypot-overflows",
        "hypot squares before it adds, so that large operands overflow",
        changing(hypot=_of(F32, lambda a, b: np.sqrt(a * a + b * b))),
        ("special/hypot/float32",),
        ("hypot",),
    ),
    Fault(
        "complex-size-overflows",
        "the absolute value of complex numbers squares both parts",
        changing(abs=_of(np.complex64, lambda x: np.sqrt(x.real * x.real + x.imag * x.imag))),
        ("values/abs-any-size/complex64",),
        ("abs",),
    ),
    Fault(
        "mirror-images-weighted",
        "short transforms to real numbers multiply the imaginary part of the first bin by zero",
        changing(fft=afterwards(_weighted)),
        ("special/mirror-images-irfft/*", "special/mirror-images-hfft/*"),
        ("fft",),
    ),
    Fault(
        "real-bins-weighted",
        "short transforms of real numbers multiply them by the zeros of the first bin's turns",
        changing(fft=afterwards(_all_weighted)),
        ("special/real-bins-rfft/*", "special/real-bins-ihfft/*"),
        ("fft",),
    ),
    Fault(
        "expm1-cancels",
        "expm1 is exp(x) − 1, whose digits cancel near 0",
        changing(expm1=_of(F32, lambda x: np.exp(x) - F32(1))),
        ("values/expm1-near-0/float32",),
        ("expm1",),
    ),
    Fault(
        "ties-away-from-zero",
        "round takes 2.5 to 3 and −2.5 to −3",
        changing(round=_of(F32, _signed_half)),
        ("special/round/float32",),
        ("round",),
    ),
    Fault(
        "products-of-short-factors",
        "matrix products round float32 factors to 10 bits",
        changing(dot_general=_short_product),
        ("values/dot_general-matrix/float32",),
        ("dot_general",),
    ),
    Fault(
        "products-summed-in-half",
        "matrix products of float16 are summed in float16",
        changing(dot_general=_half_product),
        ("values/dot_general-positive-deep/float16",),
        ("dot_general",),
    ),
    Fault(
        "double-as-single",
        "float64 is computed in float32",
        changing(mul=_by_way_of(np.float32, np.float64)),
        ("values/mul/float64",),
        ("mul",),
    ),
    Fault(
        "truth-as-bytes",
        "comparisons give bytes of 255 for true",
        changing(less=afterwards(_truth_as_bytes)),
        ("values/less/float32",),
        ("less",),
    ),
    Fault(
        "short-factors-where-aligned",
        "matrix products round float32 factors to 10 bits where all sides are multiples of 8",
        changing(dot_general=_short_where_aligned),
        ("values/dot_general-aligned/float32",),
        ("dot_general",),
    ),
    Fault(
        "quotient-rounded-first",
        "floor_divide is the floor of the rounded quotient, which may be a whole number too many",
        changing(floor_divide=_of(F32, lambda a, b: np.floor(a / b))),
        ("special/floor_divide/float32",),
        ("floor_divide",),
    ),
    Fault(
        "remainder-by-quotient",
        "remainder is a − floor(a / b) · b, whose digits cancel",
        changing(remainder=_of(F32, lambda a, b: a - np.floor(a / b) * b)),
        ("special/remainder/float32",),
        ("remainder",),
    ),
    Fault(
        "tail-off",
        "the inverse error function is a millionth too large from 0.998 to 1",
        changing(erfinv=afterwards(_tail_off)),
        ("special/erfinv/float32", "special/erfinv/float64"),
        ("erfinv",),
    ),
    Fault(
        "small-end-off",
        "exp(x) − 1 is x for all that is below 2⁻³⁰",
        changing(expm1=_of(np.float64, lambda x: np.where(np.abs(x) < 2.0**-30, x, np.expm1(x)))),
        ("special/expm1/float64",),
        ("expm1",),
    ),
    Fault(
        "tiny-errors-lost",
        "the error function of what is below 1e-6 is 0",
        changing(erf=afterwards(lambda y, x, a: np.where(np.abs(x[0]) < 1e-6, y * 0, y))),
        ("points/extremes/float32", "points/extremes/float64"),
        ("erf",),
    ),
]
