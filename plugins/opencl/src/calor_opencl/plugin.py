"""What the entry point names; OpenCL is loaded when somebody asks for a device."""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from .backend import backend

    return backend()


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the devices of OpenCL."""
    return {"opencl": _backend}
