"""Page-locked memory of the host, from which and to which a GPU copies at the speed of the bus.

Requirements: locking pages takes the system longer than a copy, so memory is kept for reuse. What
the system refuses to lock is told by None, and the caller takes ordinary memory. An array may die
in any thread, also while another one allocates.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Final

import numpy as np

from calor_cupy.driver.stream import Stream

Array = np.ndarray[Any, Any]
# Smaller blocks are cut from a block of many pages, which is kept for good.
_LEAST: Final = 64 << 10
_SLAB: Final = 1 << 20
_SMALLEST: Final = 512
# Blocks for all devices of the process (cudaHostAllocPortable).
_PORTABLE: Final = 1
# The bytes that may wait for reuse when a block of another size is made, if fewer are in use: a
# program whose values stream gives back as much as it takes, in each step.
_IDLE: Final = 256 << 20


class Block:
    """A block that an array refers to; it is given back when no array does."""

    __slots__ = ("__array_interface__", "_address", "_idle")

    def __init__(self, address: int, nbytes: int, idle: deque[int]) -> None:
        self._address, self._idle = address, idle
        self.__array_interface__ = {
            "version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, False),
        }  # fmt: skip

    def __del__(self) -> None:
        self._idle.append(self._address)


class PageLocked:
    """The blocks of a device: those in use belong to arrays, the others wait by their size."""

    def __init__(self, stream: Stream) -> None:
        self.on = stream
        self.idle: dict[int, deque[int]] = {}
        # The bytes of all blocks, in use or not.
        self._nbytes = 0

    def array(self, nbytes: int) -> Array | None:
        """Return an array of bytes, or None where ordinary memory is as good or all there is."""
        if not nbytes:
            return None
        size = _rounded(nbytes)
        idle = self.idle.setdefault(size, deque())
        try:
            address = idle.pop()
        except IndexError:
            made = self._made(size) if size >= _LEAST else self._cut(size, idle)
            if made is None:
                return None
            address = made
        return np.asarray(Block(address, size, idle))[:nbytes]

    def _cut(self, size: int, idle: deque[int]) -> int | None:
        """Return a small block, and let others of a new slab wait."""
        slab = self._made(_SLAB)
        if slab is not None:
            idle.extend(range(slab + size, slab + _SLAB - size + 1, size))
        return slab

    def _made(self, size: int) -> int | None:
        known = list(self.idle.items())
        waiting = sum(nbytes * len(idle) for nbytes, idle in known if nbytes >= _LEAST)
        if waiting > max(_IDLE, self._nbytes - waiting):
            self.close()
        self.on.use()
        try:
            address = int(self.on.runtime.hostAlloc(size, _PORTABLE))
        except (RuntimeError, MemoryError):
            return None
        self._nbytes += size
        return address

    def close(self) -> None:
        """Return the blocks that wait to the system, except small ones."""
        if sys.is_finalizing():
            return
        for size, idle in list(self.idle.items()):
            if size < _LEAST:
                continue
            while idle:
                try:
                    address = idle.pop()
                except IndexError:
                    break
                self.on.runtime.freeHost(address)
                self._nbytes -= size


def _rounded(nbytes: int) -> int:
    """Return a size of which there are eight between powers of two."""
    least = _LEAST if nbytes > _LEAST else _SMALLEST
    step = max(least, 1 << max(nbytes.bit_length() - 4, 0))
    return -(-nbytes // step) * step
