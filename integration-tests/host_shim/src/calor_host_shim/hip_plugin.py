"""What an entry point names: the devices that run HIP's text on the processor."""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _hip() -> Any:
    from calor_kernel.runtime.backend import KernelBackend

    from .compiler import compiler
    from .devices import hip_device
    from .hip import DEVICES

    return KernelBackend("hip-shim", hip_device, lambda: len(DEVICES) if compiler() else 0)


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the devices."""
    return {"hip-shim": _hip}
