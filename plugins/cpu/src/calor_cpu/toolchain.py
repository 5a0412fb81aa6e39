"""Compilation of a kernel to an object file in memory, by LLVM.

Requirements: it is pure and picklable (compile workers), so LLVM's objects are created on use.
calor's own passes run and none of LLVM's, which do not speed up vectorised code and take as long as
the code generator. Code for a foreign target is compiled, never run. If all kernels are cached, the
printers are not imported.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, Final

from calor.errors import CompileError
from calor_cpu.llvm import OPTIONS, all_targets, binding, emitting
from calor_cpu.processor import processor
from calor_cpu.target import Target, native, target_of
from calor_kernel.device.images import image_storage
from calor_kernel.device.protocol import Toolchain
from calor_kernel.ir.nodes import Kernel

LEVEL: Final = 2  # optimization level of LLVM's code generator
# Texts with more lines are tiles of many registers, where address arithmetic is a small part of the
# work. LLVM's optimizations of addresses take longer there than all else together, without a gain.
# Short loops over rows are a tenth slower without them.
LONG: Final = 1000


class LlvmToolchain(Toolchain):
    """Kernels as LLVM text and as object files for a target, by default this processor."""

    def __init__(self, target: Target | str | None = None) -> None:
        self.processor = target if isinstance(target, Target) else target_of(target)
        options = "".join(OPTIONS)
        self.target = f"llvm-{processor().llvm}{options}<{LONG} {self.processor}"

    def prepare(self) -> None:
        """Load LLVM and make the code generator."""
        _machine(self.processor)

    def source(self, kernel: Kernel) -> str:
        """Return the kernel as LLVM text.

        Raises
        ------
        CompileError
            If the kernel needs something that a CPU lacks.
        """
        from calor_cpu.printer import print_kernel
        from calor_kernel.ir.passes import optimize

        return print_kernel(optimize(kernel), self.processor)

    def compile(self, source: str, name: str) -> bytes:
        """Return the object file of a text.

        Raises
        ------
        CompileError
            If LLVM refuses the text; the message has both.
        """
        machine = _machine(self.processor)
        module = _module(source, name, machine)
        with emitting(with_addresses=_is_short(source)):
            return bytes(machine.emit_object(module))

    def assembly(self, source: str, name: str) -> str:
        """Return the assembly of a text, for reading."""
        machine = _machine(self.processor)
        module = _module(source, name, machine)
        with emitting(with_addresses=_is_short(source)):
            return str(machine.emit_assembly(module))


def compile_once(source: str) -> bytes:
    """Return the object file of a text for this machine, from the disk cache if possible."""
    toolchain = LlvmToolchain(native())
    storage = image_storage()
    key = hashlib.sha256(f"{toolchain.target}\n{source}".encode()).hexdigest()
    image = storage.read(key)
    if image is None:
        image = toolchain.compile(source, "text")
        storage.write(key, image)
    return image


def _is_short(source: str) -> bool:
    return source.count("\n") <= LONG


def _module(source: str, name: str, machine: Any) -> Any:
    try:
        module = binding().parse_assembly(source)
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM refuses kernel {name!r}: {error}\n{source}") from error
    return module


@cache
def _machine(target: Target) -> Any:
    """Return LLVM's code generator for a target; a process has one for each."""
    llvm = binding() if target.runs else all_targets()
    try:
        found = llvm.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise CompileError(
            f"this build of LLVM has no code generator for {target.triple}: {error}"
        ) from error
    return found.create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=LEVEL,
        reloc="pic",
        codemodel="small",
    )
