"""What modules of calor-nn do besides computing: hold, list, copy, load, freeze, call others.

Trees of modules are drawn, with parameters, buffers, ties and containers, and what a module says of
them is compared with the plan that they were built by. Containers are driven beside lists and
dicts of Python, hooks beside what they change.
"""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float16, float32, float64, int64

from .base import Check, Place
from .errors import raised

PACKAGE: Final = "calor_nn"
CONTRACT: Final = "a module holds, lists, copies and loads what was assigned to it, and calls it"
_TURNS: Final = 3


class _Plan:
    """A drawn tree: what a module was given, by path and in order."""

    def __init__(self, nn: Any, rng: np.random.Generator) -> None:
        self.nn, self.rng = nn, rng
        self.parameters: dict[str, Any] = {}
        self.buffers: dict[str, Any] = {}
        self.transient: set[str] = set()
        self.modules: list[str] = []
        self.root = self._module("", 0)

    def _tensor(self) -> Any:
        shape = tuple(int(n) for n in self.rng.integers(1, 4, int(self.rng.integers(0, 3))))
        return calor.asarray(self.rng.normal(size=shape).astype(np.float32))

    def _module(self, path: str, depth: int) -> Any:
        module = _empty(self.nn)()
        self.modules.append(path)
        for number in range(int(self.rng.integers(2, 5))):
            name = f"{'abcdef'[number]}{depth}"
            whole = f"{path}.{name}" if path else name
            kind = int(self.rng.integers(6))
            if kind < 2 and depth < 3:
                setattr(module, name, self._module(whole, depth + 1))
            elif kind == 2:
                held = [self._parameter(f"{whole}.{k}") for k in range(2)]
                setattr(module, name, held)
            elif kind == 3:
                made = self._tensor()
                keep = bool(self.rng.integers(2))
                self.buffers[whole] = made
                if not keep:
                    self.transient.add(whole)
                module.register_buffer(name, made, persistent=keep)
            else:
                setattr(module, name, self._parameter(whole))
        return module

    def _parameter(self, path: str) -> Any:
        made = self.nn.Parameter(self._tensor(), requires_grad=bool(self.rng.integers(4)))
        if not made.requires_grad:
            # A frozen one is a parameter if it learned when it was assigned.
            made = self.nn.Parameter(made)
        self.parameters[path] = made
        return made


def _empty(nn: Any) -> Any:
    class Part(nn.Module):  # type: ignore[misc]
        """A module of what is assigned to it."""

        def forward(self, x: Any) -> Any:
            return x * 2 if self.training else x

    return Part


def _names(pairs: Any) -> list[str]:
    return [name for name, _ in pairs]


def _same_tensors(pairs: Any, wanted: dict[str, Any], what: str) -> None:
    found = dict(pairs)
    assert sorted(found) == sorted(wanted), f"{what}: {sorted(found)}, not {sorted(wanted)}"
    for name, tensor in wanted.items():
        assert found[name] is tensor, f"{what}: {name} is another tensor"


def _tree(nn: Any, rng: np.random.Generator) -> None:
    """Paths, orders, counts, and states of a whole tree."""
    plan = _Plan(nn, rng)
    root = plan.root
    _same_tensors(root.named_parameters(), plan.parameters, "named_parameters")
    _same_tensors(root.named_buffers(), plan.buffers, "named_buffers")
    assert _names(root.named_modules()) == plan.modules, "named_modules"
    top = [path for path in plan.modules if path and "." not in path]
    assert _names(root.named_children()) == top, "named_children"
    assert [id(p) for p in root.parameters()] == [id(p) for _, p in root.named_parameters()]
    assert [id(b) for b in root.buffers()] == [id(b) for _, b in root.named_buffers()]
    assert len(list(root.children())) == len(top), "children"
    size = sum(p.size for p in plan.parameters.values())
    assert root.num_parameters() == size, f"num_parameters: {root.num_parameters()}, not {size}"
    names = [n for n in (*plan.parameters, *plan.buffers) if n not in plan.transient]
    state = root.state_dict()
    assert sorted(state) == sorted(names), f"state_dict: {sorted(state)}, not {sorted(names)}"
    seen: list[Any] = []
    assert root.apply(seen.append) is root, "apply returns the module"
    paths = {id(module): path for path, module in root.named_modules()}
    order = [paths[id(module)] for module in seen]
    assert sorted(order) == sorted(plan.modules), f"apply: {order}"
    for n, path in enumerate(order):
        late = [p for p in order[n:] if p != path and (p.startswith(f"{path}.") or not path)]
        assert not late, f"apply meets {path!r} before {late}"


