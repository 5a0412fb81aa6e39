"""Rows of comparisons, logic, bits and choice."""

from __future__ import annotations

from typing import Any, Final

from calor.dtypes import DType, bfloat16, bool_, float16, float32, float64, int16, int32, int64
from calor_kernel.language import Number, bitcast, cast, constant, select
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.elementwise.values import Complex

INFINITY: Final = float("inf")
BITS: Final[dict[DType, DType]] = {
    float16: int16,
    bfloat16: int16,
    float32: int32,
    float64: int64,
}


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


@row("greater")
def _greater(a: Any, b: Any) -> Any:
    return _less(b, a)


@row("greater_equal")
def _greater_equal(a: Any, b: Any) -> Any:
    return _less_equal(b, a)


@row("bit_and")
def _bit_and(a: Any, b: Any) -> Any:
    return a & b


@row("bit_or")
def _bit_or(a: Any, b: Any) -> Any:
    return a | b


@row("bit_xor")
def _bit_xor(a: Any, b: Any) -> Any:
    return a ^ b


@row("bit_not")
def _bit_not(x: Any) -> Any:
    return ~x


def _outside(b: Number) -> Any:
    """Return whether a shift count is negative or at least the width."""
    width = 8 * b.dtype.itemsize
    return b >= width if b.dtype.kind == "uint" else (b < 0) | (b >= width)


@row("shift_left")
def _shift_left(a: Any, b: Any) -> Any:
    width = 8 * b.dtype.itemsize
    return select(_outside(b), 0, a << (b & (width - 1)))


@row("shift_right")
def _shift_right(a: Any, b: Any) -> Any:
    width = 8 * b.dtype.itemsize
    inside = a >> (b & (width - 1))
    return select(_outside(b), a >> (width - 1) if a.dtype.kind == "int" else 0, inside)


def _never(x: Any, answer: bool = False) -> Any:
    return constant(answer, bool_, x.width)


@row("isnan")
def _isnan(x: Any) -> Any:
    if isinstance(x, Complex):
        return (x.real != x.real) | (x.imag != x.imag)
    return x != x if x.dtype.kind == "float" else _never(x)


@row("isinf")
def _isinf(x: Any) -> Any:
    if isinstance(x, Complex):
        return (abs(x.real) == INFINITY) | (abs(x.imag) == INFINITY)
    return abs(x) == INFINITY if x.dtype.kind == "float" else _never(x)


@row("isfinite")
def _isfinite(x: Any) -> Any:
    if isinstance(x, Complex):
        return (abs(x.real) < INFINITY) & (abs(x.imag) < INFINITY)
    return abs(x) < INFINITY if x.dtype.kind == "float" else _never(x, True)


@row("signbit", raw=True)
def _signbit(x: Any) -> Any:
    if x.dtype.kind == "float":
        return bitcast(x, BITS[x.dtype]) < 0
    return x < 0 if x.dtype.kind == "int" else _never(x)


@row("where", raw=True)
def _where(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(a, Complex):
        return Complex(select(condition, a.real, b.real), select(condition, a.imag, b.imag))
    return select(condition, a, b)


@row("copysign", raw=True)
def _copysign(a: Any, b: Any) -> Any:
    kind = BITS[a.dtype]
    low = (1 << (8 * kind.itemsize - 1)) - 1
    return bitcast((bitcast(a, kind) & low) | (bitcast(b, kind) & ~low), a.dtype)


@row("nextafter", raw=True)
def _nextafter(a: Any, b: Any) -> Any:
    kind = BITS[a.dtype]
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
    return select(nan, _nan(a), result)


def _nan(like: Number) -> Number:
    return cast(constant(float("nan"), float32, like.width), like.dtype)
