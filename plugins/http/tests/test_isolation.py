"""Clients that try to reach what is others', to run things twice, or to leave their addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

import calor
from calor.graph.file import save
from calor_http import websocket
from calor_http.described import digest_of
from calor_http.frames import CHUNK, MESSAGE, pack, seal, unpack, unseal
from calor_http.server.local import LocalServer
from calor_http.server.quotas import Quota
from calor_http.server.tokens import Entry, Keyring, hash_of
from calor_http.streams import ASK, COMMANDS, GET, PUT, STATUS
from raw_http_client import Client, kind_of

TOKENS = {"owner": "the-token-of-the-owner", "thief": "the-token-of-a-thief"}
SECRET = bytes(range(200, 216))
GRAPH = save(calor.trace(lambda x: calor.tanh(x) + x, calor.ones(4)))


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    ring = Keyring([Entry(name, (hash_of(token),), Quota()) for name, token in TOKENS.items()])
    with LocalServer("numpy", keyring=ring) as server:
        yield server


@pytest.fixture
def owner(server: LocalServer) -> Iterator[Client]:
    client = Client(server, TOKENS["owner"])
    client.ask(
        ["up", 1, 0, "float32", [4], SECRET],
        ["graph", digest_of(GRAPH), GRAPH],
        ["compile", 1, 0, digest_of(GRAPH)],
    )
    client.http.put(f"{client.session}/blobs/7/0", content=seal(SECRET))
    large = np.full(CHUNK // 4, 7, np.float32)
    client.http.put(f"{client.session}/blobs/8/0", content=seal(large.tobytes()))
    client.ask(["take", 3, 0, "float32", [len(large)], 8], ["read", 3, 0, 9])
    yield client
    # Whatever was tried, it has what it had.
    assert client.ask(["read", 1, 0, 50]) == [SECRET]
    assert client.ask(["take", 4, 0, "uint8", [16], 7], ["read", 4, 0, 51])[1] == SECRET
    client.close()


@pytest.fixture
def thief(server: LocalServer) -> Iterator[Client]:
    client = Client(server, TOKENS["thief"])
    yield client
    client.close()


def handshake(server: LocalServer, session: str, token: str) -> socket.socket:
    """Ask for a stream of a session."""
    port = int(server.address.rpartition(":")[2])
    stream = socket.create_connection(("127.0.0.1", port), timeout=20)
    stream.sendall(
        f"GET {session}/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Sec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    return stream


ENDPOINTS = {
    "requests": ("POST", "/requests/1", pack([["read", 1, 0, 99]])),
    "the next request": ("POST", "/requests/3", pack([["drop", [1]]])),
    "a repeated request": ("POST", "/requests/2", pack([])),
    "contents that come": ("PUT", "/blobs/7/0", seal(b"x")),
    "contents that go": ("GET", "/blobs/9/0", b""),
    "the session": ("DELETE", "", b""),
}


@pytest.mark.parametrize("name", ENDPOINTS)
def test_a_session_is_there_for_its_token_only(owner: Client, thief: Client, name: str) -> None:
    method, tail, body = ENDPOINTS[name]
    answer = thief.http.request(method, owner.session + tail, content=body)
    assert (answer.status_code, kind_of(answer)) == (404, "LeaseLostError")
    unknown = thief.http.request(method, "/v1/sessions/nobody" + tail, content=body)
    # It is as unknown as one that was never there.
    assert answer.content == unknown.content


def test_a_stream_is_there_for_its_token_only(
    server: LocalServer, owner: Client, thief: Client
) -> None:
    for token, status in ((TOKENS["thief"], b"404"), ("nobody", b"401"), (TOKENS["owner"], b"101")):
        with handshake(server, owner.session, token) as stream:
            assert stream.recv(4096).split()[1] == status


def test_a_token_that_is_taken_back_ends_open_streams_too() -> None:
    ring = Keyring([Entry("one", (hash_of("a-token-of-the-one"),), Quota())])
    with LocalServer("numpy", keyring=ring) as server:
        client = Client(server, "a-token-of-the-one")
        with handshake(server, client.session, "a-token-of-the-one") as stream:
            assert b" 101 " in stream.recv(4096)

            def ask(kind: int, number: int, frame: bytes) -> int:
                mask, content = b"abcd", ASK.pack(kind, number, 0) + frame
                head = websocket.head(websocket.BINARY, len(content), mask)
                stream.sendall(head + websocket.masked(content, mask))
                data = b""
                while True:
                    found = websocket.parse_head(memoryview(data))
                    end = found[4] + found[2] if found else 0
                    if found is None or len(data) < end:
                        data += (part := stream.recv(65536))
                        assert part
                    elif found[0] == websocket.BINARY:
                        break
                    else:
                        data = data[end:]  # Whether somebody is there, which nobody answers.
                (status,) = STATUS.unpack_from(data, found[4])
                return int(status)

            assert ask(COMMANDS, 1, pack([["memory", 0]])) == 200
            assert ask(PUT, 5, seal(b"abc")) == 200
            ring._take([Entry("another", (hash_of("a-token-of-another"),), Quota())])
            for kind, frame in ((COMMANDS, pack([])), (PUT, seal(b"abc")), (GET, b"")):
                assert ask(kind, 2, frame) == 401
        client.http.close()


def test_values_of_others_have_no_numbers(owner: Client, thief: Client) -> None:
    kinds = thief.kinds(
        ["read", 1, 0, 60], ["verify", 0, [1]], ["copy", 1, 0, 0, 5], ["offer", 1, 0],
        ["take", 6, 0, "uint8", [16], 7], ["run", 1, [1], [8], []],
    )  # fmt: skip
    assert set(kinds) <= {"ProtocolError", "FormatError"}
    assert thief.ask(["claim", 0, digest_of(GRAPH)], ["compile", 9, 0, digest_of(GRAPH)]) == [
        "missing", "missing",
    ]  # fmt: skip
    thief.ask(["drop", [1, 3]], ["release", [1]], ["forget", 7])
    assert thief.ask(["memory", 0]) == [[0, 0]]
    thief.ask(["up", 1, 0, "float32", [4], bytes(16)])
    assert thief.ask(["read", 1, 0, 61]) == [bytes(16)]


def test_memory_that_is_given_back_tells_nothing(owner: Client, thief: Client) -> None:
    for number in range(20, 30):
        owner.ask(["up", number, 0, "uint8", [4096], b"\xaa" * 4096], ["drop", [number]])
        (empty,) = thief.ask(["up", number, 0, "uint8", [4096], bytes(4096)])
        assert empty is None
        assert thief.ask(["read", number, 0, number + 100]) == [bytes(4096)]


def test_a_replayed_request_runs_once(owner: Client) -> None:
    path = f"{owner.session}/requests/{owner.sent + 1}"
    frame = pack([["up", 40, 0, "int8", [1], b"1"], ["memory", 0]])
    first = owner.http.post(path, content=frame)
    owner.sent += 1
    assert first.status_code == 200
    for body in (frame, pack([["drop", [1]]]), pack([])):
        # What is sent under its number again is not looked at.
        again = owner.http.post(path, content=body)
        assert (again.status_code, again.content) == (200, first.content)
    # Requests before it, and after the next, are none.
    for number in (1, owner.sent - 1, owner.sent + 2, 0):
        answer = owner.http.post(f"{owner.session}/requests/{number}", content=frame)
        assert (answer.status_code, kind_of(answer)) == (400, "ProtocolError")


def test_a_replay_in_another_session_finds_nothing(server: LocalServer, owner: Client) -> None:
    other = Client(server, TOKENS["owner"])
    captured = pack([["read", 1, 0, 77]])
    answer = other.http.post(f"{other.session}/requests/1", content=captured)
    (told,) = unpack(answer.content, MESSAGE)
    assert told["error"]["kind"] == "ProtocolError"
    session = other.session
    other.sent += 1
    other.close()
    with httpx.Client(base_url=server.address, headers=owner.http.headers) as http:
        for path in ("requests/1", "requests/2"):
            answer = http.post(f"{session}/{path}", content=captured)
            assert (answer.status_code, kind_of(answer)) == (404, "LeaseLostError")


def test_a_replayed_piece_is_taken_once(owner: Client) -> None:
    for _ in range(3):
        answer = owner.http.put(f"{owner.session}/blobs/30/0", content=seal(b"abc"))
        assert unpack(answer.content, MESSAGE) == 3
    # Another piece in its place changes nothing.
    owner.http.put(f"{owner.session}/blobs/30/0", content=seal(b"xyz"))
    owner.ask(["take", 31, 0, "uint8", [3], 30])
    assert owner.ask(["read", 31, 0, 32]) == [b"abc"]


def test_offers_are_no_way_to_others_values(owner: Client, thief: Client) -> None:
    (secret,) = owner.ask(["offer", 1, 0])
    for guess in ("", "x", secret[:-1], secret + "a", secret.swapcase(), "../" + secret):
        answer = thief.http.post(f"/v1/offers/{guess}")
        assert answer.status_code in (400, 404, 307)
    name, _ = unpack(thief.http.post(f"/v1/offers/{secret}").content, MESSAGE)
    assert unseal(thief.http.get(f"/v1/offers/{name}/0").content, CHUNK) == SECRET
    assert kind_of(thief.http.post(f"/v1/offers/{secret}")) == "ArgumentError"


TARGETS = [
    "/../../../../etc/passwd", "/v1/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2fetc%2fpasswd", "/..\\..\\etc\\passwd", "/%5c..%5cetc", "//etc/passwd",
    "///v1/sessions", "/v1//sessions", "/v1/./sessions", "/v1/sessions/%00/requests/1",
    "/v1/sessions/%0d%0aX: y/requests/1", "/v1/sessions/\u0661/requests/1", "/v1/sessions/a%2fb",
    "/v1/sessions/../sessions", "/page.html", "/static/page.html", "/metrics/../healthz",
    "/v1/offers/../sessions/x", "/.git/config", "/%c0%ae%c0%ae/etc/passwd", "/?file=/etc/passwd",
    "/v1/status/", "/V1/SESSIONS", "/" + "a" * 9000, "/" + "../" * 3000, "http://else.example/",
    "file:///etc/passwd", "*", "/v1/sessions;x=1", "/v1/sessions#x",
]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_addresses_lead_to_nothing_but_the_servers_own(server: LocalServer, method: str) -> None:
    port = int(server.address.rpartition(":")[2])
    for target in TARGETS:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
            raw.sendall(
                f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
                f"Authorization: Bearer {TOKENS['thief']}\r\nConnection: close\r\n\r\n".encode()
            )
            answer = b""
            while piece := raw.recv(65536):
                answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        assert b"root:" not in body, target
        assert b"X: y" not in head, target
        assert b"Traceback" not in body, target
        assert status in (200, 307, 400, 404, 422), (target, status)
        if status == 200:
            assert b"<!doctype html>" in body or b"uptime_seconds" in body
        if status == 307:
            assert b"else.example" not in head, target


def test_messages_smuggle_no_second_request(server: LocalServer) -> None:
    port = int(server.address.rpartition(":")[2])
    hidden = b"DELETE /v1/sessions/x HTTP/1.1\r\nHost: x\r\n\r\n"
    for fields in (
        b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length : 5\r\n",
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
            raw.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n" + hidden)
            raw.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := raw.recv(65536):
                answer += piece
        assert answer.count(b"HTTP/1.1 ") <= 1, fields


def test_answers_carry_nothing_of_the_token(server: LocalServer, thief: Client) -> None:
    for path in ("/", "/healthz", "/readyz", "/metrics", "/v1/status", "/v1/nothing"):
        answer: Any = thief.http.get(path)
        assert TOKENS["thief"].encode() not in answer.content
        assert hash_of(TOKENS["thief"]).encode() not in answer.content
        assert "server" not in answer.headers


def test_pages_of_other_sites_reach_no_server_without_tokens() -> None:
    with LocalServer("numpy") as server, httpx.Client(base_url=server.address) as http:
        hello = pack({"version": 1})
        port = server.address.rpartition(":")[2]
        for fields in (
            {"Host": f"evil.example:{port}"}, {"Origin": "https://evil.example"},
            {"Origin": "null"}, {"Host": "127.0.0.1.evil.example"}, {"Host": "a b"},
        ):  # fmt: skip
            answer = http.post("/v1/sessions", content=hello, headers=fields)
            assert (answer.status_code, kind_of(answer)) == (400, "ArgumentError")
            assert http.get("/v1/status", headers=fields).status_code == 400
            assert http.get("/metrics", headers=fields).status_code == 400
            assert not any(name.startswith("access-control") for name in answer.headers)
        for fields in (
            {"Host": "localhost"},
            {"Host": f"[::1]:{port}"},
            {"Origin": server.address},
        ):
            assert http.post("/v1/sessions", content=hello, headers=fields).status_code == 200
        name = next(iter(server.server.sessions))
        with handshake(server, f"/v1/sessions/{name}", "") as stream:
            # Its field Host is x.
            assert b" 400 " in stream.recv(4096)
