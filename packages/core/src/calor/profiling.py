"""Where the time and the memory of a program go: ``calor.profile``.

Requirements: without an active profile there is no cost. Times are the device's own. The table for
people, the trace for a viewer and the memory's course use the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self

from calor.backends.device import Device
from calor.backends.events import Event
from calor.device_selection import as_device, current_device
from calor.recording.trace import flush_all
from calor.units import bytes_text

_BAR = 40


class Sample(NamedTuple):
    """The bytes in use on the device at a time, in seconds since the profile began."""

    seconds: float
    in_use: int


class Profile:
    """What a device did while the profile was active; made by `profile`.

    Parameters
    ----------
    device : Device
        The device.

    Attributes
    ----------
    events : list of Event
        The launches, in order, with times since the profile began.
    memory : list of Sample
        The bytes in use: at first, after each piece of work, and at last.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.events: list[Event] = []
        self.memory: list[Sample] = []
        self._begin = 0.0
        self._within = ExitStack()

    def __enter__(self) -> Self:
        device = self.device
        flush_all(device)
        device.backend.synchronize(device.index)
        self._begin = perf_counter()
        self._within.enter_context(device.backend.profiling(device.index, self._add))
        self._sample()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                flush_all(self.device)
                self.device.backend.synchronize(self.device.index)
                self._sample()
        finally:
            self._within.close()

    def _add(self, events: Sequence[Event]) -> None:
        self.events += [replace(e, start=e.start - self._begin) for e in events]
        self._sample()

    def _sample(self) -> None:
        figures = self.device.backend.memory(self.device.index)
        self.memory.append(Sample(perf_counter() - self._begin, figures.in_use))

    @property
    def seconds(self) -> float:
        """The time of all launches together, in seconds."""
        return sum(e.seconds for e in self.events)

    @property
    def peak_bytes(self) -> int:
        """The most bytes that were in use at a sample."""
        return max((sample.in_use for sample in self.memory), default=0)

    def table(self, rows: int = 40) -> str:
        """Return the launches added up by op and blueprint, the longest first.

        Parameters
        ----------
        rows : int, optional
            The most rows. By default 40.

        Returns
        -------
        str
            A line for each: calls, milliseconds, share of the whole, GB/s, GFLOP/s, and the least
            time that the device's ceilings allow in percent of the time; below, the sums.
        """
        groups: dict[tuple[str, str], list[Event]] = {}
        for event in self.events:
            groups.setdefault((event.op, event.blueprint), []).append(event)
        ordered = sorted(groups.items(), key=lambda item: -sum(e.seconds for e in item[1]))
        lines = [("op", "blueprint", "calls", "ms", "share", "GB/s", "GFLOP/s", "of ceiling")]
        for name, events in ordered[:rows]:
            took = sum(e.seconds for e in events) or 1e-12
            least = sum(e.least for e in events)
            figures = (
                f"{len(events)}",
                f"{took * 1e3:.3f}",
                f"{took / (self.seconds or 1.0):.1%}",
                f"{sum(e.nbytes for e in events) / took / 1e9:.1f}",
                f"{sum(e.flops for e in events) / took / 1e9:.1f}",
                f"{least / took:.0%}" if least else "-",
            )
            lines.append((*name, *figures))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        made = []
        for line in lines:
            cells = [*map(str.ljust, line[:2], widths), *map(str.rjust, line[2:], widths[2:])]
            made.append("  ".join(cells).rstrip())
        total = f"{len(self.events)} launches, {self.seconds * 1e3:.3f} ms"
        return "\n".join([*made, f"{total}, at most {bytes_text(self.peak_bytes)} in use"])

    def memory_timeline(self, rows: int = 20) -> str:
        """Return the course of the memory in use.

        Parameters
        ----------
        rows : int, optional
            The most rows; each shows the most bytes of its span. By default 20.

        Returns
        -------
        str
            Lines of a time, the bytes in use and a bar.
        """
        per_row = max(1, -(-len(self.memory) // max(1, rows)))
        most = self.peak_bytes or 1
        lines = []
        for first in range(0, len(self.memory), per_row):
            sample = max(self.memory[first : first + per_row], key=lambda s: s.in_use)
            bar = "█" * round(sample.in_use / most * _BAR)
            text = f"{sample.seconds * 1e3:10.3f} ms  {bytes_text(sample.in_use):>10}  {bar}"
            lines.append(text.rstrip())
        return "\n".join(lines)

    def chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write launches and memory as a trace for Chrome's viewer or https://ui.perfetto.dev.

        Parameters
        ----------
        path : str or path
            The file, JSON.
        """
        description = self.device.info.description
        written: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": description}}
        ]
        for e in self.events:
            share = round(e.least / e.seconds, 3) if e.seconds > 0 else 0.0
            figures = {"bytes": e.nbytes, "flops": e.flops, "cubes": e.cubes, "of ceiling": share}
            named = {"name": e.op, "cat": e.blueprint or "op", "ph": "X", "pid": 0, "tid": 0}
            times = {"ts": e.start * 1e6, "dur": e.seconds * 1e6}
            known = {"blueprint": e.blueprint, "covers": e.covers, "results": e.results}
            written.append({**named, **times, "args": {**known, **figures}})
        for sample in self.memory:
            counter = {"name": "memory", "ph": "C", "pid": 0, "ts": sample.seconds * 1e6}
            written.append({**counter, "args": {"bytes in use": sample.in_use}})
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": written, "displayTimeUnit": "ms"}, file)


def profile(device: Device | str | None = None) -> Profile:
    """Return a context that records what a device does: each launch with its time, and the memory.

    While it is active each launch is waited for, so the program takes longer. One profile of a
    device is active at a time.

    Parameters
    ----------
    device : Device or str, optional
        The device. By default the current one.

    Returns
    -------
    Profile
        To be used with ``with``; ``table()``, ``memory_timeline()`` and ``chrome_trace(path)`` say
        what was recorded, also afterwards.

    Raises
    ------
    UnsupportedError
        If the device cannot tell times, when the context is entered.
    ArgumentError
        If another profile of the device is active, when the context is entered.

    Examples
    --------
    >>> import calor
    >>> x = calor.ones((64, 64))
    >>> with calor.profile() as p:
    ...     y = calor.softmax(x @ x)
    >>> len(p.events) > 0, p.peak_bytes >= y.nbytes
    (True, True)
    """
    return Profile(current_device() if device is None else as_device(device))
