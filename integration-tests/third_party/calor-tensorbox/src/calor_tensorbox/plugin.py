"""What the entry point names; the device is imported when somebody asks for it."""

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from .backend import Tensorbox

    return Tensorbox()


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the device tensorbox."""
    return {"tensorbox": _backend}
