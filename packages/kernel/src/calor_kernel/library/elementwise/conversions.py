"""Casts between all dtypes, bit casts and parts of complex numbers.

Requirements: float to integer truncates, saturates and makes NaN 0. Integer to integer wraps. Bool
is ``x != 0``. Complex to real takes the real part. Casts to floating types round once, to nearest
with ties to even, also to 8-bit floats, from any type. float8_e4m3fn has no infinity: results
beyond its largest number are NaN. Rounding to 8 bits adds to the bits of a float32 (the idea of F.
Giesen, "Float→half conversion variants", 2012). Wider types are first rounded to an odd float32
(Boldo and Melquiond, "When double rounding is odd", 2005).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from calor.dtypes import (
    DType,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int32,
    real_of,
    uint8,
    uint16,
    uint32,
)
from calor_kernel import language as kl
from calor_kernel.library.elementwise.operations import Context, row
from calor_kernel.library.elementwise.values import Complex, Value, by_parts, wide


class _Narrow(NamedTuple):
    """An 8-bit float: fraction bits, bias, and the bytes of overflow and of NaN.

    ``end``: the bits of the first float32 that rounds beyond the largest number.
    """

    fraction: int
    bias: int
    over: int
    nan: int
    end: int


_NARROW: Final = {
    # 464 = (448 + 480) / 2 is rounded down, to even; 61440 = (57344 + 65536) / 2 up.
    float8_e4m3fn: _Narrow(3, 7, 0x7F, 0x7F, 0x43E80001),
    float8_e5m2: _Narrow(2, 15, 0x7C, 0x7E, 0x47700000),
}


def converted(value: Value, source: DType, target: DType) -> Value:
    """Return a value of one dtype as another; half types are not widened."""
    if source is target:
        return value
    if isinstance(value, Complex):
        return _from_complex(value, target)
    if target.is_complex:
        real = converted(value, source, real_of(target))
        assert isinstance(real, kl.Number)
        return Complex(real, kl.constant(0.0, real.dtype, real.width))
    if source.kind == "storage":
        if target.kind == "bool":
            return (value & 0x7F) != 0
        value, source = decoded(value, source), float32
    if target.kind == "storage":
        return encoded(_odd(value), target)
    if target.kind == "bool":
        number = wide(value)
        assert isinstance(number, kl.Number)
        return number != 0
    return kl.cast(value, target)


def _from_complex(value: Complex, target: DType) -> Value:
    if target.is_complex:
        return by_parts(lambda x: kl.cast(x, real_of(target)), value)
    if target.kind == "bool":
        return (value.real != 0.0) | (value.imag != 0.0)
    return converted(value.real, value.real.dtype, target)


def decoded(byte: kl.Number, dtype: DType) -> kl.Number:
    """Return the float32 of an 8-bit float; exact."""
    bits = kl.cast(byte, uint16)
    if dtype is float8_e5m2:
        # The upper byte of a float16.
        return kl.cast(kl.bitcast(bits << 8, float16), float32)
    # The fraction goes to a float16's position, so that no intermediate float32 is subnormal; some
    # devices flush those to zero.
    near = kl.bitcast(((bits & 0x80) << 8) | ((bits & 0x7F) << 7), float16)
    return kl.select((bits & 0x7F) == 0x7F, float("nan"), kl.cast(near, float32) * 2.0**8)


def encoded(number: kl.Number, dtype: DType) -> kl.Number:
    """Return the 8-bit float nearest to a float32, as its byte."""
    form = _NARROW[dtype]
    bits = kl.bitcast(number, uint32)
    size = bits & 0x7FFFFFFF
    shift = 23 - form.fraction
    # Normal results: adding half a unit less one, plus the last kept bit, rounds before the cut.
    odd = (size >> shift) & 1
    rebias = (127 - form.bias) << form.fraction
    normal = ((size + ((1 << (shift - 1)) - 1) + odd) >> shift) - rebias
    # Subnormal results: adding a number whose last bit is their unit rounds them.
    magic = (127 - form.bias + 24 - form.fraction) << 23
    lifted = kl.bitcast(size, float32) + kl.bitcast(kl.constant(magic, uint32), float32)
    denormal = kl.bitcast(lifted, uint32) - magic
    made = kl.select(size < ((127 - form.bias + 1) << 23), denormal, normal)
    made = kl.select(size >= form.end, form.over, made)
    made = kl.select(size > 0x7F800000, form.nan, made)
    return kl.cast(made | ((bits >> 24) & 0x80), uint8)


def _odd(value: kl.Number) -> kl.Number:
    """Return a float32 that rounds to 8 bits as the number itself does."""
    dtype = value.dtype
    if dtype.kind == "bool" or dtype.itemsize < 4:
        return kl.cast(value, float32)
    if dtype.kind in ("int", "uint"):
        # Numbers this large are beyond the largest 8-bit number.
        value = kl.select(value > 1 << 20, 1 << 20, value)
        if dtype.kind == "int":
            value = kl.select(value < -(1 << 20), -(1 << 20), value)
        return kl.cast(value, float32)
    if dtype is not float64:
        return value
    nearest = kl.cast(value, float32)
    back = kl.cast(nearest, float64)
    bits = kl.bitcast(nearest, int32)
    # If this one's last bit is even, the neighbour towards the number has an odd one.
    outward = abs(back) < abs(value)
    moved = bits + kl.cast(kl.select(outward, kl.constant(1, int32, value.width), -1), int32)
    inexact = (back != value) & (abs(back) < float("inf")) & ((bits & 1) == 0)
    return kl.bitcast(kl.select(inexact, moved, bits), float32)


@row("cast", raw=True, context=True)
def _cast(context: Context, x: Any) -> Any:
    return converted(x, context.inputs[0], context.output)


@row("bitcast", raw=True, context=True)
def _bitcast(context: Context, x: Any) -> Any:
    source, target = context.inputs[0], context.output
    if target.kind == "bool":
        return kl.cast(x, uint8) != 0 if source.kind == "bool" else x != 0
    if source.kind == "bool":
        x = kl.cast(x, uint8)
    return kl.bitcast(x, uint8 if target.kind == "storage" else target)


row("real", raw=True)(lambda x: x.real)
row("imag", raw=True)(lambda x: x.imag)
row("conj", raw=True)(lambda x: Complex(x.real, -x.imag) if isinstance(x, Complex) else x)
row("join", raw=True)(Complex)
