"""A stream to a server: the requests of a session over one WebSocket, without waiting in between.

Requirements: a small request costs little more than the way there and back; contents are received
where they stay; whatever is wrong with the connection is an OSError, after which it is of no use.
"""

from __future__ import annotations

import base64
import os
import socket
from contextlib import suppress
from typing import Final

import httpx
import numpy as np

from calor_http import websocket
from calor_http.checksums import Content
from calor_http.connection import Connection, is_loopback
from calor_http.frames import CHUNK, HEAD, MESSAGE, PLAIN, fits, unseal
from calor_http.streams import ASK, COMMANDS, FIRST, GET, HEARTBEAT, PROTOCOL, PUT, STATUS

_CONNECTING: Final = 5.0
_HEADERS: Final = 1 << 16
_READ: Final = 1 << 16
# Contents from this size on are received where they stay, and sent without being joined.
_APART: Final = 1 << 15
_SLACK: Final = 1024


class NoStreamError(Exception):
    """Something on the way lets no stream pass."""


class Stream:
    """An open stream.

    Parameters
    ----------
    connection : Connection
        The way to the server.
    session : str
        The address of the session, such as ``/v1/sessions/NAME``.

    Raises
    ------
    NoStreamError
        If the server, or a proxy before it, knows no streams.
    OSError
        If there is no connection.
    """

    def __init__(self, connection: Connection, session: str) -> None:
        self._connection = connection
        url = httpx.URL(connection.base)
        port = url.port or (443 if url.scheme == "https" else 80)
        plain = socket.create_connection((url.host, port), timeout=_CONNECTING)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain
            if url.scheme == "https":
                self._socket = connection.context.wrap_socket(plain, server_hostname=url.host)
            self._data = bytearray()
            self._shake_hands(f"{session}/stream", url.netloc.decode())
            self._socket.settimeout(2 * HEARTBEAT + _CONNECTING)
        except BaseException:
            self.close()
            raise
        self._room = np.empty(0, np.uint8)
        self._masks = b""
        # A mask keeps a program between from taking contents for requests. There is none that reads
        # what is encrypted, and none on the way to this machine.
        self._bare = url.scheme == "https" or is_loopback(url.host)

    def _shake_hands(self, path: str, host: str) -> None:
        key = base64.b64encode(os.urandom(16))
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key.decode()}",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: {PROTOCOL}",
            *(f"{name}: {value}" for name, value in self._connection.headers.items()),
        ]
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self._data:
            if len(self._data) > _HEADERS:
                raise NoStreamError("the answer to a handshake does not end")
            self._read_more()
        end = self._data.index(b"\r\n\r\n") + 4
        status, fields = _parsed(bytes(self._data[:end]))
        del self._data[:end]
        if status == 503:
            raise ConnectionError("status 503")
        accepted = fields.get(b"sec-websocket-accept") == websocket.accept_of(key)
        if status != 101 or not accepted:
            raise NoStreamError(f"a handshake was answered with status {status}")

    # What is sent.
    def commands(self, number: int, frame: Content) -> None:
        """Send the commands of a request."""
        self._send(ASK.pack(COMMANDS, number, 0), frame)

    def put(self, number: int, offset: int, head: bytes, piece: Content, total: int) -> None:
        """Send a piece of contents, of which there are so many bytes in all."""
        ask = ASK.pack(PUT, number, offset) if offset else ASK.pack(FIRST, number, total)
        self._send(ask + head, piece)

    def get(self, number: int, offset: int) -> None:
        """Ask for a piece of contents."""
        self._send(ASK.pack(GET, number, offset), b"")

    def _send(self, head: bytes, content: Content) -> None:
        mask = self._mask()
        nbytes = len(head) + len(content)
        first = websocket.head(websocket.BINARY, nbytes, mask)
        if len(content) < _APART:
            self._socket.sendall(first + websocket.masked(head + bytes(content), mask))
            return
        self._socket.sendall(first + websocket.masked(head, mask))
        if mask == websocket.NO_MASK:
            self._socket.sendall(content)
            return
        if len(self._room) < len(content):
            self._room = np.empty(max(len(content), CHUNK), np.uint8)
        turned = len(head) % 4
        room = self._room[: len(content)]
        over = mask[turned:] + mask[:turned]
        websocket.mask_into(room, np.frombuffer(content, np.uint8), over)
        self._socket.sendall(room.data)

    def _mask(self) -> bytes:
        """Return a mask that nobody foresees, where one is of use; many are drawn at a time."""
        if self._bare:
            return websocket.NO_MASK
        if len(self._masks) < 4:
            self._masks = os.urandom(4096)
        found, self._masks = self._masks[:4], self._masks[4:]
        return found

    # What is received.
    def answer(self) -> Content:
        """Return the content of the next answer; raise what it says in its place."""
        content, _ = self._message(None)
        status = STATUS.unpack_from(content)[0]
        frame = memoryview(content)[STATUS.size :]
        self._connection.check(status, frame)
        return unseal(frame, MESSAGE)

    def answer_into(self, target: memoryview) -> int:
        """Write the content of the next answer to a target; return how many bytes it has."""
        content, placed = self._message(target)
        status = STATUS.unpack_from(content)[0]
        if not placed:
            frame = memoryview(content)[STATUS.size :]
            self._connection.check(status, frame)
            found = unseal(frame, CHUNK)
            if not 0 < len(found) <= len(target):
                raise ConnectionError("a piece is none of what was asked for")
            target[: len(found)] = found
            return len(found)
        if not fits(content[STATUS.size :], target[:placed]):
            raise ConnectionError("the checksum of a piece does not fit")
        return placed

    def _message(self, target: memoryview | None) -> tuple[bytes, int]:
        """Return the next message, and how many bytes at its end were written to a target."""
        parts: list[bytes] = []
        while True:
            opcode, final, nbytes = self._frame_head()
            if opcode & websocket.CLOSE:
                self._control(opcode, self._taken(nbytes))
                continue
            if opcode != (websocket.CONTINUED if parts else websocket.BINARY):
                raise ConnectionError(f"a stream has a frame of kind {opcode}")
            if nbytes + sum(map(len, parts)) > MESSAGE + _SLACK:
                raise ConnectionError(f"an answer has {nbytes} bytes")
            ahead = STATUS.size + HEAD
            if target is not None and final and not parts and nbytes >= _APART + ahead:
                start = self._taken(ahead)
                told = STATUS.unpack_from(start)[0] == 200 and start[-1] == PLAIN
                if told and nbytes - ahead <= len(target):
                    self._take_into(target[: nbytes - ahead])
                    return start, nbytes - ahead
                return start + self._taken(nbytes - ahead), 0
            parts.append(self._taken(nbytes))
            if final:
                whole = parts[0] if len(parts) == 1 else b"".join(parts)
                if len(whole) < STATUS.size:
                    raise ConnectionError("an answer has no status")
                return whole, 0

    def _frame_head(self) -> tuple[int, bool, int]:
        while True:
            found = websocket.parse_head(memoryview(self._data))
            if found is not None:
                opcode, final, nbytes, mask, size = found
                if mask:
                    raise ConnectionError("a frame of the server has a mask")
                del self._data[:size]
                return opcode, final, nbytes
            self._read_more()

    def _control(self, opcode: int, content: bytes) -> None:
        if opcode == websocket.CLOSE:
            raise ConnectionError("the server closed the stream")
        if opcode == websocket.PING:
            mask = self._mask()
            head = websocket.head(websocket.PONG, len(content), mask)
            self._socket.sendall(head + websocket.masked(content, mask))

    def _read_more(self) -> None:
        found = self._socket.recv(_READ)
        if not found:
            raise ConnectionError("the connection ended")
        self._data += found

    def _taken(self, nbytes: int) -> bytes:
        """Return bytes that are next, and wait for them."""
        if len(self._data) >= nbytes:
            found = bytes(self._data[:nbytes])
            del self._data[:nbytes]
            return found
        made = bytearray(nbytes)
        self._take_into(memoryview(made))
        return bytes(made)

    def _take_into(self, target: memoryview) -> None:
        there = min(len(self._data), len(target))
        target[:there] = self._data[:there]
        del self._data[:there]
        while there < len(target):
            count = self._socket.recv_into(target[there:])
            if not count:
                raise ConnectionError("the connection ended")
            there += count

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._socket.close()


def _parsed(answer: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Return the status of an answer's head and its fields, whose names are in small letters."""
    first, *lines = answer.rstrip().split(b"\r\n")
    words = first.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise NoStreamError("a handshake was answered by no HTTP server")
    pairs = (line.partition(b":") for line in lines)
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}
