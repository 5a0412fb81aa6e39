"""Products of fragments by the matrix instructions of CDNA (MFMA) and RDNA 3 (WMMA).

Requirements: an instruction is a row; operands of half types are passed as their bits. (Names are
those of clang's builtins; :mod:`calor_kernel.language.matrices` defines the elements of each lane.)
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.printer import Printer

# The builtin, and its type of an operand's element.
_FUNCTIONS: Final = MappingProxyType(
    {
        "mfma_32x32x8_float16": ("mfma_f32_32x32x8f16", "_Float16"),
        "mfma_16x16x16_float16": ("mfma_f32_16x16x16f16", "_Float16"),
        "mfma_32x32x8_bfloat16": ("mfma_f32_32x32x8bf16_1k", "short"),
        "mfma_16x16x16_bfloat16": ("mfma_f32_16x16x16bf16_1k", "short"),
        "mfma_32x32x2_float32": ("mfma_f32_32x32x2f32", "float"),
        "mfma_16x16x4_float32": ("mfma_f32_16x16x4f32", "float"),
        "wmma_16x16x16_float16": ("wmma_f32_16x16x16_f16_w32", "_Float16"),
        "wmma_16x16x16_bfloat16": ("wmma_f32_16x16x16_bf16_w32", "short"),
    }
)
_CDNA: Final = frozenset(name for name in _FUNCTIONS if name.startswith("mfma"))
# Instructions by the processor's name for clang. MFMA of gfx90a flushes float16 denormals, so its
# float16 products use float32.
MATRICES: Final = MappingProxyType(
    {
        "gfx90a": frozenset(name for name in _CDNA if not name.endswith("_float16")),
        "gfx942": _CDNA,
        "gfx950": _CDNA,
        **dict.fromkeys(
            ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151"),
            frozenset(name for name in _FUNCTIONS if name.startswith("wmma")),
        ),
    }
)


def mma(printer: Printer, operation: Operation, block: Block) -> None:
    """Print c + a @ b."""
    shape = operation.attributes["fragments"][0].shape
    if shape.name not in _FUNCTIONS:
        printer.dialect.refuse(f"matrix instruction {shape.name}")
    function, element = _FUNCTIONS[shape.name]
    operands = [printer.operand(v) for v in operation.operands]
    types = [v.type for v in operation.operands]
    a, b, c = (printer.dialect.type(type) for type in types)
    lines = [f"typedef float Sums __attribute__((vector_size({types[2].nbytes})));"]
    factors = ["a", "b"]
    if types[0].width > 1:
        lines.append(f"typedef {element} Factors __attribute__((vector_size({types[0].nbytes})));")
        factors = [f"__builtin_bit_cast(Factors, {name})" for name in factors]
    given = [*factors, "__builtin_bit_cast(Sums, c)", *(["0"] * 3 if "mfma" in function else ())]
    lines.append(f"Sums sums = __builtin_amdgcn_{function}({', '.join(given)});")
    lines.append(f"return __builtin_bit_cast({c}, sums);")
    body = [f"  {line}\n" for line in lines]
    text = (
        f"{printer.dialect.function_prefix} {c} {shape.name}({a} a, {b} b, {c} c) {{\n"
        f"{''.join(body)}}}"
    )
    made = ex.call(printer.helpers.add(shape.name, text), *operands)
    printer.effect(operation, block, made, "product")
