"""The requests that wait for one model, joined and run one batch at a time.

Requirements: requests that agree in everything but the number of rows run together; one that fails
fails alone; who is alone does not wait for others; a run that is shorter than handing it to another
thread is done at once; a model's runs never overlap. While the worker runs it takes what waits, and
nobody else does.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from time import perf_counter
from typing import Any, Final, Protocol

import numpy as np

from calor_http.model.errors import Refused, refused
from calor_http.model.joining import Joining, drawn, joined, warmed
from calor_http.model.programs import Array, Served

_log = logging.getLogger("calor_http")
# A run that takes less is not handed to the worker.
_SHORT: Final = 4e-4
# Kinds of requests whose seconds are kept.
_KEPT: Final = 256
# What part of the crowd is still counted on after a batch that had fewer.
_FADING: Final = 0.9
Done = Callable[[Sequence[Array] | None, Refused | None], None]


class Sender(Protocol):
    """Who sent a request."""

    alive: bool


class Job:
    """A request that waits.

    Parameters
    ----------
    feed : mapping of str to array
        Its inputs.
    done : callable
        Called in the event loop with its outputs, or why there are none.
    sender : Sender
        Who waits for it.
    """

    __slots__ = ("arrived", "done", "feed", "kind", "rows", "sender")

    def __init__(self, feed: Mapping[str, Array], done: Done, sender: Sender) -> None:
        self.feed = feed
        self.done = done
        self.sender = sender
        self.arrived = perf_counter()
        self.kind, self.rows = kind_of(feed)


def kind_of(feed: Mapping[str, Array]) -> tuple[Any, int]:
    """Return what inputs must agree in to be joined, and their rows.

    Rows are 0 where there are none that could be joined; all sizes are the kind then.
    """
    sizes = {len(array) if array.ndim else 0 for array in feed.values()}
    rows = sizes.pop() if len(sizes) == 1 else 0
    return tuple(array.shape[1:] if rows else array.shape for array in feed.values()), rows


class Batcher:
    """Runs the requests for a model.

    Parameters
    ----------
    model : Served
        The model.
    most : int
        The most rows that are joined; 1 joins none.
    delay : float
        How many seconds a request waits for others, while there are others.
    queue : int
        The most requests that wait.
    """

    def __init__(self, model: Served, most: int, delay: float, queue: int) -> None:
        self._model = model
        self._most = most
        self._delay = delay
        self._queue = queue
        self.joining = Joining()
        self._jobs: deque[Job] = deque()
        self._worker = ThreadPoolExecutor(1, "calor-model")
        self._running = False
        self._timer: asyncio.Handle | None = None
        self._waiting = False
        # The worker takes what waits too, while it runs.
        self._lock = threading.Lock()
        self._crowd = 1.0
        self._last: object = None
        # The seconds of a run by what it takes, where it was run before.
        self._known: dict[Any, float] = {}

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def warm(self) -> None:
        """Compile the model and find out what joining is worth."""
        self.joining = await self._loop.run_in_executor(
            self._worker, warmed, self._model, self._most
        )
        for rows, seconds in self.joining.measured.items():
            kind, found = kind_of(drawn(self._model.inputs, rows))
            self._known[kind, found] = seconds

    def close(self) -> None:
        """End the worker; what waits is refused."""
        while self._jobs:
            self._jobs.popleft().done(None, Refused(503, "the server ends"))
        self._worker.shutdown(wait=False, cancel_futures=True)

    def submit(self, job: Job) -> None:
        """Take a request on; Refused if too many wait."""
        jobs = self._jobs
        if len(jobs) >= self._queue:
            raise Refused(429, f"{self._queue} requests wait for the model, as many as may")
        # Who asks twice in a row has nobody beside it.
        alone, self._last = job.sender is self._last, job.sender
        with self._lock:
            jobs.append(job)
            if self._running:
                return
        if self._timer is None:
            if alone and len(jobs) == 1 and self._crowd < 2:
                self._flush()
                return
            # Others that have arrived are read first.
            self._timer = self._loop.call_soon(self._flush)
        elif self._waiting and len(jobs) >= self._crowd:
            self._timer.cancel()
            self._waiting = False
            self._timer = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Run the next batch, or wait for more requests that may join it."""
        loop = self._loop
        self._timer, self._waiting = None, False
        if self._running or not self._jobs:
            return
        if self._waits():
            due = self._jobs[0].arrived + self._delay - perf_counter()
            if due > 0:
                self._timer, self._waiting = loop.call_later(due, self._flush), True
                return
            self._crowd = len(self._jobs)
        batch = self._taken()
        if not batch:
            return
        self._running = True
        if self._cost(batch) < _SHORT:
            results = self._run(batch)
            self._running = False
            self._answer(batch, results)
        else:
            self._worker.submit(self._work, batch)

    def _waits(self) -> bool:
        """Return whether others are about to ask who would make the batch cheaper."""
        few = len(self._jobs) < min(self._crowd, self.joining.most)
        return few and self._delay > 0 and self.joining.most > 1

    def _taken(self) -> list[Job]:
        """Take the first request that somebody waits for, and those that join it."""
        self._crowd = max(float(len(self._jobs)), _FADING * self._crowd)
        if len(self._jobs) == 1 and self._jobs[0].sender.alive:
            return [self._jobs.popleft()]
        batch: list[Job] = []
        others: list[Job] = []
        rows = 0
        while self._jobs:
            job = self._jobs.popleft()
            if not job.sender.alive:
                self._loop.call_soon_threadsafe(job.done, None, Refused(503, "nobody waits"))
                continue
            fits = not batch or (
                job.rows > 0 and job.kind == batch[0].kind and rows + job.rows <= self.joining.most
            )
            if not fits:
                others.append(job)
                continue
            batch.append(job)
            rows += job.rows
            if rows >= self.joining.most:
                break
        self._jobs.extendleft(reversed(others))
        return batch

    def _parts(self, batch: Sequence[Job]) -> tuple[int, ...]:
        """Return the numbers of rows of the runs that compute a batch."""
        rows = _rows(batch)
        return self.joining.runs(rows) if self.joining.most and rows else (rows,)

    def _cost(self, batch: Sequence[Job]) -> float:
        """Return the seconds that a batch takes, or many where such were not run before."""
        kind = batch[0].kind
        return sum(self._known.get((kind, rows), 1.0) for rows in self._parts(batch))

    def _answer(self, batch: Sequence[Job], results: Sequence[Any]) -> None:
        for job, result in zip(batch, results, strict=True):
            if isinstance(result, Refused):
                job.done(None, result)
            else:
                job.done(result, None)
        if self._jobs and not self._running and self._timer is None:
            self._timer = self._loop.call_soon(self._flush)

    # In the worker.
    def _work(self, batch: list[Job]) -> None:
        """Run a batch, and those that are there when it is done."""
        while batch:
            results = self._run(batch)
            with self._lock:
                following = [] if not self._jobs or self._waits() else self._taken()
                self._running = bool(following)
            # Nobody is left to be told where the loop has ended.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer, batch, results)
            batch = following

    # In the worker, or in the event loop while the worker has nothing to do.
    def _run(self, batch: Sequence[Job]) -> list[Any]:
        """Return the outputs of each request, or why there are none."""
        start = perf_counter()
        try:
            results = self._together(batch)
        except Exception as error:
            if len(batch) == 1:
                return [self._failure(error)]
            return [self._run([job])[0] for job in batch]
        parts = self._parts(batch)
        if len(parts) == 1:
            key, taken = (batch[0].kind, parts[0]), perf_counter() - start
            if len(self._known) >= _KEPT:
                self._known.clear()
            # The least counts: a run may wait for a processor, or for this process's other thread.
            self._known[key] = min(taken, 1.02 * self._known.get(key, taken))
        return results

    def _failure(self, error: Exception) -> Refused:
        made = refused(error)
        if made.status >= 500:
            _log.error("a run failed", exc_info=error)
        return made

    def _together(self, batch: Sequence[Job]) -> list[Any]:
        rows = _rows(batch)
        # Alone in a number of rows that is compiled, or nothing that is joined.
        if not (self.joining.most and rows) or (len(batch) == 1 and rows in self.joining.seconds):
            return [self._model.run(job.feed) for job in batch]
        runs = self.joining.runs(rows)
        feeds = joined([job.feed for job in batch], runs)
        made = [self._model.run(feed) for feed in feeds]
        whole = made[0]
        if len(made) > 1:
            whole = [np.concatenate(each) for each in zip(*made, strict=True)]
        if len(batch) == 1 and sum(runs) == rows:
            return [whole]
        ends = accumulate(job.rows for job in batch)
        return [
            [array[end - job.rows : end] for array in whole]
            for end, job in zip(ends, batch, strict=True)
        ]


def _rows(batch: Sequence[Job]) -> int:
    return batch[0].rows if len(batch) == 1 else sum(job.rows for job in batch)
