"""a * b + c rounded once, on NumPy arrays.

Requirements: exact for every input, as a device's instruction is; float64 arithmetic alone is not
enough, because rounding to float64 and then to float32 is two roundings. Rounding to odd in between
makes the second one right (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums",
IEEE Transactions on Computers 57(4), 2008).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from calor_interpreter.casts import rounded

Array = np.ndarray[Any, Any]

# Outside these magnitudes float64's error terms may underflow or overflow.
_SMALL, _LARGE = 2.0**-480, 2.0**480
_SPLIT = 2.0**27 + 1
# Of float64 as a number: the bits that float32 lacks. The smallest normal float32.
_HALF_MASK, _HALF = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
_NORMAL = np.float64(2.0**-126)


def fma(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c of one floating dtype, rounded once to nearest even."""
    if a.dtype == np.float64:
        return _fma_64(a, b, c)
    if a.dtype == np.float32:
        # A product of two 24-bit significands is exact in float64.
        product = a.astype(np.float64) * b
        total = product + c
        if not _doubtful(total):
            return total.astype(np.float32)
    else:
        product = a.astype(np.float64) * b.astype(np.float64)
    return rounded(odd_sum(product, c.astype(np.float64)), a.dtype)


def _doubtful(total: Array) -> bool:
    """Return whether some float64 lies halfway between two float32, so that its error decides."""
    # A launch asks this for each of its products: counting is the fastest reduction of NumPy.
    if np.count_nonzero((total.view(np.uint64) & _HALF_MASK) == _HALF):
        return True
    # Among subnormals, halfway points differ; a zero is none.
    small = np.count_nonzero(np.abs(total) < _NORMAL)
    return bool(small) and bool(small > total.size - np.count_nonzero(total))


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a + b and its rounding error (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def odd_sum(a: Array, b: Array) -> Array:
    """Return a + b of float64 rounded to odd: an inexact sum gets an odd last bit."""
    total, rest = two_sum(a, b)
    # An exact, infinite or NaN sum stays; an odd sum is on the right side already.
    even = (np.ascontiguousarray(total).view(np.int64) & 1) == 0
    change = even & (rest != 0) & np.isfinite(total) & np.isfinite(rest)
    if not np.count_nonzero(change):
        return total
    toward = np.where(rest > 0, np.inf, -np.inf)
    return np.where(change, np.nextafter(total, toward), total)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a * b and its rounding error (Dekker)."""

    def halves(x: Array) -> tuple[Array, Array]:
        scaled = x * _SPLIT
        high = scaled - (scaled - x)
        return high, x - high

    product = a * b
    (ah, al), (bh, bl) = halves(a), halves(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _fma_64(a: Array, b: Array, c: Array) -> Array:
    high, low = _two_product(a, b)
    upper, lower = two_sum(c, low)
    total, rest = two_sum(high, upper)
    result = np.asarray(total + odd_sum(rest, lower))
    zero = (a == 0) | (b == 0)
    sizes = [np.abs(x) for x in (a, b, c)]
    safe = [(x > _SMALL) & (x < _LARGE) for x in sizes]
    rare = ~(safe[0] & safe[1] & (safe[2] | (c == 0)))
    if not np.count_nonzero(rare):
        return result
    a, b, c, zero, rare = np.broadcast_arrays(a, b, c, zero, rare)
    # A product with 0 is exact; a product of finite numbers is finite, however large.
    infinite = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    only_c = infinite & np.isfinite(a) & np.isfinite(b)
    result = np.where(zero | infinite, np.where(only_c, c, a * b + c), result)
    rare = rare & ~(zero | infinite)
    if rare.any():
        result[rare] = [_exact(*map(float, v)) for v in zip(a[rare], b[rare], c[rare], strict=True)]
    return result


def _exact(a: float, b: float, c: float) -> float:
    """Return a * b + c of finite numbers with a nonzero product."""
    total = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(total)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")
