"""One tensor used again and again: under other modes, by other functions, after it was written to.

Whatever a tensor was used for before, each use is that of a new tensor of its numbers. Histories
enter and leave autocast, modes of gradients, precisions and programs; in any of them they use some
tensors, beside twins that are made for that use alone, and compare results, dtypes, whether they
learn, and gradients. What was kept of an earlier use, such as a cast or a packed copy, shows here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bfloat16, float16, float32, int64

from .base import Array, Check, Place

CONTRACT: Final = "a use of a tensor is that of a new one of its numbers, whatever was before"
_HISTORIES, _STEPS, _SIDE = 8, 20, 4
Rng = np.random.Generator
Use = Callable[[Any, Any], Any]

# What is done with a weight (4, 4) and an input (2, 4).
_USES: Final[dict[str, Use]] = {
    "x @ w": lambda w, x: x @ w, "w @ x": lambda w, x: w @ calor.matrix_transpose(x),
    "x @ w.T": lambda w, x: x @ w.T, "w[1:3]": lambda w, x: w[1:3] @ w,
    "x * w[0]": lambda w, x: x * w[0], "sum": lambda w, x: calor.sum(w, axis=0) + x,
    "softmax": lambda w, x: calor.softmax(w) @ w, "take": lambda w, x: calor.take(w, _rows(), 0),
    "einsum": lambda w, x: calor.einsum("bi,ij->bj", x, w), "w @ w": lambda w, x: w @ w,
    "a jitted product": lambda w, x: calor.jit(lambda x, w: calor.tanh(x @ w))(x, w),
    "a checkpoint": lambda w, x: calor.checkpoint(lambda w: calor.tanh(x @ w) @ w)(w),
    "a mapped product": lambda w, x: calor.vmap(lambda r: r @ w)(x),
    "a cast": lambda w, x: w.astype(bfloat16).astype(float32) + x[0],
    "a detached product": lambda w, x: x @ w.detach() + w[0],
    "a gradient": lambda w, x: calor.grad(lambda v: calor.sum((x @ v).astype(float32) ** 2))(w),
}  # fmt: skip
_OF_LAYERS: Final[dict[str, Use]] = {
    "linear": lambda w, x: _layers().linear(x, w, w[0]),
    "embedding": lambda w, x: _layers().embedding(_rows(), w),
    "conv1d": lambda w, x: _layers().conv1d(
        calor.reshape(x, (1, 2, 4)), calor.reshape(w, (8, 2, 1))
    ),
}  # fmt: skip


def _rows() -> Any:
    return calor.asarray(np.array([2, 0, 2]))


def _layers() -> Any:
    return import_module("calor_nn.functional")


class _History:
    """Some weights, and the modes that the history is in."""

    def __init__(self, place: Place, rng: Rng) -> None:
        self.rng = rng
        self.uses = dict(_USES)
        if find_spec("calor_nn") is not None:
            self.uses.update(_OF_LAYERS)
        half = [d for d in (bfloat16, float16) if place.plain.info.dtypes.get(d)]
        if bfloat16 not in half:
            del self.uses["a cast"]
        self.modes: list[tuple[str, Callable[[], Any]]] = [
            ("no_grad", calor.no_grad), ("enable_grad", calor.enable_grad),
            ("highest", partial(calor.matmul_precision, "highest")),
            ("high", partial(calor.matmul_precision, "high")),
        ]  # fmt: skip
        for low in half:
            self.modes += [(f"autocast {low.name}", partial(calor.autocast, low))] * 2
            self.modes.append(("no autocast", partial(calor.autocast, low, enabled=False)))
        self.weights = [self.weight(), self.weight()]
        self.weights[1].requires_grad = False
        self.names: list[str] = []
        self.stack = ExitStack()
        self.within: list[tuple[str, Callable[[], Any]]] = []

    def weight(self) -> Any:
        return calor.asarray(self.numbers((_SIDE, _SIDE)), requires_grad=True)

    def numbers(self, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.rng.integers(-64, 65, shape) / 37, np.float32)

    def told(self) -> str:
        return f"after {', '.join(self.names)}"

    def use(self, *modes: tuple[str, Callable[[], Any]]) -> None:
        """Use a weight and its twin in the same way, in some modes more, and go backward."""
        w = self.weights[int(self.rng.random() < 0.25)]
        # The twin shares nothing: its numbers come from the host.
        twin = calor.asarray(w.numpy().copy(), requires_grad=w.requires_grad)
        x, name = self.numbers((2, _SIDE)), str(self.rng.choice(list(self.uses)))
        found: list[dict[str, Any]] = []
        for one in (twin, w):
            with ExitStack() as stack:
                for _, mode in modes:
                    stack.enter_context(mode())
                made = self.uses[name](one, calor.asarray(x))
                loss = calor.sum(made.astype(float32))
                told = {"dtype": made.dtype, "learns": made.requires_grad, "value": made.numpy()}
                if loss.requires_grad:
                    loss.backward()
            told["gradient"] = None if one.grad is None else one.grad.numpy()
            one.grad = None
            found.append(told)
        within = [n for n, _ in (*self.within, *modes)]
        self.names.append(f"{name} in {within} of {self.which(w)}")
        for what, want in found[0].items():
            got = found[1][what]
            same = got is want or (
                np.array_equal(got, want) if isinstance(want, np.ndarray) else got == want
            )
            assert same, f"{what} is {got}, of a new tensor {want}, {self.told()}"[:1500]

    def which(self, w: Any) -> str:
        return "the first" if w is self.weights[0] else "the second"

    def write(self) -> None:
        """Write to a weight, in one of the ways in which it stays the same tensor."""
        w = self.weights[int(self.rng.integers(2))]
        kind = int(self.rng.integers(4))
        with calor.no_grad():
            if kind == 0:
                w += 0.5
            elif kind == 1:
                w[1] = calor.asarray(self.numbers((_SIDE,)))
            elif kind == 2:
                w[...] = calor.asarray(self.numbers((_SIDE, _SIDE)))
        if kind == 3:
            w.requires_grad = not w.requires_grad
        self.names.append(f"a write of kind {kind} to {self.which(w)}")

    def mode(self) -> tuple[str, Callable[[], Any]]:
        return self.modes[int(self.rng.integers(len(self.modes)))]

    def enter(self, mode: tuple[str, Callable[[], Any]]) -> None:
        self.stack.enter_context(mode[1]())
        self.within.append(mode)

    def leave(self) -> None:
        self.stack.close()
        self.within.clear()
        self.names.append("all modes left")

    def go(self) -> None:
        with self.stack:
            for _ in range(_STEPS):
                kind = int(self.rng.integers(7))
                if kind == 0:
                    self.write()
                elif kind == 1:
                    self.enter(self.mode())
                elif kind == 2 and self.rng.random() < 0.4:
                    self.leave()
                else:
                    self.use(*(self.mode() for _ in range(int(self.rng.integers(0, 3)))))


def _run(place: Place) -> None:
    for number in filter(partial(place.tries, among=4), range(_HISTORIES)):
        _History(place, np.random.default_rng([place.seed, 187, number])).go()
    _orders(place)


def _orders(place: Place) -> None:
    """Every mode before every other, with a function of one weight, within autocast and without."""
    for number in range(2):
        history = _History(place, np.random.default_rng([place.seed, 188, number]))
        history.uses = {n: history.uses[n] for n in ("x @ w", "w @ w")}
        around = [m for m in history.modes if m[0].startswith("autocast")][:1]
        with history.stack:
            for mode in around if number else []:
                history.enter(mode)
            modes = list(dict(history.modes).items())
            for turn, (first, second) in enumerate(product(modes, modes)):
                if first is not second and place.tries(turn, 3):
                    history.weights = [history.weight()] * 2
                    history.use(first)
                    history.use(second)


def uses_again() -> Iterator[Check]:
    """Yield the check of tensors that are used again."""
    yield Check(
        kind="state",
        subject="uses-again",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _History),
        op="dot_general",
        dtypes=(float32, int64),
        looks=True,
    )
