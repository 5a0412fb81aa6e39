"""How a compiled function reaches its state when it is not an argument.

A function has its state from the object that it is a method of, from a closure, a global, what its
parameters are by default, or from a function that does. Ways are drawn and put behind one another.
A call that does not find the state keeps the numbers and modes of its trace, so what the state
holds is changed between calls.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Check, Place
from .user_programs import of_user

CONTRACT: Final = "a compiled function finds its state wherever Python lets it have it from"
_DRAWN, _CALLS = 20, 4
Rng = np.random.Generator
Function = Callable[[Any], Any]


class _Machine(Stateful):
    """A tensor and a mode, and a method that depends on both and changes the tensor."""

    def __init__(self) -> None:
        self.weight: Any = calor.asarray(np.float32(2))
        self.training = True

    def step(self, x: Any) -> Any:
        made = x * 2 + self.weight
        if self.training:
            self.weight = self.weight * 0.5 + 1
            return made
        return -made


def _with_global(source: str, **names: Any) -> Function:
    """Return a function of a module, the same one for all, that has these names."""
    made: Function = of_user(f"def run(x):\n    return {source}\n", __name__=__name__, **names)[
        "run"
    ]
    return made


# Where a function has the object from.


def _method(machine: _Machine) -> Function:
    return machine.step


def _closure(machine: _Machine) -> Function:
    return lambda x: machine.step(x)


def _default(machine: _Machine) -> Function:
    def made(x: Any, m: _Machine = machine) -> Any:
        return m.step(x)

    return made


def _keyword(machine: _Machine) -> Function:
    def made(x: Any, *, m: _Machine = machine) -> Any:
        return m.step(x)

    return made


def _global(machine: _Machine) -> Function:
    return _with_global("machine.step(x)", machine=machine)


def _bound_first(machine: _Machine) -> Function:
    return partial(_Machine.step, machine)


def _bound_by_name(machine: _Machine) -> Function:
    def made(x: Any, m: _Machine) -> Any:
        return m.step(x)

    return partial(made, m=machine)


class _User:
    """An object without state that keeps one which has it, and a method of it."""

    def __init__(self, machine: _Machine) -> None:
        self.machines = [machine]

    @property
    def machine(self) -> _Machine:
        return self.machines[0]

    def run(self, x: Any) -> Any:
        return self.machine.step(x)

    def __call__(self, x: Any) -> Any:
        return self.run(x)


def _listed(machine: _Machine) -> Function:
    held = [0, (machine,)]
    return lambda x: held[1][0].step(x)  # type: ignore[index]


def _by_key(machine: _Machine) -> Function:
    held = {"machine": machine}
    return lambda x: held["machine"].step(x)


def _attribute(machine: _Machine) -> Function:
    held = SimpleNamespace(inner=SimpleNamespace(machine=machine))
    return lambda x: held.inner.machine.step(x)


def _method_of_a_user(machine: _Machine) -> Function:
    return _User(machine).run


def _user(machine: _Machine) -> Function:
    user = _User(machine)
    return lambda x: user(x)


# Where a function has another function from.


def _in_closure(function: Function) -> Function:
    return lambda x: function(x)


def _in_default(function: Function) -> Function:
    def made(x: Any, *, of: Function = function) -> Any:
        return of(x)

    return made


def _in_partial(function: Function) -> Function:
    return partial(lambda of, x: of(x), function)


def _in_jitted(function: Function) -> Function:
    jitted: Function = calor.jit(function)
    return jitted


def _in_global(function: Function) -> Function:
    return _with_global("function(x)", function=function)


def _decorated(function: Function) -> Function:
    @functools.wraps(function)
    def made(*args: Any) -> Any:
        return function(*args)

    return made


_FIRST: Final = (
    _method, _closure, _default, _keyword, _global, _bound_first, _bound_by_name, _listed, _by_key,
    _attribute, _method_of_a_user, _user,
)  # fmt: skip
_BEHIND: Final = (_in_closure, _in_default, _in_partial, _in_jitted, _in_global, _decorated)


def _drawn(rng: Rng, machine: _Machine) -> tuple[str, Function]:
    """Return a function that reaches a machine, and the names of the ways to it."""
    way = _FIRST[int(rng.integers(len(_FIRST)))]
    function, names = way(machine), [way.__name__]
    for _ in range(int(rng.integers(3))):
        behind = _BEHIND[int(rng.integers(len(_BEHIND)))]
        if behind is _in_global and not inspect.isfunction(function):
            continue
        function = behind(function)
        names.append(behind.__name__)
    return " of ".join(reversed(names)).replace("_", " ").replace("  ", " ").strip(), function


def _run(place: Place) -> None:
    for number in range(_DRAWN):
        rng = np.random.default_rng([place.seed, 977, number])
        machine, weight = _Machine(), 2.0
        names, function = _drawn(rng, machine)
        jitted = calor.jit(function)
        told = [names]
        for _ in range(_CALLS):
            x = np.asarray(rng.integers(-9, 10, 3), np.float32)
            got, made = jitted(calor.asarray(x)).numpy(), x * 2 + weight
            want = made if machine.training else -made
            told.append("training" if machine.training else "evaluation")
            if machine.training:
                weight = weight * 0.5 + 1
            assert (got == want).all(), f"{got}, not {want}: {', then '.join(told)}"
            kept = machine.weight.item()
            assert kept == weight, f"the state is {kept}, not {weight}: {', then '.join(told)}"
            if rng.random() < 0.5:
                machine.training = not machine.training
            if rng.random() < 0.4:
                weight = float(rng.integers(-9, 10))
                machine.weight = calor.asarray(np.float32(weight))
                told.append(f"weight {weight}")


def reached_states() -> Iterator[Check]:
    """Yield the check of functions that reach their state without an argument."""
    yield Check(
        kind="state",
        subject="reached-without-arguments",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, inspect.getmodule(_run) or _run),
        dtypes=(float32,),
        looks=True,
    )
