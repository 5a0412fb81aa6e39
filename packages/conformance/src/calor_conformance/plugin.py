"""The plugin of calor-conformance: the scheme "strict:" of devices with checked calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from calor.plugins import hookimpl

if TYPE_CHECKING:
    from calor.backends.device import Device


def _strict(text: str) -> Device:
    from calor_conformance.strict.backend import open_strict

    return open_strict(text)


@hookimpl
def calor_device_schemes() -> Mapping[str, Callable[[str], Device]]:
    """Return the scheme of devices with checked calls, such as ``strict:cuda:1``."""
    return {"strict:": _strict}
