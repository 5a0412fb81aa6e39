"""Densities, moments and quantiles against SciPy's, samples against moments, divergences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import calor
from calor import distributions as d
from calor.errors import ArgumentError, ShapeError


def wide(*values: float) -> Any:
    return calor.asarray(list(values), dtype="float64")


A, B, P = (0.7, 2.5), (1.3, 3.1), (0.2, 0.7)


def each(make: Callable[..., Any], *columns: tuple[float, ...]) -> list[Any]:
    """One of SciPy's distributions for each element of a batch."""
    return [make(*row) for row in zip(*columns, strict=True)]


LARGE = (4.5, 6.0)
PAIR: list[tuple[str, d.Distribution, list[Any]]] = [
    ("Normal", d.Normal(wide(*A), wide(*B)), each(st.norm, A, B)),
    ("LogNormal", d.LogNormal(wide(*A), wide(*P)),
     each(lambda m, s: st.lognorm(s, scale=math.exp(m)), A, P)),
    ("HalfNormal", d.HalfNormal(wide(*B)), each(lambda s: st.halfnorm(scale=s), B)),
    ("Cauchy", d.Cauchy(wide(*A), wide(*B)), each(st.cauchy, A, B)),
    ("HalfCauchy", d.HalfCauchy(wide(*B)), each(lambda s: st.halfcauchy(scale=s), B)),
    ("Laplace", d.Laplace(wide(*A), wide(*B)), each(st.laplace, A, B)),
    ("Gumbel", d.Gumbel(wide(*A), wide(*B)), each(st.gumbel_r, A, B)),
    ("Uniform", d.Uniform(wide(*A), wide(2, 4)), [st.uniform(0.7, 1.3), st.uniform(2.5, 1.5)]),
    ("Exponential", d.Exponential(wide(*B)), each(lambda r: st.expon(scale=1 / r), B)),
    ("Weibull", d.Weibull(wide(*A), wide(*B)),
     each(lambda s, c: st.weibull_min(c, scale=s), A, B)),
    ("Pareto", d.Pareto(wide(*A), wide(*LARGE)),
     each(lambda s, c: st.pareto(c, scale=s), A, LARGE)),
    ("Gamma", d.Gamma(wide(*A), wide(*B)), each(lambda a, r: st.gamma(a, scale=1 / r), A, B)),
    ("Chi2", d.Chi2(wide(*B)), each(st.chi2, B)),
    ("InverseGamma", d.InverseGamma(wide(*LARGE), wide(*B)),
     each(lambda a, r: st.invgamma(a, scale=r), LARGE, B)),
    ("Beta", d.Beta(wide(*A), wide(*B)), each(st.beta, A, B)),
    ("StudentT", d.StudentT(wide(*LARGE), wide(*A), wide(*B)), each(st.t, LARGE, A, B)),
    ("Bernoulli", d.Bernoulli(wide(*P)), each(st.bernoulli, P)),
    ("Binomial", d.Binomial(7, wide(*P)), each(lambda p: st.binom(7, p), P)),
    ("Geometric", d.Geometric(wide(*P)), each(lambda p: st.geom(p, loc=-1), P)),
    ("NegativeBinomial", d.NegativeBinomial(wide(*B), wide(*P)),
     each(lambda n, p: st.nbinom(n, 1 - p), B, P)),
    ("Poisson", d.Poisson(wide(*B)), each(st.poisson, B)),
]  # fmt: skip
IDS = [name for name, *_ in PAIR]


@pytest.mark.parametrize(("name", "ours", "theirs"), PAIR, ids=IDS)
def test_densities_moments_and_quantiles_are_scipy_s(name: str, ours: Any, theirs: Any) -> None:
    levels = np.array([0.1, 0.35, 0.8])
    at = np.stack([t.ppf(levels) for t in theirs], -1)
    discrete = hasattr(theirs[0], "pmf")
    points = np.concatenate([at, at - 20]) if name not in ("InverseGamma",) else at
    wanted = [(t.logpmf if discrete else t.logpdf)(points[:, i]) for i, t in enumerate(theirs)]
    found = ours.log_prob(calor.asarray(points)).numpy()
    np.testing.assert_allclose(found, np.stack(wanted, -1), rtol=1e-10, atol=1e-12)
    for what, value in (("cdf", at), ("icdf", np.stack([levels, levels], -1))):
        if getattr(type(ours), what) is getattr(d.Distribution, what) or (
            isinstance(ours, d.Gamma) and what == "icdf"
        ):
            with pytest.raises(NotImplementedError, match=what):
                getattr(ours, what)(0.5)
            continue
        call = "ppf" if what == "icdf" else "cdf"
        expected = np.stack([getattr(t, call)(value[:, i]) for i, t in enumerate(theirs)], -1)
        got = getattr(ours, what)(calor.asarray(value)).numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
    if "Cauchy" not in name:
        np.testing.assert_allclose(ours.mean.numpy(), [t.mean() for t in theirs], rtol=1e-10)
        np.testing.assert_allclose(ours.variance.numpy(), [t.var() for t in theirs], rtol=1e-9)
    if type(ours).entropy is not d.Distribution.entropy:
        expected = [float(t.entropy()) for t in theirs]
        np.testing.assert_allclose(ours.entropy().numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("name", "ours", "theirs"), PAIR, ids=IDS)
