"""The state of the CPU device, for ``python -m calor doctor``.

Requirements: those of calor_kernel.device.diagnosis.
"""

from __future__ import annotations

import os
from typing import Final

from calor_cpu.llvm import binding
from calor_cpu.pool import default_threads
from calor_cpu.target import VARIABLE, target_of
from calor_kernel.device.diagnosis import Row, found, package
from calor_kernel.device.images import image_storage

INSTALL: Final = "pip install llvmlite brings it"
_WIDE: Final = 32


def diagnosis() -> list[Row]:
    """Return rows of components and their state."""
    looks = [("LLVM", _llvm), ("processor", _processor), ("threads", _threads)]
    return found([*looks, ("kernels", _kernels)])


def _llvm() -> str:
    version = ".".join(map(str, binding().llvm_version_info))
    return f"{version}, by llvmlite {package('llvmlite', INSTALL)}"


def _processor() -> str:
    target = target_of()
    told = f"{target.cpu} ({target.architecture}), vectors of {target.vector_bytes} bytes"
    if os.environ.get(VARIABLE):
        return f"{told}, as {VARIABLE} says"
    if target.is_x86 and target.vector_bytes < _WIDE:
        return f"{told}: it has no AVX2, so that kernels are slower than they could be"
    return told


def _threads() -> str:
    used, there = default_threads(), os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    told = f"{used}, where the machine has {there} processors"
    if used > allowed:
        return f"{told} and this process may use {allowed}: set CALOR_CPU_THREADS to that"
    return told


def _kernels() -> str:
    """Return the directory of compiled kernels, or the remedy if it is not writable."""
    directory = image_storage().directory
    if directory is None:
        return "CALOR_CACHE says that none are kept: each process compiles its own"
    # A missing directory is created in its nearest existing parent.
    nearest = next(p for p in (directory, *directory.parents) if p.exists())
    if os.access(nearest, os.W_OK):
        return f"kept in {directory}"
    return f"{directory} cannot be written: each process compiles its own; set CALOR_CACHE_DIR"
