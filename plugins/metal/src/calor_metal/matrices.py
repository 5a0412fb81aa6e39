"""Products of fragments by simdgroup_matrix (6.7).

Requirements: ``thread_elements`` names a lane's elements; their positions are those of the shapes
in :mod:`calor_kernel.language.matrices`. Products of half types are summed in float32, so their
operands become float matrices first, as in MLX.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.printer import Printer

_PREFIX = "simdgroup_8x8x8_"
MATRICES: Final = frozenset(_PREFIX + d.name for d in (float16, bfloat16, float32))


def mma(printer: Printer, operation: Operation, block: Block) -> None:
    """Print c + a @ b of fragments of 8 × 8 elements, two for each lane."""
    shape = operation.attributes["fragments"][0].shape
    if not shape.name.startswith(_PREFIX):
        printer.dialect.refuse(f"matrix instruction {shape.name}")
    operands = [printer.operand(v) for v in operation.operands]
    types = [printer.dialect.type(v.type) for v in operation.operands]
    name = f"{_PREFIX}{shape.a_dtype.name}"
    matrix, total = "simdgroup_float8x8", printer.dialect.types[float32]
    sets = "".join(
        f"  {m}.thread_elements()[{i}] = ({total}){m.lower()}.{'xy'[i]};\n"
        for m in "ABC"
        for i in (0, 1)
    )
    text = (
        f"{printer.dialect.function_prefix} {types[2]} {name}({types[0]} a, {types[1]} b, "
        f"{types[2]} c) {{\n  {matrix} A, B, C, D;\n{sets}"
        f"  simdgroup_multiply_accumulate(D, A, B, C);\n"
        f"  return {types[2]}(D.thread_elements()[0], D.thread_elements()[1]);\n}}"
    )
    made = ex.call(printer.helpers.add(name, text), *operands)
    printer.effect(operation, block, made, "product")
