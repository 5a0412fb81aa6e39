"""Where a trace is cut that nobody looks at: few plans, also when loops are nested."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device
from calor.backends.null import NullBackend
from calor.config import config
from calor.local import local

NODES = 128


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A device that computes nothing, with traces of about 128 nodes."""
    monkeypatch.setattr(config, "trace_nodes", NODES)
    made = Device(NullBackend(), 0)
    with calor.device(made):
        yield made
    del local.traces[made]


def fresh() -> Any:
    return calor.asarray(np.zeros(3, np.float32))


@pytest.mark.parametrize("start", [fresh, lambda: calor.zeros(3)], ids=["asarray", "zeros"])
@pytest.mark.parametrize("turns", [1, 3, 10, 31, 61, 64, 66, 67, 111, 300, 997])
def test_a_chain_that_begins_again_makes_few_plans(device: Device, turns: int, start: Any) -> None:
    for _ in range(20_000 // turns):
        x = start()
        for _ in range(turns):
            x = x * 1.01 + 1.0
    assert device.plans_made <= 10


def test_an_evaluation_between_steps_makes_few_plans(device: Device) -> None:
    w = calor.asarray(np.zeros((4, 4), np.float32))
    best = fresh()[0]
    for step in range(1500):
        x = calor.asarray(np.ones((8, 4), np.float32))
        h = calor.tanh(x @ w)
        w = w - x.T @ (h * (1 - h * h)) * (0.01 / (1 + step))
        if step % 37 == 36:
            x = calor.asarray(np.ones((9, 4), np.float32))
            for _ in range(5):
                best = calor.maximum(best, calor.tanh(x @ w).mean())
    calor.eval(w, best)
    assert device.plans_made <= 6


def test_a_loop_over_many_weights_makes_few_plans(device: Device) -> None:
    weights = [fresh() for _ in range(12)]
    for _ in range(300):
        x = fresh()
        for i, w in enumerate(weights):
            x = calor.tanh(x * w)
            weights[i] = w - x * 0.1
    calor.eval(weights)
    assert device.plans_made <= 6


def test_sizes_of_traces_are_bounded(device: Device) -> None:
    x, y = fresh(), fresh()
    cuts: list[int] = []
    for turn in range(1000):
        if turn % 50 == 0:
            y = fresh()
        x = x + y
        if not local.traces[device].count:
            cuts.append(turn)
    sizes = [after - before for before, after in pairwise(cuts)]
    assert sizes
    assert min(sizes) >= NODES // 16
    assert sum(size < NODES // 2 for size in sizes) <= len(sizes) // 2
    assert max(sizes) <= 2 * NODES


def test_small_traces_are_not_cut(device: Device) -> None:
    for _ in range(NODES // 2 - 1):
        fresh() + 1.0
    assert device.plans_made == 0


def test_values_are_those_of_an_uncut_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def chain() -> Any:
        with calor.device("numpy"):
            results = []
            for turns in (7, 50, 3, 90, 64, 1, 200):
                x = calor.asarray(np.linspace(0, 1, 5))
                for i in range(turns):
                    x = calor.sin(x) + i * 0.1
                results.append(x)
            return [x.numpy() for x in results]

    expected = chain()
    monkeypatch.setattr(config, "trace_nodes", 16)
    calor.synchronize()
    for trace in local.traces.values():
        trace.reset()
    for ours, theirs in zip(chain(), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
