"""Elementwise ops that NumPy or C leaves open, and a facade over conversions and special functions.

Requirements: integer division, remainder, shifts and powers are total; NaN propagates through
maximum and minimum, for which −0 is below +0; half types are computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calor.reference.conversion import bitcast, cast
from calor.reference.precision import HALVES, Array, quiet, through_float32
from calor.reference.special import digamma, erf, erfinv, lgamma

__all__ = [
    "atan2",
    "bitcast",
    "cast",
    "conj",
    "copysign",
    "digamma",
    "erf",
    "erfinv",
    "floor_divide",
    "fmod",
    "heaviside",
    "hypot",
    "join",
    "lerp",
    "lgamma",
    "logaddexp",
    "logaddexp2",
    "logit",
    "maximum",
    "minimum",
    "nextafter",
    "power",
    "remainder",
    "round_half_even",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sign",
    "sinc",
    "xlog1py",
    "xlogy",
]

_UNSIGNED: Final[dict[int, type[np.unsignedinteger[Any]]]] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
}


@through_float32
def floor_divide(a: Array, b: Array) -> Array:
    """Return a / b rounded down; integers divided by zero give 0, INT_MIN // −1 is INT_MIN."""
    return np.asarray(np.floor_divide(a, b))


@through_float32
def remainder(a: Array, b: Array) -> Array:
    """Return a − b · floor(a / b), with the sign of b; an integer remainder by zero is 0."""
    return np.asarray(np.remainder(a, b))


def shift_left(a: Array, b: Array) -> Array:
    """Return a · 2**b, wrapped; a count that is negative or at least the bit width gives 0."""
    return np.asarray(np.left_shift(a, b))


def shift_right(a: Array, b: Array) -> Array:
    """Return floor(a / 2**b); a count that is negative or at least the bit width leaves the sign.

    That is −1 for a negative a and 0 otherwise.
    """
    return np.asarray(np.right_shift(a, b))


@quiet
def maximum(a: Array, b: Array) -> Array:
    """Return the larger of a and b; NaN when either is, and −0 < +0."""
    return _extreme(np.maximum, np.bitwise_and, a, b)


@quiet
def minimum(a: Array, b: Array) -> Array:
    """Return the smaller of a and b; NaN when either is, and −0 < +0."""
    return _extreme(np.minimum, np.bitwise_or, a, b)


def _extreme(choose: np.ufunc, join: np.ufunc, a: Array, b: Array) -> Array:
    a, b = np.asarray(a), np.asarray(b)
    result = np.asarray(choose(a, b))
    if a.dtype.kind not in "biu":
        # Equal numbers have equal bits, except the zeros, whose sign bits are joined.
        kind = _UNSIGNED[a.dtype.itemsize]
        join(a.view(kind), b.view(kind), out=result.view(kind), where=np.asarray(a == b))
    return result


def power(a: Array, b: Array) -> Array:
    """Return a to the power of b, for floats as C's ``pow``.

    Integers wrap; a negative exponent gives 0 unless the base is 1 (then 1) or −1 (then ±1).
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "u":
        return np.asarray(np.power(a, b))
    if a.dtype.kind == "i":
        return _signed_power(a, b)
    return _float_power(a, b)


@through_float32
def _float_power(a: Array, b: Array) -> Array:
    # NumPy squares for a single 2 that is broadcast, takes roots for a single 0.5, and has one pow
    # for dense operands and another for strided ones, which differ in the last bit. Neither shapes
    # nor how operands lie in memory must show.
    if b.size and (b == 2).all():
        return np.asarray(np.multiply(a, a))
    bases, exponents = np.asarray(a, order="C").reshape(-1), np.array(b, order="C").reshape(-1)
    return np.asarray(np.power(bases, exponents)).reshape(a.shape)


def _signed_power(a: Array, b: Array) -> Array:
    negative = b < 0
    result = np.asarray(np.power(a, np.where(negative, 0, b).astype(b.dtype)))
    if negative.any():
        unit = np.where(b & 1 == 1, a, 1)
        inverse = np.where(np.abs(a) == 1, unit, 0)
        result = np.where(negative, inverse, result).astype(a.dtype)
    return result


@through_float32
def sign(x: Array) -> Array:
    """Return −1, 0 or 1, for complex x / abs(x) and 0 at 0; NaN stays NaN."""
    return np.asarray(np.sign(x))


@through_float32
def round_half_even(x: Array) -> Array:
    """Return the nearest whole number, the even one of two; complex parts are rounded apart."""
    return np.asarray(np.rint(x)) if x.dtype.kind in "fc" else x


@through_float32
def atan2(a: Array, b: Array) -> Array:
    """Return the angle of the point (b, a) in [−π, π], as C's ``atan2``."""
    return np.asarray(np.arctan2(a, b))


