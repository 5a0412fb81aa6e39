"""What the entry point names; the device is imported when somebody asks for it."""

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from .device import backend

    return backend()


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the device thimble."""
    return {"thimble": _backend}
