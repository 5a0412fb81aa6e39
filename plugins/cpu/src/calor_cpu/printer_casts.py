"""Printing of conversions.

Requirements: float to int saturates, and NaN becomes 0. Conversions to half types round once, even
through float32.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, bfloat16, float16, float32, float64
from calor_cpu.printer_halves import narrow, odd, widen
from calor_cpu.printer_values import letter, prints, zero
from calor_cpu.writer import Writer, element, llvm, number, suffix, vector
from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import Type

_HALF: Final = (float16, bfloat16)


@prints("cast")
def _cast(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    w.names[operation.result] = convert(w, a.type, w.use(a), operation.result.type.dtype)


@prints("bitcast")
def _bitcast(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    type, name = operation.result.type, w.use(a)
    source = a.type
    if source.dtype.kind == "bool":
        byte = vector("i8", source.width)
        name = w.let(f"zext {llvm(source)} {name} to {byte}")
        w.names[operation.result] = w.let(f"bitcast {byte} {name} to {llvm(type)}")
    elif type.dtype.kind == "bool":
        byte = vector("i8", type.width)
        bits = w.let(f"bitcast {llvm(source)} {name} to {byte}")
        w.result(operation, f"icmp ne {byte} {bits}, {zero_bytes(type.width)}")
    else:
        w.result(operation, f"bitcast {llvm(source)} {name} to {llvm(type)}")


def zero_bytes(width: int) -> str:
    """Return a constant of zero bytes."""
    return "0" if width == 1 else "zeroinitializer"


def convert(w: Writer, type: Type, name: str, to: DType) -> str:
    """Return a value of a type converted to another element type."""
    source, width = type.dtype, type.width
    if source is to:
        return name
    if source in _HALF:
        return convert(w, Type(float32, width), widen(w, source, width, name), to)
    if to in _HALF:
        return narrow(w, to, width, _nearly(w, type, name, to))
    result = Type(to, width)
    of, into = llvm(type), llvm(result)
    if to.kind == "bool":
        test = "fcmp une" if source.kind == "float" else "icmp ne"
        return w.let(f"{test} {of} {name}, {zero(type)}")
    if source.kind == "bool":
        ones = "1" if to.kind != "float" else "0x3FF0000000000000"
        every = w.splat(element(to), width, ones)
        return w.let(f"select {of} {name}, {into} {every}, {into} {zero(result)}")
    if source.kind == "float" and to.kind == "float":
        return w.let(
            f"{'fpext' if to.itemsize > source.itemsize else 'fptrunc'} {of} {name} to {into}"
        )
    if source.kind == "float":
        return _saturated(w, type, name, to)
    if to.kind == "float":
        return w.let(f"{letter(source)}itofp {of} {name} to {into}")
    if to.itemsize == source.itemsize:
        return name
    if to.itemsize < source.itemsize:
        return w.let(f"trunc {of} {name} to {into}")
    return w.let(f"{letter(source).replace('u', 'z')}ext {of} {name} to {into}")


def _saturated(w: Writer, type: Type, name: str, to: DType) -> str:
    """Return floats as integers clamped to their limits, NaN as 0.

    For vectors, llvm.fptosi.sat works one lane at a time. Below the lower limit, which every float
    type represents exactly, one ``select`` also handles NaN; the same holds above an upper limit
    that is exact. An inexact upper limit is selected afterwards; the undefined conversion beyond it
    is frozen.
    """
    of, result = llvm(type), Type(to, type.width)
    into, sign = llvm(result), letter(to)
    if type.width == 1:
        call = f"llvm.fpto{sign}i.sat.{suffix(element(to))}.{suffix(element(type.dtype))}"
        return w.call(into, call, (of, name))
    one, mask = element(type.dtype), vector("i1", type.width)
    bits = to.itemsize * 8
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "s" else (0, 2**bits - 1)

    def constant(n: float) -> str:
        return w.splat(one, type.width, number(n, type.dtype))

    def choose(test: str, x: str, y: str) -> str:
        return w.let(f"select {mask} {w.let(f'fcmp {test} {of} {x}, {y}')}, {of} {x}, {of} {y}")

    held = bits < (32 if type.dtype is float32 else 64)
    near = choose("ogt", name, constant(low))
    if held:
        near = choose("olt", near, constant(high))
    made = w.let(f"fpto{sign}i {of} {near} to {into}")
    if not held:
        above = w.let(f"fcmp oge {of} {name}, {constant(high + 1)}")
        top = w.splat(element(to), type.width, str(high))
        made = w.let(
            f"select {mask} {above}, {into} {top}, {into} {w.let(f'freeze {into} {made}')}"
        )
    if sign == "u":
        return made
    nan = w.let(f"fcmp uno {of} {name}, {name}")
    return w.let(f"select {mask} {nan}, {into} {zero(result)}, {into} {made}")


def _nearly(w: Writer, type: Type, name: str, to: DType) -> str:
    """Return a number as a float32 whose rounding to a half type equals a single rounding."""
    source, width = type.dtype, type.width
    if source.itemsize == 8 and source.kind != "float":
        if to is float16:  # a number beyond float32 is infinite in float16
            return convert(w, type, name, float32)
        type, name = Type(float64, width), convert(w, type, _sticky(w, type, name), float64)
    elif source.kind in ("int", "uint") and source.itemsize == 4 and to is bfloat16:
        type, name = Type(float64, width), convert(w, type, name, float64)
    if type.dtype is float64:
        return odd(w, width, name)
    return convert(w, type, name, float32)


def _sticky(w: Writer, type: Type, name: str) -> str:
    """Return 64-bit integers exact in float64 that round to few bits like the given ones."""
    of, width = llvm(type), type.width
    signed = type.dtype.kind == "int"
    moved, limit = name, 2**53
    if signed:
        moved, limit = w.let(f"add {of} {name}, {w.splat('i64', width, str(2**53))}"), 2**54
    small = w.let(f"icmp ule {of} {moved}, {w.splat('i64', width, str(limit))}")
    low = w.let(f"and {of} {name}, {w.splat('i64', width, '2047')}")
    lost = w.let(f"icmp ne {of} {low}, {zero(type)}")
    bit = w.let(f"zext {vector('i1', width)} {lost} to {of}")
    sticky = w.let(f"shl {of} {bit}, {w.splat('i64', width, '11')}")
    kept = w.let(f"or {of} {w.let(f'sub {of} {name}, {low}')}, {sticky}")
    return w.let(f"select {vector('i1', width)} {small}, {of} {name}, {of} {kept}")
