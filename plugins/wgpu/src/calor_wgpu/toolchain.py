"""Compilation of a kernel to an image: WGSL text, which the driver compiles at run time.

Requirements: printing needs no driver, so a toolchain can be pickled to worker processes, which
open no device. The driver sees the text when a launch binds buffers, and then refuses what is
invalid: their kind is a part of the text, and to compile it twice would take as long again.
"""

from __future__ import annotations

from calor_kernel.device.printing import PrintingToolchain
from calor_kernel.ir.nodes import Kernel

from .wgsl import WGSL, print_wgsl


class WgpuToolchain(PrintingToolchain):
    """Kernels as WGSL. ``number`` is the adapter's index in the list of all; None only prints."""

    dialect: WGSL

    def __init__(self, dialect: WGSL, target: str, number: int | None = None) -> None:
        self.dialect = dialect
        self.target = target
        self.number = number

    def source(self, kernel: Kernel) -> str:
        """Return WGSL.

        Raises
        ------
        CompileError
            If the kernel needs something that the adapter lacks.
        """
        return print_wgsl(kernel, self.dialect)

    def compile(self, source: str, name: str) -> bytes:
        """Return the text; the queue raises CompileError for an invalid one when it first runs."""
        return source.encode()
