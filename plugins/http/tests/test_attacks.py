"""Requests that mean harm: they get typed errors, and the server works on."""

from __future__ import annotations

import logging
import random
import socket
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import msgpack
import numpy as np
import pytest
import zstandard

import calor
from calor.graph.file import save
from calor_http import frames
from calor_http.described import digest_of
from calor_http.frames import CHUNK, MESSAGE, pack, seal, unpack
from calor_http.server.limits import MIB, Limits
from calor_http.server.local import LocalServer
from raw_http_client import Client, kind_of

TOKEN = "the-token-of-this-server"
LIMITS = Limits(
    tensor_bytes=2 * MIB,
    client_bytes=8 * MIB,
    graph_nodes=50,
    graph_bytes=4 * MIB,
    handles=200,
    commands=100,
    clients=40,
    requests=90,
    body_seconds=0.5,
)
GRAPH = save(calor.trace(lambda x: calor.tanh(x) + x, calor.ones(4)))
TAKES = save(calor.trace(lambda x, i: calor.take(x, i), calor.ones(4), calor.asarray([0, 1])))


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    # What commands of a wrong kind raise is in the log, for the operator.
    logging.getLogger("calor_http").setLevel(logging.CRITICAL)
    with LocalServer("numpy", token=TOKEN, limits=LIMITS) as server:
        yield server


@pytest.fixture
def client(server: LocalServer) -> Iterator[Client]:
    client = Client(server, TOKEN)
    yield client
    # Whatever happened, the server answers as before.
    works = Client(server, TOKEN)
    up = ["up", 1, 0, "float32", [4], np.ones(4, np.float32).tobytes()]
    graph = ["graph", digest_of(GRAPH), GRAPH]
    compiled = ["compile", 1, 0, digest_of(GRAPH)]
    made = works.ask(up, graph, compiled, ["run", 1, [1], [2], []], ["read", 2, 0, 3])
    np.testing.assert_allclose(np.frombuffer(made[-1], np.float32), 1 + np.tanh(1), rtol=1e-6)
    for one in (works, client):
        assert one.http.delete(one.session).status_code == 200
        one.http.close()


@pytest.mark.parametrize("given", ["", TOKEN, f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x"])
def test_nobody_gets_in_without_the_token(client: Client, given: str) -> None:
    session = client.session
    with httpx.Client(base_url=client.http.base_url, headers={"Authorization": given}) as other:
        for method, path in (
            ("POST", "/v1/sessions"),
            ("POST", f"{session}/requests/1"),
            ("PUT", f"{session}/blobs/1/0"),
            ("GET", f"{session}/blobs/1/0"),
            ("DELETE", session),
        ):
            answer = other.request(method, path, content=pack([]))
            assert (answer.status_code, kind_of(answer)) == (401, "ArgumentError")


@pytest.mark.parametrize(
    "path", ["/v1", "/v2/sessions", "/v1/sessions/../../etc/passwd", "/%2e%2e/x", "/v1//"]
)
def test_other_addresses_are_none(client: Client, path: str) -> None:
    assert kind_of(client.http.get(path)) == "ArgumentError"
    assert client.http.get(path).status_code == 404


def test_a_session_needs_its_name(client: Client) -> None:
    for name in ("x", client.session[-8:], "%2e%2e", "a" * 5000):
        answer = client.http.post(f"/v1/sessions/{name}/requests/1", content=pack([]))
        assert (answer.status_code, kind_of(answer)) == (404, "LeaseLostError")


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 30, "٣", "0x1", "%00"])
def test_numbers_of_requests_are_numbers(client: Client, number: str) -> None:
    answer = client.http.post(f"{client.session}/requests/{number}", content=pack([]))
    assert answer.status_code == 400
    assert kind_of(answer) in ("ArgumentError", "ProtocolError")


def test_large_bodies_are_not_read(client: Client) -> None:
    path = f"{client.session}/requests/1"
    answer = client.http.post(path, content=bytes(MESSAGE + 100_000))
    assert (answer.status_code, kind_of(answer)) == (413, "LimitError")

    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(1 << 20)

    try:
        answer = client.http.post(path, content=endless())
    except httpx.TransportError:
        # The server closed the connection while this end still wrote.
        return
    assert (answer.status_code, kind_of(answer)) == (413, "LimitError")


def test_slow_bodies_and_large_headers_end(client: Client, server: LocalServer) -> None:
    port = int(server.address.rpartition(":")[2])
    head = f"POST {client.session}/requests/1 HTTP/1.1\r\nHost: x\r\n"
    head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: 1000\r\n\r\nabc"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(head.encode())
        assert b"408" in slow.recv(4096).partition(b"\r\n")[0]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as large:
        large.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000)
        assert large.recv(4096).partition(b"\r\n")[0].split()[1] in (b"400", b"431")


