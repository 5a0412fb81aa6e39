"""The plugin of calor-router: the device scheme "router:"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from calor.plugins import hookimpl

if TYPE_CHECKING:
    from calor.backends.device import Device


def _router(text: str) -> Device:
    from calor_router.backend import open_router

    return open_router(text)


@hookimpl
def calor_device_schemes() -> Mapping[str, Callable[[str], Device]]:
    """Return the scheme of routers, such as ``router:cuda,cpu``."""
    return {"router:": _router}
