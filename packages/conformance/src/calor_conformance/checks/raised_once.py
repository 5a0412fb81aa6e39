"""Functions of a user that raise once: the object that holds them serves on as a fresh one does.

A function that is mapped, jitted, differentiated, checkpointed, looped over, branched to, hooked or
called on the host, and each rule of a function with its own derivative, raises at its first call,
or at the first one with other shapes. The error comes through as it is, and then the same object
gives the value and the gradient of an object whose functions never raised.
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
from calor.dtypes import float32, int32

from .base import Array, Check, Place

CONTRACT: Final = "an object whose function raised once gives what a fresh one gives"
_TURNS: Final = 2
Rng = np.random.Generator
Trip = Callable[..., Any]
# Called with a tensor.
Function = Any


class _OnceError(Exception):
    """What a function of a user raises."""


class _Trip:
    """Raises once, where it is armed, and tells where it was reached."""

    def __init__(self) -> None:
        self.where, self.seen = "", set[str]()

    def __call__(self, where: str, value: Any = None) -> Any:
        self.seen.add(where)
        if self.where == where:
            self.where = ""
            raise _OnceError(where)
        return value


def _reverse(trip: Trip) -> Function:
    own: Any = calor.custom_vjp(lambda t: trip("function", t * 3))
    own.defvjp(
        lambda t: trip("forward rule", (t * 3, t)),
        lambda kept, g: trip("backward rule", (g * kept * 2,)),
    )
    return own


def _pushed(trip: Trip) -> Function:
    own: Any = calor.custom_jvp(lambda t: trip("function", t * 3))
    own.defjvp(lambda given, pushed: trip("rule", (given[0] * 3, pushed[0] * given[0])))
    return own


def _body(trip: Trip) -> Function:
    def body(t: Any) -> Any:
        made = calor.sin(t) * 2
        trip("function")
        return made * t

    return body


def _second(trip: Trip) -> Function:
    """A checkpoint whose second run raises."""
    inside = [0]

    def body(t: Any) -> Any:
        inside[0] += 1
        made = calor.sin(t) * 2
        trip("first run" if inside[0] % 2 else "second run")
        return made * t

    return calor.checkpoint(body)


def _scans(trip: Trip) -> Function:
    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        trip("body")
        return carry * 0.5 + calor.sin(row), carry * row

    return lambda t: calor.scan(step, t[0] * 1, t)[1]


def _branches(trip: Trip) -> Function:
    def one(t: Any) -> Any:
        trip("true branch")
        return calor.sin(t) * t

    def other(t: Any) -> Any:
        trip("false branch")
        return t * t

    return lambda t: calor.cond(calor.sum(t) > 0, one, other, t)


def _counts(trip: Trip) -> Function:
    def body(n: Any, t: Any) -> Any:
        trip("body")
        return calor.sin(t) + n

    return lambda t: calor.fori_loop(0, 2, body, t)


def _whiles(trip: Trip) -> Function:
    def holds(state: Any) -> Any:
        trip("condition")
        return state[0] < 2

    def body(state: Any) -> Any:
        trip("body")
        return state[0] + 1, state[1] * 2

    def run(t: Any) -> Any:
        start = calor.asarray(np.int32(0)), t.detach() * 1
        return t * calor.while_loop(holds, body, start)[1].detach()

    return run


def _hosted(ordered: bool, trip: Trip) -> Function:
    def sine(a: Array) -> Array:
        trip("function of the host")
        return np.sin(a)

    def cosine(a: Array) -> Array:
        trip("derivative on the host")
        return np.cos(a)

    own = calor.custom_vjp(lambda t: calor.callback(sine, t, t, ordered=ordered))
    own.defvjp(
        lambda t: (own(t), t),
        lambda kept, g: (g * calor.callback(cosine, kept, kept, ordered=ordered),),
    )
    return own


def _hooked(register: str, trip: Trip) -> Function:
    nn = import_module("calor_nn")
    layer = type("Sine", (nn.Module,), {"forward": lambda self, t: calor.sin(t) * t})()
    getattr(layer, register)(lambda *given: trip("hook"))
    return layer


def _parametrized(trip: Trip) -> Function:
    nn = import_module("calor_nn")
    layer = nn.Linear(3, 3, bias=False)
    layer.weight = calor.asarray(np.arange(9, dtype=np.float32).reshape(3, 3) / 9,
                                 requires_grad=True)  # fmt: skip
    forward = {"forward": lambda self, w: trip("parametrization", w * 2)}
    register = import_module("calor_nn.parametrize").register_parametrization
    register(layer, "weight", type("Twice", (nn.Module,), forward)())
    return layer


_OBJECTS: Final[dict[str, Callable[[Trip], Function]]] = {
    "custom_vjp": _reverse, "custom_jvp": _pushed, "a second run": _second,
    "checkpoint": lambda trip: calor.checkpoint(_body(trip)),
    "vmap": lambda trip: calor.vmap(_body(trip)),
    "jit": lambda trip: calor.jit(_body(trip)),
    "jitted vmap": lambda trip: calor.jit(calor.vmap(_body(trip))),
    "jitted custom_vjp": lambda trip: calor.jit(_reverse(trip)),
    "mapped custom_vjp": lambda trip: calor.vmap(_reverse(trip)),
    "mapped custom_jvp": lambda trip: calor.vmap(_pushed(trip)),
    "checkpointed custom_vjp": lambda trip: calor.checkpoint(_reverse(trip)),
    "jitted checkpoint": lambda trip: calor.jit(calor.checkpoint(_body(trip))),
    "jit in jit": lambda trip: calor.jit(calor.jit(_body(trip))),
    "callback": partial(_hosted, False), "ordered callback": partial(_hosted, True),
    "jitted callback": lambda trip: calor.jit(_hosted(True, trip)),
    "mapped callback": lambda trip: calor.vmap(_hosted(False, trip)),
    "scan": _scans, "cond": _branches, "fori_loop": _counts, "while_loop": _whiles,
    "jitted scan": lambda trip: calor.jit(_scans(trip)),
    "jitted cond": lambda trip: calor.jit(_branches(trip)),
    "mapped scan": lambda trip: calor.vmap(lambda t: _scans(trip)(calor.stack([t, t]))),
    "scan of custom_vjp": lambda trip: _scan_of(_reverse(trip)),
    "scan of checkpoint": lambda trip: _scan_of(calor.checkpoint(_body(trip))),
    "grad": lambda trip: calor.grad(lambda t: calor.sum(_body(trip)(t))),
    "value_and_grad": lambda trip: _second_of(
        calor.value_and_grad(lambda t: calor.sum(_body(trip)(t)))),
    "jitted grad": lambda trip: calor.jit(calor.grad(lambda t: calor.sum(_body(trip)(t)))),
    "linearize": lambda trip: lambda t: calor.linearize(_body(trip), t)[1](t),
    "vjp": lambda trip: lambda t: calor.vjp(_body(trip), t)[1](t)[0],
    "jvp": lambda trip: lambda t: calor.jvp(_body(trip), (t,), (t,))[1],
}  # fmt: skip
_HOOKS: Final = ("register_forward_pre_hook", "register_forward_hook",
                 "register_full_backward_pre_hook", "register_full_backward_hook")  # fmt: skip


def _scan_of(function: Function) -> Function:
    return lambda t: calor.scan(lambda c, row: (c + 1, function(row) * c), t[0] * 0 + 1, t)[1]


def _second_of(function: Function) -> Function:
    return lambda t: function(t)[1]


def _objects() -> dict[str, Callable[[Trip], Function]]:
    found = dict(_OBJECTS)
    if find_spec("calor_nn") is not None:
        found |= {name: partial(_hooked, name) for name in _HOOKS}
        found["parametrization"] = _parametrized
    return found


def _loss(function: Function, t: Any) -> Any:
    return calor.sum(function(t) ** 2)


class _Used:
    """An object with the ways to call it, each of which is made once."""

    def __init__(self, make: Callable[[Trip], Function]) -> None:
        self.trip = _Trip()
        function = make(self.trip)
        self.ways: dict[str, Function] = {
            "value": function,
            "jitted value": calor.jit(function),
            "gradient": calor.grad(partial(_loss, function)),
            "jitted gradient": calor.jit(calor.grad(partial(_loss, function))),
            "backward": partial(self._backward, function),
        }

    def _backward(self, function: Function, t: Any) -> Any:
        leaf = t.detach().copy().requires_grad_()
        _loss(function, leaf).backward()
        return leaf.grad

    def __call__(self, way: str, array: Array) -> Array:
        made: Array = self.ways[way](calor.asarray(array)).numpy()
        return made


def _one(name: str, make: Callable[[Trip], Function], rng: Rng) -> None:
    # Sums of both signs, so that each branch is taken.
    arrays = [np.asarray(rng.uniform(0.2, 1, (n, 3)) * s, np.float32)
              for n, s in ((2, 1), (3, -1))]  # fmt: skip
    fresh = _Used(make)
    ways = [str(w) for w in rng.permutation([*fresh.ways])]
    wants = {(way, k): fresh(way, a) for way in ways for k, a in enumerate(arrays)}
    places = sorted(fresh.trip.seen)
    used = _Used(make)
    # Some ways have served already at the first shape.
    for way in ways[: int(rng.integers(3))]:
        used(way, arrays[0])
    for way in ways:
        where, k = str(rng.choice(places)), int(rng.integers(2))
        used.trip.where, told = where, f"{name}, which raised in its {where} for its {way}"
        said, made = None, arrays[k]
        try:
            made = used(way, arrays[k])
        except _OnceError as error:
            said = error.args
        if used.trip.where != where:
            assert said == (where,), f"{told}: the error is {said}"
        else:
            # This way does not get there, or has it compiled.
            near = np.allclose(made, wants[way, k], rtol=1e-5, atol=1e-5)
            assert near, f"{told} not: {made.tolist()}, not {wants[way, k].tolist()}"
        used.trip.where = ""
        for again in (way, str(rng.choice(ways))):
            for n in (k, 1 - k):
                made, want = used(again, arrays[n]), wants[again, n]
                near = made.shape == want.shape and np.allclose(made, want, rtol=1e-5, atol=1e-5)
                assert near, f"the {again} of {told}: {made.tolist()}, not {want.tolist()}"


def _run(name: str, number: int, place: Place) -> None:
    for turn in filter(partial(place.tries, among=_TURNS), range(_TURNS)):
        _one(name, _objects()[name], np.random.default_rng([place.seed, 811, number, turn]))


def raised_once() -> Iterator[Check]:
    """Yield a check of each object that takes functions of a user."""
    for number, name in enumerate(_objects()):
        yield Check(
            kind="state",
            subject=f"raised-once-{name.replace(' ', '-')}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name, number),
            text=partial(inspect.getsource, _one),
            op="sin",
            dtypes=(float32, int32),
            looks=True,
        )
