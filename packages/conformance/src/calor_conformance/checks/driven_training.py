"""What supplies and steers a training, driven: passes over data, scales of losses, schedules.

Several passes of a loader are read by turns, those that were left behind too, and its position is
that of the last one alone. A scaler serves several optimizers, of which one overflows, at the ends
of the range of float32. A scheduler goes on for hundreds of steps, is set back, and sets what
somebody changed by hand.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor

from ..rows.functions.drawing import coin
from .base import Array, Check
from .driven import Driven, Look, checks_of, equal, refused
from .training import PACKAGE, drawn_schedules

CONTRACT: Final = "after any history a part of a training is where its model in plain numbers is"


def _package() -> Any:
    return import_module(PACKAGE)


def _again(state: Any) -> Any:
    return pickle.loads(pickle.dumps(state))


class _Passes(Driven):
    """A loader with all its passes that somebody still reads."""

    events = 24
    histories = 8

    def build(self) -> None:
        self.count, self.size = int(self.rng.integers(0, 14)), int(self.rng.integers(1, 5))
        self.options: dict[str, Any] = {
            "shuffle": coin(self.rng), "drop_last": coin(self.rng),
            "seed": int(self.rng.integers(99)), "workers": int(self.rng.integers(2)),
        }  # fmt: skip
        self.loader, self.known = self.made(), self.made()
        self.total = self.count // self.size
        if not self.options["drop_last"] and self.count % self.size:
            self.total += 1
        # Each pass with its epoch and its next batch; the loader's place, and whose it is.
        self.passes: list[list[Any]] = []
        self.shows: tuple[int, int] = (0, 0)
        self.current: list[Any] | None = None
        self.states: list[tuple[Any, tuple[int, int]]] = []

    def made(self) -> Any:
        data = list(range(self.count))
        return _package().DataLoader(data, self.size, **self.options)

    def told(self) -> str:
        return f"{self.count} samples by {self.size}, {self.options}"

    def do_begin(self) -> None:
        if self.current is not None:
            self.shows = self.shows[0] + 1, 0
        self.current = [iter(self.loader), *self.shows]
        self.passes.append(self.current)

    def read(self, held: list[Any]) -> None:
        reader, epoch, number = held
        at = number * self.size
        want = self.known.order(epoch)[at : at + self.size] if number < self.total else None
        got = next(reader, None)
        found = got if got is None else np.asarray(got.numpy())
        assert (found is None) is (want is None), f"batch {number} of {epoch} is {found}"
        if want is not None:
            equal(found, np.asarray(want), f"batch {number} of epoch {epoch}")
            held[2] += 1
            if held is self.current:
                self.shows = epoch, held[2]

    def do_read(self) -> None:
        if self.passes:
            self.read(self.passes[-1])

    do_read_on = do_read

    def do_read_older(self) -> None:
        if self.passes:
            self.read(self.one(*self.passes))

    do_read_any = do_read_older

    def do_rest(self) -> None:
        if self.passes:
            for _ in range(self.total + 1):
                self.read(self.passes[-1])

    def do_close(self) -> None:
        if self.passes:
            held = self.passes.pop(int(self.rng.integers(len(self.passes))))
            held[0].close()
            assert next(held[0], None) is None, "a pass that was closed goes on"

    def shown(self) -> tuple[int, int]:
        over = self.current is not None and self.shows[1] == self.total
        return (self.shows[0] + 1, 0) if over else self.shows

    def do_store(self) -> None:
        self.states.append((_again(self.loader.state_dict()), self.shown()))

    def do_load(self) -> None:
        """The loader goes back or on; passes that were begun before are no longer its own."""
        if self.states:
            state, shows = self.one(*self.states)
            if coin(self.rng):
                self.loader = self.made()
                self.passes.clear()
            self.loader.load_state_dict(state)
            self.shows, self.current = shows, None

    do_load_again = do_load

    def do_misfit(self) -> None:
        bad = {**self.loader.state_dict(), "position": self.total + 1}
        refused(lambda: self.loader.load_state_dict(bad), "a position behind the end")

    def look(self) -> dict[str, Look]:
        state, (epoch, position) = self.loader.state_dict(), self.shown()
        due = {"seed": self.options["seed"], "epoch": epoch, "position": position}
        return {"the place": (state, due), "the length": (len(self.loader), self.total)}


class _Failure(Exception):
    """What a step raises."""


class _Scales(Driven):
    """A scaler of losses for three optimizers."""

    events = 24
    histories = 10

    def build(self) -> None:
        package = _package()
        self.how: dict[str, Any] = {
            "growth_factor": self.one(1.5, 2.0, 2.0**30), "backoff_factor": self.one(0.25, 0.5),
            "growth_interval": self.one(1, 2, 3),
        }  # fmt: skip
        self.scale = np.float32(2.0 ** self.rng.integers(-40, 120))
        self.made = package.GradScaler(float(self.scale), **self.how)
        self.weights: list[Any] = [
            calor.asarray(np.ones(2, np.float32), requires_grad=True) for _ in range(3)
        ]
        self.optimizers = [package.SGD([p], 0.5) for p in self.weights]
        self.wants = [np.ones(2) for _ in self.weights]
        self.finite, self.bad = 0, False
        # What was unscaled since the last update, and whose gradients were finite then.
        self.unscaled: dict[int, bool] = {}

    def told(self) -> str:
        return f"{self.how}"

    def give(self, n: int) -> None:
        slope = self.numbers(2)
        with np.errstate(over="ignore"):
            given = (slope * self.scale).astype(np.float32)
        if self.rng.random() < 0.3:
            given[int(self.rng.integers(2))] = self.one(np.nan, np.inf, -np.inf)
        self.weights[n].grad = calor.asarray(given)

    def follow_unscale(self, n: int) -> Array:
        given = self.weights[n].grad.numpy()
        good = bool(np.isfinite(given).all())
        self.unscaled[n] = good
        self.bad = self.bad or not good
        with np.errstate(all="ignore"):
            return np.asarray(given * (np.float32(1) / self.scale))

    def do_unscale(self) -> None:
        n = int(self.rng.integers(3))
        optimizer = self.optimizers[n]
        if n in self.unscaled:
            refused(lambda: self.made.unscale_(optimizer), "a second unscale_()")
            return
        self.give(n)
        due = self.follow_unscale(n)
        self.made.unscale_(optimizer)
        equal(self.weights[n].grad.numpy(), due, "an unscaled gradient", 1e-6)

    def do_step(self) -> None:
        n = int(self.rng.integers(3))
        if n not in self.unscaled:
            self.give(n)
            slope = self.follow_unscale(n)
        else:
            slope = self.weights[n].grad.numpy()
        if self.unscaled[n]:
            self.wants[n] = self.wants[n] - 0.5 * slope.astype(np.float64)
        self.made.step(self.optimizers[n])

    do_step_more = do_step

    def do_fail(self) -> None:
        """An optimizer that raises in its step; what it has met counts nevertheless."""
        n = int(self.rng.integers(3))
        if n in self.unscaled:
            return
        self.give(n)
        self.follow_unscale(n)

        def step() -> None:
            raise _Failure

        self.optimizers[n].step = step
        try:
            self.made.step(self.optimizers[n])
        except _Failure:
            pass
        else:
            raise AssertionError("the error of a step is lost")
        finally:
            del self.optimizers[n].step

    def do_update(self) -> None:
        given = float(2.0 ** self.rng.integers(-20, 100)) if self.rng.random() < 0.1 else None
        self.made.update(given)
        how = self.how
        with np.errstate(all="ignore"):
            self.finite = 0 if self.bad else self.finite + 1
            if self.bad:
                self.scale = np.float32(self.scale * np.float32(how["backoff_factor"]))
            elif self.finite == how["growth_interval"]:
                grown = np.float32(self.scale * np.float32(how["growth_factor"]))
                self.scale = grown if np.isfinite(grown) else self.scale
                self.finite = 0
        self.scale = self.scale if given is None else np.float32(given)
        self.bad = False
        self.unscaled.clear()

    do_update_more = do_update

    def do_many_updates(self) -> None:
        """Hundreds of steps without an overflow."""
        for _ in range(int(self.one(3, 40, 150))):
            self.do_update()

    def do_store(self) -> None:
        if not self.unscaled:
            state = _again(self.made.state_dict())
            self.made = _package().GradScaler(8.0, 3.0, 0.125, 7)
            self.made.load_state_dict(state)

    def look(self) -> dict[str, Look]:
        state = self.made.state_dict()
        scale = np.float32(state.pop("scale"))
        loss = self.made.scale(calor.asarray(np.float32(0.5))).numpy()
        near = 1e-6 * float(self.scale)
        assert abs(float(scale) - float(self.scale)) <= near, f"{scale}, not {self.scale}"
        # Only rounding is apart, which shall not add up.
        self.scale = scale
        due = {**self.how, "_growth_tracker": self.finite}
        pairs = zip(self.weights, self.wants, strict=True)
        return {
            "the state": (state, due), "a scaled loss": (float(loss), float(scale) / 2),
            **{f"weight {n}": (p.detach().numpy(), want, 1e-5)
               for n, (p, want) in enumerate(pairs)},
        }  # fmt: skip


class _Scheduled(Driven):
    """A scheduler of two hyper-parameters of two groups, beside the formulas of its schedules."""

    events = 16
    histories = 8

    def build(self) -> None:
        package = _package()
        self.bases = {"lr": self.rates(), "weight_decay": self.rates()}
        self.optimizer = package.SGD(
            [{"params": [calor.ones(1, requires_grad=True)], "lr": self.bases["lr"][n],
              "weight_decay": self.bases["weight_decay"][n]} for n in range(2)], lr=1.0,
        )  # fmt: skip
        self.schedules: dict[str, tuple[Any, Any]] = {}
        for name in self.bases:
            drawn = drawn_schedules(package, self.rng)
            self.schedules[name] = drawn[self.one(*drawn)]
        self.made = self.scheduler()
        self.count = 0
        self.states: list[Any] = []
        self.keep()

    def rates(self) -> list[float]:
        return [float(np.float32(self.rng.uniform(0.1, 2))) for _ in range(2)]

    def scheduler(self) -> Any:
        made = {name: schedule for name, (schedule, _) in self.schedules.items()}
        return _package().Scheduler(self.optimizer, **made)

    def keep(self) -> None:
        bases = {name: list(held) for name, held in self.bases.items()}
        self.states.append((_again(self.made.state_dict()), self.count, bases))
        self.by_hand: dict[tuple[str, int], float] = {}

    def told(self) -> str:
        return f"{[s for s, _ in self.schedules.values()]} of {self.bases} at {self.count}"

    def do_step(self) -> None:
        self.made.step()
        self.count += 1
        self.by_hand.clear()

    do_step_on = do_step

    def do_many(self) -> None:
        for _ in range(int(self.one(5, 30, 300))):
            self.do_step()

    def do_by_hand(self) -> None:
        """A value set by hand holds until the next step."""
        name, n = self.one("lr", "weight_decay"), int(self.rng.integers(2))
        self.by_hand[name, n] = self.optimizer.param_groups[n][name] = 0.375

    def do_store(self) -> None:
        held = self.by_hand
        self.keep()
        self.by_hand = held

    def do_load(self) -> None:
        """A stored state, into this scheduler or one that has begun from other values."""
        state, self.count, bases = self.one(*self.states)
        self.bases = {name: list(held) for name, held in bases.items()}
        if coin(self.rng):
            self.made = self.scheduler()
        self.made.load_state_dict(state)
        self.by_hand.clear()

    do_load_again = do_load

    def do_misfit(self) -> None:
        state = self.made.state_dict()
        for bases in ({"lr": [1.0, 1.0]}, {"lr": [1.0], "weight_decay": [1.0, 1.0]}):
            bad = {**state, "bases": bases, "count": 99}
            refused(partial(self.made.load_state_dict, bad), "a state of other groups")

    def look(self) -> dict[str, Look]:
        found: dict[str, Look] = {
            "the state": (self.made.state_dict(), {"count": self.count, "bases": self.bases})
        }
        for name, (_, meaning) in self.schedules.items():
            for n, base in enumerate(self.bases[name]):
                due = self.by_hand.get((name, n), meaning(self.count, base))
                got = float(self.optimizer.param_groups[n][name])
                near = abs(got - due) <= 1e-6 * max(abs(due), 1e-3)
                found[f"{name} of group {n}"] = (got, got if near else due)
        return found


_KINDS: Final = {"passes": _Passes, "scales": _Scales, "schedules": _Scheduled}


def driven_training() -> Iterator[Check]:
    """Yield a check of each part, if the package is installed."""
    yield from checks_of(PACKAGE, _KINDS, CONTRACT, 2)
