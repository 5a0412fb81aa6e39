"""Time several functions so that what disturbs the machine disturbs all of them alike.

Samples are interleaved, the order rotates from round to round, and the median is taken: a
frequency change, a noisy neighbour or a warm cache then favours nobody. A sample begins when the
threads of all libraries sleep: those of an OpenMP runtime look for work for some 10 milliseconds
after the last call, and would take half of a processor from whoever is timed next.
"""

import gc
import statistics
from collections.abc import Callable, Mapping
from itertools import repeat
from time import perf_counter_ns, process_time, sleep
from typing import Any

SAMPLE_NS = 5_000_000
# Long enough that the system counts what other threads spent, which it does some times in 10 ms.
REST_S, RESTS = 0.01, 10


def sample_ns(call: Callable[[], Any], inner: int) -> int:
    """Nanoseconds for `inner` calls."""
    times = repeat(None, inner)
    start = perf_counter_ns()
    for _ in times:
        call()
    return perf_counter_ns() - start


def choose_inner(call: Callable[[], Any], sample: int = SAMPLE_NS) -> int:
    """How many calls make a sample of about `sample` nanoseconds: a power of two.

    The shorter of two samples counts, for in one of them something may have been made ready.
    """
    inner = 1
    while min(sample_ns(call, inner) for _ in range(2)) < sample and inner < 1 << 24:
        inner *= 2
    return inner


def rest() -> None:
    """Wait until the process's threads have stopped looking for work, 0.1 seconds at most."""
    for _ in range(RESTS):
        spent = process_time()
        sleep(REST_S)
        if process_time() - spent < 0.1 * REST_S:
            return


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    inner: int | None = None,
    *,
    awake: bool = False,
) -> dict[str, float]:
    """The median time in seconds of one call of each function.

    ``awake``: a sample follows at once on a call that is not timed.
    """
    counts = {name: inner or choose_inner(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    collecting = gc.isenabled()
    try:
        for _ in range(repeats):
            gc.collect()
            gc.disable()
            for name in order:
                rest()
                if awake:
                    calls[name]()
                samples[name].append(sample_ns(calls[name], counts[name]) / counts[name])
            if collecting:
                gc.enable()
            order.append(order.pop(0))
    finally:
        if collecting:
            gc.enable()
    return {name: statistics.median(values) * 1e-9 for name, values in samples.items()}
