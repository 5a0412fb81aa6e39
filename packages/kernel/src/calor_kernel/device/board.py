"""Status words, in which kernels report failures.

Requirements: on a device whose memory the host reads, a block of words is read in place. On others
a fallible run copies nothing to or from the device, and waits for nothing: a board reads the words
of all runs since the last read by one copy. A word is reused only after it was read, in any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ctypes import c_int32
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from calor.errors import DeviceError
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.outcomes import Outcome, Result, Run
from calor_kernel.device.pool import Pool

# The maximum bytes of a page, and the maximum number of unread runs. Few pages keep the number of
# places small for a device that prepares launches per place.
_NBYTES: Final = 1 << 16
_RUNS: Final = 256


@dataclass(eq=False, slots=True)
class Page:
    """Memory that runs take their words from, in order; ``taken``: the bytes used so far.

    ``open``: the number of runs with words that are not queued yet. ``outcomes``: those of queued
    runs with unread words. ``clear``: whether the free part is zero.
    """

    buffer: KernelBuffer
    nbytes: int
    taken: int = 0
    open: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    clear: bool = True


class Readable(Protocol):
    """A guard, as its board sees it."""

    @property
    def fine(self) -> bool: ...

    def read(self) -> None:
        """Wait for the queued runs."""


class Board:
    """The status words of a device's runs. No lock is held while a run is queued."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.lock = threading.RLock()
        # The runs on their way to the queue that read words of other runs.
        self._readers = 0
        # Guards with runs that are not known to be successful.
        self._guards: list[Readable] = []
        self._page: Page | None = None
        # Pages with taken words, in the order of the runs.
        self._unread: list[Page] = []
        # Failed runs since the last wait for all work.
        self._failed: list[Result] = []

    def take(self, nbytes: int, host_numbers: bool) -> tuple[Page, int, Any]:
        """Return a page, the offset of a run's block of bytes in it, and the handle of that block.

        Its words are zero. The caller passes the page to :meth:`put` or :meth:`leave` afterwards.
        ``host_numbers``: whether the block also holds host numbers.
        """
        with self.lock:
            page = self._page
            if page is None or page.taken + nbytes > page.nbytes:
                page = self._turn(nbytes)
            start = page.taken
            page.taken = start + nbytes
            page.open += 1
            if not start:
                self._unread.append(page)
            if host_numbers:
                page.clear = False
        handle = page.buffer.handle
        return page, start, self.pool.memory.part(handle, start, nbytes) if start else handle

    def put(self, page: Page, start: int, run: Run) -> Outcome:
        """Return the outcome of a queued run."""
        outcome = Outcome(run, self, page, start)
        with self.lock:
            page.open -= 1
            page.outcomes.append(outcome)
        return outcome

    def leave(self, page: Page) -> None:
        """Release the words of a run that was not queued, or only in part."""
        with self.lock:
            page.open -= 1
            page.clear = False

    def read(self, page: Page) -> None:
        """Wait for the runs of a page and inform their outcomes; the page becomes reusable."""
        memory, handle = self.pool.memory, page.buffer.handle
        with self.lock:
            if page.outcomes:
                words = np.empty(page.taken // 4, np.int32)
                memory.copy_out(handle, 0, words)
                outcomes, page.outcomes = page.outcomes, []
                failed = [o for o in outcomes if o.tell(words)]
                page.clear = page.clear and not failed
                self._failed += failed[: _RUNS - len(self._failed)]
            # A run with words that is not queued yet will add its outcome later.
            if page.taken and not page.open and not self._readers:
                if not page.clear:
                    memory.write(handle, bytes(page.taken))
                    page.clear = True
                page.taken = 0
                self._unread.remove(page)

    def settle(self) -> DeviceError | None:
        """Read everything; return the first error since the last call that nobody received."""
        with self.lock:
            for page in [*self._unread]:
                self.read(page)
            for guard in [*self._guards]:
                guard.read()
            failed, self._failed = self._failed, []
        first = next((o for o in failed if not o.told and o.errors), None)
        if first is None:
            return None
        first.told = True
        return next(iter(first.errors.values()))

    # Guards.
    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep the words of all pages while a run that reads some is queued."""
        with self.lock:
            self._readers += 1
        try:
            yield
        finally:
            with self.lock:
                self._readers -= 1

    def note(self, guard: Readable) -> None:
        """Remember a guard with a queued run until it is read."""
        with self.lock:
            if len(self._guards) >= _RUNS:
                for other in [*self._guards]:
                    other.read()
            self._guards.append(guard)

    def noted(self, guard: Readable, failed: Result | None) -> None:
        """Forget a guard that was read, and remember a failed run."""
        with self.lock:
            if guard in self._guards and (failed is not None or guard.fine):
                self._guards.remove(guard)
            if failed is not None and len(self._failed) < _RUNS:
                self._failed.append(failed)

    def _turn(self, nbytes: int) -> Page:
        """Switch to a page with room: the last one if it was read, or a new one."""
        parts = self.pool.parts
        if len(self._unread) >= (1 if parts else _RUNS):
            for page in [*self._unread]:
                self.read(page)
        last = self._page
        if last is not None and not last.taken and nbytes <= last.nbytes:
            return last
        room = max(nbytes, min(_RUNS * nbytes, _NBYTES)) if parts else nbytes
        page = self._page = Page(zeroed(self.pool, room), room)
        return page


class Words(NamedTuple):
    """A block, and the words in it."""

    block: KernelBuffer
    words: tuple[c_int32, ...]

    @property
    def clean(self) -> bool:
        """Whether all words are zero."""
        return not [word for word in self.words if word.value]


def zeroed(pool: Pool, nbytes: int) -> KernelBuffer:
    """Return a fresh block of zeros."""
    block = pool.uncounted(nbytes)
    pool.memory.write(block.handle, bytes(nbytes))
    return block


def words_at(pool: Pool, nbytes: int, places: Iterable[int]) -> Words:
    """Return a fresh block of zeros with words at these byte offsets."""
    block = zeroed(pool, nbytes)
    address = pool.memory.address(block.handle)
    assert address is not None
    return Words(block, tuple(c_int32.from_address(address + at) for at in places))
