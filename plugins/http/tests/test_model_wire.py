"""What arrives at a model server may be anything; it answers as HTTP says, and works on."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calor_http.model.limits import Limits
from calor_http.model.local import LocalModels
from calor_http.server.limits import MIB
from served_model_files import DOUBLE, write

TOKEN = "the-token-of-this-server"
LIMITS = Limits(
    body_bytes=MIB,
    json_bytes=MIB // 4,
    held_bytes=2 * MIB,
    connections=40,
    body_seconds=1.0,
    idle_seconds=1.0,
)
HERE = Path(__file__).parent
MESSAGE = {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}
BODY = json.dumps(MESSAGE).encode()
HOST = b"Host: here\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
INFER = b"POST /v2/models/double/infer HTTP/1.1\r\n" + HOST


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalModels]:
    (path,) = write(tmp_path_factory.mktemp("models"), double=DOUBLE)
    with LocalModels(path, device="numpy", token=TOKEN, limits=LIMITS) as server:
        yield server


@pytest.fixture(autouse=True)
def works_afterwards(server: LocalModels) -> Iterator[None]:
    yield
    status, body = sent(server, INFER + length(BODY) + BODY)
    assert status == 200
    answer = json.loads(body)
    assert answer["outputs"][0]["data"] == [2.0, 4.0, 6.0]
    end = time.monotonic() + 5
    while server.service.held:
        # Nothing is counted that is not there.
        assert time.monotonic() < end, server.service.held
        time.sleep(0.01)


def connected(server: LocalModels) -> socket.socket:
    port = int(server.address.rpartition(":")[2])
    found = socket.create_connection(("127.0.0.1", port), timeout=10)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def read(connection: socket.socket) -> tuple[int, bytes]:
    """Return the status and the body of the next answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(1)
        if not piece:
            raise EOFError(data)
        data += piece
    status = int(data.split(b" ", 2)[1])
    lengths = [h for h in data.lower().split(b"\r\n") if h.startswith(b"content-length:")]
    body = b""
    for _ in range(int(lengths[0].partition(b":")[2]) if lengths else 0):
        body += connection.recv(1)
    return status, body


def sent(server: LocalModels, *pieces: bytes) -> tuple[int, bytes]:
    """Send bytes, and return the first answer."""
    with connected(server) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return read(connection)


