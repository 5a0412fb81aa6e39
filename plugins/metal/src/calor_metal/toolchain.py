"""Compilation of a kernel to an image for Apple's GPUs: its text, validated by Metal.

Requirements: printing needs no Metal, so a toolchain can be pickled to worker processes. Metal
compiles a text in the process that runs it, and caches the result on disk itself, so an image is
the text. A process compiles a text once, even if it is first validated and then loaded.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Any

from calor.errors import CompileError
from calor_kernel.device.printing import PrintingToolchain

from ._bindings import bindings, devices, message
from .dialect import Metal


class MetalToolchain(PrintingToolchain):
    """Kernels as text of the Metal Shading Language.

    ``number`` is the device's index in the list of all; None makes a toolchain that only prints.
    """

    def __init__(self, target: str, number: int | None = None) -> None:
        self.dialect = Metal()
        self.target = target
        self.number = number
        self._pipelines: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pipelines": {}}

    def metal(self) -> Any:
        """Return the module with Metal's names."""
        return bindings()

    def pool(self) -> AbstractContextManager[Any]:
        """Return the autorelease context: temporaries of Metal are released at its end."""
        made: AbstractContextManager[Any] = importlib.import_module("objc").autorelease_pool()
        return made

    def compile(self, source: str, name: str) -> bytes:
        """Return the text as an image.

        Raises
        ------
        CompileError
            If Metal refuses the text; the message is Metal's.
        """
        self.pipeline(source, name)
        return source.encode()

    def pipeline(self, source: str, name: str) -> Any:
        """Return the compute pipeline state of a text's kernel."""
        found = self._pipelines.get(source)
        if found is None:
            number = self.place()
            with self.pool():
                found = self._pipelines.setdefault(source, self._made(source, name, number))
        return found

    def _made(self, source: str, name: str, number: int) -> Any:
        metal = self.metal()
        device = devices(metal)[number]
        options = metal.MTLCompileOptions.new()
        options.setLanguageVersion_(metal.MTLLanguageVersion3_2)
        options.setMathMode_(metal.MTLMathModeSafe)
        options.setMathFloatingPointFunctions_(metal.MTLMathFloatingPointFunctionsPrecise)
        library, error = device.newLibraryWithSource_options_error_(source, options, None)
        if library is None:
            raise CompileError(f"Metal refuses kernel {name!r}: {message(error)}\n{source}")
        function = library.newFunctionWithName_(self.dialect.entry(name))
        made, error = device.newComputePipelineStateWithFunction_error_(function, None)
        if made is None:
            raise CompileError(f"Metal makes no pipeline of {name!r}: {message(error)}\n{source}")
        return made
