"""What follows a training run: means of weights, statistics of norms, and rates that fall.

A model of several kinds of parameters and buffers is changed again and again, by assignment and in
place, and averages are beside the same in NumPy: after any number of updates, plain and jitted, of
half types too, swapped in and out, stored and restored. A rate that falls when a number stops
improving follows the rules of the field at drawn options and numbers.
"""

from __future__ import annotations

import inspect
import math
import pickle
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bfloat16, bool_, float32, int32, int64
from calor.errors import CalorError

from ..rows.functions.drawing import Rng, coin, source
from .base import Array, Check, Place
from .training import PACKAGE

CONTRACT: Final = "averages, statistics and rates are those of all that was given to them"
_RUNS, _TURNS = 5, 9


def _nn() -> Any:
    return import_module("calor_nn")


def _model(rng: Rng, low: bool) -> Any:
    """Return a model with weights, a running norm and a buffer, some of a half type."""
    nn = _nn()
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1, bias=coin(rng)))
    model.register_buffer("count", calor.asarray(np.int32(0)))
    model.register_buffer("mark", calor.asarray(np.float32(0)))
    if low:
        half = calor.asarray(rng.normal(size=(2,)).astype(np.float32)).astype(bfloat16)
        model.half = nn.Parameter(half)
    return model


def _changed(model: Any, rng: Rng) -> None:
    """Give all parameters and buffers other numbers, in place, as a step does."""
    with calor.no_grad():
        for x in (*model.parameters(), *model.buffers()):
            given = rng.integers(-64, 65, x.shape) / 16
            x[...] = calor.asarray(given.astype(np.float32)).astype(x.dtype)


