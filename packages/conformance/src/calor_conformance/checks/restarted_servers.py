"""Servers that start anew while a program has tensors there: what was kept, written to, and made.

Uploads are kept or not, copied, computed with, and written to by programs and by assignments, in a
drawn order, and the server starts anew in between. A kept upload that nobody wrote to is there as
before. Everything else is lost, which is said, or has its last numbers; nothing has earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor
from calor.errors import DeviceError

from .base import Array, Check, Place
from .device_subjects import device_subjects
from .served_devices import _forget, _server

CONTRACT: Final = "after a restart of a server a tensor has its last numbers or is told to be lost"
PACKAGE: Final = "calor_http"
_HISTORIES, _ACTIONS = 2, 14
Rng = np.random.Generator


class _Held:
    """A tensor of a served device, its numbers, and whether a restart leaves it."""

    def __init__(self, tensor: Any, numbers: Array, stays: bool, made: str) -> None:
        self.tensor, self.numbers, self.stays = tensor, numbers, stays
        self.history = [made]


class _Client:
    """What a program does with a server, and the numbers that it should find."""

    def __init__(self, rng: Rng, device: Any, server: Any) -> None:
        self.rng, self.device, self.server = rng, device, server
        self.held: list[_Held] = []
        self.keeps = False
        self.lost: type[Exception] = import_module(f"{PACKAGE}.errors").LeaseLostError
        self.step = calor.jit(self._step)
        self.twice = calor.jit(lambda x: x * 2 + 1)

    @staticmethod
    def _step(state: dict[str, Any]) -> None:
        for name in state:
            state[name][...] = state[name] + 1.0

    def one(self) -> _Held:
        if not self.held:
            self.upload()
        return self.held[int(self.rng.integers(len(self.held)))]

    def tried(self, held: _Held, work: Callable[[], Any]) -> Any:
        """Return what work with a tensor gives, or None where it is lost and may be."""
        try:
            return work()
        except self.lost:
            assert not held.stays, f"a kept upload is lost, after {held.history}"
            self.held.remove(held)
            return None

    def keep(self) -> None:
        self.keeps = not self.keeps
        import_module(PACKAGE).keep(self.device, self.keeps)

    def upload(self) -> None:
        numbers = self.rng.integers(-99, 99, int(self.rng.integers(1, 9))).astype(np.float32)
        tensor = calor.asarray(numbers.copy(), device=self.device)
        self.held.append(_Held(tensor, numbers, self.keeps, f"upload, {self.keeps=}"))

    def compute(self) -> None:
        given = self.one()
        made = self.tried(given, lambda: self.twice(given.tensor))
        if made is not None:
            self.held.append(_Held(made, given.numbers * 2 + 1, False, "result"))

    def copy(self) -> None:
        given = self.one()
        made = self.tried(given, lambda: calor.asarray(given.tensor, copy=True))
        if made is not None:
            self.held.append(_Held(made, given.numbers.copy(), False, "copy"))

    def write(self) -> None:
        """Write by a program, some times: the first call of one may write elsewhere."""
        given, times = self.one(), int(self.rng.integers(1, 4))

        def work() -> bool:
            given.stays = False
            for _ in range(times):
                self.step({"x": given.tensor})
            return True

        given.history.append(f"{times} steps")
        stayed = given.stays
        if self.read(given) and self.tried(given, work):
            given.numbers = given.numbers + np.float32(times)
        else:
            given.stays = stayed and given in self.held

    def assign(self) -> None:
        given, number = self.one(), float(self.rng.integers(100, 199))
        at = int(self.rng.integers(len(given.numbers)))
        given.history.append("assignment")
        if not self.read(given):
            return
        given.stays = False

        def work() -> bool:
            given.tensor[at] = number
            return True

        if self.tried(given, work):
            given.numbers = given.numbers.copy()
            given.numbers[at] = number

    def restart(self) -> None:
        # What is queued is sent, or it may be lost as well.
        for held in [*self.held]:
            self.read(held)
        self.server.stop()
        self.server.start()
        # Whoever asks first learns of the restart.
        with suppress(self.lost):
            calor.zeros((1,), device=self.device).numpy()
        for held in self.held:
            held.history.append("restart")

    def read(self, held: _Held) -> bool:
        """Require the numbers of a tensor, if it is there."""
        found = self.tried(held, lambda: held.tensor.numpy())
        if found is None:
            return False
        same = found.tobytes() == held.numbers.tobytes()
        told = f"{found.tolist()}, not {held.numbers.tolist()}, after {held.history}"
        assert same, f"a tensor of a server is {told}"
        return True

    def verify(self) -> None:
        for held in [*self.held]:
            self.read(held)


def _one(rng: Rng, place: Place, server: Any) -> None:
    device = calor.device(f"{server.address}/{place.plain.name}")
    client = _Client(rng, device, server)
    ways = {
        client.keep: 1, client.upload: 3, client.compute: 2, client.copy: 1, client.write: 3,
        client.assign: 1, client.verify: 1,
    }  # fmt: skip
    every = [way for way, times in ways.items() for _ in range(times)]
    try:
        client.keep()
        with calor.device(device):
            for _ in range(2):
                for _ in range(_ACTIONS):
                    every[int(rng.integers(len(every)))]()
                client.restart()
                client.verify()
    finally:
        client.held.clear()
        _forget()
        import_module(PACKAGE).close(device)


def _restarted(place: Place) -> None:
    try:
        calor.device(place.plain.name)
    except DeviceError:
        # A device that is in no registry has no name by which it could be served.
        return
    for turn in range(_HISTORIES):
        with _server(place.plain.name) as server:
            _one(np.random.default_rng([place.seed, 924, turn]), place, server)


def restarted_servers() -> Iterator[Check]:
    """Yield the check, if calor-http is installed."""
    subjects: dict[str, Callable[[Place], None]] = {"restarted-servers": _restarted}
    yield from device_subjects(PACKAGE, subjects, CONTRACT)
