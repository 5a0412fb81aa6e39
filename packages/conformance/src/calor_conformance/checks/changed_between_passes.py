"""What changes between a forward pass and its backward pass changes no gradient.

A recorded pass holds the values, the modes and the random numbers that it ran with; with a
checkpoint it runs again. Weights are then assigned, written in place, loaded or frozen, generators
are seeded and set, modes are switched, and numbers replaced, each alone and in drawn orders: the
gradients are those of the same pass with nothing in between, and what was changed is as the changes
left it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, uint32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "gradients are those of the forward pass as it was, whatever changed since"
_HISTORIES, _CHANGES, _SIDE, _NEAR = 8, 4, 3, 1e-5
Rng = np.random.Generator


class _Model(Stateful):
    """Weights, a mean that runs along, random numbers, and settings."""

    def __init__(self, rng: Rng) -> None:
        first, second, mean = (calor.asarray(_numbers(rng)) for _ in range(3))
        first.requires_grad = second.requires_grad = True
        self.first, self.second, self.mean = first, second, mean
        self.fixed: Any = calor.asarray(_numbers(rng))
        self.stream = calor.random.Generator(int(rng.integers(99)))
        self.training, self.scale = bool(rng.random() < 0.6), 2.0

    def inner(self, x: Any) -> Any:
        made = calor.tanh(x @ self.first) * self.scale
        if self.training:
            made = made * (self.stream.uniform((_SIDE,)) + 0.5)
            made = made * (calor.random.uniform((_SIDE,)) + 0.5)
            with calor.no_grad():
                self.mean *= 0.5
                self.mean += calor.mean(made)
        return made * made + self.mean * self.fixed * made

    def __call__(self, x: Any, checkpoint: str) -> Any:
        inner = self.inner
        if checkpoint == "nested":
            once = calor.checkpoint(inner)
            inner = calor.checkpoint(lambda t: once(t) * 2)
        elif checkpoint:
            inner = calor.checkpoint(inner)
        made = inner(x)
        return calor.sum(made @ self.second + calor.sin(made) * self.first)


def _numbers(rng: Rng) -> Array:
    return (rng.integers(-9, 10, (_SIDE, _SIDE)) / 8).astype(np.float32)


class _Changes:
    """All ways to change a model and what it reads of the process."""

    def __init__(self, model: _Model, rng: Rng) -> None:
        self.model, self.rng = model, rng

    def new(self) -> Any:
        return calor.asarray(_numbers(self.rng))

    def seed(self) -> None:
        calor.random.seed(int(self.rng.integers(99)))

    def seed_stream(self) -> None:
        self.model.stream.seed(int(self.rng.integers(99)))

    def set_state(self) -> None:
        other = calor.random.Generator(int(self.rng.integers(99)))
        other.uniform((2,))
        self.model.stream.set_state(other.state)
        calor.random.default_generator.set_state(other.state)

    def draw(self) -> None:
        self.model.stream.uniform((5,))
        calor.random.uniform((5,))

    def replace_stream(self) -> None:
        self.model.stream = calor.random.Generator(77)

    def assign(self) -> None:
        name = str(self.rng.choice(("first", "second", "mean", "fixed")))
        setattr(self.model, name, self.new())

    def write(self) -> None:
        t = getattr(self.model, str(self.rng.choice(("first", "second", "mean", "fixed"))))
        with calor.no_grad():
            way = int(self.rng.integers(4))
            if way == 0:
                t[...] = self.new()
            elif way == 1:
                t[1] = 7.0
            elif way == 2:
                t += self.new()
            else:
                t *= -3.0

    def step(self) -> None:
        @calor.jit
        def stepped(model: _Model) -> None:
            with calor.no_grad():
                model.fixed *= 2
                model.mean -= 1
                model.first += 1

        stepped(self.model)

    def load(self) -> None:
        """Each tensor takes numbers of a state, as a loader writes them."""
        model = self.model
        with calor.no_grad():
            for t in (model.first, model.second, model.mean, model.fixed):
                t[...] = self.new()

    def forward(self) -> None:
        """Another pass, which is not differentiated."""
        with calor.no_grad():
            self.model(self.new(), "")

    def other_backward(self) -> None:
        """Another pass, with gradients that are not looked at."""
        x = calor.asarray(_numbers(self.rng), requires_grad=True)
        calor.grad(lambda t: self.model(t, "once"))(x)

    def switch(self) -> None:
        self.model.training = not self.model.training

    def rescale(self) -> None:
        self.model.scale = -5.0

    def freeze(self) -> None:
        self.model.fixed.requires_grad = not self.model.fixed.requires_grad

    def all(self) -> list[Callable[[], None]]:
        return [self.seed, self.seed_stream, self.set_state, self.draw, self.replace_stream,
                self.assign, self.write, self.write, self.step, self.load, self.forward,
                self.other_backward, self.switch, self.rescale, self.freeze]  # fmt: skip


def _names() -> list[str]:
    """Return the names of all changes."""
    every = _Changes(_Model(np.random.default_rng(0)), np.random.default_rng(0)).all()
    return [way.__name__ for way in every]


def _state(model: _Model) -> list[Array]:
    held = (model.first, model.second, model.mean, model.fixed, *model.stream.state)
    return [t.detach().numpy().copy() for t in held]


def _gradients(
    seed: list[int], how: tuple[str, str], changed: bool, alone: str = ""
) -> tuple[list[Any], list[str]]:
    """Return the gradients of a pass, after changes or none, and the names of the changes.

    ``alone`` is the name of the one change of a model that trains; without it changes are drawn.
    """
    rng = np.random.default_rng(seed)
    calor.random.seed(int(rng.integers(99)))
    model = _Model(rng)
    model.training = model.training or bool(alone)
    x = calor.asarray(_numbers(rng), requires_grad=True)
    leaves, names = [x, model.first, model.second], []
    checkpoint, mode = how
    run = calor.jit(partial(_Model.__call__, checkpoint=checkpoint)) if mode == "jitted" else None
    loss = model(x, checkpoint) if run is None else run(model, x)
    if changed:
        ways = _Changes(model, rng)
        every = ways.all()
        # The settings that the pass had are left for another, so each change is one.
        drawn = [every[int(rng.integers(len(every)))] for _ in range(_CHANGES)]
        for way in [way for way in every if way.__name__ == alone][:1] or drawn:
            names.append(way.__name__)
            way()
        before, stream = _state(model), [t.numpy() for t in calor.random.default_generator.state]
    loss.backward()
    if changed:
        after = _state(model), [t.numpy() for t in calor.random.default_generator.state]
        for a, b in zip([*before, *stream], [*after[0], *after[1]], strict=True):
            assert np.array_equal(a, b), f"{how}, after {names}: a backward pass changes the state"
    return [None if t.grad is None else t.grad.numpy() for t in leaves], names


def _run(place: Place) -> None:
    kept = calor.random.default_generator.state
    ways = [(c, m) for c in ("", "once", "nested") for m in ("plain", "jitted")]
    try:
        histories = [(ways[number % len(ways)], "") for number in range(_HISTORIES)]
        # Another change may hide what one alone would show.
        alone = product([w for w in ways if w != ("", "jitted")], _names())
        histories += [pair for n, pair in enumerate(alone) if place.tries(n, 5)]
        for number, (how, name) in enumerate(histories):
            seed = [place.seed, 406, number]
            want, _ = _gradients(seed, how, changed=False, alone=name)
            got, names = _gradients(seed, how, changed=True, alone=name)
            for k, (a, b) in enumerate(zip(got, want, strict=True)):
                what = f"the gradient {k} of a {' '.join(how)} pass, after {', '.join(names)}"
                assert a is not None, f"{what}, is missing"
                near = np.allclose(a, b, rtol=_NEAR, atol=_NEAR)
                assert near, f"{what}, is {a.tolist()}, not {b.tolist()}"
    finally:
        calor.random.default_generator.set_state(kept)


def changed_between_passes() -> Iterator[Check]:
    """Yield the check of what changes between passes."""
    yield Check(
        kind="state",
        subject="changed-between-passes",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_Changes) + inspect.getsource(_gradients),
        op="tanh",
        dtypes=(float32, uint32),
        looks=True,
    )
