"""The requests of one session: over a stream, or one by one where something lets no stream pass.

Requirements: both ways have the same requests, so a session may change from one to the other at any
time; a connection that breaks costs the request, or the pieces, that were on its way.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from calor_http.client.stream import NoStreamError, Stream
from calor_http.connection import Connection
from calor_http.frames import CHUNK, message_of, seal, seal_parts

# The pieces that are sent or asked for at a time, before their answers are looked at.
_PIECES: Final = 8
# So many handshakes may fail in a row before a request goes without one.
_FAILURES: Final = 3
T = TypeVar("T")


class Link:
    """The way of a session's requests.

    Parameters
    ----------
    connection : Connection
        The way to the server.
    session : str
        The address of the session.
    """

    def __init__(self, connection: Connection, session: str) -> None:
        self._connection = connection
        self.session = session
        self._stream: Stream | None = None
        self._streams = os.environ.get("CALOR_HTTP_STREAM", "1") != "0" and connection.direct
        self._failures = 0
        # Answers come in the order of their requests, so one thread has the stream at a time.
        self._lock = threading.Lock()

    def commands(self, number: int, frame: bytes) -> Any:
        """Return the answers to the commands of a request."""

        def streamed(stream: Stream) -> Any:
            stream.commands(number, frame)
            return message_of(stream.answer())

        path = f"{self.session}/requests/{number}"
        return self._by(streamed, lambda: self._connection.message("POST", path, frame))

    def upload(self, number: int, content: memoryview) -> None:
        """Send contents in pieces; the server says how far it is."""
        there, compress = 0, self._connection.compress

        def streamed(stream: Stream) -> int:
            # After a broken connection, an empty piece asks how much has arrived.
            stream.put(number, 0, *seal_parts(b""))
            found = int(message_of(stream.answer()))
            places = range(found, min(found + _PIECES * CHUNK, len(content)), CHUNK)
            for place in places:
                stream.put(number, place, *seal_parts(content[place : place + CHUNK], compress))
            for _ in places:
                found = int(message_of(stream.answer()))
            return found

        def plain() -> int:
            piece = seal(content[there : there + CHUNK], compress)
            path = f"{self.session}/blobs/{number}/{there}"
            return int(self._connection.message("PUT", path, piece))

        while there < len(content):
            there = self._by(streamed, plain)

    def download(self, number: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return contents that the server offers, piece by piece."""
        made = np.empty(nbytes, np.uint8)
        view, there = made.data, 0

        def streamed(stream: Stream) -> int:
            nonlocal there
            places = range(there, min(there + _PIECES * CHUNK, nbytes), CHUNK)
            for place in places:
                stream.get(number, place)
            for _ in places:
                there += stream.answer_into(view[there:])
            return there

        def plain() -> int:
            found = self._connection.content("GET", f"{self.session}/blobs/{number}/{there}")
            if not 0 < len(found) <= nbytes - there:
                raise ConnectionError("a piece is none of what was asked for")
            view[there : there + len(found)] = found
            return there + len(found)

        while there < nbytes:
            there = self._by(streamed, plain)
        return made

    def _by(self, streamed: Callable[[Stream], T], plain: Callable[[], T]) -> T:
        """Return what a request is answered, over the stream while there is one."""
        with self._lock:
            if self._streams:
                try:
                    return self._connection.patiently(lambda: self._over_stream(streamed))
                except NoStreamError:
                    pass
        return plain()

    def _over_stream(self, streamed: Callable[[Stream], T]) -> T:
        stream = self._stream or self._opened()
        try:
            found = streamed(stream)
        except BaseException:
            # Answers that are still on their way are those of nobody.
            self.close()
            raise
        return found

    def _opened(self) -> Stream:
        try:
            made = self._stream = Stream(self._connection, self.session)
        except NoStreamError:
            self._streams = False
            raise
        except OSError:
            self._failures += 1
            if self._failures >= _FAILURES:
                self._failures = 0
                raise NoStreamError("handshakes fail") from None
            raise
        self._failures = 0
        return made

    def close(self) -> None:
        """Close the stream, if there is one; the next request opens another."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
