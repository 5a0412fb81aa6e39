"""Lowers half types to their bits and integer operations, for targets without them.

Conversions round once, to nearest even, from any type. Arithmetic is done in float32 and rounded;
this equals a single rounding except among bfloat16's subnormals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from calor.dtypes import DType, bfloat16, float16, float32, float64, uint16, uint32, uint64
from calor.errors import CompileError
from calor_kernel.ir.nodes import Kernel, Memory, Operation, Value
from calor_kernel.ir.passes.rewriting import CONTROL, Parts, Rewriter
from calor_kernel.ir.types import Type

_MOVES: Final = CONTROL | frozenset(
    ("load", "store", "select", "splat", "extract", "insert", "shuffle", "pack", "plane_shuffle")
)
# For a sum, product, quotient or root of p-bit numbers, a first rounding to 2p + 2 bits is
# innocuous (Figueroa, "When is double rounding innocuous?", 1995); float16 has 11 bits, bfloat16 8.
_SUMS = ("add", "sub", "mul", "div", "sqrt", "neg", "abs", "min", "max", "copysign")
_WHOLE = ("floor", "ceil", "trunc", "rint", "eq", "ne", "lt", "le", "gt", "ge")
_ROUNDED_TWICE: Final = frozenset((*_SUMS, *_WHOLE))


def lower_bfloat16(kernel: Kernel) -> Kernel:
    """Return the kernel with bfloat16 as bits in uint16; buffers hold the same bytes.

    CompileError names an operation without an equivalent in float32 (a reduction over units).
    """
    return _Bfloat16().run(kernel)


def lower_float16(kernel: Kernel) -> Kernel:
    """Return the kernel with float16 as bits in uint16; buffers hold the same bytes.

    CompileError names an operation without an equivalent in float32 (a reduction over units).
    """
    return _Float16().run(kernel)


def converter(half: DType) -> _Half:
    """Return the converter between float32 and the bits of a half type."""
    return _Bfloat16() if half is bfloat16 else _Float16()


class _Half(Rewriter):
    """Replaces values of one half type by their bits."""

    half: DType
    bits = uint16

    def types(self, type: Type) -> tuple[Type, ...]:
        return (Type(uint16, type.width),) if type.dtype is self.half else (type,)

    def memory_of(self, memory: Memory) -> Memory:
        return replace(memory, type=self.types(memory.type)[0])

    def widen(self, bits: Value) -> Value:
        """Return bits as float32, exactly."""
        raise NotImplementedError

    def narrow(self, value: Value) -> Value:
        """Return the bits of float32 rounded to the half type."""
        raise NotImplementedError

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        touched = (*operation.operands, *operation.results)
        if operation.name in _MOVES or not any(v.type.dtype is self.half for v in touched):
            return None
        operands = [self.get(v) for v in operation.operands]
        if operation.name == "constant":
            return [(self._constant(operation),)]
        if operation.name == "bitcast":
            (type,) = self.types(operation.result.type)
            same = operands[0].type == type
            return [(operands[0] if same else self.emit("bitcast", operands, (type,))[0],)]
        if operation.name == "cast":
            source = operation.operands[0].type.dtype
            value = self.widen(operands[0]) if source is self.half else operands[0]
            return [(self._convert(value, operation.result.type.dtype),)]
        if operation.name == "dot":
            return [(self._dot(operation),)]
        if operation.name in _ROUNDED_TWICE:
            floats = [self.widen(v) for v in operands]
            made = self.make(operation.name, *floats, **operation.attributes)
            is_half = operation.result.type.dtype is self.half
            return [(self.narrow(made) if is_half else made,)]
        raise CompileError(
            f"{operation.name} of {self.half} is not made of float32; cast to float32 before"
        )

    def _constant(self, operation: Operation) -> Value:
        number = operation.attributes["value"]
        lanes = np.array(number if isinstance(number, tuple) else (number,), self.half.numpy)
        found = tuple(int(n) for n in lanes.view(np.uint16))
        return self.constant(found if isinstance(number, tuple) else found[0], uint16)

    def _convert(self, value: Value, dtype: DType) -> Value:
        if dtype is not self.half:
            return self.convert(value, dtype)
        source = value.type.dtype
        if source is float64 or (source.kind in ("int", "uint") and source.itemsize == 8):
            value = self.odd(value)
        elif source.kind in ("int", "uint") and source.itemsize > 2:
            value = self._sticky(value)
        return self.narrow(self.convert(value, float32))

    def odd(self, value: Value) -> Value:
        """Return a number as float32 rounded to odd, so that a second rounding is exact.

        Truncated, with the last bit set if the result is inexact (Boldo and Melquiond, 2008).
        """
        if value.type.dtype is not float64:
            return self._odd_integer(value)
        near = self.convert(value, float32)
        back = self.convert(near, float64)
        above = self.make("gt", self.make("abs", back), self.make("abs", value))
        lost = self.make("ne", back, value)
        bits = self.convert(near, uint32, "bitcast")
        bits = self.make("sub", bits, self.convert(above, uint32))
        bits = self.make("or", bits, self.convert(lost, uint32))
        return self.convert(bits, float32, "bitcast")

    def _odd_integer(self, value: Value) -> Value:
        dtype = value.type.dtype
        size = self.convert(value, uint32 if dtype.itemsize == 4 else uint64)
        negative = self.make("lt", value, self.like(0, value))
        size = self.select(negative, self.make("sub", self.like(0, size), size), size)
        # Of more than 24 bits the lower ones are cut off.
        bits = self.make("sub", self.like(8 * dtype.itemsize - 24, size), self.make("clz", size))
        large = self.make("ne", self._do("shr", size, 24), self.like(0, size))
        bits = self.select(large, bits, self.like(0, size))
        kept = self.make("shl", self.make("shr", size, bits), bits)
        last = self.make("or", kept, self.make("shl", self.like(1, size), bits))
        cut = self.select(self.make("eq", kept, size), size, last)
        made = self.convert(cut, float32)
        return self.select(negative, self.make("neg", made), made)

    def _sticky(self, value: Value) -> Value:
        """Return integers representable in float32 that round to the same half."""
        dtype = value.type.dtype
        signed = dtype.kind == "int"
        # float32 keeps 24 bits below the sign; the last one is the OR of the lower bits.
        below = 8 * dtype.itemsize - signed - 24
        mask = self.like((1 << (below + 1)) - 1, value)
        low = self.make("and", value, mask)
        some = self.convert(self.make("ne", low, self.like(0, value)), dtype)
        some = self.make("shl", some, self.like(below, value))
        large = self.make("or", self.make("sub", value, low), some)
        size = self.make("abs", value) if signed else value
        small = self.make("lt", size, self.like(1 << 24, value))
        return self.select(small, value, large)

    def _dot(self, operation: Operation) -> Value:
        """Products of halves are exact in float32."""
        a, b, total = (self.get(v) for v in operation.operands)
        width = total.type.width
        group = a.type.width // width
        for i in range(group):
            factors = []
            for vector in (a, b):
                lanes = tuple(range(i, vector.type.width, group))
                type = vector.type.wide(width)
                said = {"lane": i} if width == 1 else {"lanes": lanes}
                name, operands = (
                    ("extract", (vector,)) if width == 1 else ("shuffle", (vector,) * 2)
                )
                factors.append(self.widen(self.emit(name, operands, (type,), said)[0]))
            product = self.convert(self.make("mul", *factors), total.type.dtype)
            total = self.make("add", total, product)
        return total

    # Operations on 32-bit words.
    def _do(self, name: str, word: Value, number: int) -> Value:
        return self.make(name, word, self.like(number, word))

    def _bits(self, value: Value) -> Value:
        return self.convert(value, uint32, "bitcast")


class _Bfloat16(_Half):
    half = bfloat16

    def widen(self, bits: Value) -> Value:
        word = self._do("shl", self.convert(bits, uint32), 16)
        return self.convert(word, float32, "bitcast")

    def narrow(self, value: Value) -> Value:
        word = self._bits(value)
        upper = self._do("shr", word, 16)
        # To nearest even: add half of the last kept bit, less one if that bit is even.
        bias = self._do("add", self._do("and", upper, 1), 0x7FFF)
        rounded = self._do("shr", self.make("add", word, bias), 16)
        quiet = self._do("or", upper, 0x40)
        lost = self.make("ne", value, value)
        return self.convert(self.select(lost, quiet, rounded), uint16)


class _Float16(_Half):
    """The additions for rounding and scaling subnormals are Fabian Giesen's (2012)."""

    half = float16

    def widen(self, bits: Value) -> Value:
        word = self.convert(bits, uint32)
        sign = self._do("shl", self._do("and", word, 0x8000), 16)
        size = self._do("shl", self._do("and", word, 0x7FFF), 13)
        normal = self._do("add", size, 112 << 23)
        infinite = self._do("add", normal, 112 << 23)
        # The bits of 2**-14 plus a fraction of it, minus 2**-14.
        shifted = self.convert(self._do("add", size, 113 << 23), float32, "bitcast")
        small = self._bits(self.make("sub", shifted, self.like(2.0**-14, shifted)))
        made = self.select(self._do("ge", size, 31 << 23), infinite, normal)
        made = self.select(self._do("lt", size, 1 << 23), small, made)
        return self.convert(self.make("or", made, sign), float32, "bitcast")

    def narrow(self, value: Value) -> Value:
        word = self._bits(value)
        sign = self._do("and", self._do("shr", word, 16), 0x8000)
        size = self._do("and", word, 0x7FFFFFFF)
        odd = self._do("and", self._do("shr", size, 13), 1)
        bias = self._do("add", odd, ((15 - 127) << 23) + 0xFFF & 0xFFFFFFFF)
        normal = self._do("shr", self.make("add", size, bias), 13)
        # Adding 0.5 to a number below 2**-14 rounds it to a multiple of the smallest subnormal.
        number = self.convert(size, float32, "bitcast")
        beside = self._bits(self.make("add", number, self.like(0.5, number)))
        small = self._do("sub", beside, 126 << 23)
        made = self.select(self._do("lt", size, 113 << 23), small, normal)
        made = self.select(self._do("ge", size, 143 << 23), self.like(0x7C00, made), made)
        quiet = self._do("or", self._do("and", self._do("shr", size, 13), 0x3FF), 0x7E00)
        made = self.select(self._do("gt", size, 0x7F800000), quiet, made)
        return self.convert(self.make("or", made, sign), uint16)
