"""What the entry point names: the scheme "group:" of devices made of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from calor.plugins import hookimpl

if TYPE_CHECKING:
    from calor.backends.device import Device


def _group(text: str) -> Device:
    from calor_distributed.backend import open_group

    return open_group(text)


@hookimpl
def calor_device_schemes() -> Mapping[str, Callable[[str], Device]]:
    """Several devices as one, ``group:cpu,cpu``."""
    return {"group:": _group}
