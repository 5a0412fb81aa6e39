"""Further distributions of calor.random: their quantiles, ends, dtypes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import calor
from calor import random
from calor.errors import ArgumentError, DTypeError, ShapeError

COUNT = 4000
KINDS: list[tuple[str, tuple[float, ...], Any]] = [
    ("gamma", (0.3, 2.0), st.gamma(0.3, scale=2)), ("gamma", (50.0, 1.0), st.gamma(50)),
    ("beta", (0.3, 0.6), st.beta(0.3, 0.6)), ("beta", (5.0, 2.0), st.beta(5, 2)),
    ("laplace", (1.0, 2.0), st.laplace(1, 2)), ("cauchy", (1.0, 2.0), st.cauchy(1, 2)),
    ("logistic", (1.0, 2.0), st.logistic(1, 2)), ("student_t", (3.0,), st.t(3)),
    ("weibull", (2.0, 1.5), st.weibull_min(1.5, scale=2)),
    ("pareto", (2.0, 1.5), st.pareto(1.5, scale=2)),
    ("log_normal", (0.3, 0.5), st.lognorm(0.5, scale=np.exp(0.3))),
    ("poisson", (3.0,), st.poisson(3)), ("poisson", (60.0,), st.poisson(60)),
    ("binomial", (9, 0.8), st.binom(9, 0.8)), ("binomial", (500, 0.3), st.binom(500, 0.3)),
    ("geometric", (0.3,), st.geom(0.3)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters", "theirs"), KINDS, ids=lambda x: str(x)[:20])
def test_numbers_have_their_distribution(name: str, parameters: Any, theirs: Any) -> None:
    key = random.key(11)
    x = getattr(random, name)((COUNT,), *parameters, key=key)
    whole = hasattr(theirs, "pmf")
    assert x.dtype is (calor.int64 if whole else calor.float32)
    host = x.numpy()
    for level in (0.05, 0.3, 0.6, 0.95):
        point = theirs.ppf(level)
        share = theirs.cdf(point)
        found = (host <= point).mean()
        assert abs(found - share) <= 5 * (share * (1 - share) / COUNT) ** 0.5 + 1e-9, level
    again = getattr(random, name)((COUNT,), *parameters, key=key)
    np.testing.assert_array_equal(again.numpy(), host)
    # Parameters of a shape draw for each of their elements.
    many = [calor.full((2, 1), p) for p in parameters]
    assert getattr(random, name)((3, 2, 4), *many).shape == (3, 2, 4)
    assert getattr(random, name)((), *many).shape == (2, 1)
    assert getattr(random, name)((0,), *parameters).shape == (0,)


def test_parameters_out_of_range_give_nan() -> None:
    wrong = calor.asarray([-1.0, calor.nan])
    for name in ("gamma", "beta"):
        assert np.isnan(getattr(random, name)((2,), wrong).numpy()).all()
    assert np.isnan(random.poisson((2,), wrong, dtype="float32").numpy()).all()
    assert np.isnan(random.binomial((2,), 3, wrong, dtype="float32").numpy()).all()
    assert random.binomial((2,), 3, calor.asarray([0.0, 1.0])).tolist() == [0, 3]
    assert random.poisson((2,), 0.0).tolist() == [0, 0]


def test_shares_add_up_even_where_shapes_are_small() -> None:
    for a in (1e-3, 1.0, 100.0):
        x = random.dirichlet((50,), calor.full(3, a), key=random.key(0)).numpy()
        assert np.isfinite(x).all()
        np.testing.assert_allclose(x.sum(-1), 1, rtol=1e-5)
    assert random.dirichlet((2,), [1.0, 2.0], dtype="bfloat16").dtype is calor.bfloat16


def test_indices_by_weights() -> None:
    weights = calor.broadcast_to(calor.asarray([1.0, 2.0, 0.0, 1.0]), (COUNT, 4))
    x = random.multinomial(weights, 3, key=random.key(0)).numpy()
    assert sorted(map(tuple, np.unique(np.sort(x, -1), axis=0))) == [(0, 1, 3)]
    assert abs((x[:, 0] == 1).mean() - 0.5) < 0.05
    y = random.multinomial(weights[0], COUNT, replace=True, key=random.key(0)).numpy()
    assert abs((y == 1).mean() - 0.5) < 0.05
    assert set(y) == {0, 1, 3}


def test_draws_are_jitted_and_follow_the_generator() -> None:
    draw = calor.jit(lambda: random.gamma((4,), 2.0))
    random.seed(3)
    first, second = draw().tolist(), draw().tolist()
    assert first != second
    random.seed(3)
    assert random.gamma((4,), 2.0).tolist() == pytest.approx(first)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(DTypeError, match="real floating"):
        random.gamma((2,), dtype="int32")
    with pytest.raises(ArgumentError, match="pass replace=True"):
        random.multinomial(calor.ones(2), 3)
    with pytest.raises(ShapeError, match="no axis"):
        random.multinomial(calor.asarray(1.0), 1)
    with pytest.raises(ShapeError, match="one for each share"):
        random.dirichlet((), 1.0)
    with pytest.raises(ShapeError, match="gamma"):
        random.gamma((3,), calor.ones(2))
    with pytest.raises(AttributeError, match="no attribute"):
        random.triangular  # type: ignore[attr-defined]
