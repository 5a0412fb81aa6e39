"""LLVM, imported at its first use and initialized once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from calor.errors import CompileError

# Kernels are printed in an order in which the registers suffice for their tiles. LLVM's scheduler
# sometimes moves all loads of a step to its start and spills; the processor reorders anyway. An
# option of LLVM applies to the whole process.
OPTIONS: Final = ("-enable-misched=false",)
# LLVM's optimizations of addresses: strength reduction in loops, and computation near their use.
_ADDRESSES: Final = ("-disable-lsr", "-disable-cgp")
_EMITTING = threading.Lock()


@cache
def binding() -> Any:
    """Return llvmlite's binding with the host's code generator initialized.

    Raises
    ------
    CompileError
        If llvmlite is missing or does not load.
    """
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        raise CompileError(
            f"llvmlite does not load ({error}); run pip install --force-reinstall llvmlite"
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
def emitting(*, with_addresses: bool) -> Iterator[None]:
    """Let one thread generate code, with or without LLVM's optimization of addresses."""
    with _EMITTING:
        if with_addresses:
            yield
            return
        for option in _ADDRESSES:
            binding().set_option("calor", f"{option}=true")
        try:
            yield
        finally:
            for option in _ADDRESSES:
                binding().set_option("calor", f"{option}=false")