@through_float32
def hypot(a: Array, b: Array) -> Array:
    """Return sqrt(a² + b²) without undue overflow; an infinity wins over NaN, as in C."""
    return np.asarray(np.hypot(a, b))


@through_float32
def logaddexp(a: Array, b: Array) -> Array:
    """Return log(exp(a) + exp(b)) without undue overflow."""
    return np.asarray(np.logaddexp(a, b))


@through_float32
def logaddexp2(a: Array, b: Array) -> Array:
    """Return log2(2**a + 2**b) without undue overflow."""
    return np.asarray(np.logaddexp2(a, b))


@through_float32
def xlogy(a: Array, b: Array) -> Array:
    """Return a · log(b), and 0 where a is 0 and b not NaN."""
    return np.asarray(np.where((a == 0) & ~np.isnan(b), 0, a * np.log(b)), a.dtype)


@through_float32
def xlog1py(a: Array, b: Array) -> Array:
    """Return a · log(1 + b), and 0 where a is 0 and b not NaN."""
    return np.asarray(np.where((a == 0) & ~np.isnan(b), 0, a * np.log1p(b)), a.dtype)


@through_float32
def logit(x: Array) -> Array:
    """Return log(x / (1 − x)), also close to its zero at 1/2; NaN outside [0, 1]."""
    near = np.abs(x - 0.5) < 0.25
    inside = np.where(near, x, 0.5)
    middle = np.log1p((inside - 0.5) * 2 / (1 - inside))
    return np.asarray(np.where(near, middle, np.log(x / (1 - x))), x.dtype)


@through_float32
def rsqrt(x: Array) -> Array:
    """Return 1 / √x; ±inf at ±0, NaN below."""
    return np.asarray(1 / np.sqrt(x))


@through_float32
def fmod(a: Array, b: Array) -> Array:
    """Return a − b · trunc(a / b), exact, with the sign of a; an integer one by zero is 0."""
    return np.asarray(np.fmod(a, b))


@through_float32
def heaviside(a: Array, b: Array) -> Array:
    """Return 0 where a is below 0, 1 above, and b where it is 0; NaN stays NaN."""
    return np.asarray(np.heaviside(a, b))


@through_float32
def lerp(a: Array, b: Array, weight: Array) -> Array:
    """Return a + weight · (b − a), which is a at weight 0 and b at weight 1."""
    gap = b - a
    near = np.where(weight < 0.5, a + weight * gap, b - gap * (1 - weight))
    # Finite ends that are further apart than the largest number.
    far = np.isinf(gap) & np.isfinite(a) & np.isfinite(b)
    return np.asarray(np.where(far, a * (1 - weight) + b * weight, near), a.dtype)


@through_float32
def sinc(x: Array) -> Array:
    """Return sin(πx) / πx, which is 1 at 0 and 0 at all other integers."""
    x = np.abs(x)
    whole = np.rint(x)
    odd = whole - 2 * np.floor(whole / 2)
    pi = np.arctan(x.dtype.type(1)) * 4
    sine = (1 - 2 * odd) * np.sin((x - whole) * pi)
    return np.asarray(np.where(x == 0, 1, sine / np.where(x == 0, 1, x * pi)), x.dtype)


def copysign(a: Array, b: Array) -> Array:
    """Return a with the sign bit of b, also for zeros and NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype not in HALVES:
        return np.asarray(np.copysign(a, b))
    kind = _UNSIGNED[a.dtype.itemsize]
    bit = 1 << (8 * a.dtype.itemsize - 1)
    return np.asarray((a.view(kind) & kind(bit - 1)) | (b.view(kind) & kind(bit))).view(a.dtype)


def conj(x: Array) -> Array:
    """Return the complex conjugate; other arrays as they are."""
    return np.asarray(np.conj(x)) if x.dtype.kind == "c" else x


def join(a: Array, b: Array) -> Array:
    """Return the complex numbers of two parts; arithmetic would make NaN of an infinite one."""
    result = np.empty(np.shape(a), np.result_type(a, np.complex64))
    result.real, result.imag = a, b
    return result


@quiet
def nextafter(a: Array, b: Array) -> Array:
    """Return the representable number next to a towards b; b where they are equal.

    float8_e4m3fn has no infinity: beyond its largest number comes NaN.
    """
    # NumPy's float16 gives a for equal zeros of different sign, C gives b.
    return np.where(np.equal(a, b), b, np.nextafter(a, b))
