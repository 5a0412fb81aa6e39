"""Several objects of one class in a training: each gets back the state that was its own.

A learner has callbacks, schedulers of plateaus, checkpoints and metrics in twos, with different
settings and so different states. It is stopped at a drawn epoch and goes on in a fresh learner from
the checkpoint of either one; at the end every object is where a run that never stopped has it. The
same is asked of state dictionaries of several optimizers, schedulers, scalers, averages, loaders
and generators of a class, which one file holds.
"""

from __future__ import annotations

import inspect
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, uint32

from ..rows.functions.drawing import Rng, source
from .base import Check, Place
from .training import _RULES, PACKAGE

CONTRACT: Final = "each of several objects of one class gets back its own state"
_TURNS: Final = 2


def _plain(value: Any) -> Any:
    """Return a state with lists in the place of tensors and arrays."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.tolist() if isinstance(value, calor.Tensor | np.ndarray) else value


def _differences(got: Any, want: Any) -> list[str]:
    return [f"{k} is {got.get(k)}, not {v}" for k, v in want.items() if got.get(k) != v]


def _counter(package: Any, priority: int, start: int) -> Any:
    class Counter(package.Callback):  # type: ignore[misc]
        """Counts by its own step."""

        def __init__(self) -> None:
            self.count, self.by = start, start
            self.priority = priority

        def on_epoch_end(self, learner: Any) -> None:
            self.count += self.by

        def state_dict(self) -> dict[str, Any]:
            return {"count": self.count, "by": self.by}

        def load_state_dict(self, state_dict: Any) -> None:
            self.count, self.by = state_dict["count"], state_dict["by"]

    return Counter()


class _Training:
    """A learner whose parts come in twos; the numbers that they watch are drawn for each epoch."""

    def __init__(self, settings: Rng, folder: Path, stop_at: int) -> None:
        package, nn = import_module(PACKAGE), import_module("calor_nn")
        weight = settings.integers(-3, 4, (1, 2)).astype(np.float32)
        model = nn.Linear(2, 1, bias=False)
        model.load_state_dict({"weight": calor.asarray(weight)})
        rows = settings.integers(0, 9, (9, 4)).astype(float)
        watched = ("a", "b")
        order = settings.permutation(2)

        class Draws(package.Callback):  # type: ignore[misc,name-defined]
            """Adds the numbers of an epoch to its row, before any other callback looks at it."""

            priority = -100

            def on_epoch_end(self, learner: Any) -> None:
                made = rows[learner.epoch - 1]
                learner.history[-1].update(zip(("a", "b", "c", "d"), made.tolist(), strict=True))

        class Stops(package.Callback):  # type: ignore[misc,name-defined]
            """Ends the run behind all others."""

            priority = 1000

            def on_epoch_end(self, learner: Any) -> None:
                if learner.epoch == stop_at:
                    learner.stop("enough")

        self.optimizer = package.SGD(model, 0.01, momentum=0.5)
        patience = [int(settings.integers(1, 3)) for _ in range(2)]
        self.stoppers = [package.EarlyStopping(n, 99, direction="min") for n in watched]
        self.plateaus = [
            package.ReduceLROnPlateau(
                self.optimizer, monitor=n, patience=p, factor=0.5)
            for n, p in zip(("c", "d"), patience, strict=True)
        ]  # fmt: skip
        self.keepers = [package.Checkpoint(folder / n, monitor=n, direction="min") for n in watched]
        self.counters = [_counter(package, int(p), k) for k, p in
                         enumerate(settings.integers(-1, 2, 2), 1)]  # fmt: skip
        metrics = [package.Mean("first", lambda y, t: calor.mean(y)),
                   package.Mean("second", lambda y, t: calor.mean(y - t))]  # fmt: skip
        inside = [*self.stoppers, *self.plateaus, *self.counters]
        # Checkpoints stand before, between or behind what they keep.
        for keeper in self.keepers:
            inside.insert(int(settings.integers(len(inside) + 1)), keeper)
        self.learner = package.Learner(
            model, self.optimizer, nn.functional.mse_loss, display="quiet", jit=False,
            metrics=[metrics[k] for k in order], callbacks=[Draws(), *inside, Stops()],
        )  # fmt: skip
        x = settings.integers(-2, 3, (4, 2)).astype(np.float32)
        self.data = package.DataLoader(package.ArrayDataset(x, x[:, :1]), 2)

    def fit(self, epochs: int, resume: Path | None = None) -> None:
        self.learner.fit(self.data, epochs=epochs, resume=resume)

    def state(self) -> dict[str, Any]:
        """Return all state as plain numbers, by its owner."""
        parts = {"stopper": self.stoppers, "plateau": self.plateaus, "counter": self.counters,
                 "checkpoint": self.keepers}  # fmt: skip
        found = {f"{n} {k}": _plain(o.state_dict()) for n, held in parts.items()
                 for k, o in enumerate(held)}  # fmt: skip
        rows = [{k: v for k, v in r.items() if "seconds" not in k and "per_second" not in k}
                for r in self.learner.history]  # fmt: skip
        found["rows"] = [{k: r[k] for k in ("a", "b", "first", "second", "loss")} for r in rows]
        found["optimizer"] = _plain(self.optimizer.state_dict())
        for k, keeper in enumerate(self.keepers):
            best = calor.load(keeper.best)
            found[f"epoch of the best of {k}"] = best["progress"]["epoch"]
        return found


def _learners(rng: Rng) -> None:
    number, epochs, stop_at = int(rng.integers(1 << 30)), 7, int(rng.integers(1, 6))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def made(where: str, stop: int) -> _Training:
            return _Training(source([number]), folder / where, stop)

        whole = made("whole", 0)
        whole.fit(epochs)
        want = whole.state()
        made("stopped", stop_at).fit(epochs)
        for by in ("a", "b"):
            shutil.copytree(folder / "stopped", folder / f"went by {by}")
            went = made(f"went by {by}", 0)
            went.fit(epochs, folder / "stopped" / by)
            off = _differences(went.state(), want)
            assert not off, (
                f"stopped after epoch {stop_at} and resumed from checkpoint {by}: {'; '.join(off)}"
            )


class _Kind(NamedTuple):
    """How an object is made, goes on by a number, and what its state is beyond its dictionary."""

    make: Callable[[Any, Rng], Any]
    step: Callable[[Any, int], None]
    look: Callable[[Any], Any] = lambda made: made.state_dict()


def _optimizer(name: str, package: Any, rng: Rng) -> Any:
    p = calor.asarray(rng.integers(-3, 4, (2,)).astype(np.float32), requires_grad=True)
    return getattr(package, name)([p], **_RULES[name][1](source([3])))


def _steps(made: Any, n: int) -> None:
    p = made.params[0]
    p.grad = calor.full_like(p.detach(), 0.5 + n)
    made.step()


def _scheduler(package: Any, rng: Rng) -> Any:
    schedule = package.Chained(package.LinearWarmup(3), package.Exponential(0.9))
    made = package.SGD([calor.zeros(2, dtype=float32).requires_grad_()], float(rng.random()))
    return package.Scheduler(made, lr=schedule)


def _stepped(made: Any, n: int) -> None:
    for _ in range(n + 1):
        made.step()


def _scaled(made: Any, n: int) -> None:
    p = calor.zeros(1, dtype=float32).requires_grad_()
    p.grad = calor.full_like(p.detach(), np.inf if n % 3 == 0 else 1.0)
    made.step(import_module(PACKAGE).SGD([p], 0.1))
    made.update()


def _average(package: Any, rng: Rng) -> Any:
    model = import_module("calor_nn").Linear(2, 1)
    return package.ExponentialMovingAverage(model, 0.5)


def _averaged(made: Any, n: int) -> None:
    made.update()


def _loader(package: Any, rng: Rng) -> Any:
    data = package.ArrayDataset(np.arange(6, dtype=np.float32))
    return package.DataLoader(data, 2, shuffle=True, seed=int(rng.integers(99)))


def _loaded(made: Any, n: int) -> None:
    batches = iter(made)
    for _ in range(n % 3 + 1):
        next(batches)


def _plateau(package: Any, rng: Rng) -> Any:
    made = package.SGD([calor.zeros(2, dtype=float32).requires_grad_()], 1.0)
    return package.ReduceLROnPlateau(made, patience=1, factor=0.5)


_KINDS: Final[dict[str, _Kind]] = {
    **{n: _Kind(partial(_optimizer, n), _steps) for n in _RULES},
    "Scheduler": _Kind(_scheduler, _stepped),
    "GradScaler": _Kind(lambda package, rng: package.GradScaler(2.0**int(rng.integers(2, 9)),
                                                                growth_interval=2), _scaled),
    "ExponentialMovingAverage": _Kind(_average, _averaged),
    "DataLoader": _Kind(_loader, _loaded),
    "ReduceLROnPlateau": _Kind(_plateau, lambda made, n: made.step(float(n * 7 % 5))),
}  # fmt: skip


def _dictionaries(rng: Rng) -> None:
    package = import_module(PACKAGE)
    for name, kind in _KINDS.items():
        count = int(rng.integers(2, 4))
        held = [kind.make(package, rng) for _ in range(count)]
        for made in held:
            for n in rng.integers(0, 9, int(rng.integers(1, 4))):
                kind.step(made, int(n))
        stream = io.BytesIO()
        calor.save({"all": [made.state_dict() for made in held]}, stream)
        wants = [_plain(kind.look(made)) for made in held]
        fresh = [kind.make(package, rng) for _ in range(count)]
        stream.seek(0)
        states = calor.load(stream)["all"]
        # In any order, and beside others that go on.
        for k in rng.permutation(count).tolist():
            fresh[k].load_state_dict(states[k])
            kind.step(held[(k + 1) % count], int(rng.integers(9)))
        for k, (made, want) in enumerate(zip(fresh, wants, strict=True)):
            got = _plain(kind.look(made))
            assert got == want, f"{name} {k} of {count} has {got}, not {want}"


_FORMS: Final = {"learners": _learners, "dictionaries": _dictionaries}


def _run(name: str, place: Place) -> None:
    for turn in filter(partial(place.tries, among=_TURNS), range(_TURNS)):
        _FORMS[name](source([place.seed, 812, len(name), turn]))


def several_of_a_class() -> Iterator[Check]:
    """Yield the checks of learners and of dictionaries, if the packages are installed."""
    if find_spec(PACKAGE) is None or find_spec("calor_nn") is None:
        return
    for name in _FORMS:
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.several-of-a-class-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _FORMS[name]),
            dtypes=(float32, int32, uint32, bool_),
            looks=True,
        )
