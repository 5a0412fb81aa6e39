"""Rows of arithmetic, division, powers, rounding and size.

Requirements: integer division is total. Division by zero and its remainder give 0, and the least
integer divided by −1 is itself. It rounds down, and the remainder has the divisor's sign. Powers of
integers wrap. A negative exponent gives 0, except for the bases 1 and −1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from calor_kernel import language
from calor_kernel.language import Number, constant, helper, modulo, quotient, select
from calor_kernel.library import math
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.elementwise.values import Complex, by_parts
from calor_kernel.library.math import complex_functions
from calor_kernel.library.math.base import some
from calor_kernel.library.math.bounds import Bound

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
