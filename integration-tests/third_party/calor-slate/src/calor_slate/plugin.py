"""What the entry point names; the device is imported when somebody asks for it."""

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from .backend import Slate

    return Slate()


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the device slate."""
    return {"slate": _backend}
