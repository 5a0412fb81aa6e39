"""Minimums and maximums of floats, and rounding to bfloat16, by inline PTX.

Requirements: in OpenCL C each takes a few comparisons and choices. NVIDIA devices of compute
capability 8.0 and newer have instructions with the required results: NaN if an operand is, negative
zero below positive zero (PTX ISA, 9.7.3), and halves rounded to the nearest even.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor.dtypes import DType, bfloat16, float32
from calor_kernel.ir.nodes import Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Helpers
from calor_kernel.printers.expressions import Expression

_EXTREMES: Final = ("min", "max")


def helper(name: str, dtypes: Sequence[DType]) -> tuple[str, str] | None:
    """Return the name and text of a function that replaces a helper, or None."""
    if name in _EXTREMES and tuple(dtypes) == (float32,):
        return f"{name}_float32", (
            f"static inline float {name}_float32(float a, float b) {{\n  float y;\n"
            f'  asm("{name}.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));\n  return y;\n}}'
        )
    if name == "of_float32" and tuple(dtypes) == (bfloat16,):
        return "bfloat16_of_float32", (
            "static inline ushort bfloat16_of_float32(float x) {\n  ushort y;\n"
            '  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));\n  return y;\n}'
        )
    return None


def of_vectors(
    operation: Operation, operands: Sequence[Expression], helpers: Helpers
) -> Expression | None:
    """Return an extreme of each lane, or vectors rounded in pairs; None for other operations."""
    source, target = operation.operands[0].type, operation.result.type
    if operation.name in _EXTREMES and source.dtype is float32 and source.width > 1:
        own = helper(operation.name, (float32,))
        assert own is not None
        return ex.call(helpers.add(*_by_lanes(helpers.add(*own), source.width)), *operands)
    rounds = operation.name == "cast" and source.dtype is float32 and target.dtype is bfloat16
    if rounds and target.width > 1:
        return ex.call(helpers.add(*_rounded(target.width)), *operands)
    return None


def _by_lanes(function: str, width: int) -> tuple[str, str]:
    name, vector = f"{function}x{width}", f"float{width}"
    lanes = ", ".join(f"{function}(a.s{i:x}, b.s{i:x})" for i in range(width))
    head = f"static inline {vector} {name}({vector} a, {vector} b)"
    return name, f"{head} {{\n  return ({vector})({lanes});\n}}"


def _rounded(width: int) -> tuple[str, str]:
    """Return the function that rounds an even number of lanes to bfloat16, two at once."""
    name, words = f"bfloat16x{width}_of_float32", "" if width == 2 else str(width // 2)
    parts = [f".s{i:x}" for i in range(width // 2)] if words else [""]
    lines = "".join(
        f'  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w{i}) : '
        f'"f"(x.s{2 * i + 1:x}), "f"(x.s{2 * i:x}));\n'
        for i in range(len(parts))
    )
    named = ", ".join(f"w{i}" for i in range(len(parts)))
    made = f"(uint{words})({named})" if words else named
    return name, (
        f"static inline ushort{width} {name}(float{width} x) {{\n  uint {named};\n{lines}"
        f"  return as_ushort{width}({made});\n}}"
    )
