"""Large contents on their way, in pieces: a piece that comes twice is taken once.

Requirements: a broken connection costs the piece that was on its way; memory is taken as pieces
arrive, never by what a client announces. Contents are NumPy arrays in memory that the device copies
fast, or of large pages where the system has them: to get new small ones takes as long as to receive
what fills them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from calor.errors import ArgumentError, CalorError, FormatError, OutOfMemoryError
from calor_http.checksums import Content
from calor_http.errors import LimitError
from calor_http.frames import CHUNK

# Uploads that found no room and are remembered; a client asks for one right after it.
_REFUSED: Final = 64
_ROOM: Final = 16 * CHUNK


Array = np.ndarray[Any, Any]
Memory = Callable[[int], Array]


class Growing:
    """Contents that pieces are added to.

    Parameters
    ----------
    memory : callable
        Returns so many bytes of memory.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._room: Array = np.empty(0, np.uint8)
        self._there = 0

    def __len__(self) -> int:
        return self._there

    def add(self, piece: memoryview) -> None:
        """Add a piece."""
        end = self._there + len(piece)
        if end > len(self._room):
            # The system gives memory to pages when they are written to, so much room costs little.
            room = self._memory(end if end < CHUNK else max(2 * end, _ROOM))
            room[: self._there] = self._room[: self._there]
            self._room = room
        self._room[self._there : end] = np.frombuffer(piece, np.uint8)
        self._there = end

    def content(self) -> memoryview:
        """Return what is there."""
        return self._room[: self._there].data


class Blobs:
    """The contents of one client that are on their way, by number.

    Parameters
    ----------
    most : int
        The most bytes of one.
    reserve : callable
        Called with the bytes of a piece before it is taken; raises LimitError.
    memory : callable
        Returns so many bytes of memory, for what is uploaded.
    """

    def __init__(self, most: int, reserve: Callable[[int], None], memory: Memory) -> None:
        self._most = most
        self._memory = memory
        self._reserve = reserve
        self._held: dict[int, Growing | memoryview] = {}
        # Why uploads found no room, for those who ask for them later.
        self._refused: OrderedDict[int, CalorError] = OrderedDict()
        self.nbytes = 0

    def add(self, number: int, offset: int, piece: Content) -> int:
        """Take a piece of an upload; return how many bytes are there, from the beginning."""
        known = self._held.get(number)
        there = 0 if known is None else len(known)
        if isinstance(known, memoryview) or offset > there or len(piece) > CHUNK:
            raise ArgumentError(f"a piece at byte {offset} does not follow the {there} before it")
        fresh = memoryview(piece)[there - offset :]
        if not fresh:
            return there
        try:
            if there + len(fresh) > self._most:
                raise LimitError(f"an upload has more than {self._most} bytes, the server's limit")
            self._reserve(len(fresh))
        except (LimitError, OutOfMemoryError) as error:
            self._refuse(number, error)
            raise
        if known is None:
            known = self._held[number] = Growing(self._memory)
        known.add(fresh)
        self.nbytes += len(fresh)
        return len(known)

    def offer(self, number: int, content: memoryview) -> None:
        """Keep contents until they were fetched."""
        self._check_fresh(number)
        self._reserve(len(content))
        self._held[number] = content
        self.nbytes += len(content)

    def piece(self, number: int, offset: int, length: int) -> memoryview:
        """Return a piece of what is offered."""
        known = self._held.get(number)
        if not isinstance(known, memoryview):
            raise ArgumentError(f"nothing is offered under number {number}")
        if not 0 <= offset <= len(known) or not 0 <= length <= CHUNK:
            raise ArgumentError(f"{length} bytes from byte {offset} are no piece of {len(known)}")
        return known[offset : offset + length]

    def take(self, number: int) -> memoryview:
        """Return a whole upload, which is then forgotten."""
        known = self._held.get(number)
        refused = self._refused.pop(number, None)
        if refused is not None:
            raise refused
        if not isinstance(known, Growing):
            raise FormatError(f"no upload has number {number}")
        self.forget(number)
        return known.content()

    def forget(self, number: int) -> None:
        """Free contents, if they are there."""
        known = self._held.pop(number, None)
        if known is not None:
            self.nbytes -= len(known)

    def _refuse(self, number: int, error: CalorError) -> None:
        self.forget(number)
        self._refused[number] = error.with_traceback(None)
        while len(self._refused) > _REFUSED:
            self._refused.popitem(last=False)

    def clear(self) -> None:
        """Free everything."""
        self._held.clear()
        self.nbytes = 0

    def _check_fresh(self, number: Any) -> None:
        if type(number) is not int or number in self._held:
            raise ArgumentError(f"{number!r} is no free number")
