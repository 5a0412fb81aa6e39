"""Devices by name, from the backends that belong to core."""

from __future__ import annotations

from calor.backends.device import Device, device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.protocol import Backend
from calor.errors import DeviceError

_backends: dict[str, Backend] = {}


def installed() -> tuple[str, ...]:
    """Return the names of the backends that are installed."""
    return ("numpy",)


def resolve_device(name: str) -> Device:
    """Return the device of that name."""
    kind, _, index = name.partition(":")
    if kind != "numpy":
        raise DeviceError(f'no device "{name}"; installed: numpy')
    if kind not in _backends:
        _backends[kind] = NumpyBackend()
    return device_of(_backends[kind], int(index or 0))
