"""Profiles: the time of each launch, and its distance from the ceilings.

Requirements: without an active profile there is no cost. Times are the device's own. A table for
people and a trace for Chrome's viewer (https://ui.perfetto.dev) use the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from time import perf_counter
from typing import Any

from calor_kernel.contract.cost import Ceilings
from calor_kernel.planning.values import Launched
from calor_kernel.runtime.backend import engine_of
from calor_kernel.runtime.engine import Engine


@dataclass(frozen=True, slots=True)
class Event:
    """One launch. Times in seconds, ``start`` since the profile began, on the host's clock.

    ``covers``: the ops of the graph that its task computes. ``results``: their shapes and dtypes.
    """

    op: str
    blueprint: str
    start: float
    seconds: float
    nbytes: int
    flops: int
    cubes: tuple[int, int, int]
    covers: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    def share(self, ceilings: Ceilings) -> float:
        """Return the launch's minimum time divided by its measured time."""
        least = ceilings.seconds(self.nbytes, self.flops, 0)
        return least / self.seconds if self.seconds > 0 else 0.0


class Profile:
    """The launches of a device while it is active; made by :func:`profile`.

    >>> import calor, calor_kernel
    >>> with calor_kernel.profile("cpu") as p:  # doctest: +SKIP
    ...     calor.eval(calor.exp(calor.ones((1000, 1000), device="cpu")))
    >>> print(p.table())  # doctest: +SKIP
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.events: list[Event] = []
        self._begin = 0.0

    def __enter__(self) -> Profile:
        self.engine.device.queue.synchronize()
        self._begin = perf_counter()
        self.engine.profiler = self.add
        return self

    def __exit__(self, *error: object) -> None:
        self.engine.device.queue.synchronize()
        self.engine.profiler = None

    def add(self, launches: Sequence[Launched], start: float, seconds: Sequence[float]) -> None:
        """Record the times of one recorded list."""
        at = start - self._begin
        for launched, took in zip(launches, seconds, strict=True):
            launch = launched.launch
            blueprint = launch.label or launch.build.function.name
            work = launch.nbytes, launch.flops, launch.cubes
            task = launched.source
            covers = (task and task.covers) or (launched.op,)
            parts = () if task is None else task.members or (task,)
            results = tuple(str(known) for part in parts for known in part.results)
            self.events.append(Event(launched.op, blueprint, at, took, *work, covers, results))
            at += took

    @property
    def seconds(self) -> float:
        """The total time of all launches."""
        return sum(e.seconds for e in self.events)

    def table(self, rows: int = 40) -> str:
        """Return the launches aggregated by op and blueprint, the longest first."""
        ceilings = self.engine.ceilings
        groups: dict[tuple[str, str], list[Event]] = {}
        for event in self.events:
            groups.setdefault((event.op, event.blueprint), []).append(event)
        ordered = sorted(groups.items(), key=lambda item: -sum(e.seconds for e in item[1]))
        lines = [("op", "blueprint", "calls", "ms", "share", "GB/s", "GFLOP/s", "of ceiling")]
        for name, events in ordered[:rows]:
            took = sum(e.seconds for e in events) or 1e-12
            figures = (
                f"{len(events)}",
                f"{took * 1e3:.3f}",
                f"{took / (self.seconds or 1.0):.1%}",
                f"{sum(e.nbytes for e in events) / took / 1e9:.1f}",
                f"{sum(e.flops for e in events) / took / 1e9:.1f}",
                f"{sum(e.share(ceilings) * e.seconds for e in events) / took:.0%}",
            )
            lines.append((*name, *figures))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        made = []
        for line in lines:
            cells = [*map(str.ljust, line[:2], widths), *map(str.rjust, line[2:], widths[2:])]
            made.append("  ".join(cells).rstrip())
        return "\n".join([*made, f"{len(self.events)} launches, {self.seconds * 1e3:.3f} ms"])

    def chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the launches as a trace for Chrome and Perfetto."""
        ceilings = self.engine.ceilings
        events: list[dict[str, Any]] = []
        for e in self.events:
            share = round(e.share(ceilings), 3)
            figures = {"bytes": e.nbytes, "flops": e.flops, "cubes": e.cubes, "of ceiling": share}
            named = {"name": e.op, "cat": e.blueprint, "ph": "X", "pid": 0, "tid": 0}
            times = {"ts": e.start * 1e6, "dur": e.seconds * 1e6}
            events.append({**named, **times, "args": {"blueprint": e.blueprint, **figures}})
        name = self.engine.device.info.description
        events.insert(0, {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": name}})
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)


def profile(device: Any = None) -> Profile:
    """Return a context that records every launch on a device (the current one).

    UnsupportedError for a device that does not run kernels. While it is active, each call waits for
    each of its launches, so the total time is longer.
    """
    return Profile(engine_of(device, "they have no profile"))
