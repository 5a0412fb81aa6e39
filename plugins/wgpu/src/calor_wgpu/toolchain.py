"""From a kernel to an image: the text of a WGSL module, which the driver compiles where it runs.

Requirements: printing needs no driver, and checking only a device, made where it is needed, so that
a toolchain is pickled to worker processes.
"""

from __future__ import annotations

from calor_kernel.device.printing import PrintingToolchain
from calor_kernel.ir.nodes import Kernel

from .wgsl import WGSL, print_wgsl


class WgpuToolchain(PrintingToolchain):
    """Kernels as WGSL. ``number``: the adapter's place in the list of all; None only prints."""

    dialect: WGSL

    def __init__(self, dialect: WGSL, target: str, number: int | None = None) -> None:
        self.dialect = dialect
        self.target = target
        self.number = number

    def source(self, kernel: Kernel) -> str:
        """Return WGSL; CompileError where the adapter has not what the kernel asks for."""
        return print_wgsl(kernel, self.dialect)

    def compile(self, source: str, name: str) -> bytes:
        """Return the text, once it is found valid; CompileError with the message and the text."""
        from ._bindings import module

        module(self.place(), source, name)
        return source.encode()
