"""When a device is told to begin with what it was given, which may cost more than a small launch.

Requirements: small launches are told together; a device that has nothing to do is told soon, so
that it computes while the host goes on; one that has is told seldom, for it may rest between one
batch and the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# Work of so much takes a large GPU some twenty microseconds.
ENOUGH: Final = 1 << 26


class Batch:
    """Launches that wait: up to ``most`` of them, or up to an amount of work.

    ``begin`` tells the device. The amount doubles from batch to batch, up to ``growing``, until
    somebody has waited for the device, which :meth:`rested` says. Who tells it in another way says
    so by :meth:`begun`. Where the device can say that it has nothing to do, ``idle`` asks it, and
    fewer launches are enough then: one after a wait, and twice as many from batch to batch.
    """

    def __init__(
        self,
        begin: Callable[[], object],
        most: int,
        growing: int = ENOUGH,
        idle: Callable[[], bool] | None = None,
    ) -> None:
        self._begin = begin
        self._most = most
        self._growing = growing
        self._idle = idle
        self._launches = self._work = 0
        self._enough, self._few = ENOUGH, 1

    def add(self, launches: int, work: int) -> None:
        """Count launches and their work, as :attr:`Step.work`, and begin if that is enough."""
        self._launches += launches
        self._work += work
        if self._launches >= self._most or self._work >= self._enough:
            self._enough = min(2 * self._enough, self._growing)
            self.begun()
            self._begin()
        elif self._idle is not None and self._launches >= self._few and self._idle():
            self._few *= 2
            self.begun()
            self._begin()

    def begun(self) -> None:
        """Start to count anew."""
        self._launches = self._work = 0

    def rested(self) -> None:
        """Take little for enough again."""
        self._enough, self._few = ENOUGH, 1
