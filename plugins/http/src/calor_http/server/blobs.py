"""Large contents on their way, in pieces: a piece that comes twice is taken once.

Requirements: a broken connection costs the piece that was on its way; memory is taken as pieces
arrive, never by what a client announces. Contents are NumPy arrays in memory that the device copies
fast, or of large pages where the system has them: to get new small ones takes as long as to receive
what fills them. A piece may be received where it stays, behind what is there; it is there when its
checksum was found to fit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor.errors import ArgumentError, CalorError, FormatError, OutOfMemoryError
from calor_http.checksums import Content
from calor_http.errors import LimitError
from calor_http.frames import CHUNK

# Uploads that found no room and are remembered; a client asks for one right after it.
_REFUSED: Final = 64
# The memory that is taken with the first piece, as a multiple of it, and at most.
AHEAD: Final = 16
_ROOM: Final = AHEAD * CHUNK
Array = np.ndarray[Any, Any]
Memory = Callable[[int], Array]


class Growing:
    """Contents that pieces are added to.

    Parameters
    ----------
    memory : callable
        Returns so many bytes of memory.
    total : int, optional
        How many bytes there will be, as the client says; 0 if it does not.
    """

    def __init__(self, memory: Memory, total: int = 0) -> None:
        self._memory = memory
        self._total = total
        self._room: Array = np.empty(0, np.uint8)
        self._there = 0
        # Where the pieces end that are received here, or were and are not checked yet; which of
        # them is being received, and how often such pieces were forgotten.
        self.reached = 0
        self._receives: Placed | None = None
        self.forgotten = 0

    def __len__(self) -> int:
        return self._there

    def add(self, piece: memoryview) -> None:
        """Add a piece."""
        self.withdraw()
        end = self._there + len(piece)
        self._reserve(end)
        self._room[self._there : end] = np.frombuffer(piece, np.uint8)
        self._there = self.reached = end

    def place(self, nbytes: int) -> Placed | None:
        """Return where the next piece is to be received; None while another one is."""
        if self._receives is not None:
            return None
        start, end = self.reached, self.reached + nbytes
        self._reserve(end)
        self.reached = end
        content = self._room[start:end].data
        self._receives = Placed(self, self.forgotten, start, content)
        return self._receives

    def received(self, placed: Placed) -> None:
        """Note that nothing more is written to the place of a piece."""
        if self._receives is placed:
            self._receives = None

    def arrived(self, placed: Placed) -> bool:
        """Count a piece that fits its checksum; return whether it still follows what is there."""
        if not placed.expected or placed.start != self._there:
            return False
        self._there += len(placed.content)
        return True

    def withdraw(self) -> int:
        """Forget all pieces that have not arrived; return their bytes."""
        nbytes = self.reached - self._there
        if nbytes:
            self.forgotten += 1
            self.reached = self._there
        if self._receives is not None:
            # What is still received there is written to memory that nobody reads.
            self._receives = None
            self._move(len(self._room))
        return nbytes

    def _reserve(self, end: int) -> None:
        """Have room up to an end."""
        if end <= len(self._room):
            return
        # The system gives memory to pages when they are written to, so much room costs little.
        nbytes = end if end < CHUNK else max(2 * end, _ROOM)
        if end <= self._total:
            nbytes = min(self._total, max(AHEAD * end, _ROOM if end >= CHUNK else 0, 2 * end))
        self._move(nbytes)

    def _move(self, nbytes: int) -> None:
        room = self._memory(nbytes)
        room[: self.reached] = self._room[: self.reached]
        self._room = room

    def content(self) -> memoryview:
        """Return what is there."""
        return self._room[: self._there].data


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where a piece is received: behind what is there of contents, or behind pieces before it."""

    growing: Growing
    era: int
    start: int
    content: memoryview

    @property
    def expected(self) -> bool:
        """Whether it was not forgotten."""
        return self.era == self.growing.forgotten


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

    def add(self, number: int, offset: int, piece: Content, total: int = 0) -> int:
        """Take a piece of an upload; return how many bytes are there, from the beginning.

        The first piece may say how many bytes there will be in all.
        """
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
            known = self._held[number] = Growing(self._memory, min(total, self._most))
        self.nbytes += there + len(fresh) - known.reached
        known.add(fresh)
        return len(known)

    def place(self, number: int, offset: int, nbytes: int) -> Placed | None:
        """Return where a piece is to be received that follows others; None where it does not.

        What it has to be counted for is counted.
        """
        known = self._held.get(number)
        if not isinstance(known, Growing) or offset != known.reached or nbytes > CHUNK:
            return None
        if offset + nbytes > self._most:
            return None
        try:
            self._reserve(nbytes)
            placed = known.place(nbytes)
        except (LimitError, OutOfMemoryError):
            return None
        self.nbytes += nbytes if placed is not None else 0
        return placed

    def arrived(self, number: int, placed: Placed) -> int:
        """Take a piece that was received in its place; return how many bytes are there."""
        if self._held.get(number) is not placed.growing or not placed.growing.arrived(placed):
            raise ArgumentError(f"a piece at byte {placed.start} does not follow what is there")
        return len(placed.growing)

    def withdraw(self, number: int, placed: Placed) -> None:
        """Forget a piece that does not arrive, and those behind it."""
        if self._held.get(number) is placed.growing and placed.expected:
            self.nbytes -= placed.growing.withdraw()

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
            self.nbytes -= known.reached if isinstance(known, Growing) else len(known)

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
