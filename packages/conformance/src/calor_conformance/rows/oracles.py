"""Oracles that NumPy lacks: total integer arithmetic, special functions, bits.

Requirements: they are independent of the tested reference. Integers are Python's, of any size; the
comparison wraps them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def by_element(function: Callable[..., Any], out: Any = object) -> Callable[..., Array]:
    """Convert a function of Python numbers to one of arrays."""

    def of_arrays(*arrays: Any) -> Array:
        made = [function(*row) for row in zip(*(np.ravel(a).tolist() for a in arrays), strict=True)]
        return np.array(made, out).reshape(np.shape(arrays[0]))

    return of_arrays


def by_kind(*, integers: Callable[..., Any], floats: Callable[..., Any]) -> Callable[..., Any]:
    """Choose a function by the kind of the first operand; bool counts as integer."""

    def chosen(*arrays: Any) -> Any:
        return (integers if arrays[0].dtype.kind in "bO" else floats)(*arrays)

    return chosen


def width(x: Array) -> int:
    """Return the number of bits of an integer array's elements."""
    return int(8 * x.dtype.itemsize)


def shift_left(a: Array, b: Array) -> Array:
    """a · 2**b, and 0 for a count outside the width."""
    bits = width(a)
    inside = by_element(lambda x, n: (x << n if 0 <= n < bits else 0) & (2**bits - 1))
    return _wrapped(inside(a, b), a.dtype)


def shift_right(a: Array, b: Array) -> Array:
    """floor(a / 2**b); for a count outside of the width 0 or −1, by the sign."""
    bits = width(a)
    return np.asarray(
        by_element(lambda x, n: x >> (n if 0 <= n < bits else bits))(a, b), object
    ).astype(a.dtype)


def _wrapped(values: Array, dtype: Any) -> Array:
    low, span = int(np.iinfo(dtype).min), 2 ** (8 * np.dtype(dtype).itemsize)
    return by_element(lambda v: (v - low) % span + low)(values).astype(dtype)


def _integer_power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


def power(a: Array, b: Array) -> Array:
    """Integer powers wrap; negative exponents give 0 except for the bases 1 and −1."""
    if a.dtype == object:
        return by_element(_integer_power)(a, b)
    return np.asarray(np.power(a, b))


def larger(a: Array, b: Array) -> Array:
    """The maximum, NaN when either is, with −0 below +0."""
    if a.dtype.kind in "bO":
        return np.where(a > b, a, b)
    chosen = np.where(a > b, a, np.where(b > a, b, np.where(np.signbit(a), b, a)))
    return np.where(np.isnan(a) | np.isnan(b), np.nan, chosen)


def smaller(a: Array, b: Array) -> Array:
    """The minimum, NaN when either is, with −0 below +0."""
    if a.dtype.kind in "bO":
        return np.where(a < b, a, b)
    chosen = np.where(a < b, a, np.where(b < a, b, np.where(np.signbit(a), a, b)))
    return np.where(np.isnan(a) | np.isnan(b), np.nan, chosen)


def sign(x: Array) -> Array:
    """−1, 0 or 1; for complex numbers the direction, and 0 at 0."""
    if x.dtype == object:
        return by_element(lambda v: (v > 0) - (v < 0))(x)
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.where(size == 0, 0, x / np.where(size == 0, 1, size))
    return np.where(np.isnan(x), x, np.where(x > 0, 1.0, np.where(x < 0, -1.0, 0.0)))


def next_after(a: Array, b: Array) -> Array:
    """The next representable number, by counting bit patterns."""
    size = a.dtype.itemsize
    kind = np.dtype(f"i{size}")
    x, y = a.astype(np.float64), b.astype(np.float64)
    bits = a.view(kind)
    # Bit patterns in the order of the numbers: negative ones count down from zero.
    low = np.iinfo(kind).min
    order = np.where(bits < 0, low - bits, bits)
    moved = order + np.where(y > x, 1, -1).astype(kind)
    # Both zeros are at 0; a step down from it is the least negative number, whose bit is the sign.
    stepped = np.where(moved < 0, low - moved, moved).astype(kind).view(a.dtype)
    # Towards zero the sign is kept.
    stepped = np.where(moved == 0, np.copysign(0.0, x).astype(a.dtype), stepped)
    made = np.where(x == y, b, stepped)
    return np.where(np.isnan(x) | np.isnan(y), np.array(np.nan).astype(a.dtype), made)


def is_nan(x: Array) -> Array:
    """x differs from itself."""
    return np.asarray(x != x, bool)


def is_infinite(x: Array) -> Array:
    """Either part is an infinity."""
    return np.zeros(x.shape, bool) if x.dtype.kind in "bO" else np.isinf(x)


def is_finite(x: Array) -> Array:
    """Neither part is NaN or an infinity."""
    return np.ones(x.shape, bool) if x.dtype.kind in "bO" else np.isfinite(x)


def sign_bit(x: Array) -> Array:
    """Negative, −0 and negative NaN included."""
    return np.asarray(x < 0, bool) if x.dtype.kind in "bO" else np.signbit(x)


def erf(x: Array) -> Array:
    """The error function of the C library."""
    return by_element(math.erf, np.float64)(x)


