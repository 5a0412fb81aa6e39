"""Streams: requests over one WebSocket, what harms them, and what happens where none passes."""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

import calor
from calor_http import websocket
from calor_http.errors import LeaseLostError
from calor_http.frames import CHUNK, HEAD, MESSAGE, pack, seal, unpack
from calor_http.server.limits import Limits
from calor_http.server.local import LocalServer
from calor_http.server.stream import StreamProtocol
from calor_http.streams import ASK, COMMANDS, GET, PUT, STATUS
from cutting_proxy import CuttingProxy

TOKEN = "the-token-of-this-server"
UP = ["up", 1, 0, "float32", [4], np.arange(4, dtype=np.float32).tobytes()]


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    logging.getLogger("calor_http").setLevel(logging.CRITICAL)
    limits = Limits(body_seconds=0.4, header_seconds=0.5, commands=100, tensor_bytes=1 << 24)
    with LocalServer("numpy", token=TOKEN, limits=limits) as server:
        yield server


class Raw:
    """A stream of a client that sends whatever it wants."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.socket: Any = None
        self.http = httpx.Client(
            base_url=server.address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20
        )
        answer = self.http.post("/v1/sessions", content=pack({"version": 1}))
        self.session = f"/v1/sessions/{unpack(answer.content, MESSAGE)['session']}"
        self.open()

    def open(self, path: str | None = None, **fields: str) -> None:
        """Shake hands; what is answered is in ``head``."""
        known = {
            "Host": "x", "Upgrade": "websocket", "Connection": "Upgrade",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version": "13",
            "Authorization": f"Bearer {TOKEN}",
            **{name.replace("_", "-"): value for name, value in fields.items()},
        }  # fmt: skip
        port = int(self.server.address.rpartition(":")[2])
        if self.socket is not None:
            self.socket.close()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        lines = [f"GET {path or self.session + '/stream'} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in known.items() if value]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.data = b""
        while b"\r\n\r\n" not in self.data:
            self.read_more()
        self.head, _, self.data = self.data.partition(b"\r\n\r\n")

    def read_more(self) -> None:
        found = self.socket.recv(65536)
        if not found:
            raise ConnectionError
        self.data += found

    def send(self, content: bytes, opcode: int = websocket.BINARY, first: int = 0x80) -> None:
        mask = b"\x01\x82\x43\xfe"
        head = bytearray(websocket.head(opcode, len(content), mask))
        head[0] = first | opcode
        self.socket.sendall(bytes(head) + websocket.masked(content, mask))

    def frame(self) -> tuple[int, bytes]:
        """Return the opcode and the content of the next frame."""
        while True:
            found = websocket.parse_head(memoryview(self.data))
            if found is not None and len(self.data) >= found[4] + found[2]:
                opcode, final, nbytes, mask, size = found
                assert final
                assert not mask
                content, self.data = self.data[size : size + nbytes], self.data[size + nbytes :]
                return opcode, content
            self.read_more()

    def answer(self) -> tuple[int, Any]:
        """Return the status and the message of the next answer."""
        while True:
            opcode, content = self.frame()
            if opcode == websocket.BINARY:
                break
        frame = content[STATUS.size :]
        return STATUS.unpack_from(content)[0], unpack(frame, MESSAGE)

    def ask(self, number: int, *commands: Any) -> tuple[int, Any]:
        """Send commands; return the status and the answer."""
        self.send(ASK.pack(COMMANDS, number, 0) + pack(list(commands)))
        return self.answer()

    def ends(self) -> int:
        """Return the status with which the server closes the stream."""
        while True:
            opcode, content = self.frame()
            if opcode == websocket.CLOSE:
                with pytest.raises(ConnectionError):
                    self.read_more()
                return int.from_bytes(content, "big")


@pytest.fixture
def raw(server: LocalServer) -> Iterator[Raw]:
    raw = Raw(server)
    yield raw
    # Whatever happened, the server answers as before.
    other = Raw(server)
    assert other.ask(1, UP, ["read", 1, 0, 5]) == (200, [None, UP[-1]])
    for one in (raw, other):
        one.socket.close()
        one.http.delete(one.session)
        one.http.close()


def test_requests_are_numbered_as_they_are_without_streams(raw: Raw) -> None:
    assert raw.head.startswith(b"HTTP/1.1 101")
    made = raw.ask(1, UP, ["read", 1, 0, 5])
    assert made == (200, [None, UP[-1]])
    # A repeated request is not run again, whichever way it comes.
    assert raw.ask(1, ["read", 9, 0, 5]) == made
    answer = raw.http.post(f"{raw.session}/requests/1", content=pack([]))
    assert unpack(answer.content, MESSAGE) == made[1]
    assert raw.ask(3)[0] == 400
    answer = raw.http.post(f"{raw.session}/requests/2", content=pack([["read", 1, 0, 6]]))
    assert unpack(answer.content, MESSAGE) == [UP[-1]]
    raw.open()
    assert raw.ask(2)[1] == [UP[-1]]
    assert raw.ask(3) == (200, [])


def test_many_requests_are_answered_in_their_order(raw: Raw) -> None:
    for number in range(1, 40):
        raw.send(ASK.pack(COMMANDS, number, 0) + pack([["up", number, 0, "int8", [1], b"x"]] * 2))
    for _ in range(1, 40):
        status, (first, second) = raw.answer()
        assert (status, first, second["error"]["kind"]) == (200, None, "ProtocolError")


@pytest.mark.parametrize("nbytes", [0, 1, 7, 30_000, 70_000, CHUNK])
def test_pieces_go_both_ways(raw: Raw, nbytes: int) -> None:
    given = np.random.default_rng(nbytes).integers(0, 255, 2 * nbytes, np.uint8).tobytes()
    for offset in (0, nbytes):
        raw.send(ASK.pack(PUT, 5, offset) + seal(given[offset : offset + nbytes]))
    if not nbytes:
        assert raw.answer() == raw.answer() == (200, 0)
        return
    assert [raw.answer(), raw.answer()] == [(200, nbytes), (200, 2 * nbytes)]
    took = ["take", 1, 0, "uint8", [2 * nbytes], 5]
    status, answers = raw.ask(1, took, ["read", 1, 0, 6])
    assert status == 200
    if answers[1] == given:
        return
    assert answers == [None, len(given)]
    raw.send(ASK.pack(GET, 6, nbytes))
    _, content = raw.frame()
    assert content[STATUS.size + HEAD :] == given[nbytes : nbytes + CHUNK]


WRONG_HANDSHAKES: dict[str, tuple[dict[str, str], bytes]] = {
    "no token": ({"Authorization": ""}, b"401"),
    "another token": ({"Authorization": "Bearer x"}, b"401"),
    "no session": ({"path": "/v1/sessions/x/stream"}, b"404"),
    "no address": ({"path": "/v1/streams"}, b"404"),
    "no version": ({"Sec_WebSocket_Version": "7"}, b"400"),
    "no key": ({"Sec_WebSocket_Key": ""}, b"400"),
    "no websocket": ({"Upgrade": "h2c"}, b"404"),
}


@pytest.mark.parametrize("name", WRONG_HANDSHAKES)
def test_handshakes_that_are_refused(raw: Raw, name: str) -> None:
    fields, status = WRONG_HANDSHAKES[name]
    raw.open(**fields)
    assert raw.head.split()[1] == status
    assert b"Traceback" not in raw.data


def test_messages_that_are_wrong_are_answered(raw: Raw) -> None:
    rng = random.Random(3)
    for content in (
        b"", b"x", ASK.pack(COMMANDS, 1, 0), ASK.pack(COMMANDS, 1, 0) + b"123456789",
        ASK.pack(9, 1, 0) + pack([]), ASK.pack(PUT, 1, 7) + seal(b"x"), ASK.pack(GET, 1, 0),
        ASK.pack(COMMANDS, 1, 0) + pack({"a": 1}), ASK.pack(COMMANDS, 1, 0) + pack([[]] * 101),
        *(rng.randbytes(rng.randrange(60)) for _ in range(200)),
    ):  # fmt: skip
        raw.send(content)
        status, told = raw.answer()
        assert status in (400, 413, 422)
        assert told["error"]["kind"] in (
            "FormatError", "ArgumentError", "LimitError", "ProtocolError",
        )  # fmt: skip
    assert raw.ask(1) == (200, [])


def test_a_new_stream_takes_the_place_of_the_oldest(raw: Raw) -> None:
    oldest = raw.socket
    kept = []
    for _ in range(4):
        kept.append(raw.socket)
        # It is not closed at this end.
        raw.socket = None
        raw.open()
        assert b" 101 " in raw.head
    assert raw.ask(1) == (200, [])
    assert oldest.recv(100)[:1] == b"\x88"
    for socket_of in kept:
        socket_of.close()


def test_what_is_against_the_rules_ends_the_stream(raw: Raw) -> None:
    mask = b"abcd"
    for data, status in (
        (websocket.head(websocket.BINARY, 3) + b"xyz", 1002),
        (websocket.head(1, 3, mask) + b"xyz", 1002),
        (websocket.head(0x42, 3, mask) + b"xyz", 1002),
        (websocket.head(websocket.CONTINUED, 3, mask) + b"xyz", 1002),
        (websocket.head(websocket.PING, 130, mask) + bytes(130), 1002),
        (websocket.head(websocket.BINARY, MESSAGE + 100, mask), 1009),
        (websocket.head(websocket.BINARY, 2**63, mask), 1009),
        (websocket.head(websocket.CLOSE, 0, mask), 1000),
        # What does not go on arriving.
        (websocket.head(websocket.BINARY, 3, mask) + b"x", 1008),
        (websocket.head(websocket.BINARY, CHUNK, mask) + bytes(CHUNK // 2), 1008),
        (b"\x82", 1008),
    ):
        raw.open()
        raw.socket.sendall(data)
        assert raw.ends() == status
    raw.open()
    # Parts of a message have a limit together; the connection may be gone before this end reads.
    try:
        for turn in range(2000):
            raw.send(bytes(30_000), websocket.CONTINUED if turn else websocket.BINARY, first=0)
        status = raw.ends()
    except OSError:
        status = 1009
    assert status == 1009
    raw.socket.close()


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("content", [b"", b"xyz"])
def test_a_stream_says_why_it_ends_before_its_thread_closes_the_socket(
    raw: Raw, content: bytes, half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop is slower than the thread, and the client may have no more to send."""
    tell = StreamProtocol._tell

    def slow(self: StreamProtocol, opcode: int, content: bytes) -> None:
        time.sleep(0.1)
        tell(self, opcode, content)

    monkeypatch.setattr(StreamProtocol, "_tell", slow)
    raw.send(b"there?", websocket.PING)
    raw.send(content, 1 if content else websocket.CLOSE)
    if half:
        raw.socket.shutdown(socket.SHUT_WR)
    assert raw.frame() == (websocket.PONG, b"there?")
    assert raw.ends() == (1002 if content else 1000)


