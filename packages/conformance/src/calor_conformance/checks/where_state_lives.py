"""Where state lives: steps that write in place leave each piece of state at its address.

The numbers of a state are right wherever they lie, and the memory in use too, once a step has
returned; the address says whether a step wrote to the memory of the state or took new memory, which
costs a copy and, for a moment, twice the memory. State is drawn: tensors of objects, parameters and
buffers of modules, moments of optimizers, and the rows of caches.
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
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Check, Place
from .training import _RULES

CONTRACT: Final = "a compiled step writes each piece of its state where that piece was"
_DRAWN, _STEPS = 10, 2
_NN, _TRAIN = "calor_nn", "calor_train"
_KINDS: Final = (np.float32, np.int32, np.float16, np.bool_)
Rng = np.random.Generator
# What has the state, the jitted step, and what the step is called with besides.
Subject = tuple[str, list[Any], Callable[..., Any], list[Any]]


class _Pieces(Stateful):
    """Tensors in a list, a dict and an attribute."""

    def __init__(self, tensors: list[Any]) -> None:
        self.first, self.rest = tensors[0], tensors[1:3]
        self.more = {str(n): t for n, t in enumerate(tensors[3:])}

    def each(self) -> list[Any]:
        return [self.first, *self.rest, *self.more.values()]


def _change(rng: Rng) -> Callable[[Any, Any], Any]:
    """Return what writes to a tensor, by a number of its dtype."""
    some: list[Callable[[Any, Any], Any]] = [_added, _set, _row, _turned, _masked]
    return some[int(rng.integers(len(some)))]


def _added(t: Any, by: Any) -> Any:
    t += by
    return t


def _set(t: Any, by: Any) -> Any:
    t[...] = by
    return t


def _row(t: Any, by: Any) -> Any:
    t[0] = by[0]
    return t


def _turned(t: Any, by: Any) -> Any:
    """What is assigned is a new tensor, of the same shape and dtype."""
    return calor.flip(t, axis=0) + by


def _masked(t: Any, by: Any) -> Any:
    return calor.where(by > 0, t, by)


def _of_object(rng: Rng, place: Place) -> Subject:
    kinds = [k for k in _KINDS if place.plain.info.dtypes.get(calor.asarray(k(0)).dtype)]
    tensors, given, ways = [], [], []
    for _ in range(int(rng.integers(1, 8))):
        shape = tuple(int(n) for n in rng.choice((1, 2, 7, 33, 400), int(rng.integers(1, 3))))
        kind = kinds[int(rng.integers(len(kinds)))]
        tensors.append(calor.asarray(rng.integers(0, 2, shape).astype(kind)))
        given.append(calor.asarray(rng.integers(0, 2, shape).astype(kind)))
        way = _change(rng)
        ways.append(_set if kind is np.bool_ else way)

    def step(pieces: _Pieces, by: list[Any]) -> Any:
        made = [way(t, v) for way, t, v in zip(ways, pieces.each(), by, strict=True)]
        pieces.first = made[0]
        for n, t in enumerate(made[1:3]):
            pieces.rest[n] = t
        for n, t in enumerate(made[3:]):
            pieces.more[str(n)] = t
        return calor.sum(made[0].astype(float32))

    names = ", ".join(f"{w.__name__[1:]} {t.dtype.name}{list(t.shape)}"
                      for w, t in zip(ways, tensors, strict=True))  # fmt: skip
    return f"an object: {names}", [_Pieces(tensors)], calor.jit(step), [given]


def _of_module(rng: Rng, place: Place) -> Subject:
    nn, size = import_module(_NN), int(rng.integers(1, 40))
    kind = int(rng.integers(3))
    layers: list[Any] = [nn.Linear(size, size), nn.BatchNorm1d(size)]
    if kind:
        layers.append(nn.Linear(size, 3, bias=bool(rng.integers(2))))
    model = nn.Sequential(*layers)
    x = calor.asarray(rng.normal(size=(4, size)).astype(np.float32))
    if kind == 2 or find_spec(_TRAIN) is None:

        def forward(model: Any, x: Any) -> Any:
            # With gradients, a backward pass may still read what was there before.
            with calor.no_grad():
                return model(x)

        return f"a forward pass of size {size}", [model], calor.jit(forward), [x]
    train = import_module(_TRAIN)
    name = str(rng.choice([n for n in _RULES if hasattr(train, n)]))
    options = {"momentum": 0.5} if name == "SGD" else {}
    optimizer = getattr(train, name)(model.parameters(), lr=0.01, **options)

    def learn(model: Any, optimizer: Any, x: Any) -> Any:
        loss = calor.sum(model(x) ** 2)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return f"{name} of size {size}", [model, optimizer], calor.jit(learn), [x]


def _of_cache(rng: Rng, place: Place) -> Subject:
    nn, heads, width = import_module(_NN), int(rng.integers(1, 3)), int(rng.integers(1, 5)) * 2
    layer = nn.MultiHeadAttention(heads * width, heads, batch_first=True)
    cache = nn.KVCache(1, heads, int(rng.integers(9, 40)), width)
    x = calor.asarray(rng.normal(size=(1, 1, heads * width)).astype(np.float32))

    def decode(cache: Any, layer: Any, x: Any) -> Any:
        with calor.no_grad():
            return layer(x, cache=cache)

    # A layer is only read by the step, and stays where it is, too.
    return f"a cache of {heads} heads of {width}", [cache, layer], calor.jit(decode), [x]


def _leaves(owners: list[Any]) -> list[Any]:
    return [t for t in calor.tree.leaves(owners) if isinstance(t, calor.Tensor)]


def _addresses(place: Place, owners: list[Any]) -> list[int]:
    """Return where each piece lives: its address on the host, else the buffer itself."""
    calor.eval(*_leaves(owners))
    found = []
    on_host = place.plain.backend.dlpack_device(place.plain.index)[0] == 1
    views = on_host and place.plain.info.feature("host_views").level == "full"
    for t in _leaves(owners):
        if views and t._value.device is place.plain:
            # The view is dropped at once, so that it does not stand in the way of a write.
            found.append(int(t.detach().numpy().__array_interface__["data"][0]))
        else:
            found.append(id(t._value.buffer))
    return found


def _run(place: Place) -> None:
    makers = [_of_object, _of_object]
    if find_spec(_NN) is not None:
        makers += [_of_module, _of_module, _of_cache]
    for number in filter(partial(place.tries, among=3), range(_DRAWN)):
        rng = np.random.default_rng([place.seed, 272, number])
        what, owners, step, given = makers[number % len(makers)](rng, place)
        # Moments are made by the first steps, whose results may be held by uploads.
        for _ in range(2):
            step(*owners, *given)
        count, before = len(_leaves(owners)), _addresses(place, owners)
        for turn in range(1, _STEPS + 1):
            step(*owners, *given)
            after = _addresses(place, owners)
            moved = [n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
            assert not moved, (
                f"{what}: step {turn} moves pieces {moved} of {count}, of shapes "
                f"{[_leaves(owners)[n].shape for n in moved]}; a device with in_place writes there"
            )


def where_state_lives() -> Iterator[Check]:
    """Yield the check of addresses of drawn state."""
    yield Check(
        kind="state",
        subject="where-state-lives",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _run),
        dtypes=(float32,),
        features=("in_place",),
        looks=True,
    )
