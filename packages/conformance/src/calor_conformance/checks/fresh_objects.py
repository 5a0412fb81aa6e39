"""Fresh objects die: modules, optimizers, generators and closures that went through a program.

A program may keep what it was called with, for the next call. With many fresh objects, of which
each is given once, no more than a few may live on: one that stays with each call is a leak of all
its weights. Weak references say how many live after their owner has let go of them.
"""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, uint32
from calor.transforms.state import Stateful

from ..collecting import quick_collections
from .base import Check, Place

CONTRACT: Final = "a program keeps few of the objects that it was called with alive"
# Fresh objects of each kind, and how many may live: what the last calls of a program are kept for.
_FRESH, _LIVING = 26, 12
Rng = np.random.Generator


class _Module(Stateful):
    """A weight and a part."""

    def __init__(self, rng: Rng, part: Any = None) -> None:
        self.w = _numbers(rng)
        self.w.requires_grad = True
        self.part = part

    def __call__(self, x: Any) -> Any:
        made = calor.tanh(x * self.w)
        return made if self.part is None else self.part(made)


def _numbers(rng: Rng) -> Any:
    return calor.asarray(rng.integers(-3, 4, 4).astype(np.float32))


def _closure(rng: Rng) -> Any:
    module = _Module(rng)
    return lambda x: module(x) * 2


def _drawing(rng: Rng) -> Any:
    """A generator of one seed, for which there is one program, in a state of its own."""
    made = calor.random.Generator(5)
    made.uniform((int(rng.integers(1, 9)),))
    return made


# What is fresh, made anew for each call, and called with a tensor.
_FRESHES: Final[dict[str, Callable[[Rng], Any]]] = {
    "modules": _Module, "modules of modules": lambda rng: _Module(rng, _Module(rng)),
    "generators": _drawing, "closures": _closure, "tensors": _numbers,
}  # fmt: skip


def _apply(fresh: Any, x: Any) -> Any:
    if isinstance(fresh, calor.Tensor):
        return fresh * x
    if isinstance(fresh, calor.random.Generator):
        return x + fresh.uniform((4,))
    return fresh(x)


def _written(fresh: Any, x: Any) -> Any:
    """What a step does: the object is changed."""
    made = _apply(fresh, x)
    if isinstance(fresh, _Module):
        with calor.no_grad():
            fresh.w -= 0.5
    return made


def _slope(fresh: Any, x: Any) -> Any:
    return calor.grad(lambda t: calor.sum(_apply(fresh, t)))(x)


def _mapped(fresh: Any, x: Any) -> Any:
    return calor.vmap(lambda t: _apply(fresh, t), randomness="same")(calor.stack([x, x]))


def _backward(fresh: Any, x: Any) -> Any:
    t = calor.asarray(x.numpy(), requires_grad=True)
    calor.sum(_apply(fresh, t)).backward()
    return t.grad


def _checkpointed(fresh: Any, x: Any) -> Any:
    return calor.grad(lambda t: calor.sum(calor.checkpoint(partial(_apply, fresh))(t)))(x)


def _bound(fresh: Any, x: Any) -> Any:
    call = calor.jit(_apply).bind(fresh)
    for _ in range(3):
        made = call(x)
    return made


class _Ways:
    """Ways through which a fresh object goes; the jitted functions stay over all objects."""

    def __init__(self) -> None:
        jitted, stepped = calor.jit(_apply), calor.jit(_written)
        sloped = calor.jit(_slope)
        self.every: dict[str, Callable[[Any, Any], Any]] = {
            "jitted": jitted, "a jitted step": stepped, "a jitted gradient": sloped,
            "a gradient of a jitted call": lambda fresh, x: calor.grad(
                lambda t: calor.sum(jitted(fresh, t))
            )(x),
            "plain": _apply, "grad": _slope, "backward": _backward,
            "checkpoint": _checkpointed, "bound": _bound,
            "captured": lambda fresh, x: calor.jit(lambda t: _apply(fresh, t))(x),
            "jvp": lambda fresh, x: calor.jvp(partial(_apply, fresh), (x,), (x,)),
            "a twin's jitted call": lambda fresh, x: jitted(fresh, jitted(fresh, x)),
        }  # fmt: skip


def _living(fresh: str, way: Callable[[Any, Any], Any], rng: Rng) -> int:
    """Return how many of fresh objects live after each went a way."""
    x, references = _numbers(rng), []
    for _ in range(_FRESH):
        made = _FRESHES[fresh](rng)
        references.append(weakref.ref(made))
        calor.tree.map(lambda t: t.numpy(), calor.tree.map(_detached, way(made, x)))
        del made
    gc.collect()
    return sum(r() is not None for r in references)


def _detached(t: Any) -> Any:
    return t.detach()


def _optimizers(rng: Rng) -> tuple[int, int]:
    """Return how many optimizers and their modules live after a jitted step of each."""
    package = import_module("calor_train")

    @calor.jit
    def step(module: _Module, optimizer: Any, x: Any) -> Any:
        loss = calor.sum(module(x))
        loss.backward()
        optimizer.step()
        return loss

    x, references = _numbers(rng), []
    for _ in range(_FRESH):
        module = _Module(rng)
        optimizer = package.Adam([module.w], lr=0.1)
        references.append((weakref.ref(optimizer), weakref.ref(module)))
        step(module, optimizer, x).numpy()
        del module, optimizer
    gc.collect()
    alive = [[r() is not None for r in pair] for pair in references]
    return sum(a for a, _ in alive), sum(b for _, b in alive)


def _run(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 408])
    pairs = [(f, w) for f in _FRESHES for w in _Ways().every]
    with quick_collections():
        for number in rng.permutation(len(pairs))[: len(pairs) if place.interpreted else 12]:
            fresh, name = pairs[int(number)]
            if fresh == "closures" and name not in ("plain", "grad", "backward", "checkpoint",
                                                    "captured", "jvp"):  # fmt: skip
                # Functions are static arguments, for each of which there is a program.
                continue
            alive = _living(fresh, _Ways().every[name], rng)
            assert alive <= _LIVING, f"{alive} of {_FRESH} {fresh} live after {name}"
        if find_spec("calor_train") is not None:
            for what, alive in zip(("optimizers", "modules"), _optimizers(rng), strict=True):
                assert alive <= _LIVING, f"{alive} of {_FRESH} {what} live after a jitted step"


def fresh_objects() -> Iterator[Check]:
    """Yield the check of objects that should die."""
    yield Check(
        kind="memory",
        subject="fresh-objects-die",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_living) + inspect.getsource(_Ways),
        op="tanh",
        dtypes=(float32, uint32),
        looks=True,
    )
