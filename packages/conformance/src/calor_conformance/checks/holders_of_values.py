"""Holders of one value, made in every way, before something is written in place.

A write in place may use the memory of the value that it replaces, if nobody else holds it. Before
each write drawn tensors take over the value: detached, copied, reshaped, in trees, in closures, as
host arrays, as operands that are not computed yet, as what a backward pass will read. Afterwards
each has the numbers of before, and the tensor that was written those of after.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "a write in place changes the tensor that it writes, and no other holder's value"
_HISTORIES, _WRITES = 10, 5
Rng = np.random.Generator
# Makes a holder of a tensor's value: a function that returns the numbers that it holds.
Read = Callable[[], Any]


def _later(value: Any) -> Read:
    return lambda: value


def _in_closure(t: Any) -> Read:
    kept = t.detach()
    jitted = calor.jit(lambda x: kept + x)
    return lambda: jitted(calor.zeros((), dtype=float32))


def _backward(t: Any) -> Read:
    """The gradient of x · t by x is t as it was."""
    x = calor.asarray(np.zeros(t.shape, np.float32), requires_grad=True)
    loss = calor.sum(x * t.detach())

    def read() -> Any:
        if x.grad is None:
            loss.backward()
        return x.grad

    return read


def _tied(t: Any) -> Read:
    """An object of two attributes, of which a jitted function writes one."""
    pair = _Pair(t.detach(), t.detach())
    _write_first(pair, calor.ones((), dtype=float32))
    return lambda: pair.second


class _Pair(Stateful):
    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


@calor.jit
def _write_first(pair: _Pair, x: Any) -> Any:
    pair.first += x
    return pair.first * 1


_HOLDERS: Final[dict[str, Callable[[Any], Read]]] = {
    "detach": lambda t: _later(t.detach()), "copy": lambda t: _later(t.copy()),
    "copy.copy": lambda t: _later(copy.copy(t)), "deepcopy": lambda t: _later(copy.deepcopy(t)),
    "clone": lambda t: _later(t.clone()), "reshape": lambda t: _later(calor.reshape(t, t.shape)),
    "a view": lambda t: _later(t[:]), "two turns": lambda t: _later(t.mT.mT),
    "expanded": lambda t: _later(t[None][0]), "astype": lambda t: _later(t.astype(float32)),
    "not computed": lambda t: _later(t + 0), "a part of a sum": lambda t: _later((t * 2) / 2),
    "numpy": lambda t: _later(t.detach().numpy()),
    "asarray": lambda t: _later(calor.asarray(t.detach())),
    "asarray of numpy": lambda t: _later(calor.asarray(t.detach().numpy())),
    "numpy that is copied": lambda t: _later(t.detach().numpy(copy=True)),
    "np.asarray": lambda t: _later(np.asarray(t.detach())),
    "from_dlpack": lambda t: _later(calor.from_dlpack(t.detach())),
    "tree.map": lambda t: partial(_of_tree, calor.tree.map(lambda x: x.detach(), {"a": (t, [t])})),
    "a tuple": lambda t: partial(_of_tuple, (t.detach(), 1)),
    "an identity, jitted": lambda t: _later(calor.jit(lambda x: x)(t.detach())),
    "a jitted tree": lambda t: partial(_of_tuple, calor.jit(lambda x: (x, x + 1))(t.detach())),
    "an attribute": lambda t: partial(getattr, _Pair(t.detach(), None), "first"),
    "a closure": _in_closure, "a backward pass": _backward, "an object's neighbour": _tied,
    "a pickle": lambda t: partial(pickle.loads, pickle.dumps(t.detach())),
    "an output of cond": lambda t: _later(
        calor.cond(calor.asarray(True), lambda x: x, lambda x: x + 1, t.detach())
    ),
    "a carry": lambda t: _later(calor.fori_loop(0, 2, lambda i, x: x, t.detach())),
    "checkpoint": lambda t: _later(calor.checkpoint(lambda x: x)(t.detach())),
}  # fmt: skip


def _of_tree(held: Any) -> Any:
    return held["a"][1][0]


def _of_tuple(held: Any) -> Any:
    return held[0]


class _Model(Stateful):
    """A weight that jitted functions write."""

    def __init__(self, w: Any) -> None:
        self.w = w


@calor.jit
def _step(model: _Model, x: Any) -> None:
    model.w += x


@calor.jit
def _write_argument(t: Any, x: Any) -> Any:
    t += x
    return t * 2


@calor.jit
def _replace_argument(t: Any, x: Any) -> None:
    t[...] = t + x


class _History:
    """A tensor in an object, what it should be, and holders of its earlier values."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.want = self.numbers()
        self.model = _Model(calor.asarray(self.want))
        # A function that is bound to what it writes has buffers of its own.
        self.bound = calor.jit(lambda model, x: _step.function(model, x)).bind(self.model)
        captured = self.model.w

        def write_captured(x: Any) -> Any:
            nonlocal captured
            captured += x
            return captured[0]

        self.captured = calor.jit(write_captured)
        self.names: list[str] = []

    def numbers(self) -> Array:
        return self.rng.integers(-9, 10, (3, 3)).astype(np.float32)

    def ways(self) -> dict[str, Callable[[Any], Any]]:
        """Return what adds a tensor to the weight in place."""
        return {
            "a jitted step": lambda x: _step(self.model, x), "a bound step": self.bound,
            "a jitted write to an argument": lambda x: _write_argument(self.model.w, x),
            "a jitted write of all": lambda x: _replace_argument(self.model.w, x),
            "a captured tensor": self.captured, "+=": self.add, "[...] =": self.set,
            "an element": self.set_rows, "an optimizer": self.optimize,
        }  # fmt: skip

    def add(self, x: Any) -> None:
        w = self.model.w
        w += x

    def set(self, x: Any) -> None:
        w = self.model.w
        w[...] = w + x

    def set_rows(self, x: Any) -> None:
        w = self.model.w
        for k in range(3):
            w[k] += x[k]

    def optimize(self, x: Any) -> None:
        if find_spec("calor_train") is None:
            return self.add(x)
        w = self.model.w
        w.requires_grad, w.grad = True, -x
        import_module("calor_train").SGD([w], lr=1.0).step()
        w.requires_grad, w.grad = False, None
        return None

    def go(self) -> None:
        held: list[tuple[str, Read, Array]] = []
        for turn in range(_WRITES):
            # At some writes there is no other holder, so the memory is used again.
            for name in self.rng.choice(list(_HOLDERS), int(self.rng.choice((0, 1, 2)))):
                self.names.append(f"{name} of value {turn}")
                held.append((f"{name} of value {turn}", _HOLDERS[name](self.model.w), self.want))
            names, x = self.ways(), self.numbers()
            way = str(self.rng.choice(list(names)))
            for _ in range(int(self.rng.choice((1, 3)))):
                names[way](calor.asarray(x))
                self.want = self.want + x
            self.names.append(way)
            for name, read, want in [*held, ("the tensor", lambda: self.model.w, self.want)]:
                got = read()
                got = got if isinstance(got, np.ndarray) else got.detach().numpy()
                told = f"{name}, after {', '.join(self.names)}"
                assert np.array_equal(got, want), f"{told}: {got.tolist()}, not {want.tolist()}"


def _run(place: Place) -> None:
    for number in range(_HISTORIES):
        _History(np.random.default_rng([place.seed, 407, number])).go()


def holders_of_values() -> Iterator[Check]:
    """Yield the check of holders of values."""
    yield Check(
        kind="state",
        subject="holders-of-values",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _History),
        op="mul",
        dtypes=(float32,),
        looks=True,
    )
