"""Distributions of one real number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..functions.drawing import Rng
from .language import Density, betaln, lgamma, xlogy

INF: Final = np.inf
_NAN: Final = np.nan


def power(rng: Rng, low: float, high: float) -> float:
    """Return a number between ends whose logarithm is uniform."""
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def _place(rng: Rng) -> float:
    return float(rng.choice([0.0, rng.normal() * 3, rng.normal() * 50], p=[0.2, 0.6, 0.2]))


def _placed(rng: Rng) -> tuple[float, float]:
    return _place(rng), power(rng, 0.05, 50)


def _scaled(rng: Rng) -> tuple[float]:
    return (power(rng, 0.01, 100),)


def _line(*_: Any) -> tuple[float, float]:
    return -INF, INF


def _half(*_: Any) -> tuple[float, float]:
    return 0.0, INF


def _of_both(loc: Any, scale: Any) -> tuple[Any, Any]:
    return loc, scale


def _of_scale(scale: Any) -> tuple[Any, Any]:
    return scale, scale


def _standard(log: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the log density of loc + scale · z from that of z."""
    return lambda x, loc, scale: log((x - loc) / scale) - np.log(scale)


def _bell(z: Any) -> Any:
    return -0.5 * z * z - 0.5 * math.log(2 * math.pi)


def _witch(z: Any) -> Any:
    return -np.log(math.pi) - np.log1p(z * z)


def _halved(log: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, scale: math.log(2) + log(x / scale) - np.log(scale)


def _gamma(x: Any, a: Any, rate: Any) -> Any:
    return a * np.log(rate) + xlogy(a - 1, x) - rate * x - lgamma(a)


def _inverse_gamma(x: Any, a: Any, rate: Any) -> Any:
    made = a * np.log(rate) - (a + 1) * np.log(x) - rate / x - lgamma(a)
    return np.where(x > 0, made, -INF)


def _beta(x: Any, a: Any, b: Any) -> Any:
    return xlogy(a - 1, x) + xlogy(b - 1, 1 - x) - betaln(a, b)


def _student(x: Any, df: Any, loc: Any, scale: Any) -> Any:
    z = (x - loc) / scale
    return -(df + 1) / 2 * np.log1p(z * z / df) - betaln(df / 2, 0.5) - np.log(df) / 2 - np.log(
        scale)  # fmt: skip


def _log_normal(x: Any, loc: Any, scale: Any) -> Any:
    made = _bell((np.log(x) - loc) / scale) - np.log(x) - np.log(scale)
    return np.where(x > 0, made, -INF)


def _weibull(x: Any, scale: Any, a: Any) -> Any:
    z = x / scale
    made = np.log(a / scale) + xlogy(a - 1, z) - z**a
    # At 0 there is no density that all agree on.
    return np.where(x > 0, made, -INF)


def _apart(rng: Rng, *ends: tuple[float, float]) -> float:
    """Return a number between one of pairs of ends."""
    return power(rng, *ends[int(rng.integers(len(ends)))])


def _tails(index: Any, mean: Any) -> tuple[Any, Any]:
    """Return the moments of tails that fall with an index, where they are infinite."""
    return np.where(index <= 1, mean, 0), np.where(index <= 1, mean, np.where(index <= 2, INF, 0))


# Where a tail's index is a little above 1 or 2, integrals to infinity converge slowly.
_INDICES: Final = ((0.3, 0.95), (1.35, 1.95), (2.5, 30.0))

CONTINUOUS: Final[list[Density]] = [
    Density("Normal", _placed, _standard(_bell), _line, _of_both),
    Density("LogNormal", lambda rng: (rng.normal(), power(rng, 0.1, 1.3)), _log_normal, _half,
            lambda loc, scale: (np.exp(loc), np.exp(loc)), near=1e-4),
    Density("HalfNormal", _scaled, _halved(_bell), _half, _of_scale),
    Density("Cauchy", _placed, _standard(_witch), _line, _of_both,
            moments=lambda loc, scale: (loc * _NAN, loc * 0 + INF)),
    Density("HalfCauchy", _scaled, _halved(_witch), _half, _of_scale,
            moments=lambda scale: (scale * INF, scale * INF)),
    Density("Laplace", _placed, _standard(lambda z: -np.abs(z) - math.log(2)), _line, _of_both),
    Density("Gumbel", _placed, _standard(lambda z: -z - np.exp(-z)), _line, _of_both),
    Density("Uniform", lambda rng: ((low := _place(rng)), low + power(rng, 0.1, 50)),
            lambda x, low, high: np.where(x < high, -np.log(high - low), -INF),
            lambda low, high: (low, high), lambda low, high: ((low + high) / 2, high - low)),
    Density("Exponential", _scaled, lambda x, rate: np.log(rate) - rate * x, _half,
            lambda rate: (1 / rate, 1 / rate)),
    Density("Weibull", lambda rng: (power(rng, 0.05, 50), power(rng, 0.6, 6)), _weibull, _half,
            lambda scale, a: (scale, scale), diverges=False, near=1e-4),
    Density("Pareto", lambda rng: (power(rng, 0.05, 50), _apart(rng, *_INDICES)),
            lambda x, scale, a: np.log(a / scale) - (a + 1) * np.log(x / scale),
            lambda scale, a: (scale, INF), lambda scale, a: (scale * 1.5, scale / a),
            moments=lambda scale, a: _tails(a, INF), near=1e-4),
    Density("Gamma", lambda rng: (power(rng, 0.2, 100), power(rng, 0.05, 50)), _gamma, _half,
            lambda a, rate: (a / rate, np.sqrt(a) / rate), near=1e-4),
    Density("Chi2", lambda rng: (power(rng, 0.5, 100),),
            lambda x, df: _gamma(x, df / 2, 0.5), _half, lambda df: (df, np.sqrt(2 * df)),
            near=1e-4),
    Density("InverseGamma", lambda rng: (_apart(rng, *_INDICES), power(rng, 0.05, 50)),
            _inverse_gamma, _half, lambda a, rate: (rate / a, rate / a),
            moments=lambda a, rate: _tails(a, INF), near=1e-4),
    Density("Beta", lambda rng: (power(rng, 0.5, 60), power(rng, 0.5, 60)), _beta,
            lambda *_: (0.0, 1.0), lambda a, b: (a / (a + b), 1.0), transported=False, near=1e-4),
    Density("StudentT", lambda rng: (_apart(rng, *_INDICES), *_placed(rng)), _student, _line,
            lambda df, loc, scale: (loc, scale),
            moments=lambda df, loc, scale: _tails(df, _NAN), transported=False, diverges=False,
            near=1e-4),
]  # fmt: skip
