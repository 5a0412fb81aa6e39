"""What the entry point names: the backend "metal", of every GPU that Metal 3 runs on.

Metal is loaded when somebody asks for a device, which its place in the system's list names.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.entry import lazy_backend

    return lazy_backend("metal", "calor_metal", "device:MetalDevice", "_bindings:count")


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the devices of Metal."""
    return {"metal": _backend}
