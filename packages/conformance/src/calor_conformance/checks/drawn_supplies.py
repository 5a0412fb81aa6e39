"""What supplies a training: loaders of batches and scales of losses, over any history.

A loader hands out batches, is iterated anew before its end, by several iterators, with and without
workers; a sample cannot be read once; its position is stored at every place, the ends of epochs
included, and another loader goes on there. A scaler starts anywhere in the range of float32, grows
and falls by any factor, for steps that are finite or not, is given a scale, stored and loaded.
Both are beside plain Python after each event.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64

from ..rows.functions.drawing import Rng, coin, source
from .base import Check, Place
from .lent_models import assert_raises
from .training import PACKAGE

CONTRACT: Final = "loaders and scalers are where their history has led them, and go on from there"
_TURNS: Final = 16
_EVENTS: Final = 14


class _DiskError(Exception):
    """What reading a sample raises."""


class _Samples:
    """Whole numbers, of which one cannot be read while it is broken."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.broken: int | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> int:
        if number == self.broken:
            raise _DiskError(number)
        return number


class _Position:
    """Where a loader is, in plain numbers; the order of an epoch is the loader's."""

    def __init__(self, order: Callable[[int], list[int]], count: int, size: int, drop: bool):
        self.order, self.size = order, size
        self.batches = count // size if drop else -(-count // size)
        self.epoch = self.place = 0
        self.under_way = False

    def begin(self) -> None:
        if self.under_way:
            self.epoch, self.place = self.epoch + 1, 0
        self.under_way = True

    def batch(self) -> list[int] | None:
        if self.place == self.batches:
            return None
        at = self.place * self.size
        return self.order(self.epoch)[at : at + self.size]

    def told(self) -> tuple[int, int]:
        if self.under_way and self.place == self.batches:
            return self.epoch + 1, 0
        return self.epoch, self.place

    def load(self, told: tuple[int, int]) -> None:
        self.epoch, self.place = told
        self.under_way = False


def _loader(rng: Rng) -> None:
    package = import_module(PACKAGE)
    count, size = int(rng.integers(0, 12)), int(rng.integers(1, 5))
    options: dict[str, Any] = {
        "shuffle": coin(rng), "drop_last": coin(rng), "seed": int(rng.integers(99)),
    }  # fmt: skip

    def made() -> Any:
        return package.DataLoader(samples, size, workers=int(rng.integers(3)), **options)

    samples = _Samples(count)
    loader, known = made(), made()
    where = _Position(lambda epoch: known.order(epoch).tolist(), count, size, options["drop_last"])
    told = f"{count} samples by {size}, {options}:"
    pass_over: Any = None
    left: tuple[Any, list[int]] | None = None
    for _ in range(_EVENTS):
        event = str(rng.choice(("begin", "next", "next", "next", "rest", "store", "break", "left")))
        told += f" {event}"
        if event == "begin" or pass_over is None:
            left = None if pass_over is None else (pass_over, where.batch() or [])
            pass_over = iter(loader)
            where.begin()
        if event == "left" and left is not None:
            # A pass that was left for another one goes on, and the loader's position is not its.
            got = next(left[0], None)
            found = [] if got is None else got.numpy().tolist()
            assert found == left[1], f"{told} gives {found}, not {left[1]}"
            left = None
        if event in ("next", "rest"):
            for _ in range(1 if event == "next" else where.batches - where.place + 1):
                want = where.batch()
                got = next(pass_over, None)
                found = None if got is None else got.numpy().tolist()
                assert found == want, f"{told} gives {found}, not {want}"
                where.place += want is not None
        elif event == "store":
            state = pickle.loads(pickle.dumps(loader.state_dict()))
            where.load(where.told())
            loader, pass_over = made(), None
            loader.load_state_dict(state)
        elif event == "break" and where.batch():
            # Workers read ahead, so the sample is broken before the pass begins.
            where.load(where.told())
            state, loader = loader.state_dict(), made()
            loader.load_state_dict(state)
            samples.broken = where.order(where.epoch)[where.place * size]
            pass_over = iter(loader)
            where.begin()
            assert_raises(partial(next, pass_over), _DiskError, told)
            assert next(pass_over, None) is None, f"{told} goes on after an error"
            samples.broken, pass_over = None, None
            # The batch that failed was not handed out: it comes again.
            where.load(where.told())
            state, loader = loader.state_dict(), made()
            loader.load_state_dict(state)
        state = loader.state_dict()
        found = state["epoch"], state["position"]
        assert found == where.told(), f"{told} is at {found}, not {where.told()}"