def _numbers(model: Any) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the numbers of parameters and of buffers by name."""
    found = []
    for pairs in (model.named_parameters(), model.named_buffers()):
        found.append({n: x.detach().astype(float32).numpy().astype(np.float64) for n, x in pairs})
    return found[0], found[1]


def _near(got: Array, want: Array, room: float, what: str) -> None:
    off = float(np.max(np.abs(got - want), initial=0.0))
    assert off <= room * (1 + float(np.max(np.abs(want), initial=0.0))), f"{what}: {off} off"


def _moving(rng: Rng, low: bool) -> None:
    """An exponential moving average beside its formula."""
    train = import_module(PACKAGE)
    model, decay = _model(rng, low), float(rng.choice((0.0, 0.5, 0.9, 0.999)))
    made = train.ExponentialMovingAverage(model, decay=decay)
    weights, buffers = _numbers(model)
    jitted = calor.jit(lambda average: average.update())
    names: list[str] = []
    for _ in range(_TURNS):
        way = int(rng.integers(6))
        names.append(f"{decay} {way}")
        if way < 3:
            _changed(model, rng)
            jitted(made) if way == 0 else made.update()
            now, buffers = _numbers(model)
            weights = {n: w + (now[n] - w) * (1 - decay) for n, w in weights.items()}
        elif way == 3:
            own = _numbers(model)
            with made.swapped():
                inside = _numbers(model)
            after = _numbers(model)
            for n, w in weights.items():
                _near(inside[0][n], w, 1e-2 if n == "half" else 1e-6, f"{names}, swapped {n}")
            for held, back in zip(own, after, strict=True):
                assert all(np.array_equal(held[n], back[n]) for n in held), f"{names}: not back"
        elif way == 4:
            state = pickle.loads(pickle.dumps(made.state_dict()))
            made.update()
            made = train.ExponentialMovingAverage(model, decay=0.25)
            made.load_state_dict(state)
            decay = 0.25
        else:
            made.decay = decay = float(rng.choice((0.5, 0.9)))
        told = made.state_dict()
        assert list(told) == [*weights, *buffers], f"{list(told)}, not {[*weights, *buffers]}"
        for n, want in (*weights.items(), *buffers.items()):
            assert n != "half" or told[n].dtype is float32, f"the average of {n} is {told[n].dtype}"
            _near(told[n].numpy().astype(np.float64), want, 1e-5, f"{names}: {n}")
    for bad in (-0.1, 1.0, 1.5):
        _refused(lambda bad=bad: train.ExponentialMovingAverage(model, decay=bad), f"decay {bad}")
    short = dict(list(made.state_dict().items())[1:])
    _refused(lambda: made.load_state_dict(short), "a state without a weight")


def _refused(call: Any, what: str) -> None:
    try:
        call()
    except CalorError:
        return
    raise AssertionError(f"{what} is not refused")


def _mean(rng: Rng, low: bool) -> None:
    """The mean of weights of several updates, with buffers that are copied or averaged too."""
    train = import_module(PACKAGE)
    model, both = _model(rng, low), coin(rng)
    made = train.AveragedModel(model, use_buffers=both)
    weights, buffers = _numbers(model)
    jitted = calor.jit(lambda mean, model: mean.update_parameters(model))
    for count in range(int(rng.integers(1, _TURNS))):
        _changed(model, rng)
        jitted(made, model) if coin(rng) else made.update_parameters(model)
        now = _numbers(model)
        weights = {n: w + (now[0][n] - w) / (count + 1) for n, w in weights.items()}
        for n, b in buffers.items():
            # Whole numbers have no mean.
            whole = n == "count" or n.endswith("num_batches_tracked")
            buffers[n] = b + (now[1][n] - b) / (count + 1) if both and not whole else now[1][n]
        if coin(rng):
            state = pickle.loads(pickle.dumps(made.state_dict()))
            made = train.AveragedModel(model, use_buffers=both)
            made.load_state_dict(state)
        assert int(made.n_averaged) == count + 1, f"{made.n_averaged} updates, not {count + 1}"
        found = _numbers(made.module)
        # A mean of a half type is rounded at each update.
        for n, want in weights.items():
            _near(found[0][n], want, 5e-2 if n == "half" else 1e-5, f"mean {count + 1} of {n}")
        for n, want in buffers.items():
            _near(found[1][n], want, 1e-5, f"buffer {n} of mean {count + 1}, averaged: {both}")
    x = calor.asarray(rng.normal(size=(4, 3)).astype(np.float32))
    own, inner = made.eval()(x).numpy(), made.module.eval()(x).numpy()
    assert np.array_equal(own, inner, equal_nan=True), "a call is none of the copy"
    other = _nn().Linear(3, 3)
    _refused(lambda: made.update_parameters(other), "another model")


def _statistics(rng: Rng) -> None:
    """Norms have the mean statistics of batches, and models their modes, afterwards."""
    train, nn = import_module(PACKAGE), _nn()
    norm = nn.BatchNorm1d(3, momentum=float(rng.choice((0.1, 0.9))))
    model = nn.Sequential(norm, nn.Dropout(0.5))
    model.train() if coin(rng) else model.eval()
    model[1].train() if coin(rng) else model[1].eval()
    _changed(norm, rng)
    modes, momentum = [m.training for m in model.modules()], norm.momentum
    batches = [rng.normal(size=(int(rng.integers(2, 6)), 3)).astype(np.float32)
               for _ in range(int(rng.integers(1, 5)))]  # fmt: skip
    given = [calor.asarray(b) if coin(rng) else b for b in batches]
    train.update_bn([(b, 1) if coin(rng) else b for b in given], model)
    for held, want, what in (
        (norm.running_mean, np.mean([b.mean(0) for b in batches], 0), "mean"),
        (norm.running_var, np.mean([b.var(0, ddof=1) for b in batches], 0), "variance"),
    ):
        _near(held.numpy().astype(np.float64), want, 1e-5, f"the {what} of {len(batches)} batches")
    assert int(norm.num_batches_tracked) == len(batches), f"{norm.num_batches_tracked} batches"
    assert [m.training for m in model.modules()] == modes, "modules are in another mode"
    assert norm.momentum == momentum, f"momentum {norm.momentum}, not {momentum}"


class Plateau:
    """A rate that falls when a number stops improving, in Python."""

    def __init__(self, how: dict[str, Any], rates: list[float]) -> None:
        self.how, self.rates = how, rates
        self.best: float | None = None
        self.bad = self.cooling = 0

    def step(self, value: float) -> None:
        how = self.how
        sign = 1 if how["mode"] == "max" else -1
        if math.isnan(value):
            better = False
        elif self.best is None:
            better = True
        else:
            # Of a share, the bound is the best number times one more or less the share.
            share = self.best if how["threshold_mode"] == "rel" else 1.0
            better = sign * value > sign * self.best + share * how["threshold"]
        if better:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        if self.cooling:
            self.cooling, self.bad = self.cooling - 1, 0
        if self.bad > how["patience"]:
            least = how["min_lr"]
            for n, rate in enumerate(self.rates):
                after = max(rate * how["factor"], least[n] if isinstance(least, list) else least)
                self.rates[n] = after if rate - after > how["eps"] else rate
            self.cooling, self.bad = how["cooldown"], 0


def _plateau(rng: Rng) -> None:
    train = import_module(PACKAGE)
    rates = [0.5, 2.0][: 1 + coin(rng)]
    groups = [{"params": [calor.ones(2, requires_grad=True)], "lr": r} for r in rates]
    optimizer = train.SGD(groups, lr=1.0)
    least: Any = [0.01, 0.3][: len(rates)] if coin(rng) else float(rng.choice((0.0, 0.2)))
    how: dict[str, Any] = {
        "mode": ("min", "max")[coin(rng)], "factor": float(rng.choice((0.1, 0.5))),
        "patience": int(rng.integers(0, 3)), "threshold": float(rng.choice((0.0, 0.1, 0.6))),
        "threshold_mode": ("rel", "abs")[coin(rng)], "cooldown": int(rng.integers(0, 3)),
        "min_lr": least, "eps": float(rng.choice((1e-8, 0.2))),
    }  # fmt: skip
    made, model = train.ReduceLROnPlateau(optimizer, **how), Plateau(how, rates)
    values: list[float] = []
    start = float(rng.choice((2.0, 7.0, -3.0, 0.0)))
    for _ in range(4 * _TURNS):
        steps = (0.0, 0.05, -0.05, 1.0, -1.0, math.nan, 0.5, -0.5)
        last = next((v for v in reversed(values) if not math.isnan(v)), start)
        values.append(last + float(rng.choice(steps)))
        made.step(calor.asarray(np.float32(values[-1])) if coin(rng) else np.float32(values[-1]))
        model.step(float(np.float32(values[-1])))
        if rng.random() < 0.2:
            state = pickle.loads(pickle.dumps(made.state_dict()))
            made = train.ReduceLROnPlateau(optimizer, **how)
            made.load_state_dict(state)
        found = [float(g.lr) for g in optimizer.param_groups]
        assert np.allclose(found, model.rates, rtol=1e-6), (
            f"{how} of {values}: rates {found}, not {model.rates}"
        )
    for name, bad in (("mode", "least"), ("threshold_mode", "share"), ("factor", 1.0),
                      ("factor", 0.0), ("patience", -1), ("cooldown", -1),
                      ("min_lr", [0.0, 0.1, 0.2])):  # fmt: skip
        _refused(partial(train.ReduceLROnPlateau, optimizer, **{name: bad}), f"{name}={bad}")


def _run(name: str, place: Place) -> None:
    low = bool(place.plain.info.dtypes.get(bfloat16))
    for turn in range(_RUNS):
        rng = source([place.seed, crc32(name.encode()), turn])
        if name == "ExponentialMovingAverage":
            _moving(rng, low)
        elif name == "AveragedModel":
            _mean(rng, low)
        elif name == "update_bn":
            _statistics(rng)
        else:
            for _ in range(_RUNS):
                _plateau(rng)


def averaged_weights() -> Iterator[Check]:
    """Yield a check of each way to average or to lower a rate, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name in ("ExponentialMovingAverage", "AveragedModel", "update_bn", "ReduceLROnPlateau"):
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.drawn-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _run),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
