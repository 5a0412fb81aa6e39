"""Drawn training runs: each beside the same run in NumPy, stopped anywhere, stored and resumed.

A learner keeps more state than any other part: weights, moments, rates, positions in the data,
random numbers, sums of gradients and metrics, and whose turn it is. The run in NumPy has all of it
in plain numbers; a run that was stopped, stored and read by a new learner ends at the same bits.
"""

from __future__ import annotations

import inspect
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.errors import ArgumentError

from ..rows.functions.comparing import compare
from ..rows.functions.drawing import Rng, coin, source
from .base import Array, Check, Place
from .training import _RULES, PACKAGE
from .training_forms import checks_of

# Optimizers with which runs are drawn; what is special about the others is checked without a run.
_TRAINED: Final = ("SGD", "Adam", "AdamW")
CONTRACT: Final = "a learner makes the steps, numbers and events of its run, and resumes it"
_EVENTS: Final = (
    "on_fit_begin", "on_epoch_begin", "on_step_end", "on_evaluate_begin", "on_evaluate_step",
    "on_evaluate_end", "on_epoch_end", "on_interrupt", "on_fit_end",
)  # fmt: skip
_TIMES: Final = ("seconds", "samples_per_second")


@dataclass
class _Settings:
    """A drawn run of a linear model."""

    rng: Rng
    name: str = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng
        self.name = str(rng.choice(list(_TRAINED)))
        self.how = _RULES[self.name][1](rng)
        self.count, self.size = int(rng.integers(5, 14)), int(rng.integers(2, 6))
        self.epochs, self.accumulate = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        self.shuffle, self.drop = coin(rng), rng.random() < 0.25
        self.x = np.asarray(rng.normal(size=(self.count, 3)), np.float32)
        self.y = np.asarray(rng.normal(size=(self.count, 2)), np.float32)
        self.valid = np.asarray(rng.normal(size=(5, 3)), np.float32)
        self.truth = np.asarray(rng.normal(size=(5, 2)), np.float32)
        self.weight = np.asarray(rng.normal(size=(2, 3)), np.float32)
        self.bias = np.asarray(rng.normal(size=(2,)), np.float32)
        self.evaluates, self.lists = coin(rng), coin(rng)
        self.norm = float(rng.uniform(0.2, 2)) if coin(rng) else None
        self.bound = float(rng.uniform(0.2, 1)) if coin(rng) else None
        self.every = str(rng.choice(["step", "epoch"]))
        self.gamma = 0.7 if coin(rng) else None
        self.stops = int(rng.integers(1, 8)) if coin(rng) else 0
        self.said = (
            f"{self.name} of {self.how}, {self.count} samples by {self.size}, {self.epochs} epochs,"
            f" accumulate {self.accumulate}, clip {self.norm} and {self.bound}, a schedule of"
            f" {self.gamma} each {self.every}, stopped after {self.stops or 'no'} steps"
        )

    def loader(self, package: Any) -> Any:
        data = package.ArrayDataset(self.x, self.y)
        made = package.DataLoader(
            data, self.size, shuffle=self.shuffle, drop_last=self.drop, seed=3
        )
        return made if self.shuffle or not self.lists else list(made)

    def valid_batches(self) -> list[tuple[Array, Array]]:
        cut = 3
        return [(self.valid[:cut], self.truth[:cut]), (self.valid[cut:], self.truth[cut:])]


def _recorder(package: Any, stop_at: int) -> Any:
    """Return a callback that notes each event with the learner's counts, and may stop the run."""

    class Recorder(package.Callback):  # type: ignore[misc]
        """Notes what happens."""

        def __init__(self) -> None:
            self.events: list[tuple[Any, ...]] = []

    def of(name: str) -> Callable[[Any, Any], None]:
        def note(self: Any, learner: Any) -> None:
            counts = learner.epoch, learner.steps, learner.batch, learner.samples
            self.events.append((name, *counts))
            if name == "on_step_end" and learner.steps == stop_at:
                learner.stop("enough")
                learner.stop("another reason")

        return note

    for name in _EVENTS:
        setattr(Recorder, name, of(name))
    return Recorder()


