"""Batching of submissions to a device, which may cost more than a small launch.

Requirements: small launches are submitted together. Even rare submissions keep the device busy
while the host continues; it may idle between two batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# This much work takes a large GPU some twenty microseconds.
ENOUGH: Final = 1 << 26


class Batch:
    """Pending launches: up to ``first`` of them, or up to an amount of work.

    ``begin`` submits them. Both limits double from batch to batch, up to ``most`` launches and up
    to ``growing`` of work, until :meth:`rested` reports a wait for the device. Other submissions
    are reported by :meth:`begun`.
    """

    def __init__(
        self, begin: Callable[[], object], first: int, growing: int = ENOUGH, most: int = 0
    ) -> None:
        self._begin = begin
        self._first, self._most = first, max(first, most)
        self._growing = growing
        self._launches = self._work = 0
        self._many, self._enough = first, ENOUGH

    def add(self, launches: int, work: int) -> None:
        """Count launches and their work, as :attr:`Step.work`, and submit if that is enough."""
        self._launches += launches
        self._work += work
        if self._launches >= self._many or self._work >= self._enough:
            self._enough = min(2 * self._enough, self._growing)
            self._many = min(2 * self._many, self._most)
            self.begun()
            self._begin()

    def begun(self) -> None:
        """Reset the counts."""
        self._launches = self._work = 0

    def rested(self) -> None:
        """Reset the limits to their initial values."""
        self._many, self._enough = self._first, ENOUGH
