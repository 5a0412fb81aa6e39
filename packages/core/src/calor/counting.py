"""Sums of bytes that several threads add to.

Requirements: where an interpreter runs one thread at a time, adding to an attribute is one step and
needs no lock, which would cost as much as the rest of making a buffer. Without the global lock two
threads would lose each other's sum.
"""

from __future__ import annotations

import sys
import threading
from typing import Final, Protocol

ONE_AT_A_TIME: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()


class Counts(Protocol):
    """What counts bytes: ``in_use``."""

    in_use: int


def count(counts: Counts, nbytes: int, lock: threading.RLock = threading.RLock()) -> None:  # noqa: B008
    """Add to the bytes in use, whatever other threads add.

    Parameters
    ----------
    counts : Counts
        What counts.
    nbytes : int
        The bytes, negative when they are given back.
    lock : RLock, optional
        Held where threads run at once. Garbage may be freed while a sum is taken, so it is
        reentrant, and freed after the names of this module are gone, so it is an argument.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from calor.counting import count
    >>> counts = SimpleNamespace(in_use=3)
    >>> count(counts, 4)
    >>> counts.in_use
    7
    """
    with lock:
        counts.in_use += nbytes