class _Model:
    """The run in NumPy: a linear model, its loss, its steps, and the events in their order."""

    def __init__(self, s: _Settings) -> None:
        self.s = s
        self.wants = [s.weight.astype(np.float64), s.bias.astype(np.float64)]
        self.states: list[dict[str, Any]] = [{}, {}]
        self.steps = self.batch = self.epoch = self.samples = self.ticks = 0
        self.rate = float(s.how["lr"])
        self.events: list[tuple[Any, ...]] = []
        self.history: list[dict[str, float]] = []

    def note(self, name: str) -> None:
        self.events.append((name, self.epoch, self.steps, self.batch, self.samples))

    def loss(self, x: Array, y: Array) -> tuple[float, list[Array]]:
        """Return the mean of squares, and its gradients."""
        off = x.astype(np.float64) @ self.wants[0].T + self.wants[1] - y
        scale = 2.0 / off.size
        return float(np.mean(off**2)), [scale * off.T @ x.astype(np.float64), scale * off.sum(0)]

    def change(self, grads: list[Array]) -> None:
        s = self.s
        if s.bound is not None:
            grads = [np.clip(g, -s.bound, s.bound) for g in grads]
        if s.norm is not None:
            size = math.sqrt(sum(float(np.sum(g * g)) for g in grads))
            grads = [g * min(s.norm / (size + 1e-6), 1.0) for g in grads]
        self.steps += 1
        how = {**s.how, "lr": self.current()}
        rule = _RULES[s.name][0]
        self.wants = [
            rule(p, g, state, how, self.steps)
            for p, g, state in zip(self.wants, grads, self.states, strict=True)
        ]
        self.rate = self.current()
        if s.every == "step":
            self.ticks += 1
        self.note("on_step_end")

    def current(self) -> float:
        return float(self.s.how["lr"] * (self.s.gamma or 1.0) ** self.ticks)

    def run(self, batches_of: Callable[[], list[Any]]) -> bool:
        """Run all epochs; return whether nobody stopped them."""
        s = self.s
        self.note("on_fit_begin")
        whole = True
        while self.epoch < s.epochs and whole:
            whole = self.one_epoch(batches_of())
        self.note("on_fit_end")
        return whole

    def one_epoch(self, batches: list[Any]) -> bool:
        s, sums, weight, losses = self.s, None, 0, []
        self.note("on_epoch_begin")
        for number, (x, y) in enumerate(batches):
            if self.steps == s.stops > 0 and not weight:
                return False
            self.batch += 1
            self.samples += len(x)
            value, grads = self.loss(x, y)
            losses.append((value, len(x)))
            parts = [g * len(x) for g in grads]
            sums = parts if sums is None else [a + b for a, b in zip(sums, parts, strict=True)]
            weight += len(x)
            if (number + 1) % s.accumulate == 0 or number == len(batches) - 1:
                self.change([g / weight for g in sums])
                sums, weight = None, 0
        if self.steps == s.stops > 0 and len(batches) % s.accumulate == 0:
            return False
        row = {"loss": _mean(losses)}
        if s.evaluates:
            row["valid_loss"] = self.evaluate()
        if s.every == "epoch":
            self.ticks += 1
        self.epoch += 1
        self.batch = 0
        self.history.append({"epoch": self.epoch, **row, "lr": self.rate})
        self.note("on_epoch_end")
        return not self.steps >= s.stops > 0

    def evaluate(self) -> float:
        self.note("on_evaluate_begin")
        found = []
        for x, y in self.s.valid_batches():
            found.append((self.loss(x, y)[0], len(x)))
            self.note("on_evaluate_step")
        self.note("on_evaluate_end")
        return _mean(found)


def _mean(pairs: list[tuple[float, int]]) -> float:
    return float(np.average([v for v, _ in pairs], weights=[n for _, n in pairs]))


