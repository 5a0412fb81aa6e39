"""Rows of comparisons, logic, bits and choice."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from calor.dtypes import DType, bfloat16, bool_, float16, float32, float64, int16, int32, int64
from calor_kernel.language import Number, bitcast, cast, constant, select
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.elementwise.values import Complex, by_parts
from calor_kernel.library.math.base import INFINITY

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
