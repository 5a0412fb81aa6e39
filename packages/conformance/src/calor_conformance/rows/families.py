"""Families of random numbers: how one is drawn with parameters, and the share of it below x.

Requirements: the share is a closed form or a series written here, in Python's floats, so nothing is
shared with calor; parameters are drawn too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import calor

Rng = np.random.Generator
Share = Callable[[float], float]
# Draws a tensor of a shape, from a key and a dtype, at the parameters that were drawn.
Draw = Callable[..., Any]
INF: Final = math.inf


@dataclass(frozen=True)
class Family:
    """A family at drawn parameters.

    ``share`` is the share of numbers of at most x; ``whole`` says whether they are whole numbers.
    """

    parameters: tuple[float, ...]
    draw: Draw = field(repr=False)
    share: Share = field(repr=False)
    whole: bool = False


def bell(x: float) -> float:
    """Return the distribution function of the standard normal numbers."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def gamma_share(a: float, x: float) -> float:
    """Return the share of gamma numbers of shape a below x, by its power series."""
    if x <= 0:
        return 0.0
    term = total = 1.0 / a
    k = 0
    while term > 1e-17 * total:
        k += 1
        term *= x / (a + k)
        total += term
    return min(math.exp(a * math.log(x) - x - math.lgamma(a)) * total, 1.0)


