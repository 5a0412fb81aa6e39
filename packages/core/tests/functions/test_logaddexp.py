"""Gradients of logaddexp and logaddexp2: the shares of the terms, at numbers of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor

INF = np.inf


@pytest.mark.parametrize(("name", "base"), [("logaddexp", np.e), ("logaddexp2", 2.0)])
@pytest.mark.parametrize(
    ("a", "b"),
    [(1e30, 1e30), (-1e30, -1e30), (1e4, 1e4), (1e4, 1e4 + 1), (0.5, -20.0), (700.0, -700.0),
     (INF, INF), (-INF, -INF), (INF, 0.0), (0.0, -INF), (-INF, INF)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_are_the_shares_of_the_terms(
    name: str, base: float, a: float, b: float, dtype: Any
) -> None:
    x, y = (calor.asarray(np.array([v], dtype)) for v in (a, b))
    value, pull = calor.vjp(getattr(calor, name), x, y)
    made = [g.item() for g in pull(calor.ones_like(value))]
    apart = 0.0 if a == b else b - a
    with np.errstate(over="ignore"):
        want = [1 / (1 + base**d) if d < 300 else base**-d for d in (apart, -apart)]
    np.testing.assert_allclose(made, want, rtol=3e-6, atol=1e-45)


def test_second_gradients_far_apart_are_numbers() -> None:
    def slope(x: Any) -> Any:
        return calor.grad(lambda x: calor.logaddexp(x, 0.0).sum())(x)

    x = calor.asarray(np.array([-500.0, -3.0, 0.0, 2.0, 500.0]))
    made = calor.grad(lambda x: slope(x).sum())(x).numpy()
    share = 1 / (1 + np.exp(-x.numpy()))
    np.testing.assert_allclose(made, share * (1 - share), rtol=1e-9, atol=1e-200)
