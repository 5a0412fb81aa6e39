"""Device memory whose copies are in whole words.

Requirements: callers need not know of words. Neighbouring bytes of a partially written word are
preserved. Partial words go through the host.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor_kernel.device.protocol import Memory

WORD: Final = 4
Bytes = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a driver's buffer: its offset, and its bytes."""

    buffer: Any
    start: int
    nbytes: int


class WordMemory(Memory):
    """A memory that reads, writes and moves whole words. A handle is a Piece."""

    @abstractmethod
    def read(self, buffer: Any, start: int, nbytes: int) -> Bytes:
        """Return whole words, after all queued work; waits for them."""

    @abstractmethod
    def put(self, buffer: Any, start: int, data: Bytes) -> None:
        """Write whole words, in the order of the queue."""

    @abstractmethod
    def move(self, target: Any, at: int, source: Any, start: int, nbytes: int) -> None:
        """Copy whole words between buffers, or within one, in the order of the queue."""

    def part(self, handle: Piece, offset: int, nbytes: int) -> Piece | None:
        """Return a part, which needs no driver object."""
        return Piece(handle.buffer, handle.start + offset, nbytes)

    def copy_in(self, handle: Piece, offset: int, array: Bytes) -> None:
        """Write from the host, after queued work."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        first = handle.start + offset
        start, nbytes = _words(first, data.size)
        if data.size and nbytes != data.size:
            around = self.read(handle.buffer, start, nbytes).copy()
            around[first - start :][: data.size] = data
            data = around
        if data.size:
            self.put(handle.buffer, start, data)

    def copy_out(self, handle: Piece, offset: int, array: Bytes) -> None:
        """Read to the host, and wait for it."""
        target = array.reshape(-1).view(np.uint8)
        first = handle.start + offset
        if target.size:
            start, nbytes = _words(first, target.size)
            found = self.read(handle.buffer, start, nbytes)
            target[:] = found[first - start :][: target.size]

    def copy(self, target: Piece, at: int, source: Piece, offset: int, nbytes: int) -> None:
        """Copy between pieces in queue order; partial words go through the host."""
        to, of = target.start + at, source.start + offset
        whole = 0 if to % WORD or of % WORD else nbytes // WORD * WORD
        if whole:
            self.move(target.buffer, to, source.buffer, of, whole)
        if nbytes > whole:
            rest = np.empty(nbytes - whole, np.uint8)
            self.copy_out(source, offset + whole, rest)
            self.copy_in(target, at + whole, rest)


def _words(first: int, nbytes: int) -> tuple[int, int]:
    """Return the offset and size of the words around some bytes."""
    start = first // WORD * WORD
    return start, -(-(first + nbytes) // WORD) * WORD - start
