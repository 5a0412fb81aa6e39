"""Pieces that are received where they stay: what is checked, what is cut off, and who writes."""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

import calor
import calor_http
from calor_http import checksums, websocket
from calor_http.checksums import begun
from calor_http.client import staging
from calor_http.client.link import Link
from calor_http.client.staging import Staging
from calor_http.client.stream import Stream
from calor_http.connection import Connection
from calor_http.frames import CHUNK, MESSAGE, pack, seal, unpack
from calor_http.server import blobs as blobs_module
from calor_http.server import incoming
from calor_http.server.blobs import Blobs
from calor_http.server.incoming import START
from calor_http.server.limits import Limits
from calor_http.server.local import LocalServer
from calor_http.streams import ASK, COMMANDS, FIRST, PUT, STATUS
from waiting import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer("numpy", limits=Limits(body_seconds=5.0)) as server:
        yield server


class Raw:
    """A client that writes its own messages; each of its streams is a socket."""

    def __init__(self, server: LocalServer, mask: bytes = b"\x01\x82\x43\xfe") -> None:
        self.server, self.mask = server, mask
        made = httpx.post(f"{server.address}/v1/sessions", content=pack({"version": 1}))
        self.name = unpack(made.content, MESSAGE)["session"]

    def stream(self) -> socket.socket:
        """Open a stream."""
        port = int(self.server.address.rpartition(":")[2])
        made = socket.create_connection(("127.0.0.1", port), timeout=20)
        made.sendall(
            f"GET /v1/sessions/{self.name}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            data += made.recv(1)
        assert data.startswith(b"HTTP/1.1 101")
        return made

    def message(self, content: bytes) -> bytes:
        """Return a message as a frame."""
        head = websocket.head(websocket.BINARY, len(content), self.mask)
        return head + websocket.masked(content, self.mask)

    def put(self, offset: int, content: bytes, number: int = 5) -> bytes:
        """Return the message of a piece."""
        return self.message(ASK.pack(PUT, number, offset) + seal(content))

    @property
    def session(self) -> Any:
        """Its session on the server."""
        return self.server.server.sessions[self.name]

    @property
    def held(self) -> int:
        """The bytes of contents on their way, as the server counts them."""
        return int(self.session._room.blobs.nbytes)


def answer(stream: socket.socket) -> tuple[int, Any]:
    """Return the status and the message of the next answer."""
    while True:
        first, nbytes = stream.recv(2, socket.MSG_WAITALL)
        if nbytes == 126:
            (nbytes,) = struct.unpack(">H", stream.recv(2, socket.MSG_WAITALL))
        content = stream.recv(nbytes, socket.MSG_WAITALL) if nbytes else b""
        if first & 0xF == websocket.BINARY:
            return STATUS.unpack_from(content)[0], unpack(content[STATUS.size :], MESSAGE)


def content_of(raw: Raw, stream: socket.socket, nbytes: int, number: int = 5) -> bytes:
    """Return what has arrived, which is taken and summed up by the server."""
    took = ["take", 1, 0, "uint8", [nbytes], number]
    stream.sendall(raw.message(ASK.pack(COMMANDS, 1, 0) + pack([took])))
    assert answer(stream) == (200, [None])
    return value_of(raw)


def value_of(raw: Raw) -> bytes:
    """Return the bytes of the only value."""
    (value,) = raw.session._room.values._held.values()
    array = value.device.backend.download(value.device.index, value.buffer, value.spec)
    return bytes(array.tobytes())


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the pieces that are received in their places."""
    found: list[int] = []
    place = Blobs.place

    def noted(self: Any, number: int, offset: int, nbytes: int) -> Any:
        made = place(self, number, offset, nbytes)
        if made is not None:
            found.append(nbytes)
        return made

    monkeypatch.setattr(Blobs, "place", noted)
    return found


@pytest.mark.parametrize("mask", [b"\x01\x82\x43\xfe", websocket.NO_MASK])
@pytest.mark.parametrize("threads", [0, 4])
def test_pieces_behind_others_are_received_where_they_stay(
    server: LocalServer,
    placed: list[int],
    monkeypatch: pytest.MonkeyPatch,
    mask: bytes,
    threads: int,
) -> None:
    """Whether their checksums are made at once or by other threads, and with and without a mask."""
    if threads:
        monkeypatch.setattr(checksums, "_quick", None)
    monkeypatch.setattr(checksums, "_threads", lambda: threads)
    raw = Raw(server, mask)
    given = np.random.default_rng(1).integers(0, 256, 3 * CHUNK + 70_001, np.uint8).tobytes()
    sizes = [70_000, CHUNK, 50_000, CHUNK, 9, len(given) - 2 * CHUNK - 120_009]
    with raw.stream() as stream:
        start, ends = 0, []
        for size in sizes:
            piece = given[start : start + size]
            stream.sendall(raw.put(start, piece))
            start += size
            ends.append(start)
        assert [answer(stream) for _ in sizes] == [(200, end) for end in ends]
        assert raw.held == len(given)
        assert content_of(raw, stream, len(given)) == given
    # Not the first one; a short one may be whole when it is looked at.
    assert [n for n in placed if n > 1 << 16] == [n for n in sizes[1:] if n > 1 << 16]
    assert raw.held == 0


def test_a_first_piece_says_how_much_memory_there_will_be(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms: list[int] = []
    backend = calor.device("numpy").backend
    host_array = backend.host_array

    def room(index: int, nbytes: int) -> Any:
        rooms.append(nbytes)
        return host_array(index, nbytes)

    monkeypatch.setattr(backend, "host_array", room)
    raw = Raw(server)
    total = 10 * 100_000
    given = np.random.default_rng(2).integers(0, 256, total, np.uint8).tobytes()
    with raw.stream() as stream:
        stream.sendall(raw.message(ASK.pack(FIRST, 5, total) + seal(given[:100_000])))
        assert answer(stream) == (200, 100_000)
        for start in range(100_000, total, 100_000):
            stream.sendall(raw.put(start, given[start : start + 100_000]))
            assert answer(stream) == (200, start + 100_000)
        assert rooms == [total]
        assert content_of(raw, stream, total) == given
        # What is announced is not what is taken.
        rooms.clear()
        stream.sendall(raw.message(ASK.pack(FIRST, 6, 2**62) + seal(b"x" * 1000)))
        assert answer(stream) == (200, 1000)
        assert rooms == [blobs_module.AHEAD * 1000]


def test_a_damaged_piece_leaves_nothing_and_is_sent_again(
    server: LocalServer, placed: list[int]
) -> None:
    raw = Raw(server)
    given = np.random.default_rng(3).integers(0, 256, 3 * CHUNK, np.uint8).tobytes()
    first, second, third = (given[place : place + CHUNK] for place in (0, CHUNK, 2 * CHUNK))
    damaged = bytearray(raw.put(CHUNK, second))
    damaged[CHUNK // 2] ^= 1
    with raw.stream() as stream:
        for message in (raw.put(0, first), bytes(damaged), raw.put(2 * CHUNK, third)):
            stream.sendall(message)
        assert answer(stream) == (200, CHUNK)
        assert answer(stream)[0] == 422
        # What came behind it follows nothing.
        status, told = answer(stream)
        assert (status, told["error"]["kind"]) == (400, "ArgumentError")
        assert raw.held == CHUNK
        for place, piece in ((CHUNK, second), (2 * CHUNK, third)):
            stream.sendall(raw.put(place, piece))
            assert answer(stream) == (200, place + CHUNK)
        assert content_of(raw, stream, len(given)) == given
    # The third one is received in its place if it begins before the damage is known.
    assert placed in ([CHUNK] * 3, [CHUNK] * 4)


def test_a_piece_that_is_cut_off_leaves_nothing(server: LocalServer, placed: list[int]) -> None:
    raw = Raw(server)
    given = np.random.default_rng(4).integers(0, 256, 2 * CHUNK, np.uint8).tobytes()
    with raw.stream() as stream:
        stream.sendall(raw.put(0, given[:CHUNK]))
        assert answer(stream) == (200, CHUNK)
        stream.sendall(raw.put(CHUNK, given[CHUNK:])[: CHUNK // 2])
        wait_until(lambda: raw.held == 2 * CHUNK)
    wait_until(lambda: raw.held == CHUNK)
    with raw.stream() as stream:
        stream.sendall(raw.put(0, b""))
        assert answer(stream) == (200, CHUNK)
        stream.sendall(raw.put(CHUNK, given[CHUNK:]))
        assert answer(stream) == (200, 2 * CHUNK)
        assert content_of(raw, stream, len(given)) == given
    assert placed == [CHUNK, CHUNK]


def test_a_stream_that_stands_still_writes_to_nothing_that_another_one_fills(
    server: LocalServer, placed: list[int]
) -> None:
    """What a broken stream still receives is not what the next stream has sent meanwhile."""
    raw = Raw(server)
    given = np.random.default_rng(5).integers(0, 256, 3 * CHUNK, np.uint8).tobytes()
    wrong = raw.put(CHUNK, bytes(CHUNK))
    with raw.stream() as slow, raw.stream() as stream:
        stream.sendall(raw.put(0, given[:CHUNK]))
        assert answer(stream) == (200, CHUNK)
        slow.sendall(wrong[: CHUNK // 2])
        wait_until(lambda: raw.held == 2 * CHUNK)
        for place in (CHUNK, 2 * CHUNK):
            stream.sendall(raw.put(place, given[place : place + CHUNK]))
            assert answer(stream) == (200, place + CHUNK)
        slow.sendall(wrong[CHUNK // 2 :])
        assert answer(slow)[0] == 400
        assert raw.held == len(given)
        assert content_of(raw, stream, len(given)) == given
    assert placed == [CHUNK, CHUNK]


def test_pieces_beyond_what_a_client_may_hold_are_refused() -> None:
    limits = Limits(client_bytes=2 * CHUNK)
    with LocalServer("numpy", limits=limits) as server:
        raw = Raw(server)
        with raw.stream() as stream:
            for place in range(0, 2 * CHUNK, CHUNK):
                stream.sendall(raw.put(place, bytes(CHUNK)))
                assert answer(stream) == (200, place + CHUNK)
            stream.sendall(raw.put(2 * CHUNK, bytes(CHUNK)))
            status, told = answer(stream)
            assert (status, told["error"]["kind"]) == (400, "OutOfMemoryError")
        assert raw.held == 0


@pytest.mark.parametrize("size", [1, 100, 40_000])
def test_pieces_may_come_in_any_bits(server: LocalServer, size: int) -> None:
    """The start of a piece may come byte by byte."""
    raw = Raw(server)
    given = np.random.default_rng(6).integers(0, 256, 150_000, np.uint8).tobytes()
    with raw.stream() as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.sendall(raw.put(0, given[:75_000]))
        assert answer(stream) == (200, 75_000)
        message = raw.put(75_000, given[75_000:])
        bits = [message[at : at + size] for at in range(0, min(START + 60, len(message)), size)]
        for bit in bits:
            stream.sendall(bit)
        stream.sendall(message[sum(map(len, bits)) :])
        assert answer(stream) == (200, 150_000)
        assert content_of(raw, stream, len(given)) == given


def test_places_are_memory_of_the_contents_alone() -> None:
    """What was placed and withdrawn is counted no more, and written by nobody who reads."""
    counted: list[int] = []
    blobs = Blobs(100 * CHUNK, counted.append, lambda nbytes: np.zeros(nbytes, np.uint8))
    blobs.add(1, 0, b"a" * 100, total=1000)
    one = blobs.place(1, 100, 300)
    assert one is not None
    # While one is received, no other is.
    assert blobs.place(1, 400, 100) is None
    one.content[:] = b"b" * 300
    one.growing.received(one)
    two = blobs.place(1, 400, 100)
    assert two is not None
    assert blobs.nbytes == 500
    assert blobs.arrived(1, one) == 400
    assert blobs.add(1, 400, b"c" * 50) == 450
    assert blobs.nbytes == 450
    two.content[:] = b"d" * 100
    with pytest.raises(Exception, match="does not follow"):
        blobs.arrived(1, two)
    blobs.withdraw(1, two)
    assert blobs.nbytes == 450
    assert bytes(blobs.take(1)) == b"a" * 100 + b"b" * 300 + b"c" * 50
    assert blobs.nbytes == 0
    assert blobs.place(1, 0, 10) is None
    assert blobs.place(2, 0, 10) is None


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("nbytes", [0, 1, 1 << 20, CHUNK + 3])
def test_checksums_that_are_begun(
    monkeypatch: pytest.MonkeyPatch, threads: int, nbytes: int
) -> None:
    content = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8).tobytes()
    monkeypatch.setattr(checksums, "_threads", lambda: threads)
    assert begun(content, 9)() == zlib.crc32(content, 9)
    monkeypatch.setattr(checksums, "_quick", None)
    assert begun(content, 9)() == zlib.crc32(content, 9)


def test_when_the_interpreter_ends_nothing_waits_for_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a program does then still has checksums and copies: its threads take no more work."""
    over = ThreadPoolExecutor(1)
    over.shutdown()
    for module in (checksums, staging):
        monkeypatch.setattr(module, "_pool", lambda: over)
    monkeypatch.setattr(checksums, "_threads", lambda: 4)
    monkeypatch.setattr(staging, "processors", lambda: 16)
    given = np.random.default_rng(8).integers(0, 256, 3 * CHUNK, np.uint8)
    for quick in (checksums._quick, None):
        monkeypatch.setattr(checksums, "_quick", quick)
        assert begun(given.data, 9)() == zlib.crc32(given, 9)
    np.testing.assert_array_equal(copied(Staging(), given), given)


ARRAYS: dict[str, Callable[[], Any]] = {
    "rows": lambda: np.random.default_rng(0).standard_normal((1000, 1100)),
    "columns": lambda: np.random.default_rng(0).standard_normal((1100, 1000)).T,
    "steps": lambda: np.random.default_rng(0).standard_normal((1000, 2200))[:, ::2],
    "bytes": lambda: np.random.default_rng(0).integers(0, 256, 9_000_001, np.uint8),
    "few": lambda: np.arange(7, dtype=np.float32),
    "none": lambda: np.zeros((0, 3)),
    "number": lambda: np.array(4.5),
}


def copied(waiting: Staging, array: Any) -> Any:
    """Return a copy that is whole."""
    copy = waiting.begun(array)
    copy.wait()
    return copy.array


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("processors", [1, 16])
def test_copies_wait_in_rows(monkeypatch: pytest.MonkeyPatch, name: str, processors: int) -> None:
    monkeypatch.setattr(staging, "processors", lambda: processors)
    given = ARRAYS[name]()
    before = given.copy()
    made = copied(Staging(), given)
    given[...] = 0
    assert made.dtype == before.dtype
    assert made.flags.c_contiguous
    np.testing.assert_array_equal(made, before)


def test_memory_of_copies_is_used_again_when_nobody_has_it() -> None:
    waiting = Staging()
    given = np.arange(1 << 18, dtype=np.float32)
    first = copied(waiting, given)
    place = first.ctypes.data
    view = memoryview(first.reshape(-1).view(np.uint8).data)
    del first
    second = copied(waiting, given + 1)
    assert second.ctypes.data != place, "a view still reads it"
    np.testing.assert_array_equal(np.frombuffer(view, np.float32), given)
    del view
    third = copied(waiting, given + 2)
    assert third.ctypes.data == place
    np.testing.assert_array_equal(third, given + 2)
    np.testing.assert_array_equal(second, given + 1)
    # Not for what needs much less of it.
    del third
    assert copied(waiting, given[: 1 << 16]).ctypes.data != place
    waiting.clear()
    assert not waiting._idle


def test_what_waits_for_reuse_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_IDLE", 3 << 20)
    waiting = Staging()
    made = [copied(waiting, np.zeros(1 << 20, np.uint8)) for _ in range(8)]
    made.clear()
    assert len(waiting._idle) == 8
    copied(waiting, np.zeros(1 << 20, np.uint8))
    assert sum(map(len, waiting._idle)) == 4 << 20


def test_memory_for_copies_is_given_back_when_nothing_is_sent_for_a_while() -> None:
    with LocalServer("numpy", limits=Limits(lease_seconds=1.0)) as server:
        device = calor.device(f"{server.address}/numpy")
        with calor.device(device):
            x = calor.asarray(np.ones(1 << 18))
            assert x.sum().item() == 1 << 18
            held = device.backend._staging._idle
            wait_until(lambda: len(held) == 1)
            wait_until(lambda: len(held) == 0)
        calor_http.close(device)


@pytest.mark.parametrize("streams", ["1", "0"])
def test_what_is_copied_is_sent_before_the_rest_is(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, streams: str
) -> None:
    """A piece waits for its own bytes, and the program for all: it changes its array then."""
    monkeypatch.setenv("CALOR_HTTP_STREAM", streams)
    monkeypatch.setattr(staging, "processors", lambda: 16)
    told: list[str] = []

    class Slow(ThreadPoolExecutor):
        def submit(self, call: Any, *given: Any) -> Any:
            def slow() -> None:
                time.sleep(0.05)
                told.append("copied")
                call(*given)

            return super().submit(slow)

    send, plainly = Link._send_piece, Link._send_plainly
    monkeypatch.setattr(
        Link, "_send_piece", lambda *given: [told.append("sent"), send(*given)].pop()
    )
    monkeypatch.setattr(
        Link, "_send_plainly", lambda *given: [plainly(*given), told.append("sent")].pop()
    )
    device = calor.device(f"{server.address}/numpy")
    given = np.random.default_rng(7).standard_normal(3 * CHUNK // 8)
    wanted = given.copy()
    with Slow(1) as slow, calor.device(device):
        monkeypatch.setattr(staging, "_pool", lambda: slow)
        x = calor.asarray(given)
        given[...] = 0
        np.testing.assert_array_equal(x.numpy(), wanted)
    calor_http.close(device)
    assert told.count("copied") == given.nbytes // (2 << 20)
    assert told.index("sent") < len(told) - 1 - told[::-1].index("copied")


@pytest.mark.parametrize(
    ("host", "masked"), [("127.0.0.1", False), ("localhost", False), ("gpu.example", True)]
)
def test_a_mask_is_laid_over_what_others_could_read(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, host: str, masked: bool
) -> None:
    """Without encryption, on the way to another machine; anywhere the frame says which mask."""
    port = int(server.address.rpartition(":")[2])
    connect = socket.create_connection
    monkeypatch.setattr(
        socket, "create_connection", lambda to, **given: connect(("127.0.0.1", to[1]), **given)
    )
    monkeypatch.setattr(Stream, "_shake_hands", lambda self, path, host: None)
    stream = Stream(Connection(f"http://{host}:{port}", None), "/v1/sessions/x")
    masks = {stream._mask() for _ in range(5)}
    assert (masks == {websocket.NO_MASK}) is not masked
    assert len(masks) == (5 if masked else 1)
    stream.close()


def test_large_messages_other_than_pieces_are_received_as_a_whole(server: LocalServer) -> None:
    raw = Raw(server)
    content = np.arange(50_000, dtype=np.uint16).tobytes()
    with raw.stream() as stream:
        up = ["up", 1, 0, "uint16", [50_000], content]
        stream.sendall(raw.message(ASK.pack(COMMANDS, 1, 0) + pack([up])))
        assert len(content) > incoming._LARGE
        assert answer(stream) == (200, [None])
        assert value_of(raw) == content
