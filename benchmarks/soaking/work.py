"""What clients compute: work whose results have the same bits however often it is begun again.

Requirements: whoever loses a server goes on from what it stored last, as a program that trains
does; each wait is timed, and the kind of each error is counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import numpy as np

import calor
from calor.errors import CalorError, DeviceLostError

Array = np.ndarray[Any, Any]
MIB = 1 << 20
# A file of a run is written after so many steps of training.
STORED = 5
KINDS = ("training", "upload", "download", "loading", "calls")


class Told:
    """How a client fared.

    Attributes
    ----------
    errors : Counter of str
        The typed errors by their names, "untyped" ones with their texts.
    slowest : float
        The seconds of the longest wait.
    wrong : list of str
        The work whose results had other bits than undisturbed.
    done : Counter of str
        How much work of each kind was finished.
    """

    def __init__(self) -> None:
        self.errors: Counter[str] = Counter()
        self.slowest = 0.0
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Time a wait."""
        began = monotonic()
        try:
            yield
        finally:
            self.slowest = max(self.slowest, monotonic() - began)

    def note(self, error: BaseException) -> None:
        """Count an error."""
        name = type(error).__name__
        typed = isinstance(error, CalorError)
        self.errors[name if typed else f"untyped {name}: {error}"] += 1

    def data(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {
            "done": dict(self.done),
            "errors": dict(self.errors),
            "slowest_s": self.slowest,
            "wrong": self.wrong,
        }


def digest(arrays: list[Array]) -> str:
    """Return a name for the bits of arrays."""
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:16]


def normal(seed: int, *shape: int) -> Array:
    """Return numbers that a seed draws."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def patient(told: Told, device: Any, work: Callable[[], Any]) -> Any:
    """Return what work returns, which is begun again where the server was lost."""
    while True:
        try:
            with told.waits(), calor.device(device):
                return work()
        except DeviceLostError as error:
            told.note(error)
            sleep(0.02)


def training(told: Told, device: Any, seed: int, steps: int = 20) -> str:
    """Train two layers from the last stored state on, wherever the server is lost."""
    stored = [normal(seed, 24, 32), normal(seed + 1, 32, 8)]
    stored += [np.zeros_like(a) for a in stored]
    there = 0

    def go_on() -> tuple[list[Array], int]:
        first, second, *moments = state = [calor.asarray(a) for a in stored]

        @calor.jit
        def step(x: Any, wanted: Any) -> None:
            def loss(first: Any, second: Any) -> Any:
                return ((calor.tanh(x @ first) @ second - wanted) ** 2).mean()

            slopes = calor.grad(loss, argnums=(0, 1))(first, second)
            for weight, moment, slope in zip((first, second), moments, slopes, strict=True):
                moment[...] = moment * 0.9 + slope
                weight[...] = weight - moment * 0.05

        for number in range(there, there + STORED):
            batch = normal(1000 * seed + number, 16, 24), normal(number, 16, 8)
            step(*map(calor.asarray, batch))
        return [np.array(a.numpy()) for a in state], there + STORED

    while there < steps:
        stored, there = patient(told, device, go_on)
    return digest(stored)


def upload(told: Told, device: Any, seed: int) -> str:
    """Send contents of several pieces, and fetch what was made of them."""
    given = normal(seed, (1 + seed % 3) * MIB + seed)
    return digest([patient(told, device, lambda: (calor.asarray(given) * 2 + 1).numpy())])


def download(told: Told, device: Any, seed: int) -> str:
    """Fetch contents that were made there."""
    size = (1 + seed % 4) * MIB + seed
    return digest([patient(told, device, lambda: (calor.arange(size) % (3 + seed % 89)).numpy())])


def loading(told: Told, device: Any, seed: int) -> str:
    """Send a graph with its constants that the server has not seen, and run it."""
    given, weights = normal(seed, 3 + seed % 61, 64), normal(seed + 7, 64, 2048)

    def load() -> Array:
        made = calor.jit(lambda x: calor.tanh(x @ calor.asarray(weights)) * (1.0 + seed))
        return np.array(made(calor.asarray(given)).numpy())

    return digest([patient(told, device, load)])


def calls(told: Told, device: Any, seed: int) -> str:
    """Call a small program many times, and wait now and then."""

    def call() -> list[Array]:
        x = calor.asarray(normal(seed, 1 + seed % 7, 50))
        step = calor.jit(lambda x: x * 0.5 + 1.0)
        sums = []
        for number in range(60):
            x = step(x)
            if number % 12 == 0:
                sums.append(np.array(x.sum().numpy()))
        return [*sums, np.array(x.numpy())]

    return digest(patient(told, device, call))


WORK: dict[str, Callable[[Told, Any, int], str]] = dict(
    zip(KINDS, (training, upload, download, loading, calls), strict=True)
)


class Undisturbed:
    """What work comes to where nothing is lost, on a device of this process."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._known: dict[tuple[str, int], str] = {}

    def of(self, kind: str, seed: int) -> str:
        """Return the digest of some work."""
        key = kind, seed
        if key not in self._known:
            self._known[key] = WORK[kind](Told(), self._device, seed)
        return self._known[key]


def do(told: Told, device: Any, kind: str, seed: int, undisturbed: Undisturbed) -> None:
    """Do some work there and here, and compare the bits."""
    found = WORK[kind](told, device, seed)
    told.done[kind] += 1
    if found != undisturbed.of(kind, seed):
        told.wrong.append(f"{kind} {seed}")