def _modes(nn: Any, rng: np.random.Generator) -> None:
    """Training and evaluation, freezing, gradients, dtypes."""
    plan = _Plan(nn, rng)
    root = plan.root
    every = dict(root.named_modules())
    assert all(m.training for m in every.values()), "a new module is in training"
    below = every[plan.modules[int(rng.integers(len(plan.modules)))]]
    below.eval()
    inside = {id(m) for m in below.modules()}
    for path, module in every.items():
        assert module.training == (id(module) not in inside), f"eval of a part: {path!r}"
    assert root.train() is root, "train returns the module"
    assert all(m.training for m in every.values()), "train"
    assert not any(m.training for m in root.eval().modules()), "eval"
    assert root(calor.ones(1)).item() == 1, "a module in evaluation knows it"
    assert root.train(True)(calor.ones(1)).item() == 2, "a module in training knows it"
    one = next(iter(plan.parameters.values()), None)
    if one is not None:
        root.requires_grad_(False)
        assert not any(p.requires_grad for p in root.parameters()), "requires_grad_(False)"
        assert root.num_parameters(trainable=True) == 0, "num_parameters of frozen ones"
        _same_tensors(root.named_parameters(), plan.parameters, "frozen parameters")
        root.requires_grad_()
        one.requires_grad = False
        trainable = sum(p.size for p in plan.parameters.values()) - one.size
        assert root.num_parameters(trainable=True) == trainable, "num_parameters(trainable=True)"
        one.requires_grad = True
        total = sum((p * 3).sum() for p in plan.parameters.values())
        total.backward()
        assert all((p.grad.numpy() == 3).all() for p in root.parameters()), "gradients"
    root.register_buffer("count", calor.asarray(np.array([1, 2])))
    kept = {name: t.numpy() for name, t in root.state_dict().items()}
    assert root.to(float16) is root, "to returns the module"
    for name, tensor in root.state_dict().items():
        wanted = int64 if name == "count" else float16
        assert tensor.dtype is wanted, f"to(float16): {name} is {tensor.dtype.name}"
        near = np.allclose(tensor.numpy().astype(np.float64), kept[name], rtol=2e-3, atol=1e-4)
        assert near, f"to(float16) changes {name}"
    _same_tensors(root.named_parameters(), plan.parameters, "parameters after to()")
    root.to(dtype="float32")
    assert all(p.dtype is float32 for p in root.parameters()), "to(dtype=)"
    root.zero_grad()
    assert all(p.grad is None for p in root.parameters()), "zero_grad"


def _copies(nn: Any, rng: np.random.Generator) -> None:
    """Copies of their own, whose ties and modes are those of the original."""
    plan = _Plan(nn, rng)
    root = plan.root
    root.tied = root.first = nn.Parameter(calor.ones(3))
    root.eval()
    states = {name: t.numpy() for name, t in root.state_dict().items()}
    for what, other in (("deepcopy", copy.deepcopy(root)),):
        assert type(other) is type(root), what
        assert not other.training, f"{what} forgets the mode"
        assert other.tied is other.first, f"{what} unties"
        assert other.first is not root.first, f"{what} shares a tensor"
        learns = {name: p.requires_grad for name, p in root.named_parameters()}
        theirs = {name: p.requires_grad for name, p in other.named_parameters()}
        assert theirs == learns, f"{what}: {theirs}, not {learns}"
        assert _names(other.named_buffers()) == _names(root.named_buffers()), what
        with calor.no_grad():
            for tensor in other.parameters():
                tensor += 1
        for name, tensor in root.state_dict().items():
            assert (tensor.numpy() == states[name]).all(), f"{what}: {name} is not its own"
        for name, tensor in other.state_dict().items():
            off = 1.0 if name not in plan.buffers else 0.0
            assert np.allclose(tensor.numpy(), states[name] + off), f"{what}: {name}"
    layer = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    back = pickle.load(io.BytesIO(pickle.dumps(layer)))
    x = calor.asarray(rng.normal(size=(2, 2)).astype(np.float32))
    assert (back(x).numpy() == layer(x).numpy()).all(), "a pickled module computes the same"
    held = root.state_dict()
    name = next(iter(held))
    with calor.no_grad():
        held[name][...] = 7
    assert (root.state_dict()[name].numpy() == states[name]).all(), "a state dict is a copy"


