"""Callbacks of several runs, driven: what each run begins with, what it keeps, and what it writes.

Runs begin anew or go on, have epochs with numbers that improve or do not, end whole, stopped or
interrupted, and callbacks give their state to fresh ones. A run that begins anew knows nothing of
the one before; one that goes on forgets nothing.
"""

from __future__ import annotations

import math
import pickle
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import calor

from ..rows.functions.drawing import coin
from .averaged_weights import Plateau
from .base import Check
from .driven import Driven, Look, checks_of
from .training import PACKAGE

CONTRACT: Final = "a run that begins anew has forgotten the last one, and one that goes on has not"


class _Holder:
    """What callbacks need of a learner."""

    schedule = None

    def __init__(self) -> None:
        self.epoch = self.steps = 0
        self.completed = False
        self.history: list[dict[str, float]] = []
        self.callbacks: list[Any] = []
        self.wrote: list[str] = []
        self.stops = 0

    def save(self, path: Path) -> None:
        self.wrote.append(path.name)

    def stop(self, reason: str) -> None:
        self.stops += 1


class _Best:
    """The best number so far."""

    def __init__(self, sign: int, delta: float) -> None:
        self.sign, self.delta = sign, delta
        self.best: float | None = None

    def improved(self, value: float) -> bool:
        if math.isnan(value):
            return False
        if self.best is not None and not self.sign * (value - self.best) > self.delta:
            return False
        self.best = value
        return True


class _Callbacks(Driven):
    """Early stopping, plateaus and checkpoints of one run after another."""

    events = 24
    histories = 12

    def build(self) -> None:
        package = import_module(PACKAGE)
        self.direction = self.one("min", "max")
        sign = 1 if self.direction == "max" else -1
        self.patience, self.delta = self.one(1, 2, 3), self.one(0.0, 0.5)
        self.every = self.one(1, 2, 3), self.one(None, 1, 2, 3)
        self.how: dict[str, Any] = {
            "mode": self.direction, "factor": 0.5, "patience": self.one(0, 1), "eps": 0.0,
            "threshold": 0.25, "threshold_mode": "abs", "cooldown": self.one(0, 2), "min_lr": 0.0,
        }  # fmt: skip
        self.optimizer = package.SGD([calor.ones(1, requires_grad=True)], lr=1.0)
        self.plateau = Plateau(self.how, [1.0])
        self.stopper, self.keeper = _Best(sign, self.delta), _Best(sign, 0.0)
        self.waited = self.stops = 0
        self.saved: tuple[int, int] | None = None
        self.wrote: list[str] = []
        self.holder = _Holder()
        self.fresh()
        self.begin()

    def fresh(self) -> None:
        package = import_module(PACKAGE)
        # Nothing is written there; a checkpoint makes its folder when a run begins.
        folder = Path(tempfile.gettempdir())
        self.holder.callbacks = [
            package.EarlyStopping("share", self.patience, min_delta=self.delta,
                                  direction=self.direction),
            package.ReduceLROnPlateau(self.optimizer, monitor="share", **self.how),
            package.Checkpoint(folder, every_epochs=self.every[0], every_steps=self.every[1],
                               monitor="share", direction=self.direction),
        ]  # fmt: skip

    def told(self) -> str:
        return f"{self.direction}, patience {self.patience}, every {self.every}, {self.how}"

    def call(self, event: str) -> None:
        for callback in self.holder.callbacks:
            getattr(callback, event)(self.holder)

    def begin(self) -> None:
        self.call("on_fit_begin")
        self.saved = None
        if self.holder.epoch == self.holder.steps == 0:
            self.stopper.best = self.keeper.best = self.plateau.best = None
            self.waited = self.plateau.bad = self.plateau.cooling = 0

    def do_anew(self) -> None:
        self.holder.epoch = self.holder.steps = 0
        self.holder.history = []
        self.begin()

    def do_go_on(self) -> None:
        self.begin()

    def last(self) -> None:
        self.wrote.append("last.ckpt")
        self.saved = self.holder.epoch, self.holder.steps

    def do_epoch(self) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            self.holder.steps += 1
            self.call("on_step_end")
            if self.every[1] is not None and self.holder.steps % self.every[1] == 0:
                self.last()
        value = math.nan if self.rng.random() < 0.1 else float(self.rng.integers(-8, 9)) / 4
        self.holder.history.append({"share": value})
        self.holder.epoch += 1
        self.call("on_epoch_end")
        self.waited = 0 if self.stopper.improved(value) else self.waited + 1
        self.stops += self.waited >= self.patience
        self.plateau.step(value)
        if self.keeper.improved(value):
            self.wrote.append("best.ckpt")
        if self.holder.epoch % self.every[0] == 0:
            self.last()

    do_epoch_more = do_epoch_again = do_epoch

    def do_end(self) -> None:
        self.holder.completed = coin(self.rng)
        self.call("on_fit_end")
        if self.holder.completed and self.saved != (self.holder.epoch, self.holder.steps):
            self.last()

    def do_begin_and_end(self) -> None:
        """A run of no epochs, that goes on where another one was saved."""
        self.do_go_on()
        self.do_end()

    def do_interrupt(self) -> None:
        self.call("on_interrupt")
        self.last()

    def do_restore(self) -> None:
        """Fresh callbacks go on with the state of these."""
        states = [pickle.loads(pickle.dumps(c.state_dict())) for c in self.holder.callbacks]
        self.fresh()
        for callback, state in zip(self.holder.callbacks, states, strict=True):
            callback.load_state_dict(state)
        self.saved = None

    def look(self) -> dict[str, Look]:
        stopper, plateau, keeper = (c.state_dict() for c in self.holder.callbacks)
        due = {"best": self.plateau.best, "bad_epochs": self.plateau.bad,
               "cooling": self.plateau.cooling}  # fmt: skip
        return {
            "early stopping": (stopper, {"best": self.stopper.best, "waited": self.waited}),
            "the plateau": (plateau, due),
            "the rate": (float(self.optimizer.lr), self.plateau.rates[0]),
            "the checkpoint": (keeper, {"best": self.keeper.best}),
            "the files written": (self.holder.wrote, self.wrote),
            "the stops": (self.holder.stops, self.stops),
        }


def driven_callbacks() -> Iterator[Check]:
    """Yield the check of callbacks, if the package is installed."""
    yield from checks_of(PACKAGE, {"callbacks": _Callbacks}, CONTRACT, 7)
