"""Drawn parametrizations: tensors of modules that others compute, added, assigned, copied, removed.

The model of a tensor is its originals and the chain of maps that make its value, in NumPy. Several
tensors of one module have chains, of maps with and without an inverse, lengths along any axis, and
singular values; after each action the value, its gradients at the originals, the names of the
state and the class of the module are those of the model.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64
from calor.errors import CalorError

from .base import Array, Check, Place

CONTRACT: Final = "a parametrized tensor is what its chain makes of its originals, after anything"
PACKAGE: Final = "calor_nn"
_HISTORIES, _ACTIONS = 8, 18
_NEAR: Final = 2e-4
Rng = np.random.Generator


def _parts() -> tuple[Any, Any]:
    nn = import_module(PACKAGE)
    return nn, nn.parametrize


class _Map:
    """A module that scales and moves, with an inverse or without."""

    def __init__(self, rng: Rng, ends: bool) -> None:
        self.scale, self.shift = float(rng.choice((0.5, 2.0, -1.0))), float(rng.choice((0.0, 1.0)))
        self.ends = ends
        self.module = (_inverted() if ends else _plain())(self.scale, self.shift)

    def of(self, parts: list[Array]) -> Array:
        return parts[0] * self.scale + self.shift

    def back(self, value: Array) -> list[Array]:
        return [(value - self.shift) / self.scale if self.ends else value]

    def seen(self, value: Array, training: bool) -> None:
        """Change what the map holds at a look in training."""


def _plain() -> type:
    nn, _ = _parts()

    class Scaled(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, scale: float, shift: float) -> None:
            self.scale, self.shift = scale, shift

        def forward(self, x: Any) -> Any:
            return x * self.scale + self.shift

        def __reduce__(self) -> Any:
            return _again, (False, self.scale, self.shift)

    return Scaled


def _inverted() -> type:
    class Inverted(_plain()):  # type: ignore[misc]
        def right_inverse(self, x: Any) -> Any:
            return (x - self.shift) / self.scale

        def __reduce__(self) -> Any:
            return _again, (True, self.scale, self.shift)

    return Inverted


def _again(ends: bool, scale: float, shift: float) -> Any:
    return (_inverted() if ends else _plain())(scale, shift)


class _Lengths(_Map):
    """Lengths along an axis beside directions."""

    def __init__(self, rng: Rng, shape: tuple[int, ...]) -> None:
        self.axis = (None, *range(-len(shape), len(shape)))[int(rng.integers(2 * len(shape) + 1))]
        self.module = _parts()[1].WeightNorm(self.axis)

    def _norm(self, x: Array) -> Array:
        if self.axis is None:
            return np.asarray(np.sqrt(np.sum(x * x)))
        axes = tuple(a for a in range(x.ndim) if a != self.axis % x.ndim)
        return np.asarray(np.sqrt(np.sum(x * x, axes, keepdims=True)))

    def of(self, parts: list[Array]) -> Array:
        return parts[0] * parts[1] / self._norm(parts[1])

    def back(self, value: Array) -> list[Array]:
        return [self._norm(value), value]


class _Singular(_Map):
    """The weight beside its largest singular value, as two vectors tell it."""

    def __init__(self, rng: Rng, value: Any) -> None:
        self.dim = int(rng.integers(-value.ndim, value.ndim))
        self.count = int(rng.choice((1, 1, 2, 3)))
        self.module = _parts()[1].SpectralNorm(value, self.count, self.dim)
        self.u, self.v = (self.module.state_dict()[n].numpy().astype(float) for n in ("_u", "_v"))
        if value.ndim > 1:
            most = float(np.linalg.svd(self._rows(value.numpy()), compute_uv=False)[0])
            found = float(self.u @ self._rows(value.numpy()) @ self.v)
            assert 0.8 * most <= found <= 1.0001 * most, f"of a new weight {found}, not {most}"

    def _rows(self, x: Array) -> Array:
        return np.moveaxis(x, self.dim, 0).reshape(x.shape[self.dim], -1)

    def of(self, parts: list[Array]) -> Array:
        x = parts[0]
        if x.ndim == 1:
            return np.asarray(x / np.sqrt(np.sum(x * x)))
        return np.asarray(x / (self.u @ self._rows(x) @ self.v))

    def back(self, value: Array) -> list[Array]:
        return [value]

    def seen(self, value: Array, training: bool) -> None:
        if not training or value.ndim == 1:
            return
        for _ in range(self.count):
            u = self._rows(value) @ self.v
            self.u = u / np.sqrt(np.sum(u * u))
            v = self.u @ self._rows(value)
            self.v = v / np.sqrt(np.sum(v * v))


class _Tensor:
    """A tensor of a module: its originals, and the maps that make its value of them."""

    def __init__(self, value: Array) -> None:
        self.parts, self.maps = [value], list[Any]()

    def value(self, parts: list[Array] | None = None) -> Array:
        made = self.parts if parts is None else parts
        for one in self.maps:
            made = [one.of(made)]
        return made[0]

    def seen(self, training: bool) -> None:
        made = self.parts
        for one in self.maps:
            if len(made) == 1:
                one.seen(made[0], training)
            made = [one.of(made)]

    def assign(self, value: Array) -> None:
        made = value
        for one in self.maps[:0:-1]:
            made = one.back(made)[0]
        self.parts = self.maps[0].back(made) if self.maps else [value]


class _History:
    """A layer beside the models of its tensors."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        nn, self.parametrize = _parts()
        kinds: list[Callable[[], Any]] = [
            lambda: nn.Linear(3, 4), lambda: nn.Conv1d(2, 4, 3), lambda: nn.Embedding(4, 3),
        ]  # fmt: skip
        self.layer = kinds[int(rng.integers(3))]()
        self.base = type(self.layer)
        self.models = {
            n: _Tensor(p.detach().numpy().astype(np.float64))
            for n, p in self.layer.named_parameters()
        }
        self.layer.extra = nn.Parameter(calor.asarray(rng.normal(size=(3, 2)).astype(np.float32)))
        self.models["extra"] = _Tensor(self.layer.extra.detach().numpy().astype(np.float64))
        self.frozen: set[str] = set()
        self.names: list[str] = []

    def compare(self) -> None:
        """Compare all that the layer shows with the models."""
        told = f"{self.base.__name__} after {'; '.join(self.names)}"
        any_left = any(m.maps for m in self.models.values())
        assert isinstance(self.layer, self.base), f"{told}: no {self.base.__name__}"
        assert (type(self.layer) is self.base) != any_left, f"{told}: a {type(self.layer)}"
        asked = self.parametrize.is_parametrized
        assert asked(self.layer) is any_left, f"{told}: parametrized: {asked(self.layer)}"
        keys: set[str] = set()
        for name, model in self.models.items():
            assert asked(self.layer, name) is bool(model.maps), f"{told}: {name} parametrized"
            several = len(model.parts) > 1
            held = f"parametrizations.{name}.original"
            keys |= (
                {f"{held}{k}" if several else held for k in range(len(model.parts))}
                if model.maps else {name}
            )  # fmt: skip
            model.seen(self.layer.training)
            got = getattr(self.layer, name).detach().numpy()
            want = model.value()
            room = _NEAR * (1 + float(np.max(np.abs(want))))
            off = float(np.max(np.abs(got - want)))
            assert got.shape == want.shape, f"{told}: {name} of shape {got.shape}, not {want.shape}"
            assert off <= room, f"{told}: {name} is {got}, not {want}"
            for k, (held, part) in enumerate(zip(self.originals(name), model.parts, strict=True)):
                made, learns = held.detach().numpy(), name not in self.frozen
                assert held.requires_grad is learns, f"{told}: original {k} of {name}: {not learns}"
                assert made.shape == part.shape, f"{told}: original {k} of {name}: {made.shape}"
                off = float(np.max(np.abs(made - part)))
                assert off <= _NEAR * (1 + float(np.max(np.abs(part)))), (
                    f"{told}: original {k} of {name} is {made}, not {part}"
                )
        found = {n for n in self.layer.state_dict() if not n.endswith(("_u", "_v"))}
        assert found == keys, f"{told}: the state has {sorted(found)}, not {sorted(keys)}"
        learning = {n for n, _ in self.layer.named_parameters()}
        assert learning == keys, f"{told}: parameters {sorted(learning)}, not {sorted(keys)}"

    def originals(self, name: str) -> list[Any]:
        """Return the tensors that an attribute is computed from, or itself."""
        if not self.models[name].maps:
            return [getattr(self.layer, name)]
        return list(self.layer.parametrizations[name].originals())

    def name(self, parametrized: bool = False) -> str:
        among = [n for n, m in self.models.items() if m.maps or not parametrized]
        return str(self.rng.choice(among or list(self.models)))

    def register(self) -> None:
        """Add a map to a tensor, of those that fit there."""
        name = self.name()
        model, value = self.models[name], getattr(self.layer, name).detach()
        model.seen(self.layer.training)
        kind = int(self.rng.integers(5))
        made: Any = _Map(self.rng, bool(kind % 2))
        if kind == 2 and not model.maps:
            made = _Lengths(self.rng, value.shape)
        elif kind > 2 and value.ndim > 1:
            made = _Singular(self.rng, value)
        before = model.value()
        self.parametrize.register_parametrization(self.layer, name, made.module)
        made.module.train(self.layer.training)
        model.maps.append(made)
        self.synchronize(name)
        if len(model.maps) == 1:
            model.parts = made.back(before)
        self.names.append(f"{type(made).__name__}{vars(made)} of {name}"[:160])

    def synchronize(self, name: str) -> None:
        """Take vectors over as they are: how often a map is looked at to add one is its own."""
        for place, made in enumerate(self.models[name].maps):
            if isinstance(made, _Singular):
                state = getattr(self.layer.parametrizations[name], str(place)).state_dict()
                made.u, made.v = (state[n].numpy().astype(float) for n in ("_u", "_v"))

    def assign(self) -> None:
        name = self.name()
        value = np.asarray(self.rng.normal(size=self.models[name].value().shape), np.float32)
        given = calor.asarray(value)
        if self.models[name].maps:
            setattr(self.layer, name, given)
        else:
            with calor.no_grad():
                getattr(self.layer, name)[...] = given
        self.models[name].assign(value.astype(np.float64))
        self.names.append(f"{name} assigned")

    def remove(self) -> None:
        name, keep = self.name(True), bool(self.rng.integers(2))
        model = self.models[name]
        model.seen(self.layer.training and keep and bool(model.maps))
        try:
            self.parametrize.remove_parametrizations(self.layer, name, leave_parametrized=keep)
        except CalorError:
            assert not model.maps or (len(model.parts) > 1 and not keep), f"{name} stays: {keep}"
            return
        fits = model.maps and (keep or len(model.parts) == 1)
        assert fits, f"{name} of {model.parts} is removed"
        model.parts, model.maps = [model.value() if keep else model.parts[0]], []
        self.names.append(f"{name} removed, {keep}")

    def freeze(self) -> None:
        """Freeze a tensor with all that it is computed from, or let it learn again."""
        name = self.name()
        for held in self.originals(name):
            held.requires_grad_(name in self.frozen)
        self.frozen ^= {name}
        self.names.append(f"{name} {'frozen' if name in self.frozen else 'learns'}")

    def mode(self) -> None:
        self.layer.train(bool(self.rng.integers(2)))
        self.names.append(f"training: {self.layer.training}")

    def copied(self) -> None:
        """Go on with a copy, which shares nothing with what it is of."""
        way, held = int(self.rng.integers(3)), self.layer
        if way == 0:
            self.layer = copy.deepcopy(held)
        elif way == 1:
            self.layer = pickle.loads(pickle.dumps(held))
        else:
            self.layer = copy.deepcopy(held)
            with calor.no_grad():
                for p in self.layer.parameters():
                    p[...] = calor.ones_like(p) * 3
            self.layer.load_state_dict(held.state_dict())
        with calor.no_grad():
            for p in held.parameters():
                p[...] = p * 0
        self.names.append(f"copied in way {way}")

    def quiet(self) -> None:
        """Look several times, without gradients too: a look in training changes the vectors."""
        singular = [n for n, m in self.models.items()
                    if any(isinstance(one, _Singular) for one in m.maps)]  # fmt: skip
        name = str(self.rng.choice(singular)) if singular else self.name(True)
        model = self.models[name]
        if singular and self.rng.random() < 0.8:
            # Vectors of other numbers are far from where looks lead them.
            self.layer.train()
            for k, held in enumerate(self.originals(name)):
                value = np.asarray(self.rng.normal(size=held.shape), np.float32)
                with calor.no_grad():
                    held[...] = calor.asarray(value)
                model.parts[k] = value.astype(np.float64)
        quiet, compiled = bool(self.rng.integers(2)), bool(self.rng.random() < 0.2)

        def look(layer: Any) -> Any:
            return getattr(layer, name) * 1

        run, looks = calor.jit(look) if compiled else look, int(self.rng.integers(1, 4))
        self.names.append(f"{name} looked at {looks} times, quiet {quiet}, compiled {compiled}")
        for number in range(looks):
            with calor.no_grad() if quiet else nullcontext():
                made = run(self.layer)
            model.seen(self.layer.training)
            got, want = made.detach().numpy(), model.value()
            off = float(np.max(np.abs(got - want)))
            told = f"after {'; '.join(self.names)}: look {number}"
            assert off <= _NEAR * (1 + float(np.max(np.abs(want)))), f"{told}: {got}, not {want}"
            learns = not quiet and name not in self.frozen
            assert made.requires_grad is learns, f"{told}: requires a gradient: {not learns}"

    def loaded(self) -> None:
        """Load a state of other numbers, whole or in part: what is in it holds, the rest stays."""
        state = self.layer.state_dict()
        made = {
            key: calor.asarray(np.asarray(self.rng.normal(size=value.shape), np.float32))
            for key, value in state.items() if self.rng.random() < 0.7
        }  # fmt: skip
        for key, value in made.items():
            if key.endswith(("_u", "_v")):
                made[key] = value / calor.sqrt(calor.sum(value * value))
        whole = made.keys() == state.keys()
        self.layer.load_state_dict(made, strict=whole)
        for name, model in self.models.items():
            held, several = f"parametrizations.{name}.original", len(model.parts) > 1
            for k in range(len(model.parts)):
                key = (f"{held}{k}" if several else held) if model.maps else name
                if key in made:
                    model.parts[k] = made[key].numpy().astype(np.float64)
            if model.maps:
                self.synchronize(name)
            for place, one in enumerate(model.maps):
                for part in ("_u", "_v") if isinstance(one, _Singular) else ():
                    key = f"parametrizations.{name}.{place}.{part}"
                    got = getattr(one, part[1:])
                    same = key not in made or np.allclose(got, made[key].numpy(), atol=1e-6)
                    assert same, f"{key} is {got} after it was loaded"
        self.names.append(f"loaded {sorted(made)}, the whole: {whole}")

    def slope(self) -> None:
        """Compare gradients at the originals with differences of the model."""
        name = self.name(True)
        if name in self.frozen:
            return
        model = self.models[name]
        weights = np.asarray(self.rng.normal(size=model.value().shape))
        model.seen(self.layer.training)
        loss = calor.sum(getattr(self.layer, name) * calor.asarray(weights.astype(np.float32)))
        loss.backward()
        held = self.originals(name)
        told = f"after {'; '.join(self.names)}: the gradient of {name}"
        for k, tensor in enumerate(held):
            want, step = np.zeros(model.parts[k].shape), 1e-6
            for at in np.ndindex(*want.shape):
                sides = []
                for sign in (step, -step):
                    parts: list[Array] = [np.array(p, np.float64) for p in model.parts]
                    parts[k][at] += sign
                    sides.append(float(np.sum(model.value(parts) * weights)))
                want[at] = (sides[0] - sides[1]) / (2 * step)
            got = tensor.grad.numpy()
            off = float(np.max(np.abs(got - want)))
            room = 20 * _NEAR * (1 + float(np.max(np.abs(want))))
            assert off <= room, f"{told}, original {k} is {got}, not {want}"
            tensor.grad = None

    def refused(self) -> None:
        """Maps to another shape and tensors that are not there are refused, and nothing changes."""
        nn, _ = _parts()
        name = self.name()

        class Longer(nn.Module):  # type: ignore[misc,name-defined]
            def forward(self, x: Any) -> Any:
                return calor.concat([x, x])

        given = (("another shape", name, Longer()), ("no tensor", "nothing", nn.Identity()),
                 ("no tensor", "training", nn.Identity()))  # fmt: skip
        for what, target, module in given:
            try:
                self.parametrize.register_parametrization(self.layer, target, module)
            except CalorError:
                self.synchronize(name)
                continue
            raise AssertionError(f"{what} is taken for a parametrization of {target}")

    def go(self) -> None:
        actions = [self.register, self.register, self.assign, self.remove, self.mode, self.copied,
                   self.slope, self.refused, self.freeze, self.quiet, self.quiet,
                   self.loaded]  # fmt: skip
        self.register()
        for _ in range(_ACTIONS):
            self.compare()
            actions[int(self.rng.integers(len(actions)))]()
        self.compare()


def _run(place: Place) -> None:
    for number in range(_HISTORIES):
        _History(np.random.default_rng([place.seed, 241, number])).go()


def drawn_parametrizations() -> Iterator[Check]:
    """Yield the check of drawn parametrizations, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    yield Check(
        kind="functions",
        subject=f"{PACKAGE}.drawn-parametrizations",
        tier="training",
        contract=CONTRACT,
        run=partial(_run),
        text=partial(inspect.getsource, _History),
        dtypes=(float32, int32, int64, bool_),
        looks=True,
    )
