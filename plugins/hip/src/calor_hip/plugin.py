"""What the entry point names: the backend "hip", of every AMD GPU that the driver shows.

The driver is loaded when somebody asks for a device, or how many there are.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.backend import KernelBackend

    from .bindings import count

    def opened(number: int) -> Any:
        from .device import HipDevice

        return HipDevice(number)

    def found() -> Any:
        from .diagnosis import diagnosis

        return diagnosis()

    return KernelBackend("hip", opened, count, diagnose=found)


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the GPUs."""
    return {"hip": _backend}
