"""Modules whose settings and mode change between calls of programs that are kept for both modes.

A program of training and one of evaluation are kept at the first calls. Then settings are assigned,
changed within their containers and put back, tensors are replaced and written, parts go to another
mode, in drawn orders. Two copies of a module have the same changes: programs call one of them, the
other one is called plainly, so results, gradients and what calls leave behind are known.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32

from .base import Array, Check, Place

CONTRACT: Final = "a program computes by the mode and the settings of its call, also by old ones"
PACKAGE: Final = "calor_nn"
_HISTORIES, _STEPS, _SIDE, _NEAR = 8, 9, 3, 2e-5
Rng = np.random.Generator
Change = Callable[[Any], None]


def _own(nn: Any) -> Any:
    """Return a class of layers whose settings have each a meaning in one mode or in both."""

    class Own(nn.Module):  # type: ignore[misc]
        def __init__(self, number: float) -> None:
            self.weight = nn.Parameter(calor.full((_SIDE,), number))
            self.register_buffer("seen", calor.zeros(_SIDE))
            self.scale, self.either, self.order = 2.0, {"train": 1.0, "eval": 3.0}, [1.0, -2.0]
            self.kind = "add"

        def forward(self, x: Any) -> Any:
            made = x * self.weight * self.scale + self.order[0] * self.seen
            made = made + self.either["train" if self.training else "eval"]
            if self.training:
                with calor.no_grad():
                    self.seen += x.detach().sum(0) * self.order[1]
            return made + x if self.kind == "add" else made * x

    return Own


def _module(nn: Any, rng: Rng) -> Any:
    """Return a module of drawn layers, within each other."""
    own = _own(nn)
    kinds: list[Callable[[], Any]] = [
        lambda: own(float(rng.integers(1, 3))), lambda: nn.Dropout(0.5),
        lambda: nn.BatchNorm1d(_SIDE, momentum=0.5), lambda: nn.LeakyReLU(0.25),
    ]  # fmt: skip
    layers = [kinds[0](), *(kinds[int(k)]() for k in rng.integers(0, 4, int(rng.integers(1, 3))))]
    layers = [layers[int(k)] for k in rng.permutation(len(layers))]
    return nn.Sequential(nn.Sequential(*layers[:2]), *layers[2:])


# Settings by the class that has them, and values that they take.
_SETTINGS: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    "Own": {"scale": (2.0, 0.5, -1.0), "kind": ("add", "times")},
    "Dropout": {"p": (0.5, 0.25, 0.0)},
    "BatchNorm1d": {"momentum": (0.5, 0.25), "eps": (1e-5, 0.5)},
    "LeakyReLU": {"negative_slope": (0.25, 2.0)},
}


class _History:
    """Two copies of a module, programs of one of them, and what was changed."""

    def __init__(self, nn: Any, rng: Rng) -> None:
        self.nn, self.rng, self.names = nn, rng, list[str]()
        module = _module(nn, rng)
        self.pair = [module, copy.deepcopy(module)]
        self.count = len(list(module.modules()))
        jitted = calor.jit(lambda m, x: m(x))
        slope = calor.value_and_grad(lambda x, m: calor.sum(m(x) ** 2))
        graded = calor.jit(slope)
        self.programs: dict[str, Callable[[Any], Any]] = {
            "jitted": partial(jitted, module), "bound": jitted.bind(module),
            "captured": calor.jit(lambda x: module(x)),
            "a gradient": lambda x: graded(x, module),
        }  # fmt: skip
        plain = self.pair[1]
        self.plain: dict[str, Callable[[Any], Any]] = {
            name: plain if name != "a gradient" else lambda x: slope(x, plain)
            for name in self.programs
        }

    # What a user does.

    def _both(self, name: str, change: Callable[[Any, list[Any]], None]) -> None:
        self.names.append(name)
        for module in self.pair:
            change(module, list(module.modules()))

    def _drawn(self) -> int:
        return int(self.rng.integers(self.count))

    def mode(self) -> None:
        """The module, or a part of it, goes to a mode."""
        on, at = bool(self.rng.integers(2)), 0 if self.rng.random() < 0.7 else self._drawn()
        self._both(f"{'train' if on else 'eval'} of {at}", lambda _, parts: parts[at].train(on))

    def _whole(self, on: bool) -> None:
        self._both("train" if on else "eval", lambda module, _: module.train(on))

    def assign(self) -> None:
        """A setting takes one of a few values, so that old ones come back."""
        parts = [(k, type(m).__name__) for k, m in enumerate(self.pair[0].modules())]
        parts = [(k, kind) for k, kind in parts if kind in _SETTINGS]
        at, kind = parts[int(self.rng.integers(len(parts)))]
        names = list(_SETTINGS[kind])
        name = names[int(self.rng.integers(len(names)))]
        values = _SETTINGS[kind][name]
        value = values[int(self.rng.integers(len(values)))]
        self._both(f"{kind}.{name} = {value!r}", lambda _, every: setattr(every[at], name, value))

    def inside(self) -> None:
        """A part of a dictionary or of a list is assigned, so the container is the same object."""
        key: Any = ("train", "eval", 0, 1)[int(self.rng.integers(4))]
        value = float(self.rng.integers(1, 4))

        def change(_: Any, every: list[Any]) -> None:
            owner = next(m for m in every if type(m).__name__ == "Own")
            (owner.either if isinstance(key, str) else owner.order)[key] = value

        self._both(f"[{key!r}] = {value}", change)

    def tensor(self) -> None:
        """A weight is replaced, written, frozen, or a buffer is replaced."""
        how, value = int(self.rng.integers(4)), float(self.rng.integers(1, 4))

        def change(_: Any, every: list[Any]) -> None:
            owner = next(m for m in every if type(m).__name__ == "Own")
            if how == 0:
                owner.weight = self.nn.Parameter(calor.full((_SIDE,), value))
            elif how == 1:
                with calor.no_grad():
                    owner.weight *= -1
            elif how == 2:
                owner.weight.requires_grad = not owner.weight.requires_grad
            else:
                owner.seen = calor.full((_SIDE,), value)

        self._both(("a new weight", "a write", "a freeze", "a new buffer")[how], change)

    def ask(self, every: bool) -> None:
        """Call programs, and the other copy plainly."""
        names = list(self.programs)
        chosen = names if every else [names[int(self.rng.integers(len(names)))]]
        for name in chosen:
            array = self.rng.integers(-2, 3, (4, _SIDE)).astype(np.float32)
            seed, made = int(self.rng.integers(99)), []
            for calls in (self.programs, self.plain):
                calor.random.seed(seed)
                made.append(_arrays(calls[name](calor.asarray(array))))
                made[-1].append(calor.random.uniform(()).numpy())
            told = f"{name} after {', '.join(self.names)}"
            _same(made[0], made[1], told)
            held = [[t.detach().numpy() for _, t in (*m.named_parameters(), *m.named_buffers())]
                    for m in self.pair]  # fmt: skip
            _same(held[0], held[1], f"the state, {told}")

    def go(self) -> None:
        for on in (True, False) if self.rng.random() < 0.5 else (False, True):
            self._whole(on)
            self.ask(every=True)
        ways = [self.mode, self.mode, self.assign, self.assign, self.inside, self.tensor]
        for _ in range(_STEPS):
            ways[int(self.rng.integers(len(ways)))]()
            if self.rng.random() < 0.6:
                self.ask(every=False)
        self.ask(every=True)


def _arrays(made: Any) -> list[Array]:
    return [t.detach().numpy() for t in calor.tree.leaves(made)]


def _same(found: list[Array], wants: list[Array], told: str) -> None:
    assert len(found) == len(wants), f"{told}: {len(found)} tensors, not {len(wants)}"
    for got, want in zip(found, wants, strict=True):
        within = _NEAR * (1 + np.abs(want).max(initial=0.0))
        near = got.shape == want.shape and np.allclose(got, want, rtol=0, atol=within)
        assert near, f"{told}: {got.tolist()}, not {want.tolist()}"


def _run(place: Place) -> None:
    nn = import_module(PACKAGE)
    kept = calor.random.default_generator.state
    try:
        for number in range(_HISTORIES):
            if place.tries(number, 8):
                _History(nn, np.random.default_rng([place.seed, 611, number])).go()
    finally:
        calor.random.default_generator.set_state(kept)


def settings_between_modes() -> Iterator[Check]:
    """Yield the check of settings and modes that change, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    yield Check(
        kind="history",
        subject="settings-between-modes",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _History),
        op="random_bits",
        dtypes=(float32,),
        looks=True,
    )
