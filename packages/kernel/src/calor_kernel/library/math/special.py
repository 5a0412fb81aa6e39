"""The gamma function's logarithm and its derivative, the error function and its inverse.

Requirements of lgamma and digamma: above 0 the error is relative to the result, at its zeros too.
Below 0, where reflection has zeros of no simple form, it is relative to the terms of the
reflection. Arguments are moved to [3/2, 5/2] and [1, 2] by the recurrences (DLMF 5.5). Their
factors are multiplied, so that there is one logarithm and one division. Large arguments take the
asymptotic series (DLMF 5.11). Reflection (DLMF 5.5.3 and 5.5.4) is a branch for vectors that have a
lane below 0.

Requirements of erf and erfinv: within 1 and 3 ulp; odd, with the signs of zero. erf is a polynomial
up to 1. Beyond, it is 1 − exp(−x²) times a polynomial; the subtracted term is so small that its
rounding does not matter. erfinv is x times polynomials of w = −log(1 − x²) and of √w (M. Giles,
"Approximating the erfinv function", GPU Computing Gems, 2012).
"""

from __future__ import annotations

from math import pi
from typing import Final

from calor_kernel import language as kl
from calor_kernel.library.math import base
from calor_kernel.library.math.base import Format, Pair, Table, within
from calor_kernel.library.math.circular import cos, sin
from calor_kernel.library.math.coefficients import (
    DIGAMMA,
    ERF_FAR,
    ERF_NEAR,
    ERFINV_END,
    ERFINV_MIDDLE,
    ERFINV_TAIL,
    EXP,
    LGAMMA,
)
from calor_kernel.library.math.exponential import log, log_of_sum, natural, parted, reduced

# The start of the asymptotic series, and the recurrence steps from there to the polynomial.
_LARGE: Final = (4.0, 8.0)
_STEPS: Final = (2, 6)
# B(2k) / (2k (2k − 1)) and B(2k) / 2k, with the signs that the series have.
_STIRLING: Final[Table] = (
    (1 / 12, -1 / 360, 1 / 1260, -1 / 1680),
    (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400),
)
_DIGAMMA_SERIES: Final[Table] = (
    (1 / 12, -1 / 120, 1 / 252, -1 / 240),
    (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160),
)
_HALF_LOG_TWO_PI: Final = 0.9189385332046728
_LOG_PI: Final[Table] = (
    (1.1447298526763916, 3.317300922844879e-08),
    (1.1447298858494002, 1.0265951162707826e-17),
)
# digamma(2), the slope of log Γ at 2; and where digamma is 0.
_SLOPE: Final[Table] = (
    (0.42278432846069336, 6.637773886097875e-09),
    (0.42278433509846713, 4.942915152430645e-18),
)
_ZERO: Final[Table] = (
    (1.4616321325302124, 1.243815006546356e-08, -1.2654464444209374e-16),
    (1.4616321449683622, 9.549995429965697e-17, 2.89392992820415e-33),
)


def _log(x: kl.Number, form: Format) -> Pair:
    _, parts = parted(x, form)
    return base.fast_two_sum(*natural(parts, form))


def _lgamma_above(x: kl.Number, form: Format) -> kl.Number:
    """Return log Γ(x) for x > 0."""
    one = kl.constant(1.0, x.dtype, x.width)
    large = x >= _LARGE[form.number]
    inside = base.above(x, _LARGE[form.number])
    # Γ(x) = Γ(place) · factors, or divided by them below 3/2.
    place, factors = inside, one
    for _ in range(_STEPS[form.number]):
        down = place >= 2.5
        place = kl.select(down, place - 1.0, place)
        factors = kl.select(down, factors * place, factors)
    low, small = x < 1.5, x < 0.5
    factors = kl.select(low, kl.select(small, x * (x + 1.0), x), factors)
    # The argument less 2, from the number itself, to keep the digits near 1.
    u = kl.select(low, kl.select(small, x, x - 1.0), place - 2.0)
    # The leading term keeps its error, since below 3/2 the logarithm nearly cancels it.
    slope, slope_rest = _SLOPE[form.number]
    near, near_rest = base.two_product(u, slope * one)
    near_rest = near_rest + u * kl.fma(u, base.polynomial(u, LGAMMA[form.number]), slope_rest)
    near, near_rest = base.fast_two_sum(near, near_rest)
    high, rest = _log(kl.select(large, x, factors), form)
    moved, error = base.two_sum(kl.select(low, -high, high), near)
    middle = moved + (error + (kl.select(low, -rest, rest) + near_rest))
    # (x − 1/2) (log x − 1) + (log 2π − 1) / 2 + …
    inverse = 1.0 / x
    series = base.polynomial(inverse * inverse, _STIRLING[form.number]) * inverse
    less, lost = base.fast_two_sum(high, -one)
    product, part = base.two_product(x - 0.5, less)
    far = product + (kl.fma(x - 0.5, rest + lost, part) + (series + (_HALF_LOG_TWO_PI - 0.5)))
    far = kl.select(
        x == base.INFINITY, base.INFINITY, kl.select(product == base.INFINITY, base.INFINITY, far)
    )
    return kl.select(large, far, middle)


