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


class _Report:
    """What an engine calls with its launches: it tells a listener of them as events."""

    __slots__ = ("_ceilings", "listener")

    def __init__(self, engine: Engine, listener: Listener) -> None:
        self._ceilings = engine.ceilings
        self.listener = listener

    def __call__(
        self, launches: Sequence[Launched], start: float, seconds: Sequence[float]
    ) -> None:
        ceilings = self._ceilings
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
        self.listener(events)


@contextmanager
def profiling(engine: Engine, listener: Listener) -> Iterator[None]:
    """Report each launch to a listener, once; ArgumentError if another one listens."""
    active = engine.profiler
    if active is not None:
        if not isinstance(active, _Report) or active.listener != listener:
            raise ArgumentError("profile: another profile of this device is active")
        # Two members of a router may be one device by two names.
        yield
        return
    engine.profiler = _Report(engine, listener)
    try:
        yield
    finally:
        engine.profiler = None
