"""Learners in which something raises, driven: the next run is that of a fresh learner.

The model, the loss, a metric, the optimizer, the schedule, a callback or the data raises at a drawn
call, in training or evaluation, and the error comes through as it is. Whatever state the learner
was in, its next run is bit for bit that of another learner which never failed, from the same
weights, moments, rates and scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, ClassVar, Final

import calor
from calor.dtypes import bfloat16, float16

from ..rows.functions.drawing import coin
from .base import Check
from .driven import Driven, Look, checks_of
from .training import PACKAGE

CONTRACT: Final = "after an error a learner trains as one that never failed"
_EVENTS: Final = ("on_fit_begin", "on_epoch_begin", "on_step_end", "on_evaluate_begin",
                  "on_evaluate_step", "on_evaluate_end", "on_epoch_end")  # fmt: skip
# Within a step most is left undone.
_PLACES: Final = ("forward", "loss", "metric", *["optimizer"] * 6, "schedule", "data", "valid",
                  *_EVENTS)  # fmt: skip


class _PartError(Exception):
    """What a part of a run raises."""


class _Trap:
    """Raises at a number of calls from one place."""

    def __init__(self) -> None:
        self.place, self.left = "", 0

    def __call__(self, place: str) -> None:
        if place == self.place:
            self.left -= 1
            if self.left < 0:
                self.place = ""
                raise _PartError(place)


class _Whole:
    """A learner with all of its parts, each of which may fall into the trap."""

    def __init__(self, trap: _Trap, how: dict[str, Any], kind: str, arrays: list[Any]) -> None:
        package, nn = import_module(PACKAGE), import_module("calor_nn")

        class Model(nn.Linear):  # type: ignore[misc, name-defined]
            def forward(self, x: Any) -> Any:
                trap("forward")
                return super().forward(x)

        def loss(y: Any, t: Any) -> Any:
            trap("loss")
            return calor.mean((y - t) ** 2)

        def measure(y: Any, t: Any) -> Any:
            trap("metric")
            return calor.mean(calor.abs(y - t))

        class Recorder(package.Callback):  # type: ignore[misc, name-defined]
            """Notes where the learner is at each event, and may fall into the trap."""

            noted: ClassVar[list[Any]] = []

            def note(self, learner: Any, name: str) -> None:
                self.noted.append((name, learner.epoch, learner.steps, learner.batch,
                                   learner.samples, learner.last_loss))  # fmt: skip
                trap(name)

        for name in _EVENTS:
            setattr(Recorder, name, lambda self, learner, name=name: self.note(learner, name))

        class Optimizer(getattr(package, kind)):  # type: ignore[misc]
            def step(self) -> None:
                trap("optimizer")
                super().step()

        class Scheduler(package.Scheduler):  # type: ignore[misc, name-defined]
            def step(self) -> None:
                trap("schedule")
                super().step()

        self.trap, self.arrays, self.noted = trap, arrays, Recorder.noted
        self.model = Model(2, 1)
        self.optimizer = Optimizer(self.model, 0.01)
        self.schedule = Scheduler(self.optimizer, lr=package.Exponential(0.9))
        self.learner = package.Learner(
            self.model, self.optimizer, loss, metrics=[package.Mean("error", measure)],
            schedule=self.schedule, callbacks=[Recorder()], display="quiet", **how,
        )  # fmt: skip

    def batches(self, place: str) -> Any:
        trap, arrays = self.trap, self.arrays

        class Batches:
            """Batches of several lengths, anew at each iteration."""

            def __iter__(self) -> Iterator[Any]:
                for x in arrays:
                    trap(place)
                    yield calor.asarray(x[:, :2]), calor.asarray(x[:, 2:])

        return Batches()

    def fit(self, epochs: int, valid: bool) -> Any:
        self.noted.clear()
        return self.learner.fit(
            self.batches("data"), self.batches("valid") if valid else None, epochs=epochs
        )

    def take(self, other: _Whole) -> None:
        """Take over all that a run begins with."""
        self.model.load_state_dict(other.model.state_dict())
        self.optimizer.load_state_dict(other.optimizer.state_dict())
        self.schedule.load_state_dict(other.schedule.state_dict())
        if self.learner.scaler is not None:
            self.learner.scaler.load_state_dict(other.learner.scaler.state_dict())

    def told(self) -> dict[str, Any]:
        learner = self.learner
        timed = ("seconds", "samples_per_second")
        rows = [{n: v for n, v in row.items() if n not in timed} for row in learner.history]
        scale = learner.scaler.state_dict() if learner.scaler is not None else {}
        return {
            "the history": rows, "the scale": scale, "the rate": float(self.optimizer.lr),
            "the progress": (learner.epoch, learner.steps, learner.batch, learner.samples),
            "the events": list(self.noted),
            "the end": (learner.completed, learner.stop_reason, learner.phase),
            **{n: p.detach().numpy().tolist() for n, p in self.model.named_parameters()},
        }  # fmt: skip


class _Learner(Driven):
    """A learner that fails, beside fresh ones that do not."""

    events = 6
    histories = 6

    def build(self) -> None:
        dtypes = self.place.plain.info.dtypes
        low = [d.name for d in (float16, bfloat16) if dtypes.get(d)]
        self.how: dict[str, Any] = {
            "accumulate": self.one(1, 2, 3), "clip_norm": self.one(None, 0.5),
            "precision": self.one("float32", *low), "jit": self.rng.random() < 0.1,
            "schedule_every": self.one("step", "epoch"),
        }  # fmt: skip
        self.kind = self.one("SGD", "Adam")
        self.arrays = [self.numbers(int(n), 3, scale=4) for n in self.rng.integers(1, 4, 4)]
        self.trap = _Trap()
        self.whole = _Whole(self.trap, self.how, self.kind, self.arrays)
        self.found: dict[str, Any] = {}
        self.due: dict[str, Any] = {}

    def told(self) -> str:
        return f"{self.kind} {self.how}"

    def do_fail(self) -> None:
        """A run that ends in an error of some place."""
        for _ in range(int(self.one(1, 1, 2))):
            self.trap.place, self.trap.left = self.one(*_PLACES), int(self.rng.integers(6))
            place = self.trap.place
            # A step that overflows and fails has changed nothing, and the next one is finite.
            large = place == "optimizer" and self.how["precision"] == "float16"
            if large:
                self.trap.left = 0
                self.whole.arrays = [x * 1000 for x in self.arrays]
            try:
                self.whole.fit(2, True)
            except _PartError:
                pass
            else:
                # A place that was not reached so often is still set.
                assert self.trap.place, f"the error of {place} is lost"
            self.whole.arrays = self.arrays
            # What was traced before is not called, and some places have few calls.
            self.trap.place = ""
            self.fit()

    do_fail_again = do_fail

    def fit(self) -> None:
        other = _Whole(_Trap(), self.how, self.kind, self.arrays)
        other.take(self.whole)
        epochs, valid = int(self.rng.integers(1, 3)), coin(self.rng)
        for one in (self.whole, other):
            one.fit(epochs, valid)
        self.found, self.due = self.whole.told(), other.told()

    def do_fit(self) -> None:
        self.fit()

    def look(self) -> dict[str, Look]:
        # Numbers may be no numbers, which are equal as they are printed.
        return {n: (repr(found), repr(self.due[n])) for n, found in self.found.items()}


def driven_learner() -> Iterator[Check]:
    """Yield the check of learners that fail, if the package is installed."""
    yield from checks_of(PACKAGE, {"learner": _Learner}, CONTRACT, 6)
