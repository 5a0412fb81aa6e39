"""What the entry point names: the scheme "strict:" of devices behind checks of every call."""

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
    """Checks of every call to a device, ``strict:cuda:1``."""
    return {"strict:": _strict}
