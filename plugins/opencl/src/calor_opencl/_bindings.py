"""What calor-opencl uses of pyopencl, and what OpenCL's error codes mean to calor.

Requirements: every failure of the driver becomes a typed error in one place; importing this loads
the driver, so that only what runs on a device does.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import pyopencl as cl

from calor.errors import CompileError, DeviceError, DeviceLostError, OutOfMemoryError

# Codes of CL/cl.h. NVIDIA's driver answers OUT_OF_RESOURCES also after a fault of a kernel.
_MEMORY: Final = {
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
    -5: "CL_OUT_OF_RESOURCES",
    -6: "CL_OUT_OF_HOST_MEMORY",
    -61: "CL_INVALID_BUFFER_SIZE",
}
_LOST: Final = {
    -2: "CL_DEVICE_NOT_AVAILABLE",
    -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -34: "CL_INVALID_CONTEXT",
    -36: "CL_INVALID_COMMAND_QUEUE",
}


@contextmanager
def typed(what: str) -> Iterator[None]:
    """Turn errors of OpenCL into those of calor; ``what`` says what was tried."""
    try:
        yield
    except cl.Error as error:
        code = int(getattr(error, "code", 0))
        if code in _MEMORY:
            raise OutOfMemoryError(f"OpenCL: {_MEMORY[code]}: {what}") from error
        if code in _LOST:
            raise DeviceLostError(f"OpenCL: {_LOST[code]}: {what}") from error
        raise DeviceError(f"OpenCL: {what}: {error}") from error


def devices() -> list[Any]:
    """Return all devices of all platforms, in the drivers' order.

    ``CALOR_OPENCL_PLATFORM`` keeps those of platforms whose name contains it, in any case.
    """
    wanted = os.environ.get("CALOR_OPENCL_PLATFORM", "").lower()
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        # The loader says that there is no platform by an error.
        return []
    found = []
    for platform in platforms:
        if wanted not in platform.name.lower():
            continue
        try:
            found += platform.get_devices()
        except cl.Error:
            continue
    return found


def count() -> int:
    """Return how many devices there are."""
    return len(devices())


@cache
def context(number: int) -> Any:
    """Return the context of a device, one in a process."""
    with typed(f"opening device {number}"):
        return cl.Context([devices()[number]])


def build(found: Any, text: str | bytes, options: str, name: str) -> Any:
    """Return a built program of a text or a binary."""
    with warnings.catch_warnings():
        # pyopencl warns of every remark in a build log, and that its cache is passed by.
        warnings.simplefilter("ignore")
        try:
            if isinstance(text, str):
                program = cl.Program(found, text)
                program.get_info(cl.program_info.REFERENCE_COUNT)
            else:
                program = cl.Program(found, found.devices, [text])
            return program.build(options)
        except cl.Error as error:
            shown = text if isinstance(text, str) else "(a stored binary)"
            raise CompileError(f"OpenCL refuses kernel {name!r}: {error}\n{shown}") from error


def image(program: Any) -> bytes:
    """Return the binary of a program of one device, empty where the driver has none."""
    (binary,) = program.get_info(cl.program_info.BINARIES)
    return bytes(binary or b"")
