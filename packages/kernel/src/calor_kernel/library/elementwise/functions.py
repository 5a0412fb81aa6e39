"""Rows of the mathematical functions, of activations and of special functions.

Requirements: as in :mod:`calor_kernel.library.math`, the same bits on every device. An activation
is computed in one type and rounded once. The polynomial of the error functions is the reference's,
evaluated with fused operations. Squares in exponents are products with their error, so that the
tails keep their digits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import e, log2, pi
from math import sqrt as root
from typing import Any, Final

from calor.dtypes import float32
from calor.reference.error_functions import END, ERFCX, ERFCX_FLOAT32, FAR
from calor_kernel import language
from calor_kernel import language as kl
from calor_kernel.library import math
from calor_kernel.library.elementwise import gates, gelu
from calor_kernel.library.elementwise.operations import Context, row
from calor_kernel.library.elementwise.values import HALVES, Complex
from calor_kernel.library.math import complex_functions
from calor_kernel.library.math.base import (
    INFINITY,
    Bound,
    above,
    format_of,
    inverse,
    polynomial,
    ratio,
    two_product,
    two_sum,
)

# The functions of the library by their approximate number of instructions, without and with a twin
# for complex numbers.
_REAL: Final[dict[int, str]] = {
    15: "exp2",
    35: "hypot",
    40: "erf",
    80: "erfinv lgamma digamma atan2 logaddexp",
}
_BOTH: Final[dict[int, str]] = {
    18: "exp",
    25: "expm1 asin",
    30: "log acos atan",
    35: "log2 log10 tanh",
    40: "log1p sinh cosh",
    80: "sin cos tan asinh acosh atanh",
}


def _both(name: str, real: Callable[..., Any], pair: Callable[..., Any], weight: int = 1) -> None:
    def function(*values: Any) -> Any:
        return Complex(*pair(*values)) if isinstance(values[0], Complex) else real(*values)

    row(name, weight=weight)(function)


for _weight, _names in _REAL.items():
    for _name in _names.split():
        row(_name, weight=_weight)(getattr(math, _name))
for _weight, _names in _BOTH.items():
    for _name in _names.split():
        _both(_name, getattr(math, _name), getattr(complex_functions, _name), _weight)
_both("sqrt", language.sqrt, complex_functions.root)
_both("div", lambda a, b: a / b, complex_functions.divide)


@row("relu")
def _relu(x: kl.Number) -> kl.Number:
    return kl.max(x, kl.constant(0, x.dtype))


@row("sigmoid", weight=25)
def _sigmoid(x: kl.Number) -> kl.Number:
    # The exponent is never positive, so nothing overflows.
    z = math.exp(-abs(x))
    return kl.select(x >= 0.0, kl.constant(1.0, x.dtype), z) * inverse(z + 1.0)


@row("silu", weight=25, context=True)
def _silu(context: Context, x: kl.Number) -> kl.Number:
    return gates.silu(x, context.output in HALVES)


def _gradient(name: str, slope: Callable[[kl.Number, bool], kl.Number], weight: int) -> None:
    """Register the gradient of an activation, g times the slope at x, rounded once."""

    @row(name, weight=weight, context=True)
    def gradient(context: Context, g: kl.Number, x: kl.Number) -> kl.Number:
        return g * slope(x, context.output in HALVES)


_gradient("silu_gradient", gates.silu_slope, 30)
_gradient("gelu_gradient", gates.normal_slope, 40)
_gradient("gelu_tanh_gradient", gates.tanh_slope, 35)


@row("gelu", weight=21, context=True)
def _gelu(context: Context, x: kl.Number) -> kl.Number:
    if context.output in HALVES:
        return gelu.by_tail(x, gelu.NORMAL_OF_HALVES)
    if x.dtype is float32:
        return gelu.by_tail(x, gelu.NORMAL)
    return x * ((math.erf(x * root(0.5)) + 1.0) * 0.5)


@row("gelu_tanh", weight=25, context=True)
def _gelu_tanh(context: Context, x: kl.Number) -> kl.Number:
    if context.output in HALVES:
        return gelu.by_tail(x, gelu.BY_TANH_OF_HALVES)
    turn = math.tanh((x * x * 0.044715 + 1.0) * x * root(2 / pi))
    return x * ((turn + 1.0) * 0.5)


@row("hard_swish", weight=6)
def _hard_swish(x: kl.Number) -> kl.Number:
    part = kl.min(kl.max(x + 3.0, kl.constant(0, x.dtype)), kl.constant(6, x.dtype))
    return x * (part / 6.0)


@row("binary_cross_entropy", weight=80)
def _binary_cross_entropy(x: kl.Number, t: kl.Number) -> kl.Number:
    low = _at_least(math.log(x))
    high = _at_least(math.log1p(0.0 - x))
    return -(t * low + (1.0 - t) * high)


def _at_least(x: kl.Number) -> kl.Number:
    return kl.max(x, kl.constant(-100.0, x.dtype))


# The slope of the polynomial at -1, which is x = 0, and what its rounded constant lacks in float32.
_SLOPE, _LACKS = 0.6537, 2.4e-8


def _scaled(x: kl.Number) -> kl.Number:
    """Return exp(x²) · erfc(x) for x ≥ 0.

    Just above 0 results are below 1, of which the roundings of t and of x + ½ are two units each.
    """
    wide = bool(format_of(x).number)
    table = ERFCX if wide else ERFCX_FLOAT32
    near, small = above(x, FAR), x < 1.0
    t, rest = ratio(two_sum(near, -3.0), two_sum(near, 3.0))
    low = kl.fma(kl.select(small, rest, 0.0), _SLOPE, 0.0 if wide else _LACKS)
    value = kl.fma(polynomial(t, table[1:]), t, low) + table[0]
    under = x + 0.5
    quotient = value / under
    lost = kl.select(small, 0.5 - ((near + 0.5) - near), 0.0)
    return kl.fma(quotient, -lost / under, quotient)


def _power(x: kl.Number, factor: float) -> kl.Number:
    """Return exp(factor · x²); the factor is a power of two, so it rounds nothing."""
    square, rest = two_product(x, x)
    return math.exp(square * factor) * (rest * factor + 1.0)


def _tail(x: kl.Number, factor: float) -> kl.Number:
    """Return exp(−factor · x²) · erfcx(√factor · x) for x ≥ 0."""
    inside = above(x, END)
    return _power(inside, -factor) * _scaled(inside * root(factor))


@row("erfc", weight=130, bound=Bound(4.0, 4.0))
def _erfc(x: kl.Number) -> kl.Number:
    return kl.select(x > 0.5, _tail(abs(x), 1.0), 1.0 - math.erf(x))


@row("erfcx", weight=80, bound=Bound(4.0, 4.0))
def _erfcx(x: kl.Number) -> kl.Number:
    size = abs(x)
    positive = _scaled(size)
    return kl.select(x < 0.0, _power(above(size, END), 1.0) * 2.0 - positive, positive)


@row("ndtr", weight=140, bound=Bound(4.0, 4.0))
def _ndtr(x: kl.Number) -> kl.Number:
    size = abs(x)
    tail = _tail(size, 0.5) * 0.5
    outer = kl.select(x < 0.0, tail, 1.0 - tail)
    return kl.select(size > 0.7, outer, math.erf(x * root(0.5)) * 0.5 + 0.5)


@row("log_ndtr", weight=250, bound=Bound(4.5, 4.0))
def _log_ndtr(x: kl.Number) -> kl.Number:
    low = x < -1.0
    size = kl.select(low, abs(x), 1.0)
    left = math.log(_scaled(size * root(0.5)) * 0.5) - (size * 0.5) * size
    return kl.select(low, left, math.log1p(-_ndtr(-x)))


def _times_log(name: str, logarithm: Callable[[kl.Number], kl.Number], weight: int) -> None:
    """Register a · logarithm(b), which is 0 if a is 0 and b is a number."""

    @row(name, weight=weight, bound=Bound(2.0, 2.0))
    def product(a: kl.Number, b: kl.Number) -> kl.Number:
        return kl.select((a == 0.0) & (b == b), 0.0, a * logarithm(b))


_times_log("xlogy", math.log, 35)
_times_log("xlog1py", math.log1p, 45)


@row("logit", weight=90, bound=Bound(3.0, 3.0))
def _logit(x: kl.Number) -> kl.Number:
    # Close to the zero at 1/2 the quotient is close to 1, and its difference from 1 is exact.
    rest = 1.0 - x
    middle = math.log1p((x - 0.5) * 2.0 / rest)
    return kl.select(abs(x - 0.5) < 0.25, middle, math.log(x / rest))


@row("logaddexp2", weight=65, bound=Bound(2.5, 2.5, "the larger operand"))
def _logaddexp2(a: kl.Number, b: kl.Number) -> kl.Number:
    larger = kl.max(a, b)
    apart = kl.select(a == b, 0.0, abs(a - b))
    return larger + math.log1p(math.exp2(-apart)) * log2(e)


@row("rsqrt", weight=3, bound=Bound(1.5, 1.5))
def _rsqrt(x: kl.Number) -> kl.Number:
    return 1.0 / language.sqrt(x)


@row("heaviside", bound=Bound(0.0, 0.0))
def _heaviside(a: kl.Number, b: kl.Number) -> kl.Number:
    # NaN has a comparison of its own, because Vulkan drivers fold the last case of the others.
    step = kl.select(a > 0.0, 1.0, kl.select(a < 0.0, 0.0, b))
    return kl.select(a == a, step, a)


@row("lerp", weight=14)
def _lerp(a: kl.Number, b: kl.Number, weight: kl.Number) -> kl.Number:
    gap, rest = b - a, 1.0 - weight
    near = kl.select(weight < 0.5, a + weight * gap, b - gap * rest)
    # Finite ends whose distance exceeds the largest number.
    far = (abs(gap) == INFINITY) & (abs(a) < INFINITY) & (abs(b) < INFINITY)
    return kl.select(far, a * rest + b * weight, near)


@row("sinc", weight=80, bound=Bound(3.0, 3.0))
def _sinc(x: kl.Number) -> kl.Number:
    size = abs(x)
    whole = language.rint(size)
    odd = whole - language.floor(whole * 0.5) * 2.0
    wave = (1.0 - odd * 2.0) * math.sin((size - whole) * pi)
    return kl.select(size == 0.0, 1.0, wave / (size * pi))
