"""What a token may use of a server, and what it has used.

Requirements: one token's use never takes from another's; bytes are counted before they are taken,
also where two sessions of a token ask at the same time; time is counted after it was used, so a
token may owe some, and waits until that is paid.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from time import monotonic
from typing import Any, Final

from calor.errors import ArgumentError
from calor.units import bytes_of, bytes_text
from calor_http.errors import MemoryQuotaError, QuotaError

# When a client that has as many requests open as it may is told to ask again.
_SOON: Final = 0.25


@dataclass(frozen=True, slots=True)
class Quota:
    """What a token may use; None sets no bound but those of the server.

    Parameters
    ----------
    memory : int or None
        The most bytes that its sessions hold on all devices together, transfers included.
    requests_per_second : float or None
        How many requests it may send in a second, on average.
    requests_burst : float or None
        How many requests it may send at once; by default those of two seconds.
    device_seconds : float or None
        How many seconds its commands may keep devices busy within a period.
    device_period : float
        The seconds of that period.
    sessions : int or None
        The most sessions; by default an equal share of the server's.
    pending : int or None
        The most requests that wait or run, two or more; by default an equal share of the server's.
    weight : float
        The share of a device's time when others want it too, beside theirs.
    observes : bool
        Whether it may see the figures of all tokens.
    """

    memory: int | None = None
    requests_per_second: float | None = None
    requests_burst: float | None = None
    device_seconds: float | None = None
    device_period: float = 3600.0
    sessions: int | None = None
    pending: int | None = None
    weight: float = 1.0
    observes: bool = False


def quota_fields() -> list[str]:
    """Return the names of the numbers in a quota."""
    return [field.name for field in fields(Quota) if field.name != "observes"]


def number_of(name: str, value: Any) -> Any:
    """Return a number of a quota that an operator wrote; ArgumentError if it is none."""
    if name == "memory":
        return bytes_of(int(value) if str(value).isdecimal() else value, name)
    whole = name in ("sessions", "pending")
    kinds = (int,) if whole else (int, float)
    if isinstance(value, str):
        try:
            value = int(value) if whole else float(value)
        except ValueError:
            value = None
    # A request that is repeated while it runs is one more for a moment.
    least = 1 if name == "pending" else 0
    if type(value) not in kinds or not least < value < float("inf"):
        raise ArgumentError(f"{name} is a {'whole ' * whole}number above {least}, not {value!r}")
    return value


class Bucket:
    """A level that rises with time up to a size, and from which is taken what may be used.

    Parameters
    ----------
    rate : float
        How much it rises in a second.
    size : float
        Its highest level, at which it begins.
    clock : callable, optional
        Returns seconds.
    """

    def __init__(self, rate: float, size: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._size = size
        self._clock = clock
        self._level = size
        self._at = clock()
        self._lock = threading.Lock()

    def take(self, amount: float) -> float:
        """Take an amount if it is there; return 0, or the seconds until it will be."""
        with self._lock:
            self._rise()
            if self._level >= amount:
                self._level -= amount
                return 0.0
            return (amount - self._level) / self._rate

    def spend(self, amount: float) -> None:
        """Take an amount that was used already; the level may fall below nothing."""
        with self._lock:
            self._rise()
            self._level -= amount

    @property
    def wait(self) -> float:
        """The seconds until something is there; 0 if something is."""
        with self._lock:
            self._rise()
            # A hundredth of a period's amount, so that what is there is of some use.
            least = self._size / 100
            return 0.0 if self._level > 0 else (least - self._level) / self._rate

    @property
    def level(self) -> float:
        """What is there."""
        with self._lock:
            self._rise()
            return self._level

    def _rise(self) -> None:
        now = self._clock()
        self._level = min(self._size, self._level + (now - self._at) * self._rate)
        self._at = now


class Ledger:
    """The bytes that the sessions of a token hold."""

    def __init__(self) -> None:
        self._held: dict[Hashable, int] = {}
        self._lock = threading.Lock()
        self.nbytes = 0

    def reserve(self, holder: Hashable, held: int, more: int, most: int | None) -> int | None:
        """Note that one holds so much and takes more; or return what the others and it hold."""
        with self._lock:
            others = self.nbytes - self._held.get(holder, 0)
            if most is not None and others + held + more > most:
                return others + held
            self._note(holder, held + more)
            return None

    def settle(self, holder: Hashable, held: int) -> None:
        """Note what one holds."""
        with self._lock:
            self._note(holder, held)

    def _note(self, holder: Hashable, held: int) -> None:
        self.nbytes += held - self._held.get(holder, 0)
        if held:
            self._held[holder] = held
        else:
            self._held.pop(holder, None)


class Account:
    """What a token has used: its sessions, memory, requests and device time.

    Parameters
    ----------
    name : str
        The token's name, which is no secret.
    quota : Quota, optional
        What it may use.
    """

    def __init__(self, name: str, quota: Quota | None = None) -> None:
        self.name = name
        self.memory = Ledger()
        self.sessions = 0
        # Requests that wait or run.
        self.pending = 0
        self.requests = 0
        self.device_seconds = 0.0
        self._lock = threading.Lock()
        self.give(quota or Quota())

    def give(self, quota: Quota) -> None:
        """Set what the token may use from now on; a bucket begins anew where its numbers change."""
        old = getattr(self, "quota", None)
        self.quota = quota
        rate = quota.requests_per_second
        if old is None or (rate, quota.requests_burst) != (
            old.requests_per_second,
            old.requests_burst,
        ):
            burst = quota.requests_burst or 2 * (rate or 0)
            self.rate = None if rate is None else Bucket(rate, max(1.0, burst))
        time = quota.device_seconds, quota.device_period
        if old is None or time != (old.device_seconds, old.device_period):
            seconds, period = time
            self.time = None if seconds is None else Bucket(seconds / period, seconds)

    def reserve(self, holder: Hashable, held: int, more: int, op: str | None) -> None:
        """Raise MemoryQuotaError where one of its sessions would take too much."""
        most = self.quota.memory
        there = self.memory.reserve(holder, held, more, most)
        if there is not None and most is not None:
            raise MemoryQuotaError(
                f"token {self.name!r} may hold {bytes_text(most)} on this server, of which "
                f"{bytes_text(there)} are in use and {bytes_text(more)} more are needed; free "
                f"tensors, end other programs with this token, or ask for a larger quota of memory",
                op=op,
            )

    def admit(self) -> None:
        """Count a request; QuotaError if it comes too early."""
        wait = 0.0 if self.rate is None else self.rate.take(1.0)
        if wait:
            raise _later(
                f"token {self.name!r} may send {self.quota.requests_per_second:g} requests a "
                f"second; send fewer, larger ones, or ask for a larger quota of requests",
                wait,
            )
        self.requests += 1

    def check_time(self) -> None:
        """Raise QuotaError while no device time is left."""
        wait = 0.0 if self.time is None else self.time.wait
        if wait:
            raise _later(
                f"token {self.name!r} used its {self.quota.device_seconds:g} s of device time for "
                f"each {self.quota.device_period:g} s; what it holds stays and can be read, and "
                f"work goes on in {wait:.0f} s, or with a larger quota of device time",
                wait,
            )

    def spent(self, seconds: float) -> None:
        """Count device time that was used."""
        with self._lock:
            self.device_seconds += seconds
        if self.time is not None:
            self.time.spend(seconds)

    def enter(self, share: int) -> None:
        """Count a request that waits or runs; QuotaError if there are too many."""
        most = self.quota.pending or share
        with self._lock:
            if self.pending >= most:
                raise _later(
                    f"token {self.name!r} has {most} requests under way, its quota; wait for the "
                    f"answers before sending more",
                    _SOON,
                )
            self.pending += 1

    def leave(self) -> None:
        """Count a request that is answered."""
        with self._lock:
            self.pending -= 1

    def open(self, share: int) -> None:
        """Count a session that begins; QuotaError if there are too many."""
        most = self.quota.sessions or share
        with self._lock:
            if self.sessions >= most:
                raise _later(
                    f"token {self.name!r} has {most} sessions, its quota; end a program that uses "
                    f"this server (calor_http.close), or ask for a larger quota of sessions",
                    5.0,
                )
            self.sessions += 1

    def close(self) -> None:
        """Count a session that ended."""
        with self._lock:
            self.sessions -= 1


def _later(text: str, wait: float) -> QuotaError:
    error = QuotaError(text)
    error.retry_after = float(wait)
    return error
