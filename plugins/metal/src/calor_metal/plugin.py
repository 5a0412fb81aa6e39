"""The plugin of calor-metal: the backend "metal", with every GPU that has Metal 3.

Metal is loaded when a device is requested, by its index in the system's list.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.entry import lazy_backend

    return lazy_backend("metal", "calor_metal", "device:MetalDevice", "_bindings:count")


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Return the backend of Metal's devices."""
    return {"metal": _backend}
