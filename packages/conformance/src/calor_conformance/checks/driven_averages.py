"""Averages of weights in every dtype, update by update, at the first and the thousandth.

An update is computed in at least float32 and rounded once, so each is beside the same in float64
from the numbers before it, within one rounding. The number of updates goes on from a stored state,
so the weight of one update falls below what a half type resolves.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bfloat16, float16, float32, float64, int32

from ..rows.functions.drawing import coin
from .base import Array, Check
from .driven import Driven, Look, checks_of, equal, refused
from .training import PACKAGE

CONTRACT: Final = "an average of weights of any dtype is rounded once in each update"
_SIZE: Final = 24


def _package() -> Any:
    return import_module(PACKAGE)


def _wide(x: Any) -> Array:
    dtype = x.dtype if x.dtype in (float64, int32) else float32
    return np.asarray(x.detach().astype(dtype).numpy(), np.float64)


class _Weights(Driven):
    """A model with a parameter and a buffer of each dtype, and what averages them."""

    events = 14

    def build(self) -> None:
        nn = import_module("calor_nn")
        info = self.place.plain.info
        self.dtypes = [d for d in (float32, float16, bfloat16, float64) if info.dtypes.get(d)]
        self.model = nn.Module()
        for d in self.dtypes:
            setattr(self.model, d.name, nn.Parameter(self.drawn(d)))
            self.model.register_buffer(f"{d.name}_buffer", self.drawn(d))
        self.model.register_buffer("whole", calor.asarray(np.int32(3)))
        self.start()

    def start(self) -> None:
        raise NotImplementedError

    def drawn(self, dtype: DType) -> Any:
        """Return numbers with more digits than a half type has."""
        numbers = (self.rng.normal(size=_SIZE) * 3).astype(np.float32)
        return calor.asarray(numbers).astype(dtype)

    def change(self) -> None:
        with calor.no_grad():
            for x in (*self.model.parameters(), *self.model.buffers()):
                if x.dtype == int32:
                    x[...] = x + 1
                else:
                    x[...] = self.drawn(x.dtype)

    def named(self, model: Any) -> dict[str, Any]:
        return {**dict(model.named_parameters()), **dict(model.named_buffers())}


class _Mean(_Weights):
    """The mean of several updates."""

    def start(self) -> None:
        self.buffers = coin(self.rng)
        self.made = _package().AveragedModel(self.model, use_buffers=self.buffers)
        self.jitted = calor.jit(lambda mean, model: mean.update_parameters(model))
        self.count = 0

    def told(self) -> str:
        return f"a mean of {self.count}, buffers averaged: {self.buffers}"

    def do_update(self) -> None:
        self.change()
        before = {n: _wide(x) for n, x in self.named(self.made.module).items()}
        now = self.named(self.model)
        if coin(self.rng):
            self.jitted(self.made, self.model)
        else:
            self.made.update_parameters(self.model)
        for name, x in self.named(self.made.module).items():
            new = _wide(now[name])
            averaged = x.dtype != int32 and (self.buffers or not name.endswith("buffer"))
            if not averaged or not self.count:
                equal(_wide(x), new, f"{name}, which is copied")
                continue
            due = before[name] + (new - before[name]) / (self.count + 1)
            size = np.maximum(np.abs(due), np.maximum(np.abs(before[name]), np.abs(new)))
            self.rounded(x, due, size, f"the mean of {name}")
        self.count += 1

    def rounded(self, x: Any, due: Array, size: Array, what: str) -> None:
        """Assert one rounding in the dtype, and a few in float32 before it."""
        eps = float(calor.finfo(x.dtype).eps)
        wide = float(calor.finfo(float64 if x.dtype == float64 else float32).eps)
        digit = eps * 2.0 ** np.floor(np.log2(np.maximum(np.abs(due), 1e-4)))
        off = np.abs(_wide(x) - due) > digit / 2 * 1.001 + 4 * wide * size
        assert not off.any(), f"{what} is {_wide(x)[off].tolist()}, not {due[off].tolist()}"

    do_update_more = do_update_again = do_update

    def do_late(self) -> None:
        """Go on from a state with many updates."""
        state = pickle.loads(pickle.dumps(self.made.state_dict()))
        self.count = int(self.one(0, 1, 7, 255, 256, 300, 2047, 5000))
        state["n_averaged"] = calor.asarray(np.int32(self.count))
        self.made.load_state_dict(state)

    def do_misfit(self) -> None:
        nn = import_module("calor_nn")
        before = {n: _wide(x) for n, x in self.named(self.made.module).items()}
        refused(lambda: self.made.update_parameters(nn.Linear(2, 2)), "another model")
        for name, x in self.named(self.made.module).items():
            equal(_wide(x), before[name], f"{name} after a refusal")

    def look(self) -> dict[str, Look]:
        return {"n_averaged": (int(self.made.n_averaged), self.count)}


class _Moving(_Weights):
    """The exponential moving average, of which half types have a float32 one."""

    def start(self) -> None:
        self.decay = float(self.one(0.0, 0.5, 0.9, 0.999, 0.99999))
        self.made = _package().ExponentialMovingAverage(self.model, self.decay)
        self.jitted = calor.jit(lambda average: average.update())

    def told(self) -> str:
        return f"a moving average of {self.decay}"

    def do_update(self) -> None:
        self.change()
        before = {n: _wide(x) for n, x in self.made.state_dict().items()}
        self.jitted(self.made) if coin(self.rng) else self.made.update()
        now = self.named(self.model)
        for name, x in self.made.state_dict().items():
            new = _wide(now[name])
            if x.dtype == int32 or name.endswith("buffer"):
                equal(_wide(x), new, f"{name}, which is copied")
                continue
            assert x.dtype == (float64 if name == "float64" else float32), f"{name} is {x.dtype}"
            due = before[name] + (new - before[name]) * (1 - self.decay)
            # The share of an update has digits of its own, however small it is.
            room = float(calor.finfo(x.dtype).eps) * 2 * (np.abs(due) + np.abs(due - before[name]))
            off = np.abs(_wide(x) - due) > room
            assert not off.any(), f"{name} is {_wide(x)[off].tolist()}, not {due[off].tolist()}"

    do_update_more = do_update_again = do_update

    def do_late(self) -> None:
        """Another average goes on with another decay."""
        state = pickle.loads(pickle.dumps(self.made.state_dict()))
        self.decay = float(self.one(0.25, 0.9999))
        self.made = _package().ExponentialMovingAverage(self.model, self.decay)
        self.made.load_state_dict(state)

    def do_misfit(self) -> None:
        """A body that raises while the averages are swapped in, and swaps within swaps."""
        own = {n: _wide(x) for n, x in self.named(self.model).items()}
        averages = {n: x.astype(x.dtype) for n, x in self.made.state_dict().items()}
        try:
            with self.made.swapped():
                for name, x in self.named(self.model).items():
                    equal(_wide(x), _wide(averages[name].astype(x.dtype)), f"{name}, swapped in")
                raise KeyError
        except KeyError:
            pass
        for name, x in self.named(self.model).items():
            equal(_wide(x), own[name], f"{name} after the averages were swapped in")
        short = dict(list(averages.items())[1:])
        refused(lambda: self.made.load_state_dict(short), "a state without a weight")
        for name, x in self.made.state_dict().items():
            equal(_wide(x), _wide(averages[name]), f"the average of {name} after a refusal")

    def look(self) -> dict[str, Look]:
        return {"decay": (self.made.decay, self.decay)}


def driven_averages() -> Iterator[Check]:
    """Yield a check of each average, if the package is installed."""
    yield from checks_of(PACKAGE, {"mean": _Mean, "moving-average": _Moving}, CONTRACT, 3)
