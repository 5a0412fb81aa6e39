"""Asynchronous warp-group products, as PTX of compute capability 9.0 (wgmma).

Requirements: factors are in shared memory, in swizzled blocks of 128 bytes by eight lines; other
layouts are refused. The left factor may be in registers instead. Sums stay in the instruction's
registers until the wait, which names them, so nothing else comes between. (PTX ISA 9.7.15.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from calor.dtypes import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    int8,
    int32,
    uint8,
)
from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.ir.types import Type
from calor_kernel.language.layouts import Layout, Swizzle, Swizzled
from calor_kernel.language.matrices import MatrixShape
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer

_NAMES: Final = {
    float16: "f16",
    bfloat16: "bf16",
    float32: "tf32",
    int8: "s8",
    uint8: "u8",
    float8_e4m3fn: "e4m3",
    float8_e5m2: "e5m2",
}
# Bytes of a line of a block.
_LINE: Final = 128
_UNIT: Final = 16  # The unit of bytes in descriptors.
# The k of an instruction on two-byte factors.
_BOTH_WAYS: Final = 16
# The 128-byte swizzle in a descriptor.
_MODE: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Placed:
    """The layout of a factor: block strides in bytes along its lines and across, and its major."""

    along: int
    across: int
    transposed: bool

    @property
    def bits(self) -> int:
        """The descriptor without the address."""
        return _MODE | self.along // _UNIT << 16 | self.across // _UNIT << 32


def products(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the start of one product, with the prologue before the first of a group."""
    said, dialect = operation.attributes, printer.dialect
    shape: MatrixShape = said["shape"]
    total, left, right = operation.operands
    whole = shape.a_dtype.kind in ("int", "uint") and shape.formats is None
    sums = int32 if whole else float32
    if shape.a_dtype not in _NAMES or total.type.dtype is not sums:
        dialect.refuse(f"asynchronous {shape.name}")
    inner = left.type.width > 1
    assert operation.memory is not None
    sides = [(said["b"], (shape.k, shape.n), 0, operation.memory, right)]
    if not inner:
        sides.insert(0, (said["a"], (shape.m, shape.k), 1, said["source"], left))
    made: list[Expression] = [printer.atom(left)] if inner else []
    flags = []
    for at, extent, along_k, memory, index in sides:
        where = placed_of(at, extent, along_k, shape.a_dtype)
        if where is None:
            dialect.refuse(f"{shape.name} of factors not in swizzled lines of 128 bytes")
        flags.append(where.transposed)
        place = ex.prefix("&", printer.elements.place(memory, printer.operand(index)))
        made.append(ex.call("described", place, Expression(f"{hex(where.bits)}ull")))
    printer.helpers.add("described", _DESCRIBED)
    if any(flags) and shape.a_dtype.itemsize != 2:
        dialect.refuse(f"{shape.name} of factors not contiguous along the summed axis")
    name = f"{shape.name}_{'held_' * inner}{'_'.join('mn' if f else 'k' for f in flags)}"
    # Zero sums are not written to registers: such a write would wait for products in flight.
    fresh = said.get("fresh", False)
    name += "_first" * fresh
    printer.helpers.add(name, _text(printer, name, shape, flags, fresh))
    if not fresh:
        made.insert(0, printer.atom(total))
    printer.settle()
    # Before each product the fence protects registers of a left factor of halves, which is
    # converted there from wider numbers; for sums, and factors loaded unconverted, once before the
    # first.
    if said["first"] or (inner and shape.k == _BOTH_WAYS):
        printer.line('asm volatile("wgmma.fence.sync.aligned;" ::: "memory");')
    printer.effect(operation, block, ex.call(name, *made), "products")


