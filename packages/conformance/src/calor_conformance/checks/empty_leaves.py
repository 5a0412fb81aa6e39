"""Functions of trees and of parameters of which some, or all, have no element.

An empty tensor adds nothing to a norm, has no largest element, moves by no step, and is written and
read as any other. So trees are drawn with empty leaves in any place; NumPy says what the leaves
with elements become, or the same function of these leaves alone; empty ones keep shape and dtype.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float16, float32, int32, int64

from .base import Array, Check, Place
from .training import _RULES

CONTRACT: Final = "a leaf without elements changes no other one, and keeps its shape and dtype"
_NN, _TRAIN = "calor_nn", "calor_train"
_TURNS, _NEAR = 12, 2e-5
_EMPTY: Final = ((0,), (3, 0), (0, 2), (0, 0), (2, 0, 3))
_FULL: Final = ((2,), (), (2, 3), (1, 1), (3,))
_ORDERS: Final = (0.5, 1.0, 2.0, 3.0, float("inf"))
# Rules of matrices alone.
_OF_MATRICES: Final = ("Muon",)
Rng = np.random.Generator


def _shapes(rng: Rng, rank: int | None = None) -> list[tuple[int, ...]]:
    """Return shapes of leaves, one of them empty at least, now and then all of them."""
    share = float(rng.choice((0.4, 0.4, 1.0)))
    made = []
    for n in range(int(rng.integers(1, 5))):
        some = _EMPTY if not n or rng.random() < share else _FULL
        fits = [s for s in some if rank is None or len(s) == rank]
        made.append(fits[int(rng.integers(len(fits)))])
    return [made[int(k)] for k in rng.permutation(len(made))]


def _arrays(rng: Rng, shapes: list[tuple[int, ...]]) -> list[Array]:
    kinds = (np.float32, np.float32, np.float16)
    return [np.asarray(rng.integers(-4, 5, s)).astype(kinds[int(rng.integers(3))]) for s in shapes]


def _tree(rng: Rng, leaves: list[Any]) -> Any:
    """Return a tree of the leaves in their order: lists, tuples and dictionaries in each other."""
    if len(leaves) == 1 and rng.random() < 0.5:
        return leaves[0]
    at = int(rng.integers(len(leaves) + 1))
    parts = [_tree(rng, p) if len(p) > 1 else p for p in (leaves[:at], leaves[at:]) if p]
    kinds: tuple[Callable[[list[Any]], Any], ...] = (
        list, tuple, lambda p: {f"k{n}": x for n, x in enumerate(p)},
    )  # fmt: skip
    return kinds[int(rng.integers(3))](parts)


def _compare(got: Any, want: Array, told: str, near: float = _NEAR) -> None:
    made = got.numpy()
    assert made.shape == want.shape, f"{told}: shape {made.shape}, not {want.shape}"
    assert made.dtype == want.dtype, f"{told}: {made.dtype}, not {want.dtype}"
    # A half type is rounded once.
    near = near if want.dtype != np.float16 else 2e-3
    same = np.allclose(made, want, rtol=near, atol=near)
    assert same, f"{told}: {made.tolist()}, not {want.tolist()}"


def _norm(arrays: list[Array], order: float) -> np.float64:
    flat = np.concatenate([np.abs(a.astype(np.float64)).reshape(-1) for a in arrays])
    if order == float("inf"):
        return np.float64(flat.max(initial=0.0))
    return np.float64((flat**order).sum() ** (1 / order))


def _clipping(rng: Rng, turn: int, place: Place) -> None:
    train = import_module(_TRAIN)
    shapes, order = _shapes(rng), _ORDERS[turn % len(_ORDERS)]
    arrays, most = _arrays(rng, shapes), float(rng.choice((0.5, 2.0, 100.0)))
    told = f"of {[f'{a.dtype}{list(a.shape)}' for a in arrays]}, norm {order}, at most {most}"
    tree, due = _tree(rng, [calor.asarray(a) for a in arrays]), _norm(arrays, order)
    factor = min(most / (float(due) + 1e-6), 1.0)
    clipped = [(a * factor).astype(a.dtype) for a in arrays]
    ways: list[tuple[str, Callable[..., Any]]] = [("", lambda f: f)]
    if place.interpreted and turn % 3 == 0:
        ways.append(("jitted ", calor.jit))
    for how, way in ways:
        norm = way(lambda t: train.global_norm(t, order))(tree)
        _compare(norm, np.asarray(due, np.float32), f"{how}global_norm {told}")
        made, norm = way(lambda t: train.clip_by_global_norm(t, most, order))(tree)
        _compare(norm, np.asarray(due, np.float32), f"{how}norm of clip_by_global_norm {told}")
        for got, want in zip(_leaves(made, tree), clipped, strict=True):
            _compare(got, want, f"{how}clip_by_global_norm {told}")
        made = way(lambda t: train.clip_by_value(t, most))(tree)
        for got, want in zip(_leaves(made, tree), arrays, strict=True):
            _compare(got, np.clip(want, -most, most), f"{how}clip_by_value {told}")
    held = [calor.asarray(a, requires_grad=True) for a in arrays]
    for p, a in zip(held, arrays, strict=True):
        p.grad = calor.asarray(a)
    norm = train.clip_grad_norm_(held, most, order)
    _compare(norm, np.asarray(due, np.float32), f"the norm of clip_grad_norm_ {told}")
    for p, want in zip(held, clipped, strict=True):
        _compare(p.grad, want, f"clip_grad_norm_ {told}")
        p.grad = calor.asarray(want)
    train.clip_grad_value_(held, most / 2)
    for p, want in zip(held, clipped, strict=True):
        _compare(p.grad, np.clip(want, -most / 2, most / 2), f"clip_grad_value_ {told}")


def _leaves(made: Any, tree: Any) -> list[Any]:
    """Return the leaves of a tree that has the structure of another one."""
    leaves, kind = calor.tree.flatten(made)
    wanted = calor.tree.flatten(tree)[1]
    assert kind == wanted, f"a tree {kind}, not {wanted}"
    return leaves


def _optimizers(rng: Rng, turn: int, place: Place) -> None:
    train = import_module(_TRAIN)
    names = [*sorted(_RULES), "LBFGS", *_OF_MATRICES]
    name = names[(turn + place.seed) % len(names)]
    shapes = _shapes(rng, 2 if name in _OF_MATRICES else None)
    arrays = [np.asarray(rng.normal(size=s), np.float32) for s in shapes]
    full = [k for k, a in enumerate(arrays) if a.size]
    told = f"{name} of {shapes}"

    def made(numbers: list[int]) -> tuple[list[Any], Any]:
        held = [calor.asarray(arrays[k], requires_grad=True) for k in numbers]
        return held, getattr(train, name)(held, lr=0.1) if held else None

    every, alone = made([*range(len(arrays))]), made(full)
    states = None
    for count in range(3):
        grads = [np.asarray(rng.normal(size=s), np.float32) for s in shapes]
        for (held, optimizer), numbers in ((every, [*range(len(arrays))]), (alone, full)):
            if optimizer is None:
                continue
            for p, k in zip(held, numbers, strict=True):
                p.grad = calor.asarray(grads[k])
            _step(name, optimizer, held)
        for k, p in enumerate(every[0]):
            want = alone[0][full.index(k)].numpy() if k in full else arrays[k]
            _compare(p, want, f"parameter {k} after {count + 1} steps of {told}")
        if count == 0:
            # A fresh optimizer goes on from the state, which is written and read.
            states = io.BytesIO()
            calor.save(every[1].state_dict(), states)
            states.seek(0)
            fresh = getattr(train, name)(every[0], lr=0.1)
            fresh.load_state_dict(calor.load(states))
            every = every[0], fresh


def _step(name: str, optimizer: Any, held: list[Any]) -> None:
    if name != "LBFGS":
        optimizer.step()
        return

    def closure() -> Any:
        total: Any = sum(calor.sum((p * p - p) ** 2) for p in held)
        optimizer.zero_grad()
        total.backward()
        return total

    optimizer.step(closure)


def _averages(rng: Rng, turn: int, place: Place) -> None:
    nn, train = import_module(_NN), import_module(_TRAIN)
    arrays = [a.astype(np.float32) for a in _arrays(rng, _shapes(rng))]
    told = f"of {[a.shape for a in arrays]}"
    module = nn.Module()
    for k, a in enumerate(arrays):
        if rng.random() < 0.7:
            setattr(module, f"w{k}", nn.Parameter(calor.asarray(a)))
        else:
            module.register_buffer(f"w{k}", calor.asarray(a))
    held = dict((*module.named_parameters(), *module.named_buffers()))
    parameters = {n for n, _ in module.named_parameters()}
    moving, mean = train.ExponentialMovingAverage(module, 0.75), train.AveragedModel(module)
    wants = {n: t.numpy() for n, t in held.items()}
    total = {n: np.zeros_like(a) for n, a in wants.items()}
    for _ in range(2):
        for name, tensor in held.items():
            now = rng.integers(-8, 9, tensor.shape).astype(np.float32)
            with calor.no_grad():
                tensor[...] = calor.asarray(now)
            kept = name in parameters
            wants[name] = wants[name] * 0.75 + now * 0.25 if kept else now
            total[name] = total[name] + now / 2 if kept else now
        moving.update()
        mean.update_parameters(module)
    state = moving.state_dict()
    assert sorted(state) == sorted(held), f"the averages {told} are {sorted(state)}"
    averaged = {n.removeprefix("module."): t for n, t in
                (*mean.named_parameters(), *mean.named_buffers())}  # fmt: skip
    for name in held:
        _compare(state[name], wants[name], f"the moving average of {name} {told}")
        _compare(averaged[name], total[name], f"the mean of {name} {told}")
    with moving.swapped():
        for name, tensor in held.items():
            _compare(tensor, wants[name], f"{name} within swapped {told}")
    moving.load_state_dict(state)
    weights = module.state_dict()
    report = module.load_state_dict({n: t * 0 for n, t in weights.items()})
    assert sorted(report.loaded) == sorted(held), f"loaded {report.loaded} {told}"


def _trees(rng: Rng, turn: int, place: Place) -> None:
    """Trees are taken apart, mapped, differentiated by, passed to programs, written and read."""
    shapes = _shapes(rng)
    kinds = (np.float32, np.int32, np.bool_, np.float16)
    drawn = [kinds[int(rng.integers(4))] for _ in shapes]
    arrays = [
        np.asarray(rng.integers(-4, 5, s)).astype(k) for s, k in zip(shapes, drawn, strict=True)
    ]
    tree = _tree(rng, [calor.asarray(a) for a in arrays])
    told = f"a tree of {[f'{a.dtype}{list(a.shape)}' for a in arrays]}"
    stored = io.BytesIO()
    calor.save(tree, stored)
    stored.seek(0)
    leaves, kind = calor.tree.flatten(tree)
    ways = {
        "taken apart": calor.tree.unflatten(kind, leaves),
        "mapped": calor.tree.map(lambda t: t + 0 if t.dtype.is_inexact else t, tree),
        "read": calor.load(stored),
    }
    if place.interpreted or turn % 2 == 0:
        ways["jitted"] = calor.jit(lambda t: t)(tree)
    for how, made in ways.items():
        for got, want in zip(_leaves(made, tree), arrays, strict=True):
            _compare(got, want, f"{told}, {how}")
    floats = _tree(rng, [calor.asarray(a.astype(np.float32)) for a in arrays])
    slopes = calor.grad(lambda t: sum(calor.sum(x * x) for x in calor.tree.leaves(t)))(floats)
    for got, a in zip(_leaves(slopes, floats), arrays, strict=True):
        _compare(got, a.astype(np.float32) * 2, f"the gradient by {told}")


_SUBJECTS: Final[dict[str, tuple[Callable[[Rng, int, Place], None], tuple[str, ...]]]] = {
    "clipping": (_clipping, (_TRAIN,)), "optimizers": (_optimizers, (_TRAIN,)),
    "averages": (_averages, (_NN, _TRAIN)), "trees": (_trees, ()),
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    turns = _TURNS * 2 if name == "optimizers" else _TURNS
    for turn in range(turns):
        if place.tries(turn, 4):
            rng = np.random.default_rng([place.seed, 613, len(name), turn])
            _SUBJECTS[name][0](rng, turn, place)


def empty_leaves() -> Iterator[Check]:
    """Yield a check of each kind of function whose packages are installed."""
    for name, (run, packages) in _SUBJECTS.items():
        if all(find_spec(p) is not None for p in packages):
            yield Check(
                kind="functions",
                subject=f"empty-leaves-in-{name}",
                tier="training",
                contract=CONTRACT,
                run=partial(_run, name),
                text=partial(inspect.getsource, run),
                dtypes=(float32, float16, int32, int64, bool_),
                looks=True,
            )
