"""The requests of one session: over a stream, or one by one where something lets no stream pass.

Requirements: both ways have the same requests, so a session may change from one to the other at any
time; a connection that breaks costs the request, or the pieces, that were on its way.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

import numpy as np

from calor.errors import OutOfMemoryError
from calor_http.checksums import Content
from calor_http.client.stream import NoStreamError, Stream
from calor_http.connection import Away, Connection, Working
from calor_http.errors import LimitError, QuotaError
from calor_http.frames import CHUNK, message_of, seal, seal_parts, sealed

# The pieces whose answers are on their way, at most.
_PIECES: Final = 8
# Contents begin with a piece of a part of them, for which the server takes memory for all. It is
# received before, and copied there.
_BEGIN: Final = 16
_BEGIN_BYTES: Final = 1 << 18
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
    wait : callable, optional
        Waits until so many bytes are there to be sent.

    Attributes
    ----------
    sent, there : int
        How many bytes were sent, and how many the server has, as far as it has said.
    lost, asked : bool
        Whether pieces were sent whose answers did not come, and whether the server was asked how
        many had arrived: they may have been taken already, and come again.
    refused : bool
        Whether the server has no room for them.
    """

    number: int
    content: memoryview
    wait: Callable[[int], None] = lambda nbytes: None
    sent: int = 0
    there: int = 0
    lost: bool = False
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
        # The answers that come next: of what contents, and who takes them.
        self._waits: deque[tuple[Upload | None, Callable[[Callable[[], Any]], None]]] = deque()

    def request(
        self,
        number: int,
        frame: bytes,
        uploads: Sequence[Upload] = (),
        ahead: Callable[[], Iterable[Upload]] = tuple,
    ) -> Any:
        """Return the answers to the commands of a request, whose contents go before them.

        Parameters
        ----------
        number : int
            The number of the request.
        frame : bytes
            The frame of its commands.
        uploads : sequence of Upload
            The contents. One that finds no room is marked, and the command that takes it fails.
        ahead : callable, optional
            Returns contents of later requests, which are sent before the answers are read.

        Returns
        -------
        Any
            The message of the answer.
        """

        def streamed(stream: Stream) -> Any:
            before = there()
            try:
                return sent(stream)
            except OSError:
                # Who gets on is patient anew.
                if there() > before:
                    raise Working from None
                raise

        def there() -> int:
            return sum(upload.there for upload in uploads)

        def sent(stream: Stream) -> Any:
            # Answers come in order, and none is waited for while there is more to send.
            answer: list[Any] = []
            for upload in uploads:
                self._send_pieces(stream, upload)
            stream.commands(number, frame)
            self._waits.append((None, lambda take: answer.append(take())))
            for upload in ahead():
                self._send_pieces(stream, upload)
            while not answer:
                self._hear(stream)
            return answer[0]

        def plain() -> Any:
            for upload in uploads:
                while not (upload.refused or upload.whole):
                    self._send_plainly(upload)
            path = f"{self.session}/requests/{number}"
            return self._connection.message("POST", path, frame)

        while True:
            before = there()
            try:
                return self._by(streamed, plain)
            except RefusedError:
                continue
            except Away:
                if there() == before:
                    raise

    def _send_pieces(self, stream: Stream, upload: Upload) -> None:
        """Send the pieces that are missing; their answers are read later."""
        if upload.refused or upload.whole:
            return
        if upload.lost:
            # After a broken connection, an empty piece asks how much has arrived.
            upload.asked, upload.lost = True, False
            while self._waits:
                self._hear(stream)
            self._send_piece(stream, upload, 0, 0, *seal_parts(b""))
            self._hear(stream)
            upload.sent = upload.there
        content, compress = upload.content, self._connection.compress
        places = _places(upload.sent, len(content))

        def sealing() -> Iterator[tuple[int, int, Callable[[], tuple[bytes, Content]]]]:
            for place, end in places:
                upload.wait(end)
                yield place, end, sealed(content[place:end], compress)

        begun = sealing()
        following = next(begun, None)
        while following is not None:
            place, end, frame = following
            # The checksum of a piece is made while the one before it is sent.
            following = next(begun, None)
            self._send_piece(stream, upload, place, end, *frame())
            if len(self._waits) >= _PIECES:
                self._hear(stream)

    def _send_piece(
        self, stream: Stream, upload: Upload, place: int, end: int, head: bytes, piece: Content
    ) -> None:
        self._waits.append((upload, upload.hear))
        stream.put(upload.number, place, head, piece, len(upload.content))
        upload.sent = end

    def _hear(self, stream: Stream) -> None:
        """Read the answer that comes next, for who waits for it."""
        # It stays among those that wait until it is there.
        _, take = self._waits[0]
        take(lambda: message_of(stream.answer()))
        self._waits.popleft()

    def _send_plainly(self, upload: Upload) -> None:
        """Send the next piece in a request of its own."""
        place = upload.there
        upload.wait(place + CHUNK)
        piece = upload.content[place : place + CHUNK]
        if upload.lost:
            upload.asked, upload.lost, place, piece = True, False, 0, upload.content[:0]
        path = f"{self.session}/blobs/{upload.number}/{place}"
        frame = seal(piece, self._connection.compress)
        with suppress(RefusedError):
            upload.hear(lambda: self._connection.message("PUT", path, frame))
            upload.sent = upload.there

    def download(self, number: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return contents that the server offers, piece by piece."""
        made = np.empty(nbytes, np.uint8)
        view, there = made.data, 0

        def streamed(stream: Stream) -> int:
            nonlocal there
            while self._waits:
                self._hear(stream)
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
            # An answer before it may say that other contents find no room.
            with suppress(RefusedError):
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
        for upload, _ in self._waits:
            if upload is not None:
                upload.lost, upload.sent = True, upload.there
        self._waits.clear()
        if stream is not None:
            stream.close()


def _places(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Return where the pieces of contents begin and end, from a place on."""
    size = min(CHUNK, max(-(-end // _BEGIN), _BEGIN_BYTES)) if start == 0 else CHUNK
    while start < end:
        yield start, min(start + size, end)
        start, size = start + size, CHUNK
