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
from calor_kernel.language import Number, bitcast, cast, constant, helper, modulo, quotient, select
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


def _divisor(a: Number, b: Number) -> Number:
    """Return the divisor, or 1 for a division by zero or one that overflows."""
    bad = b == 0
    if a.dtype.kind == "int":
        least = -(1 << (8 * a.dtype.itemsize - 1))
        bad = bad | ((a == least) & (b == -1))
    return select(bad, 1, b)


@row("floor_divide", weight=80)
def _floor_divide(a: Number, b: Number) -> Number:
    if a.dtype.kind == "float":
        return math.floor_divide(a, b)
    divisor = _divisor(a, b)
    made = quotient(a, divisor)
    if a.dtype.kind == "int":
        rest = a - made * divisor
        made = select((rest != 0) & ((rest ^ divisor) < 0), made - 1, made)
    return select(b == 0, 0, made)


@row("remainder", weight=80)
def _remainder(a: Number, b: Number) -> Number:
    if a.dtype.kind == "float":
        return math.remainder(a, b)
    rest = modulo(a, _divisor(a, b))
    if a.dtype.kind == "int":
        rest = select((rest != 0) & ((rest ^ b) < 0), rest + b, rest)
        # A replaced divisor of −1 leaves no remainder.
        rest = select(b == -1, 0, rest)
    return select(b == 0, 0, rest)


@row("fmod", weight=80, bound=Bound(0.0, 0.0))
def _fmod(a: Number, b: Number) -> Number:
    # A divisor replaced by 1 gives 0.
    return math.fmod(a, b) if a.dtype.kind == "float" else modulo(a, _divisor(a, b))


@helper
def integer_power(base: Number, exponent: Number) -> Number:
    """Return base to the power of exponent, wrapped, by squaring."""
    result = constant(1, base.dtype, base.width)
    square, left = base, exponent
    negative = exponent < 0 if exponent.dtype.kind == "int" else None
    if negative is not None:
        left = select(negative, 0, exponent)
    while some(left != 0):
        result = select((left & 1) != 0, result * square, result)
        square = square * square
        left = left >> 1
    if negative is not None:
        odd = (exponent & 1) != 0
        inverse = select((base == 1) | ((base == -1) & ~odd), 1, select(base == -1, base, 0))
        result = select(negative, inverse, result)
    return result


@row("power", weight=100)
def _power(a: Any, b: Any) -> Any:
    if isinstance(a, Complex):
        return Complex(*complex_functions.power(a, b))
    return math.power(a, b) if a.dtype.kind == "float" else integer_power(a, b)


def _whole(name: str, function: Callable[[Number], Number]) -> None:
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
        return select(x != 0, constant(1, x.dtype), 0)
    one, nothing = constant(1, x.dtype), constant(0, x.dtype)
    found = select(x > 0, one, select(x < 0, -one, nothing))
    return select(x == x, found, x) if x.dtype.kind == "float" else found


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
row("where", raw=True)(lambda c, a, b: by_parts(lambda x, y: select(c, x, y), a, b))


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
def _shift_left(a: Number, b: Number) -> Number:
    width = 8 * b.dtype.itemsize
    return select(_outside(b), 0, a << (b & (width - 1)))


@row("shift_right")
def _shift_right(a: Number, b: Number) -> Number:
    width = 8 * b.dtype.itemsize
    inside = a >> (b & (width - 1))
    return select(_outside(b), a >> (width - 1) if a.dtype.kind == "int" else 0, inside)


def _kind_of(name: str, test: Callable[[Number], Number], every: bool = False) -> None:
    """Register a test of floats that holds if it does for any part, or for every part.

    For other types it is known.
    """

    @row(name)
    def tested(x: Any) -> Any:
        if isinstance(x, Complex):
            real, imag = test(x.real), test(x.imag)
            return real & imag if every else real | imag
        return test(x) if x.dtype.kind == "float" else constant(every, bool_, x.width)


_kind_of("isnan", lambda x: x != x)
_kind_of("isinf", lambda x: abs(x) == INFINITY)
_kind_of("isfinite", lambda x: abs(x) < INFINITY, every=True)


@row("signbit", raw=True)
def _signbit(x: Number) -> Number:
    if x.dtype.kind == "float":
        return bitcast(x, _BITS[x.dtype]) < 0
    return x < 0 if x.dtype.kind == "int" else constant(False, bool_, x.width)


@row("copysign", raw=True)
def _copysign(a: Number, b: Number) -> Number:
    kind = _BITS[a.dtype]
    low = (1 << (8 * kind.itemsize - 1)) - 1
    return bitcast((bitcast(a, kind) & low) | (bitcast(b, kind) & ~low), a.dtype)


@row("nextafter", raw=True)
def _nextafter(a: Number, b: Number) -> Number:
    kind = _BITS[a.dtype]
    x, y = (cast(v, float32) if v.dtype.itemsize == 2 else v for v in (a, b))
    bits = bitcast(a, kind)
    # Bits of one sign have the order of the numbers' sizes; towards zero they decrease.
    negative = bits < 0
    outward = (x < y) ^ negative
    moved = select(outward, bits + 1, bits - 1)
    least = 1 | (bitcast(b, kind) & -(1 << (8 * kind.itemsize - 1)))
    moved = select(x == 0.0, least, moved)
    result = select(x == y, b, bitcast(moved, a.dtype))
    nan = (x != x) | (y != y)
    return select(nan, cast(constant(float("nan"), float32, a.width), a.dtype), result)
