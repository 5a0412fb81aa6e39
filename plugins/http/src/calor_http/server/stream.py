"""Streams: the requests of a session over one WebSocket, whose handshake uvicorn passes on.

Requirements: a client gets no further over a stream than by requests, and what is wrong with a
message is answered alike; the loop of the server computes nothing, and nothing is made that a
client does not read. A thread of the stream works on its messages. Without TLS it has the socket
too, since a hand from the loop to a thread and back takes longer than a small request; with TLS the
loop decrypts.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.requests import Request

from calor.errors import ArgumentError, FormatError
from calor_http import websocket
from calor_http.checksums import Content
from calor_http.errors import LimitError
from calor_http.frames import CHUNK, pack, seal_parts
from calor_http.server.admission import Answer, Asked, peer_of
from calor_http.server.audit import alias
from calor_http.server.incoming import Incoming
from calor_http.server.origins import check_origin
from calor_http.server.pieces import Piece, Pieces
from calor_http.server.refusals import failed, refusal
from calor_http.server.session import Session, Told
from calor_http.streams import ASK, COMMANDS, FIRST, GET, HEARTBEAT, PROTOCOL, PUT, STATUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from calor_http.server.app import Server

# What waits to be worked on, in bytes, until no more is decrypted.
_INBOX: Final = 4 * CHUNK
# The most bytes that wait to be encrypted and sent, until no more is made.
_OUTBOX: Final = 2 * CHUNK
# Shorter answers are joined.
_SHORT: Final = 1 << 16
# The most streams of a session; one that broke may be here for a while.
_STREAMS: Final = 4
_CONTROLS: Final = 16
# The pieces whose checksums are made while others are received, at most.
_CHECKED: Final = 2
_ROUTES: Final = {COMMANDS: "requests", PUT: "put", GET: "get", FIRST: "put"}


class StreamProtocol(asyncio.BufferedProtocol):
    """One stream.

    Parameters
    ----------
    server : Server
        Whose sessions are meant.
    connections : set
        The connections that are open, as uvicorn counts and ends them.
    """

    def __init__(self, server: Server, connections: set[Any]) -> None:
        self._server = server
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._incoming = Incoming()
        self._pieces = Pieces(self._known_session)
        self._timer: asyncio.TimerHandle | None = None
        self._session = self._alias = ""
        self._header = ""
        self._peer = ""
        # Those of its session.
        self._streams: list[Any] = []
        self._compress = False
        self._works = False
        self._ended = False
        # The socket, where the thread has it; who sends holds the lock.
        self._socket: socket.socket | None = None
        self._sending = threading.Lock()
        # Control frames that wait; of a client that reads no answers the first ones are forgotten.
        self._controls: deque[bytes] = deque(maxlen=_CONTROLS)
        # With TLS: messages for the thread, the bytes that came for it and that it worked on, and
        # whether answers may be made.
        self._inbox: SimpleQueue[memoryview | None] = SimpleQueue()
        self._came = 0
        self._worked = 0
        self._paused = False
        self._writable = threading.Event()
        self._writable.set()

    # What uvicorn calls, and the loop.
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection over."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_OUTBOX)
        self._peer = peer_of(transport.get_extra_info("peername"))
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Take the request for the handshake."""
        request = _request(data)
        if request is None:
            self._refuse(404, failed(ArgumentError("the server has no such address")), {})
            return
        headers = request.headers
        try:
            self._session = request.path_params["session"]
            self._alias = alias(self._session)
            self._header = headers.get("authorization", "")
            if not self._server.keyring.wanted:
                check_origin(headers)
            self._admit()
            key = headers.get("sec-websocket-key", "").encode()
            if headers.get("sec-websocket-version", "") != "13" or not key:
                raise ArgumentError("a stream begins with a handshake of WebSocket, version 13")
        except Exception as error:
            self._refuse(*refusal(error))
            return
        self._compress = headers.get("x-calor-zstd") == "1"
        fields = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": websocket.accept_of(key).decode(),
        }
        if PROTOCOL in headers.get("sec-websocket-protocol", ""):
            fields["Sec-WebSocket-Protocol"] = PROTOCOL
        self._write_head(101, fields)
        self._begin()

    def _admit(self) -> None:
        """Make the stream one of its session, in the place of the oldest one if there are many."""
        account = self._server.keyring.account(self._header)
        self._streams = self._server.session(self._session, account).streams
        self._streams.append(self)
        if len(self._streams) > _STREAMS:
            self._streams.pop(0)._end(1008)

    def _refuse(self, status: int, frame: bytes, fields: Any) -> None:
        told = {**fields, "Connection": "close", "Content-Length": str(len(frame))}
        self._write_head(status, told)
        self._transport.write(frame)
        self._transport.close()

    def _write_head(self, status: int, fields: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        self._transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def _begin(self) -> None:
        work = self._work_on_inbox
        known = self._transport.get_extra_info("socket")
        if known is not None and self._transport.get_extra_info("sslcontext") is None:
            self._transport.pause_reading()
            self._paused = True
            self._incoming = Incoming(reuses=True, place=self._pieces.place)
            self._socket = known.dup()
            self._socket.settimeout(self._server.limits.body_seconds)
            work = self._work_on_socket
        threading.Thread(target=work, name="calor-http-stream", daemon=True).start()
        self._tick()

    def get_buffer(self, hint: int) -> memoryview:
        """Return where the next bytes are written."""
        return self._incoming.room()

    def buffer_updated(self, count: int) -> None:
        """Take bytes that were written."""
        for message, _ in self._messages(count):
            self._came += len(message)
            self._inbox.put(message)
        if self._came - self._worked > _INBOX and not (self._paused or self._ended):
            self._paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Make no more answers."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Make answers again."""
        self._writable.set()

    def shutdown(self) -> None:
        """End the stream, since the server ends."""
        self._end(1001)

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the connection is gone; what came over it is still worked on."""
        self._ended = True
        self._connections.discard(self)
        if self in self._streams:
            self._streams.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        self._inbox.put(None)
        self._writable.set()
        if self._socket is not None:
            # The thread learns so when it waits, and closes it.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _tick(self) -> None:
        """Look after the stream from time to time."""
        limit = self._server.limits.body_seconds
        began = self._incoming.began
        if self._session not in self._server.sessions:
            self._transport.abort()
            return
        if began is not None and monotonic() - began > limit:
            self._end(1008)
            return
        if self._works:
            self._tell(websocket.PING, b"")
        self._timer = self._loop.call_later(min(limit / 2, HEARTBEAT), self._tick)

    # Both ways.
    def _messages(self, count: int) -> Iterable[tuple[memoryview, bool]]:
        """Return the messages that are whole, after bytes were written.

        Of a piece that was received in its place there is the start alone, and True.
        """
        try:
            for opcode, content, placed in self._incoming.written(count):
                if opcode == websocket.BINARY:
                    yield content, placed
                elif opcode == websocket.PING:
                    self._tell(websocket.PONG, bytes(content))
                elif opcode == websocket.CLOSE:
                    self._break(1000)
                    return
        except LimitError:
            self._break(1009)
        except FormatError:
            self._break(1002)

    def _in_loop(self, call: Callable[..., None], *given: Any) -> None:
        # The loop of a server that has ended is closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *given)

    def _tell(self, opcode: int, content: bytes) -> None:
        """Send a control frame, after the answer that is being sent if there is one."""
        frame = websocket.head(opcode, len(content)) + content
        if self._socket is None:
            self._transport.write(frame)
        else:
            self._controls.append(frame)
            self._send_controls(self._socket)

    def _send_controls(self, known: socket.socket) -> None:
        """Send the control frames that wait, unless who sends an answer does so after it."""
        while self._controls and self._sending.acquire(blocking=False):
            try:
                # So few bytes are sent as a whole, or not at all.
                with suppress(OSError, IndexError):
                    known.sendall(self._controls.popleft())
            finally:
                self._sending.release()

    def _end(self, status: int) -> None:
        if not self._ended:
            self._close(status)
            self._transport.close()

    def _close(self, status: int) -> None:
        # The thread closes the socket as soon as the stream has ended.
        self._tell(websocket.CLOSE, status.to_bytes(2, "big"))
        self._ended = True

    def _break(self, status: int) -> None:
        """End the stream, since what was received says so or is wrong."""
        if self._socket is None:
            self._in_loop(self._end, status)
        elif not self._ended:
            # The thread would be done with the socket before the loop's turn came.
            self._answer_pieces(self._socket, 0)
            self._close(status)

    # What the thread of the stream does.
    def _work_on_socket(self) -> None:
        """Receive messages, and answer them."""
        known = self._socket
        assert known is not None
        with known, suppress(OSError):
            arrives = _arrivals(known)
            try:
                while not self._ended:
                    if self._pieces and not (self._incoming.within or arrives()):
                        self._answer_pieces(known, 0)
                    try:
                        count = known.recv_into(self._incoming.room())
                    except TimeoutError:
                        # Nothing is wrong with a client that asks for nothing.
                        continue
                    if not count:
                        break
                    self._take(known, count)
            finally:
                self._end_pieces()
            with self._sending:
                # Frames that wait since the loop was sending one.
                while self._controls:
                    known.sendall(self._controls.popleft())
        self._in_loop(self._transport.abort)

    def _take(self, known: socket.socket, count: int) -> None:
        """Take bytes that were received, and answer what is whole with them."""
        for message, placed in self._messages(count):
            if placed:
                self._pieces.received(message)
                self._answer_pieces(known, _CHECKED)
            else:
                self._answer_pieces(known, 0)
                self._send(known, *self._answered(message))

    def _answer_pieces(self, known: socket.socket, count: int) -> None:
        """Answer the pieces in their places, but for the last ones."""
        while len(self._pieces) > count:
            piece = self._pieces.first()
            self._send(known, *self._answered(piece.start, piece))

    def _end_pieces(self) -> None:
        """Take what has arrived, although nobody hears so, and forget what has not."""
        while self._pieces:
            piece = self._pieces.first()
            _, asked, answer = self._answered(piece.start, piece)
            self._server.admission.end(asked, answer)
        self._pieces.end()

    def _send(
        self, known: socket.socket, parts: list[Content], asked: Asked, answer: Answer
    ) -> None:
        try:
            with self._sending:
                for part in parts:
                    known.sendall(part)
            self._send_controls(known)
        finally:
            # The client has its answer while this is written down.
            self._server.admission.end(asked, answer)

    def _work_on_inbox(self) -> None:
        """Answer the messages that the loop received."""
        while (message := self._inbox.get()) is not None:
            parts, asked, answer = self._answered(message)
            self._worked += len(message)
            self._writable.wait()
            self._in_loop(self._write, parts)
            self._server.admission.end(asked, answer)

    def _write(self, answer: list[Content]) -> None:
        if self._transport.is_closing():
            return
        for part in answer:
            self._transport.write(part)
        if self._paused and self._came - self._worked <= _INBOX:
            self._paused = False
            self._transport.resume_reading()

    def _answered(
        self, message: memoryview, piece: Piece | None = None
    ) -> tuple[list[Content], Asked, Answer]:
        """Return the parts of the answer to a message, and what is to be written down."""
        self._works = True
        admission = self._server.admission
        route = _ROUTES.get(message[0] if len(message) else 0, "requests")
        came = len(message) if piece is None else piece.nbytes
        asked = Asked(route, self._peer, self._header, came=came)
        asked.more["session"] = self._alias
        head = b""
        try:
            admission.begin(asked)
            head, content = self._done(message, asked, piece)
            answer = Answer(content)
        except Exception as error:
            if piece is not None:
                piece.withdraw()
            answer = admission.refuse(asked, error)
        start, content = STATUS.pack(answer.status) + head, answer.frame
        self._works = False
        first = websocket.head(websocket.BINARY, len(start) + len(content))
        if len(content) < _SHORT:
            return [b"".join((first, start, content))], asked, answer
        return [first + start, content], asked, answer

    def _known_session(self) -> Session:
        """Return the session, if the token still opens it."""
        return self._server.session(self._session, self._server.keyring.account(self._header))

    def _done(
        self, message: memoryview, asked: Asked, piece: Piece | None
    ) -> tuple[bytes, Content]:
        """Do what a message says; return the frame of its answer, in two parts."""
        if piece is not None:
            # It may have ended since the piece began to come.
            self._server.session(self._session, asked.account)
            return b"", pack(piece.arrive())
        if len(message) < ASK.size:
            raise FormatError("a message is cut off")
        kind, number, offset = ASK.unpack_from(message)
        frame = message[ASK.size :]
        session = self._server.session(self._session, asked.account)
        if kind == COMMANDS:
            told = asked.told = Told()
            return b"", session.answer(number, frame, self._compress, told)
        if kind == PUT:
            return b"", pack(session.add_piece(number, offset, frame))
        if kind == FIRST:
            return b"", pack(session.add_piece(number, 0, frame, total=offset))
        if kind == GET:
            return seal_parts(session.piece(number, offset), self._compress)
        raise ArgumentError(f"a stream has no messages of kind {kind}")


def streams_of(server: Server) -> Callable[..., StreamProtocol]:
    """Return what makes uvicorn's protocol for connections that ask for a WebSocket."""

    def made(config: Any, server_state: Any, app_state: Any) -> StreamProtocol:
        return StreamProtocol(server, server_state.connections)

    return made


def _arrivals(known: socket.socket) -> Callable[[], bool]:
    """Return what says whether bytes are there to be received; without `poll`, that none are."""
    if not hasattr(select, "poll"):
        return lambda: False
    poll = select.poll()
    poll.register(known.fileno(), select.POLLIN)
    return lambda: bool(poll.poll(0))


def _request(data: bytes) -> Request | None:
    """Return the request of a handshake; None for an address that has no streams."""
    first, *lines = data.rstrip(b"\r\n").split(b"\r\n")
    method, target, _ = first.split(b" ", 2)
    path = target.partition(b"?")[0].decode("ascii", "replace").split("/")
    if method != b"GET" or path[:3] != ["", "v1", "sessions"] or path[4:] != ["stream"]:
        return None
    pairs = (line.partition(b":") for line in lines)
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    return Request(
        {
            "type": "http", "method": "GET", "path": "/".join(path), "query_string": b"",
            "headers": headers, "path_params": {"session": path[3]},
        }
    )  # fmt: skip
