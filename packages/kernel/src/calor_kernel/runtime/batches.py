"""When a device is told to begin with what it was given, which may cost more than a small launch.

Requirements: small launches are told together; what keeps a device busy for longer than the telling
takes is told at once, so that it computes while the host goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# Work of so much takes a large GPU some twenty microseconds.
ENOUGH: Final = 1 << 26


class Batch:
    """Launches that wait: up to ``most`` of them, or up to an amount of work.

    ``begin`` tells the device. Who waits for it tells it too, and may say so by :meth:`begun`.
    """

    def __init__(self, begin: Callable[[], object], most: int) -> None:
        self._begin = begin
        self._most = most
        self._launches = self._work = 0

    def add(self, launches: int, work: int) -> None:
        """Count launches and their work, as :attr:`Step.work`, and begin if that is enough."""
        self._launches += launches
        self._work += work
        if self._launches >= self._most or self._work >= ENOUGH:
            self.begun()
            self._begin()

    def begun(self) -> None:
        """Start to count anew."""
        self._launches = self._work = 0
