"""Functions in pairs of which one is tiny where the other is nearly 1.

Whoever computes one as 1 less the other is right within a rounding of 1, and has no correct digit
where the result is small. Arguments span many decades, and each result is compared relative to
itself. What is due is computed in float64 by Python's functions, and for the incomplete gamma
functions by the series of the lower and the continued fraction of the upper one. A rounding of an
argument changes some results by many units, which are allowed for.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import numpy as np

import calor
from calor.dtypes import DType, float32, float64

from ..rows.language import limits_of
from .base import Array, Check, Place

CONTRACT: Final = "both functions of a complementary pair keep their digits where they are tiny"
_COUNT = 36
_ROOM: Final = 48
# Roundings of arguments that a function may make before it computes.
_STEPS: Final = 6
Rng = np.random.Generator
Draw = Callable[[Rng, int, float], list[Array]]


def _decades(low: float, high: float, *, signs: bool = False) -> Draw:
    """Draw sizes between powers of 10; ``high`` is for float32, twice as far down in float64."""

    def draw(rng: Rng, n: int, more: float) -> list[Array]:
        size = 10 ** rng.uniform(low * more, high, n)
        return [size * rng.choice((-1, 1), n) if signs else size]

    return draw


def _between(low: float, high: float) -> Draw:
    """Draw numbers between two, in float64 of wider ends."""
    return lambda rng, n, more: [rng.uniform(low * math.sqrt(more), high * math.sqrt(more), n)]


def _shapes(rng: Rng, n: int, more: float) -> list[Array]:
    """Draw shapes, and arguments on both sides of them."""
    a = 10 ** rng.uniform(-1, 2, n)
    return [a, a * 10 ** rng.permutation(np.linspace(-2, 1.3, n))]


def gamma_parts(a: float, x: float) -> tuple[float, float]:
    """Return the lower and the upper incomplete gamma function, both with their digits."""
    front = a * math.log(x) - x - math.lgamma(a)
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, 5000):
            term *= x / (a + n)
            total += term
            if term < total * 1e-18:
                break
        lower = math.exp(front) * total
        return lower, 1 - lower
    # Lentz's form of the continued fraction.
    b = x + 1 - a
    c, d = 1e300, 1 / b
    h = d
    for n in range(1, 5000):
        factor = -n * (n - a)
        b += 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        h *= d * c
        if abs(d * c - 1) < 1e-17:
            break
    upper = math.exp(front) * h
    return 1 - upper, upper


def _ndtr(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _log_ndtr(x: float) -> float:
    return math.log1p(-_ndtr(-x)) if x > 0 else math.log(_ndtr(x))


def _sigmoid(x: float) -> float:
    return math.exp(x) / (1 + math.exp(x)) if x < 0 else 1 / (1 + math.exp(-x))


def _softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def _of(name: str, *parameters: float, method: str = "cdf") -> Callable[..., Any]:
    """Return a method of a distribution as a function of its argument."""

    def call(x: Any) -> Any:
        family = getattr(calor.distributions, name)
        made = family(*(calor.full((), p, dtype=x.dtype) for p in parameters))
        return getattr(made, method)(x)

    return call


def _special(name: str) -> Callable[..., Any]:
    """Return a function of calor.special, which is looked up at the call: it may be missing."""
    return lambda *arguments: getattr(calor.special, name)(*arguments)


def _quantile(name: str, *parameters: float) -> Callable[..., Any]:
    return _of(name, *parameters, method="icdf")


def _tangent(p: float) -> float:
    """Return the tangent of p half turns less a quarter, which is large for a small p."""
    return -1 / math.tan(math.pi * p)


class _Pair(NamedTuple):
    """A function, what is due, its arguments, and the op that a device has for it."""

    call: Callable[..., Any]
    due: Callable[..., float]
    draw: Draw
    op: str = ""


_WIDE, _TAIL = _decades(-18, 0.3, signs=True), _between(-11, 6)
_SMALL = _decades(-15, 0.5)
FUNCTIONS: Final[dict[str, _Pair]] = {
    "erf": _Pair(calor.erf, math.erf, _WIDE, "erf"),
    "erfc": _Pair(calor.erfc, math.erfc, _between(-2, 9), "erfc"),
    "expm1": _Pair(calor.expm1, math.expm1, _WIDE, "expm1"),
    "log1p": _Pair(calor.log1p, math.log1p, _decades(-18, -0.1, signs=True), "log1p"),
    "sinh": _Pair(calor.sinh, math.sinh, _WIDE, "sinh"),
    "tanh": _Pair(calor.tanh, math.tanh, _WIDE, "tanh"),
    "asinh": _Pair(calor.asinh, math.asinh, _WIDE, "asinh"),
    "atanh": _Pair(calor.atanh, math.atanh, _decades(-18, -0.1, signs=True), "atanh"),
    "ndtr": _Pair(calor.ndtr, _ndtr, _TAIL, "ndtr"),
    "log_ndtr": _Pair(calor.log_ndtr, _log_ndtr, _TAIL, "log_ndtr"),
    "sigmoid": _Pair(calor.sigmoid, _sigmoid, _between(-80, 20), "sigmoid"),
    "softplus": _Pair(calor.softplus, _softplus, _between(-80, 20), "softplus"),
    "gammainc": _Pair(
        _special("gammainc"), lambda a, x: gamma_parts(a, x)[0], _shapes, "special.gammainc"),
    "gammaincc": _Pair(
        _special("gammaincc"), lambda a, x: gamma_parts(a, x)[1], _shapes, "special.gammaincc"),
    "Normal": _Pair(_of("Normal", 0, 1), _ndtr, _TAIL),
    "LogNormal": _Pair(
        _of("LogNormal", 0, 1), lambda x: _ndtr(math.log(x)), _decades(-4, 1)),
    "Laplace": _Pair(
        _of("Laplace", 0, 1),
        lambda x: math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2, _between(-80, 9)),
    "Cauchy": _Pair(
        _of("Cauchy", 0, 1), lambda x: math.atan2(1, -x) / math.pi,
        lambda rng, n, more: [-(10 ** rng.uniform(-1, 9 * more, n))]),
    "Gumbel": _Pair(
        _of("Gumbel", 0, 1), lambda x: math.exp(-math.exp(-x)), _between(-4, 3)),
    "Exponential": _Pair(_of("Exponential", 1), lambda x: -math.expm1(-x), _SMALL),
    "Weibull": _Pair(_of("Weibull", 1, 2), lambda x: -math.expm1(-x * x), _SMALL),
    "HalfNormal": _Pair(_of("HalfNormal", 1), lambda x: math.erf(x / math.sqrt(2)), _SMALL),
    "HalfCauchy": _Pair(_of("HalfCauchy", 1), lambda x: math.atan(x) * 2 / math.pi, _SMALL),
    "Gamma": _Pair(_of("Gamma", 3, 1), lambda x: gamma_parts(3, x)[0], _decades(-9, 1)),
    "Chi2": _Pair(_of("Chi2", 4), lambda x: gamma_parts(2, x / 2)[0], _decades(-9, 1)),
    "InverseGamma": _Pair(
        _of("InverseGamma", 3, 1), lambda x: gamma_parts(3, 1 / x)[1], _decades(-1.7, 3)),
    "quantile of Laplace": _Pair(
        _quantile("Laplace", 0, 1), lambda p: math.log(2 * p), _decades(-18, -0.4)),
    "quantile of Cauchy": _Pair(_quantile("Cauchy", 0, 1), _tangent, _decades(-18, -0.4)),
    "quantile of HalfCauchy": _Pair(
        _quantile("HalfCauchy", 1), lambda p: math.tan(p * math.pi / 2), _decades(-18, -0.4)),
    "quantile of Exponential": _Pair(
        _quantile("Exponential", 1), lambda p: -math.log1p(-p), _decades(-18, -0.4)),
}  # fmt: skip


def _due(pair: _Pair, given: list[Array], eps: float) -> tuple[Array, Array]:
    """Return results in float64, and how far a rounding of each argument moves them."""

    def at(*arrays: Array) -> Array:
        rows = zip(*(a.astype(np.float64).tolist() for a in arrays), strict=True)
        return np.array([pair.due(*row) for row in rows])

    exact = at(*given)
    moved = np.zeros_like(exact)
    for k, x in enumerate(given):
        beside = [*given]
        beside[k] = x.astype(np.float64) * (1 + 64 * eps)
        moved += np.abs(at(*beside) - exact) / 64
    return exact, moved


def _run(name: str, dtype: DType, place: Place) -> None:
    pair = FUNCTIONS[name]
    limits = limits_of(dtype.numpy)
    eps, more = float(limits.eps) / 2, 1.0 if dtype is float32 else 5.0
    rng = np.random.default_rng([place.seed, 303, *name.encode()])
    given = [x.astype(dtype.numpy) for x in pair.draw(rng, _COUNT, more)]
    exact, moved = _due(pair, given, eps)
    kept = (np.abs(exact) > 8 * float(limits.tiny)) & (np.abs(exact) < float(limits.max) / 8)
    given, exact, moved = [x[kept] for x in given], exact[kept], moved[kept]
    got = place.call(pair.call, *map(calor.asarray, given)).numpy().astype(np.float64)
    # An exponent of many digits has a rounding of its own.
    within = (_ROOM + 2 * np.abs(np.log(np.abs(exact)))) * eps * np.abs(exact) + _STEPS * moved
    # Oracles of the gamma functions add up in float64 as well.
    within += 1e-12 * np.abs(exact)
    off = np.abs(got - exact)
    if not (off <= within).all():
        at = int(np.argmax(np.where(np.isfinite(off), off / within, np.inf)))
        arguments = ", ".join(repr(x[at]) for x in given)
        raise AssertionError(
            f"{name} of {dtype} at {arguments} is {got[at]!r}, not {exact[at]!r}: "
            f"{off[at] / abs(exact[at]):.2g} of it, {within[at] / abs(exact[at]):.2g} allowed"
        )


def _package(name: str, pair: _Pair) -> str:
    """Return the package that has a function."""
    if not pair.op:
        return "calor_distributions"
    return "calor" if hasattr(calor, name) else "calor_special"


def tiny_complements() -> Iterator[Check]:
    """Yield a check of each function in both wide dtypes."""
    for name, pair in FUNCTIONS.items():
        if find_spec(_package(name, pair)) is None:
            continue
        for dtype in (float32, float64):
            yield Check(
                kind="accuracy",
                subject=f"tiny-{name.replace(' ', '-')}",
                tier="full",
                contract=CONTRACT,
                run=partial(_run, name, dtype),
                text=partial(inspect.getsource, _run),
                op=pair.op,
                dtype=dtype,
                dtypes=(dtype,),
                looks=True,
            )
