"""Tails of distributions: what is tiny keeps its digits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import calor
from calor import distributions

SMALL = np.array([1e-30, 1e-9, 1e-4, 0.2, 0.49], np.float32)


@pytest.mark.parametrize(
    ("made", "x", "due"),
    [
        (distributions.Laplace(0.0, 1.0), [-60, -20, -1, 0, 2],
         lambda x: math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2),
        (distributions.Cauchy(0.0, 1.0), [-1e20, -1e8, -3, 0, 5],
         lambda x: math.atan2(1, -x) / math.pi),
        (distributions.HalfNormal(1.0), SMALL, lambda x: math.erf(x / math.sqrt(2))),
        (distributions.HalfCauchy(1.0), SMALL, lambda x: math.atan(x) * 2 / math.pi),
    ],
)  # fmt: skip
def test_small_probabilities_have_digits(made, x, due) -> None:
    x = np.asarray(x, np.float32)
    got = made.cdf(calor.asarray(x)).numpy()
    np.testing.assert_allclose(got, [due(float(v)) for v in x], rtol=2e-6)


@pytest.mark.parametrize(
    ("made", "due"),
    [
        (distributions.Laplace(0.0, 1.0), lambda p: math.log(2 * p)),
        (distributions.Cauchy(0.0, 1.0), lambda p: -1 / math.tan(math.pi * p)),
        (distributions.HalfCauchy(1.0), lambda p: math.tan(p * math.pi / 2)),
    ],
)
def test_quantiles_of_small_probabilities_have_digits(made, due) -> None:
    got = made.icdf(calor.asarray(SMALL)).numpy()
    np.testing.assert_allclose(got, [due(float(p)) for p in SMALL], rtol=2e-5)


def test_the_density_at_the_median_is_the_slope_there() -> None:
    for made in (distributions.Laplace(0.0, 2.0), distributions.Cauchy(0.0, 2.0)):
        slope = calor.grad(lambda x, made=made: made.cdf(x))(calor.asarray(0.0)).item()
        assert slope == pytest.approx(math.exp(made.log_prob(0.0).item()), rel=1e-6)
