"""Programs of several weights that stay, of which one alone changes: each way, for each weight.

A device keeps what it prepares from weights: packed, transposed, transformed. What it keeps belongs
to each weight, so a change of one, in any place among the others, has to be seen, and the others
stay as they are. Programs are drawn chains of products, convolutions, attention and recurrences
of small whole numbers, whose results NumPy gives exactly.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.ops.base import find
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "a program reads each of its weights as it is, however long all of them stayed"
_PROGRAMS, _BEFORE, _NEAR = 3, 7, 1e-4
Rng = np.random.Generator
# A step of numbers x of shape (rows, side) with one weight: as tensors and as arrays.
Layer = tuple[Callable[..., Any], Callable[[Array, Array], Array]]


class _Weights(Stateful):
    """Weights that a jitted step changes."""

    def __init__(self, arrays: list[Array]) -> None:
        self.w: list[Any] = [calor.asarray(a.copy()) for a in arrays]


def _conv(x: Any, w: Any) -> Any:
    """A convolution along the rows with three taps, and as many channels as columns."""
    kernel = calor.stack([w, w.mT, w], axis=-1)
    made = find("conv")(calor.expand_dims(x.mT, 0), kernel, stride=(1,), dilation=(1,),
                        padding=((1, 1),), groups=1)  # fmt: skip
    return made[0].mT


def _conv_of_arrays(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((1, 1), (0, 0)))
    return np.asarray(padded[:-2] @ w.T + padded[1:-1] @ w + padded[2:] @ w.T)


def _recurrence(x: Any, w: Any) -> Any:
    h = x
    for _ in range(3):
        h = calor.clip(h @ w + x, -2, 2)
    return h


def _recurrence_of_arrays(x: Array, w: Array) -> Array:
    h = x
    for _ in range(3):
        h = np.clip(h @ w + x, -2, 2)
    return h


def _looped(x: Any, w: Any) -> Any:
    return calor.fori_loop(0, 3, lambda i, h: calor.clip(h @ w + x, -2, 2), x)


def _attention(x: Any, w: Any) -> Any:
    q, k = (t[None, None] for t in (x, w))
    return find("attention")(q, k, k, causal=False, scale=0.25)[0][0, 0]


def _attention_of_arrays(x: Array, w: Array) -> Array:
    powers = np.exp((x @ w.T) * 0.25)
    return np.asarray((powers / powers.sum(-1, keepdims=True)) @ w)


_LAYERS: Final[dict[str, Layer]] = {
    "x @ w": (lambda x, w: x @ w, lambda x, w: x @ w),
    "x @ w.T": (lambda x, w: x @ w.mT, lambda x, w: x @ w.T),
    "relu": (lambda x, w: calor.maximum(x @ w + w[0], 0), lambda x, w: np.maximum(x @ w + w[0], 0)),
    "conv": (_conv, _conv_of_arrays), "attention": (_attention, _attention_of_arrays),
    "recurrence": (_recurrence, _recurrence_of_arrays),
    "recurrence in a loop": (_looped, _recurrence_of_arrays),
}  # fmt: skip


@calor.jit
def _stepped(held: _Weights, given: list[Any]) -> Any:
    for k, x in enumerate(given):
        held.w[k] -= x
    return held.w[0] * 1


class _Program:
    """A chain of layers, each with a weight, and the arrays that the weights should be."""

    def __init__(self, place: Place, rng: Rng) -> None:
        self.place, self.rng = place, rng
        self.side = int(rng.choice((4, 17, 32)))
        self.names = [str(n) for n in rng.choice(list(_LAYERS), int(rng.integers(2, 5)))]
        self.want = [self.numbers() for _ in self.names]
        self.held = _Weights(self.want)
        self.jitted = calor.jit(self.run)
        self.bound = calor.jit(self.of_held).bind(self.held)
        self.told: list[str] = []

    def numbers(self) -> Array:
        return self.rng.integers(-1, 2, (self.side, self.side)).astype(np.float32)

    def run(self, x: Any, weights: list[Any]) -> list[Any]:
        made = []
        for name, w in zip(self.names, weights, strict=True):
            y = _LAYERS[name][0](x, w)
            made.append(y)
            # The next layer takes whole numbers of a few bits, so that each is exact.
            x = x if name == "attention" else calor.clip(y, -1, 1)
        return made

    def of_held(self, held: _Weights, x: Any) -> list[Any]:
        return self.run(x, held.w)

    def compare(self) -> None:
        array = self.rng.integers(-1, 2, (int(self.rng.choice((1, 3, 9))), self.side))
        x = calor.asarray(array.astype(np.float32))
        for how, made in (("jitted", self.jitted(x, self.held.w)), ("bound", self.bound(x))):
            y = array.astype(np.float64)
            for k, (name, w, t) in enumerate(zip(self.names, self.want, made, strict=True)):
                right, got = _LAYERS[name][1](y, w.astype(np.float64)), t.numpy()
                wrong = np.flatnonzero(~(abs(got - right) <= _NEAR).reshape(-1))
                assert not wrong.size, (
                    f"{how}, layer {k} of {self.names}, {self.side} columns: "
                    f"{got.reshape(-1)[wrong[0]]} at {wrong[0]}, not "
                    f"{right.reshape(-1)[wrong[0]]}, after {', '.join(self.told)}"
                )
                y = y if name == "attention" else np.clip(right, -1, 1)

    # In which ways the weight of a number changes alone.

    def assign(self, k: int, new: Array) -> None:
        self.held.w = [calor.asarray(new) if i == k else w for i, w in enumerate(self.held.w)]

    def compute(self, k: int, new: Array) -> None:
        made = calor.asarray(new) + 0
        self.held.w = [*self.held.w[:k], made, *self.held.w[k + 1 :]]

    def write(self, k: int, new: Array) -> None:
        self.held.w[k][...] = calor.asarray(new)

    def write_a_row(self, k: int, new: Array) -> None:
        row = int(self.rng.integers(self.side))
        self.held.w[k][row] = calor.asarray(new[row])
        rest = self.want[k].copy()
        rest[row] = new[row]
        new[...] = rest

    def add(self, k: int, new: Array) -> None:
        w = self.held.w[k]
        w += calor.asarray(new - self.want[k])

    def step(self, k: int, new: Array) -> None:
        _stepped(self.held, [
            calor.asarray(w - new if i == k else w * 0) for i, w in enumerate(self.want)
        ])  # fmt: skip

    def step_alone(self, k: int, new: Array) -> None:
        if find_spec("calor_train") is None:
            return self.write(k, new)
        w = self.held.w[k]
        w.requires_grad = True
        w.grad = calor.asarray(self.want[k] - new)
        import_module("calor_train").SGD([w], lr=1.0).step()
        w.requires_grad, w.grad = False, None
        return None

    def load(self, k: int, new: Array) -> None:
        """All are loaded, and one of them differs."""
        for i, w in enumerate(self.held.w):
            w[...] = calor.asarray(new if i == k else self.want[i])

    def go(self) -> None:
        ways = [self.assign, self.compute, self.write, self.write_a_row, self.add,
                self.step, self.step_alone, self.load]  # fmt: skip
        for _ in range(_BEFORE):
            self.compare()
        for k in self.rng.permutation(len(self.names)):
            way = ways[int(self.rng.integers(len(ways)))]
            self.told.append(f"{way.__name__} of weight {k}")
            new = self.numbers()
            way(int(k), new)
            self.want[k] = new
            for _ in range(3):
                self.compare()


def _run(place: Place) -> None:
    for number in range(_PROGRAMS):
        _Program(place, np.random.default_rng([place.seed, 402, number])).go()


def changed_weights() -> Iterator[Check]:
    """Yield the check of programs of weights that change alone."""
    yield Check(
        kind="state",
        subject="one-of-several-kept-weights",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Program),
        op="dot_general",
        dtypes=(float32,),
        looks=True,
    )
