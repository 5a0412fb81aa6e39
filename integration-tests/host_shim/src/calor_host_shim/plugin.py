"""What an entry point names: the device that runs Metal's text on the processor."""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _metal() -> Any:
    from calor_kernel.runtime.backend import KernelBackend

    from .compiler import compiler
    from .devices import metal_device

    return KernelBackend("metal-shim", metal_device, lambda: int(compiler() is not None))


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the device."""
    return {"metal-shim": _metal}