class _Scale:
    """A scale in float32, as a scaler has it."""

    def __init__(self, scale: float, how: dict[str, Any]) -> None:
        self.scale, self.how, self.finite = np.float32(scale), how, 0

    def update(self, bad: bool, given: float | None) -> None:
        with np.errstate(over="ignore", under="ignore"):
            self.finite = 0 if bad else self.finite + 1
            if bad:
                self.scale = np.float32(self.scale * np.float32(self.how["backoff_factor"]))
            elif self.finite == self.how["growth_interval"]:
                grown = np.float32(self.scale * np.float32(self.how["growth_factor"]))
                # A scale that would overflow stays.
                self.scale = grown if np.isfinite(grown) else self.scale
                self.finite = 0
        if given is not None:
            self.scale = np.float32(given)


def _how(rng: Rng) -> dict[str, Any]:
    return {
        "growth_factor": float(rng.choice((1.5, 2.0, 2.0**20))),
        "backoff_factor": float(rng.choice((0.25, 0.5, 0.75))),
        "growth_interval": int(rng.integers(1, 4)),
    }


def _scaler(rng: Rng) -> None:
    package = import_module(PACKAGE)
    start, how = float(2.0 ** rng.integers(-60, 128)), _how(rng)
    made, want = package.GradScaler(start, **how), _Scale(start, how)
    p = calor.asarray(np.ones(2, np.float32), requires_grad=True)
    optimizer = package.SGD([p], 0.5)
    held, told = np.ones(2), f"{start} {how}:"

    def step(optimizer: Any, scaler: Any) -> None:
        scaler.step(optimizer)
        scaler.update()

    jitted = calor.jit(step)
    for _ in range(_EVENTS):
        event = str(rng.choice(("good", "good", "good", "bad", "given", "none", "store", "jitted")))
        told += f" {event}"
        before = want.scale
        if event == "store":
            state = pickle.loads(pickle.dumps(made.state_dict()))
            made = package.GradScaler(3.0, **_how(rng))
            made.load_state_dict(state)
        elif event == "none":
            # An update without a step counts as a finite one.
            made.update()
            want.update(False, None)
        else:
            bad = event == "bad"
            slope = np.array([1.0, np.inf if bad else -0.5])
            given = (slope * float(before)).astype(np.float32)
            p.grad = calor.asarray(given)
            bad = bad or not np.isfinite(given).all()
            number = float(2.0 ** rng.integers(-20, 21)) if event == "given" else None
            if event == "jitted":
                jitted(optimizer, made)
            else:
                made.step(optimizer)
                made.update(number)
            want.update(bad, number)
            held = held if bad else held - 0.5 * slope
        state, found = made.state_dict(), made.get_scale()
        assert abs(found - want.scale) <= 1e-6 * want.scale, f"{told} {found}, not {want.scale}"
        due = {**how, "scale": found, "_growth_tracker": want.finite}
        assert state == due, f"{told} {state}, not {due}"
        assert np.allclose(p.detach().numpy(), held, rtol=1e-5), f"{told} {p}, not {held}"


_SUBJECTS: Final[dict[str, Callable[[Rng], None]]] = {"DataLoader": _loader, "GradScaler": _scaler}


def _run(name: str, place: Place) -> None:
    for turn in filter(partial(place.tries, among=_TURNS), range(_TURNS)):
        _SUBJECTS[name](source([place.seed, crc32(b"supply"), crc32(name.encode()), turn]))


def drawn_supplies() -> Iterator[Check]:
    """Yield a check of each supply, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name, told in _SUBJECTS.items():
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.histories-of-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, told),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
