"""Time several functions so that what disturbs the machine disturbs all of them alike.

Samples are interleaved, the order rotates from round to round, and the median is taken: a
frequency change, a noisy neighbour or a warm cache then favours nobody. A sample begins when the
threads of all libraries sleep: those of an OpenMP runtime look for work for some 10 milliseconds
after the last call, and would take half of a processor from whoever is timed next.
"""

import gc
import os
import statistics
from collections.abc import Callable, Mapping
from itertools import repeat
from time import perf_counter_ns, process_time, process_time_ns, sleep
from typing import Any

SAMPLE_NS = 5_000_000
# Long enough that the system counts what other threads spent, which it does some times in 10 ms.
REST_S, RESTS = 0.01, 10


def one_processor() -> bool:
    """Whether this process may use one processor only.

    The time of a computation is then the process's own, which other processes lengthen less.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) == 1
    return os.cpu_count() == 1


def sample_ns(
    call: Callable[[], Any], inner: int, clock: Callable[[], int] = perf_counter_ns
) -> int:
    """Nanoseconds for `inner` calls."""
    times = repeat(None, inner)
    start = clock()
    for _ in times:
        call()
    return clock() - start


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
    computing: bool = False,
) -> dict[str, float]:
    """The median time in seconds of one call of each function.

    ``awake``: a sample follows at once on a call that is not timed. ``computing``: the processor
    does all that is timed, so the process's own time counts if it has one processor.
    """
    clock = process_time_ns if computing and one_processor() else perf_counter_ns
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
                taken = sample_ns(calls[name], counts[name], clock)
                samples[name].append(taken / counts[name])
            if collecting:
                gc.enable()
            order.append(order.pop(0))
    finally:
        if collecting:
            gc.enable()
    return {name: statistics.median(values) * 1e-9 for name, values in samples.items()}