def _loads(nn: Any, rng: np.random.Generator) -> None:
    """States that fit, and states that do not: all or nothing, or what fits."""
    plan = _Plan(nn, rng)
    root = plan.root
    root.more = nn.Parameter(calor.zeros((2, 3)))
    root.other = nn.Parameter(calor.zeros(4))
    before = {name: t.numpy() for name, t in root.state_dict().items()}
    new = {name: rng.normal(size=a.shape) for name, a in before.items()}
    bad: dict[str, Any] = {**new, "beyond": np.ones(2), "more": np.ones((3, 2))}
    del bad["other"]
    error = raised(lambda: root.load_state_dict(bad))
    assert isinstance(error, nn.LoadError), f"a state that does not fit: {error!r}"
    for word in ("beyond", "more", "other"):
        assert word in str(error), f"{word} is not in: {error}"
    for name, tensor in root.state_dict().items():
        assert (tensor.numpy() == before[name]).all(), f"{name} was loaded of what does not fit"
    report = root.load_state_dict(bad, strict=False)
    assert not report, "a report of what does not fit is false"
    told = report.missing, report.unexpected, dict(report.misshaped)
    assert told == (("other",), ("beyond",), {"more": ((2, 3), (3, 2))}), f"a report: {told}"
    fitting = sorted(set(new) - {"more", "other"})
    assert sorted(report.loaded) == fitting, f"loaded: {sorted(report.loaded)}, not {fitting}"
    for name, tensor in root.state_dict().items():
        wanted = before[name] if name in ("more", "other") else new[name]
        assert np.allclose(tensor.numpy(), wanted, atol=1e-6), f"{name} after a load of what fits"
        assert tensor.dtype is float32, f"{name} has dtype {tensor.dtype.name}"
    held = dict(root.named_parameters())
    wide = {name: calor.asarray(a).astype(float64) for name, a in new.items()}
    assert root.load_state_dict(wide), "a report of what fits is true"
    _same_tensors(root.named_parameters(), held, "a load keeps the tensors")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        nn.save_weights(root, path, metadata={"of": "a test"})
        copied = copy.deepcopy(root)
        with calor.no_grad():
            for tensor in copied.parameters():
                tensor *= 0
        assert nn.load_weights(copied, path), "weights of a file fit"
    arrays = {name: t.numpy() for name, t in root.state_dict().items()}
    other = copy.deepcopy(root)
    nn.from_torch_state_dict(other, {name: a * 2 for name, a in arrays.items()})
    for name, a in arrays.items():
        assert (copied.state_dict()[name].numpy() == a).all(), f"{name} of a file"
        assert (other.state_dict()[name].numpy() == a * 2).all(), f"{name} of a dict of arrays"


def _some(nn: Any) -> Callable[[], Any]:
    made = iter(range(1000))
    kinds = (nn.Identity, nn.ReLU, nn.Tanh)
    return lambda: kinds[next(made) % 3]()


def _missing(held: Any, key: Any) -> bool:
    try:
        held[key]
    except LookupError:
        return True
    return False


