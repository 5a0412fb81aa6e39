"""Loops of the device: one graph with a conditional node, on the imitated driver."""

from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import ElementIndexError
from calor_cuda.loops import NAME, SOURCE
from calor_kernel.contract.cost import Ceilings
from calor_kernel.runtime.backend import KernelBackend


@pytest.fixture
def device(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    from calor_cuda.device import CudaDevice

    made = CudaDevice(0)
    return device_of(KernelBackend("loops", lambda index: made), 0)


def halved(x: Any) -> Any:
    return calor.while_loop(lambda c: c[0].sum() > 1, lambda c: (c[0] * 0.5, c[1] + 1), (x, x[0]))


def exchanged(x: Any) -> Any:
    """Carries change places, and one stays."""

    def step(c: Any) -> Any:
        return c[1], c[0] + 1, c[2], c[3] + 1

    zero = calor.asarray(0)
    return calor.while_loop(lambda c: c[3] < 5, step, (x, x * 2, x * 3, zero))


def searched(x: Any, end: Any) -> Any:
    """Count up to the first element that is zero, which is found by an index."""

    def more(i: Any) -> Any:
        return calor.take(x, i, axis=0) != end

    return calor.while_loop(more, lambda i: i + 1, calor.asarray(0))


def counted(x: Any, upper: Any) -> Any:
    return calor.fori_loop(0, upper, lambda i, c: c * 0.5 + i, x)


X = np.array([4.0, 3.0, 8.0, 1.0], np.float32)


def result(device: Any, function: Any, *arrays: Any) -> Any:
    with calor.device(device):
        made = calor.jit(function)(*map(calor.asarray, arrays))
    found = made if isinstance(made, tuple) else (made,)
    return [t.numpy().tolist() for t in found]


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (halved, [X]),
        (halved, [X * 0]),
        (exchanged, [X]),
        (searched, [X, np.float32(8)]),
        (searched, [X, np.float32(4)]),
        (counted, [X, np.int64(7)]),
        (counted, [X, np.int64(0)]),
    ],
)
def test_a_loop_is_one_launch_of_the_host(
    fake: Any, device: Any, function: Any, arrays: Any
) -> None:
    want = result(calor.device("numpy"), function, *arrays)
    assert result(device, function, *arrays) == want
    assert fake.calls.count("cuGraphAddNode") == 1
    assert fake.conditions == {6000: 0}


def test_graphs_are_kept_for_the_same_buffers(fake: Any, device: Any) -> None:
    with calor.device(device):
        loop, x = calor.jit(halved), calor.asarray(X)
        for _ in range(4):
            assert loop(x)[0].numpy().sum() == 1.0
    assert 1 <= fake.calls.count("cuGraphAddNode") <= 2


def test_a_cache_is_written_in_place_and_weights_are_prepared_once(fake: Any, device: Any) -> None:
    rng = np.random.default_rng(0)
    cache = rng.integers(-4, 4, (6, 64)).astype(np.float32)
    weights = [rng.integers(-2, 2, (64, 64)).astype(np.float32) for _ in range(2)]

    def write(cache: Any, w: Any) -> Any:
        def step(state: Any) -> Any:
            i, held = state
            row = calor.dynamic_slice(held, (i, i * 0), (1, 64)) @ w
            return i + 1, calor.dynamic_update_slice(held, calor.sign(row), (i + 1, i * 0))

        return calor.while_loop(lambda s: s[0] < 5, step, (calor.asarray(0), cache))[1]

    with calor.device(device):
        loop = calor.jit(write)
        x, (a, b) = calor.asarray(cache), map(calor.asarray, weights)
        for number, w in enumerate((a, a, a, a, b, b, b, a)):
            want = cache.copy()
            for i in range(5):
                want[i + 1] = np.sign(want[i] @ weights[w is b])
            assert loop(x, w).numpy().tolist() == want.tolist(), number
        assert x.numpy().tolist() == cache.tolist()


def test_a_failed_operation_ends_the_loop(fake: Any, device: Any) -> None:
    with calor.device(device):
        search, x = calor.jit(searched), calor.asarray(X)
        missing, there = calor.asarray(np.float32(9)), calor.asarray(np.float32(1))
        found = search(x, missing)
        with pytest.raises(ElementIndexError):
            found.numpy()
        # The words are clean for the next run.
        assert search(x, there).item() == 3
        # A failed value is read before a loop that might not end with it.
        bad = calor.take(x, calor.asarray(9), axis=0)
        with pytest.raises(ElementIndexError):
            search(x, bad)


def test_the_host_runs_what_is_profiled(fake: Any, device: Any) -> None:
    import calor_kernel

    # They are measured by kernels that take minutes on the imitated driver.
    device.backend.engine(0).ceilings = Ceilings(1e18, 1e18, 1e-18)
    with calor.device(device):
        loop, x = calor.jit(halved), calor.asarray(X)
        loop(x)
        conditions = list(fake.conditions)
        with calor_kernel.profile(device) as profile:
            assert loop(x)[0].numpy().sum() == 1.0
    assert len(profile.events) >= 9
    assert list(fake.conditions) == conditions


def test_other_drivers_have_no_loops(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from calor_cuda.device import CudaDevice

    monkeypatch.setattr(fake.runtime, "driverGetVersion", lambda: 12030)
    assert not CudaDevice(0).queue.loops
    monkeypatch.setattr(fake.runtime, "driverGetVersion", lambda: 12040)
    assert CudaDevice(0).queue.loops
    monkeypatch.setenv("CALOR_CUDA_LOOPS", "0")
    assert not CudaDevice(0).queue.loops


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100a"])
def test_the_kernel_that_sets_a_condition_compiles(compiler: Any, architecture: str) -> None:
    from calor_cuda.toolchain import CudaToolchain

    assert NAME.encode() in CudaToolchain(architecture).compile(SOURCE, NAME)


def test_steps_of_a_counted_loop_are_queued_together(fake: Any, device: Any) -> None:
    """Rows of 8 bytes are spread, and an index out of range is reported when a result is read."""

    def walk(table: Any, start: Any) -> Any:
        step = lambda i, at: calor.take(table, at, axis=0) + i  # noqa: E731
        return calor.fori_loop(0, 6, step, start)

    table = np.array([3, 4, 1, 0, 2, 5, 1, 2, 0, 3, 1, 2])
    at = 0
    for i in range(6):
        at = int(table[at]) + i
    with calor.device(device):
        loop, given = calor.jit(walk), calor.asarray(table)
        for _ in range(4):
            found = loop(given, calor.asarray(0))
            failed = loop(given, calor.asarray(40))
            assert found.item() == at
            with pytest.raises(ElementIndexError):
                failed.item()
    (scan,) = (f for _, _, f in loop.programs[0].executable.stages if hasattr(f, "steps"))
    assert scan.steps is not None
