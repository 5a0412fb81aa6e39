"""Jitted methods of copies: each works on its own object, and on what that shares with others.

What an object keeps beside its attributes, such as the programs of its methods, belongs to it
alone. Objects are copied in every way, the copies copied again; tensors are assigned and written,
settings assigned, and methods of the class and of its subclass called, in drawn orders. A shallow
copy shares its tensors until one is assigned. NumPy says what each object holds.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "a jitted method of a copy works on the copy"
_HISTORIES, _STEPS, _MOST, _NEAR = 24, 22, 6, 1e-5
Rng = np.random.Generator


class Methods:
    """Jitted methods, for classes of objects with a tensor and a setting."""

    weight: Any
    scale: float

    @calor.jit
    def read(self, x: Any) -> Any:
        """Return a product of what the object holds."""
        return x * self.weight * self.scale

    @calor.jit
    def grow(self, x: Any) -> Any:
        """Write to the tensor, and return its sum."""
        self.weight += x
        return calor.sum(self.weight)

    @partial(calor.jit, static_argnames="power")
    def power(self, x: Any, power: int = 1) -> Any:
        """Return a product with a static argument."""
        return x * self.weight**power + self.scale


class Own(Methods, Stateful):
    """An object of one's own."""

    def __init__(self, weight: Array, scale: float) -> None:
        self.weight, self.scale = calor.asarray(weight), scale


class Below(Own):
    """A subclass whose method calls the one that it overrides."""

    @calor.jit
    def read(self, x: Any) -> Any:
        """Return twice what the other class does."""
        return Own.read.__get__(self)(x) * 2


def _module() -> Any:
    """Return a class of modules with the methods."""
    nn: Any = import_module("calor_nn")

    class Layer(Methods, nn.Module):  # type: ignore[misc]
        def __init__(self, weight: Array, scale: float) -> None:
            self.register_buffer("weight", calor.asarray(weight))
            self.scale = scale

    return Layer


@dataclass
class _Known:
    """An object, the numbers of its tensor in a list that shallow copies share, and its setting."""

    made: Any
    cell: list[Array]
    scale: float

    @property
    def factor(self) -> float:
        return 2.0 if isinstance(self.made, Below) else 1.0


def _numbers(rng: Rng) -> Array:
    return rng.integers(1, 5, 2).astype(np.float32)


def _copied(rng: Rng, one: _Known) -> tuple[str, _Known]:
    way = str(rng.choice(["copy.copy", "attributes", "deepcopy", "pickle", "in a list"]))
    if way == "copy.copy":
        return way, _Known(copy.copy(one.made), one.cell, one.scale)
    if way == "attributes":
        kind: Any = type(one.made)
        made = kind.__new__(kind)
        vars(made).update(vars(one.made))
        return way, _Known(made, one.cell, one.scale)
    if way == "deepcopy":
        made = copy.deepcopy(one.made)
    elif way == "pickle" and isinstance(one.made, Own):
        made = pickle.loads(pickle.dumps(one.made))
    else:
        made = copy.deepcopy([one.made, one.made])[1]
    # A class of a function has no name by which a pickle finds it.
    return way, _Known(made, [one.cell[0].copy()], one.scale)


def _asked(rng: Rng, one: _Known) -> tuple[str, Any, Any]:
    """Call a method; return its name, its result and what is right."""
    x = _numbers(rng)
    given, (held,) = calor.asarray(x), one.cell
    kind = int(rng.integers(4))
    if kind == 0:
        one.cell[0] = held + x
        return "grow", one.made.grow(given), (held + x).sum()
    if kind == 1:
        power = int(rng.integers(1, 3))
        return f"power {power}", one.made.power(given, power=power), x * held**power + one.scale
    if kind == 2:
        return "read of the class", type(one.made).read.__get__(one.made)(given), (
            x * held * one.scale * one.factor
        )  # fmt: skip
    return "read", one.made.read(given), x * held * one.scale * one.factor


def _history(kind: Callable[[Array, float], Any], rng: Rng) -> None:
    first = _numbers(rng)
    known = [_Known(kind(first, 2.0), [first], 2.0)]
    told: list[str] = []
    for _ in range(_STEPS):
        place = int(rng.integers(len(known)))
        one, turn = known[place], rng.random()
        if turn < 0.2 and len(known) < _MOST:
            way, made = _copied(rng, one)
            known.append(made)
            told.append(f"{way} of {place}")
        elif turn < 0.3:
            one.cell = [_numbers(rng)]
            one.made.weight = calor.asarray(one.cell[0])
            told.append(f"{place} gets a tensor")
        elif turn < 0.4:
            numbers = _numbers(rng)
            one.made.weight[...] = calor.asarray(numbers)
            one.cell[0] = numbers
            told.append(f"{place} is written")
        elif turn < 0.5:
            one.made.scale = one.scale = float(rng.integers(1, 6))
            told.append(f"{place} gets a setting")
        else:
            name, got, want = _asked(rng, one)
            told.append(f"{name} of {place}")
            near = np.allclose(got.numpy(), want, rtol=_NEAR)
            assert near, f"{got.tolist()}, not {np.asarray(want).tolist()}, after {told}"
    for place, one in enumerate(known):
        held = one.made.weight.numpy()
        right = np.allclose(held, one.cell[0], rtol=_NEAR)
        assert right, f"{place} holds {held}, not {one.cell[0]}, after {told}"


def _run(place: Place) -> None:
    kinds: list[Any] = [Own, Below]
    if find_spec("calor_nn") is not None:
        kinds.append(_module())
    for number in range(_HISTORIES):
        if place.tries(number, 3):
            seed = [place.seed, crc32(b"methods of copies"), number]
            _history(kinds[number % len(kinds)], np.random.default_rng(seed))


def methods_of_copies() -> Iterator[Check]:
    """Yield the check of jitted methods of copies."""
    yield Check(
        kind="history",
        subject="methods-of-copies",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _history),
        op="mul",
        dtypes=(float32,),
        looks=True,
    )
