"""What calor-opencl uses of pyopencl, and what OpenCL's error codes mean to calor.

Requirements: every failure of the driver becomes a typed error in one place; importing this loads
the driver, so that only what runs on a device does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyopencl as cl

from calor.errors import DeviceError, DeviceLostError, OutOfMemoryError

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
