"""Tests by name over several processes, where a device is slow to compile or may take one down.

A process asks for the next name when it is done with one, so that slow tests do not pile up in one
share. One that dies, or that hangs where no signal reaches it, costs the test it was at.
"""

from __future__ import annotations

import multiprocessing
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

# A row is a test's name, the reason where it failed, and its seconds.
Row = tuple[str, str | None, float]


def rows(
    names: Sequence[str], serve: Callable[..., None], given: tuple[Any, ...], jobs: int,
    limit: float, within: float,
) -> Iterator[Row]:  # fmt: skip
    """Yield a row for each name, in the order in which they are done.

    ``serve(connection, *given)`` is run by each process: it receives names, and sends rows until
    it receives None. A row that does not come in ``limit`` seconds ends its process; after
    ``within`` seconds no more is begun.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    done: queue.SimpleQueue[Row] = queue.SimpleQueue()
    until = time.monotonic() + within
    threads = [
        threading.Thread(target=_feed, args=(waiting, done, serve, given, limit, until))
        for _ in range(min(jobs, len(names)))
    ]
    for thread in threads:
        thread.start()
    for _ in names:
        yield done.get()
    for thread in threads:
        thread.join()


def _feed(
    waiting: queue.SimpleQueue[str], done: queue.SimpleQueue[Row], serve: Callable[..., None],
    given: tuple[Any, ...], limit: float, until: float,
) -> None:  # fmt: skip
    """Give names to one process after another, until none is left."""
    process = None
    while True:
        try:
            name = waiting.get_nowait()
        except queue.Empty:
            break
        if time.monotonic() > until:
            done.put((name, "not run: the time for all was over", 0.0))
            continue
        if process is None:
            process, connection = _started(serve, given)
        began = time.monotonic()
        try:
            connection.send(name)
            if not connection.poll(limit):
                raise EOFError
            done.put(connection.recv())
        except (EOFError, OSError):
            took = time.monotonic() - began
            hung = took >= limit
            process.kill()
            process.join()
            how = f"hung for {limit} s" if hung else f"the process ended with {process.exitcode}"
            done.put((name, f"ended: {how}", took))
            process = None
    if process is not None:
        connection.send(None)
        process.join(limit)
        process.kill()


def _started(serve: Callable[..., None], given: tuple[Any, ...]) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, *given))
    process.start()
    theirs.close()
    return process, ours
