"""Things that are made once for each key, where making one may take long or wait for others.

Requirements: who asks for a key waits for nobody who makes another one. Opening a device may ask a
server, whose own threads, of this process perhaps, open others meanwhile: under one lock for all
keys both would wait for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Turn:
    """Whose turn it is to make the thing of one key, and how many take part in that."""

    __slots__ = ("asking", "lock")

    def __init__(self) -> None:
        # The thread that makes a thing may ask for it again.
        self.lock = threading.RLock()
        self.asking = 0


class MadeOnce(Generic[K, V]):
    """The one thing of each key, kept until it is forgotten.

    Examples
    --------
    >>> squares = MadeOnce()
    >>> squares.of(3, lambda: 9), squares.of(3, lambda: 10), squares.get(4)
    (9, 9, None)
    """

    __slots__ = ("_lock", "_made", "_turns")

    def __init__(self) -> None:
        self._made: dict[K, V] = {}
        self.unlock()

    def unlock(self) -> None:
        """Start with new locks; a forked child may have inherited one that nobody will free."""
        self._turns: dict[K, _Turn] = {}
        # Collecting garbage while it is held may run code that comes here again.
        self._lock = threading.RLock()

    def get(self, key: K) -> V | None:
        """Return the thing of a key, None when there is none."""
        return self._made.get(key)

    def items(self) -> list[tuple[K, V]]:
        """Return the keys with their things."""
        return list(self._made.items())

    def forget(self, key: K, thing: V) -> None:
        """Let a key's thing be made anew, unless it has another one by now."""
        with self._lock:
            if self._made.get(key) is thing:
                del self._made[key]

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the thing of a key, made when there is none; an error of ``make`` is raised."""
        with self._lock:
            if key in self._made:
                return self._made[key]
            turn = self._turns.setdefault(key, _Turn())
            turn.asking += 1
        try:
            with turn.lock:
                with self._lock:
                    if key in self._made:
                        return self._made[key]
                made = make()
                with self._lock:
                    self._made[key] = made
                return made
        finally:
            with self._lock:
                turn.asking -= 1
                if not turn.asking and self._turns.get(key) is turn:
                    del self._turns[key]
