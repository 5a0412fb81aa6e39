"""Remote devices: results, state, errors with the user's line, memory, and what is sent."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.config import config
from calor.errors import (
    ArgumentError,
    DeviceError,
    ElementIndexError,
    OutOfMemoryError,
    UnsupportedError,
)
from calor.graph.graph import Builder
from calor.ops import elementwise
from calor.specs import spec
from calor_http.frames import CHUNK
from calor_http.server.limits import Limits
from calor_http.server.local import LocalServer

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer("numpy", "strict:numpy") as server:
        yield server


@pytest.fixture(params=["numpy", "strict:numpy"])
def device(server: LocalServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    with calor.device(f"{server.address}/{request.param}") as found:
        yield found


def losses(turns: int) -> list[float]:
    """Train a small network and return its losses."""
    calor.random.seed(3)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    @calor.jit
    def step(model: Any, x: Any) -> Any:
        loss = ((model(x) - x.sum(axis=1, keepdims=True)) ** 2).mean()
        loss.backward()
        with calor.no_grad():
            for p in model.parameters():
                p -= 0.05 * p.grad
                p.grad = None
        return loss

    rng = np.random.default_rng(5)
    data = [calor.asarray(rng.standard_normal((16, 3)).astype(np.float32)) for _ in range(4)]
    return [step(model, data[i % 4]).item() for i in range(turns)]


def test_a_network_learns_as_it_does_here(device: Any) -> None:
    there = losses(12)
    with calor.device("numpy"):
        here = losses(12)
    assert there == here
    assert there[-1] < there[0]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 5)])
def test_values_come_back_as_they_went(device: Any, dtype: str, shape: tuple[int, ...]) -> None:
    given = (
        np.random.default_rng(1).integers(0, 2, shape).astype(calor.dtypes.as_dtype(dtype).numpy)
    )
    x = calor.asarray(given)
    assert x.device is device
    assert x.numpy().dtype == given.dtype
    np.testing.assert_array_equal(x.numpy(), given)


def test_large_values_travel_in_pieces(device: Any) -> None:
    given = np.random.default_rng(2).standard_normal(CHUNK // 4 + 7)
    x = calor.asarray(given)
    assert given.nbytes > CHUNK
    np.testing.assert_array_equal(x.numpy(), given)
    # A graph with a large constant goes the same way.
    made = calor.jit(lambda y: y + given)(x)
    np.testing.assert_array_equal(made.numpy(), given + given)


def test_loops_and_branches_run_there(device: Any) -> None:
    @calor.jit
    def program(x: Any) -> Any:
        total = calor.fori_loop(0, 5, lambda i, t: t * 2 + i, x)
        return calor.cond(total.sum() > 0, lambda t: t, lambda t: -t, total)

    assert program(calor.asarray([1.0, -2.0])).tolist() == [58.0, -38.0]


def test_state_is_written_in_place(device: Any) -> None:
    weights = calor.zeros(4)

    @calor.jit
    def add(x: Any) -> Any:
        weights[1:3] += x
        return weights.sum()

    before = add(calor.ones(2)), weights._value.buffer.number
    after = add(calor.ones(2)), weights._value.buffer.number
    assert [before[0].item(), after[0].item()] == [2.0, 4.0]
    assert before[1] == after[1]
    assert weights.tolist() == [0.0, 2.0, 2.0, 0.0]


def test_an_error_names_the_users_line(device: Any) -> None:
    x = calor.arange(3)
    made = x[calor.asarray(7)] + 1
    with pytest.raises(ElementIndexError, match=r"index 7 .* size 3.*test_remote_devices\.py:\d+"):
        made.item()
    assert x.tolist() == [0, 1, 2]


def test_what_depends_on_no_failed_operand_is_computed(device: Any) -> None:
    numbers = np.arange(3, dtype=np.float32)
    x, there = calor.asarray(numbers), calor.asarray([0, 5])
    # The call does not wait, so its result is an operand like any other.
    lost = calor.jit(lambda x, there: x[there])(x, there)
    fine, after, also = x + 1, lost.sum(), x * 3
    beside = x[there + 4]
    with pytest.raises(ElementIndexError, match="index 5 .* size 3"):
        after.item()
    assert fine.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ElementIndexError, match="index 9 .* size 3"):
        beside.numpy()
    assert also.tolist() == [0.0, 3.0, 6.0]
    for failed in (lost, after):
        with pytest.raises(ElementIndexError, match="index 5 .* size 3"):
            failed.numpy()
    calor.synchronize(device)


def test_a_number_that_was_moved_there_may_be_of_a_weak_dtype(device: Any) -> None:
    backend, index, known = device.backend, device.index, spec((), calor.int64, weak=True)
    builder = Builder()
    (made,) = builder.add(elementwise.neg, (builder.input(known),), {}, [known])
    run = backend.compile(index, builder.build([made]))
    (found,) = run([backend.upload(index, np.array(3))])
    assert backend.download(index, found, known) == -3


def test_an_operand_that_failed_fails_a_result_that_is_it(device: Any) -> None:
    x = calor.asarray(np.arange(3, dtype=np.float32))
    lost = calor.jit(lambda x: x[calor.asarray([7])])(x)
    both = calor.jit(lambda x, lost: (lost, x - 1, lost * 2))
    same, fine, twice = both(x, lost)
    assert fine.tolist() == [-1.0, 0.0, 1.0]
    for failed in (same, twice):
        with pytest.raises(ElementIndexError, match="index 7 .* size 3"):
            failed.numpy()
    calor.synchronize(device)


def test_a_failed_step_leaves_state_alone(device: Any) -> None:
    state = calor.zeros(3)

    @calor.jit
    def step(index: Any) -> Any:
        state[...] = state + calor.arange(3)[index]
        return state.sum()

    assert step(calor.asarray(1)).item() == 3.0
    step(calor.asarray(9))
    step(calor.asarray(1))
    # Who looks first is told; then the state can be used, as it was before the failure.
    with pytest.raises(ElementIndexError, match="index 9"):
        state.numpy()
    assert state.tolist() == [1.0, 1.0, 1.0]
    assert step(calor.asarray(2)).item() == 9.0


def test_synchronize_tells_what_nobody_saw(device: Any) -> None:
    calor.eval(calor.arange(3)[calor.asarray(5)])
    with pytest.raises(ElementIndexError, match="index 5"):
        calor.synchronize(device)
    calor.synchronize(device)


def test_memory_is_counted_and_freed_in_batches(device: Any) -> None:
    gc.collect()
    before = device.memory.in_use
    held = [calor.asarray(np.zeros(100)) for _ in range(20)]
    assert device.memory.in_use - before == 20 * 800
    assert device.memory.peak >= device.memory.in_use
    del held
    assert device.memory.in_use == before


def test_a_limit_is_kept(device: Any) -> None:
    x = calor.asarray(np.ones(1000))
    calor.set_memory_limit(device.memory.in_use + 100, device)
    with pytest.raises(OutOfMemoryError, match="set_memory_limit"):
        calor.asarray(np.ones(1000))
    with pytest.raises(OutOfMemoryError, match="set_memory_limit"):
        (x + 1).numpy()
    calor.set_memory_limit(None, device)
    assert (x + 1).sum().item() == 2000


def test_functions_of_this_process_are_refused(device: Any) -> None:
    def double(x: Array) -> Array:
        return x * 2

    wanted = calor.ones(2)
    called = calor.jit(lambda x: calor.callback(double, wanted, x) + 1)
    with pytest.raises(UnsupportedError, match="function of this process"):
        called(calor.ones(2)).numpy()


def test_values_move_between_devices_of_a_server(server: LocalServer) -> None:
    x = calor.asarray([1.0, 2.0], device=f"{server.address}/numpy")
    moved = x.to(f"{server.address}/strict:numpy").to("numpy")
    assert moved.tolist() == [1.0, 2.0]


def test_a_description_says_where_a_device_is_and_what_lends_it(device: Any) -> None:
    told = device.info.description
    assert told.endswith(f", by calor {calor.__version__} at {device.name}")
    assert told.startswith(calor.device("numpy").info.description)


def test_a_graph_is_sent_once(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    with calor.device(f"{server.address}/numpy") as found:
        requests = found.backend.requests
        queue = requests.queue

        def watched(command: Any, era: int) -> None:
            sent.append(command.message)
            queue(command, era)

        monkeypatch.setattr(requests, "queue", watched)
        f = calor.jit(lambda x: calor.sinh(x) * 3)
        x = calor.asarray([1.0])
        for _ in range(10):
            y = f(x)
        calor.jit(lambda x: calor.sinh(x) * 3)(x)
        y.item()
    kinds = [message[0] for message in sent]
    assert kinds.count("graph") == 1
    assert kinds.count("run") == 11


ADDRESSES = {
    "http": r"write http://…",
    "http://": "no address|write a server as",
    "http://user:secret@127.0.0.1:1/numpy": "no part of the address",
    "http://127.0.0.1:1/numpy?x=1": "write a server as",
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(DeviceError, match=ADDRESSES[text]) as caught:
        calor.device(text)
    assert "secret" not in str(caught.value)


def test_a_device_that_the_server_lacks(server: LocalServer) -> None:
    with pytest.raises(DeviceError, match=r"no device 'cuda:3'; it has numpy:0, strict:numpy:0"):
        calor.device(f"{server.address}/cuda:3")


def test_the_command_serves(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-of-many-letters")
    token.chmod(0o600)
    options = ["--devices", "numpy", "--port", "0", "--token-file", str(token)]
    command = [sys.executable, "-m", "calor_http", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        address = serving.stdout.readline().split()[-1]
        program = (
            "import sys, calor\nprint(calor.ones(3, device=sys.argv[1] + '/numpy').sum().item())\n"
        )

        def client(**env: str) -> subprocess.CompletedProcess[str]:
            given = {**os.environ, **env}
            return subprocess.run(
                [sys.executable, "-c", program, address],
                env=given, capture_output=True, text=True, check=False,
            )  # fmt: skip

        known = client(CALOR_HTTP_TOKEN="a-token-of-many-letters")
        other = client(CALOR_HTTP_TOKEN="another-token-of-letters")
        serving.send_signal(signal.SIGINT)
    assert known.stdout == "3.0\n", known.stderr
    assert "does not know the token; set CALOR_HTTP_TOKEN" in other.stderr


REFUSED = {
    "no way in": ([], "needs --token-file"),
    "open to all": (["--no-token", "--host", "0.0.0.0"], "for 127.0.0.1 only"),
    "both": (["--no-token", "--token-file", "x"], "not both"),
    "no such file": (["--token-file", "/nowhere/at/all"], "cannot be read"),
    "in plain sight": (["--token-file", "x", "--host", "0.0.0.0"], "reads the token"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_servers_that_are_not_started(name: str) -> None:
    from calor_http.server.serving import config_of, parser

    options, match = REFUSED[name]
    given = parser().parse_args(["serve", "--devices", "numpy", *options])
    with pytest.raises(ArgumentError, match=match):
        config_of(given)


@pytest.mark.skipif(find_spec("calor_cpu") is None, reason="calor-cpu is not installed")
@pytest.mark.parametrize("asked", ["router:cpu,numpy", "router:cpu:0,numpy", "numpy"])
def test_a_server_started_by_its_command_lends_a_router_of_several(asked: str) -> None:
    """Commas of a router's name are its own."""
    command = [sys.executable, "-m", "calor_http", "serve", "--no-token", "--port", "0"]
    names = ["--devices", "numpy,router:cpu,numpy"]
    with subprocess.Popen([*command, *names], stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().split()[-1]
            device = calor.device(f"{address}/{asked}")
            with device:
                x = calor.asarray([1.0, 2.0])
                assert calor.jit(lambda x: (x * x).sum())(x).item() == 5
            device.backend.close()
        finally:
            serving.terminate()


def test_debugging_names_the_line_of_any_error(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServer("numpy", limits=Limits(client_bytes=10_000)) as small:
        device = calor.device(f"{small.address}/numpy")
        x = calor.asarray(np.ones(100), device=device)
        monkeypatch.setattr(config, "debug", True)
        y = calor.broadcast_to(x, (100, 100)) + 1
        with pytest.raises(OutOfMemoryError, match=r"test_remote_devices\.py:\d+"):
            y.numpy()
        monkeypatch.setattr(config, "debug", False)
        z = calor.broadcast_to(x, (100, 100)) + 1
        with pytest.raises(OutOfMemoryError, match="lets a client hold 9.8 KiB"):
            z.numpy()
        assert x.sum().item() == 100
        device.backend.close()


def test_servers_hand_values_to_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalServer("numpy", token="token-of-the-first") as first:
        monkeypatch.setenv("CALOR_HTTP_TOKEN", "token-of-the-first")
        a = calor.device(f"{first.address}/numpy")
        with LocalServer("numpy", token="token-of-another", peers=[first.address]) as second:
            monkeypatch.setenv("CALOR_HTTP_TOKEN", "token-of-another")
            b = calor.device(f"{second.address}/numpy")

            def forbidden(*given: Any) -> Any:
                raise AssertionError("a value passes through the client")

            given = np.random.default_rng(3).standard_normal(CHUNK // 8 + 5)
            x = calor.asarray(given, device=a)
            flag = calor.asarray([True, False], device=a)
            with monkeypatch.context() as watching:
                watching.setattr(type(a.backend), "download", forbidden)
                moved, other = x.to(b), flag.to(b)
            assert moved.device is b
            np.testing.assert_array_equal((moved + 1).numpy(), given + 1)
            assert other.tolist() == [True, False]
            # The first server does not know the second as its peer, so the client carries.
            assert other.to(a).tolist() == [True, False]
            # Failed work is not handed over.
            lost = calor.take(x, calor.asarray([10**9], device=a), axis=0)
            with pytest.raises(ElementIndexError):
                lost.to(b).numpy()
            b.backend.close()
        a.backend.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_leaves_the_session_alone(server: LocalServer) -> None:
    program = (
        "import os, sys, calor\n"
        "from calor.errors import DeviceLostError\n"
        "x = calor.asarray([1.0, 2.0], device=sys.argv[1])\n"
        "x.numpy()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try:\n"
        "        (x + 1).numpy()\n"
        "    except DeviceLostError:\n"
        "        sys.exit(7)\n"
        "    sys.exit(1)\n"
        "_, status = os.waitpid(child, 0)\n"
        "print(os.waitstatus_to_exitcode(status), (x + 1).tolist())\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, f"{server.address}/numpy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "7 [2.0, 3.0]\n", done.stderr


def test_the_suite_passes_there(server: LocalServer) -> None:
    command = [sys.executable, "-m", "calor_conformance", "--device", f"{server.address}/numpy"]
    command += ["--tier", "basic", "--shard", "5/60", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # A shard is no verdict, but nothing in it may fail.
    assert "passed" in done.stdout, done.stderr
    assert not re.search(r"\d failed", done.stdout), done.stdout
