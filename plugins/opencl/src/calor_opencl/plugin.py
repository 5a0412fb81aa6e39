"""The plugin of calor-opencl: the backend "opencl", with every device of every OpenCL platform.

OpenCL is loaded when a device is requested, by its index in the list of all devices.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.entry import lazy_backend

    return lazy_backend("opencl", "calor_opencl", "device:OpenCLDevice", "_bindings:count")


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Return the backend of OpenCL devices."""
    return {"opencl": _backend}
