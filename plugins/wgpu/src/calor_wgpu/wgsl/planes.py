"""What the units of a plane do together in WGSL, out of shuffles.

Requirements: the order of sums, and NaN and zeros in min and max, are those of every other device,
which the language's own reductions leave open; a function does not know where its unit is, so that
it is told; 64 bits are shuffled in halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calor.dtypes import DType, bool_, int64, uint32, uint64
from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.planes import identity
from calor_kernel.printers.units import plane as alone

if TYPE_CHECKING:
    from .printer import WGSLPrinter

_LANE = Expression("lane")


def plane(printer: WGSLPrinter, operation: Operation, block: Block) -> None:
    """Print an operation of a plane, at the place where all its units meet."""
    if printer.kernel.plane == 1:
        alone(printer, operation, block)
        return
    if any(v.type.width > 1 for v in (*operation.operands, *operation.results)):
        printer.dialect.refuse(f"{operation.name} of vectors")
    if printer.dialect.lanes == 1:
        printer.dialect.refuse("subgroups")
    operands = [printer.operand(v) for v in operation.operands]
    if printer.dialect.diverges:
        operands = [
            printer.named(e, v.type) for e, v in zip(operands, operation.operands, strict=True)
        ]
        printer.line("subgroupBarrier();")
    made = _made(printer, operation, operands)
    printer.effect(operation, block, made, operation.name.removeprefix("plane_"))


def _made(printer: WGSLPrinter, operation: Operation, operands: list[Expression]) -> Expression:
    dtype = operation.operands[0].type.dtype
    kind = operation.attributes.get("kind", "index")
    if operation.name == "plane_shuffle":
        other = printer.dialect.cast(uint32, operands[1])
        return ex.call(_shuffle(printer, kind, dtype), operands[0], other, _LANE)
    if operation.name == "plane_reduce":
        return ex.call(_reduction(printer, kind, dtype), operands[0], _LANE)
    if operation.name == "plane_scan":
        exclusive = bool(operation.attributes.get("exclusive", False))
        return ex.call(_scan(printer, kind, dtype, exclusive), operands[0], _LANE)
    wide = uint64 if printer.kernel.plane > 32 else uint32
    zero, one = (printer.dialect.literal(n, wide).text for n in (0, 1))
    bit = Expression(f"select({zero}, {one} << lane, {operands[0].text})")
    made = ex.call(_reduction(printer, "or", wide), bit, _LANE)
    return printer.scalars.cast(made, wide, operation.result.type.dtype)


def _shuffle(printer: WGSLPrinter, kind: str, dtype: DType) -> str:
    """Return the function (value, lane or distance, own lane) of a shuffle."""
    dialect, size = printer.dialect, printer.kernel.plane
    held = dialect.held(dtype)
    type, name = dialect.types[held], f"fn_shuffle_{kind}_{held.name}"
    source = {
        "index": "at",
        "xor": "own ^ at",
        "up": "select(own - at, own, own < at)",
        "down": f"select(own + at, own, own + at >= {size}u)",
    }[kind]
    if dtype.itemsize == 8 and dialect.types[int64] == "i64":
        to = f"bitcast<{type}>" if type != "u64" else ""
        halves = "u64(subgroupShuffle(u32(w), of_)) | "
        halves += "(u64(subgroupShuffle(u32(w >> 32u), of_)) << 32u)"
        body = f"  let w = bitcast<u64>(x);\n  return {to}({halves});\n"
    elif dtype is bool_:
        body = "  return subgroupShuffle(u32(x), of_) != 0u;\n"
    else:
        body = "  return subgroupShuffle(x, of_);\n"
    head = f"fn {name}(x: {type}, at: u32, own: u32) -> {type} {{\n  let of_ = {source};\n"
    return printer.helpers.add(name, f"{head}{body}}}")


def _combined(printer: WGSLPrinter, kind: str, dtype: DType, a: str, b: str) -> str:
    type = Type(dtype)
    pair = [Expression(a), Expression(b)]
    return printer.scalars.operation(kind, type, [type, type], pair, {}).text


def _distances(printer: WGSLPrinter) -> list[int]:
    plane = printer.kernel.plane
    return [plane >> i for i in range(1, plane.bit_length())]


def _function(printer: WGSLPrinter, name: str, dtype: DType, lines: list[str]) -> str:
    type = printer.dialect.type(Type(dtype))
    body = "".join(f"  {line}\n" for line in ("var x = v;", *lines, "return x;"))
    return printer.helpers.add(name, f"fn {name}(v: {type}, own: u32) -> {type} {{\n{body}}}")


def _reduction(printer: WGSLPrinter, kind: str, dtype: DType) -> str:
    shuffle = _shuffle(printer, "xor", dtype)
    lines = [
        f"x = {_combined(printer, kind, dtype, 'x', f'{shuffle}(x, {d}u, own)')};"
        for d in _distances(printer)
    ]
    return _function(printer, f"fn_plane_{kind}_{dtype.name}", dtype, lines)


def _scan(printer: WGSLPrinter, kind: str, dtype: DType, exclusive: bool) -> str:
    # Hillis and Steele, "Data parallel algorithms", 1986.
    shuffle = _shuffle(printer, "up", dtype)
    lines = [f"var y: {printer.dialect.type(Type(dtype))};"]
    for distance in reversed(_distances(printer)):
        lines.append(f"y = {shuffle}(x, {distance}u, own);")
        combined = _combined(printer, kind, dtype, "y", "x")
        lines.append(f"x = select(x, {combined}, own >= {distance}u);")
    if exclusive:
        neutral = printer.dialect.literal(identity(kind, dtype), dtype).text
        lines.append(f"y = {shuffle}(x, 1u, own);")
        lines.append(f"x = select(y, {neutral}, own == 0u);")
    name = f"fn_plane_{'exclusive_' if exclusive else ''}scan_{kind}_{dtype.name}"
    return _function(printer, name, dtype, lines)
