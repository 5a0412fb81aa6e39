"""Waiting in tests for what other threads and servers do, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until something holds; AssertionError if it does not in time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)