def _lists(nn: Any, rng: np.random.Generator) -> None:
    """Any order of changes of a container, beside a list of Python."""
    fresh = _some(nn)
    first = [fresh() for _ in range(3)]
    for kind in (nn.ModuleList, nn.Sequential):
        held = kind(first) if kind is nn.ModuleList else kind(*first)
        plain = list(first)
        for _ in range(14):
            n = len(plain)
            at, one = int(rng.integers(-n, n)) if n else 0, fresh()
            match int(rng.integers(7)):
                case 0:
                    held.append(one)
                    plain.append(one)
                case 1:
                    more = [one, fresh()]
                    held.extend(more)
                    plain.extend(more)
                case 2:
                    at = int(rng.integers(-n - 1, n + 2))
                    held.insert(at, one)
                    plain.insert(at, one)
                case 3 if n:
                    held[at] = one
                    plain[at] = one
                case 4 if n:
                    del held[at]
                    del plain[at]
                case 5 if n > 2:
                    cut = slice(0, n, 2)
                    del held[cut]
                    del plain[cut]
                case _:
                    cut = slice(*sorted(int(v) for v in rng.integers(-n - 1, n + 2, 2)))
                    part = held[cut]
                    assert type(part) is kind, f"a part of {kind.__name__} is {type(part)}"
                    assert list(map(id, part)) == list(map(id, plain[cut])), f"{cut}"
            what = f"{kind.__name__} after changes"
            assert len(held) == len(plain), what
            assert list(map(id, held)) == list(map(id, plain)), what
            assert [name for name, _ in held.named_children()] == [
                str(k) for k in range(len(plain))
            ], f"names of {what}"
            if plain:
                assert held[-1] is plain[-1], what
                assert held[len(plain) - 1] is plain[-1], what
        for at in (len(plain), -len(plain) - 1):
            assert _missing(held, at), f"{kind.__name__} of {len(plain)} has an item {at}"
    steps = [nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)]
    x = calor.asarray(rng.normal(size=(2, 2)).astype(np.float32))
    want = steps[2](steps[1](steps[0](x)))
    for chain in (nn.Sequential(*steps), nn.Sequential({"a": steps[0], "b": steps[1],
                                                        "c": steps[2]})):  # fmt: skip
        assert (chain(x).numpy() == want.numpy()).all(), "modules one after another"
    assert next(iter(chain.state_dict())) == "a.weight", "names of a chain of names"


def _dicts(nn: Any, rng: np.random.Generator) -> None:
    """Any order of changes of a dictionary of modules, beside one of Python."""
    fresh = _some(nn)
    plain: dict[str, Any] = {"x": fresh(), "y": fresh()}
    held = nn.ModuleDict(dict(plain))
    for _ in range(14):
        name = str(rng.choice(("x", "y", "z", "w")))
        match int(rng.integers(4)):
            case 0 | 1:
                plain[name] = held[name] = fresh()
            case 2 if name in plain:
                del plain[name]
                del held[name]
            case _:
                more = {name: fresh(), "v": fresh()}
                plain.update(more)
                held.update(more)
        assert list(held) == list(plain), f"{list(held)}, not {list(plain)}"
        assert list(held.keys()) == list(plain), "keys"
        assert [id(m) for m in held.values()] == [id(m) for m in plain.values()], "values"
        assert [(k, id(m)) for k, m in held.items()] == [(k, id(m)) for k, m in plain.items()]
        assert len(held) == len(plain), "length"
        assert all((k in held) == (k in plain) for k in "xyzwv"), "membership"
    for bad in ("missing", "train"):
        assert bad not in held, f"{bad} is in the dictionary"
        assert _missing(held, bad), f"the dictionary has an item {bad}"


