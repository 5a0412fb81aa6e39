"""Quotas of a token that change while a server runs, one at a time or several.

An account counts what a token uses, and an operator changes what it may use. From the change on
each bound is the new one, and what was used under a bound that stays is still used. Accounts do
what drawn clients ask, and a model of a few numbers says what is granted. Time stands almost still.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from .base import Check, Place

CONTRACT: Final = "a quota that changes holds from then on, and the others stay as they were"
PACKAGE: Final = "calor_http"
_HISTORIES, _ACTIONS = 12, 40
# Requests a second, so few that none is gained within a check.
_SLOW: Final = 1e-9
_SHARE: Final = 3
Rng = np.random.Generator


class _Model:
    """What a token has used, and what is left of its requests and its time."""

    def __init__(self, quota: Any) -> None:
        self.memory = self.sessions = self.pending = 0
        self.requests: float | None = None
        self.seconds: float | None = None
        self.quota: Any = None
        self.give(quota)

    def give(self, quota: Any) -> None:
        old, self.quota = self.quota, quota
        rate, burst = quota.requests_per_second, quota.requests_burst
        if old is None or (rate, burst) != (old.requests_per_second, old.requests_burst):
            self.requests = None if rate is None else max(1.0, burst or 2 * rate)
        time = quota.device_seconds, quota.device_period
        if old is None or time != (old.device_seconds, old.device_period):
            self.seconds = quota.device_seconds


def _drawn(rng: Rng, name: str) -> Any:
    """Return a bound of a name, sometimes none."""
    none = rng.random() < 0.2
    if name == "requests_per_second":
        return None if none else _SLOW * int(rng.integers(1, 4))
    if name == "device_period":
        return float(10 ** int(rng.integers(9, 12)))
    if none:
        return None
    if name == "memory":
        return int(rng.integers(1, 2000))
    if name == "requests_burst":
        return float(rng.integers(1, 12))
    if name == "device_seconds":
        return float(rng.integers(1, 6)) + 0.25
    return int(rng.integers(2 if name == "pending" else 1, 6))


_NAMES: Final = ("memory", "requests_per_second", "requests_burst", "device_seconds",
                 "device_period", "sessions", "pending")  # fmt: skip


class _History:
    """An account, its model, and what was asked of both."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.part = import_module(f"{PACKAGE}.server.quotas")
        self.errors = import_module(f"{PACKAGE}.errors")
        quota = self.part.Quota(**{name: _drawn(rng, name) for name in _NAMES})
        self.account, self.model = self.part.Account("drawn", quota), _Model(quota)
        self.told = [f"{quota}"]

    def granted(self, name: str, want: bool, *given: Any) -> None:
        """Ask the account; whether it grants is what the model says."""
        try:
            getattr(self.account, name)(*given)
            got = True
        except (self.errors.QuotaError, self.errors.MemoryQuotaError):
            got = False
        self.told.append(f"{name}{given}")
        said = "granted" if got else "refused"
        assert got == want, f"{said} after {'; '.join(self.told)}"

    def change(self) -> None:
        """Give another quota, which differs by one bound or by several."""
        names = self.rng.permutation(_NAMES)[: 1 if self.rng.random() < 0.8 else 3]
        changes = {str(name): _drawn(self.rng, str(name)) for name in names}
        quota = replace(self.model.quota, **changes)
        self.told.append(f"given {changes}")
        self.account.give(quota)
        self.model.give(quota)

    def reserve(self) -> None:
        more, model = int(self.rng.integers(0, 600)), self.model
        most = model.quota.memory
        fits = most is None or model.memory + more <= most
        self.granted("reserve", fits, "holder", model.memory, more, "add")
        model.memory += more if fits else 0

    def free(self) -> None:
        self.model.memory = int(self.rng.integers(0, self.model.memory + 1))
        self.told.append(f"holds {self.model.memory}")
        self.account.memory.settle("holder", self.model.memory)

    def admit(self) -> None:
        left = self.model.requests
        self.granted("admit", left is None or left >= 1)
        if left is not None and left >= 1:
            self.model.requests = left - 1

    def work(self) -> None:
        # Halves, since nothing at all is something a moment later.
        seconds = float(self.rng.integers(3)) + 0.5
        left = self.model.seconds
        self.granted("check_time", left is None or left > 0)
        self.account.spent(seconds)
        self.told.append(f"spent {seconds}")
        if left is not None:
            self.model.seconds = left - seconds

    def enter(self) -> None:
        fits = self.model.pending < (self.model.quota.pending or _SHARE)
        self.granted("enter", fits, _SHARE)
        self.model.pending += fits

    def open(self) -> None:
        fits = self.model.sessions < (self.model.quota.sessions or _SHARE)
        self.granted("open", fits, _SHARE)
        self.model.sessions += fits

    def end(self) -> None:
        if self.model.pending:
            self.account.leave()
            self.model.pending -= 1
        if self.model.sessions:
            self.account.close()
            self.model.sessions -= 1
        self.told.append("one ends of each")


_DONE: Final = ("change", "change", "reserve", "free", "admit", "admit", "admit", "work", "enter",
                "open", "end")  # fmt: skip


def _run(place: Place) -> None:
    for number in range(_HISTORIES):
        history = _History(np.random.default_rng([place.seed, 997, number]))
        for _ in range(_ACTIONS):
            getattr(history, str(history.rng.choice(_DONE)))()


def changed_quotas() -> Iterator[Check]:
    """Yield the check, if calor-http is installed."""
    if find_spec(PACKAGE) is not None:
        yield Check(
            kind="devices",
            subject="changed-quotas",
            tier="full",
            contract=CONTRACT,
            run=_run,
            text=partial(inspect.getsource, inspect.getmodule(_run) or _run),
            looks=True,
        )