def test_control_frames_and_messages_in_parts(raw: Raw) -> None:
    whole = ASK.pack(COMMANDS, 1, 0) + pack([UP, ["read", 1, 0, 5]])
    raw.send(whole[:9], first=0)
    raw.send(b"are you there?", websocket.PING)
    raw.send(whole[9:30], websocket.CONTINUED, first=0)
    raw.send(b"", websocket.PONG)
    raw.send(whole[30:], websocket.CONTINUED)
    found = [raw.frame(), raw.frame()]
    assert (websocket.PONG, b"are you there?") in found
    content = next(content for opcode, content in found if opcode == websocket.BINARY)
    assert unpack(content[STATUS.size :], MESSAGE) == [None, UP[-1]]
    # A message may come byte by byte.
    mask = b"wxyz"
    content = ASK.pack(COMMANDS, 2, 0) + pack([])
    for byte in websocket.head(websocket.BINARY, len(content), mask) + websocket.masked(
        content, mask
    ):
        raw.socket.sendall(bytes([byte]))
    assert raw.answer() == (200, [])


def test_a_session_that_ended_is_not_known_to_its_stream(raw: Raw) -> None:
    assert raw.ask(1) == (200, [])
    raw.http.delete(raw.session)
    try:
        status, told = raw.ask(2)
    except ConnectionError:
        return
    assert (status, told["error"]["kind"]) == (404, LeaseLostError.__name__)