def beta_share(a: float, b: float, x: float) -> float:
    """Return the share of beta numbers below x, by the series of the hypergeometric function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > a / (a + b):
        return 1.0 - beta_share(b, a, 1.0 - x)
    term = total = 1.0
    k = 0
    while term > 1e-17 * total and k < 100_000:
        term *= (a + b + k) / (a + 1 + k) * x
        total += term
        k += 1
    size = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(a * math.log(x) + b * math.log1p(-x) + size) / a * total


def _summed(of_each: Callable[[int], float]) -> Share:
    """Return the share of whole numbers of at most x from the probability of each."""
    return lambda x: math.fsum(of_each(k) for k in range(math.floor(x) + 1)) if x >= 0 else 0.0


def _named(name: str, *parameters: float, **options: Any) -> Draw:
    def draw(shape: tuple[int, ...], **given: Any) -> Any:
        return getattr(calor.random, name)(shape, *parameters, **options, **given)

    return draw


def _between(rng: Rng, low: float, high: float) -> float:
    return round(float(rng.uniform(low, high)), 3)


def _uniform(rng: Rng) -> Family:
    low = _between(rng, -3, 3)
    high = low + _between(rng, 0.1, 5)
    return Family(
        (low, high), _named("uniform", low, high),
        lambda x: min(max((x - low) / (high - low), 0.0), 1.0),
    )  # fmt: skip


def _scaled(name: str, standard: Share) -> Callable[[Rng], Family]:
    """Return a family of a place and a width."""

    def draw(rng: Rng) -> Family:
        place, width = _between(rng, -3, 3), _between(rng, 0.1, 4)
        share = lambda x: standard((x - place) / width)  # noqa: E731
        return Family((place, width), _named(name, place, width), share)

    return draw


def _truncated(rng: Rng) -> Family:
    mean, width = _between(rng, -2, 2), _between(rng, 0.2, 3)
    low = _between(rng, -2.5, 1)
    high = low + _between(rng, 0.3, 3)
    ends = bell(low), bell(high)

    def share(x: float) -> float:
        z = (x - mean) / width
        return (min(max(bell(z), ends[0]), ends[1]) - ends[0]) / (ends[1] - ends[0])

    return Family(
        (mean, width, low, high), _named("truncated_normal", mean, width, low=low, high=high), share
    )


def _exponential(rng: Rng) -> Family:
    scale = _between(rng, 0.1, 5)
    share = lambda x: -math.expm1(-max(x, 0.0) / scale)  # noqa: E731
    return Family((scale,), _named("exponential", scale), share)


def _gumbel(rng: Rng) -> Family:
    return Family((), _named("gumbel"), lambda x: math.exp(-math.exp(min(-x, 600.0))))


def _laplace(x: float) -> float:
    return 0.5 * math.exp(x) if x < 0 else 1 - 0.5 * math.exp(-x)


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -600 else 0.0


def _weibull(rng: Rng) -> Family:
    scale, shape = _between(rng, 0.3, 3), _between(rng, 0.6, 3)
    share = lambda x: -math.expm1(-((max(x, 0.0) / scale) ** shape))  # noqa: E731
    return Family((scale, shape), _named("weibull", scale=scale, concentration=shape), share)


def _pareto(rng: Rng) -> Family:
    alpha, scale = _between(rng, 0.8, 4), _between(rng, 0.3, 3)
    share = lambda x: 1 - (scale / x) ** alpha if x > scale else 0.0  # noqa: E731
    return Family((alpha, scale), _named("pareto", alpha=alpha, scale=scale), share)


def _log_normal(rng: Rng) -> Family:
    mean, width = _between(rng, -1, 1), _between(rng, 0.2, 1.2)
    share = lambda x: bell((math.log(x) - mean) / width) if x > 0 else 0.0  # noqa: E731
    return Family((mean, width), _named("log_normal", mean, width), share)


def _student(rng: Rng) -> Family:
    df, place, width = _between(rng, 0.7, 9), _between(rng, -2, 2), _between(rng, 0.3, 3)

    def share(x: float) -> float:
        t = (x - place) / width
        tail = 0.5 * beta_share(df / 2, 0.5, df / (df + t * t))
        return tail if t < 0 else 1 - tail

    return Family((df, place, width), _named("student_t", df, place, width), share)


def _gamma(rng: Rng) -> Family:
    a, scale = _between(rng, 0.3, 9), _between(rng, 0.3, 3)
    return Family((a, scale), _named("gamma", a, scale), lambda x: gamma_share(a, x / scale))


def _beta(rng: Rng) -> Family:
    a, b = _between(rng, 0.6, 6), _between(rng, 0.6, 6)
    return Family((a, b), _named("beta", a, b), lambda x: beta_share(a, b, x))


def _dirichlet(rng: Rng) -> Family:
    """One share of a Dirichlet number is a beta number."""
    each = [_between(rng, 0.7, 4) for _ in range(3)]
    one = int(rng.integers(3))

    def draw(shape: tuple[int, ...], **given: Any) -> Any:
        return calor.random.dirichlet(shape, tuple(each), **given)[..., one]

    return Family((*each, one), draw, lambda x: beta_share(each[one], sum(each) - each[one], x))


def _poisson(rng: Rng) -> Family:
    rate = _between(rng, 0.2, 8) if rng.random() < 0.5 else _between(rng, 12, 60)
    each = lambda k: math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))  # noqa: E731
    return Family((rate,), _named("poisson", rate), _summed(each), whole=True)


def _binomial(rng: Rng) -> Family:
    n, p = int(rng.integers(1, 90)), _between(rng, 0.05, 0.95)
    each = lambda k: math.comb(n, k) * p**k * (1 - p) ** (n - k)  # noqa: E731
    return Family((n, p), _named("binomial", n, p), _summed(each), whole=True)


def _geometric(rng: Rng) -> Family:
    p = _between(rng, 0.05, 0.9)
    share = lambda x: 1 - (1 - p) ** max(math.floor(x), 0)  # noqa: E731
    return Family((p,), _named("geometric", p), share, whole=True)


def _integers(rng: Rng) -> Family:
    low, span = int(rng.integers(-40, 40)), int(rng.integers(1, 50))
    share = lambda x: min(max((math.floor(x) - low + 1) / span, 0.0), 1.0)  # noqa: E731

    def draw(shape: tuple[int, ...], *, dtype: Any, key: Any) -> Any:
        return calor.random.integers(low, low + span, shape, key=key)

    return Family((low, low + span), draw, share, whole=True)


def _categorical(rng: Rng) -> Family:
    logits = rng.normal(size=int(rng.integers(2, 9))) * 1.5
    share = np.cumsum(np.exp(logits) / np.exp(logits).sum())

    def draw(shape: tuple[int, ...], *, dtype: Any, key: Any) -> Any:
        rows = calor.asarray(np.broadcast_to(logits, (*shape, logits.size)).astype(np.float32))
        return calor.random.categorical(rows, key=key)

    def below(x: float) -> float:
        return float(share[min(math.floor(x), logits.size - 1)]) if x >= 0 else 0.0

    return Family(tuple(logits.round(3).tolist()), draw, below, whole=True)


def _bernoulli(rng: Rng) -> Family:
    p = _between(rng, 0.02, 0.98)

    def draw(shape: tuple[int, ...], *, dtype: Any, key: Any) -> Any:
        return calor.random.bernoulli(shape, p, key=key)

    return Family((p,), draw, lambda x: 0.0 if x < 0 else 1 - p if x < 1 else 1.0, whole=True)


# Those of calor, and those that calor-numerics adds.
CORE: Final[dict[str, Callable[[Rng], Family]]] = {
    "uniform": _uniform, "normal": _scaled("normal", bell), "truncated_normal": _truncated,
    "exponential": _exponential, "gumbel": _gumbel, "integers": _integers,
    "categorical": _categorical, "bernoulli": _bernoulli,
}  # fmt: skip
FURTHER: Final[dict[str, Callable[[Rng], Family]]] = {
    "laplace": _scaled("laplace", _laplace), "logistic": _scaled("logistic", _logistic),
    "cauchy": _scaled("cauchy", lambda x: 0.5 + math.atan(x) / math.pi), "weibull": _weibull,
    "pareto": _pareto, "log_normal": _log_normal, "student_t": _student, "gamma": _gamma,
    "beta": _beta, "dirichlet": _dirichlet, "poisson": _poisson, "binomial": _binomial,
    "geometric": _geometric,
}  # fmt: skip
