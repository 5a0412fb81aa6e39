"""Distributions whose parameters leave one outcome: all that they say is that of one number.

A probability of 0 or 1, no trials, a rate of 0, and weights of which one is not 0 are ends of what
parameters may be. There the mean and the mode are the outcome, nothing varies, its logarithm of a
probability is 0, and every sample is it. Other elements of the batch have ordinary parameters, so
formulas for both meet in one call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, float64, int64, uint32

from .base import Array, Check, Place

CONTRACT: Final = "a distribution whose parameters leave one outcome is certain of it"
PACKAGE: Final = "calor_distributions"
# A logarithm of a probability is a difference of logarithms of counts.
_TURNS, _NEAR = 3, 2e-5
Rng = np.random.Generator
Parameters = dict[str, Array]


class _Case(NamedTuple):
    """A class, and what draws parameters of a batch with the outcomes of the certain ones."""

    name: str
    draw: Callable[[Rng, int], tuple[Parameters, Array]]
    event: int = 0


def _ends(rng: Rng, n: int, *certain: float) -> Array:
    """Return probabilities of which about half are ends, and one of each is."""
    made = np.where(rng.random(n) < 0.5, rng.choice(certain, n), rng.uniform(0.1, 0.9, n))
    made[rng.permutation(n)[: len(certain)]] = certain
    return made


def _logits(p: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p))


def _form(rng: Rng, p: Array) -> Parameters:
    return {"logits": _logits(p)} if rng.random() < 0.4 else {"probs": p}


def _bernoulli(rng: Rng, n: int) -> tuple[Parameters, Array]:
    p = _ends(rng, n, 0.0, 1.0)
    return _form(rng, p), np.where((p == 0) | (p == 1), p, np.nan)


def _binomial(rng: Rng, n: int) -> tuple[Parameters, Array]:
    p, count = _ends(rng, n, 0.0, 1.0), rng.integers(0, 30, n).astype(float)
    certain = (p == 0) | (p == 1) | (count == 0)
    # The parameter comes first, and the probability by its name.
    return {"total_count": count, **_form(rng, p)}, np.where(certain, count * (p == 1), np.nan)


def _geometric(rng: Rng, n: int) -> tuple[Parameters, Array]:
    p = _ends(rng, n, 1.0)
    return _form(rng, p), np.where(p == 1, 0.0, np.nan)


def _negative(rng: Rng, n: int) -> tuple[Parameters, Array]:
    p, count = _ends(rng, n, 0.0), rng.uniform(0.5, 9, n)
    return {"total_count": count, **_form(rng, p)}, np.where(p == 0, 0.0, np.nan)


def _poisson(rng: Rng, n: int) -> tuple[Parameters, Array]:
    rate = _ends(rng, n, 0.0) * 4
    return {"rate": rate}, np.where(rate == 0, 0.0, np.nan)


def _weights(rng: Rng, n: int) -> tuple[Parameters, Array]:
    """Draw weights of which one is not 0, or of which two are."""
    many = int(rng.integers(2, 6))
    weights, place = np.zeros((n, many)), rng.integers(0, many, n)
    weights[np.arange(n), place] = rng.uniform(0.2, 3, n)
    both = rng.random(n) < 0.4
    weights[both, (place[both] + 1) % many] = rng.uniform(0.2, 3, int(both.sum()))
    with np.errstate(divide="ignore"):
        logits = np.log(weights)
    given = {"logits": logits} if rng.random() < 0.4 else {"probs": weights}
    return given, np.where(both, np.nan, place)


def _one_hot(rng: Rng, n: int) -> tuple[Parameters, Array]:
    given, place = _weights(rng, n)
    many = next(iter(given.values())).shape[-1]
    known = np.nan_to_num(place).astype(int)
    return given, np.where(np.isnan(place)[:, None], np.nan, np.eye(many)[known])


_CASES: Final = (
    _Case("Bernoulli", _bernoulli), _Case("Binomial", _binomial), _Case("Geometric", _geometric),
    _Case("NegativeBinomial", _negative), _Case("Poisson", _poisson),
    _Case("Categorical", _weights), _Case("OneHotCategorical", _one_hot, 1),
)  # fmt: skip


def _numbers(t: Any) -> Array:
    return np.asarray(t.numpy(), np.float64)


def _one(case: _Case, rng: Rng, place: Place) -> None:
    package, n = import_module(PACKAGE), int(rng.integers(4, 9))
    parameters, outcome = case.draw(rng, n)
    double = place.plain.info.supports("mul", float64) and rng.random() < 0.3
    kind = float64 if double else float32
    given = {name: calor.asarray(p, dtype=kind) for name, p in parameters.items()}
    made = getattr(package, case.name)(**given)
    told = f"{case.name}({', '.join(f'{k}={p.tolist()}' for k, p in parameters.items())})"
    certain = ~np.isnan(outcome if not case.event else outcome[:, 0])
    want = outcome[certain]

    def of(name: str, found: Any, due: Any) -> None:
        got = _numbers(found)[..., certain, :] if case.event else _numbers(found)[..., certain]
        _same(name, got, due)

    def of_batch(name: str, found: Any, due: Any) -> None:
        _same(name, _numbers(found)[..., certain], due)

    def _same(name: str, got: Array, due: Any) -> None:
        near = np.isclose(got, np.broadcast_to(due, got.shape), rtol=1e-6, atol=_NEAR)
        assert near.all(), f"{name} of {told}: {got.tolist()}, not {np.asarray(due).tolist()}"

    # Indices have no mean.
    if case.name != "Categorical":
        of("mean", made.mean, want)
        of("variance", made.variance, np.zeros_like(want))
    of("mode", made.mode, want)
    key = calor.random.key(int(rng.integers(1 << 62)))
    of("samples", made.sample((20,), key=key), want)
    at = calor.asarray(np.nan_to_num(outcome), dtype=kind)
    of_batch("log_prob of the outcome", made.log_prob(at), 0.0)
    if not case.event and case.name != "Categorical":
        of_batch("log_prob of another number", made.log_prob(at + 1), -np.inf)
    if type(made).entropy is not package.Distribution.entropy:
        of_batch("entropy", made.entropy(), 0.0)


def _run(case: _Case, place: Place) -> None:
    for turn in range(_TURNS):
        if place.tries(turn, _TURNS):
            rng = np.random.default_rng([place.seed, crc32(case.name.encode()), 77, turn])
            _one(case, rng, place)


def certain_outcomes() -> Iterator[Check]:
    """Yield a check of each class, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for case in _CASES:
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.certain-{case.name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, case),
            text=partial(inspect.getsource, case.draw),
            dtypes=(float32, int64, uint32, bool_),
            features=("control_flow",),
            looks=True,
        )
