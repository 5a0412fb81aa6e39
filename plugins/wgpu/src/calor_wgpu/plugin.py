"""The plugin of calor-wgpu: the backend "wgpu", with every adapter that has compute shaders.

wgpu is loaded when a device, or the list of devices, is requested.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.entry import lazy_backend

    return lazy_backend("wgpu", "calor_wgpu", "device:WgpuDevice", "_bindings:count")


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Return the backend of wgpu's devices."""
    return {"wgpu": _backend}
