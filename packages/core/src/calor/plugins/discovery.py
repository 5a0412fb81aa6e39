"""The process's plugins: devices, fusers, importers and bundles by name."""

from __future__ import annotations

import copyreg
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from calor.backends.device import Device
from calor.plugins.registry import Registry

registry: Final = Registry()
os.register_at_fork(after_in_child=registry.unlock)


def installed() -> tuple[str, ...]:
    """Return the names of the devices and schemes that are installed; imports none of them."""
    return registry.installed()


def get_device(name: str) -> Device:
    """Return the device of that name, ``"numpy"`` or ``"cuda:1"``.

    DeviceError says what is installed and what to install; PluginError, why a plugin failed.
    """
    return registry.device(name)


def _by_name(device: Device) -> tuple[Any, ...]:
    """Return how a device is pickled and copied: it is the one device of its name."""
    return get_device, (device.name,)


copyreg.pickle(Device, _by_name)


def fusers() -> dict[str, Any]:
    """Return all fusers by name; those that fail are left out with a warning each."""
    return registry.fusers()


def tuned() -> dict[str, Path]:
    """Return all folders of bundles by name; those that fail are left out with a warning each."""
    return registry.tuned()


def importer(suffix: str) -> Callable[..., Any]:
    """Return the function that reads model files of a suffix, ``"onnx"``; PluginError without."""
    return registry.importer(suffix)
