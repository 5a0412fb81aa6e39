"""What a router measures of its members: beside members whose speeds are known, by a clock of ours.

A member's calls, operations, bytes and products take drawn times of a clock that only they move,
and so do its transfers. The figures are those times. They are measured once for a machine: kept in
a file that other processes read, and measured again where it is damaged or of another version.
Where members are told to be about as fast, a program is tried on each, and runs where it is fast.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from math import isclose
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

import calor
from calor.backends.device import Device, device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.errors import DeviceError, OutOfMemoryError
from calor.graph.graph import Graph
from calor.made_once import MadeOnce

from .base import Check, Place
from .device_subjects import device_subjects
from .planned_placements import _done
from .routed_programs import PACKAGE

CONTRACT: Final = "a router knows what the work of its members costs, once it has measured it"
_TURNS: Final = 4
_VECTOR: Final = 4 << 20
Rng = np.random.Generator


class _Clock:
    """Seconds that pass where somebody says so."""

    def __init__(self) -> None:
        self.now = 7.0

    def __call__(self) -> float:
        return self.now


class _Timed(NumpyBackend):
    """A device whose work takes known times of a clock; nothing else takes any.

    Parameters
    ----------
    name : str
        Its name.
    clock : _Clock
        The clock.
    costs : tuple of float
        Seconds of a call, an operation, a byte and an arithmetic operation.
    move : tuple of float
        Seconds to receive a value: to begin, and for each byte.
    late : bool
        Whether calls return at once, and the work passes when somebody waits.
    most : int
        The most bytes of a value.
    computes : bool
        Whether programs have results.
    """

    def __init__(
        self, name: str, clock: _Clock, costs: tuple[float, ...], move: tuple[float, float],
        late: bool = False, most: int = 1 << 40, computes: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.name = name
        self._clock, self._costs, self._move = clock, costs, move
        self._late, self._due, self._most = late, 0.0, most
        self.computes = computes
        self.calls = self.largest = 0
        self.fails = False

    def upload(self, index: int, array: Any) -> Any:
        self.largest = max(self.largest, array.nbytes)
        if array.nbytes > self._most:
            raise OutOfMemoryError(f"{array.nbytes} bytes are more than {self._most}")
        if self._move[0]:
            self._clock.now += self._move[0] + self._move[1] * array.nbytes
        return super().upload(index, array)

    def synchronize(self, index: int) -> None:
        self._clock.now += self._due
        self._due = 0.0

    def compile(self, index: int, graph: Graph) -> Any:
        inner = super().compile(index, graph)
        call, *each = self._costs
        done = [_done(graph, node) for node in graph.nodes]
        work = sum(a * b for one in done for a, b in zip(one, each, strict=True))

        return _Work(self, inner, call, work)

    def pass_by(self, call: float, work: float) -> None:
        """Let the time of a call pass, and that of its work, now or when somebody waits."""
        self.calls += 1
        if self.fails:
            raise DeviceError("no program runs")
        self._clock.now += call
        if self._late:
            self._due += work
        else:
            self._clock.now += work


class _Work:
    """A program of a device whose work takes a known time."""

    def __init__(self, device: _Timed, inner: Any, call: float, work: float) -> None:
        self._device, self._inner = device, inner
        self._call, self._work = call, work
        # The first run compiles, which takes long.
        self._first = 1.0

    def __call__(self, inputs: Any) -> Any:
        self._device.pass_by(self._call + self._first, self._work)
        self._first = 0.0
        return self._inner(inputs) if self._device.computes else []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _costs(rng: Rng) -> tuple[float, ...]:
    return (
        float(rng.uniform(1e-6, 1e-4)), float(rng.uniform(1e-6, 1e-5)),
        float(rng.uniform(1e-11, 1e-9)), float(rng.uniform(1e-10, 1e-9)),
    )  # fmt: skip


@contextmanager
def _kept_in(folder: str) -> Iterator[tuple[Any, Any]]:
    """Give the modules of speeds and figures, of a process that has measured nothing yet."""
    speeds, figures = (import_module(f"{PACKAGE}.{n}") for n in ("speeds", "figures"))
    told: Mapping[str, str] = {"CALOR_CACHE_DIR": folder, "CALOR_CACHE": "1"}
    with patch.dict(os.environ, told), patch.object(figures, "_known", MadeOnce()):
        yield speeds, figures


def _near(got: float, want: float, what: str, off: float = 1e-6) -> None:
    assert isclose(got, want, rel_tol=off, abs_tol=1e-16), f"{what} takes {got} s, not {want} s"


def _device(name: str, rng: Rng, clock: _Clock, **options: Any) -> tuple[Any, Device, Any]:
    costs = _costs(rng)
    move = float(rng.uniform(1e-6, 1e-4)), float(rng.uniform(1e-11, 1e-9))
    backend = _Timed(name, clock, costs, move, **options)
    return backend, device_of(backend, 0), (costs, move)


def _figures(rng: Rng) -> None:
    """The figures of devices are what their work takes."""
    clock = _Clock()
    with tempfile.TemporaryDirectory() as folder, _kept_in(folder) as (speeds, _):
        backend, device, (costs, _) = _device("known", rng, clock)
        other, target, (_, move) = _device("other", rng, clock)
        late, behind, _ = _device("late", rng, clock, late=True)
        with patch.object(speeds, "perf_counter", clock):
            got = speeds.speeds_of(device)
            call, node, byte, flop = costs
            # Operations on few elements have a few bytes, too.
            _near(got.call, call, "a call", 1e-3)
            _near(got.node, node + byte * 2 * 64, "an operation")
            # The operation itself is in what is told of a byte of many.
            _near(got.byte, byte + node / (2 * _VECTOR), "a byte")
            product = flop + byte * 3 * 4 * 256**2 / (2 * 256**3)
            _near(got.flop, product, "a product's operation", 2e-2)
            begin, each = speeds.transfer(device, target)
            _near(begin, move[0] + 64 * move[1], "the begin of a transfer")
            _near(each, move[1] * (_VECTOR - 64) / _VECTOR, "a byte of a transfer")
            assert not speeds.returns_at_once(device), "calls that wait are told to return"
            assert speeds.returns_at_once(behind), "calls that return are told to wait"
            counts = backend.calls, other.calls, late.calls
            again = speeds.speeds_of(device), speeds.transfer(device, target)
            assert again == (got, (begin, each)), f"again {again}"
            assert counts == (backend.calls, other.calls, late.calls), "it is measured again"


def _within(rng: Rng) -> None:
    """Members with limits are measured within them, and those that can do nothing are slow."""
    clock = _Clock()
    with tempfile.TemporaryDirectory() as folder, _kept_in(folder) as (speeds, _):
        most = int(rng.choice([1 << 12, 1 << 16, 1 << 20]))
        backend, device, _ = _device("within", rng, clock, most=most)
        other, free, _ = _device("free", rng, clock)
        none, full, _ = _device("full", rng, clock, most=0)
        with patch.object(speeds, "perf_counter", clock):
            speeds.measure([device, free], [most, None])
            assert backend.largest <= most / 2, f"{backend.largest} bytes within {most}"
            assert other.largest >= 1 << 20, f"{other.largest} bytes are measured at most"
            calls = backend.calls + other.calls
            speeds.speeds_of(device)
            for source, target in ((device, free), (free, device)):
                speeds.transfer(source, target)
            speeds.returns_at_once(device)
            assert backend.calls + other.calls == calls, "what was measured is measured again"
            assert speeds.speeds_of(full).call > 0, "a full device has no speeds"
            assert not speeds.returns_at_once(full), "a full device returns at once"
            assert not none.calls, "a full device was called"


def _graph(size: int) -> Graph:
    x = calor.asarray(np.full((size, size), 0.25, np.float32), device="numpy")
    return calor.trace(lambda x: calor.tanh(x @ x) + calor.exp(x), x)


def _tried(rng: Rng) -> None:
    """A program of which the speeds do not tell where it is faster is tried there."""
    clock, told = _Clock(), (1e-5, 1e-4, 1e-10, 1e-10)
    with tempfile.TemporaryDirectory() as folder, _kept_in(folder) as (speeds, figures):
        options = import_module(f"{PACKAGE}.options")
        routers = import_module(f"{PACKAGE}.backend")
        found = [_device(f"tried{n}", rng, clock, computes=True) for n in range(2)]
        members = [device for _, device, _ in found]
        if fails := rng.random() < 0.3:
            found[0][0].fails = True
        names = [speeds.name_of(m) for m in members]
        for n, name in enumerate(names):
            figures.kept(("speeds", name), lambda n=n: tuple(s * (1 + n) for s in told))
            figures.kept(("transfer", name, names[1 - n]), lambda: (2e-4, 1e-10))
        graph = _graph(int(rng.integers(8, 40)))
        takes = []
        for _, _, (costs, _) in found:
            done = [_done(graph, node) for node in graph.nodes]
            work = sum(a * b for one in done for a, b in zip(one, costs[1:], strict=True))
            takes.append(costs[0] + work)
        want = 1 if fails or takes[1] < takes[0] else 0
        with patch.object(options, "perf_counter", clock):
            router = routers.RouterBackend(members)
            router.device.transfers, router.device.fallbacks = 3, 5
            made = router.compile(0, graph)
            assert {*made.chosen} == {want}, f"{takes} s on the members, chosen is {made.chosen}"
            counts = router.device.transfers, router.device.fallbacks
            assert counts == (3, 5), f"{counts} moves and operations elsewhere, of trials"
            calls = [backend.calls for backend, _, _ in found]
            assert all(calls), f"members were tried {calls} times"
            for again in (router, routers.RouterBackend(members)):
                assert {*again.compile(0, graph).chosen} == {want}, "it is placed elsewhere again"
            # Within limits, what is tried would take memory that a program has.
            routers.RouterBackend(members, (1 << 20, None)).compile(0, graph)
            assert calls == [b.calls for b, _, _ in found], "what was tried is tried again"


def _asked(rng: Rng) -> None:
    """No trial calls a function of the host, alone or in a body of control flow."""
    clock, called = _Clock(), list[int]()
    size = int(rng.integers(4, 12))
    like = calor.asarray(np.zeros((size, size), np.float32), device="numpy")

    def note(x: Any) -> Any:
        called.append(x.shape[0])
        return x

    def told(x: Any) -> Any:
        return calor.callback(note, like, x)

    def repeated(x: Any) -> Any:
        return calor.fori_loop(0, 2, lambda _, y: told(calor.tanh(y)), x)

    def chosen(x: Any) -> Any:
        return calor.cond(calor.sum(x) > 0, told, lambda y: y * 2, x)

    with tempfile.TemporaryDirectory() as folder, _kept_in(folder) as (speeds, figures):
        options = import_module(f"{PACKAGE}.options")
        routers = import_module(f"{PACKAGE}.backend")
        found = [_device(f"asked{n}", rng, clock, computes=True) for n in range(2)]
        names = [speeds.name_of(device) for _, device, _ in found]
        for n, name in enumerate(names):
            figures.kept(("speeds", name), lambda: (1e-5, 1e-4, 1e-10, 1e-10))
            figures.kept(("transfer", name, names[1 - n]), lambda: (2e-4, 1e-10))
        tried = []
        for program in (None, told, repeated, chosen):

            def whole(x: Any, inside: Any = program) -> Any:
                made = calor.tanh(x @ x) + calor.exp(x)
                return made if inside is None else inside(made)

            before = sum(backend.calls for backend, _, _ in found)
            router = routers.RouterBackend([device for _, device, _ in found])
            with patch.object(options, "perf_counter", clock):
                router.compile(0, calor.trace(whole, like))
            tried.append(sum(backend.calls for backend, _, _ in found) > before)
            assert not called, f"a trial calls {program} of the host {len(called)} times"
        assert tried == [True, False, False, False], f"tried are {tried}"


def _files(rng: Rng) -> None:
    """Figures are kept for other processes, by what they are of."""
    with tempfile.TemporaryDirectory() as folder:
        made: list[tuple[str, ...]] = []

        def measured(*names: str) -> Callable[[], tuple[float, ...]]:
            def measure() -> tuple[float, ...]:
                made.append(names)
                return (float(rng.integers(1, 99)), 0.1)

            return measure

        names = [("speeds", "a"), ("speeds", "b"), ("transfer", "a", "b"), ("transfer", "b", "a"),
                 ("transfer", "a b", ""), ("returns", "a")]  # fmt: skip
        with _kept_in(folder) as (_, figures):
            first = {n: figures.kept(n, measured(*n)) for n in names}
            assert made == names, f"{made} was measured of {names}"
        made.clear()
        # Another process finds them in its files.
        with _kept_in(folder) as (_, figures):
            again = {n: figures.kept(n, measured(*n)) for n in names}
            assert again == first, f"kept are {first}, read are {again}"
            assert not made, f"{made} is measured again"
            package = import_module("calor")
            with patch.object(package, "__version__", "another"):
                figures.kept(names[0], measured(*names[0]))
            assert made == [names[0]], "another version takes the figures of this one"
        made.clear()
        files = sorted(Path(folder).rglob("*.json"))
        assert len(files) == len(names) + 1, f"{len(files)} files of {len(names)} figures"
        assert not [*Path(folder).rglob("*.part")], "files are left half written"
        for path in files:
            whole = path.read_bytes()
            damaged = whole[: len(whole) // 2], b"[]", b'{"of": ["x"], "figures": [1]}'
            path.write_bytes(damaged[int(rng.integers(3))])
        with _kept_in(folder) as (_, figures):
            third = {n: figures.kept(n, measured(*n)) for n in names}
            assert made == names, f"of damaged files {set(names) - set(made)} is read"
        made.clear()
        with _kept_in(folder) as (_, figures), patch.dict(os.environ, {"CALOR_CACHE": "0"}):
            figures.kept(names[0], measured(*names[0]))
            assert made == [names[0]], "files are read where nothing is kept"
        with _kept_in(folder) as (_, figures):
            back = {n: figures.kept(n, measured(*n)) for n in names}
            assert back == third, "what was measured while nothing is kept was kept"


def _measured(place: Place) -> None:
    for number, ask in enumerate((_figures, _within)):
        ask(np.random.default_rng([place.seed, 963, number]))


def _placed(place: Place) -> None:
    _asked(np.random.default_rng([place.seed, 963, 4]))
    for turn in range(_TURNS):
        _tried(np.random.default_rng([place.seed, 963, 3, turn]))


def _kept(place: Place) -> None:
    for turn in range(_TURNS):
        _files(np.random.default_rng([place.seed, 963, 2, turn]))


_SUBJECTS: Final[dict[str, Callable[[Place], None]]] = {
    "measured-speeds": _measured, "kept-figures": _kept, "tried-placements": _placed,
}  # fmt: skip


def measured_speeds() -> Iterator[Check]:
    """Yield the checks, if the package is installed."""
    yield from device_subjects(PACKAGE, _SUBJECTS, CONTRACT)
