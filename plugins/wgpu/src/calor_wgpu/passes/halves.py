"""Conversions between float32 and the bits of float16 and bfloat16, for targets without them.

They round once, to nearest even. Subnormals are kept, NaN stays NaN and becomes quiet. The
additions for rounding and scaling subnormals of float16 are Fabian Giesen's (2012).
"""

from __future__ import annotations

from calor.dtypes import DType, bfloat16, float32, float64, uint16, uint32, uint64
from calor_kernel.ir.nodes import Value
from calor_kernel.ir.passes.rewriting import Rewriter


def widen(r: Rewriter, half: DType, bits: Value) -> Value:
    """Return the bits of a half type as float32, exactly."""
    word = r.convert(bits, uint32)
    if half is bfloat16:
        return r.convert(_do(r, "shl", word, 16), float32, "bitcast")
    sign = _do(r, "shl", _do(r, "and", word, 0x8000), 16)
    size = _do(r, "shl", _do(r, "and", word, 0x7FFF), 13)
    normal = _do(r, "add", size, 112 << 23)
    infinite = _do(r, "add", normal, 112 << 23)
    # The bits of 2**-14 plus a fraction of it, minus 2**-14.
    shifted = r.convert(_do(r, "add", size, 113 << 23), float32, "bitcast")
    small = _bits(r, r.make("sub", shifted, r.like(2.0**-14, shifted)))
    made = r.select(_do(r, "ge", size, 31 << 23), infinite, normal)
    made = r.select(_do(r, "lt", size, 1 << 23), small, made)
    return r.convert(r.make("or", made, sign), float32, "bitcast")


def narrow(r: Rewriter, half: DType, value: Value) -> Value:
    """Return the bits of float32 rounded to a half type."""
    word = _bits(r, value)
    if half is bfloat16:
        upper = _do(r, "shr", word, 16)
        # To nearest even: add half of the last kept bit, less one if that bit is even.
        bias = _do(r, "add", _do(r, "and", upper, 1), 0x7FFF)
        rounded = _do(r, "shr", r.make("add", word, bias), 16)
        quiet = _do(r, "or", upper, 0x40)
        return r.convert(r.select(r.make("ne", value, value), quiet, rounded), uint16)
    sign = _do(r, "and", _do(r, "shr", word, 16), 0x8000)
    size = _do(r, "and", word, 0x7FFFFFFF)
    odd_bit = _do(r, "and", _do(r, "shr", size, 13), 1)
    bias = _do(r, "add", odd_bit, ((15 - 127) << 23) + 0xFFF & 0xFFFFFFFF)
    normal = _do(r, "shr", r.make("add", size, bias), 13)
    # Adding 0.5 to a number below 2**-14 rounds it to a multiple of the smallest subnormal.
    number = r.convert(size, float32, "bitcast")
    beside = _bits(r, r.make("add", number, r.like(0.5, number)))
    small = _do(r, "sub", beside, 126 << 23)
    made = r.select(_do(r, "lt", size, 113 << 23), small, normal)
    made = r.select(_do(r, "ge", size, 143 << 23), r.like(0x7C00, made), made)
    quiet = _do(r, "or", _do(r, "and", _do(r, "shr", size, 13), 0x3FF), 0x7E00)
    made = r.select(_do(r, "gt", size, 0x7F800000), quiet, made)
    return r.convert(r.make("or", made, sign), uint16)


def odd(r: Rewriter, value: Value) -> Value:
    """Return a float64 or an integer as float32 rounded to odd, so that a second rounding is exact.

    Truncated, with the last bit set if the result is inexact (Boldo and Melquiond, 2008).
    """
    if value.type.dtype is not float64:
        return _odd_integer(r, value)
    near = r.convert(value, float32)
    back = r.convert(near, float64)
    above = r.make("gt", r.make("abs", back), r.make("abs", value))
    lost = r.make("ne", back, value)
    bits = r.make("sub", _bits(r, near), r.convert(above, uint32))
    return r.convert(r.make("or", bits, r.convert(lost, uint32)), float32, "bitcast")


def _odd_integer(r: Rewriter, value: Value) -> Value:
    dtype = value.type.dtype
    size = r.convert(value, uint32 if dtype.itemsize == 4 else uint64)
    negative = r.make("lt", value, r.like(0, value))
    size = r.select(negative, r.make("sub", r.like(0, size), size), size)
    # Of more than 24 bits the lower ones are cut off.
    bits = r.make("sub", r.like(8 * dtype.itemsize - 24, size), r.make("clz", size))
    large = r.make("ne", _do(r, "shr", size, 24), r.like(0, size))
    bits = r.select(large, bits, r.like(0, size))
    kept = r.make("shl", r.make("shr", size, bits), bits)
    last = r.make("or", kept, r.make("shl", r.like(1, size), bits))
    cut = r.select(r.make("eq", kept, size), size, last)
    made = r.convert(cut, float32)
    return r.select(negative, r.make("neg", made), made)


def _do(r: Rewriter, name: str, word: Value, number: int) -> Value:
    return r.make(name, word, r.like(number, word))


def _bits(r: Rewriter, value: Value) -> Value:
    return r.convert(value, uint32, "bitcast")
