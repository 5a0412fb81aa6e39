"""The functions of Metal that calor-metal uses through PyObjC, and the meaning of Metal's errors.

Requirements: every failure of Metal becomes a typed error in one place. A machine without Metal has
no devices, and opening one says what is missing. An imitation of Metal is a module with the same
names.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from calor.errors import DeviceError, DeviceLostError, OutOfMemoryError

# MTLCommandBufferError (Metal/MTLCommandBuffer.h), the code of an NSError.
_ERRORS: Final = {
    2: (DeviceError, "Timeout: a kernel ran too long"),
    3: (DeviceError, "PageFault: a kernel reached memory that is none"),
    4: (DeviceLostError, "AccessRevoked: too many kernels failed, or the screen needs the GPU"),
    7: (DeviceError, "NotPermitted: the process is in the background"),
    8: (OutOfMemoryError, "OutOfMemory: free tensors, or compute in parts"),
    9: (DeviceError, "InvalidResource: a kernel used memory that was given back"),
    11: (DeviceLostError, "DeviceRemoved: the GPU was taken away"),
    12: (DeviceError, "StackOverflow: a kernel calls too deep"),
}


def bindings() -> Any:
    """Return PyObjC's module Metal.

    Raises
    ------
    DeviceError
        If it is not installed.
    """
    try:
        return importlib.import_module("Metal")
    except ImportError as error:
        raise DeviceError(
            "Metal is not available: it is part of macOS 15 and newer, and "
            "`pip install pyobjc-framework-Metal` adds its Python names; on other systems choose "
            "another device, such as wgpu"
        ) from error


def devices(metal: Any = None) -> list[Any]:
    """Return all GPUs with Metal 3, in the system's order; none without Metal."""
    try:
        metal = bindings() if metal is None else metal
    except DeviceError:
        return []
    found = metal.MTLCopyAllDevices()
    return [d for d in found or () if d.supportsFamily_(metal.MTLGPUFamilyMetal3)]


def count() -> int:
    """Return the number of GPUs."""
    return len(devices())


def message(error: Any) -> str:
    """Return the text of an NSError."""
    return str(error.localizedDescription()) if error is not None else "Metal says no reason"


def failure_of(metal: Any, buffer: Any) -> DeviceError | None:
    """Return the error of a finished command buffer, or None."""
    if buffer.status() != metal.MTLCommandBufferStatusError:
        return None
    error = buffer.error()
    kind, why = _ERRORS.get(error.code() if error is not None else 0, (DeviceError, "it failed"))
    return kind(f"Metal: {why}: {message(error)}")