def _hooks(nn: Any, rng: np.random.Generator) -> None:
    """Hooks run in order, see what passes, change it, and are gone when they are removed."""
    layer = nn.Linear(3, 2)
    x = calor.asarray(rng.normal(size=(4, 3)).astype(np.float32))
    x.requires_grad = True
    plain = layer(x).numpy()
    said: list[str] = []
    handles = [
        layer.register_forward_pre_hook(lambda m, args: said.append("before")),
        layer.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        layer.register_forward_hook(lambda m, args, y: said.append(f"after {args[0].shape}")),
        layer.register_forward_hook(lambda m, args, y: y + 1),
        layer.register_forward_hook(lambda m, args, y: y * 3),
    ]
    bias = layer.bias.numpy()
    want = ((plain - bias) * 2 + bias + 1) * 3
    assert np.allclose(layer(x).numpy(), want, rtol=1e-5, atol=1e-5), "hooks change what passes"
    assert said == ["before", "after (4, 3)"], f"hooks: {said}"
    handles[3].remove()
    handles[3].remove()
    assert np.allclose(layer(x).numpy(), (want / 3 - 1) * 3, rtol=1e-5, atol=1e-5), "one is gone"
    for handle in handles:
        handle.remove()
    with layer.register_forward_hook(lambda m, args, y: y * 0):
        assert not layer(x).numpy().any(), "a hook of a block"
    assert (layer(x).numpy() == plain).all(), "no hook is left"
    named = layer.register_forward_hook(
        lambda m, args, kwargs, y: said.append(",".join(kwargs)), with_kwargs=True
    )
    layer(x=x)
    assert said[-1] == "x", "a hook that takes keywords"
    named.remove()
    with layer.register_forward_pre_hook(
        lambda m, args, kwargs: ((), {"x": kwargs["x"] * 0}), with_kwargs=True
    ):
        assert np.allclose(layer(x=x).numpy(), bias), "a hook changes keywords"
    _backward_hooks(layer, x)


def _backward_hooks(layer: Any, x: Any) -> None:
    def gradient() -> Any:
        x.grad = None
        layer(x).sum().backward()
        return x.grad.numpy()

    plain, seen = gradient(), []
    before = layer.register_full_backward_pre_hook(lambda m, out: (out[0] * 2,))
    after = layer.register_full_backward_hook(
        lambda m, into, out: seen.append((into[0].numpy(), out[0].numpy()))
    )
    found = gradient()
    assert np.allclose(found, plain * 2, rtol=1e-5), "a hook doubles the gradient of the output"
    assert np.allclose(seen[0][0], plain * 2, rtol=1e-5), "the gradient of the input"
    assert (seen[0][1] == 2).all(), "the gradient of the output"
    other = layer.register_full_backward_hook(lambda m, into, out: (into[0] + 1,))
    assert np.allclose(gradient(), plain * 2 + 1, rtol=1e-5), "a hook changes what is passed on"
    for handle in (before, after, other):
        handle.remove()
    assert (gradient() == plain).all(), "no hook is left"
    layer.zero_grad()


class _Symmetric:
    """What a parametrization is made of: the upper triangle twice."""

    @staticmethod
    def of(nn: Any) -> Any:
        class Symmetric(nn.Module):  # type: ignore[misc]
            """A symmetric matrix of an upper triangle."""

            def forward(self, x: Any) -> Any:
                return calor.triu(x) + calor.matrix_transpose(calor.triu(x, k=1))

            def right_inverse(self, x: Any) -> Any:
                return calor.triu(x)

        return Symmetric()


def _parametrized(nn: Any, rng: np.random.Generator) -> None:
    """Attributes that are computed: their values, originals, gradients and states."""
    parametrize = nn.parametrize
    layer = nn.Linear(3, 3, bias=False)
    first = layer.weight.numpy()
    parametrize.register_parametrization(layer, "weight", _Symmetric.of(nn))
    want = np.triu(first) + np.triu(first, 1).T
    assert (layer.weight.numpy() == want).all(), "a computed weight"
    assert parametrize.is_parametrized(layer), "is_parametrized"
    assert parametrize.is_parametrized(layer, "weight"), "is_parametrized of a name"
    assert not parametrize.is_parametrized(layer, "bias"), "is_parametrized of another name"
    assert not parametrize.is_parametrized(nn.Linear(1, 1)), "is_parametrized of another module"
    assert list(layer.state_dict()) == ["parametrizations.weight.original"], "its state"
    new = rng.normal(size=(3, 3)).astype(np.float32)
    new = new + new.T
    layer.weight = calor.asarray(new)
    assert (layer.weight.numpy() == new).all(), "an assigned value"
    x = calor.asarray(rng.normal(size=(2, 3)).astype(np.float32))
    layer(x).sum().backward()
    original = layer.parametrizations.weight.original
    full = np.broadcast_to(x.numpy().sum(0), (3, 3))
    assert np.allclose(original.grad.numpy(), np.triu(full) + np.tril(full, -1).T, rtol=1e-5)
    parametrize.remove_parametrizations(layer, "weight")
    assert (layer.weight.numpy() == new).all(), "the value stays"
    assert not parametrize.is_parametrized(layer), "it is computed no more"
    assert layer.weight.requires_grad, "it learns again"
    parametrize.register_parametrization(layer, "weight", _Symmetric.of(nn))
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert (layer.weight.numpy() == np.triu(new)).all() or (layer.weight.numpy() == new).all()
    _weight_norm(nn, rng)
    _spectral_norm(nn, rng)


