"""Rows of arithmetic, rounding, size, comparisons, logic, bits and choice.

Requirements: integer division is total. Division by zero and its remainder give 0, and the least
integer divided by −1 is itself. It rounds down, and the remainder has the divisor's sign. Powers of
integers wrap. A negative exponent gives 0, except for the bases 1 and −1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from calor.dtypes import DType, bfloat16, bool_, float16, float32, float64, int16, int32, int64
from calor_kernel import language
from calor_kernel import language as kl
from calor_kernel.library import math
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.elementwise.values import Complex, by_parts
from calor_kernel.library.math import complex_functions
from calor_kernel.library.math.base import INFINITY, Bound, some

row("neg")(operator.neg)
row("add")(operator.add)
row("sub")(operator.sub)
row("mul")(operator.mul)
row("maximum")(lambda a, b: a | b if a.dtype.kind == "bool" else language.max(a, b))
row("minimum")(lambda a, b: a & b if a.dtype.kind == "bool" else language.min(a, b))


def _divisor(a: kl.Number, b: kl.Number) -> kl.Number:
    """Return the divisor, or 1 for a division by zero or one that overflows."""
    bad = b == 0
    if a.dtype.kind == "int":
        least = -(1 << (8 * a.dtype.itemsize - 1))
        bad = bad | ((a == least) & (b == -1))
    return kl.select(bad, 1, b)


@row("floor_divide", weight=80)
def _floor_divide(a: kl.Number, b: kl.Number) -> kl.Number:
    if a.dtype.kind == "float":
        return math.floor_divide(a, b)
    divisor = _divisor(a, b)
    made = kl.quotient(a, divisor)
    if a.dtype.kind == "int":
        rest = a - made * divisor
        made = kl.select((rest != 0) & ((rest ^ divisor) < 0), made - 1, made)
    return kl.select(b == 0, 0, made)


@row("remainder", weight=80)
def _remainder(a: kl.Number, b: kl.Number) -> kl.Number:
    if a.dtype.kind == "float":
        return math.remainder(a, b)
    rest = kl.modulo(a, _divisor(a, b))
    if a.dtype.kind == "int":
        rest = kl.select((rest != 0) & ((rest ^ b) < 0), rest + b, rest)
        # A replaced divisor of −1 leaves no remainder.
        rest = kl.select(b == -1, 0, rest)
    return kl.select(b == 0, 0, rest)


@row("fmod", weight=80, bound=Bound(0.0, 0.0))
def _fmod(a: kl.Number, b: kl.Number) -> kl.Number:
    # A divisor replaced by 1 gives 0.
    return math.fmod(a, b) if a.dtype.kind == "float" else kl.modulo(a, _divisor(a, b))


@kl.helper
def integer_power(base: kl.Number, exponent: kl.Number) -> kl.Number:
    """Return base to the power of exponent, wrapped, by squaring."""
    result = kl.constant(1, base.dtype, base.width)
    square, left = base, exponent
    negative = exponent < 0 if exponent.dtype.kind == "int" else None
    if negative is not None:
        left = kl.select(negative, 0, exponent)
    while some(left != 0):
        result = kl.select((left & 1) != 0, result * square, result)
        square = square * square
        left = left >> 1
    if negative is not None:
        odd = (exponent & 1) != 0
        inverse = kl.select((base == 1) | ((base == -1) & ~odd), 1, kl.select(base == -1, base, 0))
        result = kl.select(negative, inverse, result)
    return result


@row("power", weight=100)
def _power(a: Any, b: Any) -> Any:
    if isinstance(a, Complex):
        return Complex(*complex_functions.power(a, b))
    return math.power(a, b) if a.dtype.kind == "float" else integer_power(a, b)


def _whole(name: str, function: Callable[[kl.Number], kl.Number]) -> None:
    @row(name)
    def rounded(x: Any) -> Any:
        exact = not isinstance(x, Complex) and x.dtype.kind != "float"
        return x if exact else by_parts(function, x)


_whole("floor", language.floor)
_whole("ceil", language.ceil)
_whole("trunc", language.trunc)
_whole("round", language.rint)


@row("sign")
def _sign(x: Any) -> Any:
    if isinstance(x, Complex):
        return Complex(*complex_functions.sign(x))
    if x.dtype.kind == "uint":
        return kl.select(x != 0, kl.constant(1, x.dtype), 0)
    one, nothing = kl.constant(1, x.dtype), kl.constant(0, x.dtype)
    found = kl.select(x > 0, one, kl.select(x < 0, -one, nothing))
    return kl.select(x == x, found, x) if x.dtype.kind == "float" else found


@row("abs")
def _abs(x: Any) -> Any:
    if isinstance(x, Complex):
        return math.hypot(x.real, x.imag)
    return x if x.dtype.kind == "uint" else abs(x)


_BITS: Final[dict[DType, DType]] = {
    float16: int16,
    bfloat16: int16,
    float32: int32,
    float64: int64,
}

row("bit_and")(operator.and_)
row("bit_or")(operator.or_)
row("bit_xor")(operator.xor)
row("bit_not")(operator.invert)
row("where", raw=True)(lambda c, a, b: by_parts(lambda x, y: kl.select(c, x, y), a, b))


@row("equal")
def _equal(a: Any, b: Any) -> Any:
    if isinstance(a, Complex):
        return (a.real == b.real) & (a.imag == b.imag)
    return a == b


@row("not_equal")
def _not_equal(a: Any, b: Any) -> Any:
    if isinstance(a, Complex):
        return (a.real != b.real) | (a.imag != b.imag)
    return a != b


@row("less")
def _less(a: Any, b: Any) -> Any:
    return ~a & b if a.dtype.kind == "bool" else a < b


@row("less_equal")
def _less_equal(a: Any, b: Any) -> Any:
    return ~a | b if a.dtype.kind == "bool" else a <= b


row("greater")(lambda a, b: _less(b, a))
row("greater_equal")(lambda a, b: _less_equal(b, a))


def _outside(b: Any) -> Any:
    """Return whether a shift count is negative or at least the width."""
    width = 8 * b.dtype.itemsize
    return b >= width if b.dtype.kind == "uint" else (b < 0) | (b >= width)


@row("shift_left")
def _shift_left(a: kl.Number, b: kl.Number) -> kl.Number:
    width = 8 * b.dtype.itemsize
    return kl.select(_outside(b), 0, a << (b & (width - 1)))


@row("shift_right")
def _shift_right(a: kl.Number, b: kl.Number) -> kl.Number:
    width = 8 * b.dtype.itemsize
    inside = a >> (b & (width - 1))
    return kl.select(_outside(b), a >> (width - 1) if a.dtype.kind == "int" else 0, inside)


def _kind_of(name: str, test: Callable[[kl.Number], kl.Number], every: bool = False) -> None:
    """Register a test of floats that holds if it does for any part, or for every part.

    For other types it is known.
    """

    @row(name)
    def tested(x: Any) -> Any:
        if isinstance(x, Complex):
            real, imag = test(x.real), test(x.imag)
            return real & imag if every else real | imag
        return test(x) if x.dtype.kind == "float" else kl.constant(every, bool_, x.width)


_kind_of("isnan", lambda x: x != x)
_kind_of("isinf", lambda x: abs(x) == INFINITY)
_kind_of("isfinite", lambda x: abs(x) < INFINITY, every=True)


@row("signbit", raw=True)
def _signbit(x: kl.Number) -> kl.Number:
    if x.dtype.kind == "float":
        return kl.bitcast(x, _BITS[x.dtype]) < 0
    return x < 0 if x.dtype.kind == "int" else kl.constant(False, bool_, x.width)


@row("copysign", raw=True)
def _copysign(a: kl.Number, b: kl.Number) -> kl.Number:
    kind = _BITS[a.dtype]
    low = (1 << (8 * kind.itemsize - 1)) - 1
    return kl.bitcast((kl.bitcast(a, kind) & low) | (kl.bitcast(b, kind) & ~low), a.dtype)


@row("nextafter", raw=True)
def _nextafter(a: kl.Number, b: kl.Number) -> kl.Number:
    kind = _BITS[a.dtype]
    x, y = (kl.cast(v, float32) if v.dtype.itemsize == 2 else v for v in (a, b))
    bits = kl.bitcast(a, kind)
    # Bits of one sign have the order of the numbers' sizes; towards zero they decrease.
    negative = bits < 0
    outward = (x < y) ^ negative
    moved = kl.select(outward, bits + 1, bits - 1)
    least = 1 | (kl.bitcast(b, kind) & -(1 << (8 * kind.itemsize - 1)))
    moved = kl.select(x == 0.0, least, moved)
    result = kl.select(x == y, b, kl.bitcast(moved, a.dtype))
    nan = (x != x) | (y != y)
    return kl.select(nan, kl.cast(kl.constant(float("nan"), float32, a.width), a.dtype), result)
