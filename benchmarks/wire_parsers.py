"""What reading and writing on the wire costs: `python benchmarks/wire_parsers.py --json FILE`.

calor-http has code of its own for streams (WebSocket) and for the requests of the model server
(HTTP/1.1). This times it beside the libraries that do the same: wsproto, httptools and h11, on the
same bytes, which come in pieces as from a socket. All sides take turns, and of the rounds the least
is taken; what was read is compared first. A ratio above 1 means that calor's code is faster.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from calor_http import websocket  # noqa: E402
from calor_http.client.stream import Stream  # noqa: E402
from calor_http.model import wire  # noqa: E402
from calor_http.server.incoming import Incoming  # noqa: E402
from calor_http.streams import STATUS  # noqa: E402
from harness import report  # noqa: E402
from harness.runner import Row  # noqa: E402

SUITE = "wire parsers"
# What a call needs, as a stream sends it, and contents.
SIZES = {"a call": 90, "1 KiB": 1 << 10, "1 MiB": 1 << 20}
# What a socket gives at a time.
PIECE = 1 << 16
HEAD = (
    b"POST /v2/models/mlp/infer HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: client\r\n"
    b"Accept: */*\r\nContent-Type: application/octet-stream\r\nAccept-Encoding: gzip, deflate\r\n"
    b"Inference-Header-Content-Length: 177\r\nContent-Length: 241\r\nConnection: keep-alive\r\n"
    b"Authorization: Bearer the-token-of-somebody-who-asks\r\n\r\n"
)
Sides = Mapping[str, Callable[[], Any]]


class Fed:
    """A socket that has what another side sent, and takes what it is given."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = memoryview(data)
        self.place = 0
        self.sent: list[bytes] = []

    def sendall(self, data: Any) -> None:
        """Take bytes."""
        self.sent.append(data)

    def recv_into(self, target: Any) -> int:
        """Write the next bytes to a target."""
        count = min(len(target), PIECE, len(self._data) - self.place)
        target[:count] = self._data[self.place : self.place + count]
        self.place += count
        return count

    def recv(self, most: int) -> bytes:
        """Return the next bytes."""
        count = min(most, PIECE, len(self._data) - self.place)
        self.place += count
        return bytes(self._data[self.place - count : self.place])


def stream_on(fed: Fed) -> Any:
    """Return a client's stream on a socket, after its handshake."""
    made: Any = Stream.__new__(Stream)
    made._socket, made._bare = fed, False
    made._data, made._room, made._masks = bytearray(), np.empty(0, np.uint8), b""
    return made


def masked_frame(content: bytes) -> bytes:
    """Return a frame of a client."""
    mask = b"\x12\xf4\x56\x9a"
    head = websocket.head(websocket.BINARY, len(content), mask)
    return head + websocket.masked(content, mask)


def received_there(content: bytes) -> dict[str, Callable[[], Any]]:
    """Return what reads a client's frame in a server."""
    frame = masked_frame(content)
    incoming = Incoming(reuses=True)

    def ours() -> Any:
        fed = Fed(frame)
        while True:
            for _, message, _ in incoming.written(fed.recv_into(incoming.room())):
                return message

    return {"ours": ours, **_wsproto("SERVER", lambda: Fed(frame))}


def received_here(content: bytes) -> dict[str, Callable[[], Any]]:
    """Return what reads a server's frame in a client."""
    frame = websocket.head(websocket.BINARY, len(content)) + content
    stream = stream_on(Fed())

    def ours() -> Any:
        stream._socket = Fed(frame)
        return stream._message(None)[0]

    return {"ours": ours, **_wsproto("CLIENT", lambda: Fed(frame))}


def _wsproto(side: str, feed: Callable[[], Fed]) -> dict[str, Callable[[], Any]]:
    if not find_spec("wsproto"):
        return {}
    kind = getattr(import_module("wsproto").ConnectionType, side)
    connection = import_module("wsproto.connection").Connection(kind)

    def theirs() -> Any:
        fed, parts = feed(), []
        while True:
            connection.receive_data(fed.recv(PIECE))
            for event in connection.events():
                parts.append(event.data)
                if event.message_finished:
                    return parts[0] if len(parts) == 1 else b"".join(parts)

    return {"wsproto": theirs}