def test_samples_have_the_distribution(name: str, ours: Any, theirs: Any) -> None:
    x = ours.sample((3000,), key=calor.random.key(7)).numpy()
    assert x.shape == (3000, 2)
    assert np.isfinite(x).all()
    # The share below three quantiles, within five deviations.
    for i, t in enumerate(theirs):
        for level in (0.2, 0.5, 0.9):
            point = t.ppf(level)
            share = t.cdf(point)
            found = (x[:, i] <= point).mean()
            assert abs(found - share) < 5 * math.sqrt(share * (1 - share) / 3000) + 1e-9
    if ours.has_rsample:
        assert ours.rsample(4, key=calor.random.key(1)).shape == (4, 2)
    else:
        with pytest.raises(ArgumentError, match="score-function"):
            ours.rsample()


@pytest.mark.parametrize(("name", "p", "theirs"), PAIR, ids=IDS)
def test_divergences_are_means_of_log_ratios(name: str, p: Any, theirs: Any) -> None:
    assert abs(_divergence_or_none(p, p)) < 1e-9
    if not p.has_rsample and name not in ("Poisson", "Geometric", "Bernoulli"):
        return
    # Another of the family: the parameters in reverse order.
    held = {k: calor.flip(v) for k, v in vars(p).items() if k.islower() and k[0] != "_"
            and isinstance(v, calor.Tensor)}  # fmt: skip
    if (
        name in ("Uniform", "Pareto", "StudentT", "Weibull", "Chi2", "Cauchy", "HalfCauchy")
        or not held
    ):
        return
    q = type(p)(**held)
    x = p.sample((20000,), key=calor.random.key(2))
    ratios = (p.log_prob(x) - q.log_prob(x)).numpy()
    wanted, spread = ratios.mean(0), ratios.std(0) / math.sqrt(len(ratios))
    found = d.kl_divergence(p, q).numpy()
    assert (np.abs(found - wanted) < 5 * spread + 1e-9).all(), (found, wanted)


def _divergence_or_none(p: Any, q: Any) -> float:
    if type(p).__name__ in ("StudentT", "Weibull", "NegativeBinomial"):
        with pytest.raises(ArgumentError, match="register_kl"):
            d.kl_divergence(p, q)
        return 0.0
    return float(calor.max(calor.abs(d.kl_divergence(p, q))).item())


