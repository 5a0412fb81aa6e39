"""The plugin of calor-distributed: the device scheme "group:" and the rows of collectives."""

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
    """Return the rows of collectives."""
    return {"distributed": _rows}


@hookimpl
def calor_device_schemes() -> Mapping[str, Callable[[str], Device]]:
    """Return the scheme of groups, such as ``group:cpu,cpu``."""
    return {"group:": _group}
