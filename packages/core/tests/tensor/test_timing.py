"""timeit times the computation."""

import time

import pytest

import calor
from calor.errors import ArgumentError
from calor.local import local, nowhere
from calor.timing import Timing, timeit


def test_execution_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Devices that other tests used in this thread are waited for too.
    monkeypatch.setattr(local, "traces", {})
    monkeypatch.setattr(local, "trace", nowhere)
    x = calor.ones(3)
    backend = x.device.backend
    finished = []
    monkeypatch.setattr(
        backend, "synchronize", lambda index: time.sleep(0.01) or finished.append(1)
    )
    results = []

    def function(t: calor.Tensor, *, by: float) -> dict[str, calor.Tensor]:
        result = {"y": t * by}
        results.append(result["y"])
        return result

    timing = timeit(function, x, by=2.0, repeat=3, warmup=1)
    assert len(timing.seconds) == 3
    assert len(results) == 4
    assert len(finished) == 5
    assert all(y._value.buffer is not None for y in results)
    assert timing.min >= 0.01
    assert timing.min <= timing.median <= max(timing.seconds)


def test_state_that_is_not_returned_is_computed() -> None:
    state = [calor.ones(3)]

    def step() -> None:
        state[0] = state[0] + 1

    timeit(step, repeat=2, warmup=0)
    assert state[0]._value.buffer is not None
    assert state[0].tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ((2.0,), "median 2 s, min 2 s (1 run)"),
        ((0.0015, 0.002, 0.5), "median 2 ms, min 1.5 ms (3 runs)"),
        ((1.2e-5, 5e-8), "median 6.03 µs, min 50 ns (2 runs)"),
    ],
)
def test_repr(seconds: tuple[float, ...], text: str) -> None:
    assert repr(Timing(seconds)) == text


def test_no_runs() -> None:
    with pytest.raises(ArgumentError, match="repeat must be at least 1"):
        timeit(lambda: None, repeat=0)