def test_work_takes_longer_than_a_message_may(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    from calor_http.server.room import Room

    read = Room._read

    def slow(*given: Any) -> Any:
        time.sleep(1.0)
        return read(*given)

    monkeypatch.setattr(Room, "_read", slow)
    mask = b"wxyz"
    content = ASK.pack(COMMANDS, 1, 0) + pack([UP, ["read", 1, 0, 5]])
    message = websocket.head(websocket.BINARY, len(content), mask) + websocket.masked(content, mask)
    raw.socket.sendall(message[:20])
    time.sleep(0.1)
    raw.socket.sendall(message[20:])
    assert raw.answer() == (200, [None, UP[-1]])


def test_parts_of_a_message_have_one_time_together(raw: Raw) -> None:
    raw.send(bytes(5), websocket.BINARY, first=0)
    try:
        for _ in range(40):
            time.sleep(0.05)
            raw.send(b"x", websocket.CONTINUED, first=0)
    except OSError:
        return
    assert raw.ends() == 1008


def test_a_stream_is_quiet_as_long_as_it_likes(raw: Raw) -> None:
    assert raw.ask(1) == (200, [])
    time.sleep(1.2)
    assert raw.ask(2) == (200, [])


@pytest.mark.parametrize("seed", range(3))
def test_masks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.bytes(4)
    for nbytes in (0, 1, 3, 4, 9, 2047, 2049, 5001):
        content = rng.bytes(nbytes)
        wanted = bytes(b ^ mask[i % 4] for i, b in enumerate(content))
        assert websocket.masked(content, mask) == wanted
        array = np.frombuffer(wanted, np.uint8).copy()
        websocket.mask_into(array, array, mask)
        assert array.tobytes() == content


def answers_of(address: str) -> list[float]:
    """Compute with small and with large values on a device, and end the session."""
    device = calor.device(f"{address}/numpy")
    try:
        with calor.device(device):
            given = np.arange(CHUNK // 4, dtype=np.float64)
            x = calor.asarray(given)
            made = (x * 2).numpy()
            np.testing.assert_array_equal(made, given * 2)
            state = calor.zeros(3)

            @calor.jit
            def step(x: Any) -> Any:
                state[...] = state + x
                return state.sum()

            return [step(calor.asarray([float(i)] * 3)).item() for i in range(20)]
    finally:
        device.backend.close()


WANTED = [3.0 * sum(range(i + 1)) for i in range(20)]


@pytest.mark.parametrize("cut", [pytest.param(False, marks=pytest.mark.slow), True])
def test_without_streams_everything_goes_by_requests(
    monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    monkeypatch.setenv("CALOR_HTTP_STREAM", "0")
    with LocalServer("numpy") as server:
        monkeypatch.setattr(StreamProtocol, "_admit", None)
        port = int(server.address.rpartition(":")[2])
        with CuttingProxy(port, 1, 3 * CHUNK if cut else 1 << 40) as proxy:
            assert answers_of(proxy.address) == WANTED


def test_a_server_without_streams_gets_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    from calor_http.server import serving

    monkeypatch.setattr(serving, "streams_of", lambda server: None)
    with LocalServer("numpy") as server:
        assert answers_of(server.address) == WANTED


def test_a_proxy_that_cuts_handshakes_gets_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    from calor_http.client.stream import Stream

    tries = []

    def cut(self: Any, path: str, host: str) -> None:
        tries.append(path)
        raise ConnectionError("cut")

    monkeypatch.setattr(Stream, "_shake_hands", cut)
    with LocalServer("numpy") as server:
        assert answers_of(server.address) == WANTED
    assert len(tries) > 2


@pytest.mark.parametrize("tls", [False, True])
def test_a_client_hears_of_a_server_that_works_for_it(
    monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    from pathlib import Path

    from calor_http.client.stream import Stream
    from calor_http.server import stream
    from calor_http.server.room import Room

    monkeypatch.setattr(stream, "HEARTBEAT", 0.02)
    here = Path(__file__).parent
    files = str(here / "loopback-cert.pem"), str(here / "loopback-key.pem")
    monkeypatch.setenv("CALOR_HTTP_CA", files[0])
    heard, read, control = [], Room._read, Stream._control

    def slow(*given: Any) -> Any:
        time.sleep(0.3)
        return read(*given)

    def noted(self: Stream, opcode: int, content: bytes) -> None:
        heard.append(opcode)
        control(self, opcode, content)

    monkeypatch.setattr(Room, "_read", slow)
    monkeypatch.setattr(Stream, "_control", noted)
    with LocalServer("numpy", tls=files if tls else None) as server:
        x = calor.asarray([1.0], device=f"{server.address}/numpy")
        assert x.tolist() == [1.0]
    assert websocket.PING in heard
