"""Devices as core sees them: a backend, an index, and the plans already made for it."""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any, Final

from calor.backends.lost import LostBackend, LostExecutable
from calor.backends.protocol import Backend, Executable, Info, MemoryFigures
from calor.errors import DeviceError, TraceError
from calor.local import local

# How many flushes with such ops a device remembers.
_SITES: Final = 64


class Device:
    """A device, identified by backend and index. There is one object for each; compare with ``==``.

    As a context it is the device on which new tensors are made.

    Parameters
    ----------
    backend : Backend
        The backend that runs it.
    index : int
        Which of the backend's devices it is, from 0.

    Attributes
    ----------
    name : str
        The name by which users ask for it, such as "cuda:1".
    plans_made : int
        How many graphs were compiled for it.
    fallbacks : int
        How many nodes ran on another device instead, over all calls.
    transfers : int
        How many values were moved to or from another device.
    transferred_bytes : int
        The bytes of these values.
    """

    def __init__(self, backend: Backend, index: int) -> None:
        self.backend = backend
        self.index: Final = index
        self.name: Final = backend.device_name(index)
        self.plans: OrderedDict[Any, Executable] = OrderedDict()
        self.plans_made = 0
        # Devices that take what this one refuses; the user's choice, made by a router.
        self.companions: tuple[Device, ...] = ()
        # Over all calls: nodes that ran on a companion or as copies between members, values moved
        # between devices, and their bytes.
        self.fallbacks = 0
        self.transfers = 0
        self.transferred_bytes = 0
        # What calls executables without asking here first: jitted programs.
        self.holders: weakref.WeakSet[Any] = weakref.WeakSet()
        # Whether one of them ended since all devices were waited for: its last call may still run.
        self.ended = False
        # The tensor that puts the collectives of this device's group in one order, once it is used.
        self.token: Any = None
        # Where the last ops were recorded that may fail when they are computed, flush by flush,
        # each with the values that the flush computed.
        self.sites: deque[tuple[weakref.WeakSet[Any], list[Any]]] = deque(maxlen=_SITES)
        self._info: Info | None = None

    @property
    def info(self) -> Info:
        """What the device is and can do."""
        if self._info is None:
            self._info = self.backend.info(self.index)
        return self._info

    @property
    def memory(self) -> MemoryFigures:
        """Bytes in use, the peak so far and the limit."""
        return self.backend.memory(self.index)

    def possible_sites(self, value: Any = None) -> Iterator[list[Any]]:
        """Yield where ops were recorded that may have failed since, the most likely ones first.

        Parameters
        ----------
        value : Value, optional
            The value whose computation failed.

        Yields
        ------
        list
            The places of ops that were computed with the value; then those of programs, and all
            others, the latest first: values whose computation failed may be gone where what was
            computed of them lives.
        """
        yield [s for values, sites in self.sites if value in values for s in sites]
        programs = [site for holder in self.holders for site in holder.sites]
        yield [*programs, *(s for _, sites in reversed(self.sites) for s in sites)]

    def lose(self) -> None:
        """Make every later use raise DeviceLostError, in a forked child that cannot use it."""
        lost = LostBackend(self.backend, self.info)
        self.backend = lost
        self.plans.clear()
        for holder in self.holders:
            holder.executable = LostExecutable(lost)

    def __enter__(self) -> Device:
        if local.jit and local.jit[-1].device is not self:
            raise TraceError(
                f"a function traced for {local.jit[-1].device.name} asks for device {self.name}; "
                f"one trace is for one device"
            )
        local.devices.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        local.devices.pop()

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other in (self.name, self.backend.name if self.index == 0 else self.name)
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)


known_devices: Final[dict[tuple[int, int], Device]] = {}


def _after_fork() -> None:
    """In a forked child: devices that do not survive a fork say so when they are used."""
    for device in known_devices.values():
        if device.backend.opened(device.index) and not device.info.feature("fork"):
            device.lose()


os.register_at_fork(after_in_child=_after_fork)


def device_of(backend: Backend, index: int) -> Device:
    """Return the one Device of a backend and an index.

    Parameters
    ----------
    backend : Backend
        The backend.
    index : int
        Which of its devices, from 0.

    Returns
    -------
    Device
        The device.

    Raises
    ------
    DeviceError
        If the backend has no device of this index.
    """
    key = (id(backend), index)
    found = known_devices.get(key)
    if found is None:
        count = backend.enumerate()
        if not 0 <= index < count:
            has = f"has {count} device{'s' if count != 1 else ''}"
            says = "python -m calor devices lists what there is"
            if not count:
                has = "finds none on this machine, which may lack a driver"
                says += ", and python -m calor doctor what is missing"
            raise DeviceError(
                f'no device "{backend.name}:{index}"; backend {backend.name!r} {has}: {says}'
            )
        found = known_devices.setdefault(key, Device(backend, index))
    return found
