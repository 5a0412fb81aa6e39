"""LLVM, imported when it is first needed and made ready once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from calor.errors import CompileError

# Kernels are written in the order in which the registers of their tiles suffice. LLVM's scheduler
# takes all loads of a step first, now and then, and spills; the processor finds the order anyway.
# An option of LLVM holds for the whole process.
OPTIONS: Final = ("-enable-misched=false",)
# Whether LLVM looks for cheaper ways to step addresses through loops.
_STEPS: Final = "-disable-lsr"
_EMITTING = threading.Lock()


@cache
def binding() -> Any:
    """Return llvmlite's binding with the host's code generator ready; CompileError without it."""
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        raise CompileError(
            f"LLVM does not load ({error}); pip install --force-reinstall llvmlite"
        ) from error
    for option in OPTIONS:
        llvm.set_option("calor", option)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def all_targets() -> Any:
    """Return llvmlite's binding with the code generators of all architectures ready."""
    llvm = binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@contextmanager
def emitting(*, cheaper_steps: bool) -> Iterator[None]:
    """Let one thread emit code, with or without the search for cheaper steps of addresses."""
    with _EMITTING:
        if cheaper_steps:
            yield
            return
        binding().set_option("calor", f"{_STEPS}=true")
        try:
            yield
        finally:
            binding().set_option("calor", f"{_STEPS}=false")
