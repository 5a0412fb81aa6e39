"""Copies of what is uploaded, which wait until they are sent: the program may change its arrays.

Requirements: a copy takes no longer than its bytes do. The system gives new pages to memory when
they are written to, which takes several times as long as the copy, so memory is used again; of
several processors, several copy, and what is copied is sent before the rest is.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Final

import numpy as np

from calor_http.checksums import processors

Array = np.ndarray[Any, Any]
# Smaller arrays are copied to memory that NumPy manages.
_LEAST: Final = 1 << 18
# The bytes that wait for reuse, at most.
_IDLE: Final = 1 << 26
# What a thread copies at a time, and how many threads do.
_PART: Final = 1 << 21
_THREADS: Final = 4


class _Block:
    """Memory that arrays refer to; it is given back when none does."""

    __slots__ = ("__array_interface__", "_idle", "_memory")

    def __init__(self, memory: Array, idle: deque[Array]) -> None:
        self._memory, self._idle = memory, idle
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        # By any thread, at any time: the deque takes no lock.
        self._idle.append(self._memory)


class Copy:
    """A copy of an array that may be under way.

    Parameters
    ----------
    array : numpy.ndarray
        Where the copy is made.
    parts : sequence of tuple, optional
        Where its parts end, in bytes, and what waits for each, in their order.
    """

    def __init__(self, array: Array, parts: Sequence[tuple[int, Future[None]]] = ()) -> None:
        self.array = array
        self._parts = parts

    def wait(self, nbytes: int | None = None) -> None:
        """Wait until so many bytes are there, by default all; several threads may."""
        there = 0
        for end, copies in self._parts:
            if nbytes is not None and there >= nbytes:
                return
            copies.result()
            there = end


class Staging:
    """The memory of a client for what is uploaded."""

    def __init__(self) -> None:
        self._idle: deque[Array] = deque()

    def begun(self, array: Array) -> Copy:
        """Begin to copy an array, in rows."""
        if array.nbytes < _LEAST:
            return Copy(np.array(array, order="C", copy=True))
        made = self._taken(array.nbytes)[: array.nbytes].view(array.dtype).reshape(array.shape)
        return Copy(made, _copies(made, array))

    def clear(self) -> None:
        """Give what waits for reuse back to the system."""
        self._idle.clear()

    def _taken(self, nbytes: int) -> Array:
        """Return memory of so many bytes or some more; what waits beyond a limit is given back."""
        found: Array | None = None
        total = 0
        for _ in range(len(self._idle)):
            try:
                memory = self._idle.popleft()
            except IndexError:
                break
            if found is None and nbytes <= len(memory) <= 2 * nbytes:
                found = memory
                continue
            total += len(memory)
            if total <= _IDLE:
                self._idle.append(memory)
        if found is None:
            found = np.empty(nbytes, np.uint8)
        return np.asarray(_Block(found, self._idle))


def _copies(target: Array, array: Array) -> list[tuple[int, Future[None]]]:
    """Begin to copy an array; return where the parts end that others copy, in bytes."""
    if min(array.nbytes // _PART, processors() // 2) < 2 or not array.flags.c_contiguous:
        np.copyto(target, array)
        return []
    there, given = target.reshape(-1), array.reshape(-1)
    size = max(_PART // array.itemsize, 1)
    found: list[tuple[int, Future[None]]] = []
    for start in range(0, len(given), size):
        part = slice(start, min(start + size, len(given)))
        try:
            copies = _pool().submit(np.copyto, there[part], given[part])
        except RuntimeError:
            # The interpreter ends, and no thread takes more work.
            np.copyto(there[start:], given[start:])
            break
        found.append((part.stop * array.itemsize, copies))
    return found


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "calor-http-copies")


# A child of a fork has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