FAMILIES = {
    "gamma": (lambda t: d.Gamma(t[0], t[1]), (2.5, 1.5)),
    "small gamma": (lambda t: d.Gamma(t[0], t[1]), (0.1, 1.0)),
    "beta": (lambda t: d.Beta(t[0], t[1]), (0.7, 2.0)),
    "student": (lambda t: d.StudentT(t[0] + 6, 0.0, t[1]), (1.0, 1.3)),
    "weibull": (lambda t: d.Weibull(t[0], t[1]), (1.2, 2.0)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_reparametrized_samples_have_the_gradient_of_the_mean(name: str) -> None:
    family, at = FAMILIES[name]

    def square(t: Any) -> Any:
        return (family(t).rsample((6000,), key=calor.random.key(3)) ** 2).mean()

    def exact(t: Any) -> Any:
        made = family(t)
        return made.mean**2 + made.variance

    found, wanted = (calor.grad(f)(wide(*at)).numpy() for f in (square, exact))
    np.testing.assert_allclose(found, wanted, rtol=0.15, atol=0.02)


def test_categories_and_counts() -> None:
    weights = wide(1.0, 3.0, 0.0)
    for made in (d.Categorical(weights), d.Categorical(logits=calor.log(weights))):
        np.testing.assert_allclose(made.probs.numpy(), [0.25, 0.75, 0])
        assert made.log_prob(calor.asarray([1, 2])).exp().tolist() == pytest.approx([0.75, 0.0])
        assert made.entropy().item() == pytest.approx(st.entropy([0.25, 0.75]))
        x = made.sample((2000,), key=calor.random.key(0)).numpy()
        assert abs((x == 1).mean() - 0.75) < 0.05
        assert (x < 2).all()
    assert d.kl_divergence(made, d.Categorical(wide(1, 1, 1))).item() == pytest.approx(
        math.log(3) - st.entropy([0.25, 0.75])
    )
    one = d.OneHotCategorical(weights)
    assert one.sample((4,)).sum(axis=-1).tolist() == [1.0] * 4
    assert one.log_prob(wide(0, 1, 0)).exp().item() == pytest.approx(0.75)
    counts = d.Multinomial(5, weights)
    x = counts.sample((3, 2))
    assert x.shape == (3, 2, 3)
    assert (x.sum(axis=-1) == 5).all()
    expected = st.multinomial(5, [0.25, 0.75, 0]).logpmf([2, 3, 0])
    assert counts.log_prob(wide(2, 3, 0)).item() == pytest.approx(expected)


def test_certain_outcomes_given_by_infinite_logits() -> None:
    logits = calor.asarray([np.inf, -np.inf, np.inf, -np.inf])
    certain = d.Bernoulli(logits=logits)
    made = certain.log_prob(calor.asarray([1.0, 0.0, 0.0, 1.0]))
    assert made.tolist() == [0.0, 0.0, -np.inf, -np.inf]
    assert certain.entropy().tolist() == [0.0] * 4
    counts = d.Binomial(5, logits=logits).log_prob(calor.asarray([5.0, 0.0, 4.0, 1.0]))
    np.testing.assert_allclose(counts.numpy(), [0.0, 0.0, -np.inf, -np.inf], atol=1e-6)
    assert d.Geometric(logits=logits[:1]).log_prob(calor.zeros(1)).tolist() == [0.0]


def test_vectors() -> None:
    loc, root = np.array([0.5, -1.0]), np.array([[1.2, 0.0], [0.4, 0.8]])
    matrix = root @ root.T
    forms = {
        "covariance_matrix": matrix,
        "precision_matrix": np.linalg.inv(matrix),
        "scale_tril": root,
    }
    theirs = st.multivariate_normal(loc, matrix)
    for key, value in forms.items():
        ours = d.MultivariateNormal(calor.asarray(loc), **{key: calor.asarray(value)})
        assert ours.log_prob(wide(0.1, 0.2)).item() == pytest.approx(theirs.logpdf([0.1, 0.2]))
        np.testing.assert_allclose(ours.scale_tril.numpy(), root, atol=1e-12)
        assert ours.entropy().item() == pytest.approx(theirs.entropy())
    x = ours.rsample((4000,), key=calor.random.key(0)).numpy()
    np.testing.assert_allclose(np.cov(x.T), matrix, atol=0.15)
    other = d.MultivariateNormal(calor.zeros(2, dtype="float64"), calor.eye(2, dtype="float64"))
    wanted = (np.trace(matrix) + loc @ loc - 2 - np.log(np.linalg.det(matrix))) / 2
    assert d.kl_divergence(ours, other).item() == pytest.approx(wanted)
    shares = d.Dirichlet(wide(0.7, 2.0, 3.0))
    at = np.array([0.2, 0.3, 0.5])
    assert shares.log_prob(calor.asarray(at)).item() == pytest.approx(
        st.dirichlet([0.7, 2, 3]).logpdf(at)
    )
    assert shares.entropy().item() == pytest.approx(st.dirichlet([0.7, 2, 3]).entropy())
    x = shares.sample((4000,), key=calor.random.key(0)).numpy()
    np.testing.assert_allclose(x.mean(0), shares.mean.numpy(), atol=0.02)
    assert d.kl_divergence(shares, shares).item() == pytest.approx(0, abs=1e-12)


def test_made_of_others() -> None:
    base = d.Normal(wide(0.3, 0.1), 1.2)
    grouped = d.Independent(base, 1)
    assert (grouped.batch_shape, grouped.event_shape) == ((), (2,))
    assert grouped.log_prob(wide(1, 2)).item() == pytest.approx(
        base.log_prob(wide(1, 2)).sum().item()
    )
    assert d.kl_divergence(grouped, d.Independent(d.Normal(wide(0, 0), 1.0), 1)).shape == ()
    maps = [d.AffineTransform(1.0, -2.0), d.SigmoidTransform()]
    image = d.TransformedDistribution(base, maps)
    y = image.sample((5,), key=calor.random.key(0))
    np.testing.assert_allclose(image.icdf(image.cdf(y)).numpy(), y.numpy(), rtol=1e-8)
    step = 1e-6
    slope = (image.cdf(y + step) - image.cdf(y - step)) / (2 * step)
    np.testing.assert_allclose(image.log_prob(y).exp().numpy(), slope.numpy(), rtol=1e-6)
    mixed = d.MixtureSameFamily(d.Categorical(wide(0.3, 0.7)), d.Normal(wide(0, 3), wide(1, 0.5)))
    wanted = np.log(0.3 * st.norm(0, 1).pdf(0.4) + 0.7 * st.norm(3, 0.5).pdf(0.4))
    assert mixed.log_prob(wide(0.4)).tolist() == pytest.approx([wanted])
    x = mixed.sample((4000,), key=calor.random.key(0))
    assert x.mean().item() == pytest.approx(mixed.mean.item(), abs=0.15)
    assert x.var().item() == pytest.approx(mixed.variance.item(), rel=0.1)


TRANSFORMS = [
    d.ExpTransform(), d.TanhTransform(), d.SoftplusTransform(), d.PowerTransform(1.5),
    d.ComposeTransform([d.AffineTransform(0.5, 2.0), d.SigmoidTransform()]),
]  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: type(t).__name__)
def test_transforms_have_inverses_and_derivatives(transform: d.Transform) -> None:
    x = wide(0.2, 0.7, 1.4)
    y = transform(x)
    np.testing.assert_allclose(transform.inverse(y).numpy(), x.numpy(), rtol=1e-10)
    slope = calor.grad(lambda t: transform(t).sum())(x)
    found = transform.log_abs_det_jacobian(x, y).exp()
    np.testing.assert_allclose(found.numpy(), calor.abs(slope).numpy(), rtol=1e-10)


def test_numbers_keep_the_precision_of_the_parameters_and_jit_draws() -> None:
    assert d.Normal(wide(0.0), 0.1).scale.item() == 0.1
    assert d.Exponential(wide(0.3)).log_prob(0.1).dtype is calor.float64
    assert d.Normal(0.0, 1.0).sample().dtype is calor.float32
    draw = calor.jit(lambda a: d.Gamma(a, 1.0).rsample((3,)))
    a = calor.asarray(2.0)
    assert draw(a).tolist() != draw(a).tolist()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="either probs or logits"):
        d.Bernoulli()
    with pytest.raises(ArgumentError, match="not below high"):
        d.Uniform(1.0, 1.0)
    with pytest.raises(ArgumentError, match="give one of covariance_matrix"):
        d.MultivariateNormal(calor.zeros(2))
    with pytest.raises(ShapeError, match="do not fit"):
        d.MultivariateNormal(calor.zeros(3), calor.eye(2))
    with pytest.raises(ShapeError, match="one for each share"):
        d.Dirichlet(1.0)
    with pytest.raises(ShapeError, match="does not end in"):
        d.Dirichlet(calor.ones(3)).log_prob(calor.ones(2))
    with pytest.raises(ArgumentError, match="at most as many"):
        d.Independent(d.Normal(0.0, 1.0), 1)
    with pytest.raises(ShapeError, match="2 weights"):
        d.MixtureSameFamily(d.Categorical(calor.ones(2)), d.Normal(calor.zeros(3), 1.0))


