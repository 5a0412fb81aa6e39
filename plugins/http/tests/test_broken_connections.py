"""Connections that break, servers that restart, clients that vanish: what is lost, and what not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calor
import calor_http
from calor.errors import DeviceError, DeviceLostError
from calor.random import generator
from calor_http import LeaseLostError
from calor_http.frames import CHUNK, pack, unpack
from calor_http.server.limits import Limits
from calor_http.server.local import LocalServer
from cutting_proxy import CuttingProxy
from waiting import wait_until

HERE = Path(__file__).parent


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer("numpy") as server:
        yield server


def port_of(server: LocalServer) -> int:
    return int(server.address.rpartition(":")[2])


@contextmanager
def through(server: LocalServer, seed: int, mean: int) -> Iterator[tuple[CuttingProxy, Any]]:
    """Compute on a server behind a proxy that cuts connections."""
    with CuttingProxy(port_of(server), seed, mean) as proxy:
        device = calor.device(f"{proxy.address}/numpy")
        try:
            with calor.device(device):
                yield proxy, device
        finally:
            proxy.cut_all()
            device.backend.close()


def steps(turns: int) -> list[float]:
    """Change state in place, turn by turn, and return sums of it."""
    state = calor.zeros(50)

    @calor.jit
    def step(x: Any) -> Any:
        state[...] = state * 0.5 + x
        return state.sum()

    sums = []
    for i in range(turns):
        made = step(calor.asarray(np.full(50, float(i))))
        if i % 3 == 0:
            sums.append(made.item())
    return [*sums, *state.tolist()]


@pytest.mark.parametrize("seed", range(4))
def test_cuts_lose_nothing(server: LocalServer, seed: int) -> None:
    with calor.device("numpy"):
        wanted = steps(90)
    mean = (8000, 5000, 12000, 20000)[seed]
    with through(server, seed, mean) as (proxy, _):
        assert steps(90) == wanted
        assert proxy.cuts > 0


@pytest.mark.parametrize("seed", range(2))
def test_large_values_go_on_where_they_were_cut(server: LocalServer, seed: int) -> None:
    given = np.random.default_rng(seed).standard_normal(5 * CHUNK // 8)
    with through(server, seed, 2 * CHUNK) as (proxy, _):
        x = calor.asarray(given)
        np.testing.assert_array_equal((x + 1).numpy(), given + 1)
        # Only pieces that were on their way went twice.
        assert proxy.passed < 2 * given.nbytes + (proxy.cuts + 1) * (CHUNK + 65536)


def test_a_server_that_is_away_for_a_while(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.3")
    with through(server, 0, 1 << 40) as (proxy, _):
        x = calor.asarray([1.0, 2.0])
        assert x.tolist() == [1.0, 2.0]
        proxy.whole = False
        proxy.cut_all()
        y = x + 1
        with pytest.raises(DeviceLostError, match=r"did not answer for 0\.3 s"):
            y.numpy()
        proxy.whole = True
        # Nothing was lost: what waited is sent when somebody asks again.
        assert (x + 2).tolist() == [3.0, 4.0]


def test_everybody_who_waits_for_a_server_that_is_gone_learns_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.05")
    server = LocalServer("numpy").start()
    with calor.device(f"{server.address}/numpy"):
        held = calor.ones((3,))
        calor.eval(held)
    device = held.device
    server.stop()
    told: list[type[Exception] | None] = []

    def wait() -> None:
        for _ in range(8):
            try:
                device.backend.synchronize(device.index)
                told.append(None)
            except DeviceLostError as error:
                told.append(type(error))

    # Several ask while the request of another fails.
    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(told) == 24
    assert None not in told
    calor_http.close(device)
    # What could not be sent is not tried for ever.
    wait_until(lambda: not device.backend.requests._thread.is_alive())
    device.backend.synchronize(device.index)
    with pytest.raises(DeviceLostError, match="was closed"):
        held.numpy()


def test_an_address_that_was_closed_opens_a_new_session(server: LocalServer) -> None:
    name = f"{server.address}/numpy"
    first = calor.device(name)
    held = calor.asarray([1.0], device=first)
    calor_http.close(first)
    second = calor.device(name)
    assert second is not first
    assert calor.ones((2,), device=name).sum().item() == 2.0
    with pytest.raises(DeviceLostError, match="was closed"):
        held.numpy()
    calor_http.close(name)


def _drawn_through(name: str, ends: Callable[[], object]) -> list[float]:
    """Draw two numbers through a server, whose session ends, and two afterwards."""
    generator.default_generator.key = generator.default_generator.counter = None
    with calor.device(name):
        calor.random.seed(3)
        first = calor.random.uniform((2,)).tolist()
    ends()
    with calor.device("numpy"):
        return [*first, *calor.random.uniform((2,)).tolist()]


def test_random_numbers_go_on_when_a_session_ends(server: LocalServer) -> None:
    name = f"{server.address}/numpy"
    drawn = _drawn_through(name, lambda: calor_http.close(name))
    assert drawn == _drawn_through("numpy", list)


def test_a_seed_makes_random_numbers_go_on_when_a_server_is_gone(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who closes the device asks the server for the generator's state, for as long as this.
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.3")
    name = f"{server.address}/numpy"

    def ends() -> None:
        server.stop()
        calor_http.close(name)
        with pytest.raises(DeviceLostError, match="was closed"):
            calor.random.uniform((2,), device="numpy").tolist()
        calor.random.seed(3)

    drawn = _drawn_through(name, ends)
    assert drawn[:2] == drawn[2:]


def test_nobody_waits_for_a_local_server_that_ended() -> None:
    with LocalServer("numpy") as server, calor.device(f"{server.address}/numpy"):
        assert calor.ones((2,)).sum().item() == 2.0
    begin = time.monotonic()
    calor.synchronize()
    assert calor.timeit(lambda: calor.ones((2,)), repeat=1).median > 0
    assert time.monotonic() - begin < 20
    with pytest.raises(DeviceError, match="is no device of a server"):
        calor_http.close("numpy")


def test_a_restart_loses_what_was_not_kept(server: LocalServer) -> None:
    with calor.device(f"{server.address}/numpy") as device:
        f = calor.jit(lambda x: x * 2)
        lost = calor.asarray([5.0])
        calor_http.keep(device)
        kept = calor.asarray([1.0, 2.0])
        large = calor.asarray(np.arange(CHUNK // 4))
        written = calor.asarray([3.0])

        @calor.jit
        def write() -> None:
            written[...] = written + 1

        write()
        made = f(kept)
        assert made.tolist() == [2.0, 4.0]
        server.stop()
        server.start()
        for gone in (made, lost, written):
            with pytest.raises(LeaseLostError, match="lost|does not know"):
                gone.numpy()
        assert f(kept).tolist() == [2.0, 4.0]
        assert large[-1].item() == CHUNK // 4 - 1
        with pytest.raises(LeaseLostError):
            f(lost).numpy()
        device.backend.close()


def test_a_client_that_vanishes_loses_its_leases() -> None:
    import httpx

    limits = Limits(lease_seconds=1.5)
    with LocalServer("numpy", limits=limits) as server, httpx.Client(base_url=server.address) as c:
        hello = unpack(c.post("/v1/sessions", content=pack({"version": 1})).content, CHUNK)
        session = f"/v1/sessions/{hello['session']}/requests"
        up = ["up", 1, 0, "float64", [2], bytes(16)]
        assert unpack(c.post(f"{session}/1", content=pack([up])).content, CHUNK) == [None]
        # A client that does not vanish keeps what it has, although it does nothing.
        x = calor.asarray([1.0], device=f"{server.address}/numpy")
        assert x.tolist() == [1.0]
        wait_until(lambda: server.server.clients == 1)
        assert c.post(f"{session}/1", content=pack([up])).status_code == 404
        time.sleep(2 * limits.lease_seconds)
        assert x.tolist() == [1.0]
        x.device.backend.close()
        assert server.server.clients == 0


def test_a_request_that_takes_long_is_waited_for(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calor_http.server import app
    from calor_http.server.room import Room

    monkeypatch.setattr(app, "_BUSY_SECONDS", 0.02)
    monkeypatch.setenv("CALOR_HTTP_PATIENCE", "0.1")
    reads = []
    read = Room._read

    def slow(*given: Any) -> Any:
        time.sleep(0.5)
        reads.append(given)
        return read(*given)

    monkeypatch.setattr(Room, "_read", slow)
    x = calor.asarray([1.0], device=f"{server.address}/numpy")
    assert x.tolist() == [1.0]
    assert len(reads) == 1
    x.device.backend.close()


@pytest.mark.parametrize("compress", ["0", "1"])
def test_tls_and_tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compress: str) -> None:
    token = "a-token-with-many-letters"
    monkeypatch.setenv("CALOR_HTTP_CA", str(HERE / "loopback-cert.pem"))
    monkeypatch.setenv("CALOR_HTTP_TOKENS", str(tmp_path / "tokens"))
    monkeypatch.setenv("CALOR_HTTP_ZSTD", compress)
    monkeypatch.delenv("CALOR_HTTP_TOKEN", raising=False)
    files = str(HERE / "loopback-cert.pem"), str(HERE / "loopback-key.pem")
    with LocalServer("numpy", token=token, tls=files) as server:
        name = server.address.removeprefix("https://")
        (tmp_path / "tokens").write_text(f"elsewhere:1 no\n{name} {token}\n")
        (tmp_path / "tokens").chmod(0o644)
        with pytest.raises(DeviceError, match="others can read the tokens"):
            calor.device(f"{server.address}/numpy")
        (tmp_path / "tokens").chmod(0o600)
        zeros = np.zeros(CHUNK // 4)
        x = calor.asarray(zeros, device=f"{server.address}/numpy")
        np.testing.assert_array_equal((x + 1).numpy(), zeros + 1)
        x.device.backend.close()
