"""Distributions of whole numbers, given by probabilities and by their log-odds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ..functions.drawing import Rng
from .continuous import power
from .language import Density, betaln, lgamma, xlogy


def _chance(rng: Rng) -> float:
    """Return a probability, now and then near an end."""
    return float(rng.choice([rng.uniform(0.05, 0.95), power(rng, 1e-3, 0.1), 0.98]))


def _often(rng: Rng) -> float:
    return float(rng.uniform(0.03, 0.97))


def _bernoulli(x: Any, p: Any) -> Any:
    return xlogy(x, p) + xlogy(1 - x, 1 - p)


def _binomial(x: Any, n: Any, p: Any) -> Any:
    ways = lgamma(n + 1) - lgamma(x + 1) - lgamma(np.maximum(n - x, 0) + 1)
    return ways + xlogy(x, p) + xlogy(n - x, 1 - p)


def _negative(x: Any, n: Any, p: Any) -> Any:
    return -betaln(x + 1, n) - np.log(x + n) + xlogy(x, p) + n * np.log1p(-p)


def _poisson(x: Any, rate: Any) -> Any:
    return xlogy(x, rate) - rate - lgamma(x + 1)


def _trials(rng: Rng) -> tuple[float, float]:
    return float(rng.integers(1, 40)), _often(rng)


def _numbers(*_: Any) -> tuple[float, float]:
    return 0.0, np.inf


_ODDS: Final = [
    Density("Bernoulli", lambda rng: (_chance(rng),), _bernoulli, lambda p: (0.0, p * 0 + 1.0),
            lambda p: (p * 0, 1.0), whole=True),
    Density("Binomial", _trials, _binomial, lambda n, p: (0.0, n + 0 * p),
            lambda n, p: (np.floor(n * p), np.sqrt(n)), whole=True, kept=1, near=1e-4),
    Density("Geometric", lambda rng: (_often(rng),),
            lambda x, p: np.log(p) + xlogy(x, 1 - p), _numbers,
            lambda p: (np.floor(1 / p - 1), 1 / p), whole=True),
    Density("NegativeBinomial", lambda rng: (power(rng, 0.3, 12), float(rng.uniform(0.05, 0.8))),
            _negative, _numbers,
            lambda n, p: (np.floor(n * p / (1 - p)), (1 + np.sqrt(n)) / (1 - p)), whole=True,
            diverges=False, near=1e-4),
]  # fmt: skip


def _by(name: str, by: str) -> Any:
    """Return what makes a distribution whose last parameter is given by its name."""
    return lambda package, *others: getattr(package, name)(*others[:-1], **{by: others[-1]})


def _of_odds(family: Density) -> Density:
    """Return a family with the logarithm of the odds in place of the probability."""

    def chance(of: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: of(*given[:-1], 1 / (1 + np.exp(-np.asarray(given[-1]))))

    def draw(rng: Rng) -> tuple[float, ...]:
        *others, p = family.draw(rng)
        return (*others, float(np.log(p / (1 - p))))

    return replace(
        family, draw=draw, log=chance(family.log), support=chance(family.support),
        unit=chance(family.unit), make=_by(family.name, "logits"), about="logits",
    )  # fmt: skip


WHOLE: Final[list[Density]] = [
    *(replace(d, make=_by(d.name, "probs"), about="probs") for d in _ODDS),
    *(_of_odds(d) for d in _ODDS),
    Density("Poisson", lambda rng: (power(rng, 0.05, 60),), _poisson, _numbers,
            lambda rate: (np.floor(rate), 1 + np.sqrt(rate)), whole=True, near=1e-4),
]  # fmt: skip
