"""A limit of time for each check, so that a device that hangs does not hang the suite.

In the main thread an alarm raises `HangError` in the check, which then fails like any other; the
run goes on. A call of a driver may hear no alarm. Then a thread reports what is known, the check
that hangs as failed and the rest as not run, and ends the process. A call that holds the
interpreter's lock is ended by ``faulthandler``, which prints where all threads are.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

# Seconds between an alarm and the end of the process, and once more until it is killed.
GRACE = 20.0
# Seconds for which the traceback is put off at once, as each time starts a thread of the system.
_AHEAD: Final = 2.0


class HangError(Exception):
    """A check took longer than its limit.

    It is no error of calor: a backend may convert those, and any other exception of a check is
    reported as it is.
    """


class Watchdog:
    """Watches one check after another.

    Parameters
    ----------
    seconds : float or None
        The limit of a check; None is no limit.
    stuck : callable, default None
        Called with the name of a check that hears no alarm, before the process ends.
    """

    def __init__(self, seconds: float | None, stuck: Callable[[str], None] | None = None) -> None:
        self.seconds = seconds
        self.stuck = stuck
        # Whether the last check got an alarm, which a backend may have made an error of its own.
        self.fired = False
        self._name = ""
        self._end: float | None = None
        # When the process ends, with a traceback, unless that is put off.
        self._dumps = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch while a run lasts."""
        if self.seconds is None or self.stuck is None:
            yield
            return
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            self._stop.set()
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            end = self._end
            if end is None:
                self._between_checks()
            elif time.monotonic() > end + GRACE:
                assert self.stuck is not None
                self.stuck(self._name)
                os._exit(1)

    @contextmanager
    def watched(self, name: str, count: int = 1) -> Iterator[None]:
        """Limit the time of a check, or of ``count`` checks together.

        Parameters
        ----------
        name : str
            The name of the check.
        count : int, default 1
            How many limits it may take.

        Raises
        ------
        HangError
            In the check, when the time is over.
        """
        if self.seconds is None:
            yield
            return
        limit = self.seconds * count
        self.fired = False
        self._name, self._end = name, time.monotonic() + limit
        alarmed = _can_alarm()
        if self._thread is not None and self._dumps < self._end + 2 * GRACE:
            self._dump_at(self._end + 2 * GRACE + _AHEAD)
        if alarmed:
            text = f"it hangs: nothing within {limit:g} seconds"
            before = signal.signal(signal.SIGALRM, self._handler(text))
            signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            yield
        finally:
            if alarmed:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            self._end = None

    def _dump_at(self, end: float) -> None:
        """Have the process end with a traceback at a time, by a thread without Python."""
        with self._lock:
            self._dumps = end
            # What stands in for stderr may be no file.
            if sys.__stderr__ is not None:
                with suppress(OSError, ValueError):
                    late = end - time.monotonic()
                    faulthandler.dump_traceback_later(late, exit=True, file=sys.__stderr__)

    def _between_checks(self) -> None:
        """End no process for what is between two checks."""
        with self._lock:
            if self._end is None and self._dumps:
                faulthandler.cancel_dump_traceback_later()
                self._dumps = 0.0

    def _handler(self, text: str) -> Callable[[int, FrameType | None], None]:
        def handle(number: int, frame: FrameType | None) -> None:
            self.fired = True
            # What catches the first one, and waits again, gets another.
            signal.setitimer(signal.ITIMER_REAL, GRACE / 4)
            raise HangError(text)

        return handle


def _can_alarm() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and hasattr(signal, "setitimer")


# For runs without a limit.
UNWATCHED: Final = Watchdog(None)
