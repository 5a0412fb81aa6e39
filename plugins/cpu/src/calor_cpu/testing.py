"""Runs one kernel on NumPy arrays, for tests and experiments."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from calor.dtypes import DType
from calor_cpu.loader import LoadedImage
from calor_cpu.toolchain import LlvmToolchain
from calor_kernel.errors import KernelCheckError
from calor_kernel.ir.nodes import Kernel

_FORMATS: Final = {"bool": "?", "int": "bhiq", "uint": "BHIQ"}


def slot(value: float, dtype: DType) -> bytes:
    """Return a number as a kernel's argument, in the low bytes of eight."""
    if dtype.kind == "bool":
        return struct.pack("<?7x", value)
    if dtype.kind in ("int", "uint"):
        code = _FORMATS[dtype.kind][dtype.itemsize.bit_length() - 1]
        return struct.pack(f"<{code}", int(value)).ljust(8, b"\0")
    return np.asarray(value, dtype.numpy).tobytes().ljust(8, b"\0")


def run(
    kernel: Kernel,
    cubes: int | Sequence[int],
    arguments: Sequence[Any],
    *,
    target: str | None = None,
    toolchain: LlvmToolchain | None = None,
) -> None:
    """Compile a kernel and run all cubes in this thread.

    ``cubes`` is the count along x, or along x, y and z. ``arguments`` has for each parameter a
    contiguous NumPy array, which is written in place, an (array, element offset), or a number.
    ``target`` is as CALOR_CPU_TARGET.

    Raises
    ------
    KernelCheckError
        If an assertion of the kernel fails.
    """
    toolchain = toolchain or LlvmToolchain(target)
    image = LoadedImage(toolchain.compile(toolchain.source(kernel), kernel.name), kernel.name)
    counts = (cubes, 1, 1) if isinstance(cubes, int) else (*cubes, 1, 1)[:3]
    word = ctypes.c_int32(0)
    slots = [struct.pack("<q", ctypes.addressof(word)), *_slots(kernel, arguments)]
    block = ctypes.create_string_buffer(b"".join(slots) + struct.pack("<3q", *counts))
    image.call(ctypes.addressof(block) + 8, 0, counts[0] * counts[1] * counts[2])
    if word.value:
        raise KernelCheckError(image.message(word.value))


def _slots(kernel: Kernel, arguments: Sequence[Any]) -> list[bytes]:
    slots = []
    for parameter, given in zip(kernel.parameters, arguments, strict=True):
        dtype = parameter.declared.dtype
        if parameter.memory is None:
            slots.append(slot(given, dtype))
            continue
        array, offset = given if isinstance(given, tuple) else (given, 0)
        if array.dtype != dtype.numpy or not array.flags.c_contiguous:
            raise TypeError(
                f"{parameter.name!r} is a contiguous array of {dtype}, not {array.dtype}"
            )
        slots.append(struct.pack("<q", array.ctypes.data + offset * dtype.itemsize))
    return slots
