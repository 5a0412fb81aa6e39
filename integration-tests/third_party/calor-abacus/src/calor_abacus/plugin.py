"""What the entry point names; the device is imported when somebody asks for it."""

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from .backend import AbacusBackend

    return AbacusBackend()


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Register the device abacus."""
    return {"abacus": _backend}
