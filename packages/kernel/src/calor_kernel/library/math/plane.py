"""Functions of two sides: hypot, logaddexp.

Requirements: no overflow of intermediate results. hypot is within 1 ulp, and an infinity wins over
NaN, as in C. The error of logaddexp is within 2 ulp of the larger of result and operands.
"""

from __future__ import annotations

from calor_kernel.language import Number, constant, select
from calor_kernel.library.math.base import (
    INFINITY,
    exactly,
    fast_two_sum,
    format_of,
    root,
    two_product,
)
from calor_kernel.library.math.exponential import exp
from calor_kernel.library.math.logarithm import log1p


@exactly
def hypot(a: Number, b: Number) -> Number:
    """Return √(a² + b²), within 1 ulp; infinite where a or b is."""
    form = format_of(a)
    a, b = abs(a), abs(b)
    # If one is NaN the order is arbitrary; NaN propagates either way.
    longer, shorter = select(a > b, a, b), select(a > b, b, a)
    one = constant(1.0, a.dtype, a.width)
    large, small = longer > 2.0 ** (form.bias // 2), longer < 2.0 ** -(form.bias // 3)
    drop, lift = 2.0 ** -(form.bias * 2 // 3), 2.0 ** (form.bias * 3 // 4)
    scale = select(large, drop, select(small, lift, one))
    back = select(large, 1.0 / drop, select(small, 1.0 / lift, one))
    square, error = two_product(longer * scale, longer * scale)
    other, other_error = two_product(shorter * scale, shorter * scale)
    total, lost = fast_two_sum(square, other)
    first, rest = root((total, lost + (error + other_error)), 2.0 ** -(form.bias - 27))
    result = (first + rest) * back
    return select((a == INFINITY) | (b == INFINITY), INFINITY, result)


@exactly
def logaddexp(a: Number, b: Number) -> Number:
    """Return log(exp(a) + exp(b)), also if the exponentials overflow."""
    larger = select(a > b, a, b)
    # The distance of equal infinities is 0.
    apart = select(a == b, constant(0.0, a.dtype, a.width), -abs(a - b))
    return larger + log1p(exp(apart))
