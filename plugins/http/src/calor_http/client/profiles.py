"""Profiles of remote devices: the events of the server's device, on this machine's clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

from calor.backends.events import Listener
from calor.errors import ArgumentError, DeviceError
from calor_http.client.requests import Requests
from calor_http.described import decode_event


class Profiles:
    """The active profiles of a server's devices.

    Parameters
    ----------
    requests : Requests
        The way to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        # By device: who listens, and the seconds from the server's clock to this one.
        self._active: dict[int, tuple[Listener, float]] = {}

    @contextmanager
    def profiling(self, index: int, listener: Listener) -> Iterator[None]:
        """Report what a device does to a listener."""
        if index in self._active:
            raise ArgumentError("profile: another profile of this device is active")
        before = perf_counter()
        there = float(self._ask(["profile", index, True]))
        # The server read its clock between the two.
        self._active[index] = listener, (before + perf_counter()) / 2 - there
        try:
            yield
        finally:
            try:
                self.report(index)
                self._ask(["profile", index, False])
            except DeviceError:
                # A session that is lost has no profile either.
                pass
            finally:
                del self._active[index]

    def report(self, index: int) -> None:
        """Wait for a device and report what it did, if a profile of it is active."""
        if index not in self._active:
            return
        listener, offset = self._active[index]
        found = [decode_event(event) for event in self._ask(["events", index])]
        if found:
            listener([replace(event, start=event.start + offset) for event in found])

    def _ask(self, message: list[Any]) -> Any:
        return self._requests.ask(message, self._requests.era)
