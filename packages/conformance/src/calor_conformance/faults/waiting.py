"""Faults of values that wait on the host: shared memory, and copies that come late."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.specs import Spec

from .base import Array, Broken, Fault


class SharesOffloaded(Broken):
    """A value that makes room stays where it is, and the host sees it."""

    def offload(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Return the buffer's own memory."""
        array: Array = buffer.array
        return array


class OneRoom(Broken):
    """All memory of the host is one block."""

    def host_array(self, index: int, nbytes: int) -> Array:
        """Return the same bytes again."""
        self.__dict__.setdefault("room", np.empty(1 << 20, np.uint8))
        room: Array = self.room  # type: ignore[attr-defined]
        return room[:nbytes]


class WaitsForOne(Broken):
    """Of the copies under way only the first is waited for."""

    def load(self, index: int, array: Array) -> Any:
        """Return a buffer without the contents, which come later."""
        buffer = self.upload(index, np.zeros_like(array))
        self.__dict__.setdefault("coming", []).append((buffer, array))
        return buffer

    def loaded(self, index: int, buffers: Any = None) -> None:
        """Finish the oldest copy."""
        coming = self.__dict__.get("coming", [])
        if coming:
            buffer, array = coming.pop(0)
            buffer.array[...] = array


class ForgetsAll(WaitsForOne):
    """Copies are waited for by name, and not where all are meant."""

    def loaded(self, index: int, buffers: Any = None) -> None:
        """Finish copies to these buffers."""
        for buffer, array in self.__dict__.get("coming", []):
            if any(buffer is one for one in buffers or ()):
                buffer.array[...] = array


class NeverThere(Broken):
    """Copies to the host are begun, and nobody waits for them."""

    def unload(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Return an array without the contents."""
        return np.zeros(spec.shape, spec.dtype.numpy)


_CHECK = ("transfers/waiting_on_the_host",)
FAULTS = [
    Fault(
        "offloaded-shared",
        "a value on the host is the device's own memory",
        SharesOffloaded,
        _CHECK,
    ),
    Fault("host-memory-of-one", "arrays of the host share their memory", OneRoom, _CHECK),
    Fault(
        "loads-in-order",
        "of copies under way the oldest is waited for, not those asked",
        WaitsForOne,
        _CHECK,
    ),
    Fault("unloads-never", "a wait for copies to the host waits for none", NeverThere, _CHECK),
    Fault("loads-not-all", "a wait for all copies waits for none", ForgetsAll, _CHECK),
]
