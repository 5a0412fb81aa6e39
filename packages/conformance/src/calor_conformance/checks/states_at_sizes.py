"""Programs at many sizes while what they read changes: each call is the plain call at that moment.

A trace for many sizes is one of a state: of settings, modes, tensors and containers, of which
tensors take gradients, and of the mode of the thread. Sizes and changes are drawn together, so a
new size comes with another state, an old size with it, and both with the first state again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bfloat16, float32, float64
from calor.transforms.state import Stateful

from .base import Check, Place

CONTRACT: Final = "a call at any size reads the state and the modes as they are"
_HISTORIES, _STEPS, _NEAR = 5, 20, 1e-5
Rng = np.random.Generator


class _Model(Stateful):
    """Weights, a part that may be left out, and settings."""

    dynamic = ("rate",)

    def __init__(self, rng: Rng) -> None:
        self.weight = calor.asarray(rng.integers(1, 4, (2, 2)).astype(np.float32))
        self.shift: Any = calor.asarray(np.float32(1))
        self.scale, self.rate, self.training = 2.0, 0.5, True
        self.order, self.kind = [1.0, 3.0], {"how": "add"}

    def __call__(self, x: Any, power: int = 1) -> Any:
        made = (x @ self.weight) * self.scale * self.rate + sum(self.order)
        if self.training:
            made = made * x.shape[0]
        made = made + self.shift if self.kind["how"] == "add" else made * self.shift
        # New numbers have the dtype that is the default at the call.
        return made**power * calor.ones(2), calor.flip(made, axis=0)


def _set(model: _Model, name: str, value: Any) -> None:
    setattr(model, name, value)


def _written(x: Any, number: float) -> None:
    with calor.no_grad():
        x[0] = number


_CHANGES: Final[dict[str, Callable[[_Model, Rng], None]]] = {
    "training": lambda m, rng: _set(m, "training", not m.training),
    "a setting": lambda m, rng: _set(m, "scale", float(rng.integers(1, 4))),
    "a number": lambda m, rng: _set(m, "rate", float(rng.integers(1, 4)) / 2),
    "an item": lambda m, rng: m.order.append(2.0) if len(m.order) < 4 else m.order.clear(),
    "a table": lambda m, rng: m.kind.update(how=str(rng.choice(["add", "mul"]))),
    "a tensor": lambda m, rng: _set(m, "shift", calor.asarray(np.float32(rng.integers(1, 5)))),
    "a shape": lambda m, rng: _set(
        m, "shift", calor.asarray(rng.integers(1, 5, 2).astype(np.float32))),
    "a dtype": lambda m, rng: _set(
        m, "shift", calor.asarray(rng.integers(1, 5, 2).astype(np.int32))),
    "a weight in place": lambda m, rng: _written(m.weight, float(rng.integers(1, 5))),
    "a gradient": lambda m, rng: _set(
        m, "weight", calor.asarray(m.weight.detach().numpy(), requires_grad=bool(rng.integers(2)))),
    "nothing": lambda m, rng: None,
}  # fmt: skip


def _modes(place: Place) -> list[Callable[[], Any]]:
    has = place.plain.info.dtypes.get
    made: list[Callable[[], Any]] = [nullcontext] * 4
    made += [calor.no_grad, partial(calor.matmul_precision, "high")]
    made += [partial(calor.default_dtype, "float64")] if has(float64) else []
    made += [partial(calor.autocast, "bfloat16")] if has(bfloat16) else []
    return made


def _ways(model: _Model) -> dict[str, Callable[..., Any]]:
    return {
        "jitted": calor.jit(lambda x, power=1: model(x, power), static_argnames="power"),
        "an argument": partial(calor.jit(_called, static_argnames="power"), model),
        "bound": calor.jit(_called, static_argnames="power").bind(model),
        "dynamic": calor.jit(
            lambda x, power=1: model(x, power), static_argnames="power", dynamic=True),
        "static sizes": calor.jit(
            lambda x, power=1: model(x, power), static_argnames="power", dynamic=False),
    }  # fmt: skip


def _called(model: _Model, x: Any, power: int = 1) -> Any:
    return model(x, power)


def _same(got: Any, want: Any, what: str) -> None:
    for a, b in zip(got, want, strict=True):
        told, right = ((t.dtype, t.shape, t.requires_grad) for t in (a, b))
        assert told == right, f"{what}: {told}, not {right}"
        x, y = (t.detach().astype(float32).numpy() for t in (a, b))
        near = np.allclose(x, y, rtol=_NEAR if a.dtype is not bfloat16 else 0.02)
        assert near, f"{what}: {x.tolist()}, not {y.tolist()}"


def _slope(made: Any, model: _Model) -> Any:
    if not made.requires_grad:
        return None
    weight: Any = model.weight
    weight.grad = None
    calor.sum(made).backward()
    return weight.grad.numpy()


def _history(place: Place, rng: Rng, way: int) -> None:
    model = _Model(rng)
    name, call = list(_ways(model).items())[way]
    modes, told = _modes(place), []
    for step in range(_STEPS):
        # Few changes first, so that a trace for many sizes is there.
        change = str(rng.choice(list(_CHANGES))) if step > 4 and rng.random() < 0.5 else "nothing"
        _CHANGES[change](model, rng)
        size, power = int(rng.choice((1, 2, 3, 4, 5, 6, 7))), int(rng.choice((1, 1, 1, 2)))
        mode = modes[int(rng.integers(len(modes)))] if step > 4 else nullcontext
        x = calor.asarray(rng.integers(-2, 3, (size, 2)).astype(np.float32))
        told.append(f"{change}, size {size}, {mode}")
        with ExitStack() as stack:
            stack.enter_context(mode())
            got, want = call(x, power=power), model(x, power)
            _same(got, want, f"{name}, after {told}")
            slopes = [_slope(made[0], model) for made in (got, want)]
        if slopes[1] is not None:
            near = np.allclose(slopes[0], slopes[1], rtol=0.02)
            assert near, f"{name}, after {told}: the gradient {slopes[0]}, not {slopes[1]}"


def _run(place: Place) -> None:
    for number in range(_HISTORIES):
        if place.tries(number, 4):
            seed = [place.seed, crc32(b"states at sizes"), number]
            _history(place, np.random.default_rng(seed), number % 5)


def states_at_sizes() -> Iterator[Check]:
    """Yield the check of states that change between calls of many sizes."""
    yield Check(
        kind="history",
        subject="states-at-sizes",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_history) + inspect.getsource(_Model),
        op="dot_general",
        dtypes=(float32,),
        looks=True,
    )
