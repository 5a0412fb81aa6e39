"""Runs kernels that were printed as ISO C: the system's compiler, and ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers import PlainC, bits_of, print_kernel

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
OPTIONS = ("-std=c11", "-O1", "-ffp-contract=off", "-shared", "-fPIC")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-parameter")
QUIET = ("-Wno-unused-function", "-Wno-type-limits", "-Wno-unused-variable")


@cache
def compiles(*options: str) -> bool:
    """Return whether the compiler has what these options ask for."""
    try:
        compile_c("void nothing(void) {}", "nothing", *options)
    except (AssertionError, OSError):
        return False
    return True


def compile_c(source: str, name: str, *options: str) -> Any:
    """Return the function of a text; AssertionError with the compiler's words."""
    assert COMPILER is not None
    with tempfile.TemporaryDirectory() as folder:
        path, library = Path(folder, "kernel.c"), Path(folder, "kernel.so")
        path.write_text(source)
        asked = (*OPTIONS, *WARNINGS, *QUIET, *options)
        command = [COMPILER, *asked, "-o", str(library), str(path), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{source}"
        function = getattr(ctypes.CDLL(str(library)), name)
    function.restype = None
    function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    return function


def run_c(
    kernel: Kernel, cubes: tuple[int, int, int], arguments: Sequence[Any], *options: str
) -> None:
    """Run a kernel over arrays, in place, with numbers in the low bytes of their slots."""
    dialect = PlainC()
    name = dialect.entry(kernel.name)
    function = compile_c(print_kernel(kernel, dialect), name, *options)
    slots = np.zeros(len(arguments) + 3, np.uint64)
    for place, (parameter, given) in enumerate(zip(kernel.parameters, arguments, strict=True)):
        if isinstance(given, np.ndarray):
            slots[place] = given.ctypes.data
        else:
            slots[place] = bits_of(given, parameter.declared.dtype)
    slots[len(arguments) :] = cubes
    function(slots.ctypes.data, 0, prod(cubes))
