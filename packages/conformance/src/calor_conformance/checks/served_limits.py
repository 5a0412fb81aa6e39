"""What a server of models takes on: bytes, connections, time, tokens, and heads of requests.

A service answers connections whose other side is held in memory, so that bytes come in drawn
pieces, clocks are moved by hand, and what is written, ended and held is compared with plain
numbers: one less than a limit is taken, and one more is refused with the status of that limit.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.graph.file import save

from .base import Check, Place
from .served_models import PACKAGE

CONTRACT: Final = "a server of models takes what its limits allow, and says which of them is met"
_PATIENCE: Final = 10.0
_NAME: Final = "double"
Rng = np.random.Generator


class _Transport:
    """The other side of a connection, which keeps what is written to it."""

    def __init__(self) -> None:
        self.written = b""
        self.ended = self.aborted = False

    def write(self, data: bytes) -> None:
        """Keep bytes; none come after the end."""
        assert not self.ended, f"{data[:60]!r} is written after the end"
        self.written += data

    def close(self) -> None:
        """Note the end."""
        self.ended = True

    def write_eof(self) -> None:
        """Note the end of what is written."""
        self.ended = True

    def abort(self) -> None:
        """Note that it was cut off."""
        self.ended = self.aborted = True

    def can_write_eof(self) -> bool:
        """Say that it can."""
        return True

    def pause_reading(self) -> None:
        """Do nothing: bytes are handed over by hand."""

    def resume_reading(self) -> None:
        """Do nothing."""


class _Talk:
    """A connection of a service."""

    def __init__(self, service: Any, state: Any) -> None:
        wire = import_module("calor_http.model.wire")
        self.transport = _Transport()
        self.connection = wire.Connection(service, None, state, {})
        self.connection.connection_made(self.transport)

    def send(self, data: bytes, rng: Rng | None = None) -> None:
        """Hand over bytes, in pieces if there is a generator."""
        cuts = sorted(rng.integers(0, len(data) + 1, 3).tolist()) if rng is not None else []
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            if begin < end:
                self.connection.data_received(data[begin:end])

    async def answers(self, count: int = 1) -> list[tuple[int, dict[str, str], Any]]:
        """Wait for answers, and return status, headers and content of each."""
        for _ in range(int(_PATIENCE / 2e-3)):
            found = _parsed(self.transport.written)
            if len(found) >= count:
                break
            await asyncio.sleep(2e-3)
        assert len(found) == count, f"{len(found)} answers, not {count}"
        self.transport.written = b""
        return found

    def over(self) -> bool:
        """Whether the service has ended it."""
        return self.transport.ended

    def cut(self) -> bool:
        """Whether the service has cut it off."""
        return self.transport.aborted

    def lose(self) -> None:
        """End it from the other side."""
        self.connection.connection_lost(None)


def _parsed(text: bytes) -> list[tuple[int, dict[str, str], Any]]:
    found = []
    while b"\r\n\r\n" in text:
        head, _, text = text.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        status = int(lines[0].split()[1])
        headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
        size = int(headers.get("content-length", 0))
        body, text = text[:size], text[size:]
        found.append((status, headers, json.loads(body) if body else None))
    return found


def _request(body: bytes = b"", method: str = "POST", target: str = "", more: str = "",
             version: str = "1.1") -> bytes:  # fmt: skip
    target = target or f"/v2/models/{_NAME}/infer"
    lines = [f"{method} {target} HTTP/{version}", "Host: here"]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, *([more] if more else [])]).encode() + b"\r\n\r\n" + body


def _asking(rng: Rng, size: int = 0, asked: str = "") -> tuple[bytes, list[float]]:
    """Return a body of at least so many bytes, and what the model gives for it."""
    values = [float(v) for v in rng.integers(-9, 10, 3)]
    given = {"name": "input0", "shape": [3], "datatype": "FP32", "data": values}
    message = {"inputs": [given], **({"id": asked} if asked else {})}
    body = json.dumps(message).encode()
    return body + b" " * max(size - len(body), 0), [2 * v for v in values]


async def _first(talk: _Talk) -> tuple[int, dict[str, str], Any]:
    return (await talk.answers())[0]


def _gives(answer: tuple[int, dict[str, str], Any], want: list[float], told: str) -> None:
    status, _, content = answer
    assert status == 200, f"{told}: status {status}: {content}"
    got = content["outputs"][0]["data"]
    assert got == want, f"{told}: {got}, not {want}"


def _refuses(answer: tuple[int, dict[str, str], Any], want: int, told: str) -> None:
    status, headers, content = answer
    assert status == want, f"{told}: status {status}, not {want}: {content}"
    assert list(content) == ["error"], f"{told}: {content}"
    assert content["error"], f"{told}: an error without a text"
    wait = "1" if status in (429, 503) else None
    assert headers.get("retry-after") == wait, f"{told}: Retry-After {headers.get('retry-after')}"
    shows = "Bearer" if status == 401 else None
    assert headers.get("www-authenticate") == shows, f"{told}: {headers}"


async def _sizes(rng: Rng, service: Any, state: Any) -> None:
    """Bodies, their JSON, and all bodies together, beside their limits."""
    limits = service.limits
    for size, fits in ((limits.json_bytes, True), (limits.json_bytes + 1, False)):
        talk = _Talk(service, state)
        body, want = _asking(rng, size)
        talk.send(_request(body), rng)
        answer = await _first(talk)
        told = f"{size} bytes of JSON of {limits.json_bytes}"
        _gives(answer, want, told) if fits else _refuses(answer, 413, told)
        assert not talk.over(), f"{told} end the connection"
        talk.lose()
    for size, fits in ((limits.body_bytes, True), (limits.body_bytes + 1, False)):
        talk = _Talk(service, state)
        talk.send(_request(b"x" * size), rng)
        _refuses(await _first(talk), 413, f"a body of {size} bytes of {limits.body_bytes}")
        assert talk.over() != fits, f"a body of {size} bytes of {limits.body_bytes}"
        talk.lose()
    first, second, third = (_Talk(service, state) for _ in range(3))
    half = limits.held_bytes // 2
    head = f"POST /v2/models/{_NAME}/infer HTTP/1.1\r\nHost: h\r\nContent-Length: {half}\r\n\r\n"
    first.send(head.encode() + b" ")
    second.send(head.encode())
    assert service.held == 2 * half, f"{service.held} bytes are held, not {2 * half}"
    body, want = _asking(rng, limits.held_bytes - 2 * half + 1)
    third.send(_request(body))
    _refuses(await _first(third), 503, f"{len(body)} bytes beside {2 * half}")
    assert third.over(), "who sends more than is held stays"
    first.lose()
    assert service.held == half, f"{service.held} bytes after one is lost, not {half}"
    fourth = _Talk(service, state)
    fourth.send(_request(body))
    _gives(await _first(fourth), want, "a body that fits again")
    for talk in (second, third, fourth):
        talk.lose()
    assert service.held == 0, f"{service.held} bytes are held of nobody"


async def _connections(rng: Rng, service: Any, state: Any) -> None:
    """As many connections as may be open, one more, and one again."""
    most = service.limits.connections
    talks = [_Talk(service, state) for _ in range(most)]
    assert not any(t.transport.written for t in talks), "a connection is refused"
    more = _Talk(service, state)
    _refuses(await _first(more), 503, f"connection {most + 1} of {most}")
    assert more.over(), "a refused connection stays"
    more.lose()
    talks.pop(int(rng.integers(most))).lose()
    talks.append(_Talk(service, state))
    body, want = _asking(rng)
    talks[-1].send(_request(body), rng)
    _gives(await _first(talks[-1]), want, "a connection in the place of one that left")
    for talk in talks:
        talk.lose()
    assert not service.connections, f"{len(service.connections)} connections of nobody"


async def _times(rng: Rng, service: Any, state: Any) -> None:
    """What waits, arrives or is refused, before and after its time."""
    limits, now = service.limits, asyncio.get_running_loop().time
    for begun, most in ((b"", limits.idle_seconds), (b"POST /v2", limits.body_seconds),
                        (_request(b"x" * 9)[:-4], limits.body_seconds)):  # fmt: skip
        talk = _Talk(service, state)
        talk.send(begun)
        told = f"after {begun!r}"
        talk.connection.look(now() + most - 1)
        assert not talk.over(), f"{told}: ended before {most} s"
        talk.connection.look(now() + most + 1)
        assert talk.over(), f"{told}: not ended after {most} s"
        if begun:
            _refuses(await _first(talk), 408, told)
            talk.connection.look(now() + 1)
            assert not talk.cut(), f"{told}: cut off at once"
            talk.connection.look(now() + most + 60)
            assert talk.cut(), f"{told}: not cut off"
        else:
            assert not talk.transport.written, f"{told}: {talk.transport.written!r}"
        talk.lose()
    talk = _Talk(service, state)
    body, want = _asking(rng)
    for _ in range(2):
        # A request ends the wait; the next wait begins with its answer.
        talk.send(_request(body), rng)
        _gives(await _first(talk), want, "a request after a wait")
        talk.connection.look(now() + limits.idle_seconds - 1)
        assert not talk.over(), "a connection ends too early after its answer"
    talk.lose()


async def _heads(rng: Rng, service: Any, state: Any) -> None:
    """Heads that are taken, in other words for the same, and heads that are not."""
    body, want = _asking(rng)
    infer = f"/v2/models/{_NAME}/infer"
    path = "".join(f"%{ord(c):02x}" if rng.random() < 0.4 else c for c in infer[1:])
    path = path.replace("%2f", "/")
    taken: list[tuple[dict[str, str], bool]] = [
        ({}, True), ({"more": "Connection: close"}, False), ({"more": "connection: CLOSE"}, False),
        ({"version": "1.0"}, False), ({"target": f"/{path}"}, True),
        ({"target": f"{infer}?x=1"}, True),
        ({"target": f"/v2/models/{_NAME}/versions/1/infer"}, True),
        ({"more": "Content-Encoding: identity"}, True),
    ]  # fmt: skip
    for how, stays in taken:
        talk = _Talk(service, state)
        talk.send(_request(body, **how), rng)
        _gives(await _first(talk), want, f"{how}")
        assert talk.over() != stays, f"{how}: the connection {'ends' if stays else 'stays'}"
        talk.lose()
    refused: list[tuple[bytes, int]] = [
        (_request(body, more="Content-Encoding: gzip"), 415), (_request(method="GET"), 405),
        (_request(method="GET", target="/v1"), 404), (b"no request\r\n\r\n", 400),
        (_request(method="GET", target="/v2/models/double/versions/2"), 404),
        (_request(body, more="Content-Length: 3"), 400), (b"GET /v2 HTTP/1.1\r\n\r\n", 400),
        (b"POST /v2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /v2 HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400),
        (_request(body, more=f"Inference-Header-Content-Length: {len(body) + 1}"), 400),
        (b"GET /v2 HTTP/1.1\r\nHost: " + b"h" * (16 << 10), 431),
    ]  # fmt: skip
    for raw, status in refused:
        talk = _Talk(service, state)
        talk.send(raw, rng)
        _refuses(await _first(talk), status, f"{raw[:90]!r}")
        if status in (411, 431):
            # What cannot be read ends the connection, and nothing more is answered.
            assert talk.over(), f"{raw[:60]!r}: the connection stays"
            talk.send(_request(body))
            assert not talk.transport.written, "an answer after the end"
        talk.lose()
    talk = _Talk(service, state)
    whole = _request(body, more="Expect: 100-continue")
    talk.send(whole[: -len(body)])
    waits = talk.transport.written
    assert waits == b"HTTP/1.1 100 Continue\r\n\r\n", f"who waits to send its body gets {waits!r}"
    talk.transport.written = b""
    talk.send(body, rng)
    _gives(await _first(talk), want, "a body after 100 Continue")
    talk.lose()


async def _tokens(rng: Rng, service: Any, state: Any) -> None:
    """Who shows the token, another one, or none."""
    module = import_module("calor_http.model.service")
    closed = module.Service(service.repository, "secret", service.limits)
    closed.ready = True
    body, want = _asking(rng)
    for shown in ("", "Authorization: Bearer wrong", "Authorization: secret"):
        talk = _Talk(closed, state)
        talk.send(_request(body, more=shown), rng)
        _refuses(await _first(talk), 401, shown or "no token")
        assert talk.over(), f"{shown or 'no token'}: the connection stays"
        talk.lose()
    talk = _Talk(closed, state)
    talk.send(_request(body, more="Authorization: Bearer secret"), rng)
    _gives(await _first(talk), want, "the token")
    for target, name in (("/v2/health/live", "live"), ("/v2/health/ready", "ready")):
        talk.send(_request(method="GET", target=target))
        status, _, said = await _first(talk)
        assert (status, said) == (200, {name: True}), f"{target} without a token: {status}"
    talk.lose()
    closed.ready = False
    talk = _Talk(closed, state)
    talk.send(_request(method="GET", target="/v2/health/ready"))
    status, _, said = await _first(talk)
    assert (status, said) == (400, {"ready": False}), f"a server that is not ready: {status} {said}"
    talk.lose()


async def _ahead(rng: Rng, service: Any, state: Any) -> None:
    """Several requests in one piece, and one that is shut down between them."""
    talk, asked = _Talk(service, state), [_asking(rng, asked=f"{n}") for n in range(4)]
    talk.send(b"".join(_request(body) for body, _ in asked), rng)
    for n, (answer, (_, want)) in enumerate(zip(await talk.answers(4), asked, strict=True)):
        _gives(answer, want, f"request {n} of 4")
        assert answer[2]["id"] == f"{n}", f"answer {n} is to {answer[2]['id']}"
    talk.send(_request(asked[0][0])[:-3])
    talk.connection.shutdown()
    assert not talk.over(), "a request that arrives is cut off by the end of the server"
    talk.send(_request(asked[0][0])[-3:])
    _gives(await _first(talk), asked[0][1], "the last request before the end of the server")
    assert talk.over(), "a connection outlives its server"
    talk.lose()


async def _messages(rng: Rng, service: Any, state: Any) -> None:
    """Requests at the ends of what a message may be, and what is told of models."""
    talk, given = _Talk(service, state), json.loads(_asking(rng)[0])
    given["inputs"][0]["data"] = [1, 2, 3]
    tensor = given["inputs"][0]
    bits = np.asarray([1, 2, 3], np.float32).tobytes()
    there = {**tensor, "parameters": {"binary_data_size": 12}}
    del there["data"]
    taken: list[tuple[dict[str, Any], bytes]] = [
        ({"id": "x" * 1024, "inputs": [tensor]}, b""), ({"inputs": [tensor], "outputs": []}, b""),
        ({"inputs": [{**tensor, "data": [[1, 2, 3]][0]}], "parameters": {}}, b""),
        ({"inputs": [tensor], "parameters": {"binary_data_output": False}}, b""),
        ({"inputs": [there]}, bits), ({"inputs": [tensor], "parameters": None}, b""),
        ({"inputs": [tensor], "parameters": {"sequence_id": 0, "other": 1}}, b""),
    ]  # fmt: skip
    for message, more in taken:
        head = json.dumps(message).encode()
        length = f"Inference-Header-Content-Length: {len(head)}" if more else ""
        talk.send(_request(head + more, more=length), rng)
        _gives(await _first(talk), [2.0, 4.0, 6.0], f"{str(message)[:300]}")
    refused: list[dict[str, Any]] = [
        {"id": "x" * 1025, "inputs": [tensor]}, {"id": 3, "inputs": [tensor]},
        *({"inputs": [{**tensor, "shape": shape}]} for shape in
          (3, None, "3", [3.0], [True, 3], [1] * 33, [-3], [3, 1], [4], [1 << 48])),
        {"inputs": [there]}, {"inputs": [{**tensor, "parameters": {"binary_data_size": 12}}]},
        {"inputs": [{**there, "parameters": {"binary_data_size": 11}}]},
        {"inputs": [{**there, "parameters": {"binary_data_size": 12.0}}]},
        {"inputs": [tensor], "parameters": {"binary_data_output": 1}},
        {"inputs": [tensor], "parameters": {"sequence_id": 1}},
        {"inputs": [tensor], "parameters": 3},
        {"inputs": [tensor], "outputs": [{"name": "output0"}] * 2}, {"inputs": [tensor, 3]},
        {"inputs": [{**tensor, "datatype": "BYTES"}]}, {"inputs": [{**tensor, "datatype": 3}]},
        {"inputs": [{**tensor, "data": [1, 2]}]}, {"inputs": [{**tensor, "data": [1, 2, 3, 4]}]},
        {"inputs": [{**tensor, "data": [[1], [2], [3]]}]}, {"inputs": [{**tensor, "data": 3}]},
        {"inputs": [{**tensor, "data": [1, 2, 1e39]}]},
        {"inputs": [{**tensor, "data": [1, [2], 3]}]},
    ]  # fmt: skip
    for message in refused:
        talk.send(_request(json.dumps(message).encode()), rng)
        _refuses(await _first(talk), 400, f"{str(message)[:300]}")
    ports = [{"name": n, "datatype": "FP32", "shape": [3]} for n in ("input0", "output0")]
    typed = [{"name": p["name"], "data_type": "TYPE_FP32", "dims": [3]} for p in ports]
    model = {"name": _NAME, "version": "1"}
    told: dict[tuple[str, str], Any] = {
        ("GET", "/v2"): {"name": "calor", "extensions": ["binary_tensor_data"]},
        ("GET", f"/v2/models/{_NAME}"): {"name": _NAME, "versions": ["1"], "inputs": ports[:1],
                                         "outputs": ports[1:], "platform": "calor_graph"},
        ("GET", f"/v2/models/{_NAME}/config"): {"name": _NAME, "platform": "calor_graph",
                                                "max_batch_size": 0, "input": typed[:1],
                                                "output": typed[1:]},
        ("GET", f"/v2/models/{_NAME}/ready"): {**model, "ready": True},
        ("POST", "/v2/repository/index"): [{**model, "state": "READY", "reason": ""}],
    }  # fmt: skip
    for (method, target), want in told.items():
        for _ in range(2):
            talk.send(_request(method=method, target=target), rng)
            status, _, said = await _first(talk)
            found = {n: said.get(n) for n in want} if isinstance(want, dict) else said
            assert (status, found) == (200, want), f"{target}: status {status}, {said}"
    service.repository.entries[0].ready = False
    talk.send(_request(method="POST", target="/v2/repository/index"))
    assert (await _first(talk))[2] == [{**model, "state": "LOADING", "reason": ""}], "the index"
    talk.send(_request(method="GET", target=f"/v2/models/{_NAME}/ready"))
    assert (await _first(talk))[0] == 400, "a model that is not ready"
    talk.send(_request(_asking(rng)[0]))
    _refuses(await _first(talk), 503, "a request for a model that is not ready")
    talk.lose()


_PARTS: Final = {
    "messages": _messages, "sizes": _sizes, "connections": _connections, "times": _times,
    "heads": _heads, "tokens": _tokens, "ahead": _ahead,
}  # fmt: skip


async def _asked(rng: Rng, path: Path, place: Place, part: str) -> None:
    module, limits = (
        import_module("calor_http.model.repository"),
        import_module("calor_http.model.limits"),
    )
    service_of = import_module("calor_http.model.service").Service
    most = limits.Limits(
        body_bytes=int(rng.integers(3000, 4000)), json_bytes=int(rng.integers(1500, 1900)),
        held_bytes=int(rng.integers(5000, 6000)), connections=int(rng.integers(3, 7)),
        body_seconds=float(rng.integers(5, 9)), idle_seconds=float(rng.integers(20, 30)),
    )  # fmt: skip
    models = module.Repository(module.found([path]), place.plain, most=1, delay=0.0)
    service = service_of(models, None, most)
    state = SimpleNamespace(connections=set(), default_headers=[], total_requests=0)
    try:
        await models.warm()
        service.ready = True
        await _PARTS[part](rng, service, state)
    finally:
        models.close()


def _run(part: str, place: Place) -> None:
    rng = np.random.default_rng([place.seed, 951])
    with tempfile.TemporaryDirectory() as folder, calor.device(place.plain):
        path = Path(folder) / f"{_NAME}.calor"
        path.write_bytes(save(calor.trace(lambda x: x * 2, calor.zeros(3))))
        asyncio.run(_asked(rng, path, place, part))


def served_limits() -> Iterator[Check]:
    """Yield the checks, if calor-http is installed."""
    if find_spec(PACKAGE) is None:
        return
    for part, asked in _PARTS.items():
        yield Check(
            kind="models",
            subject=f"served-{part}",
            tier="compiled",
            contract=CONTRACT,
            run=partial(_run, part),
            text=partial(inspect.getsource, asked),
            dtypes=(float32,),
            looks=True,
        )
