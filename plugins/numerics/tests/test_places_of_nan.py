"""An element that is not finite is in the results that it belongs to, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor

RNG = np.random.default_rng(3)


def _same(made: Any, want: Any) -> None:
    np.testing.assert_allclose(made.numpy(), want, rtol=2e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("sizes", [(5, 12), (12, 5), (6, 6), (1, 4), (140, 301), (300, 141)])
def test_sums_of_sequences(name: str, mode: Any, sizes: tuple[int, int]) -> None:
    for which in (0, 1):
        for value in (np.nan, np.inf):
            a, b = (RNG.standard_normal(n) for n in sizes)
            changed = (a, b)[which]
            changed[RNG.integers(changed.size)] = value
            _same(getattr(calor, name)(a, b, mode), getattr(np, name)(a, b, mode))


@pytest.mark.parametrize("dtype", [np.int16, np.int8, np.uint8, np.float16, np.complex64])
@pytest.mark.parametrize("mode", ["full", "same"])
def test_convolutions_of_types(dtype: Any, mode: Any) -> None:
    a, b = (RNG.integers(0, 3, n) for n in (7, 300))
    made = calor.convolve(a.astype(dtype), b.astype(dtype), mode)
    assert made.numpy().dtype == dtype
    np.testing.assert_array_equal(made.numpy(), np.convolve(a, b, mode))


def test_gradients_of_convolutions_with_long_ends() -> None:
    a, b = RNG.standard_normal(310), RNG.standard_normal(301)
    g = RNG.standard_normal(610)
    _, pull = calor.vjp(calor.convolve, calor.asarray(a), calor.asarray(b))
    made = pull(calor.asarray(g))
    _same(made[0], np.correlate(g, b, "valid"))
    _same(made[1], np.correlate(g, a, "valid"))


@pytest.mark.parametrize(
    "values",
    [[np.inf, 1, 2, 3], [0, np.inf, 2, -np.inf], [np.inf, np.inf, -np.inf, 0], [0, np.nan, 2, 3],
     [0, 1, 2, np.inf], [-np.inf, 1, np.nan, np.nan]],
)  # fmt: skip
def test_lines_beside_points_that_are_not_finite(values: list[float]) -> None:
    places = [0.0, 1.0, 2.5, 4.0]
    x = np.array([-1, 0, 0.5, 1, 1.5, 2.5, 3, 4, 5])
    with np.errstate(invalid="ignore"):
        _same(calor.interp(x, np.array(places), np.array(values)), np.interp(x, places, values))
