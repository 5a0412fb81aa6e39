"""Which device new tensors are made on.

The innermost ``with calor.device(...)``, then CALOR_DEVICE, then ``cpu`` if that plugin is
installed, then the numpy reference with one warning.
"""

from __future__ import annotations

import threading
import warnings
from importlib.util import find_spec
from typing import Any

from calor.backends.device import Device
from calor.config import config
from calor.errors import TraceError
from calor.local import local as recording


class _Stack(threading.local):
    def __init__(self) -> None:
        self.devices: list[Device] = []


_stack = _Stack()
_default: Device | None = None


def get_device(name: str) -> Device:
    """Return a device by name, ``"numpy"`` or ``"cuda:1"``; DeviceError says what is installed."""
    # Imported when a device is named, so that ``import calor`` stays quick.
    from calor.plugins import discovery

    return discovery.get_device(name)


def as_device(device: Any) -> Device:
    """Return the Device of a name.

    Parameters
    ----------
    device : Device or str
        The device, or its name such as "cuda:0".

    Returns
    -------
    Device
        The device.

    Raises
    ------
    DeviceError
        If there is no such device.
    """
    return device if type(device) is Device else get_device(device)


def current_device() -> Device:
    """Return the device on which new tensors are made in this thread.

    Returns
    -------
    Device
        The innermost ``with calor.device(...)``, then ``CALOR_DEVICE``, then "cpu" if it is
        installed, else "numpy" with a warning.
    """
    if recording.jit:
        device: Device = recording.jit[-1].device
        return device
    if _stack.devices:
        return _stack.devices[-1]
    global _default
    if _default is None:
        _default = _choose()
    return _default


def reset_default() -> None:
    """Forget the process's default device, so that it is chosen again (after a plugin change)."""
    global _default
    _default = None


def is_current(device: Device) -> bool:
    """Return whether new tensors are made on a device; asking chooses no default, so no warning."""
    if recording.jit or _stack.devices or _default is not None:
        return device is current_device()
    return device is (preferred_device() or get_device("numpy"))


def preferred_device() -> Device | None:
    """Return the default that the environment names or a package brings, if there is one."""
    if config.device is not None:
        return get_device(config.device)
    # Reading the metadata of all distributions is slow; a missing package is seen at once.
    if find_spec("calor_cpu") is not None:
        from calor.plugins.discovery import installed

        if "cpu" in installed():
            return get_device("cpu")
    return None


def _choose() -> Device:
    found = preferred_device()
    if found is not None:
        return found
    from calor.plugins.extras import advice

    warnings.warn(
        "calor computes on its NumPy reference backend, which is exact and slow; "
        f"{advice('cpu')}, or set CALOR_DEVICE=numpy to choose the reference",
        stacklevel=2,
    )
    return get_device("numpy")


class on_device:
    """Context in which new tensors are made on a device.

    Parameters
    ----------
    device : Device or str
        The device, or its name such as "cuda:0".

    Raises
    ------
    DeviceError
        If there is no such device.
    TraceError
        On entry, if `calor.jit` traces a function for another device.

    Examples
    --------
    >>> import calor
    >>> with calor.device("numpy"):
    ...     calor.zeros(2).device
    device('numpy:0')
    """

    def __init__(self, device: Any) -> None:
        self.device = as_device(device)

    def __enter__(self) -> Device:
        if recording.jit and recording.jit[-1].device is not self.device:
            raise TraceError(
                f"a function traced for {recording.jit[-1].device.name} asks for device "
                f"{self.device.name}; one trace is for one device"
            )
        _stack.devices.append(self.device)
        return self.device

    def __exit__(self, *error: object) -> None:
        _stack.devices.pop()