def sent(side: str, content: bytes) -> dict[str, Callable[[], Any]]:
    """Return what makes a frame of a client or a server."""
    fed = Fed()
    stream = stream_on(fed)

    def by_client() -> Any:
        fed.sent.clear()
        stream._send(content[: STATUS.size], content[STATUS.size :])
        return fed.sent

    def by_server() -> Any:
        # As a stream of the server does: short answers are joined.
        head = websocket.head(websocket.BINARY, len(content))
        return [b"".join((head, content))] if len(content) < PIECE else [head, content]

    sides: dict[str, Callable[[], Any]] = {"ours": by_client if side == "CLIENT" else by_server}
    if find_spec("wsproto"):
        kind = getattr(import_module("wsproto").ConnectionType, side)
        connection = import_module("wsproto.connection").Connection(kind)
        message = import_module("wsproto.events").BytesMessage
        sides["wsproto"] = lambda: [connection.send(message(data=content))]
    return sides


def heads() -> dict[str, Callable[[], Any]]:
    """Return what reads the head of a request: the method, the target, the fields."""

    def ours() -> Any:
        method, target, headers, _ = wire._read(HEAD)
        return method, target, dict(headers)

    def kept() -> Any:
        request, _ = wire._parsed(HEAD)
        return request.method, request.target, dict(request.headers)

    sides: dict[str, Callable[[], Any]] = {"ours": ours, "ours, seen before": kept}
    if find_spec("httptools"):
        sides["httptools"] = _httptools()
    h11 = import_module("h11")

    def by_h11() -> Any:
        connection = h11.Connection(h11.SERVER)
        connection.receive_data(HEAD)
        event = connection.next_event()
        return event.method, event.target, dict(event.headers)

    return {**sides, "h11": by_h11}


class _Head:
    """What httptools calls."""

    def __init__(self) -> None:
        self.target = b""
        self.headers: dict[bytes, bytes] = {}

    def on_url(self, url: bytes) -> None:
        """Take the target."""
        self.target = url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field."""
        self.headers[name.lower()] = value


def _httptools() -> Callable[[], Any]:
    made = import_module("httptools").HttpRequestParser

    def read() -> Any:
        head = _Head()
        parser = made(head)
        parser.feed_data(HEAD)
        return parser.get_method(), head.target, head.headers

    return read


def least(sides: Sides, rounds: int, seconds: float) -> dict[str, float]:
    """Return the least seconds of a call of each side, which take turns."""
    found = dict.fromkeys(sides, float("inf"))
    counts = {}
    for name, call in sides.items():
        start = perf_counter()
        call()
        counts[name] = max(1, int(seconds / (perf_counter() - start)))
    for _ in range(rounds):
        for name, call in sides.items():
            start = perf_counter()
            for _ in range(counts[name]):
                call()
            found[name] = min(found[name], (perf_counter() - start) / counts[name])
    return found


def cases() -> dict[str, dict[str, Callable[[], Any]]]:
    """Return all cases: for each the sides, of which "ours" is calor's."""
    made = {"the head of a request": heads()}
    for name, size in SIZES.items():
        content = np.random.default_rng(size).bytes(size)
        made[f"{name}, read by the server"] = received_there(content)
        made[f"{name}, read by the client"] = received_here(content)
        made[f"{name}, written by the client"] = sent("CLIENT", content)
        made[f"{name}, written by the server"] = sent("SERVER", content)
    return made


def check(name: str, sides: Sides) -> None:
    """Compare what the sides read and write; writers with masks differ in these."""
    if name.endswith("written by the client"):
        sizes = {side: sum(map(len, call())) for side, call in sides.items()}
        assert len({*sizes.values()}) == 1, (name, sizes)
        return
    joins = name.endswith("written by the server")
    found = [b"".join(call()) if joins else call() for call in sides.values()]
    if not isinstance(found[0], tuple):
        found = [bytes(one) for one in found]
    assert all(one == found[0] for one in found), name


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.02, help="of a turn of one side")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = []
    for name, sides in cases().items():
        check(name, sides)
        found = least(sides, asked.rounds, asked.seconds)
        ours = found.pop("ours")
        for peer, theirs in found.items():
            row = Row(SUITE, name, "cpu", peer, ours, theirs, theirs / ours, None)
            rows.append(asdict(row))
            told = f"{report.seconds(ours):>9s}  {report.seconds(theirs):>9s}"
            print(f"{name:34s} {peer:18s} {told}  ratio {row.ratio:.2f}", flush=True)
    if asked.json:
        command = shlex.join(["python", "benchmarks/wire_parsers.py", *sys.argv[1:]])
        about = report.setting(command, "cpu", (), None)
        for package in ("wsproto", "httptools", "h11"):
            if find_spec(package):
                about["versions"][package] = metadata.version(package)
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({**about, "suite": SUITE, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
