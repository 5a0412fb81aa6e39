"""Metrics and gradients that are added up, driven: batches of all lengths, resets, refusals.

Metrics get batches of drawn shapes at once and jitted, without samples and with NaN, counts above
what float32 counts, errors within an update, and are read and reset at any time. Gradients are
added up over several passes, clipped in each way and dtype, and set to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bfloat16, float16, float32

from ..rows.functions.drawing import coin
from .base import Array, Check
from .driven import Driven, Look, checks_of, equal, refused
from .training import PACKAGE

CONTRACT: Final = "what is added up is that of all batches since it was zero, and of no others"
# More ones than float32 counts.
_MANY: Final = 1 << 24


class _MeasureError(Exception):
    """What a function of a metric raises."""


def _package() -> Any:
    return import_module(PACKAGE)


class _Metrics(Driven):
    """All metrics, beside sums in float64."""

    events = 14

    def build(self) -> None:
        package, self.classes = _package(), int(self.rng.integers(2, 6))
        self.k, self.decay = int(self.rng.integers(1, 4)), float(self.one(0.0, 0.5, 0.98))
        self.fails = False
        self.threshold = float(self.one(0.0, 0.5))
        self.held = {
            "accuracy": package.Accuracy(), "top": package.TopK(self.k),
            "one class": package.Accuracy(threshold=self.threshold),
            "confusion": package.ConfusionMatrix(self.classes), "loss": package.Loss(),
            "mean": package.Mean("error", self.error),
            "running": package.RunningMean("recent", decay=self.decay),
            "running error": package.RunningMean("recent", self.error, decay=self.decay),
        }  # fmt: skip
        self.jitted = {name: calor.jit(lambda metric, *given: metric.update(*given))
                       for name in self.held}  # fmt: skip
        self.do_reset()

    def error(self, y: Any, t: Any) -> Any:
        if self.fails:
            raise _MeasureError
        return calor.mean(y) + 1

    def told(self) -> str:
        return f"{self.classes} classes, k {self.k}, decay {self.decay}"

    def do_reset(self) -> None:
        for metric in self.held.values():
            metric.reset()
        # Of each ratio what is above and below.
        self.sums = {name: [0.0, 0.0] for name in self.held if name != "confusion"}
        self.table = np.zeros((self.classes, self.classes), np.int64)

    def batch(self) -> tuple[Array, Array, float]:
        space = self.one((), (), (2,), (2, 3))
        count = int(self.one(1, 2, 3, 7))
        scores = self.rng.permutation(count * self.classes * math.prod(space))
        y = scores.reshape(count, self.classes, *space).astype(np.float32) / 8 - 1
        t = self.rng.integers(0, self.classes, (count, *space)).astype(np.int32)
        return y, t, float(self.numbers())

    def given(self, name: str, *values: Any) -> None:
        tensors = [calor.asarray(v) for v in values]
        metric = self.held[name]
        if coin(self.rng):
            metric.update(*tensors)
        else:
            self.jitted[name](metric, *tensors)

    def do_update(self) -> None:
        y, t, loss = self.batch()
        below = self.numbers(*t.shape)
        for name in self.held:
            if name == "one class":
                self.given(name, below, (t > 0).astype(np.int32), np.float32(loss))
            else:
                self.given(name, y, t, np.float32(loss))
        chosen, own = y.argmax(1), np.take_along_axis(y, t[:, None], 1)
        self.ratio("accuracy", (chosen == t).sum(), t.size)
        self.ratio("top", ((y > own).sum(1) < self.k).sum(), t.size)
        self.ratio("one class", ((below > self.threshold) == (t > 0)).sum(), t.size)
        np.add.at(self.table, (t, chosen), 1)
        error = float(y.mean(dtype=np.float64)) + 1
        self.ratio("loss", loss * len(t), len(t))
        self.ratio("mean", error * len(t), len(t))
        self.faded("running", loss)
        self.faded("running error", error)

    do_update_more = do_update

    def ratio(self, name: str, above: float, below: float) -> None:
        held = self.sums[name]
        held[:] = held[0] + above, held[1] + below

    def faded(self, name: str, value: float) -> None:
        rest = 1 - self.decay
        held = self.sums[name]
        held[:] = [x * self.decay + more * rest for x, more in zip(held, (value, 1), strict=True)]

    def do_nothing(self) -> None:
        """A batch without samples counts nothing."""
        y, t = np.zeros((0, self.classes), np.float32), np.zeros(0, np.int32)
        for name in ("accuracy", "top", "confusion", "loss"):
            self.given(name, y, t, np.float32(1))

    def do_nan(self) -> None:
        """A sample whose scores are NaN is among the k largest of none."""
        y, t, _ = self.batch()
        y[...] = np.nan
        self.given("top", y, t, np.float32(0))
        self.ratio("top", 0, t.size)

    def do_many(self) -> None:
        """Ones beyond what float32 counts, and then one more."""
        self.held["accuracy"].add("count", _MANY)
        self.held["accuracy"].add("right", _MANY)
        self.ratio("accuracy", _MANY, _MANY)
        for name in ("right", "count"):
            held = int(self.held["accuracy"].state[name])
            self.held["accuracy"].add(name, calor.asarray(np.float32(1)))
            assert int(self.held["accuracy"].state[name]) == held + 1, f"{name} stays at {held}"
        self.ratio("accuracy", 1, 1)

    def do_fail(self) -> None:
        """An update that raises has added nothing."""
        y, t, loss = self.batch()
        self.fails = True
        tensors = [calor.asarray(v) for v in (y, t, np.float32(loss))]
        for name in ("mean", "running error"):
            try:
                self.held[name].update(*tensors)
            except _MeasureError:
                continue
            raise AssertionError(f"the error within {name} is lost")
        self.fails = False
        for name in ("accuracy", "top", "confusion"):
            wrong = [calor.asarray(y), calor.asarray(t.reshape(*t.shape, 1, 1)), tensors[2]]
            refused(partial(self.held[name].update, *wrong), f"shapes that do not fit of {name}")

    def look(self) -> dict[str, Look]:
        found: dict[str, Look] = {"confusion": (self.held["confusion"].compute(), self.table)}
        for name, (above, below) in self.sums.items():
            got = self.held[name].compute()
            due = above / below if below else math.nan
            both = math.isnan(got) and math.isnan(due)
            near = both or abs(got - due) <= 1e-5 * max(1, abs(due))
            found[name] = (got, got if near else due) if not both else (0, 0)
        return found


class _Gradients(Driven):
    """Gradients of parameters of several dtypes, added up and clipped."""

    events = 14
    histories = 16

    def build(self) -> None:
        low = [d for d in (float16, bfloat16) if self.place.plain.info.dtypes.get(d)]
        self.dtypes = [float32, float32, float32, *low]
        self.shapes = [(3,), (2, 2), (0,), (), (2,)][: len(self.dtypes)]
        self.params: list[Any] = [
            calor.zeros(s, dtype=d, requires_grad=True)
            for s, d in zip(self.shapes, self.dtypes, strict=True)
        ]
        self.optimizer = _package().SGD(self.params, 0.5)
        self.grads: list[Array | None] = [None] * len(self.params)

    def told(self) -> str:
        return f"gradients {self.grads}"

    def do_pass(self) -> None:
        """One of several batches: its gradients are added to what is there."""
        losses: list[Any] = []
        for n, (p, shape) in enumerate(zip(self.params, self.shapes, strict=True)):
            if self.rng.random() < 0.3:
                continue
            g = np.round(self.numbers(*shape))
            losses.append(calor.sum((p * calor.asarray(g).astype(p.dtype)).astype(float32)))
            held = self.grads[n]
            made = g.astype(np.float64) if held is None else self.rounded(n, held + g)
            self.grads[n] = np.asarray(made)
        if losses:
            sum(losses[1:], losses[0]).backward()

    do_pass_more = do_pass_again = do_pass

    def rounded(self, n: int, values: Array) -> Array:
        rounded = calor.asarray(values.astype(np.float32)).astype(self.dtypes[n])
        return np.asarray(rounded.astype(float32).numpy(), np.float64)

    def vector(self) -> Array:
        return np.concatenate([g.reshape(-1) for g in self.grads if g is not None])

    def do_clip_norm(self) -> None:
        kind = float(self.one(1, 2, 2, 3, math.inf))
        clip = _package().clip_grad_norm_
        if all(g is None for g in self.grads):
            refused(lambda: clip(self.params, 1.0, kind), "to clip no gradient")
            return
        flat = np.abs(self.vector())
        if not flat.size:
            norm = 0.0
        elif math.isinf(kind):
            norm = float(flat.max())
        else:
            norm = float((flat**kind).sum() ** (1 / kind))
        limit = float(self.one(0.0, norm / 2, norm * 2, 3.0))
        found = clip(self.params, calor.asarray(np.float32(limit)) if coin(self.rng) else limit,
                     kind)  # fmt: skip
        equal(found.numpy(), np.asarray(norm), f"the norm of order {kind}", 1e-5)
        factor = min(limit / (norm + 1e-6), 1.0)
        self.every(lambda g: g * factor)

    def do_clip_value(self) -> None:
        limit = float(self.one(0.0, 0.75, 100.0))
        _package().clip_grad_value_(self.params, limit)
        self.every(lambda g: np.clip(g, -limit, limit))

    def do_refused(self) -> None:
        refused(lambda: _package().clip_grad_value_(self.params, -1.0), "a negative bound")
        if any(g is not None for g in self.grads):
            for limit, kind in ((-1.0, 2.0), (1.0, 0.0), (math.nan, 2.0)):
                refused(partial(_package().clip_grad_norm_, self.params, limit, kind),
                        f"a norm of {limit} of order {kind}")  # fmt: skip

    def every(self, function: Callable[[Array], Array]) -> None:
        self.grads = [None if g is None else np.asarray(function(g)) for g in self.grads]

    def do_zero(self) -> None:
        self.optimizer.zero_grad()
        self.grads = [None] * len(self.params)

    def look(self) -> dict[str, Look]:
        found: dict[str, Look] = {}
        for n, (p, due) in enumerate(zip(self.params, self.grads, strict=True)):
            held = p.grad
            assert held is None or held.dtype == self.dtypes[n], f"gradient {n} is {held.dtype}"
            if due is None or held is None:
                nothing = held is None or not np.any(held.astype(float32).numpy())
                found[f"gradient {n}"] = (nothing, due is None or not np.any(due))
                continue
            got = np.asarray(held.astype(float32).numpy(), np.float64)
            found[f"gradient {n}"] = (got, due, 2 * float(calor.finfo(self.dtypes[n]).eps))
            # What is rounded at each step shall not add up.
            self.grads[n] = got if np.allclose(got, due, rtol=0.02, atol=0.02) else due
        return found


def driven_metrics() -> Iterator[Check]:
    """Yield a check of metrics and one of gradients, if the package is installed."""
    kinds = {"metrics": _Metrics, "gradients": _Gradients}
    yield from checks_of(PACKAGE, kinds, CONTRACT, 5)
