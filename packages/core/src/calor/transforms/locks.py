"""Locks that make jitted calls which change the same state run one after another.

Requirements: two calls that change nothing in common must not wait for each other, so each object
and tensor that is changed has a lock, made when a program first needs it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol


class Turn(Protocol):
    """A lock that is held while a call changes what it is for."""

    def acquire(self) -> Any:
        """Wait for the turn."""
        ...

    def release(self) -> None:
        """End it."""
        ...


_making = threading.Lock()
_locks: dict[int, tuple[Any, Any]] = {}


def _lock_of(owner: Any) -> Any:
    key = id(owner)
    with _making:
        if key not in _locks:
            # The callback runs before another object can have the same id.
            known = weakref.ref(owner, lambda _: _locks.pop(key, None))
            _locks[key] = (known, threading.RLock())
        return _locks[key][1]


class _Several:
    """Several locks, taken in the same order by everybody, so that nobody waits in a circle."""

    def __init__(self, locks: Iterable[Any]) -> None:
        self.locks = sorted(locks, key=id)

    def acquire(self) -> None:
        for lock in self.locks:
            lock.acquire()

    def release(self) -> None:
        for lock in self.locks:
            lock.release()


def turn_for(owners: Iterable[Any]) -> Turn:
    """Return the turn for changing these objects and tensors."""
    locks = list({id(lock): lock for lock in map(_lock_of, owners)}.values())
    made: Turn = locks[0] if len(locks) == 1 else _Several(locks)
    return made
