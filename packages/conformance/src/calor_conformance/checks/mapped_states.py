"""State of objects under vmap: mapped along any axis, read and changed in place.

A mapped object has tensors with one axis more. What one element of the axis does to its part,
all do; so each change is compared with a loop over the parts in NumPy, and the parts must stand
where they stood.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "an object that vmap maps along an axis is read and changed part by part"
_DRAWN: Final = 12
Rng = np.random.Generator
Step = Callable[[Any, Any], Any]


class _Pair(Stateful):
    """Two tensors, which differ in rank."""

    def __init__(self, first: Array, second: Array) -> None:
        self.first: Any = calor.asarray(first)
        self.second: Any = calor.asarray(second)


def _added(pair: Any, x: Any) -> Any:
    pair.first += x
    return pair.first * 2


def _replaced(pair: Any, x: Any) -> Any:
    pair.first = pair.first * x
    return pair.first - x


def _set(pair: Any, x: Any) -> Any:
    made = pair.second * 3
    pair.second[...] = x + 1
    return made


def _both(pair: Any, x: Any) -> Any:
    pair.second = pair.second + 1
    pair.first *= 2
    return x - 1


def _read(pair: Any, x: Any) -> Any:
    return pair.first + x


_STEPS: Final = (_added, _replaced, _set, _both, _read)


class _Parts:
    """What a step does to an object, with arrays for tensors."""

    def __init__(self, first: Array, second: Array) -> None:
        self.first, self.second = first, second


def _looped(
    step: Callable[[Any, Any], Any],
    first: Array,
    second: Array,
    axis: int,
    x: Array,
    at: int | None,
) -> tuple[Array, Array, Array]:
    """Return the results of each element and the object's arrays afterwards, by a loop."""
    made, firsts, seconds = [], [], []
    for n in range(first.shape[axis]):
        part = _Parts(np.take(first, n, axis), np.take(second, n, axis))
        value = x if at is None else np.take(x, n, at)
        made.append(np.asarray(step(part, value)))
        firsts.append(part.first)
        seconds.append(part.second)
    return np.stack(made), np.stack(firsts, axis), np.stack(seconds, axis)


def _run(place: Place) -> None:
    for number in range(_DRAWN):
        rng = np.random.default_rng([place.seed, 983, number])
        step = _STEPS[int(rng.integers(len(_STEPS)))]
        inner = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(1, 3))))
        size, axis = int(rng.integers(1, 5)), int(rng.integers(len(inner) + 1))
        shape = (*inner[:axis], size, *inner[axis:])
        first, second, x = (np.asarray(rng.integers(-9, 10, shape), np.float32) for _ in "fsx")
        at = None if rng.random() < 0.3 else int(rng.integers(len(inner) + 1))
        x = np.take(x, 0, axis) if at is None else np.moveaxis(x, axis, at)
        given = axis - len(shape) if rng.random() < 0.3 else axis
        mapped: Any = calor.vmap(step, in_axes=(given, at))
        compiled = rng.random() < 0.5
        if compiled:
            mapped = calor.jit(mapped)
        what = f"{step.__name__[1:]} of state {shape} along {given} and x along {at}"
        what += ", jitted" if compiled else ""
        pair = _Pair(first, second)
        for turn in range(2):
            want, first, second = _looped(step, first, second, axis, x, at)
            got = mapped(pair, calor.asarray(x)).numpy()
            for name, made, wanted in (
                ("the result", got, want), ("the first tensor", pair.first.numpy(), first),
                ("the second tensor", pair.second.numpy(), second),
            ):  # fmt: skip
                assert made.shape == wanted.shape, (
                    f"{what}, call {turn}: {name} has shape {made.shape}, not {wanted.shape}"
                )
                assert (made == wanted).all(), (
                    f"{what}, call {turn}: {name} is {made}, not {wanted}"
                )


def mapped_states() -> Iterator[Check]:
    """Yield the check of objects that are mapped and changed."""
    yield Check(
        kind="transforms",
        subject="mapped-states",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, inspect.getmodule(_run) or _run),
        dtypes=(float32,),
        looks=True,
    )
