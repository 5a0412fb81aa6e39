"""Jitted functions after any history of calls: what they keep must be what they are called with.

A call may be compiled for a shape, dtype, number, mode or attribute of an object, and a later call
differs in one of these. Calls and changes in between are drawn; the numbers are NumPy's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "a jitted function computes with what it is called with, after any other calls"
_HISTORIES, _ACTIONS = 4, 22
_SHAPES: Final = ((2,), (3,), (2, 3), (), (1, 2))


class _Machine(Stateful):
    """An object with a tensor, numbers and modes, as a module has them."""

    def __init__(self) -> None:
        self.weight: Any = calor.asarray(np.float32(2))
        self.training, self.scale, self.steps = True, 1.0, [1, 2]


def _first(machine: _Machine, x: Any, by: Any) -> Any:
    made = x * machine.scale + machine.weight
    if machine.training:
        machine.weight = machine.weight * 0.5 + 1
        return made + by
    return made - by * machine.steps[-1]


def _second(machine: _Machine, x: Any) -> Any:
    machine.weight += 1
    return machine.weight * 2 + x


def _frozen(machine: _Machine, x: Any) -> Any:
    with calor.no_grad():
        return x * machine.scale


class _History:
    """A machine, two jitted functions that share it, and the numbers that it should have."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.machine = rng, _Machine()
        self.first, self.second = calor.jit(_first), calor.jit(_second)
        self.frozen = calor.jit(_frozen)
        self.weight = 2.0
        self.names: list[str] = []

    def array(self) -> Array:
        shape = _SHAPES[int(self.rng.integers(len(_SHAPES)))]
        kind = np.int32 if self.rng.random() < 0.3 else np.float32
        return np.asarray(self.rng.integers(-9, 10, shape), kind)

    def same(self, made: Any, want: Any, dtype: Any = float32) -> None:
        what = f"after {', '.join(self.names)}"
        got, wanted = made.numpy(), np.asarray(want)
        assert made.dtype is dtype, f"{what}: {made.dtype}, not {dtype}"
        assert got.shape == wanted.shape, f"{what}: shape {got.shape}, not {wanted.shape}"
        assert (got == wanted).all(), f"{what}: {got}, not {wanted}"
        weight = self.machine.weight.numpy()
        assert weight == self.weight, f"{what}: the state is {weight}, not {self.weight}"

    # What a user does.

    def call(self) -> None:
        array, by = self.array(), int(self.rng.integers(1, 4))
        given = by if self.rng.random() < 0.5 else float(by)
        machine, x = self.machine, array.astype(np.float64)
        want = x * machine.scale + self.weight
        want = want + by if machine.training else want - by * machine.steps[-1]
        if machine.training:
            self.weight = self.weight * 0.5 + 1
        self.same(self.first(machine, calor.asarray(array), given), want)

    def call_other(self) -> None:
        array = self.array()
        self.weight += 1
        self.same(self.second(self.machine, calor.asarray(array)), self.weight * 2 + array)

    def call_with_number(self) -> None:
        self.weight += 1
        self.same(self.second(self.machine, 3), self.weight * 2 + 3)

    def differentiate(self) -> None:
        machine, array = self.machine, np.float32(self.rng.integers(-9, 10, 3))
        x: Any = calor.asarray(array, requires_grad=True)
        machine.training, kept = False, machine.training
        made = self.first(machine, x, 1)
        assert made.requires_grad, f"after {self.names}: a call lost its gradient"
        made.sum().backward()
        self.same(x.grad, np.full(3, machine.scale))
        with calor.no_grad():
            plain = self.first(machine, x, 1)
        assert not plain.requires_grad, f"after {self.names}: no_grad around a call is lost"
        inside = self.frozen(machine, x)
        self.same(inside, array * machine.scale)
        x.grad = None
        (inside.sum() + (x * 2).sum()).backward()
        assert x.grad.tolist() == [2.0] * 3, f"after {self.names}: no_grad in a call is lost"
        machine.training = kept

    def switch(self) -> None:
        self.machine.training = not self.machine.training

    def rescale(self) -> None:
        self.machine.scale = float(self.rng.choice((1.0, 2.0, -3.0)))

    def restep(self) -> None:
        if self.rng.random() < 0.5:
            self.machine.steps[-1] = int(self.rng.integers(1, 5))
        else:
            self.machine.steps = [*self.machine.steps[:1], int(self.rng.integers(1, 5))]

    def replace(self) -> None:
        self.weight = float(self.rng.integers(-9, 10))
        self.machine.weight = calor.asarray(np.float32(self.weight))

    def write(self) -> None:
        self.weight = float(self.rng.integers(-9, 10))
        self.machine.weight[...] = self.weight

    def another(self) -> None:
        """Another object of the class has a state of its own."""
        kept, weight = self.machine, self.weight
        self.machine, self.weight = _Machine(), 2.0
        self.machine.scale = 5.0
        self.call()
        self.machine, self.weight = kept, weight


_NAMES: Final = ("call", "call", "call", "call_other", "call_with_number", "differentiate",
                 "switch", "rescale", "restep", "replace", "write", "another")  # fmt: skip


def _run(place: Place) -> None:
    for number in range(_HISTORIES):
        history = _History(np.random.default_rng([place.seed, number]))
        for _ in range(_ACTIONS):
            name = str(history.rng.choice(_NAMES))
            history.names.append(name)
            getattr(history, name)()
        history.names.append("call at the end")
        history.call()


def jit_states() -> Iterator[Check]:
    """Yield the check of drawn histories of jitted functions that share an object."""
    yield Check(
        kind="history",
        subject="drawn-calls-of-jitted-functions",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _History),
        dtypes=(float32, int32),
        looks=True,
    )
