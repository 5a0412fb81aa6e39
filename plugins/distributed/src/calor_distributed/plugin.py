"""What the entry points name: the scheme "group:" of devices made of others, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from calor.plugins import hookimpl

if TYPE_CHECKING:
    from calor.backends.device import Device


def _group(text: str) -> Device:
    from calor_distributed.backend import open_group

    return open_group(text)


def _rows() -> Any:
    from calor_distributed import rows

    return rows


@hookimpl
def calor_ops() -> Mapping[str, Callable[[], Any]]:
    """Collectives."""
    return {"distributed": _rows}


@hookimpl
def calor_device_schemes() -> Mapping[str, Callable[[str], Device]]:
    """Several devices as one, ``group:cpu,cpu``."""
    return {"group:": _group}
