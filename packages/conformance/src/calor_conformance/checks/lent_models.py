"""What uses a model for a while gives it back: swapped averages, statistics, evaluations, shapes.

A model of several kinds of layers has drawn modes, frozen weights, gradients, hooks and settings.
What evaluates it, measures it, lists its shapes, or gives it other weights within a block, runs to
its end or to an error of the user: of the block, the data, a forward pass, a hook, a loss, a metric
or a callback. All that is no result is as it was: each parameter and buffer with its flags, each
gradient, each module's mode and settings, the hooks, the stream of random numbers and the modes of
the thread. The same call then gives what one of a fresh model gives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64
from calor.errors import CalorError

from ..rows.functions.drawing import Rng, coin, source
from .base import Check, Place
from .training import PACKAGE

CONTRACT: Final = "what uses a model for a while gives it back as it was, after errors too"
_TURNS: Final = 4
# Numbers and flags that modules have as settings.
_PLAIN: Final = (bool, int, float, str, type(None), tuple)


class _UserError(Exception):
    """What a function of a user raises."""


def assert_raises(work: Callable[[], Any], kind: type[Exception], what: str) -> None:
    """Raise AssertionError unless work raises an error of a kind."""
    try:
        work()
    except kind:
        return
    except CalorError as error:
        raise AssertionError(f"{what} raises {error!r}") from error
    raise AssertionError(f"{what} raises nothing")


@dataclass
class _Trip:
    """Raises where it is armed, at a drawn visit."""

    where: str = ""
    left: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def __call__(self, where: str, value: Any = None) -> Any:
        self.seen[where] = self.seen.get(where, 0) + 1
        if where == self.where:
            self.left -= 1
            if self.left == 0:
                raise _UserError(where)
        return value


class _Used:
    """A model with drawn modes and settings, and what is made of it."""

    def __init__(self, rng: Rng) -> None:
        nn, self.train = import_module("calor_nn"), import_module(PACKAGE)
        self.trip = _Trip()
        trip = self.trip

        class Halving(nn.Module):  # type: ignore[misc,name-defined]
            def forward(self, x: Any) -> Any:
                return trip("forward", x * 0.5)

        self.model = nn.Sequential(
            nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=float(rng.choice((0.1, 0.7)))),
            nn.Dropout(0.25), nn.parametrize.weight_norm(nn.Linear(4, 2)), Halving(),
            nn.BatchNorm1d(2, momentum=None if coin(rng) else 0.3),
        )  # fmt: skip
        self.model.register_buffer("mark", calor.asarray(rng.normal(size=(2,)).astype(np.float32)))
        with calor.no_grad():
            for x in (*self.model.parameters(), *self.model.buffers()):
                x[...] = calor.asarray(rng.integers(1, 9, x.shape) / 4).astype(x.dtype)
        self.model[2].register_forward_hook(lambda *given: trip("hook"))
        self.average = self.train.ExponentialMovingAverage(self.model, decay=0.5)
        with calor.no_grad():
            for x in (*self.model.parameters(), *self.model.buffers()):
                x += calor.asarray(rng.integers(0, 5, x.shape)).astype(x.dtype)
        self.average.update()
        with calor.no_grad():
            # Since the last update the weights and the buffers have gone on.
            for x in (*self.model.parameters(), *self.model.buffers()):
                x += calor.asarray(rng.integers(1, 5, x.shape)).astype(x.dtype)
        for module in self.model.modules():
            module.training = coin(rng)
        for p in self.model.parameters():
            if rng.random() < 0.3:
                p.requires_grad = False
            elif rng.random() < 0.5:
                p.grad = calor.asarray(rng.normal(size=p.shape).astype(np.float32))
        self.batches = [
            (calor.asarray(rng.normal(size=(n, 3)).astype(np.float32)),
             calor.asarray(rng.normal(size=(n, 2)).astype(np.float32)))
            for n in (3, 2)
        ]  # fmt: skip

    def data(self) -> Iterator[Any]:
        for batch in self.batches:
            yield self.trip("data", batch)

    def loss(self, y: Any, t: Any) -> Any:
        return self.trip("loss", calor.mean((y - t) ** 2))

    def learner(self) -> Any:
        trip, package = self.trip, self.train

        class Steps(package.Callback):  # type: ignore[misc,name-defined]
            def on_evaluate_begin(self, learner: Any) -> None:
                trip("callback at the begin")

            def on_evaluate_step(self, learner: Any) -> None:
                trip("callback")

        size = package.Mean("size", lambda y, t: trip("metric", calor.mean(y)))
        return package.Learner(
            self.model, package.SGD(self.model, 0.1), self.loss, metrics=[size],
            callbacks=[Steps()], jit=False, display="quiet",
        )  # fmt: skip

    def look(self) -> dict[str, Any]:
        """Return all that is the model's own, by its path."""
        found: dict[str, Any] = {}
        for kind in ("named_parameters", "named_buffers"):
            for name, x in getattr(self.model, kind)():
                flags = (x.requires_grad, x.dtype.name, x.shape)
                found[f"{name}"] = (id(x), x.detach().numpy().tobytes(), flags)
                found[f"the gradient of {name}"] = (
                    None if x.grad is None else x.grad.numpy().tobytes()
                )
        for path, module in self.model.named_modules():
            for name, value in vars(module).items():
                if name != "training" and isinstance(value, _PLAIN):
                    found[f"{name} of {path or 'the model'}"] = value
            found[f"the mode of {path or 'the model'}"] = module.training
            found[f"the class of {path or 'the model'}"] = type(module)
        state = calor.tree.leaves(list(calor.random.default_generator.state))
        found["the stream"] = [np.asarray(x).tolist() for x in state]
        probe = calor.ones(1, requires_grad=True) * 2
        found["the recording of gradients"] = probe.requires_grad
        return found


