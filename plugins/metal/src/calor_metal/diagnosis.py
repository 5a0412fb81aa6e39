"""The state of a Mac's GPUs and Metal, for ``python -m calor doctor``.

Requirements: those of calor_kernel.device.diagnosis. An imitation of Metal is a module with the
same names.
"""

from __future__ import annotations

import platform
from functools import partial
from typing import Any, Final

from calor.errors import DeviceError
from calor_kernel.device.diagnosis import Row, found, package

from ._bindings import bindings

INSTALL: Final = "pip install pyobjc-framework-Metal brings it, on macOS"
# The first macOS whose Metal has all features of the printer.
OLDEST: Final = 15


def diagnosis(metal: Any = None) -> list[Row]:
    """Return rows of components and their state."""
    rows = found(
        [("system", _system), ("PyObjC", lambda: package("pyobjc-framework-Metal", INSTALL))]
    )
    try:
        metal = bindings() if metal is None else metal
    except DeviceError:
        return rows
    gpus = list(metal.MTLCopyAllDevices() or ())
    if not gpus:
        return [*rows, ("GPUs", "Metal finds none: a process needs a session on the Mac's screen")]
    return rows + found((f"GPU {i}", partial(_gpu, metal, gpu)) for i, gpu in enumerate(gpus))


def _system() -> str:
    release = platform.mac_ver()[0]
    if not release:
        return f"{platform.system()}: Metal is a part of macOS; choose another device, such as wgpu"
    if int(release.partition(".")[0]) < OLDEST:
        return f"macOS {release}: too old, from {OLDEST} on"
    return f"macOS {release}"


def _gpu(metal: Any, gpu: Any) -> str:
    if gpu.supportsFamily_(metal.MTLGPUFamilyMetal3):
        return str(gpu.name())
    return f"{gpu.name()}: it runs no Metal 3, which kernels need; calor-wgpu runs on it"
