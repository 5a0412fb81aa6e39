"""Drawn histories of modules: tensors that are assigned, tied, frozen, moved, stored and loaded.

The model of a tree is a list of places with the tensors in them, in the order of assignment; after
each action every list, state, mode and value of the tree is made again from it.
"""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, float64, int64
from calor.errors import ArgumentError
from calor.plugins.discovery import installed
from calor.transforms.state import Stateful

from .base import Array, Check, Place
from .errors import raised

PACKAGE: Final = "calor_nn"
CONTRACT: Final = "after any history a module holds, lists, stores and loads what it should"
_HISTORIES, _ACTIONS = 4, 25
Rng = np.random.Generator


@dataclass(eq=False)
class _Tensor:
    """A tensor of a tree, and what it should be."""

    tensor: Any
    value: Array
    parameter: bool = True
    learns: bool = True
    grad: Array | None = None


class _Part(Stateful):
    """State that is no module: its tensors are found all the same."""

    def __init__(self, tensor: Any) -> None:
        self.inner = tensor


class _Foreign:
    """A tensor of PyTorch, as its state dicts have it."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.dtype, self.shape = f"torch.{array.dtype}", array.shape

    def detach(self) -> _Foreign:
        """Return itself."""
        return self

    def cpu(self) -> _Foreign:
        """Return itself."""
        return self

    def numpy(self) -> Array:
        """Return the elements."""
        return self.array


class _Tree:
    """A tree of modules: its places in order, with their tensors; ties are two places of one."""

    def __init__(self, nn: Any, place: Place, rng: Rng) -> None:
        self.nn, self.place, self.rng = nn, place, rng
        self.kind: Any = float32
        self.device = place.device
        self.places: dict[str, _Tensor] = {}
        self.transient: set[str] = set()
        self.modules: list[str] = []
        self.training: dict[str, bool] = {}
        self.names: list[str] = []
        self.snapshots: list[tuple[Any, dict[str, Array]]] = []
        self.root = self.grow("", 0)

    def told(self) -> str:
        return f"after {', '.join(self.names)}"

    def value(self) -> Array:
        shape = tuple(int(n) for n in self.rng.integers(1, 4, int(self.rng.integers(0, 3))))
        return np.asarray(self.rng.integers(-9, 9, shape), np.float64)

    def tensor(self, parameter: bool) -> _Tensor:
        value = self.value()
        made = calor.asarray(value, dtype=self.kind)
        if parameter:
            made = self.nn.Parameter(made)
        return _Tensor(made, value, parameter, parameter)

    def grow(self, path: str, depth: int) -> Any:
        module = type("Block", (self.nn.Module,), {})()
        self.modules.append(path)
        self.training[path] = True
        for number in range(int(self.rng.integers(2, 5))):
            name = f"m{number}"
            whole = f"{path}.{name}" if path else name
            kind = int(self.rng.integers(8))
            if kind < 3 and depth < 2:
                self.below(module, name, whole, kind, depth)
            elif kind == 3:
                held = [self.hold(f"{whole}.{k}", True) for k in range(2)]
                setattr(module, name, held if self.rng.random() < 0.5 else tuple(held))
            elif kind == 4:
                setattr(module, name, {"x": self.hold(f"{whole}.x", True)})
            elif kind == 5:
                keep = bool(self.rng.integers(2))
                module.register_buffer(name, self.hold(whole, False), persistent=keep)
                if not keep:
                    self.transient.add(whole)
            elif kind == 6:
                setattr(module, name, _Part(self.hold(f"{whole}.inner", True)))
            else:
                setattr(module, name, self.hold(whole, True))
        return module

    def below(self, module: Any, name: str, whole: str, kind: int, depth: int) -> None:
        """Assign modules: one, a list, or a dictionary of them."""
        if kind == 0:
            setattr(module, name, self.grow(whole, depth + 1))
        elif kind == 1:
            setattr(module, name, [self.grow(f"{whole}.{k}", depth + 1) for k in range(2)])
        else:
            setattr(module, name, {"y": self.grow(f"{whole}.y", depth + 1)})

    def hold(self, path: str, parameter: bool) -> Any:
        known = [t for t in self.places.values() if t.parameter]
        if parameter and known and self.rng.random() < 0.25:
            found = known[int(self.rng.integers(len(known)))]
        else:
            found = self.tensor(parameter)
        self.places[path] = found
        return found.tensor

    def pick(self, parameters: bool = True) -> _Tensor | None:
        held = [t for t in self.places.values() if t.parameter or not parameters]
        return held[int(self.rng.integers(len(held)))] if held else None

    def state(self) -> dict[str, Array]:
        return {p: t.value for p, t in self.places.items() if p not in self.transient}

    def distinct(self) -> list[_Tensor]:
        return list(dict.fromkeys(self.places.values()))

    # What a user does.

    def write(self) -> None:
        held = self.pick(parameters=False)
        if held is not None:
            with calor.no_grad():
                held.tensor += 1
            held.value = held.value + 1

    def mode(self) -> None:
        path = self.modules[int(self.rng.integers(len(self.modules)))]
        training = bool(self.rng.integers(2))
        dict(self.root.named_modules())[path].train(training)
        for other in self.modules:
            if other == path or other.startswith(f"{path}.") or not path:
                self.training[other] = training

    def freeze(self) -> None:
        path = self.modules[int(self.rng.integers(len(self.modules)))]
        wanted = bool(self.rng.integers(2))
        module = dict(self.root.named_modules())[path]
        assert module.requires_grad_(wanted) is module
        for p, t in self.places.items():
            if t.parameter and (p.startswith(f"{path}.") or not path):
                t.learns = wanted

    def backward(self) -> None:
        held = [t for t in self.distinct() if t.parameter and t.learns]
        if held:
            total = sum((t.tensor * (k + 1)).sum() for k, t in enumerate(held))
            total.backward()
            for k, t in enumerate(held):
                t.grad = (0 if t.grad is None else t.grad) + np.full(t.value.shape, k + 1.0)

    def clear(self) -> None:
        self.root.zero_grad()
        for t in self.places.values():
            t.grad = None

    def convert(self) -> None:
        """Another dtype, another device, or both; gradients and ties go with the tensors."""
        self.kind = (float32, float64)[int(self.rng.integers(2))]
        others: list[Any] = ["numpy", self.place.device]
        if "cpu" in installed() and self.place.plain.backend.name == "numpy":
            others.append("cpu")
        self.device = calor.device(others[int(self.rng.integers(len(others)))])
        if self.rng.random() < 0.5:
            self.root.to(self.kind).to(self.device)
        else:
            self.root.to(device=self.device, dtype=self.kind.name)

    def store(self) -> None:
        state = self.root.state_dict()
        assert not any(t.requires_grad for t in state.values()), "a state requires gradients"
        self.snapshots.append((state, {n: v.copy() for n, v in self.state().items()}))

    def load(self) -> None:
        """Load what fits, in any of the forms in which states come."""
        new = {n: np.asarray(self.rng.integers(-9, 9, v.shape), np.float64)
               for n, v in self.state().items()}  # fmt: skip
        for n, t in self.places.items():
            # A tied tensor has one value, whatever its names say.
            first = next(p for p, other in self.places.items() if other is t)
            if n in new and first in new:
                new[n] = new[first]
        new = self.under_fewer_names(new)
        form = int(self.rng.integers(5))
        if form == 0 and self.snapshots:
            given, new = self.snapshots[int(self.rng.integers(len(self.snapshots)))]
            report = self.root.load_state_dict(given)
        elif form == 1:
            given = {n: _Foreign(a.astype(np.float32)) for n, a in new.items()}
            report = self.nn.from_torch_state_dict(self.root, given)
        elif form == 2:
            report = self.nn.from_torch_state_dict(self.root, new)
        elif form == 3:
            with tempfile.TemporaryDirectory() as name:
                path = Path(name) / "w.safetensors"
                calor.write_safetensors(path, new, {"by": "a user"})
                report = self.nn.load_weights(self.root, path)
        else:
            report = self.root.load_state_dict({n: calor.asarray(a) for n, a in new.items()})
        assert report, f"a state that fits: {report}"
        assert sorted(report.loaded) == sorted(new), f"loaded {report.loaded}"
        assert str(report) == f"{len(new)} loaded", str(report)
        for n, a in new.items():
            self.places[n].value = a.copy()

    def under_fewer_names(self, new: dict[str, Array]) -> dict[str, Array]:
        """A state may hold a tied tensor under some of its names, as files of others do."""
        kept = dict(new)
        for name in [list(new)[k] for k in self.rng.permutation(len(new))]:
            tied = [n for n in kept if self.places[n] is self.places[name]]
            if len(tied) > 1 and self.rng.random() < 0.5:
                del kept[name]
        return kept

    def misfit(self) -> None:
        """What is missing, unexpected and misshaped is told by name, and nothing is changed."""
        state = self.state()
        names = [n for n in state if sum(t is self.places[n] for t in self.places.values()) == 1]
        if not names:
            return
        name = names[int(self.rng.integers(len(names)))]
        given = {n: calor.asarray(a) for n, a in state.items()}
        kind = int(self.rng.integers(3))
        if kind == 0:
            del given[name]
            words = ["1 missing", f"  {name}"]
        elif kind == 1:
            given["else.where"] = calor.zeros(2)
            words = ["1 unexpected", "  else.where"]
        else:
            shape = [*state[name].shape, 2]
            given[name] = calor.zeros(tuple(shape))
            words = [
                "1 misshaped",
                f"  {name}: the module has {shape[:-1]}, the weights have {shape}",
            ]
        error = raised(lambda: self.root.load_state_dict(given))
        assert isinstance(error, self.nn.LoadError), f"{error!r}"
        for word in (*words, "strict=False", "Block"):
            assert word in str(error), f"{word!r} is not in {error}"
        learns = calor.ones(2, requires_grad=True)
        error = raised(lambda: self.root.register_buffer("bad", learns))
        assert isinstance(error, ArgumentError), f"{error!r}"
        assert "'bad'" in str(error), f"{error}"

    def replace(self) -> None:
        """Another tensor, or none, takes the place of a parameter of the root."""
        own = [p for p, t in self.places.items() if "." not in p and t.parameter]
        if not own:
            return
        path = own[int(self.rng.integers(len(own)))]
        if sum(t is self.places[path] for t in self.places.values()) > 1:
            return
        held = _Tensor(None, self.places[path].value - 1)
        made = calor.asarray(held.value, dtype=self.kind, device=self.device)
        held.tensor = self.nn.Parameter(made)
        setattr(self.root, path, held.tensor)
        self.places[path] = held

    def copied(self) -> None:
        """A copy is the tree from here on; what was copied is nobody's."""
        if self.rng.random() < 0.5:
            before, self.root = self.root, copy.deepcopy(self.root)
        else:
            # Blocks are of no module that a pickle could name.
            before = self.root
            stream = io.BytesIO()
            calor.save(self.root, stream)
            stream.seek(0)
            self.root = copy.deepcopy(before)
            self.root.load_state_dict(calor.load(stream))
            linear = self.nn.Linear(2, 2)
            again = pickle.loads(pickle.dumps(linear))
            assert (again.weight.numpy() == linear.weight.numpy()).all(), "a pickled layer"
        held = dict(self.every(self.root))
        for path, tensor in self.every(before):
            assert held[path] is not tensor, f"{path} is shared by a copy"
            assert tensor.requires_grad == held[path].requires_grad, f"{path} of a copy"
        fresh: dict[_Tensor, _Tensor] = {}
        for path, t in self.places.items():
            if t not in fresh:
                fresh[t] = _Tensor(held[path], t.value.copy(), t.parameter, t.learns)
            self.places[path] = fresh[t]
        # Whether gradients are copied is nobody's promise.
        self.root.zero_grad()
        with calor.no_grad():
            for _, tensor in self.every(before):
                tensor *= 0

    def every(self, root: Any) -> list[tuple[str, Any]]:
        """Return the tensors of all places, by attributes and items."""
        found = []
        for path in self.places:
            at = root
            for name in path.split("."):
                at = (at[int(name)] if isinstance(at, list | tuple) else at[name]
                      if isinstance(at, dict) else getattr(at, name))  # fmt: skip
            found.append((path, at))
        return found

    def verify(self) -> None:
        self.lists()
        state = self.root.state_dict()
        wants = self.state()
        assert list(state) == list(wants), f"a state of {list(state)}, not {list(wants)}"
        for name, want in wants.items():
            got = state[name]
            assert got.dtype is self.kind, f"{name} is {got.dtype}, {self.told()}"
            assert got.device is self.device, f"{name} is on {got.device}, {self.told()}"
            assert (got.numpy() == want).all(), f"{name} is {got}, not {want}, {self.told()}"
        for given, kept in self.snapshots[-2:]:
            for name, want in kept.items():
                assert (given[name].numpy() == want).all(), f"a stored {name}, {self.told()}"
        for path, t in self.places.items():
            got, grad = t.tensor.grad, t.grad
            assert t.tensor.requires_grad == t.learns, f"{path} learns, {self.told()}"
            assert (got is None) == (grad is None), f"the gradient of {path}, {self.told()}"
            if got is not None:
                assert got.dtype is self.kind, f"the gradient of {path} is {got.dtype}"
                assert got.device is self.device, f"the gradient of {path} is on {got.device}"
                assert (got.numpy() == grad).all(), f"the gradient of {path}, {self.told()}"

    def lists(self) -> None:
        seen: dict[int, str] = {}
        for path, t in self.places.items():
            seen.setdefault(id(t.tensor), path)
        by = {path: self.places[path] for path in seen.values()}
        for what, named, wanted in (
            ("parameters", self.root.named_parameters(), [p for p, t in by.items() if t.parameter]),
            ("buffers", self.root.named_buffers(), [p for p, t in by.items() if not t.parameter]),
        ):
            found = dict(named)
            assert list(found) == wanted, f"{what} {list(found)}, not {wanted}, {self.told()}"
            same = all(found[p] is self.places[p].tensor for p in wanted)
            assert same, f"{what} are other tensors, {self.told()}"
        modules = dict(self.root.named_modules())
        assert list(modules) == self.modules, f"modules {list(modules)}, not {self.modules}"
        modes = {path: module.training for path, module in modules.items()}
        assert modes == self.training, f"modes {modes}, not {self.training}, {self.told()}"
        sizes = [t.value.size for t in self.distinct() if t.parameter]
        learning = [t.value.size for t in self.distinct() if t.parameter and t.learns]
        assert self.root.num_parameters() == sum(sizes), f"num_parameters, {self.told()}"
        assert self.root.num_parameters(trainable=True) == sum(learning), self.told()

    def go(self) -> None:
        every = [
            self.write, self.mode, self.freeze, self.backward, self.clear, self.convert,
            self.store, self.load, self.load, self.misfit, self.replace, self.copied,
        ]  # fmt: skip
        self.verify()
        for _ in range(_ACTIONS):
            action = every[int(self.rng.integers(len(every)))]
            self.names.append(action.__name__)
            action()
            self.verify()


def _run(place: Place) -> None:
    nn = import_module(PACKAGE)
    for number in range(_HISTORIES):
        _Tree(nn, place, np.random.default_rng([place.seed, 95, number])).go()


def drawn_modules() -> Iterator[Check]:
    """Yield the check of histories, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    yield Check(
        kind="functions",
        subject=f"{PACKAGE}.drawn-trees",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Tree),
        dtypes=(float32, float64, int64),
        looks=True,
    )
