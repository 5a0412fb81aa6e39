"""Connections of a server: how many, and how slow they may be.

Requirements: who sends the head of a request slowly, its body slowly, or does not read the answer,
keeps nobody out; where no more connections fit, one that waits for a request makes room, and those
that have never sent one go first; what works is never cut.

Uvicorn has times for idle connections, and the server has one for bodies; what is here is missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from calor_http.server.limits import Limits


class Doors:
    """The open connections of one server, the oldest first.

    Parameters
    ----------
    limits : Limits
        How many may be open, of all and of one address, and for how long they may be slow.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[GuardedProtocol, str] = {}
        self._of: Counter[str] = Counter()
        # How many were closed to make room, or were slow.
        self.closed = 0

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    def enter(self, connection: GuardedProtocol) -> bool:
        """Take a new connection, in the place of another where it must be; return whether."""
        address = connection.client[0] if connection.client else ""
        if self._of[address] >= self.limits.address_connections:
            others = [known for known, at in self._open.items() if at == address]
        elif len(self._open) >= self.limits.connections:
            others = list(self._open)
        else:
            others = []
        if others and not self._close_one(others):
            return False
        self._open[connection] = address
        self._of[address] += 1
        return True

    def leave(self, connection: GuardedProtocol) -> None:
        """Forget a connection, if it is here."""
        address = self._open.pop(connection, None)
        if address is not None:
            self._of[address] -= 1
            if not self._of[address]:
                del self._of[address]

    def _close_one(self, connections: list[GuardedProtocol]) -> bool:
        idle = [connection for connection in connections if not connection.works]
        # False comes before True: those that have sent nothing whole yet.
        for connection in sorted(idle, key=lambda known: known.cycle is not None)[:1]:
            self.leave(connection)
            connection.cut()
            return True
        return False


class GuardedProtocol(H11Protocol):  # type: ignore[misc,unused-ignore]
    """A connection that has so much time and no more.

    Parameters
    ----------
    doors : Doors
        The connections of the server.
    **options : Any
        What uvicorn gives to a connection.
    """

    def __init__(self, doors: Doors, **options: Any) -> None:
        super().__init__(**options)
        self._doors = doors
        self._timer: asyncio.TimerHandle | None = None
        self._reader: asyncio.TimerHandle | None = None
        # Whether the connection is that of a stream now.
        self._handed_over = False

    @property
    def works(self) -> bool:
        """Whether a request is being answered."""
        cycle: Any = self.cycle  # None until the first request.
        return cycle is not None and not cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        if self._doors.enter(self):
            self._watch()
        else:
            self.cut()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._doors.leave(self)
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the head of the next request."""
        super().on_response_complete()
        self._watch()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand the connection over; its new protocol has limits of its own."""
        self._handed_over = True
        self._doors.leave(self)
        self._stop()
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """Give the other end time to read."""
        super().pause_writing()
        if self._reader is None:
            self._reader = self.loop.call_later(self._doors.limits.body_seconds, self._end)

    def resume_writing(self) -> None:
        """Note that the other end reads."""
        super().resume_writing()
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None

    def cut(self) -> None:
        """End the connection, whatever is on its way."""
        self.transport.abort()

    def _watch(self) -> None:
        """Start or stop the time for the head of a request, by what has arrived of it."""
        # After an answer, the rest of a body that nobody wanted is no better than a slow head.
        cycle: Any = self.cycle
        waits = not (self.works or self._handed_over) and (
            cycle is None
            or self.conn.their_state is h11.SEND_BODY
            or bool(self.conn.trailing_data[0])
        )
        if waits and self._timer is None:
            self._timer = self.loop.call_later(self._doors.limits.header_seconds, self._end)
        elif not waits and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._doors.closed += 1
        self.cut()

    def _stop(self) -> None:
        for timer in (self._timer, self._reader):
            if timer is not None:
                timer.cancel()
        self._timer = self._reader = None


def guarded(doors: Doors) -> Any:
    """Return what makes uvicorn's protocol for a connection."""
    return partial(GuardedProtocol, doors)
