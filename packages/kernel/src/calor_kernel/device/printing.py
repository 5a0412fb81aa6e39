"""The common base of toolchains whose driver compiles text.

Requirements: printing needs no driver, so a toolchain is pickled to worker processes, and a
toolchain without a device can print.
"""

from __future__ import annotations

from calor.errors import CompileError
from calor_kernel.device.protocol import Toolchain
from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers import Dialect, print_kernel


class PrintingToolchain(Toolchain):
    """A toolchain that prints a C dialect.

    ``number``: the device's index in the list of all devices; None only for printing.
    """

    dialect: Dialect
    number: int | None = None

    def classes(self) -> tuple[type, ...]:
        """Return the toolchain's classes, and those of its dialect."""
        return (*super().classes(), *type(self.dialect).__mro__)

    def source(self, kernel: Kernel) -> str:
        """Return the text; CompileError if the dialect lacks a required construct."""
        return print_kernel(kernel, self.dialect)

    def place(self) -> int:
        """Return the device's index; CompileError if there is no device."""
        if self.number is None:
            raise CompileError(
                f"this toolchain prints {self.dialect.name} and compiles for no device"
            )
        return self.number
