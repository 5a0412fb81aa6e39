"""Windows of signals at drawn lengths and parameters, by their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, coin
from .language import Row

_ASKS: Final = "nan infinite zeros ties equal large small limits"
# How a window depends on its place, from 0 to a span, and its parameters.
Formula = Callable[..., Any]


def _cosines(*terms: float) -> Formula:
    return lambda k, n: sum(
        (-1) ** j * a * np.cos(2 * math.pi * j * k / n) for j, a in enumerate(terms)
    )


def _bessel(x: Array) -> Array:
    places = (np.arange(400) + 0.5) * math.pi / 400
    return np.asarray(np.exp(np.asarray(x)[..., None] * np.cos(places)).mean(-1))


def _kaiser(k: Array, n: float, beta: float = 12.0) -> Any:
    inside = np.sqrt(np.maximum(1 - (2 * k / n - 1) ** 2, 0))
    return _bessel(beta * inside) / _bessel(np.array(beta))


def _exponential(k: Array, n: float, tau: float = 1.0, center: Any = None) -> Any:
    return np.exp(-np.abs(k - (n / 2 if center is None else center)) / tau)


def _drawn(**choices: tuple[Any, ...]) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        options: dict[str, Any] = {
            name: some[int(rng.integers(len(some)))] for name, some in choices.items() if coin(rng)
        }
        if coin(rng):
            options["sym"] = coin(rng)
        if "center" in options:
            options["sym"] = False
        count = int(rng.choice((0, 1, 2, 3, 8, 9) if rng.ask != "long" else (16, 33)))
        return [count], options

    return drawn


def _meaning(of: Formula) -> Formula:
    def meaning(count: int, *, sym: bool = True, **options: Any) -> Any:
        if count < 2:
            return np.ones(count)
        return np.asarray(of(np.arange(count, dtype=float), count - 1 if sym else count, **options))

    return meaning


def _general(k: Array, n: float, a: tuple[float, ...] = ()) -> Any:
    return _cosines(*a)(k, n)


_OF: Final[dict[str, tuple[Formula, dict[str, tuple[Any, ...]]]]] = {
    "bartlett": (lambda k, n: 1 - np.abs(2 * k / n - 1), {}),
    "blackman": (_cosines(0.42, 0.5, 0.08), {}),
    "cosine": (lambda k, n: np.sin(math.pi * (k + 0.5) / (n + 1)), {}),
    "exponential": (_exponential, {"tau": (0.5, 3.0), "center": (0.0, 2.5)}),
    "gaussian": (
        lambda k, n, std=1.0: np.exp(-0.5 * ((k - n / 2) / std) ** 2), {"std": (0.5, 3.0)}),
    "general_hamming": (
        lambda k, n, alpha=0.54: _cosines(alpha, 1 - alpha)(k, n), {"alpha": (0.5, 0.7)}),
    "hamming": (_cosines(0.54, 0.46), {}), "hann": (_cosines(0.5, 0.5), {}),
    "kaiser": (_kaiser, {"beta": (0.0, 5.0, 14.0)}),
    "nuttall": (_cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411), {}),
}  # fmt: skip


def _with_terms(rng: Rng) -> Arguments:
    (count,), options = _drawn()(rng)
    terms = [round(float(v), 2) for v in rng.uniform(0.1, 0.6, int(rng.integers(1, 5)))]
    return [count, terms], options


ROWS: Final[list[Row]] = [
    *(Row(name, _drawn(**choices), _meaning(of), without=_ASKS)
      for name, (of, choices) in _OF.items()),
    Row("general_cosine", _with_terms,
        lambda count, a, **more: _meaning(_general)(count, a=tuple(a), **more), without=_ASKS),
]  # fmt: skip
