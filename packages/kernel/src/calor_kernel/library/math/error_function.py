"""The error function and its inverse.

Requirements: erf within 1 ulp, erfinv within 3; odd, with the signs of zero. erf is a polynomial up
to 1. Beyond, it is 1 − exp(−x²) times a polynomial; the subtracted term is so small that its
rounding does not matter. erfinv is x times polynomials of w = −log(1 − x²) and of √w (M. Giles,
"Approximating the erfinv function", GPU Computing Gems, 2012).
"""

from __future__ import annotations

from typing import Final

from calor_kernel.language import Number, constant, fma, select, sqrt
from calor_kernel.library.math.base import (
    INFINITY,
    NAN,
    above,
    exactly,
    format_of,
    polynomial,
    power_of_two,
    sign_as,
)
from calor_kernel.library.math.coefficients import (
    ERF_FAR,
    ERF_NEAR,
    ERFINV_END,
    ERFINV_MIDDLE,
    ERFINV_TAIL,
    EXP,
)
from calor_kernel.library.math.exponential import reduced
from calor_kernel.library.math.logarithm import log_of_sum

# Beyond, the error function is 1.
_ENDS: Final = (4.0, 6.0)
# The limits of w between the polynomials of the inverse.
_MIDDLE: Final = (5.0, 6.25)
_TAIL: Final = 16.0


@exactly
def erf(x: Number) -> Number:
    """Return the error function, within 1 ulp."""
    form = format_of(x)
    near = fma(x, polynomial(x * x, ERF_NEAR[form.number]), x)
    size = above(abs(x), _ENDS[form.number])
    # exp(−x²); its result is a normal number here.
    r, rest, n = reduced(-size * size, form)
    fade = fma(r * r, polynomial(r, EXP[form.number]), r + rest) + 1.0
    fade = fade * power_of_two(n, form)
    far = fma(fade, -polynomial(size - 2.0, ERF_FAR[form.number]), 1.0)
    # NaN is not above 1, and takes the near branch.
    return select(size > 1.0, sign_as(far, x), near)


@exactly
def erfinv(x: Number) -> Number:
    """Return the inverse of the error function, within 3 ulp; ±inf at ±1, NaN beyond."""
    form = format_of(x)
    size = abs(x)
    # 1 − x² as a sum: if x² is near 1, its rounding error matters.
    square = x * x
    total = 1.0 - square
    lost = (1.0 - total) - square
    lost = lost - fma(x, x, -square)
    product = (1.0 - size) * (1.0 + size)
    outer = size > 0.5
    nothing = constant(0.0, x.dtype, x.width)
    w = -log_of_sum(select(outer, product, total), select(outer, nothing, lost), form)
    number = form.number
    root = sqrt(w)
    value = polynomial(w - 2.5, ERFINV_MIDDLE[number])
    value = select(w > _MIDDLE[number], polynomial(root - 3.0, ERFINV_TAIL[number]), value)
    if number:
        value = select(w > _TAIL, polynomial(root - 5.0, ERFINV_END[number]), value)
    result = x * value
    ends = select(size == 1.0, x * INFINITY, constant(NAN, x.dtype, x.width))
    return select(size < 1.0, result, ends)
