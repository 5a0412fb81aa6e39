"""Autocast and recomputation: the dtypes that are declared, and the numbers of the same program.

Products run in the low dtype, what needs range in float32, all else in the common dtype of its
operands; modes nest, end, and are in compiled calls too. A recomputation draws no other numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bfloat16, bool_, float16, float32, uint32

from .base import Array, Check, Place

_TABLE: Final = "inside autocast an op computes in the dtype that the documentation declares"
_AGAIN: Final = "what is computed again draws the same numbers and has the same gradients"
Rng = np.random.Generator
# The functions of two matrices that run in the low dtype, of one tensor that run in float32, and
# some others, which keep the dtype of their operand.
_LOW: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "matmul": calor.matmul, "@": lambda a, b: a @ b,
    "einsum": lambda a, b: calor.einsum("ij,jk->ik", a, b),
    "tensordot": lambda a, b: calor.tensordot(a, b, 1),
    "vecdot": lambda a, b: calor.vecdot(a, calor.permute_dims(b, (1, 0))[:1]),
}  # fmt: skip
_WIDE: Final = ("exp", "expm1", "log", "log1p", "log2", "log10", "rsqrt", "sum", "prod", "cosh",
                "sinh", "tan", "erfinv", "acos", "asin", "softplus")  # fmt: skip
_ALONG: Final = ("softmax", "log_softmax", "cumulative_sum", "cumulative_prod")
_OTHERS: Final = ("abs", "relu", "tanh", "sqrt", "negative", "max", "sigmoid", "square")


def _whole(rng: Rng, *shape: int) -> Array:
    """Return numbers whose products and sums are exact in the low dtypes."""
    return np.asarray(rng.integers(-2, 3, shape), np.float32)


def _declared(low: DType, place: Place) -> None:
    rng = np.random.default_rng([place.seed, 1])
    m, k, n = (int(v) for v in rng.integers(2, 6, 3))
    a, b = _whole(rng, m, k), _whole(rng, k, n)
    part = np.full((3, 2), 0.25, np.float32)
    x, y, z = map(calor.asarray, (a, b, part))
    with calor.autocast(low.name):
        for name, call in _LOW.items():
            _is(call(x, y), low, name)
            _is(call(x.astype(low), y), low, f"{name} of mixed dtypes")
        _is(calor.matmul(x, y, dtype="float32"), float32, "matmul with a dtype")
        for name in _WIDE:
            _is(getattr(calor, name)(z.astype(low)), float32, name)
        for name in _ALONG:
            _is(getattr(calor, name)(z.astype(low), axis=-1), float32, name)
        _is(calor.pow(z.astype(low), 2.0), float32, "pow")
        for name in _OTHERS:
            _is(getattr(calor, name)(z.astype(low)), low, name)
            _is(getattr(calor, name)(z), float32, name)
        _is(z.astype(low) + z, float32, "a sum of two dtypes")
        _is(calor.sum(calor.asarray(np.ones(2, bool))), calor.int64, "a sum of truths")
    got = calor.matmul(x, y)
    _is(got, float32, "matmul afterwards")


def _is(made: Any, dtype: DType, what: str) -> None:
    assert made.dtype is dtype, f"{what} is {made.dtype}, not {dtype}"


def _modes(low: DType, place: Place) -> None:
    """Contexts nest, end at errors, are decorators, and belong to a call that is compiled."""
    rng = np.random.default_rng([place.seed, 2])
    a = _whole(rng, 3, 3)
    x = calor.asarray(a)
    product = calor.jit(lambda t: t @ t)
    modes: list[DType] = [float32]
    for _ in range(12):
        depth = int(rng.integers(0, 3))
        with _Within([low if rng.random() < 0.6 else float32 for _ in range(depth)], modes):
            for how, made in (("at once", x @ x), ("jitted", product(x))):
                _is(made, modes[-1], f"a product {how} within {[m.name for m in modes]}")
                assert (made.numpy().astype(np.float32) == a @ a).all(), f"{how}: {made}"
    try:
        with calor.autocast(low.name):
            raise KeyError
    except KeyError:
        _is(x @ x, float32, "a product after an error")
    _is(calor.autocast(low.name)(lambda t: t @ t)(x), low, "a product of a decorated function")
    with calor.autocast(low.name):
        inside = calor.jit(calor.autocast(enabled=False)(lambda t: t @ t))
        _is(inside(x), float32, "a product where a call switches it off")


class _Within:
    """Some modes, one inside the other; float32 stands for autocast that is switched off."""

    def __init__(self, wanted: list[DType], modes: list[DType]) -> None:
        self.wanted, self.modes = wanted, modes
        self.contexts: list[Any] = []

    def __enter__(self) -> None:
        for dtype in self.wanted:
            off = dtype is float32
            context = calor.autocast(enabled=False) if off else calor.autocast(dtype.name)
            context.__enter__()
            self.contexts.append(context)
            self.modes.append(dtype)

    def __exit__(self, *error: object) -> None:
        for context in reversed(self.contexts):
            context.__exit__(None, None, None)
            self.modes.pop()


def _weights(low: DType, place: Place) -> None:
    """A weight's cast follows the weight, whatever writes to it, and its gradient is float32."""
    _written(low, place)
    # Within one context casts are kept from one product to the next.
    with calor.autocast(low.name):
        _written(low, place)


