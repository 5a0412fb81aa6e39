"""Asynchronous copies to local memory, by inline PTX.

Requirements: OpenCL 1.2 has only copies that a whole work-group makes, without zeros for what is
masked off. A pointer to local memory is its address in shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.printers import ptx
from calor_kernel.printers.dialect import Statement
from calor_kernel.printers.printer import Printer


def _copy(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an asynchronous copy of 4, 8 or 16 bytes."""

    def function(name: str, code: str) -> str:
        return (
            f"{printer.dialect.function_prefix} void {name}("
            f"__local void *to, __global const void *of, uint taken) {{\n"
            f'  asm volatile("{code}" : : "r"((uint)(size_t)to), "l"(of), "r"(taken) : "memory");'
            "\n}"
        )

    ptx.copy(printer, operation, function)


STATEMENTS: Final[Mapping[str, Statement]] = MappingProxyType(
    {"copy_async": _copy, "commit_async": ptx.commit, "wait_async": ptx.wait}
)
NOTHING: Final[Mapping[str, Statement]] = MappingProxyType({})