def inverse_erf(x: Array) -> Array:
    """The inverse error function: the normal quantile, refined by Newton's method."""
    from statistics import NormalDist

    quantile = NormalDist().inv_cdf

    def found(v: float) -> float:
        if math.isnan(v) or abs(v) >= 1.0:
            return math.copysign(math.inf, v) if abs(v) == 1.0 else math.nan
        if abs(v) < 1e-8:
            return v * math.sqrt(math.pi) / 2.0
        # The tail by erfc, so that no digits cancel; 1 - |v| is exact for |v| > 1/2.
        size = abs(v)
        y = -quantile((1.0 - size) / 2.0) / math.sqrt(2.0)
        for _ in range(3):
            slope = 2.0 / math.sqrt(math.pi) * math.exp(-y * y)
            off = math.erf(y) - size if size < 0.5 else (1.0 - size) - math.erfc(y)
            y -= off / slope
        return math.copysign(y, v)

    return by_element(found, np.float64)(x)


def log_gamma(x: Array) -> Array:
    """log |Γ(x)| in long double: shifted beyond 30, then Stirling's series; reflected below 0."""
    wide = np.asarray(x, np.longdouble)
    pole = (wide <= 0) & (wide == np.floor(wide))
    usual = np.isfinite(wide) & ~pole
    safe = np.where(usual, wide, 1.5)
    pi = np.arctan(np.longdouble(1)) * 4
    z = np.where(safe < 0.5, 1 - safe, safe)
    product = np.ones_like(z)
    for _ in range(30):
        product = product * np.where(z < 30, z, 1)
        z = np.where(z < 30, z + 1, z)
    w = 1 / (z * z)
    one = np.longdouble(1)
    series = one / 12 - w * (one / 360 - w * (one / 1260 - w * (one / 1680 - w / 1188)))
    series = series / z
    total = (z - 0.5) * np.log(z) - z + np.log(2 * pi) / 2 + series - np.log(product)
    turn = np.abs(np.sin(pi * (safe - np.rint(safe))))
    with np.errstate(all="ignore"):
        total = np.where(safe < 0.5, np.log(pi / turn) - total, total)
    # At 1 and 2 the terms cancel; there the Taylor series is exact enough.
    off = np.where(safe < 1.5, safe - 1, safe - 2)
    near = np.abs(off) < 0.2
    off = np.where(near, off, 0)
    taylor = np.zeros_like(off)
    for c in reversed(_LOG_GAMMA_AT_ONE):
        taylor = (taylor + c) * off
    # At 1 and 2 it is 0, not -0.
    taylor = np.where(safe < 1.5, taylor + 0, taylor + np.log1p(off))
    total = np.where(near, taylor, total)
    return np.where(np.isnan(wide), np.nan, np.where(usual, total, np.inf))


def _zeta(k: int) -> Any:
    """ζ(k) for k of at least 6: first terms, and Euler-Maclaurin for the rest."""
    n, end = np.arange(1999, 0, -1).astype(np.longdouble), np.longdouble(2000)
    return np.sum(n**-k) + end ** (1 - k) / (k - 1) + end**-k / 2


# −γ and (−1)**k ζ(k) / k, to the digits that long double keeps.
_LOG_GAMMA_AT_ONE = [
    np.longdouble(text)
    for text in (
        "-0.57721566490153286060651209008240243",
        "0.82246703342411321823620758332301259",
        "-0.40068563438653142846657938717048333",
        "0.27058080842778454787900092413529198",
        "-0.20738555102867398526627309729140683",
    )
] + [(-1) ** k * _zeta(k) / k for k in range(6, 30)]


def log_gamma_size(x: Array) -> Array:
    """The terms of the reflection formula below 0, where log |Γ| has zeros; 0 above."""
    size = np.abs(np.asarray(x, np.float64))
    inside = np.where(np.isfinite(size), size, 1.0)
    return np.where(np.asarray(x) < 0, np.maximum(1.0, np.abs(log_gamma(inside + 1))), 0.0)


def digamma(x: Array) -> Array:
    """The derivative of log Γ, in long double: shifted beyond 30, then the asymptotic series."""
    wide = np.asarray(x, np.longdouble)
    pole = (wide <= 0) & (wide == np.floor(wide))
    safe = np.where(pole | ~np.isfinite(wide), 1.5, wide)
    reflected = safe < 0.5
    pi = np.arctan(np.longdouble(1)) * 4
    z = np.where(reflected, 1 - safe, safe)
    total = np.zeros_like(z)
    for _ in range(30):
        total = total - np.where(z < 30, 1 / z, 0)
        z = np.where(z < 30, z + 1, z)
    w = 1 / (z * z)
    one = np.longdouble(1)
    series = w * (one / 12 - w * (one / 120 - w * (one / 252 - w * (one / 240 - w / 132))))
    total = total + np.log(z) - 0.5 / z - series
    # The tangent of the distance to the nearest whole number keeps its digits.
    turn = safe - np.rint(safe)
    with np.errstate(all="ignore"):
        total = np.where(reflected, total - pi / np.tan(pi * turn), total)
    result = np.where(wide == np.inf, np.inf, np.where(pole | ~np.isfinite(wide), np.nan, total))
    return np.where(wide == 0, np.copysign(np.inf, -wide), result)


def digamma_size(x: Array) -> Array:
    """The magnitude of the terms whose difference is the result near a zero."""
    wide = np.asarray(x, np.float64)
    inside = np.where(np.isfinite(wide) & (wide < 0) & (wide != np.floor(wide)), wide, -0.5)
    turn = inside - np.rint(inside)
    terms = np.maximum(np.abs(np.pi / np.tan(np.pi * turn)), np.abs(np.log(1 - inside)) + 1)
    return np.where(wide < 0, np.maximum(1.0, terms), 0.0)


def joined(a: Array, b: Array) -> Array:
    """The complex number with two given parts."""
    made = np.empty(a.shape, np.result_type(a.dtype, np.complex128))
    made.real, made.imag = a, b
    return made
