"""What trains: optimizers, clipping, schedules, scales, metrics and batches beside their formulas.

Requirements: the formulas are written here in float64, from the papers' definitions, and know
nothing of the package; hyper-parameters, shapes, numbers of steps and missing gradients are drawn.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64

from ..rows.functions.comparing import compare
from ..rows.functions.drawing import Rng, a_shape, coin, source
from .base import Array, Check, Place
from .optimizer_formulas import FORMULAS, Rule

PACKAGE: Final = "calor_train"
CONTRACT: Final = "what trains follows its formula at every setting, step after step"
# Of steps, which are traced, and of what is quick.
_STEPS, _TURNS, _LONG = 3, 10, 9
Run = Callable[[Any, Rng, Place], None]


def _floats(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.normal(size=shape), np.float32)


def _sgd(p: Array, g: Array, state: dict[str, Any], how: dict[str, Any], step: int) -> Array:
    g = g + how["weight_decay"] * p
    if how["momentum"]:
        share = 1.0 if step == 1 else 1.0 - how["dampening"]
        state["m"] = how["momentum"] * state.get("m", 0.0) + share * g
        g = g + how["momentum"] * state["m"] if how["nesterov"] else state["m"]
    return np.asarray(p - how["lr"] * g)


def _adam(
    p: Array, g: Array, state: dict[str, Any], how: dict[str, Any], step: int, decoupled: bool
) -> Array:
    first, second = how["betas"]
    decay = how["weight_decay"]
    if decay and not decoupled:
        g = g + decay * p
    state["m"] = first * state.get("m", 0.0) + (1 - first) * g
    state["v"] = second * state.get("v", 0.0) + (1 - second) * g * g
    largest = np.maximum(state.get("most", 0.0), state["v"])
    state["most"] = largest
    square = largest if how["amsgrad"] else state["v"]
    root = np.sqrt(square) / math.sqrt(1 - second**step) + how["eps"]
    moved = p - how["lr"] * (decay * p if decoupled else 0.0)
    return np.asarray(moved - how["lr"] * state["m"] / (1 - first**step) / root)


def _sgd_settings(rng: Rng) -> dict[str, Any]:
    momentum = float(rng.choice([0.0, 0.5, 0.9]))
    nesterov = momentum > 0 and coin(rng)
    return {
        "lr": float(rng.uniform(0.01, 0.5)), "momentum": momentum, "nesterov": nesterov,
        "dampening": 0.0 if nesterov or coin(rng) else 0.3,
        "weight_decay": float(rng.choice([0.0, 0.1])),
    }  # fmt: skip


def _adam_settings(rng: Rng) -> dict[str, Any]:
    return {
        "lr": float(rng.uniform(0.01, 0.3)),
        "betas": (float(rng.choice([0.0, 0.5, 0.9])), float(rng.choice([0.6, 0.95, 0.999]))),
        "eps": float(rng.choice([1e-8, 1e-3])), "weight_decay": float(rng.choice([0.0, 0.1])),
        "amsgrad": coin(rng),
    }  # fmt: skip


_RULES: Final[dict[str, tuple[Rule, Callable[[Rng], dict[str, Any]]]]] = {
    "SGD": (_sgd, _sgd_settings),
    "Adam": (partial(_adam, decoupled=False), _adam_settings),
    "AdamW": (partial(_adam, decoupled=True), _adam_settings),
    **FORMULAS,
}


class _Parameters:
    """Parameters in two groups, beside the numbers that they should have."""

    def __init__(self, package: Any, name: str, rng: Rng) -> None:
        self.rule, settings = _RULES[name]
        self.how = [settings(rng), settings(rng)]
        self.rng, self.sign = rng, -1.0 if coin(rng) else 1.0
        if name == "SGD":
            # Which of them a step holds is that of all groups here.
            for key in ("momentum", "nesterov", "dampening"):
                self.how[1][key] = self.how[0][key]
        self.arrays = [_floats(rng, a_shape(rng, 0, 2)) for _ in range(4)]
        self.tensors = [calor.asarray(a, requires_grad=True) for a in self.arrays]
        self.wants = [a.astype(np.float64) for a in self.arrays]
        self.states: list[dict[str, Any]] = [{} for _ in self.arrays]
        self.steps = [0] * len(self.arrays)
        self.make, self.first = getattr(package, name), [dict(how) for how in self.how]
        self.optimizer = self.made()
        self.what = f"{name} of {self.how}, {'up' if self.sign < 0 else 'down'}"

    def made(self) -> Any:
        """Return an optimizer of the parameters that has made no step."""
        groups = [{"params": self.tensors[:2], **self.first[0]},
                  {"params": self.tensors[2:], **self.first[1]}]  # fmt: skip
        return self.make(groups, maximize=self.sign < 0)

    def gradients(self) -> list[Array | None]:
        """Return gradients, of which one is missing now and then."""
        made: list[Array | None] = [_floats(self.rng, a.shape) for a in self.arrays]
        if coin(self.rng):
            made[int(self.rng.integers(len(made)))] = None
        return made

    def follow(self, gradients: list[Array | None]) -> None:
        """Make the step that the optimizer should make."""
        for n, g in enumerate(gradients):
            if g is None:
                continue
            self.steps[n] += 1
            self.wants[n] = self.rule(
                self.wants[n], self.sign * g.astype(np.float64), self.states[n],
                self.how[n // 2], self.steps[n],
            )  # fmt: skip

    def give(self, gradients: list[Array | None]) -> None:
        for t, g in zip(self.tensors, gradients, strict=True):
            t.grad = None if g is None else calor.asarray(g)

    def compare(self, when: str) -> None:
        for n, (t, want) in enumerate(zip(self.tensors, self.wants, strict=True)):
            compare(t.numpy(), want, f"parameter {n} {when} of {self.what}", 2e-5)


def _optimizer(name: str, package: Any, rng: Rng, place: Place) -> None:
    held = _Parameters(package, name, rng)
    # Some rules are others from a number of steps on, as that of RAdam from the sixth.
    for turn in range(_LONG):
        gradients = held.gradients()
        if turn == 2:
            # A learning rate that changes, and an optimizer that goes on with the stored state.
            # The rate of Rprop is that of its first step.
            held.how[1]["lr"] *= 1.0 if name == "Rprop" else 0.5
            held.optimizer.param_groups[1]["lr"] = held.how[1]["lr"]
            stored = held.optimizer.state_dict()
            held.optimizer = held.made()
            held.optimizer.load_state_dict(stored)
        held.give(gradients)
        held.optimizer.step()
        held.follow(gradients)
        held.compare(f"after step {turn + 1}")
    held.optimizer.zero_grad()
    assert all(t.grad is None or not np.any(t.grad.numpy()) for t in held.tensors), (
        f"zero_grad leaves a gradient of {held.what}"
    )
    _jitted(name, package, rng)


def _jitted(name: str, package: Any, rng: Rng) -> None:
    """Steps of a jitted function that takes the optimizer."""
    held = _Parameters(package, name, rng)

    @calor.jit
    def step(optimizer: Any, gradients: list[Any]) -> None:
        parts = [calor.sum(t * g) for t, g in zip(optimizer.params, gradients, strict=True)]
        sum(parts[1:], parts[0]).backward()
        optimizer.step()
        optimizer.zero_grad()

    for turn in range(3):
        gradients = [_floats(rng, a.shape) for a in held.arrays]
        step(held.optimizer, [calor.asarray(g) for g in gradients])
        held.follow(list(gradients))
        held.compare(f"after jitted step {turn + 1}")


def _clipping(package: Any, rng: Rng, place: Place) -> None:
    arrays = [_floats(rng, a_shape(rng, 0, 2)) * np.float32(3) for _ in range(3)]
    flat = np.concatenate([a.reshape(-1) for a in arrays]).astype(np.float64)
    kind = float(rng.choice([1.0, 2.0, 2.5, math.inf]))
    norm = np.max(np.abs(flat)) if kind == math.inf else np.sum(np.abs(flat) ** kind) ** (1 / kind)
    limit = float(norm * rng.choice([0.3, 0.9, 2.0]))
    factor = min(limit / (norm + 1e-6), 1.0)
    what = f"gradients of norm {norm} (p = {kind}) clipped to {limit}"
    found = package.global_norm([calor.asarray(a) for a in arrays], kind)
    compare(found.numpy(), np.asarray(norm), f"the norm of {what}")
    tree, told = package.clip_by_global_norm({"a": [calor.asarray(a) for a in arrays]}, limit, kind)
    compare(told.numpy(), np.asarray(norm), f"the norm told of {what}")
    parameters: list[Any] = [calor.asarray(np.zeros_like(a), requires_grad=True) for a in arrays]
    for p, a in zip(parameters, arrays, strict=True):
        p.grad = calor.asarray(a)
    told = package.clip_grad_norm_(parameters, limit, kind)
    compare(told.numpy(), np.asarray(norm), f"the norm told of {what}, in place")
    bound = float(rng.uniform(0.5, 3))
    cut = package.clip_by_value([calor.asarray(a) for a in arrays], bound)
    for n, (p, a) in enumerate(zip(parameters, arrays, strict=True)):
        want = a.astype(np.float64) * factor
        compare(tree["a"][n].numpy(), want, what)
        compare(p.grad.numpy(), want, f"{what}, in place")
        compare(cut[n].numpy(), np.clip(a, -bound, bound).astype(np.float64), f"clip at {bound}")
        p.grad = calor.asarray(a)
    package.clip_grad_value_(parameters, bound)
    for p, a in zip(parameters, arrays, strict=True):
        want = np.clip(a, -bound, bound).astype(np.float64)
        compare(p.grad.numpy(), want, f"clip at {bound}, in place")


def _half_cosine(part: float, start: float, end: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


def _restarted(step: int, first: int, by: int, base: float, least: float) -> float:
    length = first
    while step >= length:
        step, length = step - length, length * by
    return _half_cosine(step / length, base, least)


def _cycle(step: int, steps: int, share: float, values: tuple[float, float, float], kind: str,
           ) -> float:  # fmt: skip
    up = share * steps - 1
    first, top, last = values
    part, start, end = (
        (step / up, first, top) if step <= up else ((step - up) / (steps - 1 - up), top, last)
    )
    return _half_cosine(part, start, end) if kind == "cosine" else start + (end - start) * part


Meaning = Callable[[int, float], float]


def drawn_schedules(package: Any, rng: Rng) -> dict[str, tuple[Any, Meaning]]:
    """Return a schedule of each kind by name, and its value at a step of a base."""
    # Some go on for hundreds of steps.
    times, gamma = [(1, 0.7), (40, 0.995)][int(rng.random() < 0.3)]
    n, least = int(rng.integers(4, 12)) * times, float(rng.uniform(0, 0.05))
    size, share = int(rng.integers(1, 5)) * times, float(rng.uniform(0.35, 0.7))
    kind = str(rng.choice(["cosine", "linear"]))
    start, end, power = 0.25, 0.8, float(rng.choice([1.0, 2.5]))
    marks = sorted(int(m) * times for m in rng.choice(12, 3, replace=False))
    warm = max(size, 2)
    p = package
    return {
        "Constant": (p.Constant(0.3), lambda t, base: base * 0.3),
        "StepDecay": (p.StepDecay(size, gamma), lambda t, base: base * gamma ** (t // size)),
        "MultiStep": (p.MultiStep(marks, gamma),
                      lambda t, base: base * gamma ** sum(t >= m for m in marks)),
        "Exponential": (p.Exponential(gamma), lambda t, base: base * gamma**t),
        "Cosine": (p.Cosine(n, least), lambda t, base: _half_cosine(min(t / n, 1), base, least)),
        "CosineRestarts": (p.CosineRestarts(size, 2, least),
                           lambda t, base: _restarted(t, size, 2, base, least)),
        "CosineRestarts of one length": (p.CosineRestarts(size, 1, least),
                                         lambda t, base: _restarted(t, size, 1, base, least)),
        "LinearWarmup": (p.LinearWarmup(warm), lambda t, base: base * min((t + 1) / warm, 1)),
        "LinearWarmup from a share": (
            p.LinearWarmup(warm, start),
            lambda t, base: base * (1 if t >= warm - 1 else start + (1 - start) * t / (warm - 1))),
        "LinearRamp": (p.LinearRamp(n, start, end),
                       lambda t, base: base * (start + (end - start) * min(t / n, 1))),
        "Polynomial": (p.Polynomial(n, power, least),
                       lambda t, base: least + (base - least) * (1 - min(t / n, 1)) ** power),
        "OneCycle": (p.OneCycle(n, share, kind, 10.0, 100.0),
                     lambda t, base: _cycle(min(t, n - 1), n, share, (base / 10, base, base / 1000),
                                      kind)),
        "OneCycleMomentum": (
            p.OneCycleMomentum(n, share, kind, 0.8, 0.9),
            lambda t, base: _cycle(min(t, n - 1), n, share, (0.9, 0.8, 0.9), kind)),
        "AnnealTo": (p.AnnealTo(0.3, n, "linear"),
                     lambda t, base: base + (0.3 - base) * min(t / n, 1)),
        "AnnealTo by a cosine": (p.AnnealTo(0.3, n, "cos"),
                                 lambda t, base: _half_cosine(min(t / n, 1), base, 0.3)),
        "AnnealTo at once": (p.AnnealTo(0.3, 0), lambda t, base: 0.3),
        "Chained": (p.Chained(p.LinearWarmup(warm), p.StepDecay(size, gamma)),
                    lambda t, base: base * min((t + 1) / warm, 1) * gamma ** (t // size)),
        "Joined": (p.Joined([p.Constant(0.1), p.Exponential(gamma), p.Constant(2.0)], marks[:2]),
                   lambda t, base: base * (0.1 if t < marks[0] else gamma ** (t - marks[0])
                                     if t < marks[1] else 2.0)),
    }  # fmt: skip


def _schedules(package: Any, rng: Rng, place: Place) -> None:
    held, base = drawn_schedules(package, rng), float(rng.uniform(0.1, 2))
    for made, meaning in held.values():
        wants = [meaning(t, base) for t in range(16)]
        found = made.table(16, base)
        for t, (got, want) in enumerate(zip(found, wants, strict=True)):
            assert abs(got - want) <= 1e-9 * max(abs(want), 1e-3), (
                f"{made} of {base} is {got} at step {t}, not {want}"
            )
    name = str(rng.choice(list(held)))
    made, meaning = held[name]
    optimizer = package.SGD([calor.asarray(np.zeros(2, np.float32), requires_grad=True)], lr=base)
    scheduler = package.Scheduler(optimizer, lr=made)
    for t in range(5):
        rate = optimizer.param_groups[0]["lr"]
        rate = rate.item() if isinstance(rate, calor.Tensor) else rate
        assert abs(rate - meaning(t, base)) < 1e-6, (
            f"{name} sets {rate} at step {t}, not {meaning(t, base)}"
        )
        if t == 2:
            again = package.Scheduler(optimizer, lr=made)
            again.load_state_dict(scheduler.state_dict())
            scheduler = again
        scheduler.step()


def _scaler(package: Any, rng: Rng, place: Place) -> None:
    """Scales that grow after finite steps, fall after others, and steps that change nothing."""
    growth, backoff, interval = 2.0, 0.25, int(rng.integers(1, 4))
    scaler = package.GradScaler(64.0, growth, backoff, interval)
    array = _floats(rng, (3,))
    p = calor.asarray(array, requires_grad=True)
    optimizer = package.SGD([p], lr=0.1)
    want, scale, finite = array.astype(np.float64), 64.0, 0
    for turn in range(7):
        g, bad = _floats(rng, (3,)), bool(rng.random() < 0.35)
        loss = scaler.scale(calor.asarray(np.float32(1.5)))
        assert loss.item() == 1.5 * scale, f"a loss times {loss.item() / 1.5}, not {scale}"
        given = (g * np.float32(scale)).astype(np.float32)
        if bad:
            given[int(rng.integers(3))] = float(rng.choice([np.nan, np.inf, -np.inf]))
        p.grad = calor.asarray(given)
        if coin(rng):
            scaler.unscale_(optimizer)
            if not bad:
                compare(p.grad.numpy(), g.astype(np.float64), f"a gradient unscaled by {scale}")
        scaler.step(optimizer)
        scaler.update()
        want = want if bad else want - 0.1 * g
        finite = 0 if bad else finite + 1
        if bad:
            scale *= backoff
        elif finite == interval:
            scale, finite = scale * growth, 0
        told = f"step {turn + 1}{', not finite' * bad}, interval {interval}"
        compare(p.numpy(), want, f"a parameter after {told}")
        assert scaler.get_scale() == scale, f"after {told}: {scaler.get_scale()}, not {scale}"
        state = scaler.state_dict()
        assert state["_growth_tracker"] == finite, f"after {told}: {state}, not {finite}"
        other = package.GradScaler(1.0, growth, backoff, interval)
        other.load_state_dict(state)
        scaler = other if turn == 3 else scaler


# Metrics of ranks alone, whose scores may be no numbers.
_RANKED: Final = ("accuracy", "top", "confusion")


def _metrics(package: Any, rng: Rng, place: Place) -> None:
    classes, k = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    held = {
        "accuracy": package.Accuracy(), "top": package.TopK(k),
        "confusion": package.ConfusionMatrix(classes), "loss": package.Loss(),
        "mean": package.Mean("error", lambda y, t: calor.mean(y) - calor.mean(t)),
        "running": package.RunningMean("recent", decay=0.7),
    }  # fmt: skip
    scores, ranked, truth, losses = [], [], [], []
    for _ in range(int(rng.integers(2, 4))):
        n = int(rng.integers(1, 9))
        y, t = _floats(rng, (n, classes)), rng.integers(0, classes, n).astype(np.int32)
        if classes > 2:
            # The largest score comes twice: the first of them is the class.
            y[0, 1:] = y[0, 1]
        loss = np.float32(rng.uniform(0, 3))
        # A score that is no number is the largest of its sample, and its own class is not right.
        odd = np.where(rng.random(y.shape) < 0.2, np.float32(np.nan), y)
        for name, metric in held.items():
            given = odd if name in _RANKED else y
            metric.update(calor.asarray(given), calor.asarray(t), calor.asarray(loss))
        ranked.append(odd)
        scores.append(y)
        truth.append(t)
        losses.append(float(loss))
    counts = [len(t) for t in truth]
    y, t = np.concatenate(scores), np.concatenate(truth)
    odd = np.concatenate(ranked)
    own = np.take_along_axis(odd, t[:, None], 1)
    table = np.zeros((classes, classes), np.int64)
    np.add.at(table, (t, odd.argmax(1)), 1)
    weights = [0.7 ** (len(losses) - 1 - i) for i in range(len(losses))]
    means = [
        float(a.mean(dtype=np.float64)) - float(b.mean())
        for a, b in zip(scores, truth, strict=True)
    ]
    wants = {
        "accuracy": np.mean(odd.argmax(1) == t),
        "top": np.mean(((odd > own).sum(1) < k) & ~np.isnan(own[:, 0])),
        "loss": np.average(losses, weights=counts), "mean": np.average(means, weights=counts),
        "running": np.average(losses, weights=weights),
    }  # fmt: skip
    for name, want in wants.items():
        got = held[name].compute()
        assert abs(got - want) <= 1e-5 * max(abs(want), 1), f"{name}: {got}, not {want}"
    found = held["confusion"].compute()
    assert (found == table).all(), f"confusion: {found.tolist()}, not {table.tolist()}"
    for name, metric in held.items():
        metric.reset()
        if name != "confusion":
            assert math.isnan(metric.compute()), f"{name} after reset: {metric.compute()}"


def _batches(package: Any, rng: Rng, place: Place) -> None:
    count, size = int(rng.integers(5, 30)), int(rng.integers(1, 8))
    x, y = _floats(rng, (count, 3)), np.arange(count, dtype=np.int32)
    data = package.ArrayDataset(x, y)
    shuffle, drop = coin(rng), coin(rng)
    options = {"batch_size": size, "shuffle": shuffle, "drop_last": drop, "seed": 5}
    loader = package.DataLoader(data, **options)
    what = f"{count} samples in batches of {size}, shuffle {shuffle}, drop_last {drop}"
    total = count // size if drop else -(-count // size)
    assert len(loader) == total, f"{what}: {len(loader)} batches, not {total}"
    epochs = []
    for _ in range(2):
        batches = [tuple(t.numpy() for t in batch) for batch in loader]
        assert len(batches) == total, f"{what}: {len(batches)} batches, not {total}"
        seen = np.concatenate([b[1] for b in batches]) if batches else y[:0]
        assert len(set(seen.tolist())) == len(seen), f"{what}: a sample comes twice: {seen}"
        assert len(seen) == min(total * size, count), f"{what}: {len(seen)} samples"
        rows = np.concatenate([b[0] for b in batches]) if batches else x[:0]
        assert (rows == x[seen]).all(), f"{what}: rows and their numbers do not go together"
        assert shuffle or (seen == y[: len(seen)]).all(), f"{what}: the order is {seen}"
        epochs.append(seen.tolist())
    if shuffle and total * size > 8:
        assert epochs[0] != epochs[1], f"{what}: two epochs have the order {epochs[0]}"
        again = package.DataLoader(data, **options)
        seen = np.concatenate([b[1].numpy() for b in again]).tolist()
        assert seen == epochs[0], f"{what}: the same seed has another order"
    part = package.Subset(data, [3, 1, 1])
    assert [int(part[k][1]) for k in range(len(part))] == [3, 1, 1], "a subset has other samples"
    # A position within an epoch is stored, and another loader goes on there.
    loader = package.DataLoader(data, **options)
    if total > 1:
        iterator = iter(loader)
        first = next(iterator)[1].numpy().tolist()
        other = package.DataLoader(data, **options)
        other.load_state_dict(loader.state_dict())
        rest = [int(v) for batch in other for v in batch[1].numpy()]
        assert first + rest == epochs[0], f"{what}: {first} and then {rest}, not {epochs[0]}"


_SUBJECTS: Final[dict[str, Run]] = {
    **{name: partial(_optimizer, name) for name in _RULES},
    "clipping": _clipping, "schedules": _schedules, "GradScaler": _scaler, "metrics": _metrics,
    "batches": _batches,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    package = import_module(PACKAGE)
    for turn in range(_STEPS if name in _RULES else _TURNS):
        _SUBJECTS[name](package, source([place.seed, crc32(name.encode()), turn]), place)


def training() -> Iterator[Check]:
    """Yield a check of each part, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name, run in _SUBJECTS.items():
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, run.func if isinstance(run, partial) else run),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
