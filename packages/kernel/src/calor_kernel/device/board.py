"""Words in which kernels note that they failed: of many runs, read at once.

Requirements: a run that may fail copies nothing to the device or from it, and waits for nothing;
who looks or waits reads with one copy what all runs left since somebody did; a word serves another
run when it was read, and not before, in whatever thread either of them is.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from calor.errors import DeviceError
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.outcomes import Outcome, Run
from calor_kernel.device.pool import Pool

# Bytes of a page at most, and runs whose words are kept unread. A device that prepares launches for
# where their words are meets so many places again and again.
_NBYTES: Final = 1 << 16
_RUNS: Final = 256


class Page:
    """Memory of which runs take their words one behind the other, ``taken`` bytes so far.

    ``open``: runs that have words and are not queued yet. ``outcomes``: those of runs that are,
    and of which nobody has read the words. ``clear``: whether what nobody takes is zero.
    """

    __slots__ = ("buffer", "clear", "nbytes", "open", "outcomes", "taken")

    def __init__(self, buffer: KernelBuffer, nbytes: int) -> None:
        self.buffer = buffer
        self.nbytes = nbytes
        self.taken = self.open = 0
        self.outcomes: list[Outcome] = []
        self.clear = False


class Board:
    """The words of a device's runs. No lock is held while a run is queued."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._lock = threading.RLock()
        self._page: Page | None = None
        # Pages with words that were taken, in the order of the runs.
        self._unread: list[Page] = []
        # Runs that failed since somebody waited for all.
        self._failed: list[Outcome] = []

    def take(self, nbytes: int, host_numbers: bool) -> tuple[Page, int, Any]:
        """Return a page, where a run's block of bytes begins in it, and the handle of that block.

        Its words are zero. What was taken is given to :meth:`put` or :meth:`leave`.
        ``host_numbers``: whether the block holds numbers of the host beside the words.
        """
        with self._lock:
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
        """Return the outcome of a run that is queued."""
        outcome = Outcome(run, self, page, start)
        with self._lock:
            page.open -= 1
            page.outcomes.append(outcome)
        return outcome

    def leave(self, page: Page) -> None:
        """Let the words of a run go that was not queued, or in part."""
        with self._lock:
            page.open -= 1
            page.clear = False

    def read(self, page: Page) -> None:
        """Tell the outcomes of a page, which waits for their runs; the page serves again."""
        memory, handle = self.pool.memory, page.buffer.handle
        with self._lock:
            if page.outcomes:
                words = np.empty(page.taken // 4, np.int32)
                memory.copy_out(handle, 0, words)
                outcomes, page.outcomes = page.outcomes, []
                failed = [o for o in outcomes if o.tell(words)]
                page.clear = page.clear and not failed
                self._failed += failed[: _RUNS - len(self._failed)]
            # Who has words and is not queued yet will leave its outcome here.
            if page.taken and not page.open:
                if not page.clear:
                    memory.write(handle, bytes(page.taken))
                    page.clear = True
                page.taken = 0
                self._unread.remove(page)

    def settle(self) -> DeviceError | None:
        """Read everything; return the first error since this was last done that nobody got."""
        with self._lock:
            for page in [*self._unread]:
                self.read(page)
            failed, self._failed = self._failed, []
        return next((e for o in failed if not o.told for e in o.errors.values()), None)

    def _turn(self, nbytes: int) -> Page:
        """Go on to a page with room: the last one, once it was read, or a new one."""
        parts = self.pool.parts
        if len(self._unread) >= (1 if parts else _RUNS):
            for page in [*self._unread]:
                self.read(page)
        last = self._page
        if last is not None and not last.taken and nbytes <= last.nbytes:
            return last
        room = max(nbytes, min(_RUNS * nbytes, _NBYTES)) if parts else nbytes
        page = Page(self.pool.uncounted(room), room)
        self.pool.memory.copy_in(page.buffer.handle, 0, np.zeros(room, np.uint8))
        page.clear = True
        self._page = page
        return page
