"""Rows of the complementary error function, the normal distribution function and others.

Requirements: as in :mod:`calor_kernel.library.math`, the same bits on every device. The polynomial
is the reference's, evaluated with fused operations. Squares in exponents are products with their
error, so that the tails keep their digits.
"""

from __future__ import annotations

from math import sqrt as root

from calor.reference.error_functions import END, ERFCX, ERFCX_FLOAT32, FAR
from calor_kernel.language import Number, select
from calor_kernel.library import math
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.math.base import above, format_of, polynomial, two_product
from calor_kernel.library.math.bounds import Bound

_ROOT_HALF = root(0.5)


def _scaled(x: Number) -> Number:
    """Return exp(x²) · erfc(x) for x ≥ 0."""
    table = ERFCX if format_of(x).number else ERFCX_FLOAT32
    near = above(x, FAR)
    return polynomial((near - 3.0) / (near + 3.0), table) / (x + 0.5)


def _power(x: Number, factor: float) -> Number:
    """Return exp(factor · x²); the factor is a power of two, so it rounds nothing."""
    square, rest = two_product(x, x)
    return math.exp(square * factor) * (rest * factor + 1.0)


def _tail(x: Number, factor: float) -> Number:
    """Return exp(−factor · x²) · erfcx(√factor · x) for x ≥ 0."""
    inside = above(x, END)
    return _power(inside, -factor) * _scaled(inside * root(factor))


@row("erfc", weight=130, bound=Bound(4.0, 4.0))
def _erfc(x: Number) -> Number:
    return select(x > 0.5, _tail(abs(x), 1.0), 1.0 - math.erf(x))


@row("erfcx", weight=70, bound=Bound(5.0, 4.0))
def _erfcx(x: Number) -> Number:
    size = abs(x)
    positive = _scaled(size)
    return select(x < 0.0, _power(above(size, END), 1.0) * 2.0 - positive, positive)


def _ndtr(x: Number) -> Number:
    size = abs(x)
    tail = _tail(size, 0.5) * 0.5
    outer = select(x < 0.0, tail, 1.0 - tail)
    return select(size > 0.7, outer, math.erf(x * _ROOT_HALF) * 0.5 + 0.5)


row("ndtr", weight=140, bound=Bound(4.0, 4.0))(_ndtr)


@row("log_ndtr", weight=250, bound=Bound(4.5, 4.0))
def _log_ndtr(x: Number) -> Number:
    low = x < -1.0
    size = select(low, abs(x), 1.0)
    left = math.log(_scaled(size * _ROOT_HALF) * 0.5) - (size * 0.5) * size
    return select(low, left, math.log1p(-_ndtr(-x)))