def _weight_norm(nn: Any, rng: np.random.Generator) -> None:
    for axis in (0, 1, -1, None):
        layer = nn.Conv1d(2, 3, 2)
        first = layer.weight.numpy()
        nn.parametrize.weight_norm(layer, "weight", axis)
        assert np.allclose(layer.weight.numpy(), first, rtol=1e-5), f"the weight, axis {axis}"
        held = layer.parametrizations.weight
        others = None if axis is None else tuple(a for a in range(3) if a != axis % 3)
        lengths = np.sqrt((first**2).sum(others, keepdims=True))
        got = held.original0.numpy()
        assert np.allclose(got.reshape(-1), lengths.reshape(-1), rtol=1e-5), f"axis {axis}"
        with calor.no_grad():
            held.original1[...] = held.original1 * 5
            held.original0[...] = held.original0 * 3
        assert np.allclose(layer.weight.numpy(), first * 3, rtol=1e-4), f"lengths, axis {axis}"


def _spectral_norm(nn: Any, rng: np.random.Generator) -> None:
    for layer, axis in ((nn.Linear(4, 3), 0), (nn.ConvTranspose1d(3, 2, 2), 1)):
        first = layer.weight.numpy()
        layer.weight = nn.Parameter(calor.asarray(first + 3 * (first == first.max())))
        first = layer.weight.numpy()
        nn.parametrize.spectral_norm(layer, n_power_iterations=40)
        made = layer.weight.numpy()
        matrix = np.moveaxis(made, axis, 0).reshape(made.shape[axis], -1)
        top = np.linalg.svd(matrix, compute_uv=False)[0]
        assert abs(top - 1) < 1e-3, f"{type(layer).__name__}: the largest singular value is {top}"
        assert np.allclose(made / made.max(), first / first.max(), atol=1e-5), "the direction"
        layer.eval()
        held = layer.parametrizations.weight
        before = [b.numpy() for b in held.buffers()]
        with calor.no_grad():
            held.original[...] = held.original * 2
        assert np.allclose(layer.weight.numpy(), made, atol=1e-3), "the estimate follows the weight"
        assert all((a == b.numpy()).all() for a, b in zip(before, held.buffers(), strict=True)), (
            "evaluation improves the estimate"
        )


_ASPECTS: Final[dict[str, Callable[[Any, np.random.Generator], None]]] = {
    "Module-tree": _tree, "Module-modes": _modes, "Module-copies": _copies,
    "load_state_dict": _loads, "ModuleList": _lists, "ModuleDict": _dicts, "hooks": _hooks,
    "parametrize": _parametrized,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    nn = import_module(PACKAGE)
    number = list(_ASPECTS).index(name)
    for turn in range(_TURNS):
        calor.random.seed(place.seed + turn)
        _ASPECTS[name](nn, np.random.default_rng([place.seed, number, turn]))


def modules() -> Iterator[Check]:
    """Yield a check of each aspect of modules, if their package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name, aspect in _ASPECTS.items():
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, aspect),
            dtypes=(float32, int64),
            looks=True,
        )