def _one_run(package: Any, rng: Rng, jit: bool) -> None:
    nn, s = import_module("calor_nn"), _Settings(rng)
    layer = nn.Linear(3, 2)
    layer.load_state_dict({"weight": s.weight, "bias": s.bias})
    optimizer = getattr(package, s.name)(layer, **s.how)
    schedule = None
    if s.gamma is not None:
        schedule = package.Scheduler(optimizer, lr=package.Exponential(s.gamma))
    recorder = _recorder(package, s.stops)
    options = {"schedule": schedule, "schedule_every": s.every, "accumulate": s.accumulate,
               "clip_norm": s.norm, "clip_value": s.bound, "callbacks": [recorder], "jit": jit,
               "display": "quiet"}  # fmt: skip
    learner = package.Learner(layer, optimizer, nn.functional.mse_loss, **options)
    other, plain = s.loader(package), _Model(s)
    whole = plain.run(lambda: [[t.numpy() for t in batch] for batch in other])
    valid = [tuple(map(calor.asarray, b)) for b in s.valid_batches()] if s.evaluates else None
    history = learner.fit(s.loader(package), valid, epochs=s.epochs)
    for name, want in zip(("weight", "bias"), plain.wants, strict=True):
        compare(getattr(layer, name).numpy(), want, f"the {name} of {s.said}", 1e-4)
    assert recorder.events == plain.events, (
        f"events {_first_apart(recorder.events, plain.events)} of {s.said}"
    )
    assert len(history) == len(plain.history), f"{len(history)} rows of {s.said}"
    for got, want_row in zip(history, plain.history, strict=True):
        names = [n for n in got if n not in _TIMES]
        assert names == list(want_row), f"a row of {names}, not {list(want_row)}, of {s.said}"
        for name, value in want_row.items():
            near = 1e-4 * max(abs(value), 1e-2)
            assert abs(got[name] - value) <= near, f"{name}: {got[name]}, not {value}, of {s.said}"
        assert all(got[name] > 0 for name in _TIMES), f"times {got} of {s.said}"
    reason = None if whole else "enough"
    assert learner.stop_reason == reason, f"{learner.stop_reason!r} of {s.said}"
    assert learner.completed, f"a run that nobody interrupted is not complete, of {s.said}"
    assert layer.training, f"the model is left in evaluation by {s.said}"
    assert all(p.grad is None for p in layer.parameters()), f"gradients are left by {s.said}"
    layer.eval() if coin(rng) else layer.train()
    before = layer.training
    found = learner.evaluate([tuple(map(calor.asarray, b)) for b in s.valid_batches()])
    mean = plain.evaluate()
    assert list(found) == ["loss"], f"evaluate gives {found}"
    assert abs(found["loss"] - mean) <= 1e-4 * max(mean, 1e-2), f"evaluate: {found}, not {mean}"
    made = learner.predict([(calor.asarray(x),) for x, _ in s.valid_batches()]).numpy()
    compare(made, s.valid @ plain.wants[0].T + plain.wants[1], "predict", 1e-4)
    assert layer.training is before, "evaluate or predict leaves another mode"


def _first_apart(got: list[Any], want: list[Any]) -> str:
    for number, (a, b) in enumerate(zip(got, want, strict=False)):
        if a != b:
            return f"differ at {number}: {a}, not {b}"
    return f"are {len(got)}, not {len(want)}"


def _runs(package: Any, rng: Rng, place: Place) -> None:
    _one_run(package, rng, jit=False)


def _jitted(package: Any, rng: Rng, place: Place) -> None:
    _one_run(package, rng, jit=True)


class _Full:
    """A learner with all of its state: dropout, moments, schedules, shuffled data, callbacks."""

    def __init__(self, package: Any, settings: Rng, seed: int, folder: Path, stop_at: int) -> None:
        nn = import_module("calor_nn")
        calor.random.seed(seed)
        self.model = nn.Sequential(
            nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.4), nn.Linear(4, 2)
        )
        name = str(settings.choice(list(_TRAINED)))
        how = _RULES[name][1](settings)
        self.optimizer = getattr(package, name)(self.model, **how)
        self.schedule = package.Scheduler(
            self.optimizer, lr=package.Chained(package.LinearWarmup(3), package.Exponential(0.9))
        )
        accumulate, every = int(settings.integers(1, 3)), int(settings.integers(1, 3))
        self.keeper = package.Checkpoint(folder, every_steps=every, monitor="valid_loss")
        self.stopper = package.EarlyStopping("valid_accuracy", patience=99)
        self.learner = package.Learner(
            self.model, self.optimizer, nn.functional.cross_entropy, metrics=[package.Accuracy()],
            schedule=self.schedule, accumulate=accumulate, display="quiet", jit=False,
            callbacks=[_recorder(package, stop_at), self.keeper, self.stopper],
            precision="float16" if settings.random() < 0.2 else "float32",
        )  # fmt: skip
        rng = np.random.default_rng(4)
        x = np.asarray(rng.normal(size=(11, 3)), np.float32)
        y = rng.integers(0, 2, 11).astype(np.int32)
        self.train = package.DataLoader(package.ArrayDataset(x, y), 3, shuffle=True, seed=8)
        self.valid = package.DataLoader(package.ArrayDataset(x[:5], y[:5]), 2)

    def state(self) -> dict[str, Any]:
        """Return all state as plain numbers and bytes."""
        rows = [{k: v for k, v in r.items() if k not in _TIMES} for r in self.learner.history]
        held = {n: t.numpy().tobytes() for n, t in self.model.state_dict().items()}
        moments = calor.tree.map(
            lambda v: v.numpy().tobytes() if isinstance(v, calor.Tensor) else v,
            self.optimizer.state_dict(),
        )
        counts = {n: getattr(self.learner, n) for n in ("epoch", "steps", "batch", "samples")}
        return {
            "history": rows, "weights": held, "moments": moments, "counts": counts,
            "rate": self.learner.rate, "stopper": self.stopper.state_dict(),
            "keeper": self.keeper.state_dict(), "schedule": self.schedule.state_dict(),
            "random": [calor.tree.map(_plain, v) for v in calor.random.default_generator.state],
        }  # fmt: skip


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, calor.Tensor | np.ndarray) else value


