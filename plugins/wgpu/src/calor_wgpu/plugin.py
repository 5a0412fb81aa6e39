"""What the entry point names: the backend "wgpu", of every adapter that computes.

wgpu is loaded when somebody asks for a device, or for a list of all that there are.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.entry import lazy_backend

    return lazy_backend("wgpu", "calor_wgpu", "device:WgpuDevice", "_bindings:count")


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the devices of wgpu."""
    return {"wgpu": _backend}
