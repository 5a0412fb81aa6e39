"""The plugin of calor-http: the device schemes "http://" and "https://"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from calor.plugins import hookimpl

if TYPE_CHECKING:
    from calor.backends.device import Device


def _remote(text: str) -> Device:
    from calor_http.client.backend import open_remote

    return open_remote(text)


@hookimpl
def calor_device_schemes() -> Mapping[str, Callable[[str], Device]]:
    """Return the schemes of remote devices, such as ``https://host:8470/cuda:0``."""
    return {"http://": _remote, "https://": _remote}