def test_numbers_have_the_dtype_of_the_parameters() -> None:
    base = d.Normal(calor.asarray(0.0, dtype="float64"), calor.asarray(1.0, dtype="float64"))
    image = d.TransformedDistribution(base, [d.ExpTransform()])
    for made, wanted in ((image.cdf(0.1), st.lognorm(1).cdf(0.1)),
                         (image.icdf(0.1), st.lognorm(1).ppf(0.1))):  # fmt: skip
        assert made.dtype is calor.float64
        assert abs(float(made) / wanted - 1) < 1e-13


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (lambda s: d.HalfNormal(s), st.halfnorm(scale=7.5)),
        (lambda s: d.HalfCauchy(s), st.halfcauchy(scale=7.5)),
        (lambda s: d.Normal(calor.zeros_like(s), s), st.norm(scale=7.5)),
        (lambda s: d.Laplace(calor.zeros_like(s), s), st.laplace(scale=7.5)),
    ],
)
def test_values_of_fewer_digits_take_those_of_the_parameters(made: Any, wanted: Any) -> None:
    given = np.asarray([0.01, 0.7, 0.999], np.float32)
    own = made(calor.asarray(7.5, dtype="float64"))
    np.testing.assert_allclose(
        own.icdf(calor.asarray(given)).numpy(), wanted.ppf(np.float64(given)), rtol=1e-13
    )
    np.testing.assert_allclose(
        own.cdf(calor.asarray(given)).numpy(), wanted.cdf(np.float64(given)), rtol=1e-13
    )