@lru_cache(1024)
def placed_of(at: Any, extent: tuple[int, int], along_k: int, dtype: DType) -> Placed | None:
    """Return a factor's layout, None if no descriptor expresses it; ``along_k``: the axis of k."""
    item, line = int(dtype.itemsize), _LINE // int(dtype.itemsize)
    # The 16-byte pieces of a line are swizzled by the line's number.
    if not isinstance(at, Swizzled) or at.swizzle != Swizzle(3, {1: 4, 2: 3, 4: 2}[item], 3):
        return None
    plain: Layout = at.layout
    k, other = extent[along_k], extent[1 - along_k]

    def offset(deep: int, place: int) -> int:
        return int(plain(*((place, deep) if along_k else (deep, place))))

    by_k = offset(1, 0) == 1
    lines, dense = (other, k) if by_k else (k, other)

    def find(line: int, place: int) -> int:
        return offset(place, line) if by_k else offset(line, place)

    block = find(8, 0) if lines > 8 else 8 * line
    chunk = find(0, line) if dense > line else 0
    # A layout is a sum over its modes, so each axis is looked at alone.
    if any(find(n, 0) != n % 8 * line + n // 8 * block for n in range(lines)):
        return None
    if any(find(0, n) != n % line + n // line * chunk for n in range(dense)):
        return None
    return Placed(item * chunk if chunk else _UNIT, item * block, not by_k)


_DESCRIBED: Final = (
    "static __device__ __forceinline__ uint64 described(const void *place, uint64 rest) {\n"
    "  return rest | (uint64)((uint32)__cvta_generic_to_shared(place) >> 4 & 0x3fff);\n}"
)


def _text(
    printer: Printer, name: str, shape: MatrixShape, transposed: list[bool], fresh: bool
) -> str:
    """Return the function; ``transposed`` is ignored for a left factor in registers.

    ``fresh``: whether sums begin with this product, and are not read.
    """
    count = shape.m * shape.n // shape.lanes
    kinds = ".".join(_NAMES[f] for f in shape.formats or (shape.a_dtype, shape.a_dtype))
    type, total, register = f"float32x{count}", "f32", "f"
    # Two-byte factors may have either major; integers have no negation flags.
    flags = ", 1, 1" + "".join(f", {int(flag)}" for flag in transposed if shape.k == _BOTH_WAYS)
    if shape.c_dtype is int32:
        type, total, register, flags = f"int32x{count}", "s32", "r", ""
    sums = ", ".join(f"%{i}" for i in range(count))
    way, given = ("=", "") if fresh else ("+", f"{type} c, ")
    copied = f"  {type} c;\n" * fresh
    outputs = ", ".join(f'"{way}{register}"(c.v[{i}])' for i in range(count))
    factor, words, inputs = "uint64 a", 1, '"l"(a)'
    place = f"%{count}"
    if len(transposed) == 1:
        words = shape.m * shape.k * int(shape.a_dtype.itemsize) // (4 * shape.lanes)
        factor = printer.dialect.type(Type(shape.a_dtype, shape.a[1].size)) + " a"
        copied += f"  uint32 x[{words}];\n  memcpy(x, &a, sizeof x);\n"
        inputs = ", ".join(f'"r"(x[{i}])' for i in range(words))
        place = f"{{{', '.join(f'%{count + i}' for i in range(words))}}}"
    return (
        f"{printer.dialect.function_prefix} {type} {name}({given}{factor}, uint64 b) {{\n"
        f"{copied}"
        f'  asm volatile("wgmma.mma_async.sync.aligned.m{shape.m}n{shape.n}k{shape.k}'
        f'.{total}.{kinds}\\n"\n      "{{{sums}}},\\n"\n'
        f'      "{place}, %{count + words}, {int(not fresh)}{flags};"\n'
        f'      : {outputs}\n      : {inputs}, "l"(b));\n  return c;\n}}'
    )


def result(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the point from which sums are read, after the wait."""
    (value,) = operation.operands
    count, whole = value.type.width, value.type.dtype is int32
    type, register = (f"int32x{count}", "r") if whole else (f"float32x{count}", "f")
    name = f"settled_{type}"
    held = ", ".join(f'"+{register}"(c.v[{i}])' for i in range(count))
    printer.helpers.add(
        name,
        f"{printer.dialect.function_prefix} {type} {name}({type} c) {{\n"
        f'  asm volatile("" : {held}::"memory");\n  return c;\n}}',
    )
    printer.effect(operation, block, ex.call(name, printer.operand(value)), "settled")
