"""The backend "opencl": every device of every OpenCL platform, by its place in their list."""

from __future__ import annotations

from calor_kernel.runtime.backend import KernelBackend

from ._bindings import devices
from .device import OpenCLDevice


def backend() -> KernelBackend:
    """Return the backend of all OpenCL devices."""
    return KernelBackend("opencl", OpenCLDevice, lambda: len(devices()))
