"""Objects to which a traced function assigns before it ends by an error or Ctrl-C.

A trace is no call: one that ends leaves every object, with what is below it, as it was. A function
assigns settings, tensors, gradients, modes and items of containers, in drawn orders, then ends. It
is traced in every way in which programs are: at first, at another size, at a third one, bound, as a
method, within a gradient, within a limit of memory. Then the same calls go well.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "a trace that ends leaves every object as it was"
_TURNS, _NEAR = 3, 1e-5
Rng = np.random.Generator
# How often a call goes well before the one that ends.
_BEFORE: Final = (0, 1, 2, 3)


class _MiddleError(Exception):
    """What ends a function."""


_ENDS: Final[tuple[type[BaseException], ...]] = (_MiddleError, KeyboardInterrupt, SystemExit)


class _Below(Stateful):
    def __init__(self) -> None:
        self.bias, self.setting = calor.asarray(np.float32(3)), 1


class _Object(Stateful):
    """An object with tensors, settings and containers; its function may be told to end."""

    dynamic = ("rate",)

    def __init__(self) -> None:
        self.weight = calor.asarray(np.float32(2), requires_grad=True)
        self.fixed, self.below = calor.asarray(np.float32(1)), _Below()
        self.setting, self.rate, self.order = "plain", 0.5, [1, 2]
        self.table: Any = {"a": 1, "t": calor.asarray(np.float32(4))}
        self.parts: Any = [calor.asarray(np.float32(5)), {"deep": [1.0, 2.0]}]
        self.chosen: list[str] = []
        self.end: type[BaseException] | None = None

    def __call__(self, x: Any) -> Any:
        if self.end is not None:
            for name in self.chosen:
                _ASSIGNMENTS[name](self, x)
            raise self.end("the middle")
        made = x * self.weight + self.fixed * self.below.bias + self.table["t"] * self.parts[0]
        return made * self.rate * self.below.setting + sum(self.order)


_ASSIGNMENTS: Final[dict[str, Callable[[_Object, Any], Any]]] = {
    "a setting": lambda o, x: setattr(o, "setting", "other"),
    "a new attribute": lambda o, x: setattr(o, "extra", 5),
    "a new tensor": lambda o, x: setattr(o, "extra_tensor", x * 2),
    "a deleted attribute": lambda o, x: delattr(o, "setting"),
    "a number": lambda o, x: setattr(o, "rate", 9.0),
    "a tensor": lambda o, x: setattr(o, "fixed", calor.sum(x)),
    "a tensor from outside": lambda o, x: setattr(o, "fixed", o.below.bias),
    "a tensor in place": lambda o, x: o.fixed.__iadd__(1.0),
    "a part of a tensor": lambda o, x: o.parts[0].__setitem__(..., 7.0),
    "an object": lambda o, x: setattr(o, "below", _Below()),
    "a setting below": lambda o, x: setattr(o.below, "setting", 6),
    "a tensor below": lambda o, x: setattr(o.below, "bias", calor.sum(x)),
    "an item": lambda o, x: o.order.append(3), "a table's item": lambda o, x: o.table.update(b=2),
    "a table's tensor": lambda o, x: o.table.__setitem__("t", calor.sum(x)),
    "a list": lambda o, x: setattr(o, "order", [9]),
    "a deep item": lambda o, x: o.parts[1]["deep"].clear(),
    "a part": lambda o, x: o.parts.__setitem__(0, calor.sum(x)),
    "a gradient": lambda o, x: setattr(o.weight, "grad", calor.zeros(())),
    "a frozen tensor": lambda o, x: setattr(o.fixed, "requires_grad", False),
}  # fmt: skip


def _held(o: Any) -> Any:
    """Return what an object holds: tensors by identity and numbers, containers by identity."""
    if isinstance(o, Stateful):
        names = [n for n in vars(o) if not n.startswith("__") and n not in ("end", "chosen")]
        return id(o), [(n, _held(getattr(o, n))) for n in names]
    if isinstance(o, calor.Tensor):
        grad = None if o.grad is None else o.grad.tolist()
        return id(o), o.requires_grad, o.detach().tolist(), grad
    if isinstance(o, dict):
        return id(o), [(k, _held(v)) for k, v in o.items()]
    if isinstance(o, list):
        return id(o), [_held(v) for v in o]
    return o


def _ways(o: _Object) -> dict[str, Callable[[Any], Any]]:
    """Return programs of an object, each with traces of its own."""

    def total(x: Any) -> Any:
        return calor.sum(o(x))

    return {
        "jitted": calor.jit(lambda x: o(x)), "an argument": partial(calor.jit(_called), o),
        "bound": calor.jit(_called).bind(o), "a method": calor.jit(o.__call__),
        "a jitted gradient": calor.jit(calor.grad(total)),
        "within a limit": calor.jit(lambda x: o(x), memory_limit=1 << 24),
        "within another": calor.jit(lambda x: calor.jit(_called)(o, x)),
        "of many sizes": calor.jit(lambda x: o(x), dynamic=True),
    }  # fmt: skip


def _called(o: _Object, x: Any) -> Any:
    return o(x)


def _array(made: Any) -> Array:
    return np.asarray(made.detach().numpy())


def _one(rng: Rng, number: int) -> None:
    o = _Object()
    names = list(_ASSIGNMENTS)
    # Each stands first once, alone or with others.
    o.chosen = [names[number % len(names)]]
    if number % 3:
        o.chosen += [str(n) for n in rng.choice(names, 2)]
        gone = "a deleted attribute"
        o.chosen = [n for n in dict.fromkeys(o.chosen) if n != gone] + [gone] * (gone in o.chosen)
    every = list(_ways(o).items())
    way, call = every[number % len(every)]
    plain = calor.grad(lambda t: calor.sum(o(t))) if "gradient" in way else o
    before = int(rng.choice(_BEFORE))
    for size in range(2, 2 + before):
        call(calor.asarray(rng.integers(1, 5, size).astype(np.float32)))
    x = calor.asarray(rng.integers(1, 5, 2 + before).astype(np.float32))
    held, end = _held(o), _ENDS[int(rng.integers(len(_ENDS)))]
    what = f"{way}, {before} calls, {', '.join(o.chosen)}, then {end.__name__}"
    o.end = end
    try:
        call(x)
    except end:
        pass
    else:
        raise AssertionError(f"{what}: the error is lost")
    finally:
        o.end = None
    now = _held(o)
    assert now == held, f"{what}: {_first_difference(held, now)}"
    got, want = _array(call(x)), _array(plain(x))
    near = np.allclose(got, want, rtol=_NEAR)
    assert near, f"{what}: then {got.tolist()}, not {want.tolist()}"


def _first_difference(a: Any, b: Any) -> str:
    """Return the first parts in which what is held differs."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return next((_first_difference(x, y) for x, y in zip(a, b, strict=True) if x != y), "")
    return f"{b}, not {a}"


def _run(place: Place) -> None:
    for number in range(_TURNS * len(_ASSIGNMENTS)):
        if place.tries(number, 7):
            seed = [place.seed, crc32(b"assigned then ended"), number]
            _one(np.random.default_rng(seed), number)


def assigned_then_ended() -> Iterator[Check]:
    """Yield the check of objects to which a trace assigned that ended."""
    yield Check(
        kind="state",
        subject="assigned-then-ended",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_one) + inspect.getsource(_Object),
        op="mul",
        dtypes=(float32,),
        looks=True,
    )
