"""What users ask of devices: which there are, their memory, and to wait for them."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from calor.backends.device import Device, device_of, known_devices
from calor.backends.lost import LostBackend
from calor.backends.protocol import MemoryFigures
from calor.device_selection import as_device, current_device
from calor.errors import (
    ArgumentError,
    CalorError,
    DeviceError,
    DeviceLostError,
    UnsupportedError,
)
from calor.local import local
from calor.recording.poison import Poison
from calor.recording.sites import locate
from calor.recording.trace import flush_all


def _device(device: Any) -> Device:
    return current_device() if device is None else as_device(device)


def devices() -> list[Device]:
    """Return every device that is present, of every backend that loads.

    Returns
    -------
    list of Device
        The devices, by backend and index.

    Warns
    -----
    UserWarning
        For each backend that fails to load, with the reason. It is left out.

    Examples
    --------
    >>> import calor
    >>> calor.device("numpy") in calor.devices()
    True
    """
    from calor.plugins.discovery import installed, registry

    found: list[Device] = []
    for name in installed():
        try:
            if registry.is_scheme(name):
                continue
            backend = registry.backend(name)
            found.extend(device_of(backend, index) for index in range(backend.enumerate()))
        except CalorError as error:
            warnings.warn(f"the devices of {name!r} are left out: {error}", stacklevel=2)
    return found


def memory(device: Any = None) -> MemoryFigures:
    """Return how many bytes of a device are in use.

    Pending work is computed first.

    Parameters
    ----------
    device : Device or str, optional
        The device. By default the current device.

    Returns
    -------
    MemoryFigures
        ``in_use``, ``peak`` (the most so far) and ``limit`` (None for no limit), in bytes.

    Raises
    ------
    DeviceError
        If there is no such device, or pending work fails.

    Examples
    --------
    >>> import calor
    >>> with calor.device("numpy"):
    ...     before = calor.memory().in_use
    ...     x = calor.zeros((256,))
    ...     calor.memory().in_use - before
    1024
    """
    target = _device(device)
    flush_all(target)
    return target.memory


def set_memory_limit(limit: int | None, device: Any = None) -> None:
    """Set the most bytes that a device may hold.

    A plan or upload that would exceed it raises OutOfMemoryError and changes nothing.

    Parameters
    ----------
    limit : int or None
        The number of bytes, at least 0; None for the limit of the system.
    device : Device or str, optional
        The device. By default the current device.

    Raises
    ------
    ArgumentError
        If the limit is negative.
    UnsupportedError
        If the device has no settable limit.

    Examples
    --------
    >>> import calor
    >>> calor.set_memory_limit(1 << 30, "numpy")
    >>> calor.memory("numpy").limit
    1073741824
    >>> calor.set_memory_limit(None, "numpy")
    """
    if limit is not None and limit < 0:
        raise ArgumentError(f"a memory limit is a number of bytes from 0, or None, not {limit}")
    target = _device(device)
    state = target.info.feature("memory_limit")
    if not state:
        raise UnsupportedError(f"{target.name} has no settable memory limit: {state}")
    target.backend.set_memory_limit(target.index, limit)


def synchronize(device: Any = None) -> None:
    """Compute this thread's pending work on a device and wait until it is done.

    Parameters
    ----------
    device : Device or str, optional
        The device. By default all, those included that jitted programs alone have run on.

    Raises
    ------
    DeviceError
        If something failed. The tensors concerned raise the error again when they are read; all
        others are computed.

    Examples
    --------
    >>> import calor
    >>> calor.synchronize()
    """
    wanted = None if device is None else as_device(device)
    traces = [t for d, t in local.traces.items() if wanted is None or d is wanted]
    # Weak references: a strong one would count as somebody who wants the value.
    pending = [weakref.ref(v) for t in traces for v in t.values]
    for aside in local.asides:
        pending += aside.values.values()
    flush_all(wanted)
    failed: DeviceError | None = None
    asked = [t.device for t in traces] if wanted is None else [wanted]
    others = _with_programs(asked) if wanted is None else []
    for target in (*asked, *others):
        try:
            target.backend.synchronize(target.index)
        except DeviceError as error:
            if target in others and isinstance(error, DeviceLostError) and not target.holders:
                # Nobody is left to be told but who reads its tensors.
                continue
            locate(error, *target.possible_sites())
            # One device that is lost does not keep the others from being waited for.
            failed = failed or error
    if failed is not None:
        raise failed
    for reference in pending:
        value = reference()
        if value is not None and type(value.trace) is Poison:
            raise value.trace.again()


def _with_programs(apart: list[Device]) -> list[Device]:
    """Return the devices with calls of jitted programs, which leave no trace, but for some."""
    found = []
    for device in list(known_devices.values()):
        # What a program that ended had queued is waited for once.
        ended, device.ended = device.ended, False
        lost = isinstance(device.backend, LostBackend)
        if (ended or device.holders) and not lost and device not in apart:
            found.append(device)
    return found
