"""Graphs that tests share, one for each kind of thing that a graph can hold."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import calor
from calor.dtypes import float32
from calor.graph.graph import Builder, Graph
from calor.ops import elementwise as e
from calor.ops.base import Scalar
from calor.ops.contraction import conv
from calor.ops.movement import expand, reshape
from calor.ops.sources import HostArray, constant, full
from calor.specs import spec

TABLE = np.arange(6, dtype=np.int16).reshape(2, 3)


def _training_step(x: Any, y: Any, w: Any, b: Any, v: Any) -> Any:
    def loss(w: Any, b: Any, v: Any) -> Any:
        return ((calor.tanh(x @ w + b) @ v - y) ** 2).mean()

    value, gradients = calor.value_and_grad(loss, argnums=(0, 1, 2))(w, b, v)
    return value, [p - 0.1 * g for p, g in zip((w, b, v), gradients, strict=True)]


def _recurrent(xs: Any, state: Any, w: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        c = calor.tanh(x + c @ w)
        return c, calor.cond(c.sum() > 0, lambda a: a.mean(), lambda a: (a * a).sum(), c)

    return calor.scan(body, state, xs)


def _hosts() -> Graph:
    builder = Builder()
    x = builder.input(spec((2,), float32))
    number = builder.input(spec((), float32), host=True)
    builder.input(spec((3,), float32), host=True)
    (flat,) = builder.add(reshape, [number], {"shape": (1,)})
    (wide,) = builder.add(expand, [flat], {"shape": (2,)})
    return builder.build([*builder.add(e.mul, [x, wide]), x])


def _constants() -> Graph:
    builder = Builder()
    known = {"array": HostArray.of(TABLE), "weak": False}
    (table,) = builder.add(constant, [], known)
    (again,) = builder.add(constant, [], known)
    (nan,) = builder.add(
        full, [], {"value": Scalar.of(float("nan"), "float32"), "shape": (0, 2), "dtype": float32}
    )
    return builder.build([table, again, nan])


def _empty() -> Graph:
    return Builder().build([])


def _deep() -> Graph:
    def body(x: Any) -> Any:
        return calor.fori_loop(0, 3, lambda i, y: calor.fori_loop(0, 2, lambda j, z: z + j, y), x)

    return calor.trace(body, calor.zeros((), dtype="int64"))


def _many() -> Graph:
    def function(x: Any) -> Any:
        y = x
        for i in range(100):
            y = calor.relu(y @ y + x) * y.sum(axis=0)
            x = y if i % 10 == 0 else x
        return x, y

    return calor.trace(function, calor.ones((4, 4)))


def _ones(*shapes: tuple[int, ...]) -> list[calor.Tensor]:
    return [calor.ones(shape) for shape in shapes]


GRAPHS: dict[str, Callable[[], Graph]] = {
    "empty": _empty,
    "hosts": _hosts,
    "constants": _constants,
    "deep": _deep,
    "many": _many,
    "training step": lambda: calor.trace(
        _training_step, *_ones((8, 5), (8, 2), (5, 6), (6,), (6, 2))
    ),
    "scan": lambda: calor.trace(_recurrent, *_ones((7, 4), (4,), (4, 4))),
    "while": lambda: calor.trace(
        lambda x: calor.while_loop(lambda v: v.sum() < 100, lambda v: v + v, x), calor.ones(3)
    ),
    "identity": lambda: calor.trace(lambda x: (x, x), calor.ones(2)),
    "linear algebra": lambda: calor.trace(
        lambda a: (calor.linalg.svd(a), calor.linalg.cholesky(a)), calor.ones((3, 3))
    ),
    "reductions": lambda: calor.trace(
        lambda x: (x.sum(axis=0), x.max(), calor.cumulative_sum(x, axis=1), calor.argmax(x)),
        calor.ones((2, 3)),
    ),
    "movement": lambda: calor.trace(
        lambda x: (x[::-1, 1:], calor.pad(x, ((1, 0), (0, 2))), calor.concat([x, x], axis=1)),
        calor.ones((2, 3)),
    ),
    "indexing": lambda: calor.trace(
        lambda x, i: (x[i], calor.sort(x, axis=0)), calor.ones((4, 2)), calor.asarray([0, 3])
    ),
    "convolution": lambda: calor.trace(
        lambda x, w: conv(x, w, stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1),
        *_ones((1, 2, 6, 6), (3, 2, 3, 3)),
    ),
    "types": lambda: calor.trace(
        lambda x: [x.astype(t) for t in ("bfloat16", "complex64", "bool", "int8")], calor.ones(3)
    ),
    "spectral": lambda: calor.trace(
        lambda x: (calor.fft.fft(x), calor.random.normal((2,))), calor.ones(8)
    ),
}


@cache
def sample(name: str) -> Graph:
    """Return a graph of GRAPHS, traced once."""
    with calor.device("numpy"):
        return GRAPHS[name]()
