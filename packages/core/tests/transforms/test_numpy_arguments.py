"""Transforms differentiate numbers and arrays of NumPy as they do tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calor

WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: calor.grad(f)(x),
    "value_and_grad": lambda f, x: calor.value_and_grad(f)(x)[1],
    "vjp": lambda f, x: calor.vjp(f, x)[1](1.0)[0],
    "jvp": lambda f, x: calor.jvp(f, (x,), (np.ones_like(x),))[1],
    "linearize": lambda f, x: calor.linearize(f, x)[1](np.ones_like(x)),
    "jacrev": lambda f, x: calor.jacrev(f)(x),
    "jacfwd": lambda f, x: calor.jacfwd(f)(x),
    "hessian": lambda f, x: calor.hessian(f)(x),
    "jit of grad": lambda f, x: calor.jit(calor.grad(f))(x),
    "grad of jit": lambda f, x: calor.grad(calor.jit(f))(x),
}


def _cubes(x: Any) -> Any:
    x = calor.asarray(x)
    return calor.sum(x * x * x)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "given",
    [
        np.float64(3), np.float32(1.5), np.float16(2), ml_dtypes.bfloat16(2),
        np.asarray(2.5), np.asarray([1.0, -2.0], np.float32), np.ones((2, 1), ml_dtypes.bfloat16),
    ],
    ids=lambda x: f"{type(x).__name__}-{x.dtype}",
)  # fmt: skip
def test_a_number_or_an_array_of_numpy_is_differentiated(way: str, given: Any) -> None:
    want = WAYS[way](_cubes, calor.asarray(given))
    found = WAYS[way](_cubes, given)
    assert calor.any(want != 0).item()
    assert found.dtype == want.dtype == calor.asarray(given).dtype
    assert found.tolist() == want.tolist()


def test_arrays_of_other_kinds_stay_as_they_are() -> None:
    def take(tree: Any) -> Any:
        assert isinstance(tree["names"], np.ndarray)
        assert isinstance(tree["places"], np.ndarray)
        return calor.sum(calor.asarray(tree["x"]) ** 2)

    given = {"x": np.ones(2), "names": np.asarray(["a", "b"]), "places": np.arange(2)}
    found = calor.grad(take)(given)
    assert found["x"].tolist() == [2.0, 2.0]
    assert found["names"] is None
    assert found["places"] is None


def test_a_tangent_of_a_number_of_numpy_counts() -> None:
    value, slope = calor.jvp(lambda x, y: x * x * y, (2.0, np.float64(3)), (1.0, 1.0))
    assert (value.item(), slope.item()) == (12.0, 16.0)
