"""Common parts of the mathematical functions: formats, bounds, exact arithmetic, bits.

Requirements: a function gives the same bits on every device. So it uses only correctly rounded
operations (add, mul, fma, div, sqrt, comparisons, bits), and none is contracted. It works on
scalars and on vectors of any width. Lanes do not diverge; a rare slow path is a branch that runs if
any lane needs it. A test checks the bound of every function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from math import inf, nan
from typing import Final, ParamSpec, TypeVar

from calor.dtypes import DType, float32, float64, int32, int64, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.errors import KernelTypeError
from calor_kernel.language.builder import current
from calor_kernel.library.math.coefficients import Table as Table

P = ParamSpec("P")
R = TypeVar("R")
Pair = tuple[kl.Number, kl.Number]

INFINITY: Final = inf
NAN: Final = nan


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating type: IEEE 754's binary32 or binary64.

    ``fraction``: bits of the significand without the leading one. ``bias``: the exponent's bias.
    ``magic``: 1.5 · 2**fraction; adding it to a small number rounds that to an integer in the low
    bits. ``number``: the index of the type in tables of two, float32 first.
    """

    dtype: DType
    signed: DType
    unsigned: DType
    fraction: int
    bias: int
    number: int

    @property
    def magic(self) -> float:
        """1.5 · 2**fraction."""
        return 1.5 * 2.0**self.fraction

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return float(2.0 ** (1 - self.bias))

    @property
    def sign(self) -> int:
        """The sign bit."""
        return int(1 << (8 * self.dtype.itemsize - 1))


_FORMATS: Final = {
    float32: Format(float32, int32, uint32, 23, 127, 0),
    float64: Format(float64, int64, uint64, 52, 1023, 1),
}


def format_of(x: kl.Number) -> Format:
    """Return the format of a value; KernelTypeError for a type that must be converted first."""
    found = _FORMATS.get(x.dtype)
    if found is None:
        raise KernelTypeError(
            f"mathematical functions take float32 and float64, not {x.type}; convert with "
            f".to(float32)"
        )
    return found


def exactly(function: Callable[P, R]) -> Callable[P, R]:
    """Evaluate a function's arithmetic as written: nothing in it is contracted."""

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        builder = current()
        before, builder.flags = builder.flags, ()
        try:
            return function(*arguments, **keywords)
        finally:
            builder.flags = before

    return call


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest errors for float32 and float64, in units in the last place.

    A unit is the distance between neighbours at the exact result, or at the magnitude that
    ``scale`` names if that is larger, because a difference inherits the errors of its terms.
    """

    float32: float
    float64: float
    scale: str = ""


BOUNDS: Final[dict[str, Bound]] = {}


def within(
    float32: float, float64: float, scale: str = ""
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function's bound, arguments as in Bound; its arithmetic is as written."""

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        BOUNDS[function.__name__] = Bound(float32, float64, scale)
        return exactly(function)

    return declare


# Polynomials.


def polynomial(x: kl.Number, coefficients: Sequence[float]) -> kl.Number:
    """Return the polynomial, its constant first, by Horner's rule with fused operations."""
    total = kl.constant(coefficients[-1], x.dtype, x.width)
    for c in coefficients[-2::-1]:
        total = kl.fma(total, x, c)
    return total


# Sums and products with their rounding errors (Dekker 1971; Ogita, Rump and Oishi 2005).
def fast_two_sum(a: kl.Number, b: kl.Number | float) -> Pair:
    """Return the sum and its error, for |a| ≥ |b| or a = 0."""
    total = a + b
    return total, (a - total) + b


def two_sum(a: kl.Number, b: kl.Number | float) -> Pair:
    """Return the sum and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: kl.Number, b: kl.Number | float) -> Pair:
    """Return the product and its error."""
    product = a * b
    return product, kl.fma(a, b, -product)


def ratio(over: Pair, under: Pair) -> Pair:
    """Return the quotient of two sums of two numbers as such a sum; the first parts are leading."""
    inverse = 1.0 / under[0]
    first = over[0] * inverse
    left = kl.fma(-first, under[0], over[0]) + kl.fma(-first, under[1], over[1])
    return first, left * inverse


def root(square: Pair, least: float = 2.0**-60) -> Pair:
    """Return the square root of a sum of two numbers as such a sum; 0 for 0."""
    first = kl.sqrt(square[0])
    left = kl.fma(-first, first, square[0]) + square[1]
    return first, left * (0.5 / below(first, least))


# The bits of x and of a number from 1 / x to 1.125 / x have this sum.
_INVERSE_BITS: Final = 0x7F000000


def inverse(x: kl.Number) -> kl.Number:
    """Return 1 / x, correctly rounded, for positive normal numbers below 2¹²⁶.

    Compilers for GPUs make branches of a division for rare numbers, and what is behind it waits for
    them. Two steps of third order and one of second order take none. The iteration comes from
    above: from below it would end at 1/2 for the last number below 2.
    """
    form = format_of(x)
    if form.number or kl.plane_size() == 1:
        return 1.0 / x
    made = kl.bitcast(_INVERSE_BITS - bits_of(x), form.dtype)
    for _ in range(2):
        error = kl.fma(-x, made, 1.0)
        made = kl.fma(kl.fma(error, error, error), made, made)
    return kl.fma(kl.fma(-x, made, 1.0), made, made)


# Bits.
def bits_of(x: kl.Number) -> kl.Number:
    """Return the bits as a signed integer."""
    return kl.bitcast(x, format_of(x).signed)


def either(condition: kl.Number, a: kl.Number, b: kl.Number) -> kl.Number:
    """Return a where the condition holds, and else b, by their bits.

    Both are computed. Compilers for GPUs may branch between long expressions, and what is behind a
    branch waits for both sides.
    """
    if kl.plane_size() == 1:
        return kl.select(condition, a, b)
    form = format_of(a)
    mask = kl.select(condition, kl.constant(-1, form.signed, a.width), 0)
    return kl.bitcast(bits_of(b) ^ ((bits_of(a) ^ bits_of(b)) & mask), form.dtype)


def power_of_two(n: kl.Number, like: Format) -> kl.Number:
    """Return 2**n for integers n in the exponent range of normal numbers."""
    return kl.bitcast((n + like.bias) << like.fraction, like.dtype)


def some(condition: kl.Number) -> kl.Number:
    """Return whether a condition holds in any lane, as a device value for ``if``."""
    return kl.vreduce("or", condition)


def is_negative(x: kl.Number) -> kl.Number:
    """Return whether the sign bit is set, also for −0 and NaN."""
    return bits_of(x) < 0


def sign_as(magnitude: kl.Number, x: kl.Number) -> kl.Number:
    """Return a nonnegative magnitude with the sign of x."""
    form = format_of(x)
    mask = form.sign - (1 << (8 * form.dtype.itemsize))
    return kl.bitcast(bits_of(magnitude) | (bits_of(x) & mask), form.dtype)


def above(x: kl.Number, limit: float | int) -> kl.Number:
    """Return x, or the limit if x is larger; NaN stays."""
    return kl.select(x > limit, limit, x)


def below(x: kl.Number, limit: float | int) -> kl.Number:
    """Return x, or the limit if x is smaller; NaN stays."""
    return kl.select(x < limit, limit, x)
