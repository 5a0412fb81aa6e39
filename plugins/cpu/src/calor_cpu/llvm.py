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
# What LLVM does for addresses: cheaper steps through loops, and computing them beside their use.
_ADDRESSES: Final = ("-disable-lsr", "-disable-cgp")
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
def emitting(*, with_addresses: bool) -> Iterator[None]:
    """Let one thread emit code, with or without LLVM's work on addresses."""
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
