"""Times of repeated work: on the host, and on a GPU inside CUDA graphs.

A runner does some pieces of work in one run, and gives the seconds of several runs. Runners take
turns, and the least of each one's samples counts: what disturbs the machine makes samples longer.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter, process_time
from typing import Any, Protocol

from harness.timing import one_processor, rest

# Seconds of a sample, and how many samples are taken within a budget.
_SAMPLE, _LEAST, _MOST = 4e-3, 3, 11


class Runner(Protocol):
    """Work that is done again and again; ``units``: the pieces of work in a run."""

    units: int
    on_host: bool
    # Frees what the runner holds of a device.
    close: Callable[[], Any]

    def seconds(self, runs: int) -> float:
        """Return the seconds of some runs."""


class HostRunner:
    """Calls in turn, timed by the host's clock until ``wait`` returns.

    ``computing``: the calls compute on the host. On one processor that is all this process does,
    so its processor time counts, which other processes do not disturb.
    """

    on_host = True

    def __init__(
        self,
        calls: Sequence[Callable[[], Any]],
        wait: Callable[[], Any],
        pieces: int = 1,
        *,
        computing: bool = False,
    ) -> None:
        self.calls, self.wait, self.close = calls, wait, wait
        self.clock = process_time if computing and one_processor() else perf_counter
        self.units = len(calls) * pieces

    def seconds(self, runs: int) -> float:
        """Return the seconds of some runs, each of all calls."""
        calls, clock = self.calls, self.clock
        begin = clock()
        for _ in range(runs):
            for call in calls:
                call()
        self.wait()
        return clock() - begin


class GraphRunner:
    """A CUDA graph that is replayed, timed by events of its stream."""

    on_host = False

    def __init__(
        self, replay: Callable[[], Any], events: "Events", units: int, close: Callable[[], Any]
    ) -> None:
        self.replay, self.events, self.units, self.close = replay, events, units, close

    def seconds(self, runs: int) -> float:
        """Return the device's seconds of some replays."""
        return self.events.between(self.replay, runs)


class Events(Protocol):
    """Events of a stream."""

    def between(self, replay: Callable[[], Any], runs: int) -> float:
        """Return the seconds of some replays, after one that is not counted."""


class RuntimeEvents:
    """Events of a CUDA stream, by the functions of the runtime that CuPy has."""

    def __init__(self, runtime: Any, stream: int) -> None:
        self.runtime, self.stream = runtime, stream
        self.pair = runtime.eventCreate(), runtime.eventCreate()

    def between(self, replay: Callable[[], Any], runs: int) -> float:
        """Return the seconds of some replays, after one that is not counted."""
        runtime, stream, (first, last) = self.runtime, self.stream, self.pair
        replay()
        runtime.eventRecord(first, stream)
        for _ in range(runs):
            replay()
        runtime.eventRecord(last, stream)
        runtime.eventSynchronize(last)
        return float(runtime.eventElapsedTime(first, last)) * 1e-3


class TorchEvents:
    """Events of torch's stream."""

    def __init__(self, torch: Any) -> None:
        self.cuda = torch.cuda

    def between(self, replay: Callable[[], Any], runs: int) -> float:
        """Return the seconds of some replays, after one that is not counted."""
        first, last = (self.cuda.Event(enable_timing=True) for _ in range(2))
        replay()
        first.record()
        for _ in range(runs):
            replay()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e-3


def least(runners: Mapping[str, Runner], budget: float) -> dict[str, float]:
    """Return the least seconds of a piece of each runner's work, within a budget of seconds.

    Every runner is sampled three times at least, whatever that takes.
    """
    runs = {name: _runs(runner) for name, runner in runners.items()}
    found: dict[str, list[float]] = {name: [] for name in runners}
    order, begin = list(runners), perf_counter()
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(_MOST):
            if number >= _LEAST and perf_counter() - begin > budget:
                break
            for name in order:
                runner = runners[name]
                if runner.on_host:
                    rest()
                found[name].append(runner.seconds(runs[name]) / runs[name] / runner.units)
            order.append(order.pop(0))
    finally:
        if collecting:
            gc.enable()
    return {name: min(values) for name, values in found.items()}


def _runs(runner: Runner) -> int:
    """Return the runs of a sample, after as many as it takes to find out."""
    runs = 1
    while (took := runner.seconds(runs)) < _SAMPLE / 2 and runs < 1 << 20:
        runs *= max(2, min(64, int(_SAMPLE / 2 / max(took, 1e-9))))
    return max(1, round(runs * min(1.0, _SAMPLE / took)))
