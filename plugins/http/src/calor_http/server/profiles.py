"""What a device does for one client, with times: the server's side of ``calor.profile``.

Requirements: a client sees the work of its own commands and of nobody else's; what it does not
fetch is bounded; a session that ends leaves no profile behind. A device tells one listener of its
work, so the clients of all servers of a process share one, which tells each of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Any, Final

from calor.backends.device import Device
from calor.backends.events import Event, Listener
from calor_http.described import encode_event
from calor_http.server.room import Room

# So many events are kept until they are fetched; the oldest are forgotten first.
_KEPT: Final = 1 << 14


class _Shared:
    """The listener of a device, which passes events on to those of clients."""

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self.within: AbstractContextManager[None] | None = None

    def __call__(self, events: Sequence[Event]) -> None:
        for listener in self.listeners:
            listener(events)


_lock: Final = threading.Lock()
_shared: Final[dict[Device, _Shared]] = {}


def _listen(device: Device, listener: Listener) -> None:
    with _lock:
        shared = _shared.get(device)
        if shared is None:
            shared = _Shared()
            shared.within = device.backend.profiling(device.index, shared)
            shared.within.__enter__()
            _shared[device] = shared
        shared.listeners = (*shared.listeners, listener)


def _leave(device: Device, listener: Listener) -> None:
    with _lock:
        shared = _shared[device]
        shared.listeners = tuple(one for one in shared.listeners if one is not listener)
        if shared.listeners:
            return
        del _shared[device]
        assert shared.within is not None
        shared.within.__exit__(None, None, None)


class Profiles:
    """The profiles of one client.

    Parameters
    ----------
    room : Room
        Its values.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._active: dict[Device, Listener] = {}
        self._events: dict[Device, deque[Event]] = {}
        # The thread that runs the client's commands now; 0 between its requests, when the thread
        # may run another client's.
        self.thread = 0

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Return the commands about profiles, by name."""
        return {"profile": self._profile, "events": self._fetch}

    def clear(self) -> None:
        """End all profiles."""
        for device in list(self._active):
            self._end(device)

    def _profile(self, index: int, begins: bool) -> float:
        """Begin or end a profile; return the server's time in seconds."""
        device = self._room.device(index)
        if not begins:
            self._end(device)
        elif device not in self._active:
            kept: deque[Event] = deque(maxlen=_KEPT)

            def note(events: Sequence[Event]) -> None:
                if threading.get_ident() == self.thread:
                    kept.extend(events)

            _listen(device, note)
            self._active[device] = note
            self._events[device] = kept
        return perf_counter()

    def _end(self, device: Device) -> None:
        listener = self._active.pop(device, None)
        if listener is not None:
            del self._events[device]
            _leave(device, listener)

    def _fetch(self, index: int) -> list[Any]:
        """Return the events since they were fetched last."""
        kept = self._events.get(self._room.device(index))
        if kept is None:
            return []
        found = [encode_event(event) for event in kept]
        kept.clear()
        return found