@within(4.0, 4.0, "1 and log Γ(1 − x), below 0")
@kl.helper
def lgamma(x: kl.Number) -> kl.Number:
    """Return log |Γ(x)|, within 4 ulp above 0; +inf at 0, the negative integers and ±inf.

    Below 0 the error is within 4 ulp of the larger of 1 and log Γ(1 − x).
    """
    form = base.format_of(x)
    size = abs(x)
    result = _lgamma_above(size, form)
    reflected = x < 0.0
    if base.some(reflected):
        turn = abs(size - kl.rint(size))
        # Γ(x) Γ(1 − x) sin(πx) = π; large numbers are integers, where there is a pole.
        other = log(sin(turn * pi) * base.above(size, 2.0**60))
        first, second = _LOG_PI[form.number]
        below = ((first - other) + second) - result
        # Near 0 both are −log |x|; there the reflection's sine may underflow.
        result = kl.select(reflected & (size > 2.0**-60), below, result)
        result = kl.select(reflected & (turn == 0.0), base.INFINITY, result)
    result = kl.select(x == 0.0, base.INFINITY, result)
    return kl.select(x == x, kl.select(size == base.INFINITY, base.INFINITY, result), base.NAN)


def _digamma_above(x: kl.Number, form: Format) -> kl.Number:
    """Return digamma of x ≥ 0."""
    large = x >= _LARGE[form.number]
    place = base.above(x, _LARGE[form.number])
    nothing = kl.constant(0.0, x.dtype, x.width)
    # The sum of 1 / (x − k) as one fraction.
    over, under = nothing, nothing + 1.0
    for _ in range(_STEPS[form.number]):
        down = place >= 2.0
        place = kl.select(down, place - 1.0, place)
        over = kl.select(down, kl.fma(over, place, under), over)
        under = kl.select(down, under * place, under)
    low = x < 1.0
    over, under = kl.select(low, -1.0, over), kl.select(low, x, under)
    first, second, third = _ZERO[form.number]
    # The distance from the zero; x + 1 would round small x away.
    off = kl.select(low, (x - (first - 1.0)) - second, (place - first) - second) - third
    middle = kl.select(low, x - 0.5, place - 1.5)
    unit = off * base.polynomial(middle, DIGAMMA[form.number])
    inverse = 1.0 / kl.select(large, x, under)
    value = unit + over * inverse
    square = inverse * inverse
    series = kl.fma(base.polynomial(square, _DIGAMMA_SERIES[form.number]), square, inverse * 0.5)
    return kl.select(large, log(x) - series, value)


@within(5.0, 5.0, "1 and the terms of the reflection, below 0")
@kl.helper
def digamma(x: kl.Number) -> kl.Number:
    """Return the derivative of log Γ, within 4 ulp above 0.

    Below 0 the error is within 5 ulp of the larger of 1 and the terms of the reflection. The result
    is ∓inf at ±0, and NaN at the negative integers and −inf.
    """
    form = base.format_of(x)
    reflected = base.is_negative(x)
    result = _digamma_above(kl.select(reflected, 1.0 - x, x), form)
    if base.some(reflected):
        turn = x - kl.rint(x)
        angle = turn * pi
        below = result - cos(angle) / sin(angle) * pi
        result = kl.select(reflected, below, result)
        result = kl.select(reflected & (turn == 0.0), base.NAN, result)
    result = kl.select(
        x == 0.0, kl.select(reflected, base.INFINITY, -base.INFINITY + (x - x)), result
    )
    return kl.select(x > -base.INFINITY, result, base.NAN)


# Beyond, the error function is 1.
_ENDS: Final = (4.0, 6.0)
# The limits of w between the polynomials of the inverse.
_MIDDLE: Final = (5.0, 6.25)
_TAIL: Final = 16.0


@within(1.0, 0.9)
def erf(x: kl.Number) -> kl.Number:
    """Return the error function, within 1 ulp."""
    form = base.format_of(x)
    near = kl.fma(x, base.polynomial(x * x, ERF_NEAR[form.number]), x)
    size = base.above(abs(x), _ENDS[form.number])
    # exp(−x²); its result is a normal number here.
    r, rest, n = reduced(-size * size, form)
    fade = kl.fma(r * r, base.polynomial(r, EXP[form.number]), r + rest) + 1.0
    fade = fade * base.power_of_two(n, form)
    far = kl.fma(fade, -base.polynomial(size - 2.0, ERF_FAR[form.number]), 1.0)
    # NaN is not above 1, and takes the near branch.
    return kl.select(size > 1.0, base.sign_as(far, x), near)


@within(2.5, 3.0)
def erfinv(x: kl.Number) -> kl.Number:
    """Return the inverse of the error function, within 3 ulp; ±inf at ±1, NaN beyond."""
    form = base.format_of(x)
    size = abs(x)
    # 1 − x² as a sum: if x² is near 1, its rounding error matters.
    square = x * x
    total = 1.0 - square
    lost = (1.0 - total) - square
    lost = lost - kl.fma(x, x, -square)
    product = (1.0 - size) * (1.0 + size)
    outer = size > 0.5
    nothing = kl.constant(0.0, x.dtype, x.width)
    w = -log_of_sum(kl.select(outer, product, total), kl.select(outer, nothing, lost), form)
    number = form.number
    root = kl.sqrt(w)
    value = base.polynomial(w - 2.5, ERFINV_MIDDLE[number])
    value = kl.select(w > _MIDDLE[number], base.polynomial(root - 3.0, ERFINV_TAIL[number]), value)
    if number:
        value = kl.select(w > _TAIL, base.polynomial(root - 5.0, ERFINV_END[number]), value)
    result = x * value
    ends = kl.select(size == 1.0, x * base.INFINITY, kl.constant(base.NAN, x.dtype, x.width))
    return kl.select(size < 1.0, result, ends)
