"""Objects that serve several others: what one of them meets is no matter of the rest.

One scaler of losses has several optimizers, of which some have a gradient that is not finite; one
schedule has several groups and optimizers; one average has several parts of a model; one stream of
random numbers has several layers. Their methods are called in drawn orders, plainly and in jitted
steps, and what each of the served should be is kept beside it in NumPy.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, uint32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "an object that serves several others serves each as it would serve it alone"
_NN, _TRAIN = "calor_nn", "calor_train"
_TURNS, _STEPS, _NEAR = 10, 5, 2e-6
_BAD: Final = (np.inf, -np.inf, np.nan)
Rng = np.random.Generator


def _compare(got: Any, want: Any, told: str) -> None:
    made, right = np.asarray(got.numpy() if hasattr(got, "numpy") else got), np.asarray(want)
    assert made.shape == right.shape, f"{told}: shape {made.shape}, not {right.shape}"
    same = np.allclose(made, right, rtol=_NEAR, atol=_NEAR, equal_nan=True)
    assert same, f"{told}: {made.tolist()}, not {right.tolist()}"


class _Served:
    """An optimizer of two parameters, and the rule of gradient descent with a momentum beside."""

    def __init__(self, train: Any, rng: Rng) -> None:
        self.values = [rng.integers(-4, 5, s).astype(np.float64) for s in ((2,), ())]
        self.tensors = [calor.asarray(np.asarray(v, np.float32), requires_grad=True)
                        for v in self.values]  # fmt: skip
        self.moments = [np.zeros_like(v) for v in self.values]
        self.momentum = float(rng.choice((0.0, 0.5)))
        self.made = train.SGD(self.tensors, lr=0.5, momentum=self.momentum)
        self.grads: list[Array] = []
        self.limit = 0.0

    def follow(self) -> None:
        """Make the step that the optimizer should make."""
        if not all(np.isfinite(g).all() for g in self.grads):
            return
        for k, g in enumerate(self.grads):
            given = np.clip(g, -self.limit, self.limit) if self.limit else g
            self.moments[k] = self.moments[k] * self.momentum + given
            self.values[k] = self.values[k] - 0.5 * self.moments[k]


def _scaler(rng: Rng, turn: int, place: Place) -> None:
    train = import_module(_TRAIN)
    served = [_Served(train, rng) for _ in range(int(rng.integers(2, 4)))]
    scale, interval, finite = float(rng.choice((2.0, 1024.0))), int(rng.integers(1, 4)), 0
    scaler = train.GradScaler(scale, growth_interval=interval)
    calls = _calls(rng, len(served))
    for k, s in enumerate(served):
        s.limit = 1.5 if f"clip {k}" in calls else 0.0

    def step(optimizers: list[Any], scaler: Any) -> None:
        for call in calls:
            what, number = call.split()
            optimizer = optimizers[int(number)]
            if what == "clip":
                train.clip_grad_value_(optimizer.params, 1.5)
            else:
                getattr(scaler, what)(optimizer)
        scaler.update()

    jitted = not place.interactive or turn % 2 == 1
    run = calor.jit(step) if jitted else step
    told = f"{'jitted ' * jitted}{', '.join(calls)} of {len(served)}, {scale=}, {interval=}"
    for count in range(_STEPS):
        bad = {k for k in range(len(served)) if rng.random() < 0.35}
        for k, s in enumerate(served):
            s.grads = [np.asarray(rng.integers(-3, 4, v.shape), np.float64) for v in s.values]
            if k in bad:
                at = int(rng.integers(2))
                s.grads[at].reshape(-1)[-1] = _BAD[int(rng.integers(3))]
            for p, g in zip(s.tensors, s.grads, strict=True):
                p.grad = calor.asarray(np.asarray(g * scale, np.float32))
            s.follow()
        run([s.made for s in served], scaler)
        what = f"step {count}, bad {sorted(bad)}, {told}"
        for k, s in enumerate(served):
            for n, (p, want) in enumerate(zip(s.tensors, s.values, strict=True)):
                _compare(p, want, f"parameter {n} of {k} after {what}")
        finite = 0 if bad else finite + 1
        scale *= 0.5 if bad else 2.0 if finite == interval else 1.0
        finite %= interval
        _compare(scaler.get_scale(), scale, f"the scale after {what}")


def _calls(rng: Rng, count: int) -> list[str]:
    """Return the calls of each optimizer in their order, those of all in a drawn one."""
    forms = (("step",), ("unscale_", "step"), ("unscale_", "clip", "step"))
    waits = [list(forms[int(rng.integers(3))]) for _ in range(count)]
    made: list[str] = []
    while any(waits):
        at = int(rng.choice([k for k, w in enumerate(waits) if w]))
        made.append(f"{waits[at].pop(0)} {at}")
    return made


def _schedules(rng: Rng, turn: int, place: Place) -> None:
    train = import_module(_TRAIN)
    forms: tuple[tuple[Any, Callable[[int, float], float]], ...] = (
        (train.StepDecay(2, gamma=0.5), lambda n, base: base * 0.5 ** (n // 2)),
        (train.Exponential(0.5), lambda n, base: base * 0.5**n),
        (train.MultiStep([1, 3], gamma=0.25), lambda n, base: base * 0.25 ** ((n > 0) + (n > 2))),
    )  # fmt: skip
    schedule, rule = forms[turn % 3]
    optimizers = [_grouped(train, rng) for _ in range(2)]
    made = [train.Scheduler(o, lr=schedule) for o, _ in optimizers]
    counts, names = [0, 0], []
    for _ in range(_STEPS * 2):
        at, how = int(rng.integers(2)), int(rng.integers(4))
        names.append(f"{('step', 'step', 'stored', 'replaced')[how]} {at}")
        optimizer, bases = optimizers[at]
        if how < 2:
            made[at].step()
            counts[at] += 1
        elif how == 2:
            made[at].load_state_dict(copy.deepcopy(made[at].state_dict()))
        else:
            # Another scheduler by the same schedule goes on from the state of the old one.
            state, before = made[at].state_dict(), [g.lr for g in optimizer.param_groups]
            for group, base in zip(optimizer.param_groups, bases, strict=True):
                group.lr = base
            made[at] = train.Scheduler(optimizer, lr=schedule)
            made[at].load_state_dict(state)
            after = [g.lr for g in optimizer.param_groups]
            assert after == before, f"rates {after}, not {before} after {', '.join(names)}"
        for k, (held, begin) in enumerate(optimizers):
            for n, (group, base) in enumerate(zip(held.param_groups, begin, strict=True)):
                told = f"the rate of group {n} of {k}, {schedule!r}, after {', '.join(names)}"
                _compare(float(group.lr), rule(counts[k], base), told)


def _grouped(train: Any, rng: Rng) -> tuple[Any, list[float]]:
    bases = [float(b) for b in rng.permutation((1.0, 2.0, 0.25))[: int(rng.integers(1, 4))]]
    groups = [{"params": [calor.ones(1, requires_grad=True)], "lr": b} for b in bases]
    return train.SGD(groups, lr=3.0), bases


def _averages(rng: Rng, turn: int, place: Place) -> None:
    nn, train = import_module(_NN), import_module(_TRAIN)
    parts = [nn.Linear(2, 2, bias=bool(rng.integers(2))) for _ in range(2)]
    both = nn.Sequential(*parts)
    moving, mean = train.ExponentialMovingAverage(both, 0.5), train.AveragedModel(both)
    held = dict(both.named_parameters())
    wants = {n: t.numpy().astype(np.float64) for n, t in held.items()}
    sums, count = {n: np.zeros_like(a) for n, a in wants.items()}, 0
    optimizers = [train.SGD(part, lr=1.0) for part in parts]
    for step in range(_STEPS):
        # One part goes on at a time, and a weight of it may be lost for good.
        at = int(rng.integers(2))
        lost = step == _STEPS - 2 and rng.random() < 0.7
        for n, p in enumerate(parts[at].parameters()):
            g = rng.integers(-3, 4, p.shape).astype(np.float32)
            if lost and not n:
                g[0, 0] = _BAD[int(rng.integers(3))]
            p.grad = calor.asarray(g)
        optimizers[at].step()
        optimizers[at].zero_grad()
        now = {n: t.numpy().astype(np.float64) for n, t in held.items()}
        if rng.random() < 0.8:
            moving.update()
            with np.errstate(invalid="ignore"):
                wants = {n: wants[n] + (now[n] - wants[n]) * 0.5 for n in wants}
        if rng.random() < 0.8:
            mean.update_parameters(both)
            count += 1
            with np.errstate(invalid="ignore"):
                sums = {n: sums[n] + (now[n] - sums[n]) / count for n in sums}
        if rng.random() < 0.5:
            with moving.swapped():
                for name, tensor in held.items():
                    _compare(tensor, wants[name], f"{name} within swapped at {step}")
        state = moving.state_dict()
        averaged = {n.removeprefix("module."): t for n, t in mean.named_parameters()}
        for name, tensor in held.items():
            _compare(tensor, now[name], f"{name} after step {step}")
            _compare(state[name], wants[name], f"the moving average of {name} after step {step}")
            if count:
                _compare(averaged[name], sums[name], f"the mean of {name} after step {step}")


class _Layer(Stateful):
    """A layer that draws from a stream, and counts what it drew."""

    def __init__(self, stream: Any, scale: float) -> None:
        self.stream, self.scale = stream, calor.asarray(np.float32(scale))

    def __call__(self, x: Any) -> Any:
        return x + calor.random.uniform(x.shape, generator=self.stream) * self.scale


class _Pair(Stateful):
    """Two layers of one stream, or of more."""

    def __init__(self, streams: list[Any]) -> None:
        self.layers = [_Layer(s, k + 1.0) for k, s in enumerate(streams)]

    def __call__(self, x: Any, order: tuple[int, ...]) -> Any:
        for k in order:
            x = self.layers[k](x)
        return x


def _streams(rng: Rng, turn: int, place: Place) -> None:
    seed = int(rng.integers(99))
    shared, own = calor.random.Generator(seed), calor.random.Generator(seed + 1)
    # The same seeds, whose numbers are drawn one after the other.
    plain = [calor.random.Generator(seed), calor.random.Generator(seed + 1)]
    pair, sources = _Pair([shared, shared, own]), (0, 0, 1)
    jitted = calor.jit(lambda p, x, order: p(x, order), static_argnums=2)
    bound = calor.jit(lambda p, x: p(x, (1, 0, 2))).bind(pair)
    names: list[str] = []
    for _ in range(_STEPS):
        order = tuple(int(k) for k in rng.integers(0, 3, int(rng.integers(1, 5))))
        how = int(rng.integers(6))
        x = calor.asarray(rng.integers(-3, 4, 2).astype(np.float32))
        if how == 0:
            new = int(rng.integers(99))
            shared.seed(new)
            plain[0].seed(new)
        elif how == 1:
            # A copy has one stream for both of its layers, too, apart from the first one.
            pair = copy.deepcopy(pair)
            bound = calor.jit(lambda p, x: p(x, (1, 0, 2))).bind(pair)
            assert pair.layers[0].stream is pair.layers[1].stream, "a copy has two streams"
            shared = pair.layers[0].stream
        order = (1, 0, 2) if how == 5 else order
        names.append(f"{('seeded', 'copied', 'plain', 'jitted', 'jitted', 'bound')[how]} {order}")
        jit = how in (3, 4) or (how < 3 and not place.interactive)
        made = bound(x) if how == 5 else jitted(pair, x, order) if jit else pair(x, order)
        want = x.numpy().astype(np.float64)
        for k in order:
            drawn = calor.random.uniform((2,), generator=plain[sources[k]])
            want = want + drawn.numpy() * (k + 1.0)
        _compare(made, want, f"layers after {', '.join(names)}")


_SUBJECTS: Final[dict[str, tuple[Callable[[Rng, int, Place], None], tuple[str, ...]]]] = {
    "scaler": (_scaler, (_TRAIN,)), "schedules": (_schedules, (_TRAIN,)),
    "averages": (_averages, (_NN, _TRAIN)), "streams": (_streams, ()),
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    for turn in range(_TURNS):
        if place.tries(turn, 3):
            rng = np.random.default_rng([place.seed, 614, len(name), turn])
            _SUBJECTS[name][0](rng, turn, place)


def shared_objects() -> Iterator[Check]:
    """Yield a check of each kind of object whose packages are installed."""
    for name, (run, packages) in _SUBJECTS.items():
        if all(find_spec(p) is not None for p in packages):
            yield Check(
                kind="state",
                subject=f"shared-{name}",
                tier="training",
                contract=CONTRACT,
                run=partial(_run, name),
                text=partial(inspect.getsource, run),
                op="random_bits" if name == "streams" else "where",
                dtypes=(float32, int32, bool_, *((uint32,) if name == "streams" else ())),
                looks=True,
            )