def _resumed(package: Any, rng: Rng, place: Place) -> None:
    number, epochs, stop_at = int(rng.integers(1 << 30)), 3, int(rng.integers(1, 9))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def full(seed: int, stop: int, where: str) -> _Full:
            return _Full(package, source([number]), seed, folder / where, stop)

        whole = full(5, 0, "whole")
        calor.random.seed(6)
        whole.learner.fit(whole.train, whole.valid, epochs=epochs)
        want = whole.state()
        assert (folder / "whole" / "last.ckpt").exists(), "no checkpoint at the end of a run"
        best = min(row["valid_loss"] for row in want["history"])
        assert want["keeper"] == {"best": best}, f"{want['keeper']} of {want['history']}"
        assert (folder / "whole" / "best.ckpt").exists(), "no checkpoint of the best epoch"
        stopped = full(5, stop_at, "stopped")
        calor.random.seed(6)
        stopped.learner.fit(stopped.train, stopped.valid, epochs=epochs)
        path = folder / "own.ckpt"
        stopped.learner.save(path)
        went = full(77, 0, "stopped")
        calor.random.seed(99)
        by = str(rng.choice(["path", "folder", "auto"]))
        resume: Any = {"path": path, "folder": folder / "stopped", "auto": "auto"}[by]
        went.learner.fit(went.train, went.valid, epochs=epochs, resume=resume)
        found = went.state()
        for what, value in want.items():
            assert found[what] == value, (
                f"{what} after a run stopped at step {stop_at} and resumed by {by}: {found[what]}, "
                f"not {value}"
            )
        left = sorted(p.name for p in (folder / "stopped").iterdir())
        assert set(left) <= {"last.ckpt", "best.ckpt"}, f"files are left: {left}"
        _not_resumed(package, full(3, 0, "other"), path, folder)


def _not_resumed(package: Any, full: _Full, path: Path, folder: Path) -> None:
    """What does not fit is refused, and nothing is changed."""
    errors = import_module("calor_train.errors")
    content = path.read_bytes()
    damaged = {"cut": content[:-3], "empty": b"", "text": b"weights", "flipped": content[::-1]}
    for name, data in damaged.items():
        (folder / name).write_bytes(data)
    calor.save({"format": "another", "w": calor.ones(2)}, folder / "tree")
    before = full.state()
    for name in (*damaged, "tree", "missing"):
        try:
            full.learner.load(folder / name)
        except errors.CheckpointError as error:
            said = str(error)
        else:
            raise AssertionError(f"a checkpoint that is {name} was loaded")
        assert name in said, f"the error does not name the file {name}: {said}"
        assert full.state() == before, f"a checkpoint that is {name} has changed the learner"
    nn = import_module("calor_nn")
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.4),
                          nn.Linear(5, 2))  # fmt: skip
    weights = {n: t.numpy() for n, t in model.state_dict().items()}
    other = package.Learner(model, package.SGD(model), nn.functional.cross_entropy,
                            metrics=[package.Accuracy()], display="quiet")  # fmt: skip
    try:
        other.load(path)
    except errors.CheckpointError as error:
        said = str(error)
    else:
        raise AssertionError("a checkpoint of a narrower model was loaded")
    what = "it holds" if full.learner.scaler else "0.weight is float32[5, 3], saved float32[4, 3]"
    assert what in said, said
    after = {n: t.numpy() for n, t in model.state_dict().items()}
    assert all((after[n] == a).all() for n, a in weights.items()), "weights have changed"


