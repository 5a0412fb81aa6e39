"""The requests of one session: over a stream, or one by one where something lets no stream pass.

Requirements: both ways have the same requests, so a session may change from one to the other at any
time; a connection that breaks costs the request, or the pieces, that were on its way.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

import numpy as np

from calor.errors import OutOfMemoryError
from calor_http.client.stream import NoStreamError, Stream
from calor_http.connection import Away, Connection
from calor_http.errors import LimitError, QuotaError
from calor_http.frames import CHUNK, message_of, seal, seal_parts

# The pieces whose answers are on their way, at most.
_PIECES: Final = 8
# So many handshakes may fail in a row before a request goes without one.
_FAILURES: Final = 3
T = TypeVar("T")


class RefusedError(Exception):
    """Contents find no room on the server; the command that takes them says so."""


@dataclass(slots=True)
class Upload:
    """Contents on their way to a server.

    Parameters
    ----------
    number : int
        Their number.
    content : memoryview
        The bytes.

    Attributes
    ----------
    there : int
        How many bytes the server has, as far as it has said.
    begun, asked : bool
        Whether pieces were sent, and whether the server was asked how many had arrived: they may
        have been taken already, and come again.
    refused : bool
        Whether the server has no room for them.
    """

    number: int
    content: memoryview
    there: int = 0
    begun: bool = False
    asked: bool = False
    refused: bool = False

    @property
    def whole(self) -> bool:
        """Whether the server has all."""
        return self.there >= len(self.content)

    def hear(self, answer: Callable[[], Any]) -> None:
        """Take the answer to a piece; RefusedError where there is no room."""
        try:
            self.there = int(answer())
        except (OutOfMemoryError, LimitError) as error:
            if isinstance(error, QuotaError) and not isinstance(error, OutOfMemoryError):
                raise
            self.refused = True
            raise RefusedError from None


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

    def request(self, number: int, frame: bytes, uploads: Sequence[Upload] = ()) -> Any:
        """Return the answers to the commands of a request, whose contents go before them.

        Parameters
        ----------
        number : int
            The number of the request.
        frame : bytes
            The frame of its commands.
        uploads : sequence of Upload
            The contents. One that finds no room is marked, and the command that takes it fails.

        Returns
        -------
        Any
            The message of the answer.
        """

        def streamed(stream: Stream) -> Any:
            # Answers come in order, and none is waited for while there is more to send.
            waits: deque[Upload] = deque()
            for upload in uploads:
                if not upload.refused:
                    self._send_pieces(stream, upload, waits)
            stream.commands(number, frame)
            while waits:
                waits.popleft().hear(lambda: message_of(stream.answer()))
            return message_of(stream.answer())

        def plain() -> Any:
            for upload in uploads:
                while not (upload.refused or upload.whole):
                    self._send_plainly(upload)
            path = f"{self.session}/requests/{number}"
            return self._connection.message("POST", path, frame)

        while True:
            before = [upload.there for upload in uploads]
            try:
                return self._by(streamed, plain)
            except RefusedError:
                continue
            except Away:
                # Who gets on is patient anew.
                if before == [upload.there for upload in uploads]:
                    raise

    def _send_pieces(self, stream: Stream, upload: Upload, waits: deque[Upload]) -> None:
        """Send the pieces that are missing; those whose answers are not read yet wait."""
        if upload.whole:
            return
        if upload.begun:
            # After a broken connection, an empty piece asks how much has arrived.
            upload.asked = True
            stream.put(upload.number, 0, *seal_parts(b""))
            while waits:
                waits.popleft().hear(lambda: message_of(stream.answer()))
            upload.hear(lambda: message_of(stream.answer()))
        upload.begun = True
        for place in range(upload.there, len(upload.content), CHUNK):
            piece = upload.content[place : place + CHUNK]
            stream.put(upload.number, place, *seal_parts(piece, self._connection.compress))
            waits.append(upload)
            if len(waits) >= _PIECES:
                waits.popleft().hear(lambda: message_of(stream.answer()))

    def _send_plainly(self, upload: Upload) -> None:
        """Send the next piece in a request of its own."""
        place, piece = upload.there, upload.content[upload.there : upload.there + CHUNK]
        if upload.begun and not upload.asked:
            upload.asked, place, piece = True, 0, upload.content[:0]
        path = f"{self.session}/blobs/{upload.number}/{place}"
        frame = seal(piece, self._connection.compress)
        with suppress(RefusedError):
            upload.hear(lambda: self._connection.message("PUT", path, frame))

    def download(self, number: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return contents that the server offers, piece by piece."""
        made = np.empty(nbytes, np.uint8)
        view, there = made.data, 0

        def streamed(stream: Stream) -> int:
            nonlocal there
            places = iter(range(there, nbytes, CHUNK))
            for place in islice(places, _PIECES):
                stream.get(number, place)
            while there < nbytes:
                there += stream.answer_into(view[there:])
                for place in islice(places, 1):
                    stream.get(number, place)
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
