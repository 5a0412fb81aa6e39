"""What the entry point names: the backend "cuda", of every NVIDIA GPU that the driver shows.

The driver is loaded when somebody asks for a device, or how many there are.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.entry import lazy_backend

    return lazy_backend("cuda", "calor_cuda", "device:CudaDevice", "bindings:count")


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the GPUs."""
    return {"cuda": _backend}
