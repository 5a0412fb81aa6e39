"""What nobody wants any more is freed, and who waits for a server that is gone learns so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import DeviceLostError
from calor.graph.file import save
from calor_http import LeaseLostError
from calor_http.client.stream import Stream
from calor_http.connection import Away, Connection
from calor_http.described import digest_of
from calor_http.frames import CHUNK
from calor_http.server import graphs, handing
from calor_http.server.graphs import Graphs
from calor_http.server.limits import Limits
from calor_http.server.local import LocalServer
from calor_http.server.queueing import Turn
from calor_http.server.session import Session
from raw_http_client import Client
from waiting import wait_until


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer("numpy") as server:
        yield server


def test_an_offer_that_nobody_takes_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing, "_SECONDS", 0.1)
    with LocalServer("numpy", limits=Limits(lease_seconds=0.4)) as server:
        client = Client(server)
        up = ["up", 1, 0, "int8", [1000], bytes(1000)]
        secrets = client.ask(up, ["offer", 1, 0], ["offer", 1, 0])[1:]
        client.http.post(f"/v1/offers/{secrets[0]}")
        (account,) = server.server.keyring.accounts.values()
        # The session ends with its lease; the offers with their time, though nobody asks again.
        wait_until(lambda: account.memory.nbytes == 0)
        assert server.server.clients == 0
        client.http.close()


@pytest.mark.parametrize("stage", ["asked", "fetched"])
def test_contents_that_nobody_fetches_are_freed(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.2")
    with calor.device(f"{server.address}/numpy") as device:
        x = calor.asarray(np.arange(CHUNK // 2))
        calor.synchronize(device)
        (session,) = server.server.sessions.values()
        broken = [True]
        kinds: Any = {
            "asked": (Connection, "patiently"),
            "fetched": (Stream, "answer_into"),
        }
        owner, name = kinds[stage]
        whole = getattr(owner, name)
        asked: list[int] = []

        def fails(self: Any, *given: Any) -> Any:
            found = whole(self, *given)
            if broken and (stage == "fetched" or session._room.blobs.nbytes):
                asked.append(1)
                # The server has done it, and the answer is lost on the way.
                raise Away("the connection is gone")
            return found

        monkeypatch.setattr(owner, name, fails)
        with pytest.raises(DeviceLostError, match="is gone"):
            (x + 0).numpy()
        assert asked
        broken.clear()
        assert x.tolist()[:2] == [0, 1]
        calor.synchronize(device)
        wait_until(lambda: session._room.blobs.nbytes == 0)
        device.backend.close()


@pytest.mark.parametrize("kind", ["contents", "commands"])
def test_nobody_waits_forever_for_room_in_the_queue(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.1")
    with calor.device(f"{server.address}/numpy") as device:
        x = calor.ones((3,))
        step = calor.jit(lambda x: x + 1)
        assert step(x).tolist() == [2.0, 2.0, 2.0]
        server.stop()
        told: list[BaseException] = []

        def work() -> None:
            zeros = np.zeros(1 << 21)
            try:
                while True:
                    made = calor.asarray(zeros, device=device) if kind == "contents" else step(x)
                    del made
            except DeviceLostError as error:
                told.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert "did not answer for 0.1 s" in str(told[0])
        server.start()
        # What is lost is said once, and then there is another session.
        with pytest.raises(LeaseLostError):
            x.numpy()
        assert step(calor.ones((3,), device=device)).tolist() == [2.0, 2.0, 2.0]
        device.backend.close()


def test_a_request_that_something_on_the_way_refuses_costs_the_session_and_no_more(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with calor.device(f"{server.address}/numpy") as device:
        x = calor.asarray([1.0])
        assert x.tolist() == [1.0]
        answer = Session.answer
        refused = [True]

        def refuses(self: Session, *given: Any) -> bytes:
            if refused:
                refused.clear()
                raise PermissionError("a filter")
            return answer(self, *given)

        monkeypatch.setattr(Session, "answer", refuses)
        with pytest.raises(calor.errors.DeviceError, match="PermissionError"):
            (x + 1).numpy()
        with pytest.raises(LeaseLostError, match="count requests apart"):
            (x + 2).numpy()
        assert (calor.asarray([1.0]) + 2).tolist() == [3.0]
        device.backend.close()


def test_a_device_is_free_while_a_value_is_fetched_from_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with LocalServer("numpy", peers=["http://127.0.0.1:1"]) as server:
        client = Client(server)
        held: list[Any] = []
        placed = Session._place

        def places(self: Session, command: list[Any], turn: Turn) -> None:
            placed(self, command, turn)
            if command[0] == "fetch":
                held.append(turn._queue)

        monkeypatch.setattr(Session, "_place", places)
        monkeypatch.setattr(server.server._handing, "fetch", lambda *given: bytearray(b"abc"))
        fetch = ["fetch", 2, 0, "int8", [3], "http://127.0.0.1:1", "secret"]
        up = ["up", 1, 0, "int8", [1], b"1"]
        assert client.ask(up, fetch, ["read", 2, 0, 3]) == [None, None, b"abc"]
        assert held == [None]
        client.close()


def test_small_graphs_count_with_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_KEPT_BYTES", 1 << 16)
    known = Graphs(1000)
    files = [save(calor.trace(lambda x: calor.tanh(x) * 2, calor.ones(n))) for n in range(1, 60)]
    assert sum(map(len, files)) < 1 << 16
    for data in files:
        known.add("anna", digest_of(data), data)
    # Each takes some thousands of bytes, though its file has some hundreds.
    found = [known.find("anna", digest_of(data)) is not None for data in files]
    assert 5 < sum(found) < 20
    assert found[-1]
    assert not found[0]


@pytest.mark.parametrize("first", [2**16 - 3, 2**31 - 3, 2**32 - 3, 2**53 - 3])
def test_numbers_may_be_large(server: LocalServer, first: int) -> None:
    from itertools import count

    with calor.device(f"{server.address}/numpy") as device:
        calor.synchronize(device)
        requests = device.backend.requests
        requests.numbers = count(first)
        (session,) = server.server.sessions.values()
        requests._sent = first
        session._answered = first, b""
        large = np.arange(CHUNK // 2)
        for number in range(4):
            x = calor.asarray(large + number)
            assert int((x * 2)[-1].item()) == 2 * (CHUNK // 2 - 1 + number)
            np.testing.assert_array_equal(x.numpy(), large + number)
        assert requests._sent > first + 4
        assert session._answered[0] == requests._sent
        device.backend.close()
