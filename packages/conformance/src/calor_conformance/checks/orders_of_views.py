"""Writes through axes in another order: chains of views whose permutations are cycles.

A permutation of two axes is its own inverse, and on equal sizes a wrong one has the right shape.
The chains here have cycles of three axes and more, on equal and on unequal sizes, with parts,
reshapes and further permutations between them. A write through the last view is compared with
NumPy at once, compiled, and by its gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32

from .base import Array, Check, Place
from .drawn_views import _key, _sizes

CONTRACT: Final = "a write through axes in any order reaches the places that it reaches in NumPy"
_CHAINS: Final = 24
Rng = np.random.Generator
Way = Callable[[Any], Any]
# How a view is taken of a tensor, and of an array of places.
Link = tuple[str, Way, Way]


def _cycle(rng: Rng, rank: int) -> tuple[int, ...]:
    """Return an order of axes unlike its inverse."""
    while True:
        order = rng.permutation(rank)
        if (order != np.argsort(order)).any():
            return tuple(int(k) for k in order)


def _permuted(rng: Rng, rank: int) -> Link:
    order = _cycle(rng, rank)
    signed = tuple(k - rank * int(rng.integers(2)) for k in order)
    first = [int(k) for k in rng.permutation(rank)[: int(rng.integers(2, rank + 1))]]
    last = [int(k) for k in rng.permutation(rank)[: len(first)]]
    kind = int(rng.integers(4))
    if kind == 0:
        return (
            f"moveaxis {first} {last}",
            lambda x: calor.moveaxis(x, tuple(first), tuple(last)),
            lambda a: np.moveaxis(a, first, last),
        )
    if kind == 1:
        return f"method {signed}", lambda x: x.permute_dims(signed), lambda a: a.transpose(order)
    return (
        f"permute {signed}",
        lambda x: calor.permute_dims(x, signed),
        lambda a: a.transpose(order),
    )


def _link(rng: Rng, shape: tuple[int, ...]) -> Link:
    """Return another view of some shape: a part, another shape, or an order of axes."""
    rank, kind = len(shape), int(rng.integers(6))
    if kind == 0:
        key = _key(rng, shape)
        return f"[{key}]", lambda x: x[key], lambda a: a[key]
    if kind == 1:
        sizes = _sizes(rng, int(np.prod(shape)))
        return f"reshape {sizes}", lambda x: x.reshape(sizes), lambda a: a.reshape(sizes)
    if kind == 2 and rank > 1:
        a, b = (int(k) for k in rng.integers(-rank, rank, 2))
        return f"swap {a} {b}", lambda x: x.swapaxes(a, b), lambda t: t.swapaxes(a, b)
    if kind == 3 and rank:
        axis = int(rng.integers(rank))
        k = int(rng.integers(shape[axis]))
        return (
            f"unstack {axis} {k}",
            lambda x: calor.unstack(x, axis=axis)[k],
            lambda t: np.take(t, k, axis),
        )
    if rank >= 3:
        return _permuted(rng, rank)
    return "expand", lambda x: x.expand_dims(0), lambda a: a[None]


class _Chain:
    """Views of views of a root, and a write through the last."""

    def __init__(self, rng: Rng) -> None:
        rank = int(rng.integers(3, 6))
        side = int(rng.integers(2, 4))
        equal = rng.random() < 0.5
        self.shape = (side,) * rank if equal else tuple(int(n) for n in rng.integers(1, 5, rank))
        self.links: list[Link] = []
        places = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        for turn in range(int(rng.integers(1, 5))):
            must = turn == 0 or rng.random() < 0.4
            link = (
                _permuted(rng, places.ndim)
                if must and places.ndim >= 3
                else _link(rng, places.shape)
            )
            seen = np.asarray(link[2](places))
            if not seen.size or not seen.ndim:
                break
            places = seen
            self.links.append(link)
        self.places = places
        self.kind = int(rng.integers(4))
        self.key = _key(rng, places.shape)
        self.value = rng.integers(-50, 50, places.shape).astype(np.float32)
        self.numbers = rng.integers(-50, 50, self.shape).astype(np.float32)
        self.weights = rng.integers(-9, 10, self.shape).astype(np.float32)

    def told(self) -> str:
        return f"{self.shape}, {', '.join(name for name, *_ in self.links)}, write {self.kind}"

    def written(self, x: Any, value: Any) -> Any:
        """Return a tensor of the numbers of x, written to through the last view."""
        with calor.shared_views():
            root = x * 1
            view = root
            for _, way, _ in self.links:
                view = way(view)
            if self.kind == 0:
                view[...] = value
            elif self.kind == 1:
                view[self.key] = value[self.key]
            elif self.kind == 2:
                view += value
            else:
                view *= 3
        return root, view

    def meaning(self, numbers: Array) -> Array:
        flat, at, value = numbers.reshape(-1).copy(), self.places, self.value
        if self.kind == 0:
            flat[at] = value
        elif self.kind == 1:
            flat[at[self.key]] = value[self.key]
        elif self.kind == 2:
            flat[at] += value
        else:
            flat[at] *= 3
        return flat

    def slope(self) -> Array:
        """Return the gradient of the sum of weights times what was written to."""
        made, at = self.weights.reshape(-1).copy(), self.places
        if self.kind == 0:
            made[at] = 0
        elif self.kind == 1:
            made[at[self.key]] = 0
        elif self.kind == 3:
            made[at] *= 3
        return made.reshape(self.shape)

    def check(self, place: Place) -> None:
        x, value = calor.asarray(self.numbers), calor.asarray(self.value)
        flat = self.meaning(self.numbers)
        for how, run in (("at once", self.written), ("compiled", calor.jit(self.written))):
            root, view = run(x, value)
            for name, made, want in (
                ("the tensor", root.numpy(), flat.reshape(self.shape)),
                ("the view", view.numpy(), flat[self.places]),
            ):
                assert made.shape == want.shape, f"{self.told()}: {name} is {made.shape}, {how}"
                same = (made == want).all()
                assert same, f"{self.told()}, {how}: {name} {made.tolist()}, not {want.tolist()}"
        assert (x.numpy() == self.numbers).all(), f"{self.told()}: a tensor before it was changed"
        weights = calor.asarray(self.weights)
        found = calor.grad(lambda x: calor.sum(self.written(x, value)[0] * weights))(x).numpy()
        assert (found == self.slope()).all(), f"{self.told()}: the gradient is {found.tolist()}"


def _run(place: Place) -> None:
    for number in filter(partial(place.tries, among=6), range(_CHAINS)):
        _Chain(np.random.default_rng([place.seed, 273, number])).check(place)


def orders_of_views() -> Iterator[Check]:
    """Yield the check of writes through permuted views."""
    yield Check(
        kind="state",
        subject="views-in-other-orders",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Chain),
        dtypes=(float32,),
        looks=True,
    )
