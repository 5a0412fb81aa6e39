"""Containers in attributes of objects, changed in place by each of their own methods.

A program is kept for what an object's lists, dictionaries, sets and dataclasses hold. None of their
methods tells the object that something changed. Containers of each kind are drawn within each
other; each method of each is called between calls of programs that have the object as an argument,
bound, captured, and as a method's own: each call is the plain call with what is there now.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Check, Place
from .jitted_calls import same_results

CONTRACT: Final = (
    "a call reads what the containers of an object hold now, however they were changed"
)
Rng = np.random.Generator


@dataclass
class _Record:
    """A dataclass of a number and of anything."""

    number: Any
    more: Any = None


_LIST: Final[dict[str, Callable[[Any], Any]]] = {
    "append": lambda c: c.append(7), "insert": lambda c: c.insert(0, 7), "pop": lambda c: c.pop(),
    "reverse": lambda c: c.reverse(), "extend": lambda c: c.extend((8, 9)),
    "setitem": lambda c: c.__setitem__(0, 6), "delitem": lambda c: c.__delitem__(0),
    "slice": lambda c: c.__setitem__(slice(0, 1), (3, 4)), "clear": lambda c: c.clear(),
    "imul": lambda c: c.__imul__(2), "iadd": lambda c: c.__iadd__([5]),
    "remove": lambda c: c.remove(c[-1]),
}  # fmt: skip
_DICT: Final[dict[str, Callable[[Any], Any]]] = {
    "setitem": lambda c: c.__setitem__(next(iter(c)), 6), "new": lambda c: c.__setitem__("new", 7),
    "pop": lambda c: c.pop(next(iter(c))), "popitem": lambda c: c.popitem(),
    "update": lambda c: c.update(a=4), "setdefault": lambda c: c.setdefault("other", 3),
    "clear": lambda c: c.clear(), "ior": lambda c: c.__ior__({"a": 8}),
    "order": lambda c: c.__setitem__(*(lambda k: (k, c.pop(k)))(next(iter(c)))),
    "another key": lambda c: c.__setitem__("other key", c.pop(next(iter(c)))),
}  # fmt: skip
_SET: Final[dict[str, Callable[[Any], Any]]] = {
    "add": lambda c: c.add(7), "discard": lambda c: c.discard(min(c)), "pop": lambda c: c.pop(),
    "update": lambda c: c.update((8, 9)), "clear": lambda c: c.clear(),
    "isub": lambda c: c.__isub__({max(c)}), "ixor": lambda c: c.__ixor__({min(c), 12}),
    # As many elements as before.
    "exchange": lambda c: (c.discard(min(c)), c.add(15)),
}  # fmt: skip
_RECORD: Final[dict[str, Callable[[Any], Any]]] = {
    "number": lambda c: setattr(c, "number", 6), "more": lambda c: setattr(c, "more", [1]),
}  # fmt: skip
# How each kind is made of two parts, and its methods.
_KINDS: Final[dict[str, tuple[Callable[[Any, Any], Any], dict[str, Callable[[Any], Any]]]]] = {
    "list": (lambda a, b: [a, b], _LIST), "dict": (lambda a, b: {"a": a, "b": b}, _DICT),
    "OrderedDict": (
        lambda a, b: OrderedDict(a=a, b=b),
        {**_DICT, "move_to_end": lambda c: c.move_to_end(next(iter(c)))}),
    "defaultdict": (
        lambda a, b: defaultdict(int, a=a, b=b), {**_DICT, "missing": lambda c: c["missing"]}),
    "Counter": (lambda a, b: Counter(a=2, b=3), {**_DICT, "subtract": lambda c: c.subtract("ab")}),
    "set": (lambda a, b: {1, 5}, _SET), "dataclass": (_Record, _RECORD),
}  # fmt: skip


def _read(value: Any) -> float:
    """Return a number of all that a value holds, in its order where it has one."""
    if isinstance(value, dict):
        parts = [ord(str(k)[0]) + len(str(k)) + 7 * _read(v) for k, v in value.items()]
        return sum((i + 1) * x for i, x in enumerate(parts)) + 0.5
    if isinstance(value, list | tuple):
        return sum((i + 2) * _read(v) for i, v in enumerate(value)) + 0.25
    if isinstance(value, set):
        return float(sum(x * x for x in value)) + 0.125
    if isinstance(value, _Record):
        return 3 * _read(value.number) + 5 * _read(value.more) + 1
    return 0.0 if value is None else float(value)


class _Inner(Stateful):
    """An object below another one."""

    def __init__(self, held: Any) -> None:
        self.held = held


class _Outer(Stateful):
    """An object with a tensor and a container, which another object may hold."""

    def __init__(self, held: Any, below: bool) -> None:
        self.weight = calor.asarray(np.float32(2))
        self.inner, self.held = _Inner(held if below else 0), 0 if below else held

    @calor.jit
    def method(self, x: Any) -> Any:
        """Return what :func:`_of` does."""
        return _of(self, x)


def _of(held: _Outer, x: Any) -> Any:
    return x * held.weight + (_read(held.held) + 2 * _read(held.inner.held))


def _around(rng: Rng, held: Any) -> Any:
    """Return the container itself, or others that hold it."""
    around: tuple[Callable[[Any], Any], ...] = (
        lambda c: c, lambda c: c, lambda c: [1, c], lambda c: (c, 2), lambda c: {"in": c},
        lambda c: _Record(1, c), lambda c: ({"in": [c]}, 3),
    )  # fmt: skip
    return around[int(rng.integers(len(around)))](held)


def _one(kind: str, method: str, rng: Rng) -> None:
    make, methods = _KINDS[kind]
    parts = [1 + int(n) for n in rng.permutation(4)[:2]]
    held = make(*parts)
    before = copy.deepcopy(held)
    model = _Outer(_around(rng, held), bool(rng.integers(2)))
    x = calor.asarray(rng.integers(-3, 4, 2).astype(np.float32))
    calls: dict[str, Callable[[], Any]] = {
        "jitted": partial(calor.jit(_of), model, x),
        "bound": partial(calor.jit(_of).bind(model), x),
        "captured": partial(calor.jit(lambda t: _of(model, t)), x),
        "a method": partial(model.method, x),
    }  # fmt: skip

    def compare(when: str) -> None:
        want = _of(model, x)
        for way, call in calls.items():
            same_results([call()], [want], f"a {kind} {when}, {way}")

    compare("at first")
    methods[method](held)
    compare(f"after {method}")
    other = list(methods)[int(rng.integers(len(methods)))]
    if method not in ("clear", "pop", "popitem") and kind != "Counter" and len(methods) > 2:
        methods[other](held)
        compare(f"after {method} and {other}")
    if isinstance(held, list):
        held[:] = before
    elif not isinstance(held, _Record):
        held.clear()
        held.update(before)
    else:
        held.number, held.more = before.number, before.more
    compare(f"after {method} was taken back")


def _run(place: Place) -> None:
    pairs = [(kind, method) for kind, (_, methods) in _KINDS.items() for method in methods]
    for number, (kind, method) in enumerate(pairs):
        if place.tries(number, 6):
            seed = [place.seed, crc32(b"mutated containers"), number]
            _one(kind, method, np.random.default_rng(seed))


def mutated_containers() -> Iterator[Check]:
    """Yield the check of containers that are changed in place."""
    yield Check(
        kind="history",
        subject="containers-changed-in-place",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_one) + inspect.getsource(_read),
        op="mul",
        dtypes=(float32,),
        looks=True,
    )
