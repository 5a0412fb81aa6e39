"""Whose work a device does next: fair among tokens by the time that each has used.

Requirements: who sends much waits for those who send little, however many sessions it has; nobody
waits where nobody else is there; a long request is interrupted between two commands; what a device
was left to do by one token is counted as that token's, and its errors are told to nobody else.

Each token has a virtual time, the seconds that it used divided by its weight, and the one with the
least is next (start-time fair queueing). A token that comes begins at the virtual time of the one
that is served, so that waiting saves nothing up.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from time import perf_counter
from typing import Any, Final

from calor_http.server.quotas import Account

# After so many seconds the next one's turn comes, if somebody waits.
SLICE: Final = 0.02


class FairQueue:
    """The order of those who wait for one device."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: Account | None = None
        self._waiting: dict[Account, deque[threading.Lock]] = {}
        self._used: dict[Account, float] = {}
        self._now = 0.0
        self.turns: Counter[str] = Counter()
        # How long it was held in all.
        self.seconds = 0.0
        # Waits for what the last turn left to do; set by who held it.
        self.owed: tuple[Hashable, Callable[[], None]] | None = None

    def enter(self, account: Account) -> None:
        """Wait for the device, and take it."""
        with self._lock:
            if account is not self._holder and account not in self._waiting:
                self._used[account] = max(self._used.get(account, 0.0), self._now)
            if self._holder is None:
                self._give(account)
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.setdefault(account, deque()).append(gate)
        gate.acquire()

    def leave(self, seconds: float) -> None:
        """Give the device to who is next, after so many seconds of its time."""
        with self._lock:
            holder = self._holder
            assert holder is not None, "a device is left by nobody"
            self._used[holder] += seconds / holder.quota.weight
            self.seconds += seconds
            self._holder = None
            if not self._waiting:
                # What was used while nobody else was there is held against nobody.
                self._used.clear()
                self._now = 0.0
                return
            following = min(self._waiting, key=self._used.__getitem__)
            gates = self._waiting[following]
            gate = gates.popleft()
            # Behind the others with the same virtual time.
            del self._waiting[following]
            if gates:
                self._waiting[following] = gates
            self._give(following)
        gate.release()

    def _give(self, account: Account) -> None:
        self._holder = account
        self._now = max(self._now, self._used[account])
        self.turns[account.name] += 1

    @property
    def crowded(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def waiting(self) -> dict[str, int]:
        """Return how many wait, by the name of the token."""
        with self._lock:
            return {account.name: len(gates) for account, gates in self._waiting.items()}


class Turns:
    """The queues of all devices of a server, and one for compiling."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, FairQueue] = {}
        self._lock = threading.Lock()

    def queue(self, device: Hashable) -> FairQueue:
        """Return the queue of a device; None is the compiler's."""
        found = self._queues.get(device)
        if found is None:
            with self._lock:
                found = self._queues.setdefault(device, FairQueue())
        return found

    def waiting(self) -> Counter[str]:
        """Return how many wait anywhere, by the name of the token."""
        total: Counter[str] = Counter()
        for queue in list(self._queues.values()):
            total.update(queue.waiting())
        return total

    def taken(self) -> Counter[str]:
        """Return how many turns were taken, by the name of the token."""
        total: Counter[str] = Counter()
        for queue in list(self._queues.values()):
            total.update(queue.turns)
        return total


class Turn:
    """A request's way through the queues: it holds one device at a time, or none.

    Parameters
    ----------
    turns : Turns
        The queues of the server.
    account : Account
        Who pays.
    settle : callable
        Takes a device; waits for its work, and notes errors as the session's.
    """

    def __init__(self, turns: Turns, account: Account, settle: Callable[[Any], None]) -> None:
        self._turns = turns
        self._account = account
        self._settle = settle
        self._queue: FairQueue | None = None
        self._device: Any = None
        self._began = 0.0

    def on(self, device: Any) -> None:
        """Hold a device, None for the compiler, for the next command."""
        if self._queue is not None:
            spent = perf_counter() - self._began
            if device is self._device and not (self._queue.crowded and spent > SLICE):
                return
            self.end()
        queue = self._turns.queue(device)
        queue.enter(self._account)
        self._queue, self._device = queue, device
        owed, queue.owed = queue.owed, None
        # Methods of one session are equal, and not the same.
        if owed is not None and owed[0] != self._settle:
            owed[1]()
        self._began = perf_counter()

    def end(self) -> None:
        """Give back what is held, and count its time."""
        queue, self._queue = self._queue, None
        if queue is None:
            return
        device, account, settle, began = self._device, self._account, self._settle, self._began
        if device is not None:
            if queue.crowded or account.time is not None:
                settle(device)
            else:
                queue.owed = settle, lambda: _pay(account, settle, device)
        seconds = perf_counter() - began
        account.spent(seconds)
        queue.leave(seconds)


def _pay(account: Account, settle: Callable[[Any], None], device: Any) -> None:
    """Wait for what another session left to do, and count it as that one's."""
    began = perf_counter()
    settle(device)
    account.spent(perf_counter() - began)