def _swapped(used: _Used) -> Any:
    with used.average.swapped():
        inside = [x.detach().numpy().tolist() for x in used.model.parameters()]
        used.trip("block")
        if used.model.training:
            # What is written within the block is no matter of the model's own weights.
            with calor.no_grad():
                for x in (*used.model.parameters(), *used.model.buffers()):
                    x[...] = calor.zeros_like(x)
        used.trip("end of the block")
    return inside


def _measured(used: _Used) -> Any:
    used.train.update_bn(used.data(), used.model)
    return [x.numpy().tolist() for x in used.model.buffers()]


def _evaluated(used: _Used) -> Any:
    return used.learner().evaluate(used.data())


def _predicted(used: _Used) -> Any:
    return used.learner().predict(used.data()).numpy().tolist()


def _listed(used: _Used) -> Any:
    return import_module("calor_nn").summary(used.model, (2, 3))


# Each use, and the paths of what it is there to change.
_USES: Final[dict[str, tuple[Callable[[_Used], Any], tuple[str, ...]]]] = {
    "swapped": (_swapped, ()),
    "update_bn": (_measured, ("running_mean", "running_var", "num_batches_tracked")),
    "evaluate": (_evaluated, ()), "predict": (_predicted, ()),
    "summary": (_listed, ()),
}  # fmt: skip
# A training pass draws numbers.
_DRAWS: Final = ("update_bn",)


def _apart(used: _Used, before: dict[str, Any], but: tuple[str, ...], draws: bool) -> list[str]:
    after = used.look()
    apart = [n for n in before.keys() | after.keys() if before.get(n) != after.get(n)]
    apart = [n for n in apart if not any(part in n for part in but)]
    return sorted(n for n in apart if not (draws and n == "the stream"))


def _run(name: str, place: Place) -> None:
    use, but = _USES[name]
    for turn in filter(partial(place.tries, among=_TURNS), range(_TURNS)):
        seed = [place.seed, crc32(b"kept"), crc32(name.encode()), turn]

        def made(seed: list[int] = seed) -> _Used:
            return _Used(source(seed))

        def told(used: _Used) -> Any:
            calor.random.seed(5)
            return use(used)

        rng, fresh = source([*seed, 1]), made()
        before = fresh.look()
        want = told(fresh)
        apart = _apart(fresh, before, but, True)
        assert not apart, f"{name} has changed {', '.join(apart)}"
        for where, visits in fresh.trip.seen.items():
            used = made()
            calor.random.seed(5)
            before = used.look()
            used.trip.where, used.trip.left = where, int(rng.integers(1, visits + 1))
            what = f"{name} that ended at visit {used.trip.left} of {visits} of the {where}"
            assert_raises(partial(use, used), _UserError, what)
            apart = _apart(used, before, but, name in _DRAWS)
            assert not apart, f"{what} has changed {', '.join(apart)}"
            used.trip.where = ""
            again = told(used)
            assert again == want, f"{what}, called again: {again}, not {want}"


def lent_models() -> Iterator[Check]:
    """Yield a check of each use, if the packages are installed."""
    if find_spec(PACKAGE) is None or find_spec("calor_nn") is None:
        return
    for name in _USES:
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.models-kept-by-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _run),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
