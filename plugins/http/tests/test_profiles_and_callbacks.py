"""Profiles of remote devices, and functions of this process in programs for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, UnsupportedError
from calor_http.client.backend import RemoteBackend
from calor_http.client.profiles import Profiles
from calor_http.server import profiles
from calor_http.server.local import LocalServer


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer("numpy", "cpu") as server:
        yield server


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_a_profile_shows_the_work_there(server: LocalServer, name: str) -> None:
    device = calor.device(f"{server.address}/{name}")
    with calor.device(device):
        x = calor.asarray(np.ones((64, 64), np.float32))
        step = calor.jit(lambda x: calor.softmax(x @ x, axis=-1))
        step(x).numpy()
        began = time.perf_counter()
        with calor.profile(device) as profile:
            step(x).numpy()
            calor.eval(calor.exp(x))
        took = time.perf_counter() - began
        assert {"dot_general", "exp"} <= {op for e in profile.events for op in (e.op, *e.covers)}
        assert 0 < profile.seconds < took
        assert all(-0.05 < e.start < took + 0.05 for e in profile.events)
        assert profile.peak_bytes >= x.nbytes
        assert "exp" in profile.table()
        count = len(profile.events)
        step(x).numpy()
        assert len(profile.events) == count
        with calor.profile(device) as again:
            step(x)
        assert again.events
        with calor.profile(device), pytest.raises(ArgumentError, match="another profile"):
            calor.profile(device).__enter__()


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_clients_profile_one_device_at_once(server: LocalServer, name: str) -> None:
    device = calor.device(f"{server.address}/{name}")
    other, index = RemoteBackend(server.address), ["numpy", "cpu"].index(name)
    events: list[Any] = []
    with calor.device(device):
        x = calor.asarray([1.0, 2.0])
        there = other.compile(index, calor.trace(calor.tanh, x))
        given = other.upload(index, np.array([1.0, 2.0], np.float32))
        with calor.profile(device) as profile:
            with other.profiling(index, events.extend):
                for _ in range(3):
                    there([given])
                    other.synchronize(index)
                    calor.eval(calor.sinh(x))
            there([given])
            calor.eval(calor.cosh(x))
        assert [e.op for e in profile.events] == ["sinh"] * 3 + ["cosh"]
        assert [e.op for e in events] == ["tanh"] * 3
    other.close()


def test_clients_see_their_own_work(server: LocalServer) -> None:
    device = calor.device(f"{server.address}/numpy")
    other = RemoteBackend(server.address)
    with calor.device(device):
        x = calor.asarray([1.0, 2.0])
        program = calor.trace(calor.tanh, x)
        there = other.compile(0, program)
        given = other.upload(0, np.array([1.0, 2.0], np.float32))
        with calor.profile(device) as profile:
            there([given])
            other.synchronize(0)
            calor.eval(calor.sinh(x))
        assert [e.op for e in profile.events] == ["sinh"]
    # A session that ends leaves no profile behind.
    listening = other.profiling(0, lambda events: None)
    listening.__enter__()
    other.close()
    deadline = time.monotonic() + 20
    while server.server.clients > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    with calor.profile(device) as profile:
        calor.eval(calor.cosh(x))
    assert [e.op for e in profile.events] == ["cosh"]


def test_what_is_not_fetched_is_bounded(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "_KEPT", 3)
    device = calor.device(f"{server.address}/numpy")
    with calor.device(device):
        x = calor.asarray([1.0, 2.0])
        step = calor.jit(lambda x: calor.sinh(calor.cosh(calor.tanh(calor.exp(calor.sin(x))))))
        with calor.profile(device) as profile:
            step(x)
        assert [e.op for e in profile.events] == ["tanh", "cosh", "sinh"]


def test_a_profile_outlives_a_session_that_is_lost(server: LocalServer) -> None:
    device = calor.device(f"{server.address}/numpy")
    backend: Any = device.backend
    seen: list[Any] = []
    with Profiles(backend.requests).profiling(0, seen.extend):
        server.stop()
        server.start()
    assert seen == []
    assert calor.asarray([1.0], device=device).tolist() == [1.0]


def test_functions_of_this_process_run_here_beside_a_router(server: LocalServer) -> None:
    name = f"{server.address}/numpy"

    def parts(x: Any) -> Any:
        return calor.callback(lambda a: np.sort(a), x, x * 2) * 2

    seen: list[float] = []

    def told(x: Any) -> Any:
        calor.callback(lambda a: seen.append(float(a)), None, x.sum(), ordered=True)
        return x + 1

    with calor.device(name):
        x = calor.asarray([3.0, 1.0, 2.0])
        # Outside of a program the function is called at once.
        assert calor.callback(lambda a: np.sort(a), x, x).tolist() == [1.0, 2.0, 3.0]
        with pytest.raises(UnsupportedError, match="function of this process") as caught:
            calor.jit(parts)(x).numpy()
    # The error names the device that takes both.
    router = f"router:{name},numpy"
    assert f'calor.device("{router}")' in str(caught.value)
    with calor.device(router):
        x = calor.asarray([3.0, 1.0, 2.0])
        step, note = calor.jit(parts), calor.jit(told)
        assert step(x).tolist() == [4.0, 8.0, 12.0]
        assert step(x + 1).tolist() == [8.0, 12.0, 16.0]
        assert [note(x).tolist(), note(x * 2).tolist()] == [[4.0, 2.0, 3.0], [7.0, 3.0, 5.0]]
        assert seen == [6.0, 12.0]
