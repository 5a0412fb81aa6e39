"""Containers that a user registers: their tensors are those of the program, in every transform.

One class has a function for itself, one is the base of others, and named tuples and ordered
dictionaries are containers of their own. Each is an argument and a result of every transform, keeps
its type and what it holds beside tensors, and may hold others.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

import calor
from calor import tree
from calor.dtypes import float32
from calor.errors import ArgumentError

from .base import Array, Check, Place

CONTRACT: Final = "a registered container is a container of tensors in every transform"
_TURNS, _NEAR = 16, 1e-5
Rng = np.random.Generator


class _Pair:
    """Two parts and a name; registered alone, so its subclass is no container."""

    def __init__(self, first: Any, second: Any, name: Any) -> None:
        self.first, self.second, self.name = first, second, name


class _SubPair(_Pair):
    """A subclass of a class that is registered alone."""


class _Box:
    """One part and a number; registered with its subclasses."""

    def __init__(self, inside: Any, number: int) -> None:
        self.inside, self.number = inside, number


class _Crate(_Box):
    """A subclass of a registered base."""


class _Point(NamedTuple):
    """A named tuple, which needs no registration."""

    right: Any
    up: Any


def _paired(name: Any, children: Any) -> Any:
    first, second = children
    return _Pair(first, second, name)


def _boxed(aux: Any, children: Any) -> Any:
    kind, number = aux
    return kind(*children, number)


@cache
def _registered() -> None:
    tree.register(_Pair, lambda p: ((p.first, p.second), p.name), _paired)
    tree.register_base(_Box, lambda b: ((b.inside,), (type(b), b.number)), _boxed)


def _form(rng: Rng, depth: int, leaves: list[Array]) -> Any:
    """Return a container of arrays, which are appended to the leaves in the order of trees."""
    if depth == 0 or rng.random() < 0.2:
        leaves.append(rng.normal(size=3).astype(np.float32))
        return leaves[-1]
    kind = int(rng.integers(6))
    if kind == 0:
        return _Pair(
            _form(rng, depth - 1, leaves),
            _form(rng, depth - 1, leaves),
            str(rng.choice(("a", "b"))),
        )
    if kind in (1, 2):
        return (_Box, _Crate)[kind - 1](_form(rng, depth - 1, leaves), int(rng.integers(3)))
    if kind == 3:
        return _Point(_form(rng, depth - 1, leaves), _form(rng, depth - 1, leaves))
    if kind == 4:
        return OrderedDict((k, _form(rng, depth - 1, leaves)) for k in ("z", "b"))
    return [_form(rng, depth - 1, leaves), None, {"k": _form(rng, depth - 1, leaves)}]


def _opened(one: Any) -> tuple[Any, list[Any]] | None:
    """Return what a container holds beside its parts, and the parts; None for a leaf."""
    if isinstance(one, _Pair):
        return one.name, [one.first, one.second]
    if isinstance(one, _Box):
        return one.number, [one.inside]
    if isinstance(one, dict):
        return [*one], [*one.values()]
    if isinstance(one, list | tuple):
        return None, [*one]
    return (None, []) if one is None else None


def _alike(one: Any, other: Any, told: str) -> None:
    """Compare two containers: types, names, keys and numbers."""
    opened, others = _opened(one), _opened(other)
    if opened is None or others is None:
        a, b = (np.asarray(v.numpy() if hasattr(v, "numpy") else v) for v in (one, other))
        assert a.shape == b.shape, f"{told}: shape {a.shape}, not {b.shape}"
        off = np.abs(a - b).max()
        assert off <= _NEAR * (1 + np.abs(b).max()), f"{told}: {a.tolist()}, not {b.tolist()}"
        return
    assert type(one) is type(other), f"{told}: {type(one).__name__}, not {type(other).__name__}"
    assert opened[0] == others[0], f"{told}: {opened[0]}, not {others[0]}"
    for first, second in zip(opened[1], others[1], strict=True):
        _alike(first, second, told)


def _draws(place: Place, number: int) -> Iterator[tuple[Any, list[Array]]]:
    _registered()
    for turn in range(_TURNS):
        if place.tries(turn, 8):
            leaves: list[Array] = []
            rng = np.random.default_rng([place.seed, 941, number, turn])
            yield _form(rng, 2, leaves), leaves


def _in_trees(place: Place) -> None:
    """Leaves, structures and maps, and what a class alone and a base mean for subclasses."""
    for form, leaves in _draws(place, 0):
        found, structure = tree.flatten(form)
        assert len(found) == len(leaves) == structure.count, f"{len(found)} leaves"
        for a, b in zip(found, leaves, strict=True):
            assert a is b, "the leaves are in another order"
        _alike(
            tree.unflatten(structure, [v * 2 for v in found]),
            tree.map(lambda v: v * 2, form),
            "map",
        )
        _alike(tree.unflatten(structure, found), form, "flatten and unflatten")
        assert structure == tree.flatten(tree.map(lambda v: v + 1, form))[1], "structures differ"
    for one, other in ((_Pair(1, 2, "a"), _Pair(1, 2, "b")), (_Box(1, 0), _Box(1, 1)),
                       (_Box(1, 0), _Crate(1, 0)), (_Point(1, 2), (1, 2))):  # fmt: skip
        assert tree.flatten(one)[1] != tree.flatten(other)[1], (
            f"{one} and {other} have one structure"
        )
    alone = _SubPair(1, 2, "a")
    assert tree.leaves([alone]) == [alone], "a subclass is registered with its class"
    for kind in (_Pair, dict, list):
        try:
            tree.register(kind, lambda p: ((), None), lambda _, parts: None)
        except ArgumentError as error:
            assert kind.__name__ in str(error), f"{error}"  # noqa: PT017
            continue
        raise AssertionError(f"{kind.__name__} is registered twice")


def _in_transforms(place: Place) -> None:
    """Each is an argument and a result of jit, grad, vmap, jvp, checkpoint, cond and scan."""
    for form, leaves in _draws(place, 1):
        given = tree.map(calor.asarray, form)
        want = tree.map(lambda v: v * 2 + 1, form)

        def double(c: Any) -> Any:
            return tree.map(lambda v: v * 2 + 1, c)

        def loss(c: Any) -> Any:
            return calor.sum(sum(v * v for v in tree.leaves(c)))

        jitted = calor.jit(double)
        for how, function in {"plain": double, "jit": jitted, "jit again": jitted,
                              "checkpoint": calor.checkpoint(double)}.items():  # fmt: skip
            _alike(function(given), want, how)
        slopes = tree.map(lambda v: v * 2, form)
        _alike(calor.grad(loss)(given), slopes, "grad")
        _alike(calor.jit(calor.grad(loss))(given), slopes, "jitted grad")
        _alike(calor.vmap(double)(given), want, "vmap")
        value, moved = calor.jvp(double, (given,), (given,))
        _alike(value, want, "jvp")
        _alike(moved, slopes, "the tangent of jvp")
        yes = calor.asarray(leaves[0][0]) < 9
        _alike(calor.cond(yes, double, lambda c: c, given), want, "cond")
        last, every = calor.scan(lambda c, _: (double(c), c), given, length=2)
        _alike(last, tree.map(lambda v: v * 4 + 3, form), "scan")
        _alike(every, tree.map(lambda v: np.stack([v, v * 2 + 1]), form), "the rows of scan")


_FORMS: Final[dict[str, Callable[[Place], None]]] = {
    "trees": _in_trees, "transforms": _in_transforms,
}  # fmt: skip


def registered_containers() -> Iterator[Check]:
    """Yield a check of trees and one of transforms."""
    for name, form in _FORMS.items():
        yield Check(
            kind="transforms",
            subject=f"registered-containers-in-{name}",
            tier="training",
            contract=CONTRACT,
            run=form,
            text=partial(inspect.getsource, form),
            op="mul",
            dtypes=(float32,),
            features=("control_flow",) if name == "transforms" else (),
            looks=True,
        )
