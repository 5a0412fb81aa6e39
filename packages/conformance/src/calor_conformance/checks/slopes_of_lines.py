"""Derivatives of functions of a line of numbers, drawn with zeros, equal numbers and signs.

A product with one zero has one derivative and with two has none; a norm is flat at the origin; what
is equal shares a gradient. The gradients are written out here as sums and products over the line.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import float64

from .base import Array, Check, Place

CONTRACT: Final = "the gradient of a line follows its definition, with zeros and equal numbers too"
_LINES: Final = 10
Line = list[float]
# A function of a tensor's last axis, and the gradient of its weighted results at a line.
Row = tuple[Callable[[Any], Any], Callable[[Line, Line], Line]]


def _without(x: Line, *left_out: int) -> float:
    return math.prod(v for i, v in enumerate(x) if i not in left_out)


def _prod(x: Line, w: Line) -> Line:
    return [w[0] * _without(x, i) for i in range(len(x))]


def _cumprod(x: Line, w: Line) -> Line:
    n = len(x)
    return [math.fsum(w[k] * _without(x[: k + 1], i) for k in range(i, n)) for i in range(n)]


def _from_the_end(of: Callable[[Line, Line], Line]) -> Callable[[Line, Line], Line]:
    return lambda x, w: of(x[::-1], w[::-1])[::-1]


def _extreme(best: Callable[[Line], float]) -> Callable[[Line, Line], Line]:
    """Equal extremes share the gradient."""

    def gradient(x: Line, w: Line) -> Line:
        return [w[0] * (v == best(x)) / x.count(best(x)) for v in x]

    return gradient


def _running(best: Callable[[Line], float]) -> Callable[[Line, Line], Line]:
    """A running extreme is the latest of equal ones."""

    def gradient(x: Line, w: Line) -> Line:
        made = [0.0] * len(x)
        for k, weight in enumerate(w):
            so_far = x[: k + 1]
            made[k - so_far[::-1].index(best(so_far))] += weight
        return made

    return gradient


def _norm(order: float) -> Callable[[Line, Line], Line]:
    def gradient(x: Line, w: Line) -> Line:
        sizes = [abs(v) for v in x]
        if math.isinf(order):
            most = max(sizes) if order > 0 else min(sizes)
            each = [(s == most) / sizes.count(most) for s in sizes]
        else:
            size = math.fsum(s**order for s in sizes) ** (1 / order)
            each = [(s / size) ** (order - 1) if size else 0.0 for s in sizes]
        return [w[0] * e * ((v > 0) - (v < 0)) for e, v in zip(each, x, strict=True)]

    return gradient


def _shares(x: Line) -> Line:
    made = [math.exp(v - max(x)) for v in x]
    return [m / math.fsum(made) for m in made]


def _softmax(x: Line, w: Line) -> Line:
    p = _shares(x)
    mean = math.fsum(a * b for a, b in zip(p, w, strict=True))
    return [a * (b - mean) for a, b in zip(p, w, strict=True)]


def _log_softmax(x: Line, w: Line) -> Line:
    return [b - p * math.fsum(w) for p, b in zip(_shares(x), w, strict=True)]


def _var(x: Line, w: Line) -> Line:
    mean = math.fsum(x) / len(x)
    return [w[0] * 2 * (v - mean) / len(x) for v in x]


def _sorted(x: Line, w: Line) -> Line:
    order = sorted(range(len(x)), key=lambda i: x[i])
    made = [0.0] * len(x)
    for weight, i in zip(w, order, strict=True):
        made[i] = weight
    return made


def _logsumexp(x: Line, w: Line) -> Line:
    return [w[0] * p for p in _shares(x)]


def _of(name: str, **options: Any) -> Callable[[Any], Any]:
    return lambda x: getattr(calor, name)(x, axis=-1, **options)


def _normed(order: float) -> Row:
    return lambda x: calor.linalg.vector_norm(x, axis=-1, ord=order), _norm(order)


ROWS: Final[dict[str, Row]] = {
    "prod": (_of("prod"), _prod), "cumulative_prod": (_of("cumulative_prod"), _cumprod),
    "cumulative_prod-from-the-end": (
        lambda x: calor.flip(calor.cumulative_prod(calor.flip(x, axis=-1), axis=-1), axis=-1),
        _from_the_end(_cumprod)),
    "max": (_of("max"), _extreme(max)), "min": (_of("min"), _extreme(min)),
    "cumulative_max": (_of("cumulative_max"), _running(max)),
    "cumulative_min": (_of("cumulative_min"), _running(min)),
    "norm-2": _normed(2), "norm-1": _normed(1), "norm-3": _normed(3), "norm-inf": _normed(math.inf),
    "norm-least": _normed(-math.inf), "softmax": (_of("softmax"), _softmax),
    "log_softmax": (_of("log_softmax"), _log_softmax), "logsumexp": (_of("logsumexp"), _logsumexp),
    "var": (_of("var"), _var), "sort": (_of("sort"), _sorted),
}  # fmt: skip
# Those with a second derivative wherever lines are drawn.
_SMOOTH: Final = ("prod", "cumulative_prod", "cumulative_prod-from-the-end", "softmax",
                  "log_softmax", "logsumexp", "var")  # fmt: skip


def _line(rng: np.random.Generator, n: int) -> Array:
    """Return few different numbers, of which none, some or all are zeros."""
    made = rng.choice((-2.0, -1.0, 0.5, 1.0, 1.5, 2.0), n)
    zeros = int(rng.choice((0, 0, 1, 2, n)))
    made[rng.permutation(n)[:zeros]] = 0.0
    return np.asarray(made, np.float64)


def _run(name: str, place: Place) -> None:
    call, gradient = ROWS[name]
    for turn in range(_LINES):
        rng = np.random.default_rng([place.seed, crc32(name.encode()), turn])
        n = int(rng.integers(1, 7))
        lines = np.stack([_line(rng, n) for _ in range(3)])
        x = calor.asarray(lines)
        weights = rng.uniform(-2, 2, call(x).shape)
        along, other = rng.uniform(-1, 1, (2, *lines.shape))

        def total(t: Any, w: Array = weights) -> Any:
            return calor.sum(call(t) * calor.asarray(w))

        want = _gradients(gradient, lines, weights)
        found = calor.grad(total)(x).numpy()
        what = f"the gradient of {name} at {lines.tolist()}"
        assert np.allclose(found, want, 1e-11, 1e-12), f"{what}: {found}, not {want}"
        pushed = calor.jvp(total, (x,), (calor.asarray(along),))[1].item()
        slope = float(np.sum(want * along))
        near = 1e-11 * (1 + np.abs(want * along).sum())
        assert abs(pushed - slope) <= near, f"{what}, forward: {pushed}, not {slope}"
        if name in _SMOOTH:
            _second(total, partial(_gradients, gradient), lines, weights, along, other, what)


def _gradients(of: Callable[[Line, Line], Line], lines: Array, weights: Array) -> Array:
    rows = weights.reshape(len(lines), -1).tolist()
    return np.array([of(x, w) for x, w in zip(lines.tolist(), rows, strict=True)])


def _second(
    total: Callable[..., Any], gradients: Callable[[Array, Array], Array], lines: Array,
    weights: Array, along: Array, other: Array, what: str,
) -> None:  # fmt: skip
    """The derivative of the gradient along one direction, summed along another."""
    step = 1e-4
    ends = [gradients(lines + by * along, weights) for by in (step, -step)]
    want = float(np.sum((ends[0] - ends[1]) / (2 * step) * other))
    gradient = calor.grad(total)
    x, direction, weight = map(calor.asarray, (lines, along, other))
    forward = calor.sum(calor.jvp(gradient, (x,), (direction,))[1] * weight).item()
    backward = calor.sum(calor.grad(lambda t: calor.sum(gradient(t) * weight))(x) * direction)
    for how, got in (("forward", forward), ("backward", backward.item())):
        assert abs(got - want) <= 1e-5 * (1 + abs(want)), (
            f"{what}, of second order, {how}: {got}, not {want}"
        )


def slopes_of_lines() -> Iterator[Check]:
    """Yield a check of the derivatives of each function of a line."""
    for name, (_, gradient) in ROWS.items():
        yield Check(
            kind="gradient-points",
            subject=f"line-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, gradient),
            op="cumprod" if "prod" in name else "",
            dtype=float64,
            dtypes=(float64,),
            looks=True,
        )
