"""Rows of convolution and its two gradients."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..domains import normal
from ..language import NUMBERS, Array, Case, case, ulp

TERMS = ulp(8, scale="terms")


def _triples(
    x: tuple[int, ...], w: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """Yield (place in x, place in w, place in the output) of every product of a convolution."""
    sizes = tuple(
        max((n + lo + hi - (d * (k - 1) + 1)) // s + 1, 0) if n + lo + hi >= d * (k - 1) + 1 else 0
        for n, k, s, (lo, hi), d in zip(x[2:], w[2:], stride, padding, dilation, strict=True)
    )
    per_group = w[0] // groups
    for n in range(x[0]):
        for out in range(w[0]):
            for at in np.ndindex(*sizes):
                for c in range(w[1]):
                    for k in np.ndindex(*w[2:]):
                        place = tuple(
                            a * s - lo + d * i
                            for a, s, (lo, _), d, i in zip(
                                at, stride, padding, dilation, k, strict=True
                            )
                        )
                        if all(0 <= p < size for p, size in zip(place, x[2:], strict=True)):
                            channel = out // per_group * w[1] + c
                            yield (n, channel, *place), (out, c, *k), (n, out, *at)


Places = tuple[Array, ...]


# Each row is asked in each of its dtypes, as it is and in views.
@lru_cache(256)
def _places(x: tuple[int, ...], w: tuple[int, ...], *settings: Any) -> tuple[Places, ...]:
    """Return the places of :func:`_triples` in x, in w and in the output, as indices of arrays."""
    found = list(_triples(x, w, *settings))
    ranks = len(x), len(w), len(x)
    return tuple(
        tuple(np.array([triple[n] for triple in found], np.intp).reshape(-1, rank).T)
        for n, rank in enumerate(ranks)
    )


def _of(x: Any, w: Any, a: dict[str, Any]) -> tuple[Places, ...]:
    return _places(tuple(x), tuple(w), a["stride"], a["padding"], a["dilation"], a["groups"])


def _zeros(shape: Any, like: Array) -> Array:
    made = np.zeros(shape, like.dtype)
    if like.dtype == object:
        made.fill(0)
    return made


def conv(x: Array, w: Array, **a: Any) -> Array:
    """Every product added where it belongs."""
    made = _zeros(_output(x.shape, w.shape, **a), x)
    i, j, k = _of(x.shape, w.shape, a)
    np.add.at(made, k, x[i] * w[j])
    return made


def _output(x: Any, w: Any, *, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    sizes = []
    for n, k, s, (lo, hi), d in zip(x[2:], w[2:], stride, padding, dilation, strict=True):
        span = n + lo + hi - (d * (k - 1) + 1)
        sizes.append(span // s + 1 if span >= 0 else 0)
    return (x[0], w[0], *sizes)


def _input_gradient(g: Array, w: Array, *, input_shape: Any, **a: Any) -> Array:
    made = _zeros(input_shape, g)
    i, j, k = _of(input_shape, w.shape, a)
    np.add.at(made, i, g[k] * w[j])
    return made


def _weight_gradient(x: Array, g: Array, *, weight_shape: Any, **a: Any) -> Array:
    made = _zeros(weight_shape, x)
    i, j, k = _of(x.shape, weight_shape, a)
    np.add.at(made, j, x[i] * g[k])
    return made


def _rows(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int = 1,
) -> list[Case]:
    settings: dict[str, Any] = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    common: dict[str, Any] = {**settings, "dtypes": NUMBERS, "tol": TERMS, "name": name}
    g = _output(x, w, **settings)
    return [
        case("conv", normal(*x), normal(*w), oracle=conv, **common),
        case("conv_input_gradient", normal(*g), normal(*w), input_shape=x, oracle=_input_gradient,
             **common),
        case("conv_weight_gradient", normal(*x), normal(*g), weight_shape=w,
             oracle=_weight_gradient, **common),
    ]  # fmt: skip


CASES: list[Case] = [
    *_rows("2d", (2, 2, 4, 5), (3, 2, 3, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    *_rows("1d", (1, 2, 6), (2, 2, 3), (1,), ((1, 1),), (1,)),
    *_rows("3d", (1, 1, 3, 3, 3), (2, 1, 2, 2, 2), (1, 2, 1), ((0, 1),) * 3, (1, 1, 1)),
    *_rows("stride", (1, 2, 7, 6), (2, 2, 3, 2), (2, 3), ((1, 0), (0, 2)), (1, 1)),
    *_rows("dilation", (1, 2, 7, 6), (2, 2, 3, 2), (1, 1), ((0, 0), (1, 1)), (2, 3)),
    *_rows("groups", (2, 4, 4), (6, 2, 3), (1,), ((1, 1),), (1,), 2),
    *_rows("depthwise", (1, 3, 5), (6, 1, 3), (2,), ((1, 0),), (1,), 3),
    *_rows("everything", (2, 4, 7), (4, 2, 3), (2,), ((2, 1),), (2,), 2),
    *_rows("crops", (1, 2, 7), (2, 2, 2), (1,), ((-1, -2),), (1,)),
    *_rows("crops-and-pads", (1, 1, 6, 6), (1, 1, 2, 3), (2, 1), ((-1, 2), (1, -2)), (1, 2)),
    *_rows("pointwise", (2, 3, 2, 2), (4, 3, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    *_rows("wide-padding", (1, 1, 2), (1, 1, 2), (1,), ((3, 3),), (1,)),
    *_rows("no-places", (1, 1, 0), (2, 1, 3), (1,), ((0, 0),), (1,)),
    *_rows("no-images", (0, 2, 4), (3, 2, 2), (1,), ((0, 0),), (1,)),
    *(
        replace(row, no_gradient="too large for differences")
        for row in _rows("aligned", (1, 16, 8), (16, 16, 3), (1,), ((1, 1),), (1,))
    ),
    *_rows("unused-end", (1, 1, 8), (1, 1, 2), (3,), ((0, 0),), (1,)),
]
