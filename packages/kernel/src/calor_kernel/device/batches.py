"""When a device is told to begin with what it was given, which may cost more than a small launch.

Requirements: small launches are told together; a device that is told seldom computes all the same
while the host goes on, for it may rest between one batch and the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# Work of so much takes a large GPU some twenty microseconds.
ENOUGH: Final = 1 << 26


class Batch:
    """Launches that wait: up to ``first`` of them, or up to an amount of work.

    ``begin`` tells the device. Both double from batch to batch, up to ``most`` launches and up to
    ``growing`` of work, until somebody has waited for the device, which :meth:`rested` says. Who
    tells it in another way says so by :meth:`begun`.
    """

    def __init__(
        self,
        begin: Callable[[], object],
        first: int,
        growing: int = ENOUGH,
        most: int = 0,
    ) -> None:
        self._begin = begin
        self._first, self._most = first, max(first, most)
        self._growing = growing
        self._launches = self._work = 0
        self._many, self._enough = first, ENOUGH

    def add(self, launches: int, work: int) -> None:
        """Count launches and their work, as :attr:`Step.work`, and begin if that is enough."""
        self._launches += launches
        self._work += work
        if self._launches >= self._many or self._work >= self._enough:
            self._enough = min(2 * self._enough, self._growing)
            self._many = min(2 * self._many, self._most)
            self.begun()
            self._begin()

    def begun(self) -> None:
        """Start to count anew."""
        self._launches = self._work = 0

    def rested(self) -> None:
        """Take little for enough again."""
        self._many, self._enough = self._first, ENOUGH
