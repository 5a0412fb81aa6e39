"""Copies of what is uploaded, which wait until they are sent: the program may change its arrays.

Requirements: a copy takes no longer than its bytes do. The system gives new pages to memory when
they are written to, which takes several times as long as the copy, so memory is used again; of
several processors, several copy.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any, Final

import numpy as np

from calor_http.checksums import processors

Array = np.ndarray[Any, Any]
# Smaller arrays are copied to memory that NumPy manages.
_LEAST: Final = 1 << 18
# The bytes that wait for reuse, at most.
_IDLE: Final = 1 << 26
# What a thread copies at least, and how many threads do.
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


class Staging:
    """The memory of a client for what is uploaded."""

    def __init__(self) -> None:
        self._idle: deque[Array] = deque()

    def copied(self, array: Array) -> Array:
        """Return a copy of an array, in rows."""
        if array.nbytes < _LEAST:
            return np.array(array, order="C", copy=True)
        made = self._taken(array.nbytes)[: array.nbytes].view(array.dtype).reshape(array.shape)
        _copy(made, array)
        return made

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


def _copy(target: Array, array: Array) -> None:
    count = min(array.nbytes // _PART, processors() // 2, _THREADS)
    if count < 2 or not array.flags.c_contiguous:
        np.copyto(target, array)
        return
    there, given = target.reshape(-1), array.reshape(-1)
    size = -(-len(given) // count)
    parts = [slice(place, place + size) for place in range(size, len(given), size)]
    others = [_pool().submit(np.copyto, there[part], given[part]) for part in parts]
    np.copyto(there[:size], given[:size])
    wait(others)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS - 1, "calor-http-copies")


# A child of a fork has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