def _measured(rng: Rng) -> float:
    """Return a number of an epoch, which may be none."""
    if rng.random() < 0.25:
        return float(rng.choice([np.nan, np.nan, np.inf, -np.inf]))
    return float(rng.integers(0, 9))


def _watched(package: Any, rng: Rng, place: Place) -> None:
    """Early stops, tables, losses that are not finite, and settings that are refused."""
    for _ in range(10):
        _stopped(package, rng)
    _not_finite(package, rng)
    _table(package, rng)
    for _ in range(4):
        _keeper(package, rng)


def _stopped(package: Any, rng: Rng) -> None:
    direction = str(rng.choice(["min", "max"]))
    patience, delta = int(rng.integers(1, 4)), float(rng.choice([0.0, 0.5]))
    values = [_measured(rng) for _ in range(9)]
    stopper = package.EarlyStopping("share", patience, min_delta=delta, direction=direction)
    best, waited, want = None, 0, None
    said: list[str] = []

    class Holder:
        """What a callback needs of a learner."""

        history: list[dict[str, float]] = []  # noqa: RUF012
        epoch = steps = 0

        def stop(self, reason: str) -> None:
            said.append(reason)

    holder = Holder()
    stopper.on_fit_begin(holder)
    for number, value in enumerate(values):
        sign = 1 if direction == "max" else -1
        # NaN is no better than anything, and nothing need be better than it.
        if not np.isnan(value) and (best is None or sign * (value - best) > delta):
            best, waited = value, 0
        else:
            waited += 1
        holder.history = [{"share": value}]
        stopper.on_epoch_end(holder)
        state = stopper.state_dict()
        assert state == {"best": best, "waited": waited}, f"{state} after {values[: number + 1]}"
        if waited >= patience and want is None:
            want = number
            assert len(said) == 1, f"the run goes on after {values[: number + 1]}"
            on = "a number" if best is None else f"{best:.6g}"
            assert f"share has not improved on {on} for {waited} epochs" == said[0], said
    assert want is not None or not said, f"{said} of {values}"


def _keeper(package: Any, rng: Rng) -> None:
    """Which files are written after which events, by steps, epochs and the best number."""
    epochs, steps = int(rng.integers(1, 4)), int(rng.integers(1, 4)) if coin(rng) else None
    monitor = "share" if coin(rng) else None
    wrote: list[str] = []

    class Holder:
        """What a callback needs of a learner."""

        epoch = steps = 0
        completed = True
        history: list[dict[str, float]] = []  # noqa: RUF012
        callbacks: tuple[Any, ...] = ()

        def save(self, path: Path) -> None:
            wrote.append(path.name)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "a" / "b"
        keeper = package.Checkpoint(
            folder, every_epochs=epochs, every_steps=steps, monitor=monitor, direction="max"
        )
        keeper.load_state_dict({"best": 50.0})
        holder, want = Holder(), []
        keeper.on_fit_begin(holder)
        assert folder.is_dir(), "the folder is not made"
        best, saved = None, None
        for _ in range(14):
            kind = int(rng.integers(5))
            if kind < 3:
                holder.steps += 1
                keeper.on_step_end(holder)
                if steps is not None and holder.steps % steps == 0:
                    want.append("last.ckpt")
                    saved = holder.epoch, holder.steps
                continue
            value = _measured(rng)
            holder.epoch, holder.history = holder.epoch + 1, [{"share": value}]
            keeper.on_epoch_end(holder)
            if monitor is not None and not np.isnan(value) and (best is None or value > best):
                best = value
                want.append("best.ckpt")
            if holder.epoch % epochs == 0:
                want.append("last.ckpt")
                saved = holder.epoch, holder.steps
            assert keeper.state_dict() == {"best": best}, f"{keeper.state_dict()}, not {best}"
        holder.completed = coin(rng)
        keeper.on_fit_end(holder)
        if holder.completed and saved != (holder.epoch, holder.steps):
            want.append("last.ckpt")
        keeper.on_interrupt(holder)
        want.append("last.ckpt")
        assert wrote == want, f"{wrote} by {epochs} epochs and {steps} steps, not {want}"
        keeper.on_fit_begin(holder)
        assert keeper.state_dict() == {"best": best}, "a run that goes on forgets the best"
        keeper.load_state_dict({"best": 3.5})
        kept = None if monitor is None else 3.5
        assert keeper.state_dict() == {"best": kept}, f"{keeper.state_dict()} of 3.5"
    for bad in ({"every_epochs": 0}, {"every_steps": 0}, {"monitor": "x", "direction": "up"}):
        try:
            package.Checkpoint("nowhere", **bad)
        except ArgumentError:
            continue
        raise AssertionError(f"a checkpoint of {bad} is not refused")