def _written(low: DType, place: Place) -> None:
    rng = np.random.default_rng([place.seed, 3])
    a = _whole(rng, 2, 3)
    x, want = calor.asarray(a), _whole(rng, 3, 2)
    w: Any = calor.asarray(want, requires_grad=True)
    plain = lambda t, v: calor.sum(t @ v)  # noqa: E731
    again, step = calor.checkpoint(plain), calor.jit(plain)
    for turn in range(10):
        with calor.autocast(low.name):
            made = x @ w
            loss: Any = (plain, step, again)[turn % 3](x, w)
        _is(made, low, "a product with a weight")
        what = f"after write {turn}"
        assert (made.detach().numpy().astype(np.float32) == a @ want).all(), f"{what}: {made}"
        w.grad = None
        loss.backward()
        _is(w.grad, float32, "the gradient of a weight")
        right = np.repeat(a.sum(0)[:, None], 2, 1)
        assert (w.grad.numpy() == right).all(), f"{what}: the gradient {w.grad}, not {right}"
        want = want.copy()
        value = float(rng.integers(-2, 3))
        with calor.no_grad():
            if turn % 3 == 0:
                w[0, 1] = value
                want[0, 1] = value
            elif turn % 3 == 1:
                w *= -1
                want *= -1
            else:
                want = _whole(rng, 3, 2)
                w[...] = calor.asarray(want)


def _dropped(place: Place) -> None:
    """A mask is drawn once for a result and its gradient, also when it is computed again."""
    rng = np.random.default_rng([place.seed, 4])
    stream = calor.random.Generator(int(rng.integers(1 << 40)))
    array = _whole(rng, 40) + np.float32(3)

    def drop(t: Any) -> Any:
        kept = calor.random.bernoulli(t.shape, 0.5, generator=stream)
        twice = calor.random.uniform(t.shape, generator=stream) < 0.5
        return calor.where(kept, t * 2, 0.0) * calor.where(twice, t, 1.0)

    def total(t: Any) -> Any:
        return calor.sum(drop(t) * t)

    ways = {
        "plain": total, "again": calor.checkpoint(total),
        "again in parts": lambda t: calor.sum(calor.checkpoint(drop)(t) * t),
        "again, jitted": calor.jit(calor.checkpoint(total)),
    }  # fmt: skip
    start = stream.state
    found = {}
    for how, way in ways.items():
        made = []
        for graded in (partial(_collected, way), partial(_pulled, way)):
            stream.set_state(start)
            first = graded(calor.asarray(array))
            made.append((*first, *graded(calor.asarray(array)), stream.state[1].tolist()))
        found[how] = made
    want = found["plain"][0]
    for how, made in found.items():
        for result in made:
            for a, b in zip(result, want, strict=True):
                assert np.allclose(a, b, 1e-6), f"{how}: {a}, not {b}"


def _collected(way: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    x.requires_grad = True
    loss = way(x)
    loss.backward()
    return loss.item(), x.grad.tolist()


def _pulled(way: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    value, gradient = calor.value_and_grad(way)(x)
    return value.item(), gradient.tolist()


def _accumulated(place: Place) -> None:
    """Gradients add up over calls until they are given up, in any order of leaves and losses."""
    rng = np.random.default_rng([place.seed, 5])
    arrays = [_whole(rng, 3) for _ in range(3)]
    leaves: list[Any] = [calor.asarray(a, requires_grad=True) for a in arrays]
    sums: list[Any] = [None] * 3
    jitted = calor.jit(lambda a, b: calor.sum(a * b))
    for turn in range(20):
        j, k = (int(v) for v in rng.integers(0, 3, 2))
        weight = float(rng.integers(1, 4))
        plain = calor.sum(leaves[j] * leaves[k]) if turn % 2 else jitted(leaves[j], leaves[k])
        (plain * weight).backward()
        for one, other in ((j, k), (k, j)):
            sums[one] = (0 if sums[one] is None else sums[one]) + weight * arrays[other]
        if rng.random() < 0.2:
            leaves[j].grad, sums[j] = None, None
        for leaf, want in zip(leaves, sums, strict=True):
            assert (leaf.grad is None) == (want is None), f"turn {turn}: {leaf.grad}, not {want}"
            if want is not None:
                assert leaf.grad.tolist() == want.tolist(), f"turn {turn}: {leaf.grad}, not {want}"


def autocasting() -> Iterator[Check]:
    """Yield the checks of autocast, of recomputation and of gradients that add up."""
    ways = {"declared": _declared, "modes": _modes, "weights": _weights}
    for name, way in ways.items():
        for low in (bfloat16, float16):
            yield _check(f"autocast-{name}", _TABLE, partial(way, low), low, way)
    yield _check("recomputed-with-drawn-masks", _AGAIN, _dropped, None, _dropped)
    adds = "gradients add up until they are given up"
    yield replace(_check("gradients-over-calls", adds, _accumulated, None, _accumulated), op="")


def _check(
    subject: str, contract: str, run: Callable[[Place], None], low: DType | None, of: Any
) -> Check:
    return Check(
        kind="transforms",
        subject=subject,
        tier="training",
        contract=contract,
        run=run,
        text=partial(inspect.getsource, of),
        op="" if low else "random_bits",
        dtype=low,
        dtypes=(float32, bool_, low) if low else (float32, bool_, uint32),
        looks=True,
    )
