"""How long each part of a run took, printed when the process ends, whether or not all passed."""

from __future__ import annotations

import atexit
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Argument = TypeVar("Argument")


class PartTimes:
    """Seconds of the functions that are the parts of a run."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._start = clock()
        self._rows: dict[str, tuple[float, str]] = {}

    def of(self, function: Callable[[Argument], None]) -> Callable[[Argument], None]:
        """Return the function, whose time is noted under its name; also where it raises."""

        @functools.wraps(function)
        def timed(argument: Argument) -> None:
            with self.part(function.__name__):
                function(argument)

        return timed

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Note the time of the block under a name; also where it raises."""
        start, note = self._clock(), "did not pass"
        try:
            yield
            note = ""
        finally:
            self._rows[name] = self._clock() - start, note

    def table(self, names: Iterable[str]) -> str:
        """Return a line for each part, in order, and one for the whole run so far."""
        lines = ["How long each part took:"]
        for name in names:
            seconds, note = self._rows.get(name, (0.0, "was not run"))
            lines.append(f"{name:12} {minutes(seconds)}  {note}".rstrip())
        return "\n".join([*lines, f"{'in all':12} {minutes(self._clock() - self._start)}"])

    def print_at_exit(self, names: Iterable[str]) -> None:
        """Print the table when the process ends, which is after the lines that say what passed."""
        atexit.register(lambda: print(self.table(names), flush=True))


def minutes(seconds: float) -> str:
    """Return a time as minutes and seconds, in columns."""
    whole = round(seconds)
    return f"{whole // 60:4} min {whole % 60:2} s"
