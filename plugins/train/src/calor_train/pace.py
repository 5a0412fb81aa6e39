"""How fast training goes, and how long it will still take."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

# Throughput is measured over this many seconds, so that it follows what happens now.
WINDOW: Final = 5.0


class Pace:
    """Measures throughput and estimates the time left from batches done and evaluations done.

    The first batch after ``start`` is not timed: it contains tracing and compiling.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.start()

    def start(self) -> None:
        """Begin a run."""
        self.started = self.clock()
        self._recent: deque[tuple[float, int]] = deque()
        self._samples = 0
        self._seconds = 0.0
        self._timed = 0
        self._batches = 0
        self._last: float | None = None
        self._evaluation_started = 0.0
        self.evaluation_seconds = 0.0

    def resume(self) -> None:
        """Go on after a time that does not count, such as an evaluation."""
        self._last = self.clock()
        self._recent.clear()
        self._recent.append((self._last, self._samples))

    def batch(self, samples: int) -> None:
        """Count a batch of so many samples."""
        now = self.clock()
        self._samples += samples
        self._batches += 1
        if self._last is not None and self._batches > 1:
            self._seconds += now - self._last
            self._timed += 1
        self._last = now
        if self._batches == 1:
            self._recent.clear()
        self._recent.append((now, self._samples))
        while len(self._recent) > 2 and now - self._recent[0][0] > WINDOW:
            self._recent.popleft()

    def evaluation_began(self) -> None:
        """Note the begin of an evaluation."""
        self._evaluation_started = self.clock()

    def evaluation_ended(self) -> None:
        """Note the end of an evaluation; its length is expected of the next ones."""
        self.evaluation_seconds = self.clock() - self._evaluation_started

    @property
    def samples_per_second(self) -> float:
        """Samples per second lately; NaN before two batches were done."""
        if len(self._recent) < 2:
            return math.nan
        (first, before), (last, after) = self._recent[0], self._recent[-1]
        return (after - before) / (last - first) if last > first else math.nan

    def left(self, batches: int | None, evaluations: int) -> float:
        """Return the seconds that so many batches and evaluations will take; NaN when unknown."""
        if batches is None or not self._timed:
            return math.nan
        return batches * self._seconds / self._timed + evaluations * self.evaluation_seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started


def duration(seconds: float) -> str:
    """Return a duration as text.

    >>> from calor_train.pace import duration
    >>> duration(0.0125), duration(7.25), duration(67), duration(3725), duration(float("nan"))
    ('12 ms', '7.2 s', '1:07', '1:02:05', '?')
    """
    if not math.isfinite(seconds):
        return "?"
    if seconds < 0.1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours}:{minutes:02}:{whole % 60:02}"
    return f"{minutes}:{whole % 60:02}"
