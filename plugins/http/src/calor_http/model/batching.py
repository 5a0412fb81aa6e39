"""The requests that wait for one model, joined and run one batch at a time.

Requirements: requests that agree in everything but the number of rows run together; one that fails
fails alone; who is alone does not wait for others; a run that is shorter than handing it to another
thread is done at once; a model's runs never overlap. All but `_run` is called by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Final

import numpy as np

from calor_http.model.errors import Refused, refused
from calor_http.model.joining import Joining, joined, warmed
from calor_http.model.programs import Array, Served

_log = logging.getLogger("calor_http")
# A run that takes less is not handed to the worker.
_SHORT: Final = 4e-4
# Kinds of requests whose seconds are kept.
_KEPT: Final = 256
# What part of the crowd is still counted on after a batch that had fewer.
_FADING: Final = 0.9
Done = Callable[[Sequence[Array] | None, Refused | None], None]


class Job:
    """A request that waits.

    Parameters
    ----------
    feed : mapping of str to array
        Its inputs.
    done : callable
        Called in the event loop with its outputs, or why there are none.
    alive : callable
        Whether somebody still waits for it.
    """

    __slots__ = ("alive", "arrived", "done", "feed", "kind", "rows")

    def __init__(self, feed: Mapping[str, Array], done: Done, alive: Callable[[], bool]) -> None:
        self.feed = feed
        self.done = done
        self.alive = alive
        self.arrived = perf_counter()
        sizes = {len(array) if array.ndim else 0 for array in feed.values()}
        # Rows of different numbers, or none, are nothing that could be joined.
        self.rows = sizes.pop() if len(sizes) == 1 else 0
        self.kind = tuple(array.shape[1:] for array in feed.values()) if self.rows else None


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
        self._names = tuple(known.name for known in model.inputs)
        self.joining = Joining()
        self._jobs: deque[Job] = deque()
        self._worker = ThreadPoolExecutor(1, "calor-model")
        self._running = False
        self._timer: asyncio.Handle | None = None
        self._crowd = 1.0
        # The seconds of a run by what it takes, where it was run before.
        self._known: dict[Any, float] = {}
        self.batches = 0

    async def warm(self) -> None:
        """Compile the model and find out what joining is worth."""
        loop = asyncio.get_running_loop()
        self.joining = await loop.run_in_executor(self._worker, warmed, self._model, self._most)

    def close(self) -> None:
        """End the worker; what waits is refused."""
        while self._jobs:
            self._jobs.popleft().done(None, Refused(503, "the server ends"))
        self._worker.shutdown(wait=False, cancel_futures=True)

    def submit(self, job: Job) -> None:
        """Take a request on; Refused if too many wait."""
        if len(self._jobs) >= self._queue:
            raise Refused(429, f"{self._queue} requests wait for the model, as many as may")
        job.feed = {name: job.feed[name] for name in self._names}
        self._jobs.append(job)
        if self._running:
            return
        if self._timer is None:
            # Others that have arrived are read first.
            self._timer = asyncio.get_running_loop().call_soon(self._flush)
        elif isinstance(self._timer, asyncio.TimerHandle) and len(self._jobs) >= self._crowd:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Run the next batch, or wait for more requests that may join it."""
        self._timer = None
        if self._running or not self._jobs:
            return
        loop = asyncio.get_running_loop()
        if self._waits():
            due = self._jobs[0].arrived + self._delay - perf_counter()
            if due > 0:
                self._timer = loop.call_later(due, self._flush)
                return
            self._crowd = len(self._jobs)
        self._crowd = max(float(len(self._jobs)), _FADING * self._crowd)
        batch = self._taken()
        if not batch:
            return
        self.batches += 1
        if self._known.get(self._cost_key(batch), 1.0) < _SHORT:
            self._finished(batch, self._run(batch))
            return
        self._running = True
        future = loop.run_in_executor(self._worker, self._run, batch)
        future.add_done_callback(lambda done: self._back(batch, done))

    def _waits(self) -> bool:
        """Return whether others are about to ask who would make the batch cheaper."""
        few = len(self._jobs) < min(self._crowd, self.joining.most)
        return few and self._delay > 0 and self.joining.pays()

    def _taken(self) -> list[Job]:
        """Take the first request that somebody waits for, and those that join it."""
        batch: list[Job] = []
        others: list[Job] = []
        rows = 0
        while self._jobs:
            job = self._jobs.popleft()
            if not job.alive():
                job.done(None, Refused(503, "nobody waits"))
                continue
            fits = not batch or (
                job.kind is not None
                and job.kind == batch[0].kind
                and rows + job.rows <= self.joining.most
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

    def _cost_key(self, batch: Sequence[Job]) -> Any:
        rows = sum(job.rows for job in batch)
        kind = batch[0].kind
        if kind is None:
            kind = tuple(array.shape for array in batch[0].feed.values())
        return kind, self.joining.runs(rows) if self.joining.most and rows else rows

    def _back(self, batch: list[Job], future: asyncio.Future[Any]) -> None:
        self._running = False
        if future.cancelled():
            return
        self._finished(batch, future.result())

    def _finished(self, batch: Sequence[Job], results: Sequence[Any]) -> None:
        for job, result in zip(batch, results, strict=True):
            if isinstance(result, Refused):
                job.done(None, result)
            else:
                job.done(result, None)
        if self._jobs and self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._flush)

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
        taken, key = perf_counter() - start, self._cost_key(batch)
        if len(self._known) >= _KEPT:
            self._known.clear()
        # The last one counts most: other programs may take the processor now and then.
        before = self._known.get(key)
        self._known[key] = taken if before is None else min(taken, 1.2 * before)
        return results

    def _failure(self, error: Exception) -> Refused:
        made = refused(error)
        if made.status >= 500:
            _log.error("a run failed", exc_info=error)
        return made

    def _together(self, batch: Sequence[Job]) -> list[Any]:
        rows = sum(job.rows for job in batch)
        if not self.joining.most or not rows:
            return [self._model.run(job.feed) for job in batch]
        runs = self.joining.runs(rows)
        feeds = joined([job.feed for job in batch], runs)
        made = [self._model.run(feed) for feed in feeds]
        whole = made[0]
        if len(made) > 1:
            whole = [np.concatenate(each) for each in zip(*made, strict=True)]
        if len(batch) == 1 and sum(runs) == rows:
            return [whole]
        ends = np.cumsum([job.rows for job in batch])
        return [
            [array[end - job.rows : end] for array in whole]
            for end, job in zip(ends.tolist(), batch, strict=True)
        ]
