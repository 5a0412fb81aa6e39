"""The end of a server without loss: SIGTERM, and what clients still get."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

import calor
from calor_http import DrainingError
from calor_http.frames import pack
from calor_http.server.limits import Limits
from calor_http.server.local import LocalServer
from calor_http.server.session import Session
from raw_http_client import Client, kind_of


def test_what_was_computed_can_be_read_and_nothing_more_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.1")
    with LocalServer("numpy", limits=Limits(lease_seconds=50)) as server:
        client = Client(server)
        client.ask(["up", 1, 0, "int8", [1], b"1"])
        device = calor.device(f"{server.address}/numpy")
        x = calor.asarray([1.0, 2.0], device=device)
        y = x + 1
        assert x.tolist() == [1.0, 2.0]
        calor.eval(y)
        calor.synchronize(device)
        server.server.drain.begin()
        with pytest.raises(DrainingError, match=r"can be read for \d+ s: store it") as caught:
            (x * 7).numpy()
        assert 0 < caught.value.retry_after <= 50
        assert y.tolist() == [2.0, 3.0]
        assert client.ask(["up", 2, 0, "int8", [1], b"1"], ["drop", [1]]) == [None, None]
        assert client.kinds(["read", 2, 0, 9]) == ["DrainingError"]
        with httpx.Client(base_url=server.address) as http:
            assert [http.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 503]
            answer = http.post("/v1/sessions", content=pack({"version": 1}))
        assert (answer.status_code, kind_of(answer)) == (503, "DrainingError")
        assert int(answer.headers["retry-after"]) <= 50
        # A session that holds nothing ends by itself, and others keep what they have.
        server.server.end_empty()
        assert server.server.clients == 1
        device.backend.close()
        client.http.close()


def test_a_client_that_comes_too_late_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.1")
    with LocalServer("numpy") as server:
        server.server.drain.begin()
        with pytest.raises(DrainingError, match="go on with another server"):
            calor.device(f"{server.address}/numpy")


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve in another process; return it and its address."""
    command = [sys.executable, "-m", "calor_http", "serve", "--devices", "numpy", "--port", "0"]
    with subprocess.Popen(
        [*command, "--no-token", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[-1]
        process.kill()


class Far:
    """A server of another process, as raw clients take it."""

    def __init__(self, address: str) -> None:
        self.address = address


def far(address: str) -> Any:
    return Client(Far(address))  # type: ignore[arg-type]


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGTERM here")
def test_sigterm_lets_results_be_fetched_and_ends_with_0() -> None:
    with serving("--lease-seconds", "60") as (process, address):
        client = far(address)
        client.ask(["up", 1, 0, "int8", [3], b"abc"])
        process.send_signal(signal.SIGTERM)
        while True:
            try:
                answer = httpx.post(f"{address}/v1/sessions", content=pack({"version": 1}))
            except httpx.TransportError:
                continue
            if answer.status_code == 503:
                break
        assert client.ask(["read", 1, 0, 2]) == [b"abc"]
        assert process.poll() is None
        client.ask(["drop", [1]])
        assert process.wait(30) == 0
        client.http.close()


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGTERM here")
def test_a_lease_is_the_longest_that_an_end_takes() -> None:
    with serving("--lease-seconds", "1") as (process, address):
        client = far(address)
        client.ask(["up", 1, 0, "int8", [3], b"abc"])
        process.send_signal(signal.SIGTERM)
        # Asking again and again keeps no server up.
        statuses = []
        with suppress(httpx.TransportError):
            for _ in range(2000):
                statuses.append(client.post(["memory", 0]).status_code)
                time.sleep(0.02)
        assert statuses[0] == 200
        assert len(statuses) < 2000
        assert process.wait(30) == 0
        client.http.close()
    with serving("--lease-seconds", "600") as (process, address):
        client = far(address)
        client.ask(["up", 1, 0, "int8", [3], b"abc"])
        process.send_signal(signal.SIGTERM)
        while httpx.get(f"{address}/readyz").status_code == 200:
            time.sleep(0.01)
        # A second one does not wait.
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        client.http.close()


def test_what_runs_ends_before_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    answer_of = Session._answer_of

    def slow(self: Session, command: Any, turn: Any) -> Any:
        if command[0] == "memory":
            begun.set()
            go.wait(30)
        return answer_of(self, command, turn)

    monkeypatch.setattr(Session, "_answer_of", slow)
    with LocalServer("numpy") as server:
        client = Client(server)
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(client.ask(["memory", 0])))
        thread.start()
        begun.wait(30)
        server.server.drain.begin()
        server.server.end_empty()
        assert server.server.clients == 1
        go.set()
        thread.join()
        assert answers == [[[0, 0]]]
        server.server.end_empty()
        assert server.server.clients == 0
        client.http.close()
