"""HTTP/1.1 for small requests: what a model server takes of it, and nothing that it need not.

Requirements: reading a request costs less than running a small model. So there is one strict
grammar, checked by one regular expression, and one way to say how long a body is: whatever two
programs could read in two ways (a length said twice, a folded line, a transfer coding) is refused.
A length is checked, and the sender, before a byte of the body is kept.
Uvicorn listens, has TLS, and ends; this is the protocol of its connections.

References
----------
R. Fielding, M. Nottingham, J. Reschke, "HTTP/1.1", RFC 9112, sections 2 to 6 and 9.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, Protocol

from calor_http.model.errors import Refused
from calor_http.model.limits import Limits

HEAD_BYTES: Final = 16 * 1024
# What a program may send before it is answered, the body that it sends left out.
_AHEAD: Final = 256 * 1024
# How long one that was refused may go on sending.
_LINGER_SECONDS: Final = 2.0
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEAD: Final = re.compile(
    rb"(" + _TOKEN + rb") (/[!-~]*) HTTP/1\.([01])\r\n((?:" + _TOKEN + rb":[^\r\n\0]*\r\n)*)\r\n"
)
# Headers of which a second one would contradict the first.
_ONCE: Final = frozenset(
    (b"content-length", b"host", b"authorization", b"inference-header-content-length")
)
# Heads that are kept, and the longest of them.
_KEPT: Final = 512
_LONGEST_KEPT: Final = 1024
_KNOWN: Final[dict[bytes, tuple[bytes, bytes, Mapping[bytes, bytes], bool]]] = {}
_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}


class Request:
    """A request.

    Parameters
    ----------
    method, target : bytes
        The method, and the path with its query.
    headers : mapping of bytes to bytes
        The headers; names are lower-case.
    """

    __slots__ = ("body", "error", "handler", "headers", "method", "target")

    def __init__(self, method: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body: bytes = b""
        # What `admit` found: what answers it, or why nothing does.
        self.handler: Any = None
        self.error: Refused | None = None


class Answerer(Protocol):
    """What answers the requests of connections."""

    limits: Limits
    held: int
    connections: set[Connection]

    def admit(self, request: Request) -> None:
        """Look at a request before its body; Refused where none is wanted."""
        ...

    def answer(self, request: Request, connection: Connection) -> None:
        """Answer now or later by ``connection.respond``, once."""
        ...

    def refuse(self, error: Refused, connection: Connection) -> None:
        """Answer with an error."""
        ...


def number_in(text: bytes) -> int:
    """Return a length in a header; Refused for anything but digits."""
    if not (text.isdigit() and len(text) < 16):
        raise Refused(400, "a length is a number in digits")
    return int(text)


def _parsed(head: bytes) -> tuple[Request, bool]:
    """Return a request without its body, and whether its connection stays open after it.

    A client's heads are mostly the same, so what was found out about one is kept by its bytes.
    """
    known = _KNOWN.get(head)
    if known is None:
        known = _read(head)
        if len(head) <= _LONGEST_KEPT:
            if len(_KNOWN) >= _KEPT:
                _KNOWN.clear()
            _KNOWN[head] = known
    method, target, headers, stays = known
    return Request(method, target, headers), stays


def _read(head: bytes) -> tuple[bytes, bytes, Mapping[bytes, bytes], bool]:
    """Return the method, the target and the headers of a request, and whether more may follow."""
    match = _HEAD.fullmatch(head)
    if match is None:
        raise Refused(400, "this is no request of HTTP/1.1")
    method, target, minor, fields = match.groups()
    headers: dict[bytes, bytes] = {}
    for line in fields.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in headers and name in _ONCE:
            raise Refused(400, f"the header {name.decode()} is there twice")
        headers[name] = value.strip(b" \t")
    if b"transfer-encoding" in headers:
        raise Refused(411, "send a Content-Length: bodies in chunks are not taken")
    if minor == b"1" and b"host" not in headers:
        raise Refused(400, "the header Host is missing")
    stays = minor == b"1" and headers.get(b"connection", b"").lower() != b"close"
    return method, target, MappingProxyType(headers), stays


class Connection(asyncio.Protocol):
    """A connection.

    Parameters
    ----------
    answerer : Answerer
        What answers.
    config, server_state, app_state, _loop : Any
        What uvicorn gives to a protocol.
    """

    def __init__(
        self,
        answerer: Answerer,
        config: Any,
        server_state: Any,
        app_state: Any = None,
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._answerer = answerer
        self._limits = answerer.limits
        self._state = server_state
        self._loop = _loop or asyncio.get_running_loop()
        self._transport: Any = None
        self._buffer = b""
        # The request that arrives, the pieces of its body, and how many bytes of it are missing.
        self._request: Request | None = None
        self._pieces: list[bytes] = []
        self._missing = 0
        self._held = 0
        # Whether a request is answered, and whether the other side reads its answers.
        self._busy = False
        self._blocked = False
        self._pumping = False
        self._paused = False
        self._stays = True
        # Whether it was refused, so that what still comes is read by nobody.
        self._lingers = False
        # Since when it has waited for what is arriving, or for a request.
        self._since = 0.0
        self.alive = False

    # What asyncio and uvicorn call.
    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._since = self._loop.time()
        self.alive = True
        self._state.connections.add(self)
        self._answerer.connections.add(self)
        if len(self._state.connections) > self._limits.connections:
            self._refuse(Refused(503, f"{self._limits.connections} connections are open, the most"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        self._state.connections.discard(self)
        self._answerer.connections.discard(self)
        if not self._busy:
            self._free()

    def eof_received(self) -> bool:
        # Who has sent all that it will may still wait for its answer.
        self._stays = False
        return self._busy

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        self._pump()

    def data_received(self, data: bytes) -> None:
        if self._lingers:
            return
        if not (self._busy or self._buffer or self._request):
            self._since = self._loop.time()
        if self._missing and not self._buffer:
            data = self._add(data)
            if self._missing:
                return
        self._buffer = self._buffer + data if self._buffer else data
        if len(self._buffer) > _AHEAD and (self._busy or self._blocked):
            self._paused = True
            self._transport.pause_reading()
        self._pump()

    def shutdown(self) -> None:
        """End after the request that is there, if there is one."""
        self._stays = False
        if not self._busy and self._request is None:
            self._transport.close()

    def look(self, now: float) -> None:
        """End if what is awaited takes too long."""
        if self._busy:
            return
        arriving = self._request is not None or bool(self._buffer)
        waited = now - self._since
        if self._lingers:
            if waited > _LINGER_SECONDS:
                self._transport.abort()
        elif waited <= (self._limits.body_seconds if arriving else self._limits.idle_seconds):
            return
        elif self._blocked:
            self._transport.abort()
        elif arriving:
            self._refuse(Refused(408, "the request did not arrive in time"))
        else:
            self._transport.close()

    # Requests, one after the other.
    def _pump(self) -> None:
        """Begin requests until one is answered later, or the next one has not arrived."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._buffer and self.alive and not (self._busy or self._blocked):
                if not self._next():
                    break
        finally:
            self._pumping = False
        if self._paused and len(self._buffer) <= _AHEAD and self.alive:
            self._paused = False
            self._transport.resume_reading()

    def _next(self) -> bool:
        """Take what is there of the next request; return whether more may be done."""
        try:
            if self._request is None and not self._begin():
                return False
        except Refused as error:
            self._refuse(error)
            return False
        if self._missing:
            data, self._buffer = self._buffer, b""
            self._buffer = self._add(data)
            if self._missing:
                return False
        self._answer()
        return True

    def _begin(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, HEAD_BYTES)
        if end < 0:
            if len(self._buffer) >= HEAD_BYTES:
                raise Refused(431, f"the head of a request has at most {HEAD_BYTES} bytes")
            return False
        request, stays = _parsed(self._buffer[: end + 4])
        length = number_in(request.headers.get(b"content-length", b"0"))
        if length > self._limits.body_bytes:
            raise Refused(413, f"a body has at most {self._limits.body_bytes} bytes")
        try:
            self._answerer.admit(request)
        except Refused as error:
            if length:
                raise
            request.error = error
        if self._answerer.held + length > self._limits.held_bytes:
            raise Refused(503, "the server holds as many bytes of requests as it may")
        self._answerer.held += length
        self._held = length
        self._buffer = self._buffer[end + 4 :]
        self._stays = self._stays and stays
        self._request, self._missing = request, length
        if length and not self._buffer and request.headers.get(b"expect") == b"100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _add(self, data: bytes) -> bytes:
        """Add bytes to the body; return those that are no part of it."""
        rest = b""
        if len(data) > self._missing:
            data, rest = data[: self._missing], data[self._missing :]
        self._pieces.append(data)
        self._missing -= len(data)
        if not self._missing and not rest:
            self._answer_when_whole()
        return rest

    def _answer_when_whole(self) -> None:
        if self._request is not None and not self._busy and not self._pumping:
            self._answer()

    def _answer(self) -> None:
        request = self._request
        if request is None or self._busy:
            return
        pieces = self._pieces
        request.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._request, self._pieces, self._busy = None, [], True
        self._state.total_requests += 1
        self._answerer.answer(request, self)

    def respond(
        self, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = (), kind: str = ""
    ) -> None:
        """Answer the request that is there.

        Parameters
        ----------
        status : int
            The HTTP status.
        body : bytes
            The body.
        headers : sequence of (bytes, bytes), optional
            Headers beside those that every answer has.
        kind : str, optional
            The body's media type; JSON by default.
        """
        self._busy = False
        self._free()
        if not self.alive:
            return
        self._write(status, body, headers, kind.encode() or b"application/json")
        self._since = self._loop.time()
        if not self._stays:
            self._end()
            return
        if self._buffer:
            self._pump()

    def _write(
        self, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]], kind: bytes
    ) -> None:
        lines = [b"%b: %b\r\n" % pair for pair in (*self._state.default_headers, *headers)]
        if not self._stays:
            lines.append(b"connection: close\r\n")
        self._transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b"
            % (status, _REASONS.get(status, b""), kind, len(body), b"".join(lines), body)
        )

    def _end(self) -> None:
        """End the connection, but let one that is refused read why before it is cut off."""
        if self._lingers and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _refuse(self, error: Refused) -> None:
        """Answer what is no request that could be read, and end: the rest cannot be read either."""
        self._stays = False
        self._busy = self._lingers = True
        self._request, self._pieces, self._missing, self._buffer = None, [], 0, b""
        self._answerer.refuse(error, self)

    def _free(self) -> None:
        self._answerer.held -= self._held
        self._held = 0
