"""Gradients of the functions that are composed of several ops, beside differences in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import TraceError

# Distinct elements, far from the places where a function has a corner.
X = np.array([[0.3, -1.2, 2.5, 0.9], [1.7, 0.4, -0.6, 3.1]])
STEP = 1e-6

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "chunk": lambda x: calor.chunk(x, 3, axis=1)[0],
    "clip": lambda x: calor.clip(x, -1, 2),
    "clip by tensors": lambda x: calor.clip(x, x * 0.5 - 0.1, 2),
    "concat": lambda x: calor.concat([x, x * x], axis=1),
    "cumulative_max": lambda x: calor.cumulative_max(x, axis=1),
    "cumulative_prod": lambda x: calor.cumulative_prod(x, axis=1, include_initial=True),
    "cumulative_sum": lambda x: calor.cumulative_sum(x, axis=0),
    "diff": lambda x: calor.diff(x, n=2),
    "dynamic_slice": lambda x: calor.dynamic_slice(x, [0, calor.asarray(1)], [2, 2]),
    "dynamic_update_slice": lambda x: calor.dynamic_update_slice(x, x[:1, :2] * 3, [1, 1]),
    "flip": lambda x: calor.flip(x),
    "gather_nd": lambda x: calor.gather_nd(x, calor.asarray([[0, 1], [1, 1], [0, 1]])),
    "hypot": lambda x: calor.hypot(x, 2.0),
    "logsumexp": lambda x: calor.logsumexp(x, axis=1),
    "logsumexp of both": lambda x: calor.logsumexp(x, keepdims=True),
    "max": lambda x: calor.max(x, axis=1),
    "mean": lambda x: calor.mean(x, axis=0),
    "median": lambda x: calor.median(x, axis=1),
    "moveaxis": lambda x: calor.moveaxis(x, 0, 1),
    "nan_to_num": lambda x: calor.nan_to_num(x),
    "pad constant": lambda x: calor.pad(x, 1, value=3.0),
    "pad edge": lambda x: calor.pad(x, (2, 1), mode="edge"),
    "pad reflect": lambda x: calor.pad(x, ((1, 0), (2, 1)), mode="reflect"),
    "pad symmetric": lambda x: calor.pad(x, 2, mode="symmetric"),
    "pad wrap": lambda x: calor.pad(x, 1, mode="wrap"),
    "prod": lambda x: calor.prod(x, axis=1),
    "quantile": lambda x: calor.quantile(x, calor.asarray([0.2, 0.7]), axis=0),
    "reciprocal": lambda x: calor.reciprocal(x),
    "repeat": lambda x: calor.repeat(x, 2, axis=1),
    "repeat by a tensor": lambda x: calor.repeat(x, calor.asarray([2, 0, 1, 1]), axis=1),
    "roll": lambda x: calor.roll(x, 1, axis=(0, 1)),
    "scatter_along_axis": lambda x: calor.scatter_along_axis(
        x, calor.asarray([[0, 0], [1, 2]]), x[:, :2] * 2, axis=1, update="add"
    ),
    "scatter_nd": lambda x: calor.scatter_nd(x, calor.asarray([[1]]), x[:1] * x[1:]),
    "sort": lambda x: calor.sort(x, axis=1, descending=True),
    "square": lambda x: calor.square(x),
    "std": lambda x: calor.std(x, axis=1, correction=1),
    "take": lambda x: calor.take(x, calor.asarray([1, 1, -1]), axis=1),
    "take_along_axis": lambda x: calor.take_along_axis(x, calor.argsort(x, axis=0), axis=0),
    "tile": lambda x: calor.tile(x, (2, 1, 2)),
    "topk": lambda x: calor.topk(x, 2).values,
    "triu": lambda x: calor.triu(x, k=1),
    "unfold": lambda x: calor.unfold(x, axis=1, size=3),
    "unstack": lambda x: calor.unstack(x, axis=1)[2],
    "var": lambda x: calor.var(x),
    "where": lambda x: calor.where(x > 0.5, x * x, 3.0),
}


def weighted(function: Callable[[Any], Any], x: Any) -> Any:
    """A number that depends on every element of the result with another weight."""
    y = function(x)
    weights = np.cos(np.arange(y.size, dtype=np.float64)).reshape(y.shape)
    return calor.sum(y * calor.asarray(weights))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name: str) -> None:
    function = FUNCTIONS[name]
    x = calor.asarray(X, requires_grad=True)
    weighted(function, x).backward()
    expected = np.zeros_like(X)
    for place in np.ndindex(*X.shape):
        moved = [X.copy(), X.copy()]
        moved[0][place] += STEP
        moved[1][place] -= STEP
        high, low = (weighted(function, calor.asarray(m)).item() for m in moved)
        expected[place] = (high - low) / (2 * STEP)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "repeat by a tensor"])
def test_jitted_gradient(name: str) -> None:
    function = calor.grad(lambda x: weighted(FUNCTIONS[name], x))
    x = calor.asarray(X)
    np.testing.assert_allclose(calor.jit(function)(x).numpy(), function(x).numpy(), rtol=1e-12)


def test_a_shape_that_depends_on_elements_cannot_be_traced() -> None:
    with pytest.raises(TraceError, match="asks for the value of a traced tensor"):
        calor.jit(FUNCTIONS["repeat by a tensor"])(calor.asarray(X))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_slope_of_digamma_in_half_types_is_rounded_once(dtype: str) -> None:
    points = calor.asarray(np.linspace(0.2, 6.0, 97), dtype=dtype)

    def slope(x: Any) -> Any:
        return calor.grad(lambda x: calor.digamma(x).sum())(x)

    got = slope(points).astype("float64").numpy()
    exact = slope(points.astype("float64")).numpy()
    np.testing.assert_allclose(got, exact, rtol=float(calor.finfo(dtype).eps))