def test_damaged_messages(client: Client) -> None:
    path = f"{client.session}/requests/1"
    rng = random.Random(0)
    fine = pack([["memory", 0]])
    for turn in range(200):
        data = bytearray(fine)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        given = bytes(data[: rng.randrange(len(data) + 1)]) if turn % 2 else bytes(data)
        if given != fine:
            answer = client.http.post(path, content=given)
            assert (answer.status_code, kind_of(answer)) == (422, "FormatError")
    for content in (b"\xc1", b"\x91" * 5000, b"\xc7\x05\x01hello", b"\xdf\xff\xff\xff\xff", b""):
        answer = client.http.post(path, content=seal(content))
        assert (answer.status_code, kind_of(answer)) == (422, "FormatError")


def test_bombs_of_zstandard(client: Client) -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(MESSAGE * 4))
    stream = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(MESSAGE * 4))
    for content in (bomb, stream, bomb[:20], b"\x28\xb5\x2f\xfd"):
        body = b"\x01" + content
        check = zlib.crc32(body).to_bytes(4, "little")
        answer = client.http.post(f"{client.session}/requests/1", content=check + body)
        assert (answer.status_code, kind_of(answer)) == (422, "FormatError")


THINGS: list[Any] = [
    None, True, -1, 0, 1, 2, 5, 2**63, 2**64 - 1, 1.5, float("nan"), "", "float32", "bool",
    "x" * 99, b"", bytes(16), [], [0], [1], [1, 2], [[1]], [-1], [2**40], [4], {}, {0: 0},
    {"a": [1]}, digest_of(GRAPH), digest_of(TAKES), GRAPH, "../../etc/passwd", "__class__", "os",
]  # fmt: skip
NAMES = [
    "up", "take", "drop", "copy", "read", "forget", "verify", "sync", "memory", "graph", "claim",
    "compile", "within", "release", "run", "offer", "fetch", "close", "__init__", "answer", "",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_drawn_commands(client: Client, seed: int) -> None:
    rng = random.Random(seed)
    client.ask(
        ["up", 1, 0, "float32", [4], bytes(16)],
        ["graph", digest_of(GRAPH), GRAPH],
        ["graph", digest_of(TAKES), TAKES],
        ["compile", 1, 0, digest_of(GRAPH)],
        ["compile", 2, 0, digest_of(TAKES)],
    )
    for _ in range(40):
        commands: list[Any] = [
            [rng.choice(NAMES), *rng.choices(THINGS, k=rng.randrange(7))] for _ in range(20)
        ]
        commands += rng.choices(THINGS, k=2)
        for answer in client.ask(*commands):
            if isinstance(answer, dict) and "error" in answer:
                assert "Traceback" not in str(answer)
                # What an error tells is not of the server's insides.
                assert "/calor" not in str(answer), answer


def test_requests_are_lists_in_order(client: Client) -> None:
    def post(number: int, message: Any) -> tuple[int, str]:
        path = f"{client.session}/requests/{number}"
        answer = client.http.post(path, content=pack(message))
        return answer.status_code, kind_of(answer)

    assert post(7, []) == (400, "ProtocolError")
    assert post(1, {"a": 1}) == (413, "LimitError")
    assert post(1, [["memory", 0]] * 101) == (413, "LimitError")
    assert client.kinds(["memory", 0], 3, [], [None], ["memory", 1], ["nothing"]) == [
        None, *["ProtocolError"] * 5,
    ]  # fmt: skip


def test_values_are_what_they_say(client: Client) -> None:
    up = ["up", 1, 0, "float32", [4], bytes(16)]
    assert client.kinds(
        up,
        ["up", 2, 0, "float32", [5], bytes(16)],
        ["up", 2, 0, "float32", [2**50], bytes(16)],
        ["up", 2, 0, "float32", [-4], bytes(16)],
        ["up", 2, 0, "object", [4], bytes(32)],
        ["up", 2, 0, "float32", [True, 4], bytes(16)],
        ["up", 1, 0, "float32", [4], bytes(16)],
        ["up", 2, 0, "int8", [3 * MIB], b""],
    ) == [
        None, "ProtocolError", "ArgumentError", "ArgumentError", "DTypeError", "ProtocolError",
        "ProtocolError", "LimitError",
    ]  # fmt: skip
    # A truth value is 0 or 1, whatever byte came.
    client.ask(["up", 3, 0, "bool", [3], b"\x00\x02\xff"])
    assert client.ask(["read", 3, 0, 9]) == [b"\x00\x01\x01"]


def test_runs_are_checked_before_a_device_sees_them(client: Client) -> None:
    client.ask(
        ["up", 1, 0, "float32", [4], bytes(16)],
        ["up", 2, 0, "float32", [3], bytes(12)],
        ["up", 3, 0, "int32", [4], bytes(16)],
        ["graph", digest_of(GRAPH), GRAPH],
        ["compile", 1, 0, digest_of(GRAPH)],
    )
    wrong: list[Any] = [
        ["run", 1, [2], [9], []],
        ["run", 1, [3], [9], []],
        ["run", 1, [99], [9], []],
        ["run", 1, [], [9], []],
        ["run", 1, [1, 1], [9], []],
        ["run", 1, [bytes(16)], [9], []],
        ["run", 1, [1], [], []],
        ["run", 1, [1], [1], []],
        ["run", 1, [1], [2], [0]],
        ["run", 1, [1], [9], [1]],
        ["run", 9, [1], [9], []],
        ["compile", 1, 0, digest_of(GRAPH)],
    ]
    assert client.kinds(*wrong) == ["ProtocolError"] * len(wrong)
    assert client.kinds(["read", 9, 0, 1]) == ["ProtocolError"]


def test_graphs_are_what_they_say(client: Client) -> None:
    def deep() -> bytes:
        def f(x: Any) -> Any:
            for _ in range(60):
                x = calor.tanh(x)
            return x

        return save(calor.trace(f, calor.ones(4)))

    large = save(calor.trace(lambda: calor.full((2 * MIB,), 1.0)))
    many, other = deep(), bytearray(GRAPH)
    other[40] ^= 1
    assert client.kinds(
        ["graph", digest_of(GRAPH), GRAPH[:-1]],
        ["graph", digest_of(bytes(other)), bytes(other)],
        ["graph", digest_of(many), many],
        ["graph", digest_of(large), large],
        ["compile", 1, 0, digest_of(large)],
    ) == ["GraphError", "GraphError", "LimitError", None, "LimitError"]
    assert client.ask(["claim", 0, "0" * 64]) == ["missing"]


def test_a_client_has_its_room_and_no_more(client: Client) -> None:
    size = MIB
    ups = [["up", n, 0, "int8", [size], bytes(size)] for n in range(1, 12)]
    for start in range(0, 11, 4):
        client.ask(*ups[start : start + 4])
    kinds = client.kinds(*[["verify", 0, [n]] for n in range(1, 12)])
    assert kinds == [None] * 8 + ["OutOfMemoryError"] * 3
    answer = client.http.put(f"{client.session}/blobs/50/0", content=seal(bytes(size)))
    assert kind_of(answer) == "OutOfMemoryError"
    client.ask(["drop", list(range(1, 12))])
    assert (
        client.http.put(f"{client.session}/blobs/50/0", content=seal(bytes(size))).status_code
        == 200
    )
    for path, size in (("50/9999999", 10), ("50/3", CHUNK + 10), ("51/1", 10)):
        answer = client.http.put(f"{client.session}/blobs/{path}", content=seal(bytes(size)))
        assert kind_of(answer) in ("ArgumentError", "LimitError", "FormatError")


def test_there_is_room_for_so_many_clients(server: LocalServer) -> None:
    with httpx.Client(base_url=server.address) as http:
        http.headers["Authorization"] = f"Bearer {TOKEN}"

        def open_one() -> httpx.Response:
            return http.post("/v1/sessions", content=pack({"version": 1}))

        opened = [open_one() for _ in range(60)]
        assert [a.status_code for a in opened] == [200] * 40 + [429] * 20
        assert kind_of(opened[-1]) == "QuotaError"
        assert opened[-1].headers["retry-after"] == "5"
        for answer in opened[:40]:
            http.delete(f"/v1/sessions/{unpack(answer.content, MESSAGE)['session']}")
        assert open_one().status_code == 200
        # Another version of the protocol is none.
        assert kind_of(http.post("/v1/sessions", content=pack({"version": 2}))) == "ArgumentError"


def test_nothing_is_made_of_bytes_but_numbers() -> None:
    with pytest.raises(calor.errors.FormatError):
        unpack(seal(msgpack.packb(msgpack.ExtType(1, b"x"))), MESSAGE)
    for kind in ("OSError", "Exception", "__import__", 7, None):
        from calor_http.errors import decode_error

        assert type(decode_error({"kind": kind, "text": "x"})) is calor.errors.DeviceError


def test_offers_are_for_those_who_have_the_secret_once(client: Client) -> None:
    client.ask(["up", 1, 0, "float32", [4], bytes(range(16))])
    (secret,) = client.ask(["offer", 1, 0])
    with httpx.Client(base_url=client.http.base_url) as other:
        assert kind_of(other.post("/v1/offers/x")) == "ArgumentError"
        assert kind_of(other.get(f"/v1/offers/{secret}/0")) == "ArgumentError"
        name, nbytes = unpack(other.post(f"/v1/offers/{secret}").content, MESSAGE)
        assert nbytes == 16
        assert kind_of(other.post(f"/v1/offers/{secret}")) == "ArgumentError"
        assert frames.unseal(other.get(f"/v1/offers/{name}/0").content, CHUNK) == bytes(range(16))
        for offset in ("16", "99999", "-1", "x"):
            assert kind_of(other.get(f"/v1/offers/{name}/{offset}")) == "ArgumentError"


def test_nothing_is_fetched_but_from_peers(client: Client) -> None:
    heard = socket.create_server(("127.0.0.1", 0))
    heard.settimeout(0.2)
    address = f"http://127.0.0.1:{heard.getsockname()[1]}"
    for n, peer in enumerate((address, "file:///etc/passwd", "", None, 5), 1):
        client.ask(["fetch", n, 0, "float32", [4], peer, "secret"])
        assert client.kinds(["read", n, 0, 100 + n]) == ["ArgumentError"]
    with heard, pytest.raises(TimeoutError):
        heard.accept()
