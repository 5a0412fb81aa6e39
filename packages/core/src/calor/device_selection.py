"""Which device new tensors are made on.

The innermost ``with calor.device(...)``, then CALOR_DEVICE, then ``cpu`` if that plugin is
installed, then the numpy reference with one warning.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

from calor.backends.device import Device
from calor.config import config
from calor.local import local as recording

_default: Device | None = None


def get_device(name: str) -> Device:
    """Return a device by name, ``"numpy"`` or ``"cuda:1"``; DeviceError says what is installed."""
    # Imported when a device is named, so that ``import calor`` stays quick.
    from calor.plugins import discovery

    return discovery.get_device(name)


def device(device: Any) -> Device:
    """Return a device, which is also a context in which new tensors are made on it.

    Parameters
    ----------
    device : Device or str
        The device, or its name such as "cuda:0".

    Returns
    -------
    Device
        The device: there is one object for each. Entering it is a TraceError where `calor.jit`
        traces a function for another device.

    Raises
    ------
    DeviceError
        If there is no such device.

    Examples
    --------
    >>> import calor
    >>> reference = calor.device("numpy")
    >>> with reference:
    ...     calor.zeros(2).device
    device('numpy:0')
    >>> calor.zeros(2, device=reference).device == "numpy"
    True
    """
    return device if type(device) is Device else get_device(device)


as_device = device


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
    if recording.devices:
        entered: Device = recording.devices[-1]
        return entered
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
    if recording.jit or recording.devices or _default is not None:
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
