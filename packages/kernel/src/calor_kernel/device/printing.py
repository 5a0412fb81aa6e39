"""What toolchains share whose text a driver compiles.

Requirements: printing needs no driver, so that a toolchain is pickled to worker processes, and one
without a device prints all the same.
"""

from __future__ import annotations

from calor.errors import CompileError
from calor_kernel.device.protocol import Toolchain
from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers import Dialect, print_kernel


class PrintingToolchain(Toolchain):
    """A toolchain whose text is of a dialect of C.

    ``number``: the device's place in the list of all; None for one that only prints.
    """

    dialect: Dialect
    number: int | None = None

    def source(self, kernel: Kernel) -> str:
        """Return the text; CompileError where the dialect has not what the kernel asks for."""
        return print_kernel(kernel, self.dialect)

    def place(self) -> int:
        """Return the device's place; CompileError where there is no device to compile for."""
        if self.number is None:
            raise CompileError(
                f"this toolchain prints {self.dialect.name} and compiles for no device"
            )
        return self.number
