"""What the entry point names: the backend "opencl", of every device of every OpenCL platform.

OpenCL is loaded when somebody asks for a device, which its place in the list of all names.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.entry import lazy_backend

    return lazy_backend("opencl", "calor_opencl", "device:OpenCLDevice", "_bindings:count")


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the devices of OpenCL."""
    return {"opencl": _backend}