def length(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n" % len(body)


def test_requests_may_come_in_any_pieces(server: LocalModels) -> None:
    whole = INFER + length(BODY) + BODY
    with connected(server) as connection:
        for end in (1, 7, 40, len(whole) - len(BODY), len(whole) - 3):
            connection.sendall(whole[:end])
            time.sleep(0.01)
            connection.sendall(whole[end:])
            status, body = read(connection)
            assert (status, json.loads(body)["outputs"][1]["data"]) == (200, [2])


def test_requests_that_come_at_once_are_answered_in_order(server: LocalModels) -> None:
    bodies = [json.dumps({**MESSAGE, "id": str(number)}).encode() for number in range(50)]
    wanted = b"GET /v2/health/live HTTP/1.1\r\n" + HOST + b"\r\n"
    with connected(server) as connection:
        connection.sendall(b"".join(INFER + length(body) + body + wanted for body in bodies))
        for number in range(50):
            status, body = read(connection)
            assert (status, json.loads(body)["id"]) == (200, str(number))
            assert read(connection) == (200, b'{"live":true}')


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /v2 HTTP/2.0\r\n\r\n", 400),
        (b"GET http://other/v2 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /v2 HTTP/1.1\r\n\r\n", 400),
        (b"GET /v2 HTTP/1.1\r\n" + HOST + b"Host: there\r\n\r\n", 400),
        (b"GET /v2 HTTP/1.1\r\n" + HOST + b" folded: x\r\n\r\n", 400),
        (b"GET /v2 HTTP/1.1\r\n" + HOST + b"a b: x\r\n\r\n", 400),
        (b"GET /v2 HTTP/1.1\r\n" + HOST + b"a : x\r\n\r\n", 400),
        (b"GET /v2 HTTP/1.1\r\n" + HOST + b"a: x\ry\r\n\r\n", 400),
        (b"GET /v2 HTTP/1.1\n" + HOST + b"\r\n\r\n", 400),
        (INFER + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (INFER + b"Content-Length: 1, 1\r\n\r\na", 400),
        (INFER + b"Content-Length: +1\r\n\r\na", 400),
        (INFER + b"Content-Length: -1\r\n\r\na", 400),
        (INFER + b"Content-Length: 0x1\r\n\r\na", 400),
        (INFER + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n", 400),
        (INFER + b"Content-Length: 999999999999999\r\n\r\n", 413),
        (INFER + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (INFER + b"Transfer-Encoding: x\r\nContent-Length: 5\r\n\r\n12345", 411),
        (INFER + b"Content-Encoding: gzip\r\n" + length(b"12345") + b"12345", 415),
        (INFER + b"Inference-Header-Content-Length: 9\r\n" + length(b"1234") + b"1234", 400),
        (INFER + b"Inference-Header-Content-Length: x\r\n" + length(b"1234") + b"1234", 400),
        (INFER + b"X: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (INFER + length(b"1" * (MIB // 4 + 1)) + b"1" * (MIB // 4 + 1), 413),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused(
    server: LocalModels, head: bytes, status: int
) -> None:
    told, body = sent(server, head)
    assert told == status
    assert list(json.loads(body)) == ["error"]


@pytest.mark.parametrize(
    "shown", [b"", b"Bearer x", TOKEN.encode(), b"Bearer " + TOKEN[:-1].encode(), b"\xff\xfe"]
)
def test_nobody_gets_in_without_the_token(server: LocalModels, shown: bytes) -> None:
    host = b"Host: here\r\nAuthorization: " + shown + b"\r\n"
    for line in (b"GET /v2", b"GET /nothing", b"POST /v2/models/double/infer"):
        assert sent(server, line + b" HTTP/1.1\r\n" + host + b"\r\n")[0] == 401
    # Nobody waits for a body that is not wanted.
    head = b"POST /v2/models/double/infer HTTP/1.1\r\n" + host + b"Content-Length: 999\r\n\r\n"
    assert sent(server, head)[0] == 401
    assert sent(server, b"GET /v2/health/live HTTP/1.1\r\nHost: here\r\n\r\n")[0] == 200


def test_who_waits_to_send_a_body_is_told_to(server: LocalModels) -> None:
    with connected(server) as connection:
        connection.sendall(INFER + b"Expect: 100-continue\r\n" + length(BODY))
        assert read(connection)[0] == 100
        connection.sendall(BODY)
        assert read(connection)[0] == 200


def test_a_connection_ends_when_it_says_so(server: LocalModels) -> None:
    for head in (
        b"GET /v2/health/live HTTP/1.1\r\nConnection: close\r\n" + HOST,
        b"GET /v2/health/live HTTP/1.0\r\n",
    ):
        with connected(server) as connection:
            connection.sendall(head + b"\r\n")
            assert read(connection)[0] == 200
            assert connection.recv(1) == b""


def test_who_is_slow_or_idle_is_not_waited_for(server: LocalModels) -> None:
    with connected(server) as body, connected(server) as head, connected(server) as nothing:
        # Each waits for the server, which has a second of patience with all of them.
        body.sendall(INFER + length(BODY) + BODY[:5])
        head.sendall(INFER[:30])
        assert read(body)[0] == 408
        assert read(head)[0] == 408
        assert nothing.recv(1) == b""


def test_who_leaves_in_the_midst_of_a_body_leaves_nothing(server: LocalModels) -> None:
    for _ in range(5):
        with connected(server) as connection:
            connection.sendall(INFER + b"Content-Length: 900000\r\n\r\n" + b"x" * 1000)


def test_bodies_together_have_a_limit(server: LocalModels) -> None:
    waiting = [connected(server) for _ in range(2)]
    for connection in waiting:
        connection.sendall(INFER + b"Content-Length: 1000000\r\n\r\n")
    time.sleep(0.1)
    status, body = sent(server, INFER + b"Content-Length: 1000000\r\n\r\n")
    assert (status, "as many bytes" in json.loads(body)["error"]) == (503, True)
    for connection in waiting:
        connection.close()


def test_connections_have_a_limit(server: LocalModels) -> None:
    many = [connected(server) for _ in range(41)]
    assert read(many[-1])[0] == 503
    for connection in many:
        connection.close()


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes(server: LocalModels, data: bytes) -> None:
    with connected(server) as connection:
        connection.sendall(data + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["x", "y", "FP32", "INT64", "BYTES", "binary_data_size"]),
)  # fmt: skip
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["name", "shape", "datatype", "data", "parameters", "inputs", "x"]),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)
inputs = st.fixed_dictionaries(
    {},
    optional={
        "name": st.one_of(st.just("x"), values),
        "shape": st.one_of(st.just([1, 3]), st.lists(st.integers(-1, 5), max_size=3), values),
        "datatype": st.one_of(st.just("FP32"), values),
        "data": st.one_of(st.just([1, 2, 3]), values),
        "parameters": st.one_of(
            st.just({}), st.fixed_dictionaries({"binary_data_size": values}), values
        ),
    },
)
messages = st.one_of(
    values,
    st.fixed_dictionaries(
        {"inputs": st.one_of(st.lists(inputs, max_size=2), values)},
        optional={"id": values, "outputs": values, "parameters": values},
    ),
)


@given(messages, st.binary(max_size=30), st.integers(-3, 3))
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_message(server: LocalModels, message: Any, data: bytes, off: int) -> None:
    head = json.dumps(message).encode()
    body = head + data
    if data or off:
        count = b"Inference-Header-Content-Length: %d\r\n" % (len(head) + off)
    else:
        count = b""
    status, told = sent(server, INFER + count + length(body) + body)
    assert status in (200, 400, 422), told
    if status != 200:
        assert list(json.loads(told)) == ["error"]


def command(tmp_path: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    """Start the command in a process of its own; return it with its address, once it is ready."""
    (path,) = write(tmp_path, double=DOUBLE)
    words = ["-m", "calor_http", "model", str(path), "--device", "numpy", "--port", "0", *more]
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    address = process.stdout.readline()
    assert "serving at " in address, address + process.stdout.read()
    assert "ready: " in process.stdout.readline()
    return process, address.split()[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_the_command_ends_in_order(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    certificate = [str(HERE / f"loopback-{kind}.pem") for kind in ("cert", "key")]
    more = ["--token-file", str(token), "--tls", *certificate, "--name", "other"]
    process, address = command(tmp_path, *more)
    try:
        context = ssl.create_default_context(cafile=certificate[0])
        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"{address}/v2/models/other/infer"
        with httpx.Client(verify=context, headers=headers) as client:
            answer = client.post(url, json=MESSAGE)
            assert answer.json()["outputs"][0]["data"] == [2.0, 4.0, 6.0]
            assert client.get(f"{address}/v2", headers={"Authorization": ""}).status_code == 401

            def body() -> Iterator[bytes]:
                """Tell the server to end while it reads."""
                yield BODY[:10]
                process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                yield BODY[10:]

            count = {"Content-Length": str(len(BODY))}
            answer = client.post(url, content=body(), headers=count)
            assert answer.json()["outputs"][0]["data"] == [2.0, 4.0, 6.0]
            assert answer.headers["connection"] == "close"
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["nothing.onnx"], "no file and no folder nothing.onnx"),
        (["{model}", "--host", "0.0.0.0"], "needs --token-file"),
        (["{model}", "--device", "none"], 'no device "none"'),
        (["{model}", "--versions", "2"], "none of '2'"),
        (["{broken}"], "onnx"),
    ],
)
def test_the_command_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], text: str
) -> None:
    from calor_http.__main__ import main

    (path,) = write(tmp_path, double=DOUBLE)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(path.read_bytes()[:-20])
    words = [word.format(model=path, broken=broken) for word in more]
    if "--device" not in words:
        words += ["--device", "numpy"]
    assert main(["model", *words]) == 2
    assert text in capsys.readouterr().err


def test_arrays_need_not_lie_at_even_places(server: LocalModels) -> None:
    told = {"name": "x", "shape": [1, 3], "datatype": "FP32"}
    for space in range(4):
        message = {"inputs": [{**told, "parameters": {"binary_data_size": 12}}]}
        head = json.dumps(message).encode() + b" " * space
        body = head + np.arange(3, dtype=np.float32).tobytes()
        count = b"Inference-Header-Content-Length: %d\r\n" % len(head)
        status, answer = sent(server, INFER + count + length(body) + body)
        assert (status, json.loads(answer)["outputs"][0]["data"]) == (200, [0.0, 2.0, 4.0])
