"""The plugin of calor-hip: the backend "hip", with every AMD GPU that the driver lists.

The driver is loaded when a device, or the number of devices, is requested.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.entry import lazy_backend

    return lazy_backend("hip", "calor_hip", "device:HipDevice", "bindings:count")


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Return the backend of AMD GPUs."""
    return {"hip": _backend}
