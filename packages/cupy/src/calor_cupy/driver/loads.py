"""Copies from the host that run beside kernels, on a stream of their own.

Requirements: a copy begins when all work queued before has freed its memory, and work that reads it
waits for it alone. The array of the host lives until the copy has read it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from calor_cupy.driver.stream import Stream


class Loads:
    """The copies to a device that are under way.

    Parameters
    ----------
    stream : Stream
        The stream of the device's kernels.
    """

    def __init__(self, stream: Stream) -> None:
        self.on = stream
        self._lock = threading.Lock()
        self._beside: int | None = None
        self._tail: Any = None
        self._idle: list[Any] = []
        # By address: the event at a copy's end, and the array that it reads.
        self._coming: dict[int, tuple[Any, Any]] = {}

    def load(self, handle: int, source: int, nbytes: int, array: Any) -> None:
        """Begin a copy of an array that does not change."""
        on, runtime = self.on, self.on.runtime
        with self._lock, on.told(f"copying {nbytes} bytes"):
            on.use()
            if self._beside is None:
                self._beside = runtime.streamCreateWithFlags(runtime.streamNonBlocking)
                self._tail = self._event()
            runtime.eventRecord(self._tail, on.stream)
            runtime.streamWaitEvent(self._beside, self._tail)
            kind = runtime.memcpyHostToDevice
            runtime.memcpyAsync(handle, source, nbytes, kind, self._beside)
            event = self._idle.pop() if self._idle else self._event()
            runtime.eventRecord(event, self._beside)
            self._coming[handle] = event, array

    def settle(self, handles: Iterable[int] | None = None) -> None:
        """Let work that is queued from now on wait for copies: to these addresses, or all."""
        if not self._coming:
            return
        on, runtime = self.on, self.on.runtime
        with self._lock, on.told("waiting for copies"):
            on.use()
            for handle in list(self._coming) if handles is None else handles:
                found = self._coming.pop(handle, None)
                if found is None:
                    continue
                event, array = found
                runtime.streamWaitEvent(on.stream, event)
                self._idle.append(event)
                on.keep(array)

    def _event(self) -> Any:
        return self.on.runtime.eventCreateWithFlags(self.on.runtime.eventDisableTiming)
