"""Jitted training steps over any history: two models go the same way, one of them compiled.

What a step reads and leaves is drawn: gradients that are there, weights that are tied, replaced,
frozen or looked at from outside, numbers that change, inputs that collect gradients themselves or
pass them on. The other model takes the same steps op by op.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

import numpy as np

import calor
from calor.dtypes import float64
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "a jitted step leaves what the step leaves op by op, after any other steps"
_HISTORIES, _ACTIONS, _NEAR = 4, 22, 1e-10
Rng = np.random.Generator


class _Model(Stateful):
    """Three weights, a running mean, a rate and modes."""

    dynamic: ClassVar[tuple[str, ...]] = ("rate",)

    def __init__(self, arrays: list[Array]) -> None:
        first, second, third = (calor.asarray(a, requires_grad=True) for a in arrays)
        self.first: Any = first
        self.more: dict[str, Any] = {"second": second, "rest": [third]}
        self.mean: Any = calor.zeros((3,), dtype=float64)
        self.rate, self.clears, self.training = 0.125, True, True

    def __call__(self, x: Any) -> Any:
        if self.training:
            with calor.no_grad():
                self.mean *= 0.5
                self.mean += x
        made = calor.tanh(x * self.first) + self.more["second"] * self.more["rest"][0]
        return calor.sum(made * made) + calor.sum(self.mean * self.first)

    def weights(self) -> list[Any]:
        return [self.first, self.more["second"], self.more["rest"][0]]


def _train(model: _Model, x: Any) -> Any:
    loss = model(x)
    loss.backward()
    with calor.no_grad():
        for w in dict(zip(map(id, model.weights()), model.weights(), strict=True)).values():
            if w.grad is not None and w.requires_grad:
                w -= model.rate * w.grad
            if model.clears:
                w.grad = None
    return loss


def _accumulate(model: _Model, x: Any) -> Any:
    loss = model(x) * model.rate
    loss.backward()
    return loss, x * 2


def _by_function(model: _Model, x: Any) -> Any:
    value, found = calor.value_and_grad(lambda m, t: m(t), argnums=(0, 1))(model, x)
    return value, calor.tree.leaves(found)


def _by_arguments(x: Any, w: Any) -> Any:
    loss = calor.sum(x * w * w) + calor.sum(x)
    loss.backward()
    return loss


def _look(model: _Model, x: Any) -> Any:
    return [w.grad * 2 if w.grad is not None else x for w in model.weights()]


_STEPS: Final = {
    "train": _train, "accumulate": _accumulate, "by function": _by_function, "look": _look,
}  # fmt: skip


class _Side:
    """Two models and an input, with steps that are compiled or not."""

    def __init__(self, arrays: list[list[Array]], wrap: Callable[[Any], Any]) -> None:
        self.models = [_Model(each) for each in arrays]
        self.steps = {name: wrap(step) for name, step in _STEPS.items()}
        self.closed = [wrap(lambda x, m=m: _train(m, x)) for m in self.models]
        self.by_arguments = wrap(_by_arguments)
        self.leaf: Any = calor.asarray(arrays[0][0] * 2, requires_grad=True)
        self.views: list[tuple[Array, Array]] = []

    def act(self, rng: Rng, name: str) -> list[Any]:
        """Do something; both sides get generators of one state."""
        which = int(rng.integers(2))
        model, k = self.models[which], int(rng.integers(3))
        w = model.weights()[k]
        numbers = calor.asarray(rng.integers(-4, 5, 3) * 0.25)
        x = (numbers, self.leaf, self.leaf * 2)[int(rng.choice((0, 0, 1, 2)))]
        if name in self.steps:
            with calor.no_grad() if name == "look" else calor.enable_grad():
                return calor.tree.leaves(self.steps[name](model, x))
        if name == "closed":
            return [self.closed[which](x)]
        if name == "by arguments":
            return [self.by_arguments(x, w.detach() if x is self.leaf else self.leaf)]
        if name == "give up":
            w.grad = None
        elif name == "give":
            w.grad = numbers if w.requires_grad else None
        elif name == "give up input":
            self.leaf.grad = None
        elif name == "freeze":
            w.requires_grad = not w.requires_grad
            w.grad = None
        elif name == "tie":
            model.more = {**model.more, "rest": [model.more["second"]]}
        elif name == "untie":
            fresh = calor.asarray(rng.integers(-4, 5, 3) * 0.25, requires_grad=True)
            model.more = {**model.more, "rest": [fresh]}
        elif name == "replace":
            model.first = calor.asarray(rng.integers(-4, 5, 3) * 0.25, requires_grad=True)
        elif name == "rate":
            model.rate = float(rng.choice((0.125, 0.25, 0.5)))
        elif name == "modes":
            model.clears, model.training = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
        elif name == "view":
            view = w.detach().numpy(copy=False)
            self.views.append((view, view.copy()))
        else:
            with calor.no_grad():
                w[int(rng.integers(3))] = 0.5
        return []

    def told(self) -> list[Any]:
        made: list[Any] = []
        for model in self.models:
            made += [*model.weights(), model.mean, *(w.grad for w in model.weights())]
        return [*made, self.leaf, self.leaf.grad]


_NAMES: Final = (*_STEPS, "train", "accumulate", "closed", "by arguments", "give up", "give",
                 "give up input", "freeze", "tie", "untie", "replace", "rate", "modes", "view",
                 "write")  # fmt: skip


def _compare(got: list[Any], want: list[Any], what: str, graded: bool = False) -> None:
    assert len(got) == len(want), f"{what}: {len(got)} results, not {len(want)}"
    for n, (a, b) in enumerate(zip(got, want, strict=True)):
        assert (a is None) == (b is None), f"{what}: {n} is {a}, not {b}"
        if a is None:
            continue
        made, right = (t.detach().numpy() for t in (a, b))
        same = not graded or a.requires_grad == b.requires_grad
        assert same, f"{what}: {n} requires a gradient: {a.requires_grad}"
        near = made.shape == right.shape and np.allclose(made, right, rtol=_NEAR, atol=_NEAR)
        assert near, f"{what}: {n} is {made.tolist()}, not {right.tolist()}"


def _run(place: Place) -> None:
    for number in range(_HISTORIES):
        rng = np.random.default_rng([place.number(number), 21])
        arrays = [[rng.integers(-4, 5, 3) * 0.25 for _ in range(3)] for _ in range(2)]
        plain, compiled = _Side(arrays, lambda f: f), _Side(arrays, calor.jit)
        names: list[str] = []
        for _ in range(_ACTIONS):
            name, seed = str(rng.choice(_NAMES)), int(rng.integers(1 << 30))
            names.append(name)
            want, got = (side.act(np.random.default_rng(seed), name) for side in (plain, compiled))
            what = f"after {', '.join(names)}"
            _compare(got, want, f"{what}: results")
            _compare(compiled.told(), plain.told(), f"{what}: what is left", True)
            for view, copy in compiled.views:
                assert np.array_equal(view, copy), f"{what}: a view from outside was written to"


def jitted_steps() -> Iterator[Check]:
    """Yield the check of histories of training steps."""
    yield Check(
        kind="history",
        subject="jitted-steps-of-two-models",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_Side),
        dtypes=(float64,),
        looks=True,
    )
