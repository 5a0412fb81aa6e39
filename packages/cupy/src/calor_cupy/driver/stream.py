"""A stream of a GPU: who queues there selects the device, and who waits lets go of what was read.

Requirements: any thread may call; a GPU that is lost says so at every later call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from calor.errors import DeviceLostError
from calor_cupy.driver.codes import Codes
from calor_cupy.driver.protocol import Driver


class Stream:
    """A stream of a device, and the driver functions that use it."""

    def __init__(self, number: int, runtime: Any, driver: Driver, codes: Codes) -> None:
        self.number = number
        # A Runtime of the protocol; a plugin's memory may need further functions of its own.
        self.runtime, self.driver = runtime, driver
        self.codes = codes
        # The reason why the GPU is lost to this process; the driver then fails every call.
        self.lost = ""
        with self.told("opening the device"):
            self.runtime.setDevice(number)
            self.stream = self.runtime.streamCreateWithFlags(self.runtime.streamNonBlocking)
        self.lock = threading.Lock()
        # Arrays of the host that queued copies read.
        self._kept: list[Any] = []
        self._keeping = threading.Lock()

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Convert driver errors to calor's, and record the loss of the GPU."""
        try:
            with self.codes.typed(what, self.number):
                yield
        except DeviceLostError as error:
            self.lost = self.lost or str(error)
            raise

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the stream by version 0 of the CUDA stream protocol."""
        return 0, self.stream

    def use(self) -> None:
        """Select the device for this thread's calls; DeviceLostError if it is lost."""
        if self.lost:
            raise DeviceLostError(self.lost)
        self.runtime.setDevice(self.number)

    def keep(self, array: Any) -> None:
        """Keep an array of the host until the next wait: a copy that is queued here reads it."""
        with self._keeping:
            self._kept.append(array)

    def wait(self) -> None:
        """Wait for queued work."""
        with self._keeping:
            # What is kept meanwhile is for the next wait.
            read, self._kept = self._kept, []
        self.runtime.streamSynchronize(self.stream)
        read.clear()
