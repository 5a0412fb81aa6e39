"""The events of profiles on devices that run kernels: each launch, and its distance from ceilings.

Requirements: without an active profile there is no cost. Times are the device's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from calor.backends.events import Event, Listener
from calor.errors import ArgumentError
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.values import Launched


@contextmanager
def profiling(engine: Engine, listener: Listener) -> Iterator[None]:
    """Report each launch to a listener; ArgumentError if another one listens."""
    if engine.profiler is not None:
        raise ArgumentError("profile: another profile of this device is active")
    ceilings = engine.ceilings

    def add(launches: Sequence[Launched], start: float, seconds: Sequence[float]) -> None:
        events = []
        for launched, took in zip(launches, seconds, strict=True):
            launch = launched.launch
            blueprint = launch.label or launch.build.function.name
            task = launched.source
            covers = (task and task.covers) or (launched.op,)
            parts = () if task is None else task.members or (task,)
            results = tuple(str(known) for part in parts for known in part.results)
            work = launch.nbytes, launch.flops, launch.cubes
            least = ceilings.timed + ceilings.seconds(launch.nbytes, launch.flops, 0)
            event = Event(launched.op, blueprint, start, took, *work, covers, results, least)
            events.append(event)
            start += took
        listener(events)

    engine.profiler = add
    try:
        yield
    finally:
        engine.profiler = None
