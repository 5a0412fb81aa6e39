"""What a layer holds beside its tensors: hooks and parametrizations, in any order, copied, removed.

A layer's model is a chain of maps of its weight, lists of hooks with what they do, and NumPy's
numbers. Histories register (one function twice, too), remove, assign, train, store, load, copy and
fail; after each action the layer is called at once, jitted and bound, forward and backward, and its
state has the names and numbers of the model. What was copied goes on without the other.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float64
from calor.errors import ArgumentError, ShapeError

from .base import Array, Check, Place
from .errors import raised

PACKAGE: Final = "calor_nn"
CONTRACT: Final = "hooks and parametrizations do what they were registered for, until removed"
_HISTORIES, _ACTIONS, _SIDE, _NEAR = 5, 16, 3, 1e-9
Rng = np.random.Generator


class _HookError(Exception):
    """What a hook raises."""


@dataclass(frozen=True)
class _Hook:
    """A function that a layer is given: how it changes what it gets, by a factor or a sum."""

    kind: str
    times: float
    plus: float = 0.0
    fails: bool = False

    def __call__(self, module: Any, *given: Any) -> Any:
        if self.fails:
            raise _HookError(self.kind)
        if self.times == 1 and not self.plus:
            return None
        # Of a call the last is what the hook may replace: arguments, a result or gradients.
        last = given[0] if self.kind != "forward" else given[1]
        if isinstance(last, tuple):
            return tuple(x if x is None else x * self.times + self.plus for x in last)
        return last * self.times + self.plus


@dataclass(frozen=True)
class _Map:
    """A parametrization: what it makes of a weight, of a gradient, and its inverse."""

    forward: Callable[[Any], Any]
    back: Callable[[Array], Array]
    inverse: Callable[[Any], Any] | None


def _flipped(w: Any) -> Any:
    return w[::-1]


def _upper(w: Any) -> Any:
    return np.triu(w) if isinstance(w, np.ndarray) else calor.triu(w)


_MAPS: Final = {
    "twice": _Map(lambda w: w * 2, lambda g: g * 2, lambda w: w / 2),
    "more": _Map(lambda w: w + 1, lambda g: g, lambda w: w - 1),
    "flipped": _Map(_flipped, _flipped, _flipped),
    "upper": _Map(_upper, _upper, None),
    "negative": _Map(lambda w: -w, lambda g: -g, None),
}


def _module_of(nn: Any, name: str) -> Any:
    """Return a parametrization as a module, with an inverse if it has one."""
    chosen = _MAPS[name]
    body: dict[str, Any] = {"forward": lambda self, w: chosen.forward(w)}
    if chosen.inverse is not None:
        body["right_inverse"] = lambda self, w: chosen.inverse(w)
    return type(f"Map{name.title()}", (nn.Module,), body)()


def _parted(nn: Any) -> Any:
    """Return a parametrization of two originals, whose sum it is."""
    body: dict[str, Any] = {
        "forward": lambda self, a, b: a + b, "right_inverse": lambda self, w: (w - 1, w * 0 + 1),
    }  # fmt: skip
    return type("Parted", (nn.Module,), body)()


@dataclass
class _Model:
    """What a layer should hold: originals, names of maps, hooks in order, and a bias."""

    originals: list[Array]
    bias: Array
    maps: list[str] = field(default_factory=list)
    parted: bool = False
    hooks: list[_Hook] = field(default_factory=list)

    @property
    def parametrized(self) -> bool:
        return self.parted or bool(self.maps)

    def weight(self) -> Array:
        made = np.sum(self.originals, axis=0)
        for name in self.maps:
            made = _MAPS[name].forward(made)
        return np.asarray(made)

    def assign(self, value: Array) -> None:
        for name in reversed(self.maps):
            inverse = _MAPS[name].inverse
            value = value if inverse is None else inverse(value)
        self.originals = [value - 1, np.ones_like(value)] if self.parted else [value]

    def back(self, g: Array) -> Array:
        for name in reversed(self.maps):
            g = _MAPS[name].back(g)
        return np.asarray(g)

    def of(self, kind: str) -> list[_Hook]:
        return [h for h in self.hooks if h.kind == kind]

    def state(self) -> dict[str, Array]:
        if not self.parametrized:
            return {"weight": self.originals[0], "bias": self.bias}
        names = ["original0", "original1"] if self.parted else ["original"]
        held = {f"parametrizations.weight.{n}": a
                for n, a in zip(names, self.originals, strict=True)}  # fmt: skip
        return {"bias": self.bias, **held}

    def call(self, x: Array) -> tuple[Array, Array, Array]:
        """Return a result, the gradient by the input, and by the weight."""
        for hook in self.of("forward_pre"):
            x = x * hook.times + hook.plus
        y = x @ self.weight().T + self.bias
        g = np.ones_like(y)
        for hook in self.of("forward"):
            y = y * hook.times + hook.plus
        factors = [h.times for h in self.of("forward") + self.of("backward_pre")]
        g = g * np.prod(factors)
        before = [h.times for h in self.of("forward_pre") + self.of("backward")]
        return y, g @ self.weight() * np.prod(before), self.back(g.T @ x)


class _Layer:
    """A layer with its model, the programs that call it, and handles of its hooks."""

    def __init__(self, nn: Any, place: Place, rng: Rng) -> None:
        self.nn, self.rng = nn, rng
        # The proxy that checks the protocol is no device of that name.
        self.pickles = place.device is place.plain
        self.layer = nn.Linear(_SIDE, _SIDE).to(dtype=float64)
        self.model = _Model([self.numbers()], rng.integers(-3, 4, _SIDE).astype(float))
        with calor.no_grad():
            self.layer.weight[...] = calor.asarray(self.model.originals[0])
            self.layer.bias[...] = calor.asarray(self.model.bias)
        self.handles: list[tuple[_Hook, Any]] = []
        self.stored: list[tuple[Any, Any]] = []
        self.names: list[str] = []
        self.bind()

    def bind(self) -> None:
        self.jitted = calor.jit(lambda layer, x: layer(x))
        self.bound = self.jitted.bind(self.layer)

    def numbers(self) -> Array:
        return self.rng.integers(-4, 5, (_SIDE, _SIDE)).astype(np.float64)

    # What a user does.

    def hook(self) -> None:
        """Register a function, or one that is registered already once more."""
        if self.handles and self.rng.random() < 0.5:
            made = self.handles[int(self.rng.integers(len(self.handles)))][0]
        else:
            kind = str(self.rng.choice(("forward_pre", "forward", "backward_pre", "backward")))
            plus = float(self.rng.integers(0, 3)) if "forward" in kind else 0.0
            made = _Hook(kind, float(self.rng.choice((1, 2, -1, 0.5))), plus)
        self.handles.append((made, self.register(made)))
        self.model.hooks.append(made)

    def hook_twice(self) -> None:
        """One function, registered twice and removed once, is called once."""
        made = _Hook(str(self.rng.choice(("forward", "backward_pre"))), 2.0)
        handles = [self.register(made) for _ in range(2)]
        handles.pop(int(self.rng.integers(2))).remove()
        self.handles.append((made, handles[0]))
        self.model.hooks.append(made)

    def register(self, hook: _Hook) -> Any:
        ways = {
            "forward_pre": self.layer.register_forward_pre_hook,
            "forward": self.layer.register_forward_hook,
            "backward_pre": self.layer.register_full_backward_pre_hook,
            "backward": self.layer.register_full_backward_hook,
        }
        return ways[hook.kind](hook)

    def unhook(self) -> None:
        """Remove one; where a function is there twice, the other stays, in its place."""
        if not self.handles:
            return
        place = int(self.rng.integers(len(self.handles)))
        _, handle = self.handles.pop(place)
        # Those of a copy have no handles, and come first.
        del self.model.hooks[len(self.model.hooks) - len(self.handles) - 1 + place]
        for _ in range(int(self.rng.integers(1, 3))):
            handle.remove()

    def fail(self) -> None:
        """A hook that raises ends the call, and nothing else."""
        kind = str(self.rng.choice(("forward_pre", "forward", "backward_pre", "backward")))
        x = calor.ones((2, _SIDE), dtype=float64, requires_grad=True)
        with self.register(_Hook(kind, 1, fails=True)):
            for call in (self.layer, self.bound):
                try:
                    call(x).sum().backward()
                except _HookError:
                    continue
                raise AssertionError(f"the error of a {kind} hook is lost, {self.told()}")
        self.layer.zero_grad()

    def parametrize(self) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            if len(self.model.maps) < 4:
                self.parametrize_once()

    def parametrize_once(self) -> None:
        register = self.nn.parametrize.register_parametrization
        if not self.model.parametrized and self.rng.random() < 0.3:
            register(self.layer, "weight", _parted(self.nn))
            self.model.parted = True
            self.model.assign(self.model.originals[0])
            return
        name = str(self.rng.choice(list(_MAPS)))
        register(self.layer, "weight", _module_of(self.nn, name))
        first = not self.model.parametrized
        inverse = _MAPS[name].inverse
        if first and inverse is not None:
            self.model.originals = [inverse(self.model.originals[0])]
        self.model.maps.append(name)

    def misfit(self) -> None:
        """What cannot compute the weight is refused, and nothing is changed."""
        register = self.nn.parametrize.register_parametrization
        cut = type("Cut", (self.nn.Module,), {"forward": lambda self, w: w[:1]})()
        error = raised(lambda: register(self.layer, "weight", cut))
        assert isinstance(error, ShapeError), f"a shape that changes: {error!r}, {self.told()}"
        if self.model.parametrized:
            for work in (lambda: register(self.layer, "weight", _parted(self.nn)),
                         lambda: self.nn.parametrize.weight_norm(self.layer)):  # fmt: skip
                error = raised(work)
                assert isinstance(error, ArgumentError), f"two originals: {error!r}"
        error = raised(lambda: self.nn.parametrize.remove_parametrizations(self.layer, "bias"))
        assert isinstance(error, ArgumentError), f"what is not parametrized: {error!r}"

    def plain(self) -> None:
        """The weight is a tensor again: with its value, or the original."""
        if not self.model.parametrized:
            return
        leave = self.model.parted or bool(self.rng.integers(2))
        remove = self.nn.parametrize.remove_parametrizations
        if self.model.parted:
            error = raised(lambda: remove(self.layer, "weight", leave_parametrized=False))
            assert isinstance(error, ArgumentError), f"one of two originals: {error!r}"
        remove(self.layer, "weight", leave_parametrized=leave)
        self.model.originals = [self.model.weight() if leave else self.model.originals[0]]
        self.model.maps, self.model.parted = [], False

    def assign(self) -> None:
        value = self.numbers()
        if self.model.parametrized:
            self.layer.weight = calor.asarray(value)
        else:
            self.layer.weight = self.nn.Parameter(calor.asarray(value))
        self.model.assign(value)

    def train(self) -> None:
        """A step by the gradient of the originals."""
        x = self.rng.integers(-2, 3, (2, _SIDE)).astype(float)
        self.layer(calor.asarray(x)).sum().backward()
        step = self.model.call(x)[2] * 0.125
        with calor.no_grad():
            for name, p in self.layer.named_parameters():
                if "bias" not in name:
                    p -= p.grad * 0.125
        self.layer.zero_grad()
        self.model.originals = [a - step for a in self.model.originals]

    def store(self) -> None:
        self.stored.append((self.layer.state_dict(), copy.deepcopy(self.model)))

    def load(self) -> None:
        """Load what was stored, if it has the same names."""
        fitting = [(s, m) for s, m in self.stored if m.state().keys() == self.model.state().keys()]
        if fitting:
            state, model = fitting[int(self.rng.integers(len(fitting)))]
            self.layer.load_state_dict(state)
            self.model.originals = [a.copy() for a in model.originals]
            self.model.bias = model.bias.copy()

    def copied(self) -> None:
        """A copy goes on; what happens to the other is nothing to it."""
        before = self.layer
        if self.rng.random() < 0.5 or self.model.parametrized or not self.pickles:
            # The maps are of no module that a pickle could name.
            self.layer = copy.deepcopy(before)
        else:
            self.layer = pickle.loads(pickle.dumps(before))
        assert type(self.layer) is type(before), f"a copy is {type(self.layer)}"
        for _, handle in self.handles:
            handle.remove()
        with calor.no_grad():
            for p in before.parameters():
                p *= 0
        if self.model.parametrized:
            self.nn.parametrize.remove_parametrizations(before, "weight")
        self.handles.clear()
        # Whether gradients are copied is nobody's promise.
        self.layer.zero_grad()
        self.bind()

    def verify(self) -> None:
        told, model = self.told(), self.model
        state, wants = self.layer.state_dict(), model.state()
        assert sorted(state) == sorted(wants), f"a state of {sorted(state)}, {told}"
        for name, want in wants.items():
            near = np.allclose(state[name].numpy(), want, rtol=_NEAR, atol=_NEAR)
            assert near, f"{name} is {state[name].tolist()}, not {want.tolist()}, {told}"
        is_parametrized = self.nn.parametrize.is_parametrized(self.layer, "weight")
        assert is_parametrized is model.parametrized, f"is_parametrized, {told}"
        array = self.rng.integers(-2, 3, (2, _SIDE)).astype(float)
        right_ones = model.call(array)
        for how, call in (("at once", self.layer), ("jitted", partial(self.jitted, self.layer)),
                          ("bound", self.bound)):  # fmt: skip
            x = calor.asarray(array, requires_grad=True)
            made = call(x)
            made.sum().backward()
            held = self.layer if not model.parametrized else self.layer.parametrizations.weight
            name = "weight" if not model.parametrized else "original0" if model.parted else (
                "original")  # fmt: skip
            found = (made.detach(), x.grad, getattr(held, name).grad)
            self.layer.zero_grad()
            for what, got, right in zip(
                ("result", "input", "weight"), found, right_ones, strict=True
            ):
                near = got is not None and np.allclose(got.numpy(), right, rtol=_NEAR, atol=_NEAR)
                assert near, f"{how}: {what} {got}, not {right.tolist()}, {told}"

    def told(self) -> str:
        return f"after {', '.join(self.names)}, {self.model.maps}, {self.model.hooks}"

    def go(self) -> None:
        every = [self.hook, self.hook, self.hook_twice, self.unhook, self.unhook, self.fail,
                 self.parametrize, self.parametrize, self.misfit, self.plain, self.assign,
                 self.assign, self.train, self.store, self.load, self.copied]  # fmt: skip
        self.verify()
        for _ in range(_ACTIONS):
            action = every[int(self.rng.integers(len(every)))]
            self.names.append(action.__name__)
            action()
            self.verify()


def _run(place: Place) -> None:
    nn = import_module(PACKAGE)
    for number in range(_HISTORIES):
        _Layer(nn, place, np.random.default_rng([place.seed, 161, number])).go()


def layer_states() -> Iterator[Check]:
    """Yield the check of histories of a layer, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    yield Check(
        kind="state",
        subject="hooks-and-parametrizations",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_Layer) + inspect.getsource(_Model),
        dtypes=(float64,),
        looks=True,
    )
