"""Tensors recorded in one thread and used in another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import calor

# The strict device compares memory before and after each call, so it is for one thread at a time.
DEVICE = "numpy"


@pytest.fixture(autouse=True)
def shared_device() -> Iterator[None]:
    with calor.device(DEVICE):
        yield


def run(function: Callable[[], Any]) -> Any:
    """Return what the function returns in another thread, on the tests' device."""

    def on_device() -> Any:
        with calor.device(DEVICE):
            return function()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(on_device).result(timeout=60)


def test_a_pending_tensor_is_looked_at_elsewhere() -> None:
    x = calor.asarray([1.0, 2.0]) * 3
    assert run(lambda: x.tolist()) == [3.0, 6.0]
    assert (x + 1).tolist() == [4.0, 7.0]


def test_a_pending_tensor_is_used_elsewhere() -> None:
    x = calor.asarray([1.0, 2.0]) * 3
    y = run(lambda: x + 10)
    assert y.tolist() == [13.0, 16.0]
    z = run(lambda: (y * x).sum())
    assert z.item() == 13 * 3 + 16 * 6


def test_the_owner_may_record_meanwhile() -> None:
    total = calor.zeros(())
    seen: list[Any] = []
    stop = threading.Event()

    def watch() -> None:
        with calor.device(DEVICE):
            while not stop.is_set():
                seen.append(total.item())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(2000):
            total += 1
        assert total.item() == 2000.0
    finally:
        stop.set()
        watcher.join()
    assert seen == sorted(seen)
    assert len(seen) > 0


def test_threads_have_their_own_traces_and_settings() -> None:
    with calor.no_grad():
        assert run(lambda: (calor.ones(1, requires_grad=True) * 2).requires_grad)
    x = calor.ones(2) * 5
    assert run(lambda: (calor.ones(2) * 7).tolist()) == [7.0, 7.0]
    assert x.tolist() == [5.0, 5.0]


def test_gradients_across_threads() -> None:
    x: Any = calor.asarray([2.0], requires_grad=True)
    y = x * x
    run(lambda: y.sum().backward())
    assert x.grad.tolist() == [4.0]


def test_jit_in_several_threads() -> None:
    w = calor.asarray(np.arange(4.0))
    f = calor.jit(lambda x: (x * w).sum())
    f(calor.ones(4, dtype=calor.float64))

    def work(n: int) -> list[float]:
        with calor.device(DEVICE):
            return [f(calor.full(4, float(n + i), dtype=calor.float64)).item() for i in range(20)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert results == [[6.0 * (n + i) for i in range(20)] for n in range(4)]


def test_many_threads_share_one_pending_tensor() -> None:
    x = calor.asarray(np.arange(1000.0)) + 1
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: float(x.numpy()[5]), range(8)))
    assert made == [6.0] * 8
