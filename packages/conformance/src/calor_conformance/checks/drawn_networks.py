"""Drawn networks: their results, derivatives and steps of training, at the sizes of layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bfloat16, bool_, float32, int64
from calor.ops.base import find
from calor.transforms.state import Stateful

from ..rows.crossed.layers import Network, network
from ..rows.tables.attention import attention
from .base import Array, Check, Place

CONTRACT: Final = "layers of networks mean the same alone and one after another, at any size"
# Of each kind, in turns of few layers and of more; and those whose steps are looked at.
_NETWORKS, _TRAINED, _LAYERS = 10, 4, (2, 4)
_STEP: Final = 1e-5
# The accepted share of the root of the mean square of what is compared.
_NEAR: Final = {float32: 2e-4, bfloat16: 0.06}
_RATE: Final = 0.05


class _Held(Stateful):
    def __init__(self, *tensors: Any) -> None:
        self.tensors = list(tensors)


class _Case:
    """A network with its operand, its weights, directions of these, and a weight of its result."""

    def __init__(self, kind: str, number: int, layers: int) -> None:
        self.network = network(kind, number, layers)
        rng = np.random.default_rng([number, layers, 1])
        self.given = [rng.normal(size=self.network.shape), *self.network.weights(rng)]
        self.given = [a.astype(np.float32).astype(np.float64) for a in self.given]
        self.along = [rng.normal(size=a.shape) for a in self.given]
        self.want = self.network.meaning(*self.given)
        self.weight = rng.normal(size=self.want.shape) / np.sqrt(self.want.size)
        self.what = f"{self.network.name} ({kind} {number})"

    def tensors(self, dtype: DType) -> list[Any]:
        return [calor.asarray(a.astype(dtype.numpy)) for a in self.given]

    def total(self, *tensors: Any) -> Any:
        made = self.network.run(*tensors)
        return calor.sum(made * calor.asarray(self.weight.astype(np.float32)))

    def slope(self) -> float:
        """Return the derivative along the directions of all operands."""
        ends = []
        for by in (_STEP, -_STEP):
            moved = [a + by * along for a, along in zip(self.given, self.along, strict=True)]
            ends.append(float(np.sum(self.network.meaning(*moved) * self.weight)))
        return (ends[0] - ends[1]) / (2 * _STEP)


@lru_cache(maxsize=64)
def _case(kind: str, number: int, layers: int) -> _Case:
    return _Case(kind, number, layers)


def _close(got: Array, want: Array, near: float, what: str) -> None:
    assert got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}"
    size = float(np.sqrt(np.mean(np.square(want)))) + float(np.abs(want).max(initial=0)) / 8
    wrong = ~(np.abs(got.astype(np.float64) - want) <= near * (size + 1e-3))
    if wrong.any():
        at = np.unravel_index(np.argmax(wrong), want.shape)
        raise AssertionError(
            f"{what}: {got[at]!r} at {tuple(map(int, at))}, not {want[at]!r}; "
            f"{np.count_nonzero(wrong)} of {wrong.size} are off"
        )


def _forward(case: _Case, dtype: DType) -> None:
    made = calor.jit(case.network.run)(*case.tensors(dtype))
    assert made.dtype is dtype, f"{case.what}: {made.dtype.name}"
    _close(made.numpy(), case.want, _NEAR[dtype], case.what)


def _backward(case: _Case, dtype: DType) -> None:
    numbers = tuple(range(len(case.given)))
    made = calor.jit(calor.grad(case.total, argnums=numbers))(*case.tensors(dtype))
    each = [g.numpy().astype(np.float64) * v for g, v in zip(made, case.along, strict=True)]
    got, want = float(sum(map(np.sum, each))), case.slope()
    size = float(np.sqrt(sum(np.sum(np.square(p)) for p in each))) + 1e-3
    assert abs(got - want) <= 4e-3 * size, (
        f"{case.what}: the gradient is {got!r} along a direction, not {want!r}"
    )


def _trained(case: _Case, dtype: DType) -> None:
    """Steps that write the weights in place, against the gradient that was verified apart."""
    numbers = tuple(range(1, len(case.given)))
    if not numbers:
        return
    gradient = calor.grad(case.total, argnums=numbers)

    @calor.jit
    def step(held: _Held, x: Any) -> Any:
        made = gradient(x, *held.tensors)
        for n, g in enumerate(made):
            held.tensors[n] -= g * _RATE
        return case.total(x, *held.tensors)

    x, *weights = case.tensors(dtype)
    held = _Held(*(w.copy() for w in weights))
    for turn in range(2):
        parts = [t.numpy() for t in calor.jit(gradient)(x, *weights)]
        weights = [
            calor.asarray((w.numpy() - g * np.float32(_RATE)).astype(dtype.numpy))
            for w, g in zip(weights, parts, strict=True)
        ]
        loss = step(held, x).numpy()
        for n, (got, want) in enumerate(zip(held.tensors, weights, strict=True)):
            told = f"{case.what}: weight {n} after step {turn + 1}"
            _close(got.numpy(), want.numpy().astype(np.float64), 1e-3, told)
        given = [t.numpy().astype(np.float64) for t in weights]
        want = np.sum(case.network.meaning(case.given[0], *given) * case.weight)
        assert abs(loss - want) <= 2e-3 * (1 + abs(want)), (
            f"{case.what}: {loss} after step {turn + 1}, not {want}"
        )


_WAYS: Final[dict[str, tuple[Callable[[_Case, DType], None], tuple[DType, ...]]]] = {
    "forward": (_forward, (float32, bfloat16)), "backward": (_backward, (float32,)),
    "trained": (_trained, (float32,)),
}  # fmt: skip


def _decoded(number: int, place: Place) -> None:
    """Steps of decoding, each of which writes a row of two caches in place and attends to them."""
    rng = np.random.default_rng([place.seed, number])
    batch, own, times, side = (int(rng.choice(c)) for c in ((1, 2), (1, 2), (1, 3), (8, 64)))
    most, queries = int(rng.choice((16, 70))), int(rng.choice((1, 1, 3)))
    heads, scale = own * times, float(1 / np.sqrt(side))

    @calor.jit
    def step(held: _Held, q: Any, k: Any, v: Any, at: Any) -> Any:
        for n, row in enumerate((k, v)):
            held.tensors[n] = calor.dynamic_update_slice(held.tensors[n], row, (0, 0, at, 0))
        rows = calor.arange(queries)[:, None] + at
        seen = calor.arange(most)[None, :] <= rows
        mask = calor.reshape(calor.logical_not(seen), (1, 1, queries, most))
        keys, values = held.tensors
        return find("attention")(q, keys, values, mask, causal=False, scale=scale)[0]

    def drawn(count: int) -> Array:
        return rng.normal(size=(batch, count, queries, side)).astype(np.float32)

    empty = np.zeros((batch, own, most, side), np.float32)
    held = _Held(calor.asarray(empty), calor.asarray(empty))
    keys, values = empty.copy(), empty.copy()
    for at in range(0, 5 * queries, queries):
        q, k, v = (drawn(count) for count in (heads, own, own))
        made = step(held, *map(calor.asarray, (q, k, v)), calor.asarray(np.int64(at)))
        keys[:, :, at : at + queries], values[:, :, at : at + queries] = k, v
        hidden = np.arange(most)[None] > np.arange(queries)[:, None] + at
        want = attention(
            *(a.astype(np.float64) for a in (q, keys, values)), hidden[None, None], scale=scale
        )[0]
        told = f"{heads} heads of {side}, {own} of keys, {most} rows, {queries} queries at {at}"
        _close(made.numpy(), want, _NEAR[float32], told)
    for kept, want in zip(held.tensors, (keys, values), strict=True):
        assert (kept.numpy() == want).all(), "a cache has other rows than were written"


def _run(kind: str, number: int, name: str, dtype: DType, place: Place) -> None:
    _WAYS[name][0](_case(kind, place.number(number), _LAYERS[number % 2]), dtype)


def networks() -> Iterator[Check]:
    """Yield checks of drawn networks of tokens and of images, and of decoding."""
    for number in range(_TRAINED):
        yield Check(
            kind="history",
            subject=f"decoding-with-caches-{number}",
            tier="compiled",
            contract="steps of decoding read the rows that earlier ones wrote, and their own",
            run=partial(_decoded, number),
            text=partial(inspect.getsource, _decoded),
            dtypes=(float32, int64, bool_),
            looks=True,
        )
    for kind in ("tokens", "images"):
        for name, (_, dtypes) in _WAYS.items():
            for dtype in dtypes:
                most = _NETWORKS if dtype is float32 and name != "trained" else _TRAINED
                for number in range(most):
                    yield Check(
                        kind="transforms",
                        subject=f"layers-of-{kind}-{number}-{name}",
                        tier="training",
                        contract=CONTRACT,
                        run=partial(_run, kind, number, name, dtype),
                        text=partial(inspect.getsource, Network),
                        dtype=dtype,
                        dtypes=(dtype,),
                        looks=True,
                    )
