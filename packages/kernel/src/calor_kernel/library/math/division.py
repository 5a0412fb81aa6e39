"""Division of floats with a remainder: fmod, remainder, floor_divide.

Requirements: remainders are exact for any quotient, as C's ``fmod`` is. A quotient that fits the
significand takes one step. Others take a step for each group of their bits, in a loop that ends
when every lane is done.
"""

from __future__ import annotations

from calor_kernel.language import Number, bitcast, constant, floor, fma, helper, select, trunc
from calor_kernel.library.math.base import (
    INFINITY,
    NAN,
    Format,
    Pair,
    format_of,
    is_negative,
    power_of_two,
    sign_as,
    some,
)
from calor_kernel.library.math.bounds import within


def _parted(x: Number, form: Format) -> tuple[Number, Number]:
    """Return the exponent and the significand in [1, 2) of a positive finite number."""
    lift = form.fraction + 1
    small = x < form.tiny
    bits = bitcast(select(small, x * 2.0**lift, x), form.signed)
    exponent = (bits >> form.fraction) - form.bias
    exponent = select(small, exponent - lift, exponent)
    significand = (bits & ((1 << form.fraction) - 1)) | (form.bias << form.fraction)
    return exponent, bitcast(significand, form.dtype)


def _step(r: Number, b: Number) -> Number:
    """Return the exact remainder of r by b, for a quotient that fits the significand."""
    left = fma(-trunc(r / b), b, r)
    # Rounding may have raised the quotient to the next integer.
    left = select(left < 0.0, left + b, left)
    return select(left >= b, left - b, left)


def _raised(x: Number, n: Number, form: Format) -> Number:
    """Return x · 2**n in two steps, since n may exceed the exponents of normal numbers."""
    half = n >> 1
    return x * power_of_two(half, form) * power_of_two(n - half, form)


@helper
def _remainder_of_sizes(a: Number, b: Number, form: Format) -> Number:
    """Return the remainder of positive numbers; undefined for others."""
    most = form.fraction - 1
    e, m = _parted(a, form)
    low, divisor = _parted(b, form)
    apart = e - low
    apart = select(apart < 0, 0, apart)
    apart = select((b > 0.0) & (a < INFINITY), apart, 0)
    step = select(apart > most, most, apart)
    r = _step(m * power_of_two(step, form), divisor)
    apart = apart - step
    while some(apart > 0):
        step = select(apart > most, most, apart)
        r = _step(r * power_of_two(step, form), divisor)
        apart = apart - step
    return select(a < b, a, _raised(r, low, form))


@within(0.0, 0.0)
def fmod(a: Number, b: Number) -> Number:
    """Return the exact remainder of the quotient rounded toward zero, with the sign of a."""
    form = format_of(a)
    size, other = abs(a), abs(b)
    rest = _remainder_of_sizes(size, other, form)
    rest = select(other == INFINITY, size, rest)
    fine = (other > 0.0) & (size < INFINITY)
    return select(fine, sign_as(rest, a), NAN)


def _down(a: Number, b: Number) -> Pair:
    """Return fmod, and 1 if the quotient rounded down is 1 less than rounded toward zero."""
    rest = fmod(a, b)
    other = (rest != 0.0) & (is_negative(rest) ^ is_negative(b))
    return rest, select(other, constant(1.0, a.dtype, a.width), 0.0)


@within(0.5, 0.5)
def remainder(a: Number, b: Number) -> Number:
    """Return a − b · floor(a / b), rounded once, with the sign of b; NaN for b = 0."""
    rest, less = _down(a, b)
    moved = select(less != 0.0, rest + b, rest)
    return select(rest == 0.0, sign_as(abs(rest), b), moved)


@within(1.0, 1.0)
def floor_divide(a: Number, b: Number) -> Number:
    """Return a / b rounded down; for b = 0 the result of a / b."""
    rest, less = _down(a, b)
    quotient = (a - rest) / b - less
    whole = floor(quotient)
    whole = select(quotient - whole > 0.5, whole + 1.0, whole)
    ratio = a / b
    whole = select(quotient == 0.0, sign_as(constant(0.0, a.dtype, a.width), ratio), whole)
    return select(b == 0.0, ratio, whole)
