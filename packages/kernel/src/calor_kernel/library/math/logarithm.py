"""Logarithms: log, log2, log10, log1p.

Requirements: within 1 ulp everywhere, so near 1 too, where the exponent's part and the
significand's cancel; denormals are as right as other numbers. x = 2**e · (1 + f) with 1 + f in
[√½, √2]; log(1 + f) is a sum of two numbers, whose leading part f − f²/2 is exact (the form of
Sun's fdlibm, 1993; its division is made for float64 only).
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Final

import numpy as np

from calor_kernel.language import Number, bitcast, cast, constant, fma, select
from calor_kernel.library.math.base import (
    INFINITY,
    NAN,
    Format,
    Pair,
    Table,
    above,
    exactly,
    fast_two_sum,
    format_of,
    polynomial,
    power_of_two,
)
from calor_kernel.library.math.coefficients import LOG
from calor_kernel.library.math.exponential import LOG_2

_ROOT: Final = (
    int(np.float32(sqrt(0.5)).view(np.int32)),
    int(np.float64(sqrt(0.5)).view(np.int64)),
)
# 1 / log 2, 1 / log 10 and log10(2) in parts, the last one's first part short.
_LOG2_E: Final[Table] = (
    (1.4426950216293335, 1.925963033500011e-08),
    (1.4426950408889634, 2.0355273740931033e-17),
)
_LOG10_E: Final[Table] = (
    (0.4342944920063019, -1.0103049952192578e-08),
    (0.4342944819032518, 1.098319650216765e-17),
)
_LOG10_2: Final[Table] = (
    (0.301025390625, 4.605039066518657e-06),
    (0.3010299956640665, -8.532344317057107e-14),
)


def decomposed(x: Number, form: Format) -> Pair:
    """Return the integer e, and 1 + f, with x = 2**e · (1 + f), for positive finite x."""
    small = x < form.tiny
    lift = form.fraction + 2
    bits = bitcast(select(small, x * 2.0**lift, x), form.signed) - _ROOT[form.number]
    exponent = bits >> form.fraction
    exponent = select(small, exponent - lift, exponent)
    significand = (bits & ((1 << form.fraction) - 1)) + _ROOT[form.number]
    return exponent, bitcast(significand, form.dtype)


def log_near(f: Number, form: Format, rest: Any = None) -> Pair:
    """Return log(1 + f + rest) for 1 + f in [√½, √2] as the sum of two numbers.

    ``rest`` is at most an ulp of 1.
    """
    square = f * f
    error = fma(f, f, -square)
    half = square * 0.5
    total = f - half
    left = (f - total) - half
    if form.fraction == 23:
        tail = f * square * polynomial(f, LOG[0])
    else:
        s = f / (f + 2.0)
        z = s * s
        tail = s * fma(z, polynomial(z, LOG[1]), half)
    left = left + fma(error, -0.5, tail)
    if rest is not None:
        # The slope of the logarithm, 1 / (1 + f), to two digits.
        left = fma(rest, fma(f, fma(f, 0.72, -0.97), 1.0), left)
    return fast_two_sum(total, left)


def natural(e: Number, high: Number, low: Number, form: Format) -> Pair:
    """Return e · log 2 + high + low as the sum of two numbers, for an integer e."""
    first, second = LOG_2[form.number]
    e = cast(e, form.dtype)
    total, error = fast_two_sum(e * first, high)
    return total, error + fma(e, second, low)


def _ends(x: Number, result: Number) -> Number:
    """Return the result for positive finite x, and what a logarithm is elsewhere."""
    nothing = constant(NAN, x.dtype)
    result = select(x > 0.0, result, select(x == 0.0, -INFINITY, nothing))
    return select(x < INFINITY, result, select(x == INFINITY, INFINITY, nothing))


def _finished(x: Number, total: Number, error: Number) -> Number:
    return _ends(x, total + error)


@exactly
def log(x: Number) -> Number:
    """Return the natural logarithm, within 1 ulp; −inf at 0, NaN below."""
    form = format_of(x)
    e, m = decomposed(x, form)
    return _finished(x, *natural(e, *log_near(m - 1.0, form), form))


@exactly
def log2(x: Number) -> Number:
    """Return the logarithm to the base 2, within 1 ulp; of powers of two exactly."""
    form = format_of(x)
    e, m = decomposed(x, form)
    high, low = log_near(m - 1.0, form)
    first, second = _LOG2_E[form.number]
    product = high * first
    rest = fma(high, second, fma(high, first, -product))
    total, error = fast_two_sum(cast(e, form.dtype), product)
    return _finished(x, total, error + fma(low, first, rest))


@exactly
def log10(x: Number) -> Number:
    """Return the logarithm to the base 10, within 1 ulp."""
    form = format_of(x)
    e, m = decomposed(x, form)
    high, low = log_near(m - 1.0, form)
    first, second = _LOG10_E[form.number]
    product = high * first
    rest = fma(low, first, fma(high, second, fma(high, first, -product)))
    whole, part = _LOG10_2[form.number]
    e = cast(e, form.dtype)
    total, error = fast_two_sum(e * whole, product)
    return _finished(x, total, error + fma(e, part, rest))


def log_of_sum(total: Number, lost: Number, form: Format, more: Any = 0) -> Number:
    """Return log(2**more · (total + lost)); what is lost is at most an ulp of the total."""
    e, m = decomposed(total, form)
    # Of a large sum nothing lost counts, whatever it is scaled by.
    parts = log_near(m - 1.0, form, lost * power_of_two(-above(e, 64), form))
    return _finished(total, *natural(e + more, *parts, form))


@exactly
def log1p(x: Number) -> Number:
    """Return log(1 + x), within 1 ulp, also near 0; −inf at −1, NaN below."""
    form = format_of(x)
    total = x + 1.0
    lost = select(x > 1.0, 1.0 - (total - x), x - (total - 1.0))
    return select(abs(x) < 2.0 ** -(form.fraction + 3), x, log_of_sum(total, lost, form))