def _linear(package: Any, **options: Any) -> tuple[Any, Any]:
    nn = import_module("calor_nn")
    layer = nn.Linear(3, 2)
    optimizer = package.SGD(layer, 1e-3)
    return layer, package.Learner(
        layer, optimizer, nn.functional.mse_loss, display="quiet", jit=False, **options
    )


def _not_finite(package: Any, rng: Rng) -> None:
    count, bad = 5, int(rng.integers(5))
    batches = [(np.ones((2, 3), np.float32), np.ones((2, 2), np.float32)) for _ in range(count)]
    batches[bad][1][0, 0] = float(rng.choice([np.nan, np.inf]))
    _, learner = _linear(package)
    try:
        learner.fit(batches, epochs=2)
    except import_module("calor_train.errors").NonFiniteLossError as error:
        told = str(error)
    else:
        raise AssertionError("a loss that is not finite was trained on")
    assert f"in batch {bad + 1} of epoch 1 (learning rate 0.001)" in told, told
    for refused in (
        lambda: _linear(package, accumulate=0), lambda: _linear(package, schedule_every="day"),
        lambda: _linear(package, precision="float8"), lambda: learner.fit([], epochs=1),
        lambda: _linear(package, metrics=[package.Loss()]), lambda: learner.fit([], epochs=-1),
        lambda: learner.fit(iter(batches), epochs=2), lambda: learner.evaluate([]),
        lambda: learner.predict([]), lambda: learner.fit([], epochs=1, resume="auto"),
    ):  # fmt: skip
        try:
            refused()
        except ArgumentError:
            continue
        raise AssertionError(f"{inspect.getsource(refused)} is not refused")


def _table(package: Any, rng: Rng) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "deep" / "er" / "history.csv"
        _, learner = _linear(package, callbacks=[package.CSVLog(path)])
        batches = [(np.ones((2, 3), np.float32), np.ones((2, 2), np.float32))]
        epochs = int(rng.integers(1, 4))
        assert learner.fit(batches, epochs=0) == [], "no epoch has a row"
        history = learner.fit(batches, epochs=epochs)
        names, *rows = (line.split(",") for line in path.read_text("utf-8").splitlines())
        assert names == list(history[0]), f"columns {names}"
        assert len(rows) == epochs, f"{len(rows)} rows of {epochs} epochs"
        for row, want in zip(rows, history, strict=True):
            assert [float(v) for v in row] == list(want.values()), f"{row}, not {want}"
        assert [p.name for p in path.parent.iterdir()] == ["history.csv"], "files are left"


# Each way with the number of its turns.
_SUBJECTS: Final[dict[str, tuple[Callable[[Any, Rng, Place], None], int]]] = {
    "runs": (_runs, 12), "jitted-runs": (_jitted, 1), "resumed-runs": (_resumed, 2),
    "watched-runs": (_watched, 3),
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    package = import_module(PACKAGE)
    run, turns = _SUBJECTS[name]
    state = calor.random.default_generator.state
    try:
        for turn in range(turns):
            run(package, source([place.seed, crc32(name.encode()), turn]), place)
    finally:
        calor.random.default_generator.set_state(state)


def drawn_learning() -> Iterator[Check]:
    """Yield a check of each kind of run, if the package is installed."""
    yield from checks_of(_SUBJECTS, _run, CONTRACT)
