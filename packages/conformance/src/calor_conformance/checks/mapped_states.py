"""State of objects under vmap: mapped along any axis, read and changed in place.

A mapped object has tensors with one axis more. What one element of the axis does to its part,
all do; so each change is compared with a loop over the parts in NumPy, and the parts must stand
where they stood. An object may be given more than once, and two objects may have one tensor; an
error in the middle leaves all as it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "an object that vmap maps along an axis is read and changed part by part"
_DRAWN: Final = 40
Rng = np.random.Generator
Step = Callable[[Any, Any], Any]


class _Pair(Stateful):
    """Two tensors, which differ in rank."""

    def __init__(self, first: Array, second: Array) -> None:
        self.first: Any = calor.asarray(first)
        self.second: Any = calor.asarray(second)


class _Owner(Stateful):
    """An object that has another one."""

    def __init__(self, pair: _Pair) -> None:
        self.pair = pair


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


class _MiddleError(Exception):
    """What ends a step in its middle."""


def _beside(step: Step, pair: Any, other: Any, x: Any) -> Any:
    """Make a step of one object, and read the other, which may be the same one."""
    return step(pair, x) + other.first * 2 - other.second


def _ended(step: Step, *given: Any) -> Any:
    step(*given)
    raise _MiddleError


# How a mapped function gets the object, and another: what it is called with, what makes the
# function of a step of both, and how the axes of the arguments follow from that of the objects.
_Way = tuple[Callable[[Any, Any], list[Any]], Callable[[Step], Callable[..., Any]], int]
_WAYS: Final[dict[str, _Way]] = {
    "alone": (lambda p, o: [p], lambda s: lambda p, x: _beside(s, p, p, x), 1),
    "beside another": (lambda p, o: [p, o], lambda s: partial(_beside, s), 2),
    "in a list": (lambda p, o: [[p, o]], lambda s: lambda ps, x: _beside(s, ps[0], ps[1], x), 1),
    "in a dict": (
        lambda p, o: [{"b": o, "a": (p,)}],
        lambda s: lambda ps, x: _beside(s, ps["a"][0], ps["b"], x), 1,
    ),
    "and as the owner": (
        lambda p, o: [_Owner(o), p], lambda s: lambda of, p, x: _beside(s, p, of.pair, x), 2,
    ),
}  # fmt: skip


def _other(rng: Rng, way: str, pair: _Pair, third: Array) -> Any:
    """Return the same object, or one with the same first tensor."""
    if way == "alone" or rng.random() < 0.5:
        return pair
    other = _Pair(third, third)
    other.first = pair.first
    return other


def _looped(
    step: Step, arrays: list[Array], same: bool, axis: int, x: Array, at: int | None
) -> tuple[Array, list[Array]]:
    """Return the results of each element and the objects' arrays afterwards, by a loop.

    The arrays are those of the object and of the other: two of each, in their order.
    """
    made, found = [], []
    for n in range(arrays[0].shape[axis]):
        first, second, old, third = (np.take(a, n, axis) for a in arrays)
        # The other has the very tensor, unless the object was given a new one before.
        shared = arrays[2] is arrays[0]
        part = _Parts(first, second)
        other = part if same else _Parts(first if shared else old, third)
        value = x if at is None else np.take(x, n, at)
        made.append(np.asarray(_beside(step, part, other, value)))
        found.append(
            (part.first, part.second, other.first, other.second, part.first is other.first)
        )
    after = [np.stack([f[k] for f in found], axis) for k in range(4)]
    if found[0][4]:
        after[2] = after[0]
    return np.stack(made), after


def _compare(got: Any, want: Array, what: str) -> None:
    made = got.numpy()
    assert made.shape == want.shape, f"{what} has shape {made.shape}, not {want.shape}"
    assert (made == want).all(), f"{what} is {made}, not {want}"


def _objects(pair: _Pair, other: Any, arrays: list[Array], what: str) -> None:
    held = (pair.first, pair.second, other.first, other.second)
    names = ("the first tensor", "the second tensor", "the other's first", "the other's second")
    for name, tensor, want in zip(names, held, arrays, strict=True):
        _compare(tensor, want, f"{what}: {name}")


def _run(place: Place) -> None:
    for number in range(_DRAWN):
        rng = np.random.default_rng([place.seed, 983, number])
        step = _STEPS[int(rng.integers(len(_STEPS)))]
        inner = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(1, 3))))
        size, axis = int(rng.integers(1, 5)), int(rng.integers(len(inner) + 1))
        shape = (*inner[:axis], size, *inner[axis:])
        first, second, third, x = (np.asarray(rng.integers(-9, 10, shape), np.float32)
                                   for _ in "fstx")  # fmt: skip
        at = None if rng.random() < 0.3 else int(rng.integers(len(inner) + 1))
        x = np.take(x, 0, axis) if at is None else np.moveaxis(x, axis, at)
        given = axis - len(shape) if rng.random() < 0.3 else axis
        name = list(_WAYS)[number % len(_WAYS)]
        arguments, of, count = _WAYS[name]
        pair = _Pair(first, second)
        other = _other(rng, name, pair, third)
        same = other is pair
        arrays = [first, second, first, second if same else third]
        axes = (*[given] * count, at)
        mapped: Any = calor.vmap(of(step), in_axes=axes)
        # A compiled call writes what a place is given to the tensor that was there.
        compiled = rng.random() < 0.3 and (same or step is not _replaced)
        if compiled:
            mapped = calor.jit(mapped)
        what = f"{step.__name__[1:]} of state {shape} along {given} and x along {at}, {name}"
        what += f" of {'the same object' if same else 'the same tensor'}"
        what += ", jitted" if compiled else ""
        for turn in range(2):
            if rng.random() < 0.5:
                ends: Any = calor.vmap(of(partial(_ended, step)), in_axes=axes)
                ends = calor.jit(ends) if compiled else ends
                with suppress(_MiddleError):
                    ends(*arguments(pair, other), calor.asarray(x))
                _objects(pair, other, arrays, f"{what}, before call {turn}, after an error")
            want, arrays = _looped(step, arrays, same, axis, x, at)
            got = mapped(*arguments(pair, other), calor.asarray(x))
            _compare(got, want, f"{what}, call {turn}: the result")
            _objects(pair, other, arrays, f"{what}, call {turn}")


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
